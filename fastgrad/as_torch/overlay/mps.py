"""Apple's GPUs, which fastgrad does not use: there is none."""

from __future__ import annotations

from fastgrad.as_torch.overlay.xpu import device_count, empty_cache, is_available, manual_seed

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed"]
