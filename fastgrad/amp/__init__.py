"""Mixed precision: `autocast`, which chooses dtypes op by op, and `GradScaler`, which keeps small gradients from
vanishing in float16.
"""

from fastgrad.amp.autocast_mode import (
    autocast,
    clear_autocast_cache,
    custom_bwd,
    custom_fwd,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_cache_enabled,
    is_autocast_enabled,
)
from fastgrad.amp.grad_scaler import GradScaler
from fastgrad.module_names import getattr_of as _getattr_of

__all__ = [
    "GradScaler",
    "autocast",
    "clear_autocast_cache",
    "custom_bwd",
    "custom_fwd",
    "get_autocast_dtype",
    "is_autocast_available",
    "is_autocast_cache_enabled",
    "is_autocast_enabled",
]

__getattr__ = _getattr_of(__name__)
