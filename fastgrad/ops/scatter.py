"""Scattering to places along one dimension: what is there is replaced, multiplied or compared, or added by segments.

`scatter_add` stands beside gathering, whose derivative it is (`ops.index`).
"""

from __future__ import annotations

from fastgrad.native.contracts import integers
from fastgrad.native.contracts.element_types import SUPPORTED_DTYPES
from fastgrad.native.contracts.frames import indexing
from fastgrad.native.contracts.ops import IN_FLOAT32, SHAPE_SCATTER_ADD, SHAPE_SCATTER_INTO, STRUCTURED
from fastgrad.ops.call import invoke
from fastgrad.ops.index import SCATTER, gather, scatter_add, zeros_like
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.registry import Op
from fastgrad.ops.vocabulary import m

KERNELS = {
    "set": Kernel("scatter_set", "index:scatter_set", frame=indexing.SCATTER, dtypes=SUPPORTED_DTYPES),
    "add": SCATTER,
    "mul": Kernel("scatter_mul", "index:scatter_mul", frame=indexing.SCATTER, dtypes=SUPPORTED_DTYPES),
    "amax": Kernel("scatter_amax", "index:scatter_amax", frame=indexing.SCATTER),
    "amin": Kernel("scatter_amin", "index:scatter_amin", frame=indexing.SCATTER),
}


def _scattering(name, how, node, flags=0, saved_as="self src index"):
    return Op(
        name, STRUCTURED, ("x", "source", "index"), (*integers.ALONG.names, "*target"), kernel=KERNELS[how],
        forward=SHAPE_SCATTER_ADD, flags=flags, node=node, edges=2, saved_as=saved_as,
    )  # fmt: skip


# The sizes behind the dimension are those of zeros in the place of x; these have one.
WITH_BASE = 0

scatter = _scattering("scatter", "set", "ScatterBackward0")


def _scattered(op, x, source, index, dim):
    return invoke(op, (x, source, index), dim, WITH_BASE)


@scatter.vjp("x")
def _(g, index, dim):
    return _scattered(scatter, g, zeros_like(invoke(gather, (g, index), dim)), index, dim)


@scatter.vjp("source")
def _(g, index, dim):
    return invoke(gather, (g, index), dim)


scatter.variant("value", "ScatterBackward1", edges=1)

_REDUCED = "ScatterReduceBackward0"
scatter_mul = _scattering("scatter_reduce", "mul", _REDUCED, IN_FLOAT32)
scatter_amax = _scattering("scatter_reduce.amax", "amax", _REDUCED)
scatter_amin = _scattering("scatter_reduce.amin", "amin", _REDUCED)


@scatter_mul.vjp("x")
def _(g, x, source, index, dim):
    nonzero = m.where(m.eq(x, 0.0), 1.0, x)
    return g * _scattered(scatter_mul, nonzero, source, index, dim) / nonzero


@scatter_mul.vjp("source")
def _(g, x, source, index, y, dim):
    """Where a product has one factor zero, the gradient of that one is the product of the others."""
    zero = m.eq(source, 0.0)
    marks = m.where(zero, 1.0, zeros_like(source))
    zeros = invoke(gather, (_scattered(scatter_add, zeros_like(x), marks, index, dim), index), dim)
    single = m.logical_and(zero, m.eq(zeros, 1.0))
    others = _scattered(scatter_mul, x, m.where(single, 1.0, source), index, dim)
    alone = invoke(gather, (g * others, index), dim)
    return m.where(single, alone, invoke(gather, (g * y, index), dim) / m.where(zero, 1.0, source))


for _op in (scatter_amax, scatter_amin):
    # A gradient goes in equal parts to all that are the result, as in PyTorch.
    def _shares(g, x, source, index, y, dim):
        mine = m.where(m.eq(x, y), 1.0, zeros_like(x))
        theirs = m.where(m.eq(source, invoke(gather, (y, index), dim)), 1.0, zeros_like(source))
        return mine, theirs, g / _scattered(scatter_add, mine, theirs, index, dim)

    @_op.vjp("x")
    def _(g, x, source, index, y, dim):
        mine, _, share = _shares(g, x, source, index, y, dim)
        return mine * share

    @_op.vjp("source")
    def _(g, x, source, index, y, dim):
        _, theirs, share = _shares(g, x, source, index, y, dim)
        return theirs * invoke(gather, (share, index), dim)


# --- by segments ---------------------------------------------------------------------------------------------------

# Onto a base that is the same for all elements of a segment and has no gradient: the number that each begins with.
_SEGMENTS = "SegmentReduceBackward0"


def _by_segments(suffix, how, flags=0):
    return _scattering(f"segment_reduce{suffix}", how, _SEGMENTS, flags, saved_as="initial data index")


segment_sum = _by_segments("", "add")
segment_prod = _by_segments(".prod", "mul", IN_FLOAT32)


@segment_sum.vjp("source")
def _(g, index, dim):
    return invoke(gather, (g, index), dim)


@segment_prod.vjp("source")
def _(g, x, source, index, y, dim):
    """Of a factor that is alone in being zero or NaN the gradient is the product of the others."""
    odd = m.logical_or(m.eq(source, 0.0), m.ne(source, source))
    marks = m.where(odd, 1.0, zeros_like(source))
    count = invoke(gather, (_scattered(scatter_add, zeros_like(x), marks, index, dim), index), dim)
    single = m.logical_and(odd, m.eq(count, 1.0))
    others = _scattered(scatter_mul, x, m.where(single, 1.0, source), index, dim)
    alone = invoke(gather, (g * others, index), dim)
    return m.where(
        single, alone, invoke(gather, (g * y, index), dim) / m.where(m.eq(source, 0.0), 1.0, source)
    )


for _op in (_by_segments(".max", "amax"), _by_segments(".min", "amin")):

    @_op.vjp("source")
    def _(g, x, source, index, y, dim):
        """In equal parts to all elements that are the result, or NaN; none for what a segment begins with."""
        chosen = m.logical_or(m.eq(source, invoke(gather, (y, index), dim)), m.ne(source, source))
        marks = m.where(chosen, 1.0, zeros_like(source))
        count = _scattered(scatter_add, zeros_like(x), marks, index, dim)
        return marks * invoke(gather, (g / m.where(m.eq(count, 0.0), 1.0, count), index), dim)


# The same in place, where nothing is recorded.
for _how, _kernel in KERNELS.items():
    Op(
        "scatter_into" if _how == "set" else f"scatter_into.{_how}", STRUCTURED, ("x", "source", "index"),
        integers.ALONG.names, kernel=_kernel, forward=SHAPE_SCATTER_INTO, edges=2, called="scatter_",
    )  # fmt: skip
