"""Matrix products."""

from __future__ import annotations

from fastgrad.native.layout import FLOAT_ONLY, FN_DOT, FN_MATMUL, FN_MV, FUNCTION
from fastgrad.ops.call import invoke
from fastgrad.ops.registry import Kernel, Op
from fastgrad.ops.shape import transpose, unsqueeze

GEMM = Kernel("gemm", "gemm:build", requires="gemm:find_blas")

mm = Op("mm", FUNCTION, ("a", "b"), kernel=GEMM, forward=FN_MATMUL, flags=FLOAT_ONLY)
bmm = Op("bmm", FUNCTION, ("a", "b"), kernel=GEMM, forward=FN_MATMUL, flags=FLOAT_ONLY)
mv = Op("mv", FUNCTION, ("a", "b"), kernel=GEMM, forward=FN_MV, flags=FLOAT_ONLY)
dot = Op("dot", FUNCTION, ("a", "b"), kernel=GEMM, forward=FN_DOT, flags=FLOAT_ONLY)


def _swapped(x):
    return invoke(transpose, (x,), -2, -1)


def _rules(op):
    @op.vjp("a")
    def _(g, b):
        return invoke(op, (g, _swapped(b)))

    @op.vjp("b")
    def _(g, a):
        return invoke(op, (_swapped(a), g))


_rules(mm)
_rules(bmm)


@mv.vjp("a")
def _(g, b):
    return invoke(unsqueeze, (g,), 1) * invoke(unsqueeze, (b,), 0)


@mv.vjp("b")
def _(g, a):
    return invoke(mv, (_swapped(a), g))


@dot.vjp("a")
def _(g, b):
    return g * b


@dot.vjp("b")
def _(g, a):
    return g * a
