"""NVIDIA's driver: its functions by address, and its errors as exceptions.

The driver is a shared library that comes with the GPU's kernel module; nothing of it is needed to build or to import
fastgrad. Compiled code calls it by the addresses that `Driver.address` gives, Python by `Driver.call`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from fastgrad.cuda import blas

LIBRARY = "libcuda.so.1"
VERSION = 12000
"""The interface that is asked for: CUDA 12.0. Drivers from 525 on have it."""

_P, _I, _U, _Z = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_size_t
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuInit": (_U,),
    "cuDriverGetVersion": (_P,),
    "cuDeviceGetCount": (_P,),
    "cuDeviceGet": (_P, _I),
    "cuDeviceGetName": (_P, _I, _I),
    "cuDeviceGetAttribute": (_P, _I, _I),
    "cuDeviceTotalMem": (_P, _I),
    "cuDevicePrimaryCtxRetain": (_P, _I),
    "cuCtxSetCurrent": (_P,),
    "cuCtxSynchronize": (),
    "cuMemGetInfo": (_P, _P),
    "cuMemAlloc": (_P, _Z),
    "cuMemFree": (_P,),
    "cuMemHostAlloc": (_P, _Z, _U),
    "cuMemFreeHost": (_P,),
    "cuPointerGetAttribute": (_P, _I, _P),
    "cuMemcpyHtoDAsync": (_P, _P, _Z, _P),
    "cuMemcpyDtoHAsync": (_P, _P, _Z, _P),
    "cuMemcpyPeerAsync": (_P, _P, _P, _P, _Z, _P),
    "cuDeviceCanAccessPeer": (_P, _I, _I),
    "cuCtxEnablePeerAccess": (_P, _U),
    "cuMemsetD8Async": (_P, ctypes.c_ubyte, _Z, _P),
    "cuModuleLoadData": (_P, _P),
    "cuModuleGetFunction": (_P, _P, _P),
    "cuLaunchKernel": (_P, _U, _U, _U, _U, _U, _U, _U, _P, _P, _P),
    "cuStreamCreate": (_P, _U),
    "cuStreamCreateWithPriority": (_P, _U, _I),
    "cuStreamDestroy": (_P,),
    "cuStreamSynchronize": (_P,),
    "cuStreamQuery": (_P,),
    "cuStreamWaitEvent": (_P, _P, _U),
    "cuEventCreate": (_P, _U),
    "cuEventDestroy": (_P,),
    "cuEventRecord": (_P, _P),
    "cuEventQuery": (_P,),
    "cuEventSynchronize": (_P,),
    "cuEventElapsedTime": (_P, _P, _P),
    "cuStreamBeginCapture": (_P, _I),
    "cuStreamEndCapture": (_P, _P),
    "cuStreamIsCapturing": (_P, _P),
    "cuStreamGetCaptureInfo": (_P, _P, _P, _P, _P, _P),
    "cuGraphInstantiateWithFlags": (_P, _P, ctypes.c_uint64),
    "cuGraphExecKernelNodeSetParams": (_P, _P, _P),
    "cuGraphLaunch": (_P, _P),
    "cuGraphDestroy": (_P,),
    "cuGraphExecDestroy": (_P,),
    "cuGetErrorName": (_I, _P),
    "cuGetErrorString": (_I, _P),
}
"""The functions of the driver that are used, and their arguments. Each answers with a code, 0 if all is well."""

FATAL = frozenset((214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 999))
"""Errors after which the context is lost: ECC, NVLink, illegal addresses and instructions, launches that failed."""


class Driver:
    """The driver's functions.

    Parameters
    ----------
    address : callable
        From the name of a function to its address; raises where there is none.
    """

    def __init__(self, address: Callable[[str], int]) -> None:
        self.address = address
        self._called: dict[str, Callable[..., int]] = {}

    def blas(self) -> Callable[[str], int]:
        """The function that gives the addresses of cuBLAS."""
        return blas.find()

    def ask(self, name: str, *args: Any) -> int:
        """Call a function; its code."""
        function = self._called.get(name)
        if function is None:
            function = ctypes.CFUNCTYPE(ctypes.c_int, *SIGNATURES[name])(self.address(name))
            self._called[name] = function
        return function(*args)

    def call(self, name: str, *args: Any) -> None:
        """Call a function; raise what it says."""
        code = self.ask(name, *args)
        if code:
            raise self.error(code, name)

    def total_memory(self, device: int) -> int:
        """Bytes of a device's memory."""
        return self.number("cuDeviceTotalMem", device, kind=ctypes.c_size_t)

    def number(self, name: str, *args: Any, kind: Any = ctypes.c_int) -> int:
        """Call a function that writes a number to where its first argument points."""
        found = kind(0)
        self.call(name, ctypes.addressof(found), *args)
        return int(found.value or 0)

    def text_of(self, code: int) -> str:
        """What a code means, as the driver says it."""
        found = []
        for name in ("cuGetErrorString", "cuGetErrorName"):
            place = ctypes.c_char_p()
            self.ask(name, code, ctypes.addressof(place))
            found.append(place.value.decode() if place.value else f"error {code}")
        return f"{found[0]} ({found[1]})"

    def error(self, code: int, what: str) -> Exception:
        """The exception for a code: what the driver says, in what, and whether the process can go on."""
        lost = (
            "; the GPU's context is lost: this process must be started again to use it"
            if code in FATAL
            else ""
        )
        return RuntimeError(f"CUDA error: {self.text_of(code)}, in {what}{lost}")


def version_name(number: int) -> str:
    """A version of CUDA, as the driver counts them, in its usual form."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _address_in(library: ctypes.CDLL) -> Callable[[str], int]:
    try:
        lookup = library.cuGetProcAddress_v2
    except AttributeError:
        raise RuntimeError(
            "the NVIDIA driver of this machine is too old: fastgrad needs one with CUDA 12.0 (525 or newer)"
        ) from None

    def address(name: str) -> int:
        found, status = ctypes.c_void_p(), ctypes.c_int()
        code = lookup(name.encode(), ctypes.byref(found), VERSION, ctypes.c_uint64(0), ctypes.byref(status))
        if code or not found.value:
            raise RuntimeError(f"the NVIDIA driver of this machine lacks {name}: fastgrad needs 525 or newer")
        return found.value

    return address


def find() -> Driver:
    """The driver of this machine.

    Raises
    ------
    RuntimeError
        If there is none, or it is too old.
    """
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        raise RuntimeError(
            f"Found no NVIDIA driver on your system ({LIBRARY} cannot be loaded). Install one that supports your GPU, "
            "525 or newer, from https://www.nvidia.com/drivers; without a GPU use device='cpu'"
        ) from None
    return Driver(_address_in(library))
