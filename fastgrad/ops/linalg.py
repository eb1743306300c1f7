"""Matrix products."""

from __future__ import annotations

from fastgrad.native.contracts.element_types import NUMBERS
from fastgrad.native.contracts.frames import matrices
from fastgrad.native.contracts.ops import (
    FLOAT_ONLY,
    SHAPE_ADDMM,
    SHAPE_DOT,
    SHAPE_MATMUL,
    SHAPE_MV,
    STRUCTURED,
)
from fastgrad.ops.call import invoke
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.registry import Op
from fastgrad.ops.shape import transpose, unsqueeze

GEMM = Kernel("gemm", "gemm:build", frame=matrices.GEMM, dtypes=NUMBERS, requires="gemm:find_blas")


def _product(name, forward, saved_as, inputs=("a", "b"), node=None):
    return Op(
        name, STRUCTURED, inputs, kernel=GEMM, forward=forward, flags=FLOAT_ONLY, node=node, saved_as=saved_as
    )


mm = _product("mm", SHAPE_MATMUL, "self mat2")
bmm = _product("bmm", SHAPE_MATMUL, "self mat2")
mv = _product("mv", SHAPE_MV, "self vec")
dot = _product("dot", SHAPE_DOT, "self tensor")


def _swapped(x):
    return invoke(transpose, (x,), -2, -1)


def _rules(op, product):
    @op.vjp("a")
    def _(g, b):
        return invoke(product, (g, _swapped(b)))

    @op.vjp("b")
    def _(g, a):
        return invoke(product, (_swapped(a), g))


addmm = _product("addmm", SHAPE_ADDMM, "self mat1 mat2", ("input", "a", "b"))
addmm.identity("input")

_rules(mm, mm)
_rules(bmm, bmm)
_rules(addmm, mm)

# The products with a transposed matrix, as a linear layer has them: the gradient of that operand is made so that it is
# contiguous once it is transposed back.
mm_transposed = _product("mm.transposed", SHAPE_MATMUL, mm.saved_as, node=mm.node)
addmm_transposed = _product("addmm.transposed", SHAPE_ADDMM, addmm.saved_as, addmm.inputs, addmm.node)
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
    return invoke(unsqueeze, (g,), 1) * b


@mv.vjp("b")
def _(g, a):
    return invoke(mv, (_swapped(a), g))


@dot.vjp("a")
def _(g, b):
    return g * b


@dot.vjp("b")
def _(g, a):
    return g * a
