"""Layer, root-mean-square, group and batch normalisation: one family of ops.

Each sees its input as extents (n, g, c, s); see `kernels.normalization`. With h the normalised input, r the reciprocal
deviation and ``mean`` over what the statistics are taken over,

    D(v; x) = r (v - mean(v) - h mean(v h))

is the derivative of h, its own transpose. So the gradient of ``y = h weight + bias`` by x is D(g weight), and by the
weight the sum of g h. The gradient of ``sum(a D(b; x))`` by x is

    - r h mean(b D(a)) - r mean(b h) D(a) - r mean(a h) D(b),

in which everything is written as a function of x, so that derivatives of any order are right. Without centring, as in
root-mean-square normalisation, ``mean(v)`` and the mean within h are left out.
"""

from __future__ import annotations

from fastgrad.native.contracts.element_types import FLOATS
from fastgrad.native.contracts.frames.framed import (
    NORM,
    NORM_BACKWARD,
    NORM_CHANNELS,
    NORM_CHANNELS_BACKWARD,
    NORM_CHANNELS_WEIGHT,
    NORM_FIXED,
    NORM_WEIGHT,
)
from fastgrad.native.contracts.ops import (
    FLOAT_ONLY,
    ONE_DIFFERENTIABLE,
    SHAPE_FRAMED,
    SHAPE_GIVEN,
    STRUCTURED,
)
from fastgrad.ops.call import invoke
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.reduce import mean, sum_
from fastgrad.ops.registry import Op
from fastgrad.ops.rules import parameters, taking
from fastgrad.ops.shape import expand_to, reshape_to, select
from fastgrad.ops.special import rsqrt
from fastgrad.ops.spread import number

INTEGERS = (*NORM.names_of("integers"), "*plan")


class _Space:
    """The four-dimensional view of one kind of statistics."""

    def __init__(self, first: int, centred: bool) -> None:
        self.dims = (first, 3)
        self.centred = centred

    def mean(self, x):
        return invoke(mean, (x,), 1, self.dims)

    def total(self, x, sizes):
        """The sum over all but the extents of a weight, in its sizes."""
        return invoke(reshape_to, (invoke(sum_, (x,), 0, 0, 3),), sizes)

    def parts(self, x, eps):
        """Reciprocal deviation and normalised values of x, which has four dimensions."""
        if self.centred:
            x = x - self.mean(x)
        r = invoke(rsqrt, (self.mean(x * x) + invoke(number, (x,), eps),))
        return r, x * r


def _four(x, n, groups, c, s):
    return invoke(reshape_to, (x,), 4, n, groups, c, s)


def _wide(weight, groups, c):
    return invoke(reshape_to, (weight,), 4, 1, groups, c, 1)


def _op(name, inputs, kernel, node, n_out=1, edges=None, saved_as=""):
    flags = FLOAT_ONLY | (ONE_DIFFERENTIABLE if n_out > 1 else 0)
    return Op(
        name, STRUCTURED, inputs, INTEGERS, kernel=kernel, forward=SHAPE_FRAMED, flags=flags, n_out=n_out, node=node,
        edges=edges, saved_as=saved_as,
    )  # fmt: skip


def _derivative_ops(name, node, kernel, by_weight, space):
    """D(v), D(v weight) and the sum of v h as ops, with their derivatives."""
    plain = _op(f"{name}_backward.plain", ("v", "x", "stats"), kernel, node)
    weighted = _op(f"{name}_backward", ("v", "x", "stats", "weight"), kernel, node)
    sums = _op(f"{name}_weight_backward", ("v", "x", "stats"), by_weight, node)

    def curvature(a, b, x, stats, eps, extents, sizes):
        """The gradient of ``sum(a D(b; x))`` by x; `a` and `b` in four dimensions."""
        x4 = _four(x, *extents)
        r, h = space.parts(x4, eps)
        da = invoke(plain, (a, x4, stats), eps, *extents, -1)
        db = invoke(plain, (b, x4, stats), eps, *extents, -1)
        out = h * space.mean(b * da) + da * space.mean(b * h) + db * space.mean(a * h)
        return invoke(reshape_to, (-(out * r),), sizes)

    @plain.vjp("v")
    def _(g, x, stats, eps, n, groups, c, s):
        return invoke(plain, (g, x, stats), eps, n, groups, c, s, -1)

    @plain.vjp("x")
    def _(g, v, x, stats, eps, n, groups, c, s, sizes):
        extents = (n, groups, c, s)
        return curvature(_four(g, *extents), _four(v, *extents), x, stats, eps, extents, sizes)

    @weighted.vjp("v")
    def _(g, x, stats, weight, eps, n, groups, c, s, sizes):
        d = _four(invoke(plain, (g, x, stats), eps, n, groups, c, s, -1), n, groups, c, s)
        return invoke(reshape_to, (d * _wide(weight, groups, c),), sizes)

    @weighted.vjp("x")
    def _(g, v, x, stats, weight, eps, n, groups, c, s, sizes):
        extents = (n, groups, c, s)
        b = _four(v, *extents) * _wide(weight, groups, c)
        return curvature(_four(g, *extents), b, x, stats, eps, extents, sizes)

    @weighted.vjp("weight")
    def _(g, v, x, stats, eps, n, groups, c, s, sizes):
        d = invoke(plain, (g, x, stats), eps, n, groups, c, s, -1)
        return space.total(_four(d, n, groups, c, s) * _four(v, n, groups, c, s), sizes)

    @sums.vjp("v")
    def _(g, x, eps, n, groups, c, s, sizes):
        _, h = space.parts(_four(x, n, groups, c, s), eps)
        return invoke(reshape_to, (h * _wide(g, groups, c),), sizes)

    @sums.vjp("x")
    def _(g, v, x, stats, eps, n, groups, c, s):
        return invoke(weighted, (v, x, stats, g), eps, n, groups, c, s, -1)

    return plain, weighted, sums


def _bias_rule(op, space):
    @op.vjp("bias")
    def _(g, n, groups, c, s, sizes):
        return space.total(_four(g, n, groups, c, s), sizes)


def _normalisation(name, node, forward, gradients, space):
    """The op of one kind of normalisation, and under ``<name>.plain`` that without weight and bias."""
    called = "input weight bias -> result0 result1"
    op = _op(name, ("x", "weight", "bias?"), forward, node, n_out=2, saved_as=called)
    bare = _op(f"{name}.plain", ("x", "weight?", "bias?"), forward, node, n_out=2, saved_as=called)
    plain, weighted, sums = gradients

    @op.vjp("x")
    def _(g, x, weight, y1, eps, n, groups, c, s):
        return invoke(weighted, (g, x, y1, weight), eps, n, groups, c, s, -1)

    @op.vjp("weight")
    def _(g, x, y1, eps, n, groups, c, s, sizes):
        return invoke(sums, (g, x, y1), eps, n, groups, c, s, sizes)

    _bias_rule(op, space)

    @bare.vjp("x")
    def _(g, x, y1, eps, n, groups, c, s):
        return invoke(plain, (g, x, y1), eps, n, groups, c, s, -1)

    return op


def _recorded(op, by_bias, of_x, of_weight):
    """Recorded, the gradients of `op` are one op, as in PyTorch; that of layers takes the bias as well (`by_bias`).

    `of_x` and `of_weight` are the derivatives of the gradients of x and of the weight, by their names. The statistics
    are among the results, for it is an op of four edges, of which one saves nothing.
    """
    inputs = ("v", "x", "weight", "bias?")[: 3 + by_bias]
    both = Op(
        f"{op.name}_backward", STRUCTURED, (*inputs, "*results"), INTEGERS, forward=SHAPE_GIVEN, n_out=4,
        edges=len(inputs), node=op.node.replace("Backward0", "BackwardBackward0"),
        saved_as=f"grad_out input weight {'bias ' * by_bias}results -> result0 statistics result1 result2",
    )  # fmt: skip
    read = op.inputs[: len(inputs) - 1]
    op.recorded_by(both, *read, results=(0, "y1", 1, 2))
    for name in op.inputs[:3]:  # as in PyTorch, whichever of them requires grad
        op.also_saves(name, *read, "y1")

    def of_bias(g, n, groups, c, s, sizes):
        wide = invoke(expand_to, (_wide(g, groups, c),), 4, n, groups, c, s)
        return invoke(reshape_to, (wide,), sizes)

    both.vjp_sum("v", of_x["v"], None, of_weight["v"], of_bias)
    both.vjp_sum("x", of_x.get("x"), None, of_weight["x"], None)
    both.vjp_sum("weight", of_x["weight"], None, None, None)
    if by_bias:
        both.vjp_sum("bias", None, None, None, None)


def _rules_of(op):
    """The derivatives of an op by the names of its inputs; they find the statistics among results."""

    def renamed(rule):
        names = ["y1" if n == "stats" else n for n in parameters(rule)]
        return taking(
            names, lambda y1=None, **saved: rule(**saved, **({"stats": y1} if "y1" in names else {}))
        )

    return {op.inputs[k]: renamed(rule) for k, rule in op.rules.items()}


def _fixed(name, node, forward, by_weight):
    """Batch normalisation by statistics that are given: a linear function of x."""
    given = ("means", "variances")
    called = "input weight bias running_mean running_var -> result0 result1"
    op = _op(name, ("x", "weight", "bias?", *given), forward, node, n_out=2, edges=3, saved_as=called)
    inputs = ("x", "weight?", "bias?", *given)
    bare = _op(f"{name}.plain", inputs, forward, node, n_out=2, edges=3, saved_as=called)
    sums = _op(f"{name}_weight_backward", ("v", "x", "stats"), by_weight, node, edges=2)

    def row(stats, k, c):
        return invoke(reshape_to, (invoke(select, (stats,), 0, k),), 4, 1, 1, c, 1)

    @op.vjp("x")
    def _(g, weight, y1, n, groups, c, s, sizes):
        scale = row(y1, 1, c) * _wide(weight, groups, c)
        return invoke(reshape_to, (_four(g, n, groups, c, s) * scale,), sizes)

    @op.vjp("weight")
    def _(g, x, y1, eps, n, groups, c, s, sizes):
        return invoke(sums, (g, x, y1), eps, n, groups, c, s, sizes)

    _bias_rule(op, CHANNELS)

    @bare.vjp("x")
    def _(g, y1, n, groups, c, s, sizes):
        return invoke(reshape_to, (_four(g, n, groups, c, s) * row(y1, 1, c),), sizes)

    @sums.vjp("v")
    def _(g, x, stats, n, groups, c, s, sizes):
        h = (_four(x, n, groups, c, s) - row(stats, 0, c)) * row(stats, 1, c)
        return invoke(reshape_to, (h * _wide(g, groups, c),), sizes)

    @sums.vjp("x")
    def _(g, v, stats, n, groups, c, s, sizes):
        scale = row(stats, 1, c) * _wide(g, groups, c)
        return invoke(reshape_to, (_four(v, n, groups, c, s) * scale,), sizes)

    def by_weight(g, v, y1, n, groups, c, s, sizes):
        each = _four(g, n, groups, c, s) * _four(v, n, groups, c, s)
        return CHANNELS.total(each * row(y1, 1, c), sizes)

    _recorded(op, False, {"v": op.rules[0], "weight": by_weight}, _rules_of(sums))


ROWS, UNCENTRED, CHANNELS = _Space(2, True), _Space(2, False), _Space(0, True)


def _kernel(name, builder, frame, **options):
    return Kernel(name, f"normalization:{builder}", frame=frame, dtypes=FLOATS, **options)


_ROWS = _kernel("norm_rows", "rows", NORM, centred=True)
_BY_ROW = _kernel("norm_rows_weight", "weight", NORM_WEIGHT, statistics="rows")
_BY_CHANNEL = _kernel("norm_channels_weight", "weight", NORM_CHANNELS_WEIGHT, statistics="channels")

_rows = _derivative_ops(
    "normalized_rows", "NativeLayerNormBackwardBackward0",
    _kernel("norm_rows_backward", "rows_backward", NORM_BACKWARD, centred=True), _BY_ROW, ROWS,
)  # fmt: skip
_uncentred = _derivative_ops(
    "rms_normalized_rows", "FusedRmsNormBackwardBackward0",
    _kernel("rms_rows_backward", "rows_backward", NORM_BACKWARD, centred=False), _BY_ROW, UNCENTRED,
)  # fmt: skip
_channels = _derivative_ops(
    "normalized_channels", "NativeBatchNormBackwardBackward0",
    _kernel("norm_channels_backward", "channels_backward", NORM_CHANNELS_BACKWARD), _BY_CHANNEL, CHANNELS,
)  # fmt: skip

_layer_norm = _normalisation("layer_norm", "NativeLayerNormBackward0", _ROWS, _rows, ROWS)
_recorded(_layer_norm, True, *map(_rules_of, _rows[1:]))
_normalisation("group_norm", "NativeGroupNormBackward0", _ROWS, _rows, ROWS)
_normalisation(
    "rms_norm",
    "FusedRmsNormBackward0",
    _kernel("rms_rows", "rows", NORM, centred=False),
    _uncentred,
    UNCENTRED,
)
_batch_norm = _normalisation(
    "batch_norm",
    "NativeBatchNormBackward0",
    _kernel("norm_channels", "channels", NORM_CHANNELS),
    _channels,
    CHANNELS,
)
_recorded(_batch_norm, False, *map(_rules_of, _channels[1:]))
_fixed(
    "batch_norm_fixed",
    "NativeBatchNormBackward0",
    _kernel("norm_channels_fixed", "fixed", NORM_FIXED),
    _BY_CHANNEL,
)
