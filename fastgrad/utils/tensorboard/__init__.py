"""Event files for TensorBoard; PyTorch's ``torch.utils.tensorboard``. Needs the package ``tensorboard``."""

try:
    import tensorboard as _tensorboard  # noqa: F401 - is it there?
except ImportError as _error:
    raise ImportError(
        'fastgrad.utils.tensorboard needs the package tensorboard: pip install "fastgrad[tensorboard]"',
        name="tensorboard",
    ) from _error

from fastgrad.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
