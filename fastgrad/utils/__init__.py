"""What models are trained with beside modules and optimizers."""

from fastgrad.module_names import getattr_of as _getattr_of
from fastgrad.utils import checkpoint, data, graphed, hooks, native_hooks

__all__ = ["checkpoint", "data", "graphed", "hooks", "native_hooks"]

__getattr__ = _getattr_of(__name__)
