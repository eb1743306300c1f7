"""MPI as the transport: its import, its operations, and the memory of tensors as buffers."""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
from enum import Enum
from functools import cache
from typing import Any

import numpy as np

from fastgrad import dtypes
from fastgrad.autograd.mutation import increment_version
from fastgrad.functions.arguments import need_tensor
from fastgrad.functions.data import elements_of
from fastgrad.native.build.loader import rt
from fastgrad.native.messages.unit import half_routines
from fastgrad.ops.conjugates import is_turned


class DistError(RuntimeError):
    """What goes wrong between processes."""


class DistBackendError(DistError):
    """A call of several processes failed: one of them is gone, late, or makes another call."""


DistError.__module__ = DistBackendError.__module__ = "fastgrad.distributed"  # as which programs catch them


class ReduceOp(Enum):
    """How a reduction combines the elements of all ranks.

    AVG divides before it adds; BAND, BOR and BXOR are for integers and bools.
    """

    SUM = "SUM"
    AVG = "AVG"
    PRODUCT = "PROD"
    MIN = "MIN"
    MAX = "MAX"
    BAND = "BAND"
    BOR = "BOR"
    BXOR = "BXOR"


ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined] # what PyTorch calls the type of its members


@cache
def mpi() -> Any:
    """The module ``mpi4py.MPI``; its import starts MPI.

    Who starts MPI ends it. Left to mpi4py, a forked child that ends would end it as well, and take from its parent what
    both share.
    """
    try:
        import mpi4py

        ours = "mpi4py.MPI" not in sys.modules and mpi4py.rc.finalize is not False
        if ours:
            mpi4py.rc.finalize = False
        from mpi4py import MPI

        owner()
    except ImportError as error:
        raise RuntimeError(
            "fastgrad.distributed needs mpi4py and an MPI; install both with\n"
            '    pip install "fastgrad[mpi]"\n'
            f"(the import said: {error})"
        ) from error
    if ours:
        atexit.register(_finalize)
    return MPI


@cache
def owner() -> int:
    """The process that started MPI. A forked child shares its connections, and would speak in its name."""
    return os.getpid()


def is_usable() -> bool:
    """Whether this process may call MPI."""
    return os.getpid() == owner() and not mpi().Is_finalized()


def need_usable(call: str) -> None:
    """Raise where a call of MPI would end the process, or disturb that of another one."""
    if not is_usable():
        raise DistError(
            f"{call}(): MPI has been finalized; call destroy_process_group() before, and nothing afterwards"
            if os.getpid() == owner()
            else f"{call}(): this process was forked from a rank, and must not use its connections; make the call in "
            "the rank itself"
        )


def _finalize() -> None:
    if is_usable():
        mpi().Finalize()


# --- halves ------------------------------------------------------------------------------------------------------
# MPI has no type for them that every implementation knows, so their bits travel as uint16 and compiled code combines
# them.

_HALVES = (dtypes.float16, dtypes.bfloat16)


@cache
def library() -> Any:
    """What mpi4py calls; names of MPI's functions are found in it and in the libraries that it stands on."""
    return ctypes.CDLL(mpi().__file__)


@cache
def _half_operation(kind: str, name: str) -> Any:
    """An operation of MPI's made of a compiled function: it needs no Python where MPI calls it."""
    handle = ctypes.c_int64(0)
    address = ctypes.c_void_p(half_routines()[f"{kind}_{name.lower()}"])
    code = library().MPI_Op_create(address, 1, ctypes.byref(handle))
    if code:
        raise mpi().Exception(code)
    return mpi().Op.fromhandle(handle.value)


# --- operations and buffers --------------------------------------------------------------------------------------

_BITWISE = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)
_OF_BOOLS = {"MIN": "LAND", "BAND": "LAND", "MAX": "LOR", "BOR": "LOR", "BXOR": "LXOR"}


def operation(call: str, op: Any, dtype: Any) -> Any:
    """MPI's operation for a reduction of tensors of a dtype; an error for what has no meaning there."""
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{call}(): argument 'op' must be ReduceOp, not {type(op).__name__}")
    name = "SUM" if op is ReduceOp.AVG else op.value
    floating = dtype.is_floating_point or dtype.is_complex
    if op is ReduceOp.AVG and not floating:
        raise RuntimeError(
            f"{call}(): ReduceOp.AVG needs floating-point tensors, got {dtype}; use ReduceOp.SUM"
        )
    if op in _BITWISE and floating:
        raise RuntimeError(f"{call}(): ReduceOp.{op.name} needs integers or bools, got {dtype}")
    if dtype.is_complex and name in ("MIN", "MAX"):
        raise RuntimeError(f"{call}(): ReduceOp.{op.name} is not defined for complex numbers ({dtype})")
    if dtype is dtypes.bool_:
        if name not in _OF_BOOLS:
            raise RuntimeError(
                f"{call}(): ReduceOp.{op.name} is not defined for bools; use ReduceOp.BOR or ReduceOp.BAND, or "
                "convert to integers"
            )
        return getattr(mpi(), _OF_BOOLS[name])
    if dtype in _HALVES:
        return _half_operation(str(dtype).rpartition(".")[2], name)
    return getattr(mpi(), name)


def need_contiguous(call: str, tensor: Any, argument: str = "tensor") -> Any:
    """The tensor, if its elements lie one behind the other: as a plain one, which cannot lie about its size."""
    tensor = rt.detach(need_tensor(call, tensor, argument))
    if is_turned(tensor):
        raise ValueError(
            f"{call}(): argument '{argument}' holds conjugates of what lies in its memory; make a copy with "
            ".resolve_conj() or .resolve_neg()"
        )
    if not tensor.is_contiguous():
        raise ValueError(
            f"{call}(): Tensors must be contiguous; make a copy of '{argument}' with .contiguous()"
        )
    return tensor


def need_sendable(call: str, tensor: Any, argument: str = "tensor") -> Any:
    """The tensor, if its memory can be handed to MPI as it lies."""
    if need_tensor(call, tensor, argument).device.type != "cpu":
        raise NotImplementedError(
            f"{call}(): argument '{argument}' lies on {tensor.device}; MPI sends memory of the CPU: copy it with "
            ".cpu() first, or begin with init_process_group('nccl') and let all tensors of the call lie on one GPU"
        )
    return need_contiguous(call, tensor, argument)


def memory(tensor: Any) -> np.ndarray:
    """The elements of a tensor of `need_sendable` as a flat array over the same memory; halves as their bits."""
    flat = elements_of(tensor).reshape(-1)
    return flat.view(np.uint16) if tensor.dtype in _HALVES else flat


def apart(given: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Elements to send that do not lie where others arrive, which MPI does not survive: a copy if they would."""
    return given.copy() if np.may_share_memory(given, target) else given


def written(*tensors: Any) -> None:
    """Say that communication wrote to tensors, for those who saved them."""
    for tensor in tensors:
        increment_version(tensor)
