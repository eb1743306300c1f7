"""Matrix products."""

from __future__ import annotations

from fastgrad.native.layout import FLOAT_ONLY, FN_MATMUL, FUNCTION
from fastgrad.ops.call import invoke
from fastgrad.ops.registry import Kernel, Op
from fastgrad.ops.shape import transpose

GEMM = Kernel("gemm", "gemm:build", requires="gemm:find_blas")

mm = Op("mm", FUNCTION, ("a", "b"), kernel=GEMM, forward=FN_MATMUL, flags=FLOAT_ONLY)
bmm = Op("bmm", FUNCTION, ("a", "b"), kernel=GEMM, forward=FN_MATMUL, flags=FLOAT_ONLY)


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
