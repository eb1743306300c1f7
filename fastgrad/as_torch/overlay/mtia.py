"""Devices that fastgrad does not use: there is none."""

from __future__ import annotations

from fastgrad.as_torch.overlay.xpu import device_count, is_available, is_initialized

__all__ = ["device_count", "is_available", "is_initialized"]
