"""What models are trained with beside modules and optimizers."""

from fastgrad.utils import checkpoint, hooks

__all__ = ["checkpoint", "hooks"]
