"""Flat dicts of tensors in the safetensors format, which many libraries read and write; needs that package."""

from __future__ import annotations

import itertools
import json
import os
import re
import struct
import sys
from typing import IO, Any

import numpy as np

from fastgrad import dtypes
from fastgrad.functions.data import elements_of
from fastgrad.functions.storage import Storage
from fastgrad.serialization.files import replacing
from fastgrad.serialization.parts import mapped, over, swap
from fastgrad.serialization.placement import Placement
from fastgrad.tensor import Tensor

SUFFIX, INDEX_SUFFIX = ".safetensors", ".safetensors.index.json"
_SHARD = re.compile(r"[^/\\\0:]*" + re.escape(SUFFIX))  # no name of a folder, a drive or a stream
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


def load_file(
    path: str | os.PathLike[str], placement: Placement, as_memory: bool = False
) -> dict[str, Tensor]:
    """Read a dict of tensors.

    Parameters
    ----------
    path : str or PathLike
    placement : callable
    as_memory : bool
        Whether the tensors' memory is the file's, instead of a copy.

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
    name = os.fspath(path)
    with open(path, "rb") as file:
        try:
            with package.safe_open(
                name, framework="numpy"
            ) as checked:  # no part lies outside or over another one
                keys = list(checked.keys())
        except package.SafetensorError as error:
            raise RuntimeError(f"{name} is corrupted or no safetensors file: {error}") from error
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        reader = _Reader(file, 8 + length, mapped(file) if as_memory else None)
        out = {}
        for key in keys:
            part = header[key]
            if part["dtype"] not in _DTYPES:
                raise TypeError(
                    f"load(): tensor {key!r} of {name} has dtype {part['dtype']}, and fastgrad knows "
                    f"{', '.join(_DTYPES)}; convert it before it is saved"
                )
            flat = reader.flat(_DTYPES[part["dtype"]], *part["data_offsets"])
            out[key] = placement(Storage(flat), "cpu").flat.view(tuple(part["shape"]))
    return out


class _Reader:
    """Elements from a file that the package has checked."""

    def __init__(self, file: IO[bytes], start: int, data: np.ndarray | None) -> None:
        self.file, self.start, self.data = file, start, data

    def flat(self, dtype: dtypes.dtype, begin: int, end: int) -> Any:
        """Those of so many bytes."""
        found = None
        if self.data is not None and end > begin:
            found = over(self.data[self.start + begin : self.start + end], dtype)
        if found is None:
            storage = Storage.empty(dtype, (end - begin) // dtype.itemsize)
            self.file.seek(self.start + begin)
            self.file.readinto(storage.buffer)  # type: ignore[attr-defined]
            found = storage.flat
        if sys.byteorder == "big":
            swap(Storage(found))
        return found


def load_sharded(path: str, placement: Placement, as_memory: bool = False) -> dict[str, Tensor]:
    """Read the tensors that an index file finds in files beside it.

    Raises
    ------
    RuntimeError
        If the index is none, names a file elsewhere, or a tensor that its file does not have.
    FileNotFoundError
        If a file is missing.
    """
    with open(path, "rb") as file:
        try:
            index = json.load(file)
        except (ValueError, RecursionError) as error:
            raise RuntimeError(f"{path} is corrupted or no index of safetensors files: {error}") from error
    places = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise RuntimeError(
            f"{path} is no index of safetensors files: it has no 'weight_map' from names to files"
        )
    for key, name in places.items():
        if not _SHARD.fullmatch(name):
            raise RuntimeError(
                f"{path} puts tensor {key!r} into {name!r}, but files of an index lie beside it, under plain names "
                f"that end in {SUFFIX}"
            )
    shards = {
        name: load_file(os.path.join(os.path.dirname(path), name), placement, as_memory)
        for name in dict.fromkeys(places.values())
    }
    for key, name in places.items():
        if key not in shards[name]:
            raise RuntimeError(f"{path} puts tensor {key!r} into {name!r}, which does not have it")
    return {key: shards[name][key] for key, name in places.items()}
