"""Matrix products."""

from __future__ import annotations

from fastgrad.native.contracts.element_types import NUMBERS
from fastgrad.native.contracts.frames import matrices
from fastgrad.native.contracts.ops import FLOAT_ONLY, FN_ADDMM, FN_DOT, FN_MATMUL, FN_MV, FUNCTION
from fastgrad.ops.call import invoke
from fastgrad.ops.registry import Kernel, Op
from fastgrad.ops.shape import transpose, unsqueeze

GEMM = Kernel("gemm", "gemm:build", frame=matrices.GEMM, dtypes=NUMBERS, requires="gemm:find_blas")

mm = Op("mm", FUNCTION, ("a", "b"), kernel=GEMM, forward=FN_MATMUL, flags=FLOAT_ONLY)
bmm = Op("bmm", FUNCTION, ("a", "b"), kernel=GEMM, forward=FN_MATMUL, flags=FLOAT_ONLY)
mv = Op("mv", FUNCTION, ("a", "b"), kernel=GEMM, forward=FN_MV, flags=FLOAT_ONLY)
dot = Op("dot", FUNCTION, ("a", "b"), kernel=GEMM, forward=FN_DOT, flags=FLOAT_ONLY)


def _swapped(x):
    return invoke(transpose, (x,), -2, -1)


def _rules(op, product):
    @op.vjp("a")
    def _(g, b):
        return invoke(product, (g, _swapped(b)))

    @op.vjp("b")
    def _(g, a):
        return invoke(product, (_swapped(a), g))


addmm = Op("addmm", FUNCTION, ("input", "a", "b"), kernel=GEMM, forward=FN_ADDMM, flags=FLOAT_ONLY)
addmm.identity("input")

_rules(mm, mm)
_rules(bmm, bmm)
_rules(addmm, mm)

# The products with a transposed matrix, as a linear layer has them: the gradient of that operand is made so that it is
# contiguous once it is transposed back.
mm_transposed = Op(
    "mm.transposed",
    FUNCTION,
    ("a", "b"),
    kernel=GEMM,
    forward=FN_MATMUL,
    flags=FLOAT_ONLY,
    node="MmBackward0",
)
addmm_transposed = Op(
    "addmm.transposed",
    FUNCTION,
    ("input", "a", "b"),
    kernel=GEMM,
    forward=FN_ADDMM,
    flags=FLOAT_ONLY,
    node="AddmmBackward0",
)
addmm_transposed.identity("input")


def _transposed_rules(op):
    @op.vjp("a")
    def _(g, b):
        return invoke(mm, (g, _swapped(b)))

    @op.vjp("b")
    def _(g, a):
        return _swapped(invoke(mm, (_swapped(g), a)))


_transposed_rules(mm_transposed)
_transposed_rules(addmm_transposed)


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
