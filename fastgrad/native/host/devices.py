"""Devices: who compiles the kernels of which column of the kernel table, and what happens when one is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastgrad.native.build.loader import runtime_set_object
from fastgrad.native.contracts.limits import N_DEVICES, N_DTYPES, N_LAYOUTS

Resolver = Callable[[Any, int, int], int]

NAMES: dict[str, int] = {}
_resolvers: dict[int, Resolver] = {}
_kernels: list[Any] = []


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


def install(kernels: list[Any]) -> None:
    """Let the runtime ask for kernels that are missing from its table."""

    global _kernels
    _kernels = kernels
    runtime_set_object("resolve", _resolve)


def _place(cell: int) -> tuple[Any, int, int, int]:
    """The kernel, device, dtype code and layout class of a cell of the table."""
    rest, layout_class = divmod(cell, N_LAYOUTS)
    rest, dtype = divmod(rest, N_DTYPES)
    kernel, device = divmod(rest, N_DEVICES)
    return _kernels[kernel], device, dtype, layout_class


def _resolve(cell: int) -> int:
    """Called by the runtime for an empty cell: the address that belongs there, 0 if the kernel lacks the dtype.

    What is raised here leaves the op that needed the kernel as it is.
    """
    kernel, device, dtype, layout_class = _place(cell)
    if not kernel.takes(dtype):
        return 0
    kernel.need(dtype, layout_class)
    return _resolvers[device](kernel, dtype, layout_class)


def advice(cell: int) -> str:
    """What the error of an op adds where a cell of the table has to stay empty."""
    kernel, _, dtype, _ = _place(cell)
    return kernel.advice(dtype)  # type: ignore[no-any-return]
