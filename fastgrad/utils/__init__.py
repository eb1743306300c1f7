"""What models are trained with beside modules and optimizers."""

from fastgrad.utils import checkpoint, data, graphed, hooks, native_hooks

__all__ = ["checkpoint", "data", "graphed", "hooks", "native_hooks"]
