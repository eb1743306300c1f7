"""Scattering: elements that an index sends to places along a dimension replace, multiply or bound what is there."""

from __future__ import annotations

from typing import Any

from fastgrad.dtypes import iinfo
from fastgrad.errors import renamed
from fastgrad.functions.arguments import as_index, as_truth, is_number, is_tensor, need_tensor
from fastgrad.functions.autocasting import widest_on_gpus
from fastgrad.functions.creation import full
from fastgrad.functions.elementwise import inplace as write_over
from fastgrad.functions.elementwise import number_for
from fastgrad.functions.index_writes import need_apart
from fastgrad.functions.placing import need_source, need_vector
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.functions.shape import expand, reshape, wrapped
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.element_types import HALVES, INT32, INT64
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import apply, is_recorded
from fastgrad.ops.scatter import WITH_BASE

_DTYPE, _NDIM = (TENSOR.fields[n][0] for n in ("dtype", "ndim"))
_field = rt.field
_SCATTER, _SCATTER_VALUE = BY_NAME["scatter"].id, BY_NAME["scatter.value"].id
_ADD = BY_NAME["scatter_add"].id
_REDUCED = {
    "prod": BY_NAME["scatter_reduce"].id,
    "amax": BY_NAME["scatter_reduce.amax"].id,
    "amin": BY_NAME["scatter_reduce.amin"].id,
}
_INTO = {
    how: BY_NAME["scatter_into" if how == "set" else f"scatter_into.{how}"].id
    for how in ("set", "add", "mul", "amax", "amin")
}
_REDUCE = {"add": "add", "multiply": "mul"}


def _spread(name: str, input: Any, index: Any, value: Any) -> Any:
    """A number as a source of the sizes of the index."""
    if not is_number(value) or is_tensor(value):
        raise TypeError(f"{name}(): argument 'value' must be Number, not {type(value).__name__}")
    filling = full((), number_for(name, value, input), dtype=input.dtype, device=input.device)
    return expand(filling, tuple(rt.sizes(index)))


def _operands(
    name: str, input: Any, dim: Any, index: Any, src: Any, value: Any
) -> tuple[Any, int, Any, bool]:
    """What is scattered, along which dimension, and whether it is a number. `src` may be one, as in PyTorch."""
    need_tensor(name, input)
    need_tensor(name, index, "index", 3)
    d = as_index(name, "dim", dim)
    if (src is None) == (value is None):
        raise TypeError(f"{name}(): expected one of the arguments 'src' and 'value'")
    if src is not None and is_tensor(src):
        return src, d, index, False
    return _spread(name, input, index, src if value is None else value), d, index, True


def _how(name: str, reduce: Any) -> str:
    if reduce is None:
        return "set"
    if not isinstance(reduce, str):
        raise TypeError(f"{name}(): argument 'reduce' must be str, not {type(reduce).__name__}")
    if reduce not in _REDUCE:
        raise RuntimeError(f"{name}(): reduce argument must be either add or multiply, but got {reduce!r}")
    return _REDUCE[reduce]


def _scatter(name: str, x: Any, src: Any, d: int, index: Any, number: bool, how: str) -> Any:
    op = {"add": _ADD, "mul": _REDUCED["prod"]}.get(how, _SCATTER_VALUE if number else _SCATTER)
    try:
        return apply(op, 3, 0, x, src, index, d, WITH_BASE)
    except (RuntimeError, IndexError) as error:
        raise renamed(error, name) from error.__cause__


def _into(name: str, x: Any, src: Any, d: int, index: Any, number: bool, how: str) -> Any:
    """The same in place."""
    if is_recorded(x, src) or _field(x, _DTYPE) in HALVES:
        need_apart(name, x, src, index)
        return write_over(BY_NAME["assign"], x, _scatter(name, x, src, d, index, number, how))
    try:
        return apply(_INTO[how], 3, -1, x, src, index, d)
    except (RuntimeError, IndexError) as error:
        raise renamed(error, name) from error.__cause__


@public()
@planned
def scatter(
    input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Any:
    """A copy of `input` with ``out[index[i][j]][j] = src[i][j]`` for dim 0, and so on for other dimensions.

    Parameters
    ----------
    input : Tensor
    dim : int
    index : Tensor
        int64 or int32, of as many dimensions as `input`. Of several elements for one place the last one stays.
    src : Tensor or number
        Of the dtype of `input`, no smaller than the index.
    value : number
        In the place of `src`.
    reduce : "add" or "multiply", optional
        Add to what is there, or multiply it.

    Returns
    -------
    Tensor

    Raises
    ------
    RuntimeError
        If dtypes, ranks or sizes do not fit, or an index is out of range.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.scatter(fg.zeros(2, 3), 1, fg.tensor([[2], [0]]), 1.0)
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    source, d, index, number = _operands("scatter", input, dim, index, src, value)
    return _scatter("scatter", input, source, d, index, number, _how("scatter", reduce))


@public(package=False)
@planned
def scatter_(
    input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Any:
    """`scatter` in place."""
    source, d, index, number = _operands("scatter_", input, dim, index, src, value)
    return _into("scatter_", input, source, d, index, number, _how("scatter_", reduce))


@public()
@planned
@widest_on_gpus
def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Any:
    """A copy of `input` with ``out[index[i][j]][j] += src[i][j]`` for dim 0, and so on."""
    need_tensor("scatter_add", input)
    need_tensor("scatter_add", src, "src", 4)
    need_tensor("scatter_add", index, "index", 3)
    return apply(_ADD, 3, 0, input, src, index, as_index("scatter_add", "dim", dim), WITH_BASE)


@public(package=False)
@planned
def scatter_add_(input: Any, dim: int, index: Any, src: Any) -> Any:
    """`scatter_add` in place."""
    need_tensor("scatter_add_", src, "src", 4)
    source, d, index, number = _operands("scatter_add_", input, dim, index, src, None)
    return _into("scatter_add_", input, source, d, index, number, "add")


# --- with a reduction --------------------------------------------------------------------------------------------


def _lowest(dtype: Any) -> Any:
    """What any number of the dtype is at least."""
    if dtype.is_floating_point:
        return float("-inf")
    return False if dtype.name.endswith("bool") else _limits(dtype)[0]


def _highest(dtype: Any) -> Any:
    if dtype.is_floating_point:
        return float("inf")
    return True if dtype.name.endswith("bool") else _limits(dtype)[1]


def _limits(dtype: Any) -> tuple[int, int]:
    """The least and the largest number of an integer dtype."""
    info = iinfo(dtype)
    return info.min, info.max


_NEUTRAL = {"sum": lambda d: 0, "mean": lambda d: 0, "prod": lambda d: 1, "amax": _lowest, "amin": _highest}


def _counts(x: Any, d: int, index: Any, include_self: bool) -> Any:
    """How many elements a mean is taken of, at least one."""
    start = full(tuple(x.shape), 1 if include_self else 0, dtype=x.dtype, device=x.device)
    ones = full((), 1, dtype=x.dtype, device=x.device).expand(tuple(rt.sizes(index)))
    return scatter_add(start, d, index, ones).clamp(min=1)


def _reduced(name: str, x: Any, dim: Any, index: Any, src: Any, reduce: Any, include_self: Any) -> Any:
    need_tensor(name, x)
    need_tensor(name, index, "index", 3)
    need_tensor(name, src, "src", 4)
    d = as_index(name, "dim", dim)
    include = as_truth(name, "include_self", include_self)
    if not isinstance(reduce, str):
        raise TypeError(f"{name}(): argument 'reduce' (position 5) must be str, not {type(reduce).__name__}")
    if reduce not in _NEUTRAL:
        raise RuntimeError(
            f"{name}(): reduce argument must be either sum, prod, mean, amax or amin, but got {reduce!r}"
        )
    base = x
    if not include:
        start = full((), _NEUTRAL[reduce](x.dtype), dtype=x.dtype, device=x.device)
        base = _scatter(name, x, expand(start, tuple(rt.sizes(index))), d, index, True, "set")
    if reduce not in ("sum", "mean"):
        return apply(_REDUCED[reduce], 3, 0, base, src, index, d, WITH_BASE)
    total = apply(_ADD, 3, 0, base, src, index, d, WITH_BASE)
    if reduce == "sum":
        return total
    counts = _counts(x, d, index, include)
    return total / counts if x.dtype.is_floating_point else total.div(counts, rounding_mode="floor")


@public()
@planned
def scatter_reduce(
    input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """A copy of `input`, reduced with the elements of `src` that the index sends to each place.

    Parameters
    ----------
    input : Tensor
    dim : int
    index : Tensor
        int64 or int32, of as many dimensions as `input`.
    src : Tensor
        Of the dtype of `input`, no smaller than the index.
    reduce : "sum", "prod", "mean", "amax" or "amin"
    include_self : bool
        Whether what is at these places counts as well.

    Returns
    -------
    Tensor

    Raises
    ------
    RuntimeError
        If dtypes, ranks or sizes do not fit, or an index is out of range.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.scatter_reduce(fg.zeros(2), 0, fg.tensor([0, 0, 1]), fg.tensor([1.0, 2.0, -1.0]), "amax")
    tensor([2., 0.])
    """
    try:
        return _reduced("scatter_reduce", input, dim, index, src, reduce, include_self)
    except (RuntimeError, IndexError) as error:
        raise renamed(error, "scatter_reduce") from error.__cause__


@public(package=False)
def scatter_reduce_(
    input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """`scatter_reduce` in place."""
    try:
        out = _reduced("scatter_reduce_", input, dim, index, src, reduce, include_self)
        return write_over(BY_NAME["assign"], input, out)
    except (RuntimeError, IndexError) as error:
        raise renamed(error, "scatter_reduce_") from error.__cause__


# --- slices ----------------------------------------------------------------------------------------------------


def _reduced_slices(
    name: str, x: Any, dim: Any, index: Any, source: Any, reduce: Any, include_self: Any
) -> Any:
    need_tensor(name, x)
    d = wrapped(name, dim, _field(x, _NDIM))
    need_vector(name, index, (INT32, INT64), RuntimeError)
    source = need_source(name, x, d, index, source, RuntimeError)
    if not isinstance(reduce, str):
        raise TypeError(f"{name}(): argument 'reduce' (position 5) must be str, not {type(reduce).__name__}")
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"{name}(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}"
        )
    flat = x if _field(x, _NDIM) else reshape(x, 1)
    sizes = tuple(rt.sizes(source))
    places = expand(reshape(index, [-1 if k == d else 1 for k in range(len(sizes))]), sizes)
    try:
        out = _reduced(name, flat, d, places, source, reduce, include_self)
    except RuntimeError as error:
        if "out of bounds" in str(error):  # of slices it is an IndexError, as in PyTorch
            raise IndexError(str(renamed(error, name))) from error.__cause__
        raise renamed(error, name) from error.__cause__
    return out if flat is x else reshape(out, ())


@public()
def index_reduce(
    input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """A copy of `input`, reduced with the slices of `source` that the index sends to each place of a dimension.

    Parameters
    ----------
    input : Tensor
    dim : int
    index : Tensor
        A vector of int64 or int32; indices may repeat.
    source : Tensor
        Of the dtype of `input`, with a slice for each index.
    reduce : "prod", "mean", "amax" or "amin"
    include_self : bool
        Whether what is at these places counts as well.

    Returns
    -------
    Tensor

    Raises
    ------
    IndexError
        If an index is out of range, or `index` is no vector.
    RuntimeError
        If dtypes or sizes do not fit, or there is no such reduction.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.index_reduce(fg.ones(3), 0, fg.tensor([0, 2, 0]), fg.tensor([4.0, 5.0, 6.0]), "prod")
    tensor([24.,  1.,  5.])
    """
    return _reduced_slices("index_reduce", input, dim, index, source, reduce, include_self)


@public(package=False)
def index_reduce_(
    input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """`index_reduce` in place."""
    out = _reduced_slices("index_reduce_", input, dim, index, source, reduce, include_self)
    return write_over(BY_NAME["assign"], input, out)
