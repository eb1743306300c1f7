"""Hooks that are compiled code: a function on arrays, and around it what makes these of the words of a frame.

What such a function raises, it reports: see `reporting` in `kernels.cpu.functions`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastgrad.kernels.cpu.functions import (
    OPTIONS,
    REFUSED,
    SCALARS,
    array_of,
    compiled,
    explained,
    reporting,
)
from fastgrad.kernels.dtypes import KERNEL
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import address_of, call_kernel, words
from fastgrad.native.build.compiler import compile_unit
from fastgrad.native.contracts.entries import Export
from fastgrad.native.contracts.frame import HOOK_RAISED
from fastgrad.native.contracts.frames.hooks import HOOK
from fastgrad.native.contracts.python_types import READS, REPLACES, TAKES_LEAF

AT_N, AT_SIZES, AT_STATE = (HOOK.offset(name) for name in ("n", "sizes", "n_state"))


def build(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """The kernel that calls what was compiled for a hook, at an address in its frame."""

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.hook(frame)
        call_kernel(f.code, address_of(f))

    return run, KERNEL


assert HOOK.offset("code") == 0  # what says in a report whose it is: the first word of the frame
_WRAPPER = reporting(HOOK, HOOK_RAISED)


def _around(function: Any, arrays: list[Any], second: bool, state: bool, rank: int) -> Callable[..., None]:
    """The function of a frame that calls a function of arrays."""
    sizes = AT_SIZES if rank else AT_N
    x, out, kept = arrays

    def of_one(frame):  # type: ignore[no-untyped-def]
        f = frames.hook(frame)
        function(x(f.x, words(address_of(f) + sizes)))

    def of_one_and_state(frame):  # type: ignore[no-untyped-def]
        f = frames.hook(frame)
        function(x(f.x, words(address_of(f) + sizes)), kept(f.state, words(address_of(f) + AT_STATE)))

    def of_two(frame):  # type: ignore[no-untyped-def]
        f = frames.hook(frame)
        at = words(address_of(f) + sizes)
        function(x(f.x, at), out(f.out, at))

    def of_two_and_state(frame):  # type: ignore[no-untyped-def]
        f = frames.hook(frame)
        at = words(address_of(f) + sizes)
        function(x(f.x, at), out(f.out, at), kept(f.state, words(address_of(f) + AT_STATE)))

    if second:
        return of_two_and_state if state else of_two
    return of_one_and_state if state else of_one


def compile_hook(
    name: str,
    function: Callable[..., Any],
    dtype: int,
    access: int,
    rank: int,
    state_dtype: int,
    *,
    checks: bool,
) -> bytes:
    """Compile a hook to an object file with one export, `name`. With `checks` indices are looked at.

    Raises
    ------
    TypeError, RuntimeError
        With what Numba says.
    """
    options = {**OPTIONS, "boundscheck": checks}
    what = f"native hook '{function.__name__}'"
    with explained(what, function):
        places = tuple(range(rank or 1))
        x, x_type = array_of(SCALARS[dtype], places, access in (READS, REPLACES))
        out, out_type = array_of(SCALARS[dtype], places, False)
        state, state_type = array_of(SCALARS[max(state_dtype, 0)], (0,), False)
        second = access in (REPLACES, TAKES_LEAF)
        taken = [x_type, *([out_type] if second else []), *([state_type] if state_dtype >= 0 else [])]
        results = "it changes its array in place, or writes to the one that it is given"
        made = compiled(what, function, options, taken, results)
        around = _around(made, [x, out, state], second, state_dtype >= 0, rank)
        return compile_unit(name, [Export(name, around)], options=options, wrapper=_WRAPPER, refused=REFUSED)
