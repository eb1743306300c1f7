"""Capsules of DLPack: memory that one library has and another one uses, as the structures of ``dlpack.h`` describe it.

Without versions. A capsule is named ``dltensor`` until somebody takes what is in it over, who renames it and calls
the deleter in the end. NumPy speaks for the memory of the CPU, but for bfloat16 (`functions.dlpack`);
`cuda.interchange` for that of GPUs.
"""

from __future__ import annotations

import atexit
import ctypes
from collections.abc import Sequence
from typing import Any

from fastgrad import dtypes
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.records import TENSOR

CPU, CUDA = 1, 2  # kinds of devices
BFLOAT = 4  # the code of a kind of numbers
_INT, _UINT, _FLOAT, _BOOL = 0, 1, 2, 6
CODES = {
    "bool": (_BOOL, 8), "uint8": (_UINT, 8), "int32": (_INT, 32), "int64": (_INT, 64), "float16": (_FLOAT, 16),
    "bfloat16": (BFLOAT, 16), "float32": (_FLOAT, 32), "float64": (_FLOAT, 64),
}  # fmt: skip
"""The kind of numbers and the bits of one, by the names of dtypes."""
_DTYPE, _DATA, _NUMEL = (TENSOR.fields[n][0] for n in ("dtype", "data", "numel"))
_FRESH, _USED = b"dltensor", b"used_dltensor"


class Described(ctypes.Structure):
    """``DLTensor``."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip

    def sizes(self) -> tuple[int, ...]:
        """The sizes."""
        return tuple(self.shape[k] for k in range(self.ndim))

    def steps(self) -> tuple[int, ...]:
        """The strides in elements."""
        return tuple(self.strides[k] for k in range(self.ndim)) if self.strides else in_rows(self.sizes())


class Managed(ctypes.Structure):
    """``DLManagedTensor``."""

    _fields_ = (("tensor", Described), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_api = ctypes.pythonapi
_new = _api.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_valid = _api.PyCapsule_IsValid
_valid.restype, _valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
_pointer = _api.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_rename = _api.PyCapsule_SetName
_rename.restype, _rename.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
# The same for an object that is being destroyed, which nobody may count references of.
_still_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_last_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)


class Speaker:
    """A capsule as an object that speaks DLPack."""

    def __init__(self, capsule: Any, device: tuple[int, int]) -> None:
        self._capsule, self._device = capsule, device

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


# --- giving ----------------------------------------------------------------------------------------------------

_given: dict[int, tuple[Any, ...]] = {}  # what others hold, by the address of its `Managed`


@DELETER
def _give_back(address: int) -> None:
    _given.pop(address, None)


@DELETER
def _unused(capsule: int) -> None:
    """Called when a capsule goes that nobody took the memory out of."""
    if _still_valid(capsule, _FRESH):
        _given.pop(_last_pointer(capsule, _FRESH), None)


@atexit.register
def _leave_to_others() -> None:
    """No library may call a function of Python's once that has ended: what they hold stays where it is."""
    for managed, *_ in _given.values():
        managed.deleter = None
        _api.Py_IncRef(ctypes.py_object(managed))
    _api.Py_IncRef(ctypes.py_object(_given))
    _api.Py_IncRef(ctypes.py_object(_unused))


def give(tensor: Any, device: tuple[int, int]) -> Any:
    """A capsule with the memory of a tensor without history; `device` is its kind and its number."""
    sizes, steps = tuple(rt.sizes(tensor)), tuple(rt.steps(tensor))
    n = len(sizes)
    managed, room = Managed(), (ctypes.c_int64 * max(1, 2 * n))(*sizes, *steps)
    t = managed.tensor
    t.data = rt.field(tensor, _DATA) if rt.field(tensor, _NUMEL) else None
    (t.device_type, t.device_id), t.ndim, t.lanes = device, n, 1
    t.code, t.bits = CODES[dtypes.of_code(rt.field(tensor, _DTYPE)).name]
    start = ctypes.addressof(room)
    t.shape = ctypes.cast(start, ctypes.POINTER(ctypes.c_int64))
    t.strides = ctypes.cast(start + 8 * n, ctypes.POINTER(ctypes.c_int64))
    managed.deleter = ctypes.cast(_give_back, ctypes.c_void_p).value
    address = ctypes.addressof(managed)
    _given[address] = (managed, room, tensor)
    return _new(address, _FRESH, ctypes.cast(_unused, ctypes.c_void_p).value)


# --- taking ----------------------------------------------------------------------------------------------------


def is_capsule(value: object) -> bool:
    """Whether an object is a capsule that nobody has taken the memory out of."""
    return bool(_valid(value, _FRESH))


def inside(capsule: Any) -> Managed:
    """What is in such a capsule."""
    return Managed.from_address(_pointer(capsule, _FRESH))


def take(capsule: Any) -> tuple[Any, int]:
    """Take over what is in a capsule: what has to be called in the end, with the address that comes with it."""
    address = _pointer(capsule, _FRESH)
    deleter = Managed.from_address(address).deleter
    _rename(capsule, _USED)
    return (DELETER(deleter) if deleter else nothing), address


def nothing(_: Any) -> None:
    """In place of a deleter where there is none."""


def tensor_over(
    owner: Any, dtype: dtypes.dtype, device: int, sizes: Sequence[int], steps: Sequence[int], address: int
) -> Any:
    """A tensor over memory of somebody else's, which `owner` keeps; `device` is its column of the kernel table."""
    reach = 0 if 0 in sizes else sum((s - 1) * st for s, st in zip(sizes, steps, strict=True)) + 1
    return rt.foreign(dtype.code, device, tuple(sizes), tuple(steps), address, reach * dtype.itemsize, owner)


def in_rows(sizes: Sequence[int]) -> tuple[int, ...]:
    """The strides of memory without gaps, row by row."""
    steps, step = [], 1
    for size in reversed(sizes):
        steps.append(step)
        step *= max(1, size)
    return tuple(reversed(steps))
