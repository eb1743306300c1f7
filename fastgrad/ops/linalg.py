"""Matrix products."""

from __future__ import annotations

from fastgrad.native.contracts.element_types import COMPLEX, HALVES, WIDE, WIDE_NUMBERS
from fastgrad.native.contracts.frames import matrices
from fastgrad.native.contracts.ops import (
    BY_COLUMNS,
    FLOAT_ONLY,
    HOLOMORPHIC,
    SHAPE_ADDMM,
    SHAPE_DOT,
    SHAPE_MATMUL,
    SHAPE_MV,
    SHAPE_PANELS,
    STRUCTURED,
)
from fastgrad.ops.call import float_of_bits, invoke, is_traced
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.registry import Op
from fastgrad.ops.shape import t, transpose, unsqueeze
from fastgrad.ops.spread import number

GEMM = Kernel(
    "gemm", "panels:product", frame=matrices.GEMM, dtypes=WIDE_NUMBERS + COMPLEX, gpu_dtypes=HALVES,
    requires="gemm:find_blas",
)  # fmt: skip
GEMV = Kernel("gemv", "gemv:build", frame=matrices.GEMM, dtypes=WIDE_NUMBERS + COMPLEX, gpu_dtypes=HALVES)
in_panels = Op(
    "panels", STRUCTURED, ("x",), kernel=Kernel("panels", "panels:build", frame=matrices.PANELS, dtypes=WIDE),
    forward=SHAPE_PANELS, flags=FLOAT_ONLY,
)  # fmt: skip
"""A matrix by panels of its columns, for products that share it."""


def _product(name, forward, saved_as, inputs=("a", "b"), node=None, attrs=(), called="", flags=0):
    return Op(
        name, STRUCTURED, inputs, attrs, kernel=GEMM, forward=forward, flags=FLOAT_ONLY | HOLOMORPHIC | flags,
        node=node, saved_as=saved_as, called=called,
    )  # fmt: skip


def _by_factors(name, forward, saved_as, inputs=("a", "b"), node=None, attrs=(), called=""):
    """A product of two matrices, and behind it the ops that are recorded in its place where factors lie by columns.

    In the order that `native.shapes.matrices.factors_by_columns` counts them; their gradients lie as the factors do.
    """
    op = _product(name, forward, saved_as, inputs, node, attrs, called, BY_COLUMNS)
    return op, *(
        _product(f"{name}.{factors}", forward, saved_as, inputs, op.node, attrs, called or name)
        for factors in ("left", "right", "both")
    )


_mms = _by_factors("mm", SHAPE_MATMUL, "self mat2")
mm = _mms[0]
bmm = _product("bmm", SHAPE_MATMUL, "self mat2")
mv = _product("mv", SHAPE_MV, "self vec")
dot = _product("dot", SHAPE_DOT, "self tensor")


def _swapped(x):
    """A matrix transposed, as PyTorch does it for a single one."""
    return invoke(t, (x,), 0, 1)


def _of_left(g, b, columns):
    """The gradient of the left factor, which lies by columns or by rows."""
    return _swapped(invoke(mm, (b, _swapped(g)))) if columns else invoke(mm, (g, _swapped(b)))


def _of_right(g, a, columns):
    return _swapped(invoke(mm, (_swapped(g), a))) if columns else invoke(mm, (_swapped(a), g))


def _rules(ops, scaled=False):
    """The derivatives of products, of which each stands for another order of the factors."""
    for factors, op in enumerate(ops):
        left, right = _rules_of(factors & 1, factors & 2, scaled)
        op.vjp("a")(left)
        op.vjp("b")(right)


def _rules_of(left, right, scaled):
    if scaled:
        return (
            lambda g, b, alpha: _times(_of_left(g, b, left), alpha),
            lambda g, a, alpha: _times(_of_right(g, a, right), alpha),
        )
    return lambda g, b: _of_left(g, b, left), lambda g, a: _of_right(g, a, right)


@bmm.vjp("a")
def _(g, b):
    return invoke(bmm, (g, invoke(transpose, (b,), -2, -1)))


@bmm.vjp("b")
def _(g, a):
    return invoke(bmm, (invoke(transpose, (a,), -2, -1), g))


_SUM = ("self mat1 mat2", ("input", "a", "b"))
_addmms = _by_factors("addmm", SHAPE_ADDMM, *_SUM)
for _op in _addmms:
    _op.identity("input")
_rules(_mms)
_rules(_addmms)

# With factors, which are integers of the call.
_scaled = _by_factors("addmm.scaled", SHAPE_ADDMM, *_SUM, _addmms[0].node, ("beta", "alpha"), "addmm")


def _times(x, bits):
    """A product with a factor of the call: as in PyTorch not with one, where what is computed is recorded."""
    if is_traced(x):
        return x * invoke(number, (x,), bits)
    factor = float_of_bits(bits)
    return x if factor == 1 else x * factor


for _op in _scaled:
    _op.vjp("input")(lambda g, beta: _times(g, beta))
_rules(_scaled, scaled=True)


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
