"""A second device: the CPU's kernels over memory that nobody but them can reach."""

from __future__ import annotations

import ctypes
import mmap
import threading
from typing import Any

from fastgrad.kernels.compile import compile_kernel
from fastgrad.native.host.devices import Routines

_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_int64)
_NOTHING, _EVERYTHING = 0, mmap.PROT_READ | mmap.PROT_WRITE
_FREED = 0xCB
SIZE = 64 << 20


class Enclave:
    """Memory that is open while a kernel of its device runs. Whoever else touches it is ended by the system."""

    def __init__(self, size: int = SIZE, *, locked: bool = True) -> None:
        self._locks = locked
        self._map, self._size = mmap.mmap(-1, size), size
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self._protect = ctypes.CDLL(None, use_errno=True).mprotect
        self._protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        self._lock, self._open, self._used = threading.Lock(), 0, 0
        self._free: dict[int, list[int]] = {}
        self._entries: list[Any] = []
        self.in_use = 0
        self._change(_NOTHING)

    def _change(self, protection: int) -> None:
        if self._locks and self._protect(self.start, self._size, protection):
            raise OSError(ctypes.get_errno(), "mprotect")

    def __enter__(self) -> None:
        with self._lock:
            self._open += 1
            if self._open == 1:
                self._change(_EVERYTHING)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._open -= 1
            if self._open == 0:
                self._change(_NOTHING)

    def entry(self, function: Any) -> int:
        """The address of a function that is called with the address of a frame."""
        self._entries.append(_ENTRY(function))
        return ctypes.cast(self._entries[-1], ctypes.c_void_p).value or 0

    def routines(self) -> Routines:
        """What the device is registered with."""
        return Routines(self.entry(self._allocate), self.entry(self._release))

    def _allocate(self, frame: int) -> None:
        words = (ctypes.c_int64 * 2).from_address(frame)
        words[1] = self.allocate(words[0])

    def _release(self, frame: int) -> None:
        nbytes, address = (ctypes.c_int64 * 2).from_address(frame)
        self.release(address, nbytes)

    def allocate(self, nbytes: int) -> int:
        """The address of so many bytes, or zero."""
        size = max(64, 1 << (nbytes - 1).bit_length())
        free = self._free.setdefault(size, [])
        if not free and self._used + size > self._size:
            return 0
        if not free:
            free.append(self.start + self._used)
            self._used += size
        self.in_use += size
        return free.pop()

    def release(self, address: int, nbytes: int) -> None:
        """Take it back."""
        size = max(64, 1 << (nbytes - 1).bit_length())
        with self:
            ctypes.memset(address, _FREED, size)
        self._free[size].append(address)
        self.in_use -= size


class StandIn:
    """The resolver of such a device; it counts what it was asked for."""

    def __init__(self) -> None:
        self.enclave = Enclave()
        self.kernels: set[str] = set()

    def __call__(self, kernel: Any, dtype: int, layout_class: int) -> int:
        self.kernels.add(kernel.name)
        run = _ENTRY(compile_kernel(kernel, dtype, layout_class))

        def inside(frame: int) -> None:
            with self.enclave:
                run(frame)

        return self.enclave.entry(inside)
