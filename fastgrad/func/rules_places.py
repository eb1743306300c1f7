"""How reading and writing at indices treat batched operands: the batch becomes one more index."""

from __future__ import annotations

from typing import Any

from fastgrad.func.rules import IN_PLACE, Call, aligned, behind, rule
from fastgrad.functions.creation import arange
from fastgrad.functions.shape import movedim, permute
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.integers import STACKED
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import apply
from fastgrad.ops.index import MOST_INDICES

_INDEX = BY_NAME["index"].id
_sizes = rt.sizes


@rule("gather")
def _(c: Call) -> Any:
    return c.again([c.value(0), c.value(1)], behind(c, c.ints[0], c.ndim(0)))


@rule(
    "scatter", "scatter.value", "scatter_add", "scatter_reduce", "scatter_reduce.amax", "scatter_reduce.amin",
    "segment_reduce", "segment_reduce.prod", "segment_reduce.max", "segment_reduce.min",
)  # fmt: skip
def _(c: Call) -> Any:
    if c.xs[0] is None or c.ints[1:] != (0,):  # onto zeros of sizes in the integers
        return NotImplemented
    return c.again([c.value(k) for k in range(3)], behind(c, c.ints[0], c.ndim(0)), 0)


@rule("scatter_into", "scatter_into.add", "scatter_into.mul", "scatter_into.amax", "scatter_into.amin")
def _(c: Call) -> Any:
    if not c.own[0]:
        return NotImplemented
    return c.again([c.value(k) for k in range(3)], behind(c, c.ints[0], c.ndim(0)))


@rule("index", "index.select")
def _(c: Call) -> Any:
    x, *indices = c.xs
    first, form = c.ints
    if form & STACKED or first < 0:
        return NotImplemented
    if not any(c.own[1:]):
        return c.again(c.xs, first + 1, form)
    n = max(c.ndim(k) for k in range(1, len(c.xs)))
    indices = [aligned(i, n) if own else i for i, own in zip(indices, c.own[1:], strict=True)]
    if not c.own[0]:
        # The batch comes with the indices, where the indexed dimensions were.
        out = apply(_INDEX, len(c.xs), 0, x, *indices, first, 0)
        return movedim(out, first, 0) if first else out
    if len(indices) >= MOST_INDICES:
        return NotImplemented
    batch = arange(c.level.size, device=x.device).reshape(c.level.size, *(1,) * n)
    if not first:
        return apply(_INDEX, 2 + len(indices), 0, x, batch, *indices, 0, 0)
    rank, last = len(_sizes(x)), first + 1 + len(indices)
    dims = [0, *range(first + 1, last), *range(1, first + 1), *range(last, rank)]
    out = apply(_INDEX, 2 + len(indices), 0, permute(x, dims), batch, *indices, 0, 0)
    ahead = range(1 + n, 1 + n + first)
    order = [0, *ahead, *range(1, 1 + n), *range(1 + n + first, len(_sizes(out)))]
    return permute(out, order)


@rule("index_put_")
def _(c: Call) -> Any:
    if c.n_outs == IN_PLACE and not c.own[0]:
        raise RuntimeError(
            "vmap: index_put_(self, indices, values) is not possible because `self` is the same for all elements of "
            "the batch, while indices or values are not. Please use out-of-place operators instead."
        )
    return NotImplemented


@rule("index_add", "index_copy", "index_fill")
def _(c: Call) -> Any:
    """Where the indices are the same for all elements, they only count from one dimension further on."""
    if c.own[2]:
        return NotImplemented
    first, *rest = c.ints
    return c.again([c.value(0), c.value(1), c.xs[2]], behind(c, first, c.ndim(0)), *rest)


@rule("nonzero")
def _(c: Call) -> Any:
    raise RuntimeError(
        "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over nonzero: "
        "masks are applied by where."
    )
