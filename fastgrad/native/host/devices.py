"""Devices: who compiles the kernels of which column of the kernel table, and what happens when one is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastgrad.native.build.loader import runtime_set_callback
from fastgrad.native.contracts.limits import N_DEVICES, N_DTYPES, N_LAYOUTS

Resolver = Callable[[Any, int, int], int]

NAMES: dict[str, int] = {}
_resolvers: dict[int, Resolver] = {}
_kernels: list[Any] = []
failures: list[BaseException] = []
"""What went wrong in the last compilation; the error of the op that needed the kernel carries it."""


def register_device(name: str, index: int, resolver: Resolver) -> None:
    """Make a device known.

    Parameters
    ----------
    name : str
        What users call it.
    index : int
        Its column of the kernel table.
    resolver : callable
        From kernel, dtype code and layout class to the address of a function ``void(int64 frame)``.
    """
    if not 0 <= index < N_DEVICES:
        raise ValueError(f"device index must be in 0..{N_DEVICES - 1}, but got {index}")
    NAMES[name] = index
    _resolvers[index] = resolver


def name_of(index: int) -> str:
    """The name of a device."""
    return next(name for name, known in NAMES.items() if known == index)


def place(cell: int) -> tuple[Any, int, int, int]:
    """The kernel, device, dtype code and layout class of a cell of the kernel table."""
    rest, layout_class = divmod(cell, N_LAYOUTS)
    rest, dtype = divmod(rest, N_DTYPES)
    kernel, device = divmod(rest, N_DEVICES)
    return _kernels[kernel], device, dtype, layout_class


def install(kernels: list[Any]) -> None:
    """Let the runtime ask for kernels that are missing from its table."""
    global _kernels
    _kernels = kernels

    def resolve(index: int) -> int:
        try:
            kernel, device, dtype, layout_class = place(index)
            kernel.need(dtype, layout_class)
            return _resolvers[device](kernel, dtype, layout_class)
        except BaseException as error:  # noqa: BLE001 - raised again by the call that needed the kernel
            failures.append(error)
            return 0

    runtime_set_callback("resolve", 1, resolve)
