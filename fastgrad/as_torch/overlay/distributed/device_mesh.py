"""Processes as a grid, for tensors that they share, of which there are none. The classes are missing."""

from __future__ import annotations

from fastgrad.as_torch.absent import absent_function

__all__ = ["init_device_mesh"]

init_device_mesh = absent_function("torch.distributed.device_mesh", "init_device_mesh")
