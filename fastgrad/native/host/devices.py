"""Devices: whose memory is whose, who compiles the kernels of which column of the kernel table, and what happens when
one is missing.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from fastgrad.native.build.loader import KERNEL_TABLE, rt, runtime_set, runtime_set_object
from fastgrad.native.contracts.limits import MAX_KERNELS, N_DEVICES, N_DTYPES, N_LAYOUTS
from fastgrad.native.contracts.records import DEVICE

Resolver = Callable[[Any, int, int], int]

NAMES: dict[str, int] = {}
_names: dict[int, str] = {}
_counts: dict[str, int | None] = {}
_registrations = itertools.count(1)
_resolvers: dict[int, Resolver] = {}
_errors: dict[int, Callable[[int, str], BaseException] | None] = {}
_kernels: list[Any] = []


class Routines(NamedTuple):
    """What a device does itself, as addresses of functions ``void(int64 frame)``; 0 for what it leaves to the runtime.

    Attributes
    ----------
    allocate, release : int
        They give memory and take it back: their frame is an `ALLOCATION`.
    launch : int
        Launches a kernel: its frame is a `LAUNCHING`. Without it the kernels are called.
    graph : int
        Makes one launch of many: its frame is a `GRAPHING`.
    state : int
        A word that all of them find in their frames.
    """

    allocate: int = 0
    release: int = 0
    launch: int = 0
    graph: int = 0
    state: int = 0


_bringing: dict[str, Callable[[], object]] = {}
_counting: dict[str, Callable[[], int]] = {}


class _Current(threading.local):
    """Which of the devices of a name is meant where none is named: for each thread."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}


_here = _Current()


_told: list[Callable[[int], object]] = []


def tell(new_device: Callable[[int], object]) -> None:
    """Call a function with the column of each device but the host that is registered from now on."""
    _told.append(new_device)


def bring_with(name: str, bring: Callable[[], object], count: Callable[[], int]) -> None:
    """Say what makes the devices of a name known once someone wants one: it registers them, or raises why it cannot.
    `count` answers how many there are before anybody wants one.
    """
    _bringing[name] = bring
    _counting[name] = count


def may_come(name: str) -> bool:
    """Whether there is something that makes devices of a name known, be there any or not."""
    return name in _bringing


def count_of(name: str) -> int:
    """How many devices of a name there are; they are not made known for that."""
    if name in NAMES:
        return _counts[name] or 1
    return _counting[name]() if name in _counting else 0


def current(name: str) -> int:
    """Which of the devices of a name the calling thread means where it says no number."""
    return _here.numbers.get(name, 0)


def set_current(name: str, which: int) -> int:
    """Let it be another one; which one it was."""
    before = current(name)
    _here.numbers[name] = which
    return before


def number_of(name: str, which: int | None) -> int:
    """The column of a device.

    Raises
    ------
    RuntimeError
        If there is no such device.
    """
    if name not in NAMES and name in _bringing:
        _bringing[name]()
    first = NAMES.get(name)
    if first is None:
        raise RuntimeError(f"there is no device '{name}'; known are {', '.join(sorted(NAMES))}")
    if _counts[name] is None:
        return first
    if which is None and _counts[name] != 1:
        rt.unplanned()  # another call may mean another one
    here = current(name) if which is None else which
    if here >= (_counts[name] or 0):
        raise RuntimeError(
            f"CUDA error: invalid device ordinal: '{name}:{here}' was asked for, but there are {_counts[name]}"
        )
    return first + here


def number_named(text: str) -> int:
    """The column of a device by a name as `name_of` gives it."""
    name, _, which = text.partition(":")
    return number_of(name, int(which) if which else None)


def register_device(
    name: str,
    index: int,
    resolver: Resolver,
    routines: Routines = Routines(),
    *,
    number: int | None = None,
    error: Callable[[int, str], BaseException] | None = None,
) -> None:
    """Make a device known.

    Parameters
    ----------
    name : str
        What users call it.
    index : int
        Its column of the kernel table.
    resolver : callable
        From kernel, dtype code and layout class to the address of a function ``void(int64 frame)``.
    routines : Routines, optional
        What the device does itself. If it gives memory, the addresses in these frames belong to that, and only
        kernels of the device touch it: `upload` and `download` bring bytes from the host's memory and to it.
    number : int, optional
        Which of the devices of this name it is; not given where there is one alone.
    error : callable
        From a number with which a routine said that something went wrong, and what messages call the op (empty where
        there is none), to an exception.
    """
    if not 0 <= index < N_DEVICES:
        raise ValueError(f"device index must be in 0..{N_DEVICES - 1}, but got {index}")
    if index in _resolvers:  # what an earlier device there resolved
        count = N_DTYPES * N_LAYOUTS
        for kernel in range(MAX_KERNELS):
            first = (kernel * N_DEVICES + index) * count
            KERNEL_TABLE[first : first + count] = 0
    if not number:
        NAMES[name] = index
    _counts[name] = None if number is None else number + 1
    _names[index] = name if number is None else f"{name}:{number}"
    _resolvers[index] = resolver
    _errors[index] = error
    for field, address in routines._asdict().items():
        runtime_set("devices", address, index * DEVICE.words + DEVICE.fields[field][0])
    runtime_set(
        "registrations", next(_registrations)
    )  # what plans know of names of devices is not so any more
    for new_device in _told:
        new_device(index)


def name_of(index: int) -> str:
    """The name of a device."""
    return _names.get(index, f"number {index}")


def error_of(index: int, code: int, op: str) -> BaseException:
    """The exception for what a routine of a device said in an op."""
    error = _errors[index]
    return error(code, op) if error else RuntimeError(f"{op}: device {name_of(index)} reports {code}")


def place(cell: int) -> tuple[Any, int, int, int]:
    """The kernel, device, dtype code and layout class of a cell of the kernel table."""
    rest, layout_class = divmod(cell, N_LAYOUTS)
    rest, dtype = divmod(rest, N_DTYPES)
    kernel, device = divmod(rest, N_DEVICES)
    return _kernels[kernel], device, dtype, layout_class


def install(kernels: list[Any]) -> None:
    """Let the runtime ask for kernels that are missing from its table, and know when it is a forked one."""
    global _kernels
    _kernels = kernels
    os.register_at_fork(after_in_child=rt.forget_ended_launches)
    runtime_set_object("resolve", _resolve)


def _resolve(cell: int) -> int:
    """Called by the runtime for an empty cell: the address that belongs there, 0 if the kernel lacks the dtype.

    Where nothing is launched, it only asks whether there is one for the dtype: by -1 minus the cell. What is raised
    here leaves the op that needed the kernel as it is.
    """
    if cell < 0:
        kernel, device, dtype, _ = place(-1 - cell)
        return int(kernel.takes(dtype, device))
    kernel, device, dtype, layout_class = place(cell)
    if not kernel.takes(dtype, device):
        return 0
    kernel.need(dtype, layout_class, device)
    if device not in _resolvers:
        raise RuntimeError(f"there is no device of number {device}")
    kernel.describe(layout_class)
    return _resolvers[device](kernel, dtype, layout_class)


def advice(cell: int) -> str:
    """What the error of an op adds where a cell of the table has to stay empty."""
    kernel, device, dtype, _ = place(cell)
    return kernel.advice(dtype, device)  # type: ignore[no-any-return]
