"""Reductions over any dimensions, and ops over the rows of one dimension."""

from __future__ import annotations

import fastgrad.ops.elementwise  # noqa: F401  (the rules here call its ops by name)
from fastgrad.native.contracts import integers
from fastgrad.native.contracts.element_types import BOOL, COMPLEX, HALVES, WIDE, WITHOUT_HALVES
from fastgrad.native.contracts.frame import COMPUTED, SUMMED
from fastgrad.native.contracts.frames import reductions
from fastgrad.native.contracts.ops import (
    ACCUMULATES_INT,
    FLOAT_ONLY,
    HALVES_ON_GPUS,
    HOLOMORPHIC,
    IN_FLOAT32,
    NOT_DIFFERENTIABLE,
    NOT_EMPTY,
    ONE_DIFFERENTIABLE,
    OUT_BOOL,
    REDUCES,
    REDUCTION,
    ROWWISE,
    SHAPE_EXPAND_BACK,
    SHAPE_EXPAND_MEAN,
    SHAPE_EXPAND_MEAN_BACK,
    SHAPE_EXPAND_META,
    SHAPE_EXTREMES,
    SHAPE_PLACE_ROWS,
    SHAPE_REDUCE_LIKE,
    SHAPE_RESTORE,
    SHAPE_SELECT_ROWS,
    STRUCTURED,
    WITH_INDICES,
)
from fastgrad.ops.call import invoke, is_traced
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.registry import Op
from fastgrad.ops.shape import reshape_to, zeros_of
from fastgrad.ops.vocabulary import m


def _dtypes(flags):
    return WIDE if flags & FLOAT_ONLY else WITHOUT_HALVES


def _elements(flags, reduced=False):
    """What a kernel's results are, where they do not have its dtype.

    Sums over blocks are added up in a second launch, and rounded behind it.
    """
    if flags & OUT_BOOL:
        return {"out": BOOL}
    if flags & ACCUMULATES_INT:
        return {"out": SUMMED}
    return {"out": COMPUTED} if reduced and flags & FLOAT_ONLY else {}


def reduction_kernel(name, dtypes, elements=None, gpu_dtypes=()):
    """The kernel of a reduction over any dimensions."""
    return Kernel(
        name,
        "reduce:build",
        frame=reductions.REDUCTION,
        elements=elements or {},
        dtypes=dtypes,
        gpu_dtypes=gpu_dtypes,
        reduction=name,
    )


def _reduction(name, flags=0, node=None, over_complex=False):
    dtypes = _dtypes(flags) + (COMPLEX if over_complex else ())
    kernel = reduction_kernel(name, dtypes, _elements(flags, True), HALVES)
    return Op(
        name, REDUCTION, ("x",), (*integers.REDUCED.names, "*dims"), kernel=kernel, flags=flags, node=node
    )


def _rowwise(name, inputs=("x",), flags=0, over_complex=False):
    frame = reductions.REDUCED_ROWS if flags & REDUCES else reductions.ROWS
    kernel = Kernel(
        name, "rows:build", frame=frame, elements=_elements(flags),
        dtypes=_dtypes(flags) + (COMPLEX if over_complex else ()), gpu_dtypes=HALVES, row=name,
    )  # fmt: skip
    return Op(name, ROWWISE, inputs, integers.OF_ROWS.names, kernel=kernel, flags=flags)


def _extremes(best, smallest):
    """The ops that give the place of the extreme value of each row, and value and place, by one kernel."""
    kernel = Kernel(
        f"{best}_dim", "extremes:build", frame=reductions.EXTREMES, dtypes=WITHOUT_HALVES, gpu_dtypes=HALVES,
        smallest=smallest,
    )  # fmt: skip
    arg = Op(
        f"arg{best}", STRUCTURED, ("x",), integers.OF_ROWS.names, kernel=kernel, forward=SHAPE_EXTREMES,
        flags=NOT_DIFFERENTIABLE,
    )  # fmt: skip
    both = Op(
        f"{best}_dim", STRUCTURED, ("x",), integers.OF_ROWS.names, kernel=kernel, forward=SHAPE_EXTREMES,
        flags=WITH_INDICES | ONE_DIFFERENTIABLE, node=f"{best.capitalize()}Backward0", n_out=2,
        called=best, saved_as="self -> values indices",
    )  # fmt: skip
    return arg, both


# How a gradient of the result reaches every element it was made from: the reduced dimensions come back.
expand_reduced = Op(
    "expand_reduced", STRUCTURED, ("x",), ("*reduced",), forward=SHAPE_EXPAND_META, node="ExpandBackward0"
)
expand_mean = Op(
    "expand_mean", STRUCTURED, ("x",), ("*reduced",), forward=SHAPE_EXPAND_MEAN, node="ExpandBackward0"
)
reduce_like = Op(
    "reduce_like",
    STRUCTURED,
    ("x",),
    (*integers.REDUCED_AGAIN.names, "*spread"),
    forward=SHAPE_REDUCE_LIKE,
    flags=IN_FLOAT32 | HALVES_ON_GPUS,
    node="SumBackward1",
)
mean_like = Op(
    "mean_like",
    STRUCTURED,
    ("x",),
    (*integers.REDUCED_AGAIN.names, "*spread"),
    forward=SHAPE_REDUCE_LIKE,
    flags=IN_FLOAT32 | HALVES_ON_GPUS,
    node="MeanBackward1",
)
expand_back = Op(
    "expand_back", STRUCTURED, ("x",), ("*spread",), forward=SHAPE_EXPAND_BACK, node="ExpandBackward0"
)
expand_mean_back = Op(
    "expand_mean_back",
    STRUCTURED,
    ("x",),
    ("*spread",),
    forward=SHAPE_EXPAND_MEAN_BACK,
    node="ExpandBackward0",
)


restore = Op(
    "restore_reduced", STRUCTURED, ("x",), ("*reduced",), forward=SHAPE_RESTORE, node="UnsqueezeBackward0"
)


def restored(x, sizes, keepdim, dims, number=True):
    """What was reduced, with the reduced dimensions as ones of size 1; one number has them only if `number` says so."""
    if not is_traced(x):  # where nothing is to be done, there is no node
        whole = len(dims) in (0, sizes[0])
        if keepdim or not sizes[0] or (whole and not number):
            return x
    return invoke(restore, (x,), sizes, dims)


@restore.vjp("x")
def _(g, sizes):
    return invoke(reshape_to, (g,), sizes)


@expand_reduced.vjp("x")
def _(g, sizes, reduced):
    return invoke(reduce_like, (g,), 0, sizes, reduced)


@expand_mean.vjp("x")
def _(g, sizes, reduced):
    return invoke(mean_like, (g,), 1, sizes, reduced)


# What reduce_like gets holds the result's sizes first; its gradient expands by the rest.


@reduce_like.vjp("x")
def _(g, spread):
    return invoke(expand_back, (g,), spread)


@mean_like.vjp("x")
def _(g, spread):
    return invoke(expand_mean_back, (g,), spread)


@expand_back.vjp("x")
def _(g, spread):
    return invoke(reduce_like, (g,), 0, spread)


@expand_mean_back.vjp("x")
def _(g, spread):
    return invoke(mean_like, (g,), 1, spread)


sum_ = _reduction("sum", ACCUMULATES_INT, over_complex=True)
mean = _reduction("mean", FLOAT_ONLY, over_complex=True)
amax = _reduction("amax", NOT_EMPTY)
amin = _reduction("amin", NOT_EMPTY)
max_ = Op(
    "max",
    REDUCTION,
    ("x",),
    (*integers.REDUCED.names, "*dims"),
    kernel=amax.kernel,
    flags=NOT_EMPTY,
    node="MaxBackward1",
)
min_ = Op(
    "min",
    REDUCTION,
    ("x",),
    (*integers.REDUCED.names, "*dims"),
    kernel=amin.kernel,
    flags=NOT_EMPTY,
    node="MinBackward1",
)
any_ = _reduction("any", OUT_BOOL | NOT_DIFFERENTIABLE, over_complex=True)
all_ = _reduction("all", OUT_BOOL | NOT_DIFFERENTIABLE, over_complex=True)

softmax = _rowwise("softmax", flags=FLOAT_ONLY)
safe_softmax = _rowwise("safe_softmax", flags=FLOAT_ONLY)  # zeros for a row of -inf
log_softmax = _rowwise("log_softmax", flags=FLOAT_ONLY)
logsumexp = _rowwise("logsumexp", flags=FLOAT_ONLY | REDUCES)
argmax, max_dim = _extremes("max", False)
argmin, min_dim = _extremes("min", True)
prod = _rowwise("prod", flags=ACCUMULATES_INT | REDUCES | HOLOMORPHIC, over_complex=True)  # of all elements
cumsum = _rowwise("cumsum", flags=ACCUMULATES_INT, over_complex=True)

cumprod_integers = _rowwise("cumprod_integers", flags=ACCUMULATES_INT | NOT_DIFFERENTIABLE)


@sum_.vjp("x")
def _(g, sizes, dims):
    return invoke(expand_reduced, (g,), sizes, dims)


@mean.vjp("x")
def _(g, sizes, dims):
    return invoke(expand_mean, (g,), sizes, dims)


sum_.variant("dim", "SumBackward1")
mean.variant("dim", "MeanBackward1")


# The gradient of an extreme value goes to the elements that attain it, in equal parts. As in PyTorch, amax and amin
# find none that attain NaN, which makes the shares 0 / 0, and max and min of all elements find those that are NaN.


def _extreme(g, x, y, sizes, keepdim, dims):
    hit = m.eq(restored(y, sizes, keepdim, dims), x)
    return restored(g, sizes, keepdim, dims) / invoke(sum_, (hit,), 1, dims) * hit


def _extreme_of_all(g, x, y, sizes):
    hit = m.logical_or(m.eq(x, y), m.logical_and(m.isnan(x), m.isnan(y)))
    return m.masked_fill(invoke(zeros_of, (g,), sizes), g / invoke(sum_, (hit,), 0), hit)


amax.vjp("x")(_extreme)
amin.vjp("x")(_extreme)
max_.vjp("x")(_extreme_of_all)
min_.vjp("x")(_extreme_of_all)


# --- rows ------------------------------------------------------------------------------------------------------

softmax_backward = _rowwise("softmax_backward", ("v", "s"), FLOAT_ONLY)
log_softmax_backward = _rowwise("log_softmax_backward", ("v", "s"), FLOAT_ONLY)
reversed_cumsum = _rowwise("reversed_cumsum", flags=FLOAT_ONLY, over_complex=True)
select_rows = Op(
    "select_rows", STRUCTURED, ("x", "index"), integers.OF_ROWS.names, forward=SHAPE_SELECT_ROWS, edges=1
)
place_rows = Op(
    "place_rows",
    STRUCTURED,
    ("x", "index"),
    (*integers.OF_ROWS.names, "*target"),
    forward=SHAPE_PLACE_ROWS,
    edges=1,
)


def _softmax_back(g, y, dim):
    return invoke(softmax_backward, (g, y), dim, 0)


softmax.vjp("x")(_softmax_back)
safe_softmax.vjp("x")(_softmax_back)


# softmax_backward(v, s) = s * (v - sum(v * s)), v the gradient and s the softmax.


@softmax_backward.vjp("v")
def _(g, s, dim):
    return invoke(softmax_backward, (g, s), dim, 0)


@softmax_backward.vjp("s")
def _(g, v, s, dim):
    return g * (v - invoke(sum_, (v * s,), 1, dim)) - v * invoke(sum_, (g * s,), 1, dim)


# log_softmax_backward(v, s) = v - exp(s) * sum(v), s the log-softmax.


@log_softmax_backward.vjp("v")
def _(g, s, dim):
    return g - invoke(sum_, (g * m.exp(s),), 1, dim)


@log_softmax_backward.vjp("s")
def _(g, v, s, dim):
    return -(g * m.exp(s) * invoke(sum_, (v,), 1, dim))


@log_softmax.vjp("x")
def _(g, y, dim):
    return invoke(log_softmax_backward, (g, y), dim, 0)


@logsumexp.vjp("x")
def _(g, x, y, sizes, dim, keepdim):
    return restored(g, sizes, keepdim, (dim,)) * m.exp(x - restored(y, sizes, keepdim, (dim,)))


@cumsum.vjp("x")
def _(g, dim):
    return invoke(reversed_cumsum, (g,), dim, 0)


@reversed_cumsum.vjp("x")
def _(g, dim):
    return invoke(cumsum, (g,), dim, 0)


def _place(g, y1, dim, keepdim, sizes):
    values, index = (restored(t, sizes, keepdim, (dim,)) for t in (g, y1))
    return invoke(place_rows, (values, index), dim, 1, sizes)


max_dim.vjp("x")(_place)
min_dim.vjp("x")(_place)


@place_rows.vjp("x")
def _(g, index, dim, keepdim):
    return invoke(select_rows, (g, index), dim, keepdim)


@select_rows.vjp("x")
def _(g, index, dim, keepdim, sizes):
    return invoke(place_rows, (g, index), dim, keepdim, sizes)


# The derivative of a product by a factor is the product of those before it and those after it; nothing is divided, so
# that zeros are like any other factor. With a sum over what is carried along, these are closed under differentiation:
#
#   products_before(x)[k] = x[0] ... x[k-1]           carried_on(v, x)[k] = sum over i < k of v[i] x[i+1] ... x[k-1]
#   products_after(x)[k] = x[k+1] ... x[n-1]          carried_back(v, x)[k] = sum over i > k of v[i] x[k+1] ... x[i-1]
#
# carried_on and carried_back are each other's transpose in v. What depends on x[k] is a product of what reached k from
# one side, which is y[k], and of what goes on to the other side: hence the derivative by x is y times the other sum.
products_before = _rowwise("products_before", flags=FLOAT_ONLY | HOLOMORPHIC, over_complex=True)
products_after = _rowwise("products_after", flags=FLOAT_ONLY | HOLOMORPHIC, over_complex=True)
carried_on = _rowwise("carried_on", ("v", "x"), flags=FLOAT_ONLY | HOLOMORPHIC, over_complex=True)
carried_back = _rowwise("carried_back", ("v", "x"), flags=FLOAT_ONLY | HOLOMORPHIC, over_complex=True)


def _others(x, dim):
    return invoke(products_before, (x,), dim, 0) * invoke(products_after, (x,), dim, 0)


@prod.vjp("x")
def _(g, x, dim):
    return g * _others(x, dim)


prod.also_saves("x", "y")
prod_dim = prod.variant("dim", "ProdBackward1")


@prod_dim.vjp("x")
def _(g, x, dim, sizes):
    return invoke(expand_reduced, (g,), sizes, dim) * _others(x, dim)


prod_dim.also_saves("x", "y")


def _back(g, x, dim):
    return invoke(carried_back, (g, x), dim, 0)


def _on(g, x, dim):
    return invoke(carried_on, (g, x), dim, 0)


def _times_back(g, x, y, dim):
    return y * _back(g, x, dim)


def _times_on(g, x, y, dim):
    return y * _on(g, x, dim)


products_before.vjp("x")(_times_back)
products_after.vjp("x")(_times_on)
carried_on.vjp("v")(_back)
carried_on.vjp("x")(_times_back)
carried_back.vjp("v")(_on)
carried_back.vjp("x")(_times_on)
