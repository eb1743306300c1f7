"""What models are trained with beside modules and optimizers."""

from fastgrad.absent import absent_from as _absent_from
from fastgrad.utils import checkpoint, data, graphed, hooks, native_hooks

__all__ = ["checkpoint", "data", "graphed", "hooks", "native_hooks"]

__getattr__ = _absent_from(__name__)
