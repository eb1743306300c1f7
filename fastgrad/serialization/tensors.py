"""Flat dicts of tensors in the safetensors format, which many libraries read and write; needs that package."""

from __future__ import annotations

import itertools
import os
import struct
import sys
from typing import Any

import numpy as np

from fastgrad import dtypes
from fastgrad.functions.creation import empty
from fastgrad.functions.data import elements_of
from fastgrad.functions.sharing import from_numpy
from fastgrad.functions.storage import Storage
from fastgrad.serialization.files import replacing
from fastgrad.serialization.placement import Placement
from fastgrad.tensor import Tensor

SUFFIX = ".safetensors"
_DTYPES = {
    "BOOL": dtypes.bool_, "U8": dtypes.uint8, "I8": dtypes.int8, "I16": dtypes.int16,
    "I32": dtypes.int32, "I64": dtypes.int64, "F16": dtypes.float16,
    "BF16": dtypes.bfloat16, "F32": dtypes.float32, "F64": dtypes.float64, "C64": dtypes.complex64,
    "U16": dtypes.uint16, "U32": dtypes.uint32, "U64": dtypes.uint64,
}  # fmt: skip


def _package() -> Any:
    try:
        import safetensors
        import safetensors.numpy
    except ImportError as error:
        raise ImportError(
            f"files that end in {SUFFIX} need the safetensors package; install it with: "
            'pip install "fastgrad[safetensors]"'
        ) from error
    return safetensors


def save_file(obj: Any, path: str | os.PathLike[str]) -> None:
    """Write a dict of tensors.

    Raises
    ------
    TypeError
        If it is no dict from str to tensors.
    RuntimeError
        If two of the tensors share memory, which the format cannot tell.
    ImportError
        If the safetensors package is missing.
    """
    package = _package()
    if not isinstance(obj, dict):
        raise TypeError(
            f"save(): expected a dict of tensors for a file that ends in {SUFFIX}, but got {type(obj).__name__}; "
            "other objects need another name"
        )
    for key, value in obj.items():
        if not isinstance(key, str) or not isinstance(value, Tensor):
            raise TypeError(
                f"save(): a file that ends in {SUFFIX} holds tensors by str, but key {key!r} has "
                f"{type(value).__name__}; flatten the dict, or use another name"
            )
    _need_disjoint(obj)
    arrays = {key: np.ascontiguousarray(elements_of(value.detach())) for key, value in obj.items()}
    parts = {key: _described(package, value, arrays[key]) for key, value in obj.items()}
    with replacing(path) as temporary:
        # The framework whose names and layouts these are, by which readers know the file.
        package.serialize_file(parts, temporary, metadata={"format": "pt"})


def _described(package: Any, tensor: Tensor, array: np.ndarray) -> Any:
    """A tensor as the package takes it, whose own functions for arrays know no bfloat16; `array` has its elements."""
    dtype, shape = tensor.dtype.name, tuple(tensor.shape)
    if sys.byteorder == "big":
        array.byteswap(inplace=True)
    if hasattr(package, "TensorSpec"):
        return package.TensorSpec(dtype=dtype, shape=shape, data_ptr=array.ctypes.data, data_len=array.nbytes)
    return {"dtype": dtype, "shape": shape, "data": array.tobytes()}


def _need_disjoint(tensors: dict[str, Tensor]) -> None:
    spans = []
    for key, t in tensors.items():
        if t.numel():
            reach = sum((size - 1) * step for size, step in zip(t.shape, t.stride(), strict=True)) + 1
            spans.append((t.data_ptr(), t.data_ptr() + reach * t.itemsize, key))
    spans.sort()
    for (_, end, one), (start, _, other) in itertools.pairwise(spans):
        if start < end:
            first, second = sorted((one, other))
            raise RuntimeError(
                f"save(): tensors {first!r} and {second!r} share memory, which the safetensors format cannot tell. "
                f"Leave one of them out, clone it, or save to a name that does not end in {SUFFIX}, which keeps it"
            )


def _bits(path: str | os.PathLike[str], key: str) -> Tensor:
    """The elements of a tensor of bfloat16, which NumPy does not know, from a file that the package has checked."""
    import json  # not at every start of a program

    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        begin, end = json.loads(file.read(length))[key]["data_offsets"]
        file.seek(begin, os.SEEK_CUR)
        data = np.frombuffer(file.read(end - begin), "<i2").astype(np.int16)
    out: Tensor = empty(data.size, dtype=dtypes.bfloat16)
    elements_of(out)[...] = data
    return out


def load_file(path: str | os.PathLike[str], placement: Placement) -> dict[str, Tensor]:
    """Read a dict of tensors.

    Raises
    ------
    RuntimeError
        If the file is damaged.
    TypeError
        If a tensor's dtype is not supported.
    ImportError
        If the safetensors package is missing.
    """
    package = _package()
    with open(path, "rb"):  # for Python's own exceptions
        pass
    out = {}
    try:
        with package.safe_open(os.fspath(path), framework="numpy") as file:
            for key in file.keys():  # noqa: SIM118 - no dict
                part = file.get_slice(key)
                dtype = part.get_dtype()
                if dtype not in _DTYPES:
                    raise TypeError(
                        f"load(): tensor {key!r} of {os.fspath(path)} has dtype {dtype}, and fastgrad knows "
                        f"{', '.join(_DTYPES)}; convert it before it is saved"
                    )
                if dtype == "BF16":
                    flat = _bits(path, key)
                else:
                    array = np.require(file.get_tensor(key), requirements=["C", "W", "O"])
                    flat = from_numpy(array.reshape(-1))
                out[key] = placement(Storage(flat), "cpu").flat.view(tuple(part.get_shape()))
    except package.SafetensorError as error:
        raise RuntimeError(f"{os.fspath(path)} is corrupted or no safetensors file: {error}") from error
    return out
