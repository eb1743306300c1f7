"""Writing at indices, as functions: `index_add` and its like, `index_put`, `put`, `masked_scatter`; `take`."""

from __future__ import annotations

from typing import Any

from fastgrad.errors import renamed
from fastgrad.functions.arguments import as_flag, is_number, is_tensor, need_tensor
from fastgrad.functions.creation import full
from fastgrad.functions.elementwise import fill_value
from fastgrad.functions.elementwise import inplace as write_over
from fastgrad.functions.index import Indices, grouped, is_mask, stacked, views, where
from fastgrad.functions.index_writes import need_apart, need_one_dtype, spread, write_at
from fastgrad.functions.plans import planned, unplanned
from fastgrad.functions.public import public
from fastgrad.functions.shape import expand, reshape, wrapped
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.element_types import HALVES, INT32, INT64
from fastgrad.native.contracts.integers import FROM_FRONT, STACKED
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import apply, is_recorded

_DTYPE, _NDIM, _NUMEL = (TENSOR.fields[n][0] for n in ("dtype", "ndim", "numel"))
_field, _sizes = rt.field, rt.sizes
_UNSQUEEZE = BY_NAME["unsqueeze"].id
_INDEX_PUT, _INDEX_PUT_ADD = BY_NAME["index_put"].id, BY_NAME["index_put.accumulate"].id
_ASSIGN, _PUT_INTO = BY_NAME["assign"], BY_NAME["index_put_"].id


# --- along one dimension -----------------------------------------------------------------------------------------


def need_vector(name: str, index: Any, dtypes: tuple[int, ...], wrong: type[Exception]) -> None:
    """Refuse an index that is no vector of one of the dtypes."""
    need_tensor(name, index, "index", 3)
    if _field(index, _DTYPE) not in dtypes:
        kinds = "int32 or int64" if INT32 in dtypes else "int64"
        raise wrong(f"{name}(): Expected dtype {kinds} for index, but got {index.dtype.name}")
    if _field(index, _NDIM) > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector, but got dim: {index.dim()}")


def need_source(name: str, x: Any, d: int, index: Any, source: Any, wrong: type[Exception]) -> Any:
    """The source with as many dimensions as x, if it has a slice for each index."""
    need_tensor(name, source, "source", 4)
    if _field(source, _DTYPE) != _field(x, _DTYPE):
        raise RuntimeError(
            f"{name}(): self and source expected to have the same dtype, but got {x.dtype.name} and {source.dtype.name}"
        )
    sizes, given, count = list(_sizes(x)), list(_sizes(source)), _field(index, _NUMEL)
    if not given or not sizes:
        given = given or [1]
        source = reshape(source, given)
    sizes = sizes or [1]
    if len(given) == 1 < len(sizes) or len(given) != len(sizes):
        raise IndexError(
            f"{name}(): source of {len(given)} dimensions does not fit a tensor of {len(sizes)} dimensions"
        )
    if given[d] != count:
        raise wrong(
            f"{name}(): Number of indices ({count}) should be equal to source.size(dim): ({given[d]}), for dim: {d}"
        )
    if given[:d] + given[d + 1 :] != sizes[:d] + sizes[d + 1 :]:
        raise RuntimeError(
            f"{name}(): Source/destination tensor must have same slice shapes. Destination slice shape: {sizes} at "
            f"dimension {d} and source slice shape: {given} at dimension {d}."
        )
    return source


def _placed(name: str, op: str, x: Any, d: int, index: Any, source: Any, form: int) -> Any:
    """A copy of x with the source at indices of dimension d."""
    flat = x if _field(x, _NDIM) else reshape(x, 1)
    try:
        out = apply(BY_NAME[op].id, 3, 0, flat, source, index, d, form, int(op == "index_add"))
    except (RuntimeError, IndexError) as error:
        raise _out_of_range(name, op, x, error) from error.__cause__
    return out if _field(x, _NDIM) else reshape(out, ())


def _out_of_range(name: str, op: str, x: Any, error: Exception) -> BaseException:
    """An index that is out of range is a RuntimeError where `index_add` has several dimensions, as in PyTorch."""
    wrong = renamed(error, name)
    return RuntimeError(str(wrong)) if op == "index_add" and _field(x, _NDIM) > 1 else wrong


def _written(name: str, op: str, x: Any, d: int, index: Any, source: Any, form: int) -> Any:
    """The same in place."""
    if is_recorded(x, source) or _field(x, _DTYPE) in HALVES or not x.dim() or form != FROM_FRONT:
        need_apart(name, x, index, source)
        return write_over(_ASSIGN, x, _placed(name, op, x, d, index, source, form))
    try:
        return apply(_PUT_INTO, 3, -1, x, source, index, d, form, int(op == "index_add"))
    except (RuntimeError, IndexError) as error:
        raise _out_of_range(name, op, x, error) from error.__cause__


def _adding(name: str, input: Any, dim: Any, index: Any, source: Any, alpha: Any) -> tuple[Any, ...]:
    need_tensor(name, input)
    d = wrapped(name, dim, _field(input, _NDIM))
    need_vector(name, index, (INT32, INT64), RuntimeError)
    source = need_source(name, input, d, index, source, RuntimeError)
    if alpha != 1:
        if not is_number(alpha) or is_tensor(alpha):
            raise TypeError(f"{name}(): argument 'alpha' must be Number, not {type(alpha).__name__}")
        if isinstance(alpha, float) and not input.dtype.is_floating_point:
            raise RuntimeError(
                f"{name}(): For integral input tensors, argument alpha must not be a floating point number."
            )
        source = (source * alpha).to(source.dtype)
    return "index_add", input, d, index, source, FROM_FRONT


@public()
@planned
def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: float = 1) -> Any:
    """A copy of `input` with ``out.select(dim, index[i]) += alpha * source.select(dim, i)``.

    Parameters
    ----------
    input : Tensor
    dim : int
    index : Tensor
        A vector of int64 or int32; indices may repeat.
    source : Tensor
        Of the dtype of `input`, with a slice for each index.
    alpha : number

    Returns
    -------
    Tensor

    Raises
    ------
    IndexError
        If an index is out of range, or `index` is no vector.
    RuntimeError
        If dtypes or sizes do not fit.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.index_add(fg.zeros(3), 0, fg.tensor([0, 2, 0]), fg.tensor([1.0, 2.0, 3.0]))
    tensor([4., 0., 2.])
    """
    return _placed("index_add", *_adding("index_add", input, dim, index, source, alpha))


@public(package=False)
def index_add_(input: Any, dim: int, index: Any, source: Any, *, alpha: float = 1) -> Any:
    """`index_add` in place."""
    return _written("index_add_", *_adding("index_add_", input, dim, index, source, alpha))


def _copying(name: str, input: Any, dim: Any, index: Any, source: Any) -> tuple[Any, ...]:
    need_tensor(name, input)
    d = wrapped(name, dim, _field(input, _NDIM))
    need_vector(name, index, (INT64,), RuntimeError)
    source = need_source(name, input, d, index, source, IndexError)
    return "index_copy", input, d, index, source, FROM_FRONT


@public()
@planned
def index_copy(input: Any, dim: int, index: Any, source: Any) -> Any:
    """A copy of `input` with ``out.select(dim, index[i]) = source.select(dim, i)``.

    Parameters
    ----------
    input : Tensor
    dim : int
    index : Tensor
        A vector of int64. Of several slices for one place the last one stays.
    source : Tensor
        Of the dtype of `input`, with a slice for each index.

    Returns
    -------
    Tensor

    Raises
    ------
    IndexError
        If an index is out of range, or the number of indices is not that of the slices.
    RuntimeError
        If dtypes or sizes do not fit.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.index_copy(fg.zeros(3), 0, fg.tensor([0, 2]), fg.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    return _placed("index_copy", *_copying("index_copy", input, dim, index, source))


@public(package=False)
def index_copy_(input: Any, dim: int, index: Any, source: Any) -> Any:
    """`index_copy` in place."""
    return _written("index_copy_", *_copying("index_copy_", input, dim, index, source))


def _filling(name: str, input: Any, dim: Any, index: Any, value: Any) -> tuple[Any, ...]:
    need_tensor(name, input)
    d = wrapped(name, dim, _field(input, _NDIM))
    need_vector(name, index, (INT64,), IndexError)
    if is_tensor(value):
        if value.dim() != 0:
            raise RuntimeError(
                f"{name}(): Only supports 0-dimension value tensor, but got tensor with {value.dim()} dimension(s)."
            )
        number = value.to(input.dtype)
    elif not is_number(value):
        raise TypeError(f"{name}(): argument 'value' must be Tensor or Number, not {type(value).__name__}")
    else:
        number = full((), fill_value(name, value, input), dtype=input.dtype, device=input.device)
    sizes = list(_sizes(input)) or [1]
    sizes[d] = _field(index, _NUMEL)
    return "index_fill", input, d, index, expand(number, sizes), 0


@public()
@planned
def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """A copy of `input` with a number in the slices that the index names.

    Parameters
    ----------
    input : Tensor
    dim : int
    index : Tensor
        A vector of int64; negative ones count from the end.
    value : number or Tensor without dimensions

    Returns
    -------
    Tensor

    Raises
    ------
    IndexError
        If an index is out of range, or `index` is no vector of int64.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.index_fill(fg.zeros(3), 0, fg.tensor([0, -1]), 5)
    tensor([5., 0., 5.])
    """
    operands = _filling("index_fill", input, dim, index, value)
    if not is_tensor(value) or not value.requires_grad:
        return _placed("index_fill", *operands)
    mask = full(tuple(input.shape), False, device=input.device)  # so that each place counts once
    return where(index_fill(mask, dim, index, True), value.to(input.dtype), input)


@public(package=False)
def index_fill_(input: Any, dim: int, index: Any, value: Any) -> Any:
    """`index_fill` in place."""
    operands = _filling("index_fill_", input, dim, index, value)
    if is_tensor(value) and value.requires_grad:
        return write_over(_ASSIGN, input, index_fill(input, dim, index, value))
    return _written("index_fill_", *operands)


# --- at index tensors --------------------------------------------------------------------------------------------


def _target(name: str, input: Any, indices: Any, values: Any, accumulate: Any) -> tuple[Any, Indices, int]:
    """What is written to, where, and whether values are added; raises if the arguments do not fit."""
    need_tensor(name, input)
    need_tensor(name, values, "values", 3)
    if not isinstance(indices, (tuple, list)):
        raise TypeError(
            f"{name}(): argument 'indices' (position 2) must be tuple of Tensors, not {type(indices).__name__}"
        )
    adds = as_flag(name, "accumulate", accumulate)
    need_one_dtype(name, input, values)
    items = [need_tensor(name, item, "indices", 2) for item in indices]
    if any(map(is_mask, items)):
        unplanned()  # how many places there are says what is in them
    _, advanced = views(input, tuple(i if i.dim() or is_mask(i) else reshape(i, 1) for i in items))
    if not advanced:
        raise IndexError("at least one index tensor is needed")
    return *grouped(input, advanced), adds


def _put(name: str, input: Any, indices: Any, values: Any, accumulate: Any) -> Any:
    """A copy with values written at index tensors, or added."""
    try:
        view, found, adds = _target(name, input, indices, values, accumulate)
        places = stacked(found)
        source = spread(name, view, places, values)
        op = _INDEX_PUT_ADD if adds else _INDEX_PUT
        return apply(op, 3, 0, view, source, places.indices, places.first, STACKED, adds)
    except (RuntimeError, IndexError) as error:
        raise renamed(error, name) from error.__cause__


@public()
@planned
def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """A copy of `input` with values written at index tensors, as ``input[indices] = values`` writes them.

    Parameters
    ----------
    input : Tensor
    indices : tuple of Tensor
        One for each dimension from the first on.
    values : Tensor
        Of the dtype of `input`; broadcast to what ``input[indices]`` is.
    accumulate : bool
        Add them instead.

    Returns
    -------
    Tensor

    Raises
    ------
    IndexError
        If an index is out of range or of a wrong dtype.
    RuntimeError
        If dtypes or sizes do not fit.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.index_put(fg.zeros(3), (fg.tensor([0, 0, 2]),), fg.ones(3), accumulate=True)
    tensor([2., 0., 1.])
    """
    return _put("index_put", input, indices, values, accumulate)


@public(package=False)
@planned
def index_put_(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """`index_put` in place."""
    others = [t for t in (*(indices if isinstance(indices, (tuple, list)) else ()), values) if is_tensor(t)]
    adds = as_flag("index_put_", "accumulate", accumulate)
    recorded = is_recorded(need_tensor("index_put_", input), need_tensor("index_put_", values, "values", 3))
    if recorded or (adds and _field(input, _DTYPE) in HALVES) or any(map(is_mask, others)):
        need_apart("index_put_", input, *others)
    if recorded or (adds and _field(input, _DTYPE) in HALVES):
        return write_over(_ASSIGN, input, _put("index_put_", input, indices, values, accumulate))
    try:
        view, found, adds = _target("index_put_", input, indices, values, accumulate)
        write_at(view, values, adds, found)
    except (RuntimeError, IndexError) as error:
        raise renamed(error, "index_put_") from error.__cause__
    return input


def need_index(name: str, index: Any) -> None:
    """Refuse what is no tensor of int64."""
    need_tensor(name, index, "index", 2)
    if _field(index, _DTYPE) != INT64:
        raise RuntimeError(f"{name}(): Expected a long tensor for index, but got {index.dtype.type_name}")


def _put_flat(name: str, input: Any, index: Any, source: Any, accumulate: Any) -> Any:
    need_tensor(name, input)
    need_index(name, index)
    need_tensor(name, source, "source", 3)
    adds = as_flag(name, "accumulate", accumulate)
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"{name}(): expected self and source to have the same dtype, but got {input.dtype.name} and "
            f"{source.dtype.name}"
        )
    if index.numel() != source.numel():
        raise IndexError(
            f"{name}(): Expected source and index to have the same number of elements, but got {source.numel()} and "
            f"{index.numel()}"
        )
    if input.numel() == 0 and index.numel() != 0:
        raise IndexError(f"{name}(): Expected a non-empty input, because there are indices")
    places = apply(_UNSQUEEZE, 1, 0, reshape(index, -1).contiguous(), 0)
    op = _INDEX_PUT_ADD if adds else _INDEX_PUT
    try:
        out = apply(op, 3, 0, reshape(input, -1), reshape(source, -1), places, 0, STACKED, adds)
    except (RuntimeError, IndexError) as error:
        raise renamed(error, name) from error.__cause__
    return reshape(out, tuple(input.shape))


@public()
@planned
def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """A copy of `input` with elements written where indices into all its elements, row by row, point to.

    Parameters
    ----------
    input : Tensor
    index : Tensor
        int64; negative ones count from the end.
    source : Tensor
        As many elements, of the dtype of `input`.
    accumulate : bool
        Add them instead.

    Returns
    -------
    Tensor

    Raises
    ------
    IndexError
        If an index is out of range.
    RuntimeError
        If dtypes or numbers of elements do not fit.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.put(fg.zeros(2, 2), fg.tensor([3, 0]), fg.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 1.]])
    """
    return _put_flat("put", input, index, source, accumulate)


@public(package=False)
def put_(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """`put` in place."""
    return write_over(_ASSIGN, input, _put_flat("put_", input, index, source, accumulate))
