"""The meta device: its tensors have sizes, strides, dtypes and histories, and no elements (Note [Nowhere])."""

from __future__ import annotations

from typing import Any

from fastgrad.native.contracts.limits import META, NOWHERE
from fastgrad.native.host import devices

NAME = "meta"
NO_DATA = (
    "Cannot copy out of meta tensor; no data! A tensor on the meta device has sizes, strides and a dtype alone: "
    "make one elsewhere with empty_like(x, device=...), or move a module with Module.to_empty(device=...)"
)


def _resolve(kernel: Any, dtype: int, layout_class: int) -> int:
    """What stands for a kernel of the device, which runs none; nothing can be read from there."""
    if kernel.name == "download":
        raise NotImplementedError(NO_DATA)
    return NOWHERE


def _register() -> None:
    devices.register_device(NAME, META, _resolve, devices.Routines(NOWHERE, NOWHERE, NOWHERE))


def install() -> None:
    """Let the device be known once a program names it."""
    devices.bring_with(NAME, _register, lambda: 1)
