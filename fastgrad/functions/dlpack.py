"""Tensors of bfloat16 as DLPack has them; for all other dtypes NumPy does it.

The structures are those of ``dlpack.h``, without versions. A capsule is named ``dltensor`` until somebody takes what is
in it over, who renames it and calls the deleter in the end.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from fastgrad.dtypes import bfloat16
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.records import TENSOR

_NAME, _USED = b"dltensor", b"used_dltensor"
_CPU, _BFLOAT = 1, 4  # codes of a kind of device, and of a kind of numbers
_DATA = TENSOR.fields["data"][0]


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class _Managed(ctypes.Structure):
    pass


_DELETER = ctypes.PYFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = (("tensor", _Tensor), ("manager", ctypes.c_void_p), ("deleter", _DELETER))
_DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)

_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _DESTRUCTOR)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_SetName", ctypes.pythonapi)
)
# To the destructor the capsule is an address: it must not be held, for it is going.
_is_valid_at = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer_at = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)

_exported: dict[int, Any] = {}
"""What has been exported and not given back: the structure, its sizes and the tensor, by the structure's address."""


@_DELETER
def _forget(managed: Any) -> None:
    _exported.pop(ctypes.addressof(managed.contents), None)


@_DESTRUCTOR
def _drop(capsule: int) -> None:
    """A capsule goes that nobody has taken anything out of."""
    if _is_valid_at(capsule, _NAME):
        _exported.pop(_pointer_at(capsule, _NAME), None)


def exported(tensor: Any) -> Any:
    """A capsule with a tensor of bfloat16."""
    owner = rt.detach(tensor)
    shape, steps = rt.sizes(owner), rt.steps(owner)
    sizes = (ctypes.c_int64 * (2 * len(shape)))(*shape, *steps)
    begin = ctypes.cast(sizes, ctypes.POINTER(ctypes.c_int64))
    behind = ctypes.cast(ctypes.byref(sizes, 8 * len(shape)), ctypes.POINTER(ctypes.c_int64))
    described = _Tensor(rt.field(owner, _DATA), _CPU, 0, len(shape), _BFLOAT, 16, 1, begin, behind, 0)
    managed = _Managed(described, None, _forget)
    address = ctypes.addressof(managed)
    _exported[address] = managed, sizes, owner
    return _new(address, _NAME, _drop)


class _Imported:
    """Memory of another library's, which gets it back when this object goes."""

    def __init__(self, managed: Any) -> None:
        self._managed = managed

    def __del__(self) -> None:
        deleter = self._managed.contents.deleter
        if deleter:
            deleter(self._managed)


class _Exporter:
    """What exports a capsule that is there already."""

    def __init__(self, capsule: Any, device: tuple[int, int]) -> None:
        self._capsule, self._device = capsule, device

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


def imported(source: Any) -> Any:
    """Owner, dtype, sizes, strides and address of what an object exports, if that is bfloat16 in the CPU's memory.

    Otherwise an object that exports it for NumPy, which knows all that tensors may be but that dtype.
    """
    device = source.__dlpack_device__()
    if device[0] != _CPU:
        return source
    try:
        capsule = source.__dlpack__()
    except BufferError:  # memory that is not to be written to; NumPy asks for a version that says so
        return source
    if not _is_valid(capsule, _NAME):
        return source
    managed = ctypes.cast(_pointer(capsule, _NAME), ctypes.POINTER(_Managed))
    t = managed.contents.tensor
    if (t.code, t.bits, t.lanes) != (_BFLOAT, 16, 1):
        return _Exporter(capsule, device)
    shape = tuple(t.shape[: t.ndim])
    strides = tuple(t.strides[: t.ndim]) if t.strides else _contiguous(shape)
    if any(step < 0 for step in strides):
        raise BufferError("from_dlpack(): tensors with negative strides are not supported; copy it first")
    _rename(capsule, _USED)
    return _Imported(managed), bfloat16, shape, strides, (t.data or 0) + t.byte_offset


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    strides = [1] * len(shape)
    for k in range(len(shape) - 1, 0, -1):
        strides[k - 1] = strides[k] * shape[k]
    return tuple(strides)
