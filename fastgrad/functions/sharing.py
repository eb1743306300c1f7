"""Tensors over memory that others have made: NumPy's arrays, and what comes by DLPack."""

from __future__ import annotations

import mmap
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastgrad import capsules, dtypes
from fastgrad.cuda import interchange
from fastgrad.dtypes import dtype as DType  # noqa: N812
from fastgrad.functions import dlpack
from fastgrad.functions.arguments import as_index, need_type
from fastgrad.functions.plans import warn
from fastgrad.functions.public import public
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.limits import MAX_DIMS
from fastgrad.native.contracts.records import TENSOR
from fastgrad.places import as_device

_DEVICE = TENSOR.fields["device"][0]
_field = rt.field


@public(method=False)
def from_numpy(ndarray: np.ndarray) -> Any:
    """A tensor over the memory of an array: changes of one are changes of the other.

    Parameters
    ----------
    ndarray : numpy.ndarray
        Of a supported dtype, in native byte order and with non-negative strides.

    Raises
    ------
    TypeError
        If it is no array or of another dtype.
    ValueError
        If a stride is negative or not a multiple of the element size.

    Examples
    --------
    >>> import fastgrad as fg, numpy as np
    >>> a = np.zeros(2, np.float32)
    >>> t = fg.from_numpy(a)
    >>> a[0] = 1
    >>> t
    tensor([1., 0.])
    """
    made = rt.over_array(ndarray)
    if made is not NotImplemented:
        return made
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    d = dtypes.of_numpy(ndarray.dtype)
    size = d.itemsize
    if any(s < 0 for s in ndarray.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "currently supported. (You can probably work around this by making a copy of your array with "
            "array.copy().)"
        )
    if any(s % size for s in ndarray.strides) and ndarray.size > 1:
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. Copy the array first."
        )
    if not ndarray.flags.writeable:
        warn(
            "The given NumPy array is not writable, and fastgrad does not support non-writable tensors. This "
            "means writing "
            "to this tensor will result in undefined behavior. You may want to copy the array to protect its "
            "data or make it "
            "writable before converting it to a tensor.",
            stacklevel=2,
        )
    return _foreign(ndarray, d, ndarray.shape, [s // size for s in ndarray.strides], ndarray.ctypes.data)


@public(method=False)
def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Any:
    """A tensor over the memory of an object of another library that speaks DLPack.

    Parameters
    ----------
    ext_tensor : object with ``__dlpack__``, or a capsule
    device : device, str, int or None
        Where the tensor shall be; on another device than the memory it is a copy.
    copy : bool, optional
        True for a copy in any case, False for none.

    Raises
    ------
    TypeError
        If the object does not speak it, or the dtype is not supported.
    BufferError
        If the memory is neither the CPU's nor a GPU's that is here, or a copy is needed and forbidden.

    Examples
    --------
    >>> import fastgrad as fg, numpy as np
    >>> fg.from_dlpack(np.arange(3))
    tensor([0, 1, 2])
    """
    out = taken_from(ext_tensor)
    if device is not None and as_device(device).code != _field(out, _DEVICE):
        if copy is False:
            raise BufferError(f"from_dlpack(): a copy is needed to bring it to {as_device(device)}")
        return out.to(device)
    return out.clone() if copy else out


@public(method=False)
def frombuffer(
    buffer: Any, *, dtype: DType, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Any:
    """A tensor over the memory of an object that has Python's buffer protocol, such as a `bytearray`.

    Parameters
    ----------
    buffer : object
    dtype : dtype
        As which its bytes are read.
    count : int
        How many elements; a negative number stands for all.
    offset : int
        How many bytes come before them.
    requires_grad : bool

    Raises
    ------
    TypeError
        If `dtype` is none.
    ValueError
        If the object has no buffer, or elements are not within it.
    RuntimeError
        If gradients are wanted of a dtype that has none.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.frombuffer(bytearray([1, 0, 2, 0]), dtype=fg.int16)
    tensor([1, 2], dtype=fastgrad.int16)
    """
    name = "frombuffer"
    need_type(name, dtype, DType, "dtype", 2)
    count, offset, size = as_index(name, "count", count), as_index(name, "offset", offset), dtype.itemsize
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(
            f"{name}(): only tensors of floating point and complex dtype can require gradients"
        )
    try:
        data = np.frombuffer(buffer, np.uint8) if memoryview(buffer).nbytes else np.empty(0, np.uint8)
    except TypeError:
        raise ValueError(
            f"{name}(): object does not implement Python buffer protocol: {type(buffer).__name__}"
        ) from None
    length = data.nbytes
    if length == 0 or count == 0:
        raise ValueError(f"{name}(): both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"{name}(): offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} "
            "bytes) minus 1"
        )
    if count < 0:
        if (length - offset) % size:
            raise ValueError(
                f"{name}(): buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a multiple "
                f"of element size ({size})"
            )
        count = (length - offset) // size
    if offset + count * size > length:
        raise ValueError(
            f"{name}(): requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must not be "
            f"greater than actual buffer length ({length} bytes)"
        )
    if not data.flags.writeable:
        warn(
            "The given buffer is not writable, and fastgrad does not support non-writable tensors. Writing to this "
            "tensor will result in undefined behavior; copy the buffer first.",
            stacklevel=3,
        )
    made = _foreign(data, dtype, (count,), (1,), data.ctypes.data + offset)
    return made.requires_grad_() if requires_grad else made


@public(method=False)
def from_file(
    filename: Any, shared: bool | None = None, size: int = 0, *, dtype: DType | None = None, requires_grad: bool = False
) -> Any:  # fmt: skip
    """A tensor over the content of a file, which is mapped into memory.

    Parameters
    ----------
    filename : str or path
    shared : bool, optional
        Whether changes go to the file, which then is made, and as long as it takes, if it is not.
    size : int
        How many elements.
    dtype : dtype, optional
        By default that of `get_default_dtype`.
    requires_grad : bool

    Raises
    ------
    RuntimeError
        If the file cannot be opened, or is too short and not shared.
    TypeError
        If `filename` is no name of a file.

    Examples
    --------
    >>> import fastgrad as fg, numpy as np, tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     np.arange(4, dtype=np.float32).tofile(file.name)
    ...     fg.from_file(file.name, size=3)
    tensor([0., 1., 2.])
    """
    name = "from_file"
    if not isinstance(filename, (str, os.PathLike)):  # an int would be a file that is open, and be closed
        raise TypeError(f"{name}(): argument 'filename' must be str or a path, not {type(filename).__name__}")
    kind = dtypes.get_default_dtype() if dtype is None else need_type(name, dtype, DType, "dtype", 4)
    count, writes = as_index(name, "size", size), bool(shared)
    wanted = count * kind.itemsize
    if count < 0:
        raise RuntimeError(f"{name}(): size must not be negative, but got {count}")
    try:
        with open(
            filename, "r+b" if writes and Path(filename).exists() else "w+b" if writes else "rb"
        ) as file:
            length = file.seek(0, 2)
            if length < wanted:
                if not writes:
                    raise RuntimeError(
                        f"{name}(): file <{filename}> size <{length}> is smaller than the required mapping size "
                        f"<{wanted}>"
                    )
                file.truncate(wanted)
            access = mmap.ACCESS_WRITE if writes else mmap.ACCESS_COPY
            memory = mmap.mmap(file.fileno(), wanted, access=access) if wanted else bytearray()
    except OSError as error:
        raise RuntimeError(f"{name}(): unable to open file <{filename}>: {error}") from None
    data = np.frombuffer(memory, np.uint8)
    made = _foreign(data, kind, (count,), (1,), data.ctypes.data)
    return made.requires_grad_() if requires_grad else made


def taken_from(ext_tensor: Any) -> Any:
    """A tensor over the memory of an object that speaks DLPack, or of a capsule."""
    if isinstance(ext_tensor, TensorBase):
        return ext_tensor.detach()
    if capsules.is_capsule(ext_tensor):
        found = capsules.inside(ext_tensor).tensor
        if found.device_type == capsules.CUDA:
            return interchange.from_capsule(ext_tensor)
        ext_tensor = capsules.Speaker(ext_tensor, (found.device_type, found.device_id))
    if not hasattr(ext_tensor, "__dlpack__"):
        raise TypeError(
            f"from_dlpack(): expected an object with __dlpack__, but got {type(ext_tensor).__name__}"
        )
    where = ext_tensor.__dlpack_device__() if hasattr(ext_tensor, "__dlpack_device__") else ()
    if where and where[0] == capsules.CUDA:
        return interchange.from_object(ext_tensor, where[1])
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # producers may mark memory as read-only; DLPack itself has no such notion
        found = dlpack.imported(ext_tensor)
        return _foreign(*found) if type(found) is tuple else from_numpy(np.from_dlpack(found))


def _foreign(owner: Any, d: DType, shape: Sequence[int], strides: Sequence[int], address: int) -> Any:
    """A tensor over memory of the host's that somebody else has."""
    n = len(shape)
    if n > MAX_DIMS:
        raise ValueError(f"a tensor has at most {MAX_DIMS} dimensions in fastgrad, but the array has {n}")
    return capsules.tensor_over(owner, d, 0, shape, strides, address)
