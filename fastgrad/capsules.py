"""Capsules of DLPack: memory that one library has and another one uses, as the structures of ``dlpack.h`` describe it.

They are taken without versions. A capsule is named ``dltensor`` until somebody takes what is in it over, who renames it
and calls the deleter in the end. NumPy speaks for the memory of the CPU, but for bfloat16 (`functions.dlpack`);
`cuda.interchange` for that of GPUs.
"""

from __future__ import annotations

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
    "bfloat16": (BFLOAT, 16), "float32": (_FLOAT, 32), "float64": (_FLOAT, 64), "int8": (_INT, 8), "int16": (_INT, 16),
    "uint16": (_UINT, 16), "uint32": (_UINT, 32), "uint64": (_UINT, 64),
}  # fmt: skip
"""The kind of numbers and the bits of one, by the names of dtypes."""
_DTYPE, _DATA, _NUMEL = (TENSOR.fields[n][0] for n in ("dtype", "data", "numel"))
_FRESH, _USED, _VERSIONED = b"dltensor", b"used_dltensor", b"dltensor_versioned"
_HEAD = 32  # bytes before the tensor of a capsule with a version


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
_valid = _api.PyCapsule_IsValid
_valid.restype, _valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
_pointer = _api.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_rename = _api.PyCapsule_SetName
_rename.restype, _rename.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]


class Speaker:
    """A capsule as an object that speaks DLPack."""

    def __init__(self, capsule: Any, device: tuple[int, int]) -> None:
        self._capsule, self._device = capsule, device

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


# --- giving ----------------------------------------------------------------------------------------------------

# Note [Whose capsules]: NumPy makes the capsules, also those of a GPU's memory, for it does not look at it. A capsule
# may be destroyed while an exception is on its way, and the memory given back by a thread without Python's lock, or
# when Python has ended: only compiled code may be called then.

_INTEGERS = {1: "|i1", 2: "<i2", 4: "<i4", 8: "<i8"}  # of so many bytes, as NumPy names them
_FARTHEST = 1 << 62  # bytes: a stride beyond that is one of a dimension of size 1, where it means nothing


class _Held:
    """Memory as NumPy is told of it, and the tensor that keeps it."""

    __slots__ = ("__array_interface__", "_tensor")

    def __init__(self, tensor: Any, size: int) -> None:
        self._tensor = tensor
        self.__array_interface__ = {
            "typestr": _INTEGERS[size],
            "shape": tuple(rt.sizes(tensor)),
            "strides": tuple(min(step, _FARTHEST // size) * size for step in rt.steps(tensor)),
            "data": (rt.field(tensor, _DATA) if rt.field(tensor, _NUMEL) else 0, False),
            "version": 3,
        }


def give(tensor: Any, device: tuple[int, int], **options: Any) -> Any:
    """A capsule with the memory of a tensor without history; `device` is its kind and its number.

    Options are those of NumPy's ``__dlpack__``.
    """
    import numpy as np

    code, bits = CODES[dtypes.of_code(rt.field(tensor, _DTYPE)).name]
    capsule = np.asarray(_Held(tensor, bits // 8)).__dlpack__(**options)
    versioned = not is_capsule(capsule)
    start = _pointer(capsule, _VERSIONED if versioned else _FRESH) + versioned * _HEAD
    t = Described.from_address(start)
    (t.device_type, t.device_id), t.code, t.bits = device, code, bits
    return capsule


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
