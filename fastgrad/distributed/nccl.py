"""NCCL: NVIDIA's library of calls between GPUs, called by address, and its communicators."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from fastgrad import dtypes
from fastgrad.cuda import libraries
from fastgrad.distributed.progress import Transfer, elements
from fastgrad.distributed.transport import DistBackendError, ReduceOp, operation
from fastgrad.distributed.work import Collective

if TYPE_CHECKING:
    from fastgrad.cuda.gpus import Gpu
    from fastgrad.distributed.groups import ProcessGroup

ID_BYTES = 128


class UniqueId(ctypes.Structure):
    """What the ranks of a communicator know each other by."""

    _fields_ = [("bytes", ctypes.c_char * ID_BYTES)]


_P, _Z, _I = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "ncclGetUniqueId": (_P,),
    "ncclCommInitRank": (_P, _I, UniqueId, _I),
    "ncclCommDestroy": (_P,),
    "ncclCommAbort": (_P,),
    "ncclAllReduce": (_P, _P, _Z, _I, _I, _P, _P),
    "ncclReduce": (_P, _P, _Z, _I, _I, _I, _P, _P),
    "ncclBroadcast": (_P, _P, _Z, _I, _I, _P, _P),
    "ncclAllGather": (_P, _P, _Z, _I, _P, _P),
    "ncclReduceScatter": (_P, _P, _Z, _I, _I, _P, _P),
    "ncclSend": (_P, _Z, _I, _I, _P, _P),
    "ncclRecv": (_P, _Z, _I, _I, _P, _P),
    "ncclGroupStart": (),
    "ncclGroupEnd": (),
}
TEXTS: dict[str, tuple[Any, ...]] = {"ncclGetErrorString": (_I,), "ncclGetLastError": (_P,)}
"""Functions that give a text instead of a code."""

BYTES = 0  # ncclInt8, as which copies travel
KINDS = {
    dtypes.int8: 0, dtypes.uint8: 1, dtypes.bool_: 1, dtypes.int32: 2, dtypes.int64: 4,
    dtypes.float16: 6, dtypes.float32: 7, dtypes.float64: 8, dtypes.bfloat16: 9,
    dtypes.complex64: 7, dtypes.complex128: 8,
}  # fmt: skip
"""What NCCL calls dtypes; a complex number is two."""

OPERATIONS = {ReduceOp.SUM: 0, ReduceOp.AVG: 0, ReduceOp.PRODUCT: 1, ReduceOp.MAX: 2, ReduceOp.MIN: 3}
_OF_BOOLS = {ReduceOp.BOR: 2, ReduceOp.BAND: 3}


class Nccl:
    """The functions of the library.

    Parameters
    ----------
    address : callable
        From the name of a function to its address.
    """

    def __init__(self, address: Callable[[str], int]) -> None:
        self._called: dict[str, Callable[..., Any]] = {
            name: ctypes.CFUNCTYPE(result, *given)(address(name))
            for table, result in ((SIGNATURES, ctypes.c_int), (TEXTS, ctypes.c_char_p))
            for name, given in table.items()
        }

    def call(self, name: str, *args: Any, communicator: int = 0) -> None:
        """Call a function; raise what it says."""
        code = self._called[name](*args)
        if code:
            text = (self._called["ncclGetErrorString"](code) or b"").decode(errors="replace")
            more = (self._called["ncclGetLastError"](communicator) or b"").decode(errors="replace").strip()
            raise DistBackendError(f"NCCL error {code} in {name}: {text}{more and f' ({more})'}")


@cache
def library() -> Nccl:
    """NCCL.

    Raises
    ------
    ImportError
        If there is none.
    """
    return Nccl(
        libraries.load(
            "nccl",
            ("libnccl.so.2",),
            "the backend nccl needs NCCL, which was not found: pip install 'fastgrad[nccl13]' "
            "(or 'fastgrad[nccl12]', as the driver needs)",
        )
    )


def is_available() -> bool:
    """Whether NCCL is there."""
    try:
        library()
    except ImportError:
        return False
    return True


def kind_and_count(call: str, tensor: Any) -> tuple[int, int]:
    """What NCCL calls the dtype of a tensor that it is to combine, and how many numbers there are."""
    if tensor.dtype not in KINDS:
        raise NotImplementedError(
            f"{call}(): NCCL combines no numbers of {tensor.dtype}; convert them with .to(), or use tensors on the CPU"
        )
    return KINDS[tensor.dtype], tensor.numel() * (2 if tensor.dtype.is_complex else 1)


def operation_of(call: str, op: Any, dtype: Any) -> int:
    """What NCCL calls an operation on numbers of a dtype; an error for what it has none for."""
    operation(call, op, dtype)  # refuses what has no meaning
    found = (_OF_BOOLS | OPERATIONS if dtype is dtypes.bool_ else OPERATIONS).get(op)
    if found is None or (dtype.is_complex and found):
        raise NotImplementedError(
            f"{call}(): NCCL has no ReduceOp.{op.name} for {dtype}; use tensors on the CPU"
        )
    return found


class Communicator:
    """What the GPUs of a group's ranks call each other by. All ranks make one at the same time.

    Parameters
    ----------
    group : ProcessGroup
    gpu : Gpu
        That of this rank.
    """

    def __init__(self, group: ProcessGroup, gpu: Gpu) -> None:
        self.gpu, self._nccl = gpu, library()
        identity = UniqueId()
        if group.rank() == 0:
            self._nccl.call("ncclGetUniqueId", ctypes.addressof(identity))
        data = np.frombuffer(identity, np.uint8)  # type: ignore[call-overload]
        begin = Transfer("MPI_Ibcast", data, *elements(data), 0, group.comm)
        Collective(group, "communicator of NCCL", (), begin).wait()
        gpu.make_current()
        made = ctypes.c_void_p()
        self._nccl.call("ncclCommInitRank", ctypes.addressof(made), group.size(), identity, group.rank())
        self.handle = made.value or 0

    def call(self, name: str, *args: Any) -> None:
        """Call a function whose last arguments but the stream are this communicator."""
        *first, stream = args
        self.gpu.make_current()
        self._nccl.call(name, *first, self.handle, stream, communicator=self.handle)

    def together(self, calls: Sequence[Callable[[], None]]) -> None:
        """Make calls of which none waits for another one."""
        self._nccl.call("ncclGroupStart")
        try:
            for one in calls:
                one()
        finally:
            self._nccl.call("ncclGroupEnd", communicator=self.handle)

    def free(self, broken: bool) -> None:
        """Give it back when its calls are done; with `broken`, what is under way is given up."""
        if broken:
            self.gpu.make_current()
        else:
            self.gpu.synchronize()
        self._nccl.call("ncclCommAbort" if broken else "ncclCommDestroy", self.handle)
