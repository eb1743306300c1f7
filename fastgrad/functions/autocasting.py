"""Which dtype a function computes in while `fastgrad.autocast` is on: PyTorch's lists for the CPU.

A function says it by a decorator, below `planned`: the casts are calls of ops, so a plan repeats them. What it calls in
turn runs without autocast.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from fastgrad.native.build.loader import ContextBase, TensorBase, rt
from fastgrad.native.contracts.element_types import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, FLOATS
from fastgrad.native.contracts.flags import AUTOCAST, AUTOCAST_FLOAT16
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import apply

Function = TypeVar("Function", bound=Callable[..., Any])

_DTYPE = TENSOR.fields["dtype"][0]
_CAST = BY_NAME["cast"].id


def lower_precision(function: Function) -> Function:
    """Let a function compute in the dtype of autocast: products of matrices, convolutions, attention."""
    return _decorated(function, lambda _: FLOAT16 if rt.get_mode() & AUTOCAST_FLOAT16 else BFLOAT16)


def full_precision(function: Function) -> Function:
    """Let a function compute in float32: losses, products of elements."""
    return _decorated(function, lambda _: FLOAT32)


def widest(function: Function) -> Function:
    """Let a function compute in the widest dtype of its operands: what joins them."""

    def target(codes: set[int]) -> int:
        return FLOAT32 if FLOAT32 in codes or len(codes) > 1 else min(codes, default=FLOAT32)

    return _decorated(function, target)


def _decorated(function: Function, target: Callable[[set[int]], int]) -> Function:
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if not rt.get_mode() & AUTOCAST:
            return function(*args, **kwargs)
        codes: set[int] = set()
        _each(list, lambda t: codes.add(rt.field(t, _DTYPE)), (*args, *kwargs.values()))
        code = target(codes & set(FLOATS) - {FLOAT64})

        def cast(t: Any) -> Any:
            own = rt.field(t, _DTYPE)
            return t if own in (code, FLOAT64) or own not in FLOATS else apply(_CAST, 1, 0, t, code)

        args = _each(tuple, cast, args)
        kwargs = dict(zip(kwargs, _each(tuple, cast, tuple(kwargs.values())), strict=True))
        without = ContextBase()
        without._off = AUTOCAST
        with without:
            return function(*args, **kwargs)

    return wrapped  # type: ignore[return-value]


def _one(change: Callable[[Any], Any], value: Any) -> Any:
    return change(value) if isinstance(value, TensorBase) else value


def _each(kind: type, change: Callable[[Any], Any], values: Any) -> Any:
    """The values of a list or tuple, and of those in it, changed where they are tensors."""
    made = [_each(type(v), change, v) if isinstance(v, (list, tuple)) else _one(change, v) for v in values]
    return kind(*made) if hasattr(kind, "_fields") else kind(made)
