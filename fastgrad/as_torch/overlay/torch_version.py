"""The version of PyTorch's interface."""

from fastgrad.as_torch import versions
from fastgrad.as_torch.versions import TorchVersion

__all__ = ["TorchVersion", "__version__"]

__version__ = versions.VERSION
