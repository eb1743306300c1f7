"""Results with a history of operands that they have no gradient by: not zeros, none."""

from __future__ import annotations

from typing import Any

from fastgrad.autograd.function import Function
from fastgrad.functions.plans import unplanned


def unaffected(value: Any, *operands: Any) -> Any:
    """A value that requires a gradient where one of the operands does, and hands its gradient on to itself alone."""
    unplanned()
    return _Unaffected.apply(value, *operands)


class _Unaffected(Function):
    _only_launches = True

    @staticmethod
    def forward(ctx: Any, value: Any, *operands: Any) -> Any:
        ctx.count = len(operands)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g, *(None,) * ctx.count

    @staticmethod
    def jvp(ctx: Any, value: Any, *operands: Any) -> Any:
        return value

    @staticmethod
    def vmap(info: Any, in_dims: Any, value: Any, *operands: Any) -> Any:
        return _Unaffected.apply(value, *operands), in_dims[0]
