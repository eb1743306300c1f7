"""Memory of bfloat16 that the CPU shares with other libraries by DLPack; for all other dtypes NumPy does it."""

from __future__ import annotations

import sys
from typing import Any

from fastgrad import capsules
from fastgrad.dtypes import bfloat16
from fastgrad.native.build.loader import rt


def exported(tensor: Any, **options: Any) -> Any:
    """A capsule with a tensor of bfloat16; options are those of NumPy's ``__dlpack__``."""
    return capsules.give(rt.detach(tensor), (capsules.CPU, 0), **options)


class _Imported:
    """Memory of another library's, which gets it back when this object goes."""

    __slots__ = ("_address", "_give_back")

    def __init__(self, give_back: Any, address: int) -> None:
        self._give_back, self._address = give_back, address

    def __del__(self, finalizing: Any = sys.is_finalizing) -> None:
        if not finalizing():
            self._give_back(self._address)


def imported(source: Any) -> Any:
    """Owner, dtype, sizes, strides and address of what an object exports, if that is bfloat16 in the CPU's memory.

    Otherwise an object that exports it for NumPy, which knows all that tensors may be but that dtype.
    """
    device = source.__dlpack_device__()
    if device[0] != capsules.CPU:
        return source
    try:
        capsule = source.__dlpack__()
    except BufferError:  # memory that is not to be written to; NumPy asks for a version that says so
        return source
    if not capsules.is_capsule(capsule):
        return source
    t = capsules.inside(capsule).tensor
    if (t.code, t.bits, t.lanes) != (capsules.BFLOAT, 16, 1):
        return capsules.Speaker(capsule, device)
    sizes, steps, start = t.sizes(), t.steps(), (t.data or 0) + t.byte_offset
    if any(step < 0 for step in steps):
        raise BufferError("from_dlpack(): tensors with negative strides are not supported; copy it first")
    return _Imported(*capsules.take(capsule)), bfloat16, sizes, steps, start
