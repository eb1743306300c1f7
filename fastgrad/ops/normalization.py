"""Layer, root-mean-square, group and batch normalisation: one family of ops.

Each sees its input as extents (n, g, c, s); see `kernels.normalization`. With h the normalised input, r the reciprocal
deviation and ``mean`` over what the statistics are taken over,

    D(v; x) = r (v - mean(v) - h mean(v h))

is the derivative of h, its own transpose. So the gradient of ``y = h weight + bias`` by x is D(g weight), and by the
weight the sum of g h. The gradient of ``sum(a D(b; x))`` by x is

    - r h mean(b D(a)) - r mean(b h) D(a) - r mean(a h) D(b),

in which everything is written as a function of x, so that derivatives of any order are right. Without centring, as in
root-mean-square normalisation, ``mean(v)`` and the mean within h are left out.

The extents are those of an image that lies row by row. Behind them stands whether the result has its channels last
(Note [Channels last] in `native/tensors/layouts.py`).
"""

from __future__ import annotations

import functools

from fastgrad.native.contracts.element_types import HALVES, WIDE
from fastgrad.native.contracts.frames.framed import (
    NORM,
    NORM_BACKWARD,
    NORM_CHANNELS,
    NORM_CHANNELS_BACKWARD,
    NORM_CHANNELS_WEIGHT,
    NORM_FIXED,
    NORM_FIXED_BACKWARD,
    NORM_UNCENTRED,
    NORM_UNCENTRED_BACKWARD,
    NORM_UNCENTRED_WEIGHT,
    NORM_WEIGHT,
)
from fastgrad.native.contracts.frames.norm_gradients import NORM_GRADIENTS, NORM_UNCENTRED_GRADIENTS
from fastgrad.native.contracts.ops import (
    FLOAT_ONLY,
    KEEPS_FLOAT32,
    NOT_DIFFERENTIABLE,
    ONE_DIFFERENTIABLE,
    ROWS_OF_CHANNELS,
    SHAPE_GIVEN,
    SHAPE_NORM,
    SHAPE_NORM_GRADIENTS,
    STRUCTURED,
    TAKES_FLOAT32,
)
from fastgrad.ops.call import invoke
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.reduce import mean, sum_
from fastgrad.ops.registry import Op
from fastgrad.ops.rules import gathering, parameters, taking
from fastgrad.ops.shape import expand_to, reshape_to, sum_to, transpose
from fastgrad.ops.special import rsqrt
from fastgrad.ops.spread import number

STATISTICS = ("mean", "rstd")
"""What the derivatives of normalised values read besides the input; their rules take it as one tuple, `stats`."""
KEPT = ("y1", "y2")
"""The same among the outputs of a normalisation."""


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


def _op(name, inputs, kernel, node, edges=None, n_out=1, saved_as=""):
    integers = kernel.frame().names_of("integers")
    flags = FLOAT_ONLY | TAKES_FLOAT32 | (ONE_DIFFERENTIABLE | KEEPS_FLOAT32 if n_out > 1 else 0)
    if kernel.options.get("statistics") == "channels":
        flags |= ROWS_OF_CHANNELS
    return Op(
        name, STRUCTURED, inputs, (*integers, "*outputs"), kernel=kernel, forward=SHAPE_NORM, flags=flags,
        n_out=n_out, node=node, edges=edges, saved_as=saved_as,
        statistics=tuple(name for name in inputs if name in STATISTICS),
    )  # fmt: skip


def _rule(op, name, stats=STATISTICS):
    """Declare a derivative that may take statistics as one tuple, its parameter `stats`."""
    return lambda rule: op.vjp(name)(gathering("stats", stats)(rule))


def _derivative_ops(name, node, kernel, by_weight, space, statistics="mean rstd"):
    """D(v), D(v weight) and the sum of v h as ops, with their derivatives; `statistics` is what PyTorch calls them."""
    called = f"grad_out input weight {statistics}"
    plain = _op(
        f"{name}_backward.plain", ("v", "x", "weight?", *STATISTICS), kernel, node, 3, saved_as=called
    )
    weighted = _op(f"{name}_backward", ("v", "x", "weight", *STATISTICS), kernel, node, 3, saved_as=called)
    sums = _op(
        f"{name}_weight_backward", ("v", "x", *STATISTICS), by_weight, node, 2,
        saved_as=f"grad_out input {statistics}",
    )  # fmt: skip

    def derivative(v, x, stats, eps, extents, channels_last=0):
        return invoke(plain, (v, x, None, *stats), eps, *extents, channels_last, -1)

    def curvature(a, b, x, stats, eps, extents, sizes):
        """The gradient of ``sum(a D(b; x))`` by x; `a` and `b` in four dimensions."""
        x4 = _four(x, *extents)
        r, h = space.parts(x4, eps)
        da = derivative(a, x4, stats, eps, extents)
        db = derivative(b, x4, stats, eps, extents)
        out = h * space.mean(b * da) + da * space.mean(b * h) + db * space.mean(a * h)
        return invoke(reshape_to, (-(out * r),), sizes)

    @_rule(plain, "v")
    def _(g, x, stats, eps, n, groups, c, s, channels_last):
        return derivative(g, x, stats, eps, (n, groups, c, s), channels_last)

    @_rule(plain, "x")
    def _(g, v, x, stats, eps, n, groups, c, s, sizes):
        extents = (n, groups, c, s)
        return curvature(_four(g, *extents), _four(v, *extents), x, stats, eps, extents, sizes)

    @_rule(weighted, "v")
    def _(g, x, weight, stats, eps, n, groups, c, s, sizes):
        d = _four(derivative(g, x, stats, eps, (n, groups, c, s)), n, groups, c, s)
        return invoke(reshape_to, (d * _wide(weight, groups, c),), sizes)

    @_rule(weighted, "x")
    def _(g, v, x, weight, stats, eps, n, groups, c, s, sizes):
        extents = (n, groups, c, s)
        b = _four(v, *extents) * _wide(weight, groups, c)
        return curvature(_four(g, *extents), b, x, stats, eps, extents, sizes)

    @_rule(weighted, "weight")
    def _(g, v, x, stats, eps, n, groups, c, s, sizes):
        extents = (n, groups, c, s)
        d = derivative(g, x, stats, eps, extents)
        return space.total(_four(d, *extents) * _four(v, *extents), sizes)

    @_rule(sums, "v")
    def _(g, x, eps, n, groups, c, s, sizes):
        _, h = space.parts(_four(x, n, groups, c, s), eps)
        return invoke(reshape_to, (h * _wide(g, groups, c),), sizes)

    @_rule(sums, "x")
    def _(g, v, x, stats, eps, n, groups, c, s, channels_last):
        return invoke(weighted, (v, x, g, *stats), eps, n, groups, c, s, channels_last, -1)

    return plain, weighted, sums


def _forward_ops(name, node, kernel, space, given=()):
    """The op of one kind of normalisation, and under ``<name>.plain`` that without weight, with the rule of the bias.

    They take the statistics that are `given` behind the bias; these may be missing, but for those of fixed ones.
    """
    called = " ".join(("input weight bias", *(_RUNNING if given else ()), "-> result0 result1 result2"))
    inputs = (("x", "weight", "bias?", *given), ("x", "weight?", "bias?", *given))
    op = _op(name, inputs[0], kernel, node, 3, n_out=3, saved_as=called)
    bare = _op(f"{name}.plain", inputs[1], kernel, node, 3, n_out=3, saved_as=called)
    for each in op, bare:

        @each.vjp("bias")
        def _(g, n, groups, c, s, sizes):
            if given:  # channels, whichever way they lie: what is before the last dimension is summed up
                return invoke(sum_to, (invoke(transpose, (g,), 1, -1),), sizes)
            return space.total(_four(g, n, groups, c, s), sizes)

    return op, bare


def _normalisation(name, node, forward, gradients, space, given=()):
    """The two ops of a normalisation by its own statistics."""
    op, bare = _forward_ops(name, node, forward, space, given)
    plain, weighted, sums = gradients

    @_rule(op, "x", KEPT)
    def _(g, x, weight, stats, eps, n, groups, c, s, channels_last):
        return invoke(weighted, (g, x, weight, *stats), eps, n, groups, c, s, channels_last, -1)

    @_rule(op, "weight", KEPT)
    def _(g, x, stats, eps, n, groups, c, s, channels_last, sizes):
        return invoke(sums, (g, x, *stats), eps, n, groups, c, s, channels_last, sizes)

    @_rule(bare, "x", KEPT)
    def _(g, x, stats, eps, n, groups, c, s, channels_last):
        return invoke(plain, (g, x, None, *stats), eps, n, groups, c, s, channels_last, -1)

    _saves_all(op, bare)
    return op, bare


def _saves_all(*ops):
    """As in PyTorch, whichever inputs require grad; but for the bias."""
    for op in ops:
        for name in op.inputs[:3]:
            op.also_saves(name, *op.inputs[:2], *op.inputs[3:], *KEPT)


def _recorded(op, by_bias, of_x, of_weight, statistics="mean rstd"):
    """Recorded, the gradients of `op` are one op, as in PyTorch; that of layers takes the bias as well (`by_bias`).

    `of_x` and `of_weight` are the derivatives of the gradients of x and of the weight, by their names; the latter is
    empty where there is no weight.
    """
    inputs, given = ("v", "x", "weight?", "bias?")[: 3 + by_bias], op.inputs[3:]
    operands = (*inputs, *(f"{name}?" for name in given), *STATISTICS, "*results")
    called = ["grad_out input weight", *["bias"] * by_bias, *(_RUNNING if given else ()), statistics]
    both = Op(
        f"{op.name}_backward", STRUCTURED, operands, op.attrs, forward=SHAPE_GIVEN, n_out=3, edges=len(inputs),
        node=op.node.replace("Backward0", "BackwardBackward0"), saved_as=" ".join((*called, "results")),
    )  # fmt: skip
    op.recorded_by(both, *op.inputs[: len(inputs) - 1], *given, *KEPT, results=range(3))
    if by_bias:
        for name in op.inputs[:3]:
            op.also_saves(name, "bias")

    def of_bias(g, n, groups, c, s, sizes):
        wide = invoke(expand_to, (_wide(g, groups, c),), 4, n, groups, c, s)
        return invoke(reshape_to, (wide,), sizes)

    both.vjp_sum("v", of_x["v"], of_weight.get("v"), of_bias)
    both.vjp_sum("x", of_x.get("x"), of_weight.get("x"), None)
    if of_weight:
        both.vjp_sum("weight", of_x["weight"], None, None)
    if by_bias:
        both.vjp_sum("bias", None, None, None)
    for name in both.inputs[: len(inputs)]:
        both.also_saves(name, "v", "x", "weight", *given, *STATISTICS)


def _rules_of(op):
    """The derivatives of an op by the names of its inputs."""
    return {op.inputs[k]: rule for k, rule in op.rules.items()}


def _by_given(rule):
    """A rule whose `stats` are the means and, from the variances, the reciprocal deviations that the op was given."""
    others = [name for name in parameters(rule) if name != "stats"]

    def apply(**given):
        variances = given["variances"]
        rstd = invoke(rsqrt, (variances + invoke(number, (variances,), given["eps"]),))
        return rule(stats=(given["means"], rstd), **{name: given[name] for name in others})

    return taking(dict.fromkeys((*others, "means", "variances", "eps")), apply)


def _fixed(name, node, forward, backward, by_weight):
    """Batch normalisation by statistics that are given: a linear function of x."""
    op, bare = _forward_ops(name, node, forward, CHANNELS, ("means", "variances"))
    sums = _op(f"{name}_weight_backward", ("v", "x", *STATISTICS), by_weight, node, 2)

    def row(of_channels, c):
        return invoke(reshape_to, (of_channels,), 4, 1, 1, c, 1)

    back = _op(f"{name}_input_backward", ("v", "weight?", "variances"), backward, node, 2)

    @op.vjp("x")
    def _(g, weight, variances, eps, n, groups, c, s, channels_last):
        return invoke(back, (g, weight, variances), eps, n, groups, c, s, channels_last, -1)

    @op.vjp("weight")
    @_by_given
    def _(g, x, stats, eps, n, groups, c, s, channels_last, sizes):
        return invoke(sums, (g, x, *stats), eps, n, groups, c, s, channels_last, sizes)

    @bare.vjp("x")
    def _(g, variances, eps, n, groups, c, s, channels_last):
        return invoke(back, (g, None, variances), eps, n, groups, c, s, channels_last, -1)

    @back.vjp("v")
    def _(g, weight, variances, eps, n, groups, c, s, channels_last):
        return invoke(back, (g, weight, variances), eps, n, groups, c, s, channels_last, -1)

    @back.vjp("weight")
    def _(g, v, variances, eps, n, groups, c, s, channels_last, sizes):
        scaled = invoke(back, (g, None, variances), eps, n, groups, c, s, channels_last, -1)
        return CHANNELS.total(_four(scaled, n, groups, c, s) * _four(v, n, groups, c, s), sizes)

    def sums_by_v(g, x, stats, n, groups, c, s, sizes):
        h = (_four(x, n, groups, c, s) - row(stats[0], c)) * row(stats[1], c)
        return invoke(reshape_to, (h * _wide(g, groups, c),), sizes)

    def sums_by_x(g, v, stats, n, groups, c, s, sizes):
        scale = row(stats[1], c) * _wide(g, groups, c)
        return invoke(reshape_to, (_four(v, n, groups, c, s) * scale,), sizes)

    def by_weight_of_x(g, v, stats, n, groups, c, s, sizes):
        each = _four(g, n, groups, c, s) * _four(v, n, groups, c, s)
        return CHANNELS.total(each * row(stats[1], c), sizes)

    _rule(sums, "v")(sums_by_v)
    _rule(sums, "x")(sums_by_x)
    _saves_all(op, bare)
    of_weight = {"v": _by_given(sums_by_v), "x": _by_given(sums_by_x)}
    _recorded(op, False, {"v": op.rules[0], "weight": _by_given(by_weight_of_x)}, of_weight, _OF_BATCHES)
    _recorded(bare, False, {"v": bare.rules[0]}, {}, _OF_BATCHES)


_RUNNING = ("running_mean", "running_var")  # what PyTorch calls what is given
_OF_BATCHES = "save_mean save_invstd"  # and the statistics of a batch
ROWS, UNCENTRED, CHANNELS = _Space(2, True), _Space(2, False), _Space(0, True)


def _kernel(name, builder, frame, module="normalization", **options):
    return Kernel(name, f"{module}:{builder}", frame=frame, dtypes=WIDE, gpu_dtypes=HALVES, **options)


_of_gradients = functools.partial(_kernel, module="norm_gradients")

_ROWS = _kernel("norm_rows", "rows", NORM, centred=True)
_BY_ROW = _kernel("norm_rows_weight", "weight", NORM_WEIGHT, statistics="rows", centred=True)
_BY_UNCENTRED = _kernel("rms_rows_weight", "weight", NORM_UNCENTRED_WEIGHT, statistics="rows", centred=False)
_BY_CHANNEL = _kernel(
    "norm_channels_weight", "weight", NORM_CHANNELS_WEIGHT, statistics="channels", centred=True
)

_rows = _derivative_ops(
    "normalized_rows", "NativeLayerNormBackwardBackward0",
    _of_gradients("norm_rows_backward", "rows_backward", NORM_BACKWARD, centred=True), _BY_ROW, ROWS,
)  # fmt: skip
_uncentred = _derivative_ops(
    "rms_normalized_rows", "FusedRmsNormBackwardBackward0",
    _of_gradients("rms_rows_backward", "rows_backward", NORM_UNCENTRED_BACKWARD, centred=False), _BY_UNCENTRED,
    UNCENTRED,
)  # fmt: skip
_channels = _derivative_ops(
    "normalized_channels", "NativeBatchNormBackwardBackward0",
    _kernel("norm_channels_backward", "channels_backward", NORM_CHANNELS_BACKWARD, statistics="channels"), _BY_CHANNEL,
    CHANNELS, _OF_BATCHES,
)  # fmt: skip


def _all_at_once(op, names, kernel):
    """Let a pass that wants the gradients of all inputs that are named compute them by one kernel."""
    by = Op(
        f"{op.name}_gradients", STRUCTURED, ("v", "x", "weight", *KEPT), op.attrs, kernel=kernel,
        forward=SHAPE_NORM_GRADIENTS, n_out=len(names),
        flags=FLOAT_ONLY | NOT_DIFFERENTIABLE | TAKES_FLOAT32 | KEEPS_FLOAT32, statistics=KEPT,
    )  # fmt: skip
    op.joint_where_all(*names[:2], by=by)


_layer_norm, _bare_layer_norm = _normalisation("layer_norm", "NativeLayerNormBackward0", _ROWS, _rows, ROWS)
_recorded(_layer_norm, True, *map(_rules_of, _rows[1:]))
_recorded(_bare_layer_norm, True, _rules_of(_rows[0]), {})
_normalisation("group_norm", "NativeGroupNormBackward0", _ROWS, _rows, ROWS)
_rms_norm, _ = _normalisation(
    "rms_norm",
    "FusedRmsNormBackward0",
    _kernel("rms_rows", "rows", NORM_UNCENTRED, centred=False),
    _uncentred,
    UNCENTRED,
)
_all_at_once(
    _layer_norm,
    ("x", "weight", "bias"),
    _of_gradients("norm_rows_gradients", "rows_gradients", NORM_GRADIENTS, centred=True),
)
_all_at_once(
    _rms_norm,
    ("x", "weight"),
    _of_gradients("rms_rows_gradients", "rows_gradients", NORM_UNCENTRED_GRADIENTS, centred=False),
)
_batch_norm, _bare_batch_norm = _normalisation(
    "batch_norm",
    "NativeBatchNormBackward0",
    _kernel("norm_channels", "channels", NORM_CHANNELS, statistics="channels"),
    _channels,
    CHANNELS,
    ("means?", "variances?"),
)
_recorded(_batch_norm, False, *map(_rules_of, _channels[1:]), _OF_BATCHES)
_recorded(_bare_batch_norm, False, _rules_of(_channels[0]), {}, _OF_BATCHES)
_fixed(
    "batch_norm_fixed",
    "NativeBatchNormBackward0",
    _kernel("norm_channels_fixed", "fixed", NORM_FIXED, statistics="channels"),
    _kernel("norm_channels_fixed_backward", "fixed_backward", NORM_FIXED_BACKWARD, statistics="channels"),
    _BY_CHANNEL,
)
