"""Memory of the host's that is locked in its place, so that a GPU reads and writes it by itself.

Blocks are powers of two and kept for others. A block that a GPU copies from or to goes back when the copy is done.
"""

from __future__ import annotations

import bisect
import ctypes
import math
import os
import sys
import threading
import weakref
from typing import Any

from fastgrad import capsules
from fastgrad.cuda import gpus, later
from fastgrad.cuda.driver import Driver
from fastgrad.cuda.gpus import Gpu
from fastgrad.cuda.selection import gpu_of
from fastgrad.cuda.streams import stream_on
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.element_types import ITEMSIZES
from fastgrad.native.contracts.flags import CONJUGATED
from fastgrad.native.contracts.formats import CONTIGUOUS_FORMAT, PRESERVE_FORMAT
from fastgrad.native.contracts.limits import FIRST_GPU
from fastgrad.native.contracts.records import STORAGE, TENSOR
from fastgrad.native.host import devices

_DTYPE, _DEVICE, _FLAGS = (TENSOR.fields[name][0] for name in ("dtype", "device", "flags"))
_DATA = STORAGE.fields["data"][0]
_PORTABLE = 1  # CU_MEMHOSTALLOC_PORTABLE: locked for all contexts
_SMALLEST = 512
_lock = threading.RLock()  # a destructor may come while its thread is in here
_free: dict[tuple[Driver, int], list[int]] = {}  # by size
_held: weakref.WeakValueDictionary[int, _Held] = weakref.WeakValueDictionary()
"""What tensors have, by address."""
_places: list[int] = []
"""The addresses of all blocks, whether tensors have them or not, in order."""

os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


class _Held:
    """A block that a tensor's memory is; gives it back when it is dropped."""

    __slots__ = ("__weakref__", "address", "driver", "nbytes", "uses")

    def __init__(self, driver: Driver, address: int, nbytes: int) -> None:
        self.driver, self.address, self.nbytes = driver, address, nbytes
        self.uses: set[tuple[Gpu, int]] = set()

    def __del__(self, finalizing: Any = sys.is_finalizing) -> None:
        if not finalizing():
            _give_back(self.driver, self.address, self.nbytes, self.uses)


def _give_back(driver: Driver, address: int, nbytes: int, uses: set[tuple[Gpu, int]]) -> None:
    if gpus.is_attached():
        uses = uses | {(gpu, stream_on(gpu).cuda_stream) for gpu in gpus.attached()}
        later.after(uses, lambda: _keep(driver, address, nbytes))


def _keep(driver: Driver, address: int, nbytes: int) -> None:
    with _lock:
        _free.setdefault((driver, nbytes), []).append(address)


def _take(gpu: Gpu, nbytes: int) -> _Held:
    size = max(_SMALLEST, 1 << max(0, nbytes - 1).bit_length())
    later.settle()
    with _lock:
        blocks = _free.get((gpu.driver, size))
        address = blocks.pop() if blocks else 0
    if not address:
        gpu.make_current()
        place = ctypes.c_void_p()
        code = gpu.driver.ask("cuMemHostAlloc", ctypes.addressof(place), size, _PORTABLE)
        if code or not place.value:
            raise gpu.driver.error(code, f"pin_memory(), which needs {size} bytes of the host's memory")
        address = place.value
        with _lock:
            bisect.insort(_places, address)
    return _Held(gpu.driver, address, size)


def pin(tensor: Any, device: Any = None) -> Any:
    """A copy of a tensor of the CPU's in memory that is locked, without history; itself if it is there already.

    Raises
    ------
    RuntimeError
        If it is not the CPU's, or there is no GPU.
    """
    if rt.field(tensor, _DEVICE):
        where = devices.name_of(rt.field(tensor, _DEVICE))
        raise RuntimeError(f"cannot pin a tensor of {where}: only dense CPU tensors can be pinned")
    if is_pinned(tensor):
        return tensor
    out = _like(tensor, gpu_of(device))
    rt.copy(out, rt.detach(tensor))
    return out


def _like(tensor: Any, gpu: Gpu) -> Any:
    """A tensor of the CPU's in locked memory, which lies there as another one does."""
    code, sizes = rt.field(tensor, _DTYPE), tuple(rt.sizes(tensor))
    steps = tuple(rt.steps(tensor)) if rt.lies_in(tensor, PRESERVE_FORMAT) else capsules.in_rows(sizes)
    held = _take(gpu, math.prod(sizes) * ITEMSIZES[code])
    out = rt.foreign(code, 0, sizes, steps, held.address, held.nbytes, held)
    _held[held.address] = held
    return out


def empty_cache() -> None:
    """Give blocks that no tensor has back to the system."""
    later.settle()
    if not gpus.is_attached():
        return
    with _lock:
        blocks = [(driver, address) for (driver, _), found in _free.items() for address in found]
        _free.clear()
        for _, address in blocks:
            _places.remove(address)
    gpus.attached()[0].make_current()
    for driver, address in blocks:
        driver.ask("cuMemFreeHost", address)


def is_pinned(tensor: Any) -> bool:
    """Whether a tensor lies in memory that `pin` locked."""
    return _memory_of(tensor) is not None


def _memory_of(tensor: Any) -> _Held | None:
    if not _held or rt.field(tensor, _DEVICE):
        return None
    address = rt.storage_field(tensor, _DATA)
    with _lock:
        place = bisect.bisect_right(_places, address)
        held = _held.get(_places[place - 1]) if place else None
    return held if held is not None and address < held.address + held.nbytes else None


def to_host(source: Any) -> Any:
    """A copy of a GPU's tensor in locked memory, without history, that nobody waits for."""
    dense = rt.detach(source)
    if not rt.lies_in(dense, PRESERVE_FORMAT):
        dense = rt.like(source, rt.field(source, _DTYPE), rt.field(source, _DEVICE), CONTIGUOUS_FORMAT)
        rt.copy(dense, rt.detach(source))
    out = _like(dense, _gpu_of(dense))
    copy(out, dense, wait=False)
    return out


def _gpu_of(tensor: Any) -> Gpu:
    return gpus.attached()[rt.field(tensor, _DEVICE) - FIRST_GPU]


def copy(out: Any, source: Any, wait: bool = True) -> None:
    """Copy a tensor to one of the same sizes and dtype, on whichever devices they are.

    Between locked memory and that of a GPU, the GPU copies by itself; its current stream counts as using the locked
    memory, and `wait` says to wait for it. Nobody waits either way where both lie alike; where they do not, a copy to
    the host is waited for.
    """
    to, at = rt.field(out, _DEVICE), rt.field(source, _DEVICE)
    host, there = (source, out) if to else (out, source)
    held = _memory_of(host) if bool(to) != bool(at) and max(to, at) >= FIRST_GPU else None
    if held is None:
        rt.copy(out, source)
        return
    gpu = _gpu_of(there)
    if not wait and lie_alike(out, source):
        rt.queue_copy(out, source)
    else:
        rt.copy(out, source)
    stream = stream_on(gpu)
    held.uses.add((gpu, stream.cuda_stream))
    gpu.keep_in_capture(held)
    if wait and to:
        stream.synchronize()


def lie_alike(out: Any, source: Any) -> bool:
    """Whether the bytes of one tensor could be those of another one as they stand."""
    return (
        rt.field(out, _DTYPE) == rt.field(source, _DTYPE)
        and not (rt.field(out, _FLAGS) ^ rt.field(source, _FLAGS)) & CONJUGATED
        and tuple(rt.sizes(out)) == tuple(rt.sizes(source))
        and tuple(rt.steps(out)) == tuple(rt.steps(source))
        and bool(rt.lies_in(out, PRESERVE_FORMAT))
    )


def copy_in_place(out: Any, source: Any) -> bool:
    """Copy a tensor to another one without waiting and without history, one of them in locked memory; False if that is
    not possible. The sizes may be such as are broadcast.
    """
    to, at = rt.field(out, _DEVICE), rt.field(source, _DEVICE)
    if max(to, at) < FIRST_GPU or bool(to) == bool(at) or not is_pinned(source if to else out):
        return False
    if not lie_alike(out, source):
        if to or not rt.lies_in(out, PRESERVE_FORMAT):
            return False
        there = rt.like(out, rt.field(out, _DTYPE), at, PRESERVE_FORMAT)
        rt.copy(there, source)
        source = there
    copy(out, source, wait=False)
    return True
