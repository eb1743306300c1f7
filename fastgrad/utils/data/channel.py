"""What a loader and a worker send each other: pickles beside the bytes of tensors and arrays, which no pickle holds.

A message is one packet of a socket of the system. If it is large, the packet has the descriptor of a block instead (see
`functions.shared_memory`): the sender writes into it and forgets it, the receiver maps it, and tensors that come of it
keep it. The end of a process is the end of its sockets, which the other side notices at once.
"""

from __future__ import annotations

import array
import os
import pickle
import socket
import struct
import weakref
from collections.abc import Iterator
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np

from fastgrad.capsules import in_rows, tensor_over
from fastgrad.functions import shared_memory, storage
from fastgrad.functions.memory_format import contiguous_format
from fastgrad.functions.storage import Storage
from fastgrad.multiprocessing.reductions import need_data, need_host
from fastgrad.native.build.loader import rt
from fastgrad.ops.conjugates import as_it_lies
from fastgrad.tensor import Tensor

PACKET = 1 << 15
"""How many bytes a packet holds beside its head; a message that is larger goes into a block."""
_ALIGNMENT = 64
_HEAD = struct.Struct("<qqq")
"""The number of the pass, that of the task, and how many bytes the block has, 0 without one."""
_LENGTHS = struct.Struct("<QQ")  # of the pickle, and how many buffers there are, whose lengths follow
_DESCRIPTOR = array.array("i", [0]).itemsize


class _Pickler(pickle.Pickler):
    """Leaves the memory of tensors to the buffers, of which each stands for the elements of one memory."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is Storage:
            need_host(obj)
            return received, (obj.dtype, pickle.PickleBuffer(obj.buffer))
        if isinstance(obj, Tensor) and type(obj).__reduce_ex__ is Tensor.__reduce_ex__:
            need_data(obj)
            return _covering(obj)
        return NotImplemented


def _covering(tensor: Any) -> Any:
    """What stands for a tensor: of a part of a memory, such as a sample of a data set, only that part is sent."""
    made = storage.reduced(tensor)
    if tensor.is_meta:
        return made
    kind, memory, _, sizes, _, requires_grad, attributes = made[1]
    if tensor.nbytes >= memory.nbytes():
        return made
    need_host(memory)
    part = Storage.of(as_it_lies(rt.detach(tensor)).clone(memory_format=contiguous_format))
    return (made[0], (kind, part, 0, sizes, in_rows(sizes), requires_grad, attributes), *made[2:])


def received(dtype: Any, buffer: Any) -> Storage:
    """The memory of tensors over a buffer of a message."""
    memory = np.frombuffer(buffer, np.uint8)
    address, count = memory.__array_interface__["data"][0], len(memory) // dtype.itemsize
    return Storage(tensor_over(memory, dtype, 0, (count,), (1,), address))


def packed(value: Any) -> list[Any]:
    """A value as pieces of bytes, of which buffers begin at multiples of 64."""
    buffers: list[pickle.PickleBuffer] = []
    file = BytesIO()
    _Pickler(file, 5, buffer_callback=buffers.append).dump(value)
    data, raw = file.getbuffer(), [buffer.raw() for buffer in buffers]
    lengths = array.array("Q", map(len, raw))
    parts: list[Any] = [_LENGTHS.pack(len(data), len(raw)), lengths, data]
    place = _LENGTHS.size + lengths.itemsize * len(raw) + len(data)
    for buffer in raw:
        parts += [bytes(-place % _ALIGNMENT), buffer]
        place += -place % _ALIGNMENT + len(buffer)
    return parts


def unpacked(body: memoryview) -> Any:
    """The value whose pieces a message holds; its buffers become the memory of tensors and arrays."""
    n_data, n = _LENGTHS.unpack_from(body)
    start = _LENGTHS.size + 8 * n
    lengths = body[_LENGTHS.size : start].cast("Q")
    return pickle.loads(body[start : start + n_data], buffers=_buffers(body, start + n_data, lengths))


def _buffers(body: memoryview, place: int, lengths: memoryview) -> Iterator[memoryview]:
    for length in lengths:
        place += -place % _ALIGNMENT
        yield body[place : place + length]
        place += length


class Message(NamedTuple):
    """What came: the numbers of the pass and of the task that it belongs to, and a value, packed."""

    turn: int
    task: int
    body: memoryview


class Channel:
    """One end of a connection between a loader and a worker.

    Parameters
    ----------
    end : socket.socket
        Of packets.
    """

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self._packet = bytearray(_HEAD.size + PACKET)

    def send(self, turn: int, task: int, parts: list[Any], wait: bool = True) -> bool:
        """Send the pieces of `packed`; without `wait`, False says that there is no room at the moment.

        Raises
        ------
        OSError
            If the other side is gone.
        """
        flags = 0 if wait else socket.MSG_DONTWAIT
        total = sum(memoryview(part).nbytes for part in parts)
        try:
            if total <= PACKET:
                self.end.sendmsg([_HEAD.pack(turn, task, 0), b"".join(parts)], (), flags)
                return True
            descriptor = shared_memory.filled(parts)
            try:
                along = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
                self.end.sendmsg([_HEAD.pack(turn, task, total)], along, flags)
            finally:
                os.close(descriptor)
        except BlockingIOError:
            return False
        return True

    def receive(self, wait: bool = True) -> Message | None:
        """The next message, or None if the other side is gone.

        Raises
        ------
        BlockingIOError
            If there is none, without `wait`.
        RuntimeError
            If this process has too many open files to take a block.
        """
        try:
            n, along, flags, _ = self.end.recvmsg_into(
                [self._packet], socket.CMSG_SPACE(_DESCRIPTOR), 0 if wait else socket.MSG_DONTWAIT
            )
        except ConnectionError:
            return None
        if not n:
            return None
        turn, task, total = _HEAD.unpack_from(self._packet)
        if not total:
            return Message(turn, task, memoryview(self._packet[_HEAD.size : n]))
        if flags & socket.MSG_CTRUNC:
            raise RuntimeError(
                "Too many open files: no block of a worker can be received; raise the limit (`ulimit -n`)"
            )
        (descriptor,) = array.array("i", along[0][2][:_DESCRIPTOR])
        return Message(turn, task, shared_memory.Block(descriptor, total).view())

    def close(self) -> None:
        """End the connection; what was sent before still arrives."""
        self.end.close()


_LOADERS: weakref.WeakSet[socket.socket] = weakref.WeakSet()
"""The loaders' ends of this process. A worker sees the end of its loader by them, so no other process may have them."""


def connected() -> tuple[Channel, socket.socket]:
    """The loader's end of a new connection, and the worker's."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    _LOADERS.add(here)
    return Channel(here), there


def _close_loaders() -> None:
    for end in list(_LOADERS):
        end.close()
    _LOADERS.clear()


os.register_at_fork(after_in_child=_close_loaders)
