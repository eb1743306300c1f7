"""Which dtype a function computes in while `fastgrad.autocast` is on: PyTorch's lists for the CPU and for GPUs.

A function says it by a decorator, below `planned`: the casts are calls of ops, so a plan repeats them. What it calls in
turn runs without autocast. Functions that are one op and compute in float32 on GPUs alone stand in `ops.autocasting`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from fastgrad.native.build.loader import ContextBase, TensorBase, rt
from fastgrad.native.contracts.element_types import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, FLOATS
from fastgrad.native.contracts.flags import (
    AUTOCAST,
    AUTOCAST_FLOAT16,
    CPU_AUTOCAST,
    GPU_AUTOCAST,
    GPU_AUTOCAST_FLOAT16,
)
from fastgrad.native.contracts.limits import FIRST_GPU
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import apply

Function = TypeVar("Function", bound=Callable[..., Any])

_DEVICE, _DTYPE = (TENSOR.fields[name][0] for name in ("device", "dtype"))
_CAST = BY_NAME["cast"].id


def lower_precision(function: Function) -> Function:
    """Let a function compute in the dtype of autocast: products of matrices, convolutions, attention."""
    return _decorated(function, _ANYWHERE, lambda _, mode: FLOAT16 if mode & _FLOAT16 else BFLOAT16)


def full_precision(function: Function) -> Function:
    """Let a function compute in float32: losses, products of elements."""
    return _decorated(function, _ANYWHERE, _float32)


def lower_precision_on_gpus(function: Function) -> Function:
    """As `lower_precision`, but not on the CPU."""
    return _decorated(function, GPU_AUTOCAST, lambda _, mode: FLOAT16 if mode & _FLOAT16 else BFLOAT16)


def full_precision_on_gpus(function: Function) -> Function:
    """As `full_precision`, but not on the CPU."""
    return _decorated(function, GPU_AUTOCAST, _float32)


def widest(function: Function) -> Function:
    """Let a function compute in the widest dtype of its operands: on the CPU what joins them."""
    return _decorated(function, CPU_AUTOCAST, _widest)


def widest_on_gpus(function: Function) -> Function:
    """The same on GPUs: inner products, what adds at indices."""
    return _decorated(function, GPU_AUTOCAST, _widest)


def unsafe_on_gpus(text: str) -> Callable[[Function], Function]:
    """Refuse a function in autocast on GPUs."""

    def refused(codes: set[int], mode: int) -> int:
        raise RuntimeError(text)

    return lambda function: _decorated(function, GPU_AUTOCAST, refused)


_ANYWHERE = AUTOCAST
_FLOAT16 = AUTOCAST_FLOAT16 | GPU_AUTOCAST_FLOAT16


def _float32(codes: set[int], mode: int) -> int:
    return FLOAT32


def _widest(codes: set[int], mode: int) -> int:
    return FLOAT32 if FLOAT32 in codes or len(codes) > 1 else min(codes, default=FLOAT32)


def _decorated(function: Function, where: int, target: Callable[[set[int], int], int]) -> Function:
    """A function whose operands are converted to the dtype ``target(dtypes of operands, mode)``.

    That happens in the modes `where`, on the GPU where any operand is there, to those that are there.
    """

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        mode = rt.get_mode() & where
        if not mode:
            return function(*args, **kwargs)
        found: set[tuple[bool, int]] = set()
        _each(list, lambda t: found.add((_on_gpu(t), rt.field(t, _DTYPE))), (*args, *kwargs.values()))
        on_gpu = any(there for there, _ in found)
        mode &= GPU_AUTOCAST if on_gpu else CPU_AUTOCAST
        if not mode:
            return function(*args, **kwargs)
        code = target({code for there, code in found if there == on_gpu} & set(FLOATS) - {FLOAT64}, mode)

        def cast(t: Any) -> Any:
            own = rt.field(t, _DTYPE)
            fits = own in (code, FLOAT64) or own not in FLOATS or _on_gpu(t) != on_gpu
            return t if fits else apply(_CAST, 1, 0, t, code)

        args = _each(tuple, cast, args)
        kwargs = dict(zip(kwargs, _each(tuple, cast, tuple(kwargs.values())), strict=True))
        without = ContextBase()
        without._off = mode
        with without:
            return function(*args, **kwargs)

    return wrapped  # type: ignore[return-value]


def _on_gpu(tensor: Any) -> bool:
    return rt.field(tensor, _DEVICE) >= FIRST_GPU


def _one(change: Callable[[Any], Any], value: Any) -> Any:
    return change(value) if isinstance(value, TensorBase) else value


def _each(kind: type, change: Callable[[Any], Any], values: Any) -> Any:
    """The values of a list or tuple, and of those in it, changed where they are tensors."""
    made = [_each(type(v), change, v) if isinstance(v, (list, tuple)) else _one(change, v) for v in values]
    return kind(*made) if hasattr(kind, "_fields") else kind(made)
