"""Tensors in pickles: a tensor is a layout over a memory, and tensors that share memory share it in their copies.

`Tensor.__reduce_ex__` pickles a tensor as a call of `rebuild` with the `Storage` of its memory. `pickle` and `copy`
meet that object like any other; `fastgrad.save` writes its bytes to a place of their own.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from fastgrad import dtypes
from fastgrad.autograd.hooks import LEAF_HOOK_DICTS
from fastgrad.functions.arguments import as_index
from fastgrad.functions.creation import empty
from fastgrad.functions.data import elements_of
from fastgrad.functions.strided import empty_strided
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.limits import MAX_DIMS
from fastgrad.native.contracts.records import STORAGE, TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import invoke
from fastgrad.ops.conjugates import as_it_lies, is_turned, turned

_STORAGE = TENSOR.fields["storage"][0]
_NBYTES = STORAGE.fields["nbytes"][0]
_BYTES = -1
"""In the place of a dtype in the key of a memory as bytes."""
_ALIVE: weakref.WeakValueDictionary[tuple[int, int], Storage] = weakref.WeakValueDictionary()


class Storage:
    """A memory that tensors share, as one object for all of them: elements of a dtype, or bytes.

    Attributes
    ----------
    flat : Tensor
        The whole memory, with one dimension.
    is_bytes : bool
        Whether it stands for bytes.
    """

    __slots__ = ("__weakref__", "flat", "is_bytes")

    def __init__(self, flat: Any, is_bytes: bool = False) -> None:
        self.flat = flat
        self.is_bytes = is_bytes

    @classmethod
    def bytes_of(cls, tensor: Any) -> Storage:
        """The memory of a tensor as bytes. While somebody holds the answer, tensors over that memory get the same."""
        key = rt.field(tensor, _STORAGE), _BYTES
        found = _ALIVE.get(key)
        if found is None:
            found = _ALIVE[key] = cls.of(tensor).untyped()
        return found

    @classmethod
    def of(cls, tensor: Any) -> Storage:
        """The memory of a tensor. While somebody holds the answer, tensors over that memory get the same."""
        handle = rt.field(tensor, _STORAGE), tensor.dtype.code  # a view as another dtype is copied by itself
        found = _ALIVE.get(handle)
        if found is None:
            count = rt.storage_field(tensor, _NBYTES) // tensor.dtype.itemsize
            found = _ALIVE[handle] = cls(laid_out(as_it_lies(rt.detach(tensor)), 0, (count,), (1,)))
        return found

    @classmethod
    def empty(cls, dtype: dtypes.dtype, count: int) -> Storage:
        """New memory for so many elements, on the CPU."""
        return cls(empty(count, dtype=dtype, device="cpu"))

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> Storage:
        """The bytes of a file, which is mapped into memory: see `fastgrad.from_file`.

        Parameters
        ----------
        filename : str or path
        shared : bool
            Whether changes go to the file.
        nbytes : int
            How many bytes.

        Raises
        ------
        RuntimeError
            If the file cannot be opened, or is too short and not shared.
        TypeError
            If `filename` is no name of a file.
        """
        from fastgrad.functions.sharing import from_file

        return cls(from_file(filename, shared, nbytes, dtype=dtypes.uint8), True)

    @property
    def buffer(self) -> memoryview:
        """The bytes; a copy of them unless they are the CPU's."""
        return elements_of(self.flat).view(np.uint8).data

    def nbytes(self) -> int:
        """How many bytes it has."""
        return self.flat.nbytes  # type: ignore[no-any-return]

    def size(self) -> int:
        """How many elements it has."""
        return self.flat.numel()  # type: ignore[no-any-return]

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self.flat.data_ptr()  # type: ignore[no-any-return]

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.flat.element_size()  # type: ignore[no-any-return]

    @property
    def dtype(self) -> dtypes.dtype:
        """Of its elements."""
        return self.flat.dtype  # type: ignore[no-any-return]

    @property
    def device(self) -> Any:
        """Where it lies."""
        return self.flat.device

    @property
    def is_cuda(self) -> bool:
        """Whether it lies on a GPU."""
        return self.flat.is_cuda  # type: ignore[no-any-return]

    def get_device(self) -> int | None:
        """The number of its GPU, None on the CPU."""
        return self.flat.get_device() if self.is_cuda else None

    def is_pinned(self) -> bool:
        """Whether it is memory of the host's that GPUs copy from without waiting."""
        return self.flat.is_pinned()  # type: ignore[no-any-return]

    def is_shared(self) -> bool:
        """Whether other processes may have it as well."""
        return self.flat.is_shared()  # type: ignore[no-any-return]

    def untyped(self) -> Storage:
        """The same memory as bytes."""
        return self if self.is_bytes else Storage(self.flat.view(dtypes.uint8), True)

    def tolist(self) -> list[Any]:
        """The elements."""
        return self.flat.tolist()  # type: ignore[no-any-return]

    def clone(self) -> Storage:
        """New memory of the same content."""
        return Storage(self.flat.clone(), self.is_bytes)

    def copy_(self, source: Storage, non_blocking: bool = False) -> Storage:
        """Write the bytes of another memory over this one.

        Parameters
        ----------
        source : Storage
            With as many bytes.
        non_blocking : bool
            As in `Tensor.copy_`.

        Raises
        ------
        TypeError
            If it is no storage.
        RuntimeError
            If it has more bytes or fewer.
        """
        if not isinstance(source, Storage):
            raise TypeError(
                f"copy_(): argument 'source' (position 1) must be Storage, not {type(source).__name__}"
            )
        if self.nbytes() != source.nbytes():
            raise RuntimeError(
                f"copy_(): size does not match, self was {self.nbytes()} bytes but source was {source.nbytes()} bytes"
            )
        self.untyped().flat.copy_(source.untyped().flat, non_blocking)
        return self

    def fill_(self, value: Any) -> Storage:
        """Write a number to all elements; to bytes an integer, of which they hold the last eight bits.

        Raises
        ------
        TypeError
            If it is no number.
        RuntimeError
            If it is no integer, for bytes.
        """
        if self.is_bytes and not isinstance(value, (int, np.integer)):
            raise RuntimeError(f"fill_(): expects int, but got {type(value).__name__}")
        self.flat.fill_(int(value) & 255 if self.is_bytes else value)
        return self

    def __len__(self) -> int:
        return self.size()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __repr__(self) -> str:
        kind = "UntypedStorage(" if self.is_bytes else f"TypedStorage(dtype={self.dtype}, "
        shown = "..." if self.flat.is_meta else "\n".join(f" {value}" for value in self.tolist()) or " "
        return f"{shown}\n[fastgrad.storage.{kind}device={self.device}) of size {len(self)}]"

    def __getitem__(self, index: Any) -> Any:
        found = self.flat[_place(index)]
        return Storage(found, self.is_bytes) if isinstance(index, slice) else found.item()

    def __setitem__(self, index: Any, value: Any) -> None:
        if self.is_bytes and isinstance(value, (int, np.integer)):
            value = int(value) & 255
        self.flat[_place(index)] = value

    def cuda(self, device: Any = None) -> Storage:
        """The memory on a GPU, by default the current one."""
        return Storage(self.flat.cuda(device), self.is_bytes)

    def cpu(self) -> Storage:
        """The memory on the CPU."""
        return Storage(self.flat.cpu(), self.is_bytes)

    def __reduce__(self) -> Any:
        made = (self.flat.dtype, bytes(self.buffer))
        return from_bytes, (*made, True) if self.is_bytes else made


def _place(index: Any) -> Any:
    """What a program reads or writes of a storage: one element or a slice."""
    return index if isinstance(index, slice) else as_index("storage", "index", index)


def from_bytes(dtype: dtypes.dtype, data: bytes, is_bytes: bool = False) -> Storage:
    """New memory of given content.

    Raises
    ------
    ValueError
        If the bytes are no whole number of elements.
    """
    if len(data) % dtype.itemsize:
        raise ValueError(f"{len(data)} bytes are no whole number of elements of {dtype}")
    out = Storage.empty(dtype, len(data) // dtype.itemsize)
    rt.write(out.flat, data)
    out.is_bytes = is_bytes is True and dtype is dtypes.uint8
    return out


def laid_out(flat: Any, offset: int, sizes: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """A tensor over the memory of another one, which is flat, that is no view of it."""
    ahead = offset - flat.storage_offset()
    return rt.detach(invoke(BY_NAME["as_strided"], (flat,), len(sizes), sizes, strides, ahead, 1, 1))


def reduced(tensor: Any) -> Any:
    """What `__reduce_ex__` of a tensor returns; attributes go along, hooks and ``grad`` do not.

    Attributes are the state, which is read when the tensor is there: they may lead back to it.
    """
    attributes = {name: value for name, value in tensor.__dict__.items() if name not in LEAF_HOOK_DICTS}
    sizes, strides = tuple(rt.sizes(tensor)), tuple(rt.steps(tensor))
    maker: Any
    made: tuple[Any, ...]
    if tensor.is_meta:
        maker, made = rebuild_meta, (type(tensor), tensor.dtype, sizes, strides, tensor.requires_grad)
    else:
        where = (tensor.storage_offset(), sizes, strides)
        maker = rebuild_conjugates if is_turned(tensor) else rebuild
        made = (type(tensor), Storage.of(tensor), *where, tensor.requires_grad, {})
    return (maker, made, attributes) if attributes else (maker, made)


def rebuild(
    kind: type,
    storage: Storage,
    offset: int,
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    requires_grad: bool,
    attributes: dict[str, Any],
) -> Any:
    """The tensor that `reduced` took apart: a leaf of class `kind`.

    Arguments may come from a file that somebody tampered with, so nothing about them is taken for granted.
    Attributes stand among them in older files only.

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type, or the layout leaves the memory.
    """
    if type(storage) is not Storage:
        raise TypeError(f"expected a storage, but got {type(storage).__name__}")
    _check_layout(offset, sizes, strides)
    count, held = math.prod(sizes), storage.flat.numel()
    if not count:
        offset = min(offset, held)  # nothing is there to lie inside
    reach = sum((size - 1) * step for size, step in zip(sizes, strides, strict=True)) + 1 if count else 0
    if offset + reach > held or max(count, *strides, 0) * storage.flat.dtype.itemsize >= 1 << 63:
        raise ValueError(
            f"sizes {list(sizes)}, strides {list(strides)} and offset {offset} leave a memory of {held} elements"
        )
    return _made(kind, laid_out(storage.flat, offset, sizes, strides), requires_grad, attributes)


def rebuild_conjugates(kind: Any, *where: Any) -> Any:
    """The same of a tensor that holds the conjugates, or negatives, of what lies in its memory.

    Raises
    ------
    TypeError, ValueError
        As `rebuild`, and for a dtype that has neither.
    """
    storage, offset, sizes, strides, requires_grad, attributes = where
    plain = rt.detach(rebuild(kind, storage, offset, sizes, strides, False, {}))
    if not (plain.is_complex() or plain.is_floating_point()):
        raise TypeError(f"expected conjugates, or negatives, of a floating dtype, but got {plain.dtype}")
    return _made(kind, rt.detach(turned(plain)), requires_grad, attributes)


def _made(kind: Any, out: Any, requires_grad: Any, attributes: Any) -> Any:
    out = _leaf(kind, out, requires_grad)
    restore(out, attributes)
    return out


def rebuild_meta(
    kind: type, dtype: dtypes.dtype, sizes: tuple[int, ...], strides: tuple[int, ...], requires_grad: bool
) -> Any:
    """The tensor of the meta device that `reduced` took apart: a leaf of class `kind`. Nothing is taken for granted.

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type, or there are too many elements.
    """
    if type(dtype) is not dtypes.dtype:
        raise TypeError(f"expected a dtype, but got {type(dtype).__name__}")
    _check_layout(0, sizes, strides)
    try:
        made = empty_strided(sizes, strides, dtype=dtype, device="meta")
    except RuntimeError as error:
        raise ValueError(str(error)) from None
    return _leaf(kind, made, requires_grad)


def _check_layout(offset: Any, sizes: Any, strides: Any) -> None:
    """Raise TypeError or ValueError unless these are integers that a layout may have."""
    if type(sizes) is not tuple or type(strides) is not tuple or len(sizes) != len(strides):
        raise TypeError(
            f"expected sizes and strides to be tuples of one length, but got {sizes!r} and {strides!r}"
        )
    for number in (offset, *sizes, *strides):
        if type(number) is not int or number < 0:
            raise ValueError(
                f"expected sizes, strides and offset to be integers from 0 on, but got {number!r}"
            )
    if len(sizes) > MAX_DIMS:
        raise ValueError(f"a tensor has at most {MAX_DIMS} dimensions, but got {len(sizes)}")


def _leaf(kind: Any, out: Any, requires_grad: Any) -> Any:
    """A new tensor as one of a class that requires a gradient or does not; TypeError if these are no such things."""
    if not isinstance(kind, type) or not issubclass(kind, TensorBase):
        raise TypeError(f"expected a class of tensors, but got {kind!r}")
    if type(requires_grad) is not bool:
        raise TypeError(f"expected requires_grad to be a bool, but got {type(requires_grad).__name__}")
    if kind is not type(out):
        out = rt.adopt(kind, out)
    return out.requires_grad_() if requires_grad else out


def restore(tensor: Any, attributes: Any) -> None:
    """Give a tensor that `rebuild` made its attributes.

    Raises
    ------
    TypeError, ValueError
        If they are no dict, or one is none that `reduced` takes along.
    """
    if type(attributes) is not dict:
        raise TypeError(
            f"expected the attributes of a tensor to be a dict, but got {type(attributes).__name__}"
        )
    for name in attributes:
        if type(name) is not str or name in LEAF_HOOK_DICTS:
            raise ValueError(f"a tensor cannot have the attribute {name!r} restored")
    tensor.__dict__.update(attributes)
