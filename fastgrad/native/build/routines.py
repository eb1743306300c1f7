"""Compiled code that stands beside the runtime, for programs that need it: from the cache or compiled now."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping

from fastgrad.native.build import cache
from fastgrad.native.build.loader import load_object

_SECONDS = 3.0  # that compiling one takes; for messages
_KERNEL = ("i", None)


def load_routines(
    room: str, what: str, places: Mapping[str, str], shape: tuple[str, str | None] = _KERNEL
) -> dict[str, int]:
    """The addresses of functions of a room of `fastgrad.native`.

    Parameters
    ----------
    room : str
        Its name; symbols of the functions begin with it.
    what : str
        What messages call the unit.
    places : mapping
        The modules of the room that the functions stand in, by their names.
    shape : tuple, optional
        The letters of their arguments, and what of each function leaves the unit, as LLVM IR; by default they are
        ``void(int64 frame)``.

    Returns
    -------
    dict
        An address for each name.
    """
    sources = ("native/base", "native/build/compiler.py", "native/contracts", f"native/{room}")
    name = f"{room}-{cache.hash_texts(*places)[:8]}-{cache.hash_package(*sources)}"
    unit = cache.get(name, what, lambda: _compile(name, room, places, shape), _SECONDS)
    address: Callable[[str], int] = load_object(unit.code)
    return {routine: address(f"fastgrad_{room}_{routine}") for routine in places}


def _compile(name: str, room: str, places: Mapping[str, str], shape: tuple[str, str | None]) -> bytes:
    from fastgrad.native.build.compiler import KERNEL, compile_unit
    from fastgrad.native.contracts.entries import Export

    letters, wrapper = shape
    exports = [
        Export(
            f"{room}_{routine}",
            getattr(importlib.import_module(f"fastgrad.native.{room}.{module}"), routine),
            letters,
        )
        for routine, module in places.items()
    ]
    return compile_unit(name, exports, wrapper=wrapper or KERNEL)
