"""What runs along the rows of a dimension: extreme values so far, and sums of exponentials in logarithms."""

from __future__ import annotations

from fastgrad.native.contracts.element_types import WIDE, WITHOUT_HALVES
from fastgrad.native.contracts.frames.framed import RUNNING, RUNNING_EXTREME, RUNNING_SHARES
from fastgrad.native.contracts.ops import (
    FLOAT_ONLY,
    ONE_DIFFERENTIABLE,
    SHAPE_FRAMED,
    STRUCTURED,
    WITH_INDICES,
)
from fastgrad.ops.call import invoke
from fastgrad.ops.index import scatter_add
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.registry import Op

_ROWS = (*RUNNING.names_of("integers"), "*outputs")


def _extreme(name, smallest):
    """The op that gives the extreme value so far, and its place; the last one of equal values."""
    kernel = Kernel(name, "running:extreme", frame=RUNNING_EXTREME, dtypes=WITHOUT_HALVES, smallest=smallest)
    op = Op(
        name, STRUCTURED, ("x",), _ROWS, kernel=kernel, forward=SHAPE_FRAMED, n_out=2,
        flags=ONE_DIFFERENTIABLE | WITH_INDICES, saved_as="self -> values indices",
    )  # fmt: skip

    @op.vjp("x")
    def _(g, y1, dim, sizes):
        return invoke(scatter_add, (None, g, y1), dim, sizes)

    return op


cummax = _extreme("cummax", False)
cummin = _extreme("cummin", True)

# With y[k] = log(sum of exp(x[i]) over i <= k), the share of x[i] in y[k] is exp(x[i] - y[k]), which is its derivative.
#
#   shares_after(v, x, y)[i] = sum of v[k] exp(x[i] - y[k]) over k >= i
#   shares_before(v, x, y)[k] = sum of v[i] exp(x[i] - y[k]) over i <= k
#
# They are each other's transpose in v. What depends on x[i] or y[k] is the exponential alone, so that the derivatives
# by x and y are products of what was given and of what comes back.
logcumsumexp = Op(
    "logcumsumexp", STRUCTURED, ("x",), _ROWS,
    kernel=Kernel("logcumsumexp", "running:log_sums", frame=RUNNING, dtypes=WIDE), forward=SHAPE_FRAMED,
    flags=FLOAT_ONLY,
)  # fmt: skip


def _shares(name, before):
    kernel = Kernel(name, "running:shares", frame=RUNNING_SHARES, dtypes=WIDE, onwards=before)
    return Op(
        name, STRUCTURED, ("v", "x", "y"), _ROWS, kernel=kernel, forward=SHAPE_FRAMED, flags=FLOAT_ONLY
    )  # fmt: skip


shares_after = _shares("logcumsumexp_backward", False)
shares_before = _shares("logcumsumexp_backward_backward", True)


@logcumsumexp.vjp("x")
def _(g, x, y, dim, blocks, length, columns):
    return invoke(shares_after, (g, x, y), dim, blocks, length, columns, -1)


def _derive(op, transposed, of_result, of_operand):
    """The derivatives of one of the two by `v`, and by that of x and y which stands beside the result, or beside v."""

    @op.vjp("v")
    def _(g, x, y, dim, blocks, length, columns):
        return invoke(transposed, (g, x, y), dim, blocks, length, columns, -1)

    @op.vjp(of_result)
    def _(g, v, x, y, dim, blocks, length, columns):
        moved = g * invoke(op, (v, x, y), dim, blocks, length, columns, -1)
        return moved if of_result == "x" else -moved

    @op.vjp(of_operand)
    def _(g, v, x, y, dim, blocks, length, columns):
        moved = v * invoke(transposed, (g, x, y), dim, blocks, length, columns, -1)
        return moved if of_operand == "x" else -moved


_derive(shares_after, shares_before, "x", "y")
_derive(shares_before, shares_after, "y", "x")
