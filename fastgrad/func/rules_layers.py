"""How layers and losses treat batched operands: the batch becomes part of a dimension that they have anyway."""

from __future__ import annotations

from typing import Any

from fastgrad.func.batched import expanded
from fastgrad.func.randomness import need_randomness_of
from fastgrad.func.rules import Call, aligned, rule, viewed
from fastgrad.functions.creation import arange, ones
from fastgrad.functions.index import where
from fastgrad.functions.shape import movedim, unsqueeze
from fastgrad.native.build.loader import rt
from fastgrad.native.host.tables import BY_NAME
from fastgrad.nn.functional.losses import nll_loss
from fastgrad.nn.functional.normalization import batch_norm, group_norm, layer_norm, rms_norm
from fastgrad.ops.call import apply, float_of_bits
from fastgrad.ops.resampling import BY_MODE

_ADD, _MUL, _SUM, _MEAN = (BY_NAME[n].id for n in ("add", "mul", "sum.dim", "mean.dim"))
_sizes = rt.sizes


def _folded(x: Any) -> Any:
    """A value with the batch as part of the first dimension of its elements."""
    batch, first, *rest = _sizes(x)
    return viewed(x, batch * first, *rest)


def _unfolded(x: Any, batch: int) -> Any:
    first, *rest = _sizes(x)
    return viewed(x, batch, first // batch if batch else first, *rest)


# --- convolution, pooling, padding -----------------------------------------------------------------------------


def _with_sizes(c: Call, first: int, second: int | None = None, groups: int = 1) -> list[int]:
    """The integers of a call on images, with other first sizes of the result, and the order of rows."""
    ints = list(c.ints)
    at = len(c.op.attrs) - 1  # `*target`: the rank, then the sizes
    ints[at - 1] = 0  # channels are not the last dimension
    ints[at + 1] = first
    if second is not None:
        ints[at + 2] = second
        ints[0] *= groups
    return ints


@rule("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _(c: Call) -> Any:
    (x, w, *rest), batch = c.xs, c.level.size
    bias = rest[0] if rest else None
    if batch == 0:
        return NotImplemented
    added = bias is not None and (c.own[2] or c.own[1])
    kept = None if added else bias
    first, second = c.ints[len(c.op.attrs) :][:2]
    if not c.own[1]:
        if not c.own[0]:  # the bias alone
            out = apply(c.op.id, 3, 0, x, w, None, *c.ints)
            return apply(_ADD, 2, 0, out, _of_channels(c.xs[2], len(_sizes(out))))
        out = _unfolded(apply(c.op.id, 3, 0, _folded(x), w, kept, *_with_sizes(c, batch * first)), batch)
    else:
        x = movedim(c.value(0), 0, 1)
        n, _, channels, *rest = _sizes(x)
        ints = _with_sizes(c, first, second * batch, batch)
        out = apply(c.op.id, 3, 0, viewed(x, n, batch * channels, *rest), _folded(w), None, *ints)
        n, _, *rest = _sizes(out)
        out = movedim(viewed(out, n, batch, second, *rest), 1, 0)
    if not added:
        return out
    n = len(_sizes(out)) - 1
    return apply(_ADD, 2, 0, out, _of_channels(bias, n) if c.own[2] else viewed(bias, -1, *(1,) * (n - 2)))


def _of_channels(x: Any, ndim: int) -> Any:
    """A value of vectors for channels, to be broadcast with elements of `ndim` dimensions."""
    batch, channels = _sizes(x)
    return viewed(x, batch, 1, channels, *(1,) * (ndim - 2))


@rule("max_pool2d", "avg_pool2d", "adaptive_avg_pool2d")
def _(c: Call) -> Any:
    x, batch = c.xs[0], c.level.size
    if batch == 0:
        return NotImplemented
    first = _sizes(c.given[0])[0]
    out = apply(c.op.id, 1, 0, _folded(x), *_with_sizes(c, batch * first))
    if isinstance(out, tuple):
        return tuple(_unfolded(o, batch) for o in out)
    return _unfolded(out, batch)


@rule("pad", "pad.circular")
def _(c: Call) -> Any:
    mode, fill, _, n, *rest = c.ints
    return c.again([c.xs[0]], mode, fill, 0, n + 1, 0, *rest[:n], n + 1, c.level.size, *rest[n + 1 :])


@rule("resample", *(op.name for op in BY_MODE.values()))
def _(c: Call) -> Any:
    if c.level.size == 0:
        return NotImplemented
    blocks, *ints, rank, first = c.ints[:8]
    rest = c.ints[8:]
    out = apply(
        c.op.id,
        5,
        0,
        _folded(c.xs[0]),
        *c.given[1:],
        c.level.size * blocks,
        *ints,
        rank,
        c.level.size * first,
        *rest,
    )
    return _unfolded(out, c.level.size)


@rule(
    "pad.reflect1d", "pad.replicate1d", "pad.reflect2d", "pad.replicate2d", "pad.reflect3d", "pad.replicate3d"
)
def _(c: Call) -> Any:
    """Which repeat what is inside, in the last dimensions."""
    mode, fill, _, n, *rest = c.ints
    sizes = list(rest[n + 1 :])
    if c.level.size == 0:
        return NotImplemented
    sizes[0] *= c.level.size
    out = c.again([_folded(c.xs[0])], mode, fill, 0, n, *rest[:n], n, *sizes)
    return _unfolded(out, c.level.size)


# --- normalisation ---------------------------------------------------------------------------------------------


def _affine(c: Call, out: Any, weight: int | None, bias: int | None, shape: Any) -> Any:
    """A value times a weight and plus a bias, which are operands; `shape` brings them into line."""
    for k, op in ((weight, _MUL), (bias, _ADD)):
        if k is not None and k < len(c.xs) and c.xs[k] is not None:
            out = apply(op, 2, 0, out, shape(k))
    return out


@rule("layer_norm", "layer_norm.plain", "rms_norm", "rms_norm.plain")
def _(c: Call) -> Any:
    eps, rows, length = float_of_bits(c.ints[0]), c.ints[1], c.ints[3]
    x = c.value(0)
    flat = viewed(x, c.level.size * rows, length)
    plain = (
        layer_norm(flat, (length,), eps=eps)
        if c.op.name.startswith("layer")
        else rms_norm(flat, (length,), eps=eps)
    )
    out = viewed(plain, *_sizes(x))
    n = c.ndim(0)
    return (_affine(c, out, 1, 2, lambda k: aligned(c.xs[k], n) if c.own[k] else c.xs[k]),)


@rule("group_norm", "group_norm.plain")
def _(c: Call) -> Any:
    if c.level.size == 0:
        return NotImplemented
    x, n = c.value(0), c.ndim(0)
    out = _unfolded(group_norm(_folded(x), c.ints[2], eps=float_of_bits(c.ints[0])), c.level.size)
    return (_affine(c, out, 1, 2, lambda k: _channel_wise(c, k, n)),)


def _channel_wise(c: Call, k: int, n: int) -> Any:
    """An operand that is a vector for channels, in line with elements of `n` dimensions."""
    return _of_channels(c.xs[k], n) if c.own[k] else viewed(c.xs[k], -1, *(1,) * (n - 2))


@rule("batch_norm", "batch_norm.plain")
def _(c: Call) -> Any:
    """In training: statistics of each element of the batch, whose channels lie side by side."""
    means, variances = (c.xs[k] if k < len(c.xs) else None for k in (3, 4))
    for k, x in ((3, means), (4, variances)):
        if x is not None and not c.own[k]:
            raise RuntimeError(
                "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated "
                "in place, were not batched. If you are using modules and do not need eval mode, please set "
                "`track_running_stats` to be False: see fastgrad.func.vmap"
            )
    x, n, batch = movedim(c.value(0), 0, 1), c.ndim(0), c.level.size
    if batch == 0:
        return NotImplemented
    count, _, channels, *rest = _sizes(x)
    mean, variance = (None if s is None else viewed(s, batch * channels) for s in (means, variances))
    folded, momentum = viewed(x, count, batch * channels, *rest), float_of_bits(c.ints[6])
    out = batch_norm(folded, mean, variance, None, None, True, momentum, float_of_bits(c.ints[0]))
    out = movedim(viewed(out, count, batch, channels, *rest), 1, 0)
    return (_affine(c, out, 1, 2, lambda k: _channel_wise(c, k, n)),)


@rule("batch_norm_fixed", "batch_norm_fixed.plain")
def _(c: Call) -> Any:
    """With given statistics: an affine function of each element."""
    n = c.ndim(0)
    eps = float_of_bits(c.ints[0])
    means, variances = (_channel_wise(c, k, n) for k in (3, 4))
    out = (c.value(0) - means) * (variances + eps).rsqrt()
    return (_affine(c, out, 1, 2, lambda k: _channel_wise(c, k, n)),)


# --- losses ----------------------------------------------------------------------------------------------------


@rule(*(
    f"{name}.{how}"
    for name in (
        "mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
        "kl_div", "kl_div.log_target",
    )
    for how in ("mean", "sum")
))  # fmt: skip
def _(c: Call) -> Any:
    """Losses of pairs, by their elementwise forms."""
    n = max(len(_sizes(x)) for x in c.given if hasattr(x, "shape"))
    xs = [aligned(x, n) if own else x for x, own in zip(c.xs, c.own, strict=True)]
    each = apply(BY_NAME[c.op.name.rpartition(".")[0]].id, len(xs), 0, *xs)
    if n == 0:
        return each
    return apply(_MEAN if c.op.name.endswith("mean") else _SUM, 1, 0, each, 0, *range(1, n + 1))


@rule("nll_loss", "nll_loss.images")
def _(c: Call) -> Any:
    if len(c.xs) > 2 and c.own[2]:
        return NotImplemented
    kind, ignored = c.ints
    weight = c.xs[2] if len(c.xs) > 2 else None
    x, target, batch, n = c.value(0), c.value(1), c.level.size, c.ndim(0)
    if batch == 0:
        return NotImplemented
    if n == 1:
        x, target = unsqueeze(x, 1), unsqueeze(target, 1)
    target = _folded(target)
    each = nll_loss(_folded(x), target, weight, ignore_index=ignored, reduction="none")
    each = _unfolded(each, batch)
    if kind == 0:
        return (each if n > 1 else each.squeeze(1),)
    dims = range(1, len(_sizes(each)))
    total = apply(_SUM, 1, 0, each, 0, *dims)
    if kind == 2:
        return (total,)
    counts = target != ignored
    if weight is None:
        counted = counts.to(each.dtype)
    else:
        counted = weight[target.masked_fill(~counts, 0)] * counts
    return (total / apply(_SUM, 1, 0, _unfolded(counted, batch), 0, *dims),)


# --- attention, tables, distances, dropout ---------------------------------------------------------------------


@rule("scaled_dot_product_attention")
def _(c: Call) -> Any:
    if c.level.size == 0:
        return NotImplemented
    xs = [None if x is None else _folded(c.value(k)) for k, x in enumerate(c.xs)]
    return (_unfolded(apply(c.op.id, len(xs), 0, *xs, *c.ints)[0], c.level.size),)


@rule("embedding")
def _(c: Call) -> Any:
    if len(c.xs) > 2:
        return NotImplemented
    rows, width, padding, transposed, rank, *sizes = c.ints
    batch = c.level.size
    if not c.own[0]:
        return c.again([c.xs[0], c.xs[1]], rows, width, padding, transposed, rank + 1, batch, *sizes)
    indices = c.value(1)
    first = arange(batch, device=indices.device).reshape(batch, *(1,) * (rank - 1)) * rows
    inside = (indices >= 0) & (indices < rows)
    if not inside.all().item():
        return NotImplemented  # it says which index is out of range
    table = _folded(c.xs[0])
    out = c.again([table, indices + first], batch * rows, width, -1, transposed, rank + 1, batch, *sizes)
    if padding < 0:
        return out
    # Each table has a row of padding, and the op knows of one: what is read there has no history instead.
    return where(unsqueeze(indices == padding, -1), out.detach(), out)


@rule("cdist")
def _(c: Call) -> Any:
    batch, n, k, width, order, _, count, others, rank, *sizes = c.ints
    size = c.level.size
    xs = [c.value(0), c.value(1)]
    return c.again(
        xs, batch * size, n, k, width, order, 0, count * size, others * size, rank + 1, size, *sizes
    )  # fmt: skip


@rule("dropout")
def _(c: Call) -> Any:
    if need_randomness_of(c.level) == "different":
        return c.again([c.value(0)], *c.ints)
    mask = c.again([ones(_sizes(c.given[0]), dtype=c.given[0].dtype, device=c.given[0].device)], *c.ints)
    return apply(_MUL, 2, 0, c.value(0), mask[0]), *(expanded(m, c.level.size) for m in mask[1:])
