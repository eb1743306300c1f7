"""Memory that processes share: blocks without a name, of which nothing is left when the last process has let go.

A block is a file in memory (``memfd_create``) that nobody finds by name. Who has its descriptor maps it; the kernel
frees it with the last mapping and the last descriptor, however a process ends. Systems other than Linux have no such
files: there it is one of the directory of temporary files, whose name is gone before anything is written to it.
"""

from __future__ import annotations

import ctypes
import mmap
import operator
import os
import tempfile
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from fastgrad import dtypes
from fastgrad.capsules import tensor_over
from fastgrad.functions.storage import Storage, laid_out
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.records import STORAGE, TENSOR
from fastgrad.ops.conjugates import is_turned, turned

_libc = ctypes.CDLL(None, use_errno=True)
_mmap, _munmap = _libc.mmap, _libc.munmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
_munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_FAILED = ctypes.c_void_p(-1).value
_POPULATE = getattr(mmap, "MAP_POPULATE", 0)
"""Of Linux: pages are there before they are asked for, one by one."""
_PARTS = 1024
"""How many pieces one write takes: IOV_MAX of Linux and of macOS."""
_BYTES = 1 << 30
"""How many bytes one write is asked for at most: macOS refuses 2 GiB."""
_DEVICE, _DATA, _DTYPE = (TENSOR.fields[n][0] for n in ("device", "data", "dtype"))
_STORAGE_DATA, _STORAGE_REFERENCES, _NBYTES = (STORAGE.fields[n][0] for n in ("data", "refs", "nbytes"))


class Block:
    """The memory of a descriptor, mapped.

    Parameters
    ----------
    descriptor : int
        Of a file of at least that many bytes; the block takes it over.
    nbytes : int
        At least one.
    keep : bool, default False
        Whether the descriptor stays open, so that the block can be sent to others.

    Raises
    ------
    OSError
        If it cannot be mapped.
    ValueError
        If the file is shorter: reading behind its end would end the process.
    """

    __slots__ = ("__weakref__", "address", "descriptor", "nbytes")

    def __new__(cls, *_args: Any, **_named: Any) -> Block:
        """A block of nothing: what is never finished has nothing to give back."""
        block = super().__new__(cls)
        block.address, block.descriptor = 0, -1
        return block

    def __init__(self, descriptor: int, nbytes: int, keep: bool = False) -> None:
        self.nbytes = operator.index(nbytes)
        self.descriptor = operator.index(descriptor)
        if os.fstat(descriptor).st_size < nbytes:
            raise ValueError(
                f"a file of {os.fstat(descriptor).st_size} bytes cannot hold a block of {nbytes}"
            )
        access = mmap.PROT_READ | mmap.PROT_WRITE
        address = _mmap(None, nbytes, access, mmap.MAP_SHARED | _POPULATE, descriptor, 0)
        if address == _FAILED:
            number = ctypes.get_errno()
            raise OSError(number, f"{os.strerror(number)}: cannot map {nbytes} bytes of shared memory")
        self.address = address
        if not keep:
            self._close()

    def _close(self, close: Any = os.close) -> None:
        if self.descriptor >= 0:
            descriptor, self.descriptor = self.descriptor, -1
            close(descriptor)

    def __del__(self, munmap: Any = _munmap) -> None:
        if self.address:
            munmap(self.address, self.nbytes)
        self._close()

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"data": (self.address, False), "shape": (self.nbytes,), "typestr": "|u1", "version": 3}

    def view(self) -> memoryview:
        """The bytes; the block stays while somebody has them."""
        return np.asarray(self).data


def filled(parts: Sequence[Any]) -> int:
    """The descriptor of new memory that holds some pieces of bytes, one behind the other.

    The system copies them by itself, which takes less time than writing through a mapping.

    Raises
    ------
    OSError
        If there is no memory or no descriptor left.
    """
    descriptor = _unnamed_file()
    try:
        for start in range(0, len(parts), _PARTS):
            _write(descriptor, [memoryview(part).cast("B") for part in parts[start : start + _PARTS]])
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _unnamed_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("fastgrad", os.MFD_CLOEXEC)
    descriptor, path = tempfile.mkstemp(prefix="fastgrad-")
    os.unlink(path)
    return descriptor


def _write(descriptor: int, left: list[memoryview]) -> None:
    while left:
        written = os.writev(descriptor, _first_bytes(left))
        while left and written >= len(left[0]):
            written -= len(left.pop(0))
        if written:
            left[0] = left[0][written:]


def _first_bytes(pieces: list[memoryview]) -> list[memoryview]:
    """As many of the pieces as one write may take, the last of them in part."""
    first, room = [], _BYTES
    for piece in pieces:
        first.append(piece[:room])
        room -= len(first[-1])
        if not room:
            break
    return first


_SHARED: weakref.WeakValueDictionary[int, Block] = weakref.WeakValueDictionary()
"""The blocks that tensors lie in and that can be sent on, by their addresses."""


def block_of(tensor: Any) -> Block | None:
    """The shared block that the memory of a tensor is, or None."""
    return _SHARED.get(rt.storage_field(tensor, _STORAGE_DATA))


def storage_over(block: Block, dtype: Any, count: int) -> Storage:
    """The elements of a block as the memory of tensors, which keeps it; the block is known as theirs from then on."""
    _SHARED[block.address] = block
    return Storage(tensor_over(block, dtype, 0, (count,), (1,), block.address))


def shared_copy(storage: Storage) -> Block:
    """A block with the content of the memory of tensors, which must not be empty."""
    return Block(filled([storage.buffer]), storage.nbytes(), keep=True)


def share(tensor: TensorBase) -> TensorBase:
    """Move the memory of a tensor into a block that processes share; the tensor stays the same object.

    Of a view the base moves along.

    Raises
    ------
    NotImplementedError
        If it is not on the CPU.
    RuntimeError
        If more tensors lie in that memory: they would stay behind.
    """
    if rt.field(tensor, _DEVICE):
        raise NotImplementedError(
            "share_memory_(): only memory of the CPU can be shared with other processes, but the tensor is on "
            f"{tensor.device}; share a copy, t.cpu()"
        )
    if block_of(tensor) is not None or not rt.storage_field(tensor, _NBYTES):
        return tensor
    base = tensor._base
    moving = [tensor] if base is None else [base, tensor]
    if rt.storage_field(tensor, _STORAGE_REFERENCES) > len(moving):
        raise RuntimeError(
            "share_memory_(): other tensors lie in the memory of this one and would not move with it; share it before "
            "views of it are made, or share a clone"
        )
    storage = Storage.of(tensor)
    start = rt.storage_field(tensor, _STORAGE_DATA)
    moved = storage_over(shared_copy(storage), storage.dtype, storage.size())
    for one in moving:
        d = dtypes.ALL[rt.field(one, _DTYPE)]
        offset = (rt.field(one, _DATA) - start) // d.itemsize
        flat = moved.flat if d is storage.dtype else moved.flat.view(d)  # a view of a base of another dtype
        lying = laid_out(flat, offset, tuple(rt.sizes(one)), tuple(rt.steps(one)))
        rt.set_data(one, turned(lying) if is_turned(one) else lying)
    return tensor
