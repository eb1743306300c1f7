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
from fastgrad.ops.call import float_of_bits, invoke
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.registry import Op
from fastgrad.ops.shape import t, transpose, unsqueeze
from fastgrad.ops.spread import number

GEMM = Kernel("gemm", "gemm:build", frame=matrices.GEMM, dtypes=NUMBERS, requires="gemm:find_blas")
GEMV = Kernel("gemv", "gemv:build", frame=matrices.GEMM, dtypes=NUMBERS)


def _product(name, forward, saved_as, inputs=("a", "b"), node=None, attrs=(), called=""):
    return Op(
        name, STRUCTURED, inputs, attrs, kernel=GEMM, forward=forward, flags=FLOAT_ONLY, node=node, saved_as=saved_as,
        called=called,
    )  # fmt: skip


mm = _product("mm", SHAPE_MATMUL, "self mat2")
bmm = _product("bmm", SHAPE_MATMUL, "self mat2")
mv = _product("mv", SHAPE_MV, "self vec")
dot = _product("dot", SHAPE_DOT, "self tensor")


def _swapped(x):
    """A matrix transposed, as PyTorch does it for a single one."""
    return invoke(t, (x,), 0, 1)


def _swapped_each(x):
    return invoke(transpose, (x,), 1, 2)


def _rules(op, product, swapped):
    @op.vjp("a")
    def _(g, b):
        return invoke(product, (g, swapped(b)))

    @op.vjp("b")
    def _(g, a):
        return invoke(product, (swapped(a), g))


addmm = _product("addmm", SHAPE_ADDMM, "self mat1 mat2", ("input", "a", "b"))
addmm.identity("input")

_rules(mm, mm, _swapped)
_rules(bmm, bmm, _swapped_each)
_rules(addmm, mm, _swapped)

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


# With factors, which are integers of the call.
addmm_scaled = _product(
    "addmm.scaled", SHAPE_ADDMM, addmm.saved_as, addmm.inputs, addmm.node, ("beta", "alpha"), "addmm"
)


def _times(x, bits):
    """A product with a factor of the call: as in PyTorch not with one, where what is computed is recorded."""
    if not isinstance(bits, int):
        return x * invoke(number, (x,), bits)
    factor = float_of_bits(bits)
    return x if factor == 1 else x * factor


@addmm_scaled.vjp("input")
def _(g, beta):
    return _times(g, beta)


@addmm_scaled.vjp("a")
def _(g, b, alpha):
    return _times(invoke(mm, (g, _swapped(b))), alpha)


@addmm_scaled.vjp("b")
def _(g, a, alpha):
    return _times(invoke(mm, (_swapped(a), g)), alpha)


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
