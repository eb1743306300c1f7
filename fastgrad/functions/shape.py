"""Views, joining and splitting: functions that move elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any

from fastgrad import dtypes
from fastgrad.dtypes import promote_types
from fastgrad.errors import renamed
from fastgrad.functions.arguments import (
    as_dims,
    as_index,
    as_sequence,
    as_sizes,
    is_tensor,
    need_sizes,
    need_tensor,
)
from fastgrad.functions.autocasting import widest
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.flags import CONTIGUOUS
from fastgrad.native.contracts.limits import MAX_DIMS
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import apply, invoke

_VIEW, _TRANSPOSE, _T, _PERMUTE = (BY_NAME[n].id for n in ("view", "transpose", "t", "permute"))
_SELECT, _SLICE, _EXPAND = (BY_NAME[n].id for n in ("select", "slice", "expand"))
_UNSQUEEZE, _CAT, _STACK = (BY_NAME[n].id for n in ("unsqueeze", "cat", "stack"))
_SQUEEZE, _SQUEEZE_DIM = (BY_NAME[n].id for n in ("squeeze", "squeeze.dim"))
_RESHAPE_COPY, _STRIDED_VIEW = BY_NAME["reshape_copy"].id, BY_NAME["view.strided"].id
_FLAGS, _NUMEL, _DTYPE, _NDIM = (TENSOR.fields[n][0] for n in ("flags", "numel", "dtype", "ndim"))
_SHAPE = TENSOR.fields["shape"][0]
_SPLIT, _SPLIT_SIZES = BY_NAME["split"].id, BY_NAME["split.sizes"].id
_field, _sizes = rt.field, rt.sizes


@public(method=False)
def clone(input: Any, *, memory_format: Any = None) -> Any:
    """A copy of a tensor, with history; see `Tensor.clone`."""
    return need_tensor("clone", input).clone(memory_format=memory_format)


@public(method=False)
def numel(input: Any) -> int:
    """The number of elements of a tensor."""
    return rt.field(need_tensor("numel", input), _NUMEL)  # type: ignore[no-any-return]


def wrapped(name: str, dim: Any, ndim: int, argument: str = "dim") -> int:
    """A dimension counted from the front; IndexError if out of range, TypeError if it is no integer."""
    if type(dim) is int:
        if 0 <= dim < ndim:
            return dim
        if -ndim <= dim < 0:
            return dim + ndim
    bound = ndim if ndim > 0 else 1
    dim = as_index(name, argument, dim)
    if not -bound <= dim < bound:
        raise IndexError(
            f"{name}(): Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {dim})"
        )
    return dim % bound  # type: ignore[no-any-return]


def existing(name: str, dim: Any, ndim: int) -> int:
    """Like `wrapped`, for what a tensor without dimensions does not have."""
    d = wrapped(name, dim, ndim)
    if ndim == 0:
        raise IndexError(f"{name}(): dimension specified as {dim} but tensor has no dimensions")
    return d


def wrapped_dims(name: str, dims: Sequence[Any], ndim: int) -> list[int]:
    """Dimensions in order, counted from the front; RuntimeError if one is named twice."""
    found = sorted(wrapped(name, d, ndim) for d in dims)
    for d, following in pairwise(found):
        if d == following:
            raise RuntimeError(f"{name}(): dim {d} appears multiple times in the list of dims {list(dims)}")
    return found


@public(package=False)
@planned
def view(input: Any, *size: Any, dtype: Any = None) -> Any:
    """The same memory with other sizes; raises where strides do not allow it.

    Parameters
    ----------
    *size : int
        One may be -1 and is then inferred.
    dtype : dtype, optional
        In place of sizes: the same bytes as its elements, of which the last dimension has as many fewer or more; no
        gradient goes through.

    Raises
    ------
    RuntimeError
        If the number of elements differs or no view is possible; `reshape` copies then.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.arange(6).view(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    if dtype is not None and size:
        raise TypeError("view(): takes sizes or a dtype, not both")
    if dtype is not None or (len(size) == 1 and isinstance(size[0], dtypes.dtype)):
        from fastgrad.functions.strided import view_as_dtype  # which needs this module

        return view_as_dtype(input, size[0] if dtype is None else dtypes.as_dtype(dtype))
    return apply(_VIEW, 1, 0, input, *need_sizes("view", size, "size"))


@public()
@planned
def reshape(input: Any, *shape: Any) -> Any:
    """Other sizes over the same elements: a view where possible, a copy otherwise.

    Raises
    ------
    RuntimeError
        If the number of elements differs.
    """
    if not isinstance(input, TensorBase):
        need_tensor("reshape", input)
    return _reshaped(input, need_sizes("reshape", shape, "shape"))


def _reshaped(input: Any, sizes: tuple[int, ...]) -> Any:
    """`reshape` of a tensor to integers of 64 bits."""
    try:
        if _field(input, _FLAGS) & CONTIGUOUS:
            return apply(_VIEW, 1, 0, input, *sizes)
        if len(sizes) > MAX_DIMS or rt.viewable(input, sizes):
            return apply(_STRIDED_VIEW, 1, 0, input, *sizes)
    except RuntimeError as error:
        raise renamed(error, "reshape") from error.__cause__
    return unsafe_view(input.clone(), *sizes)


def unsafe_view(input: Any, *sizes: int) -> Any:
    """Other sizes for a result that nobody else will see: no view, so that it may be changed in place."""
    return apply(_RESHAPE_COPY, 1, 0, input, *sizes)


@public()
@planned
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """The dimensions from `start_dim` to `end_dim` as one."""
    sizes = _sizes(need_tensor("flatten", input))
    ndim = len(sizes)
    start = wrapped("flatten", start_dim, ndim, "start_dim")
    end = wrapped("flatten", end_dim, ndim, "end_dim")
    if ndim == 0:
        return _reshaped(input, (1,))
    if start > end:
        raise RuntimeError("flatten(): invalid args: start_dim cannot come after end_dim")
    if start == end:
        return input
    length = math.prod(sizes[start : end + 1])
    return _reshaped(input, (*sizes[:start], length, *sizes[end + 1 :]))


@public()
@planned
def unflatten(input: Any, dim: int, sizes: Sequence[int]) -> Any:
    """One dimension as several."""
    d = wrapped("unflatten", dim, need_tensor("unflatten", input).dim())
    if input.dim() == 0:
        raise RuntimeError("unflatten(): expects at least a 1-dimensional tensor")
    shape = tuple(input.shape)
    sizes = as_sequence("unflatten", sizes, "sizes", 3)
    if not sizes:
        raise RuntimeError("unflatten(): sizes must be non-empty")
    known = 1
    for s in sizes:
        known *= s if s != -1 else 1
    fits = shape[d] % known == 0 if -1 in sizes and known else known == shape[d]
    if not fits:
        raise RuntimeError(
            f"unflatten(): Provided sizes {list(sizes)} don't multiply up to the size of dim {d} ({shape[d]}) in the "
            "input tensor"
        )
    return view(input, (*shape[:d], *sizes, *shape[d + 1 :]))


@public()
@planned
def permute(input: Any, *dims: Any) -> Any:
    """The dimensions in another order."""
    return apply(_PERMUTE, 1, 0, input, 0, *need_sizes("permute", dims, "dims"))


@public("swapdims")
@planned
def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """Two dimensions exchanged."""
    return apply(
        _TRANSPOSE, 1, 0, input, as_index("transpose", "dim0", dim0), as_index("transpose", "dim1", dim1)
    )


@public()
@planned
def swapaxes(input: Any, axis0: int, axis1: int) -> Any:
    """Two dimensions exchanged, as `transpose` does it."""
    return transpose(input, axis0, axis1)


@public()
@planned
def t(input: Any) -> Any:
    """The transpose of a matrix; tensors of fewer dimensions as they are."""
    n = need_tensor("t", input).dim()
    if n > 2:
        raise RuntimeError(f"t(): expects a tensor with <= 2 dimensions, but self is {n}D")
    return apply(_T, 1, 0, input, 0, 1 if n == 2 else 0)


@public("moveaxis")
@planned
def movedim(input: Any, source: Any, destination: Any) -> Any:
    """Dimensions moved to other places, the rest in their order."""
    ndim = need_tensor("movedim", input).dim()
    src = [wrapped("movedim", d, ndim) for d in as_dims("movedim", source)]
    dst = [wrapped("movedim", d, ndim) for d in as_dims("movedim", destination)]
    if len(src) != len(dst):
        raise RuntimeError(
            f"movedim(): Invalid source or destination dims: source ({src} dims) should contain the same "
            "number of dims "
            f"as destination ({dst} dims)"
        )
    if len(set(src)) != len(src) or len(set(dst)) != len(dst):
        raise RuntimeError(f"movedim(): repeated dim in `source` ({src}) or `destination` ({dst})")
    rest = iter(d for d in range(ndim) if d not in src)
    place = dict(zip(dst, src, strict=True))
    return permute(input, [place[k] if k in place else next(rest) for k in range(ndim)])


@public()
@planned
def squeeze(input: Any, dim: Any = None) -> Any:
    """Without the dimensions of size 1, or without those named that have size 1."""
    need_tensor("squeeze", input)
    if dim is None:
        return apply(_SQUEEZE, 1, 0, input, MAX_DIMS)
    if type(dim) is int:
        return apply(_SQUEEZE_DIM, 1, 0, input, wrapped("squeeze", dim, _field(input, _NDIM)))
    dims = wrapped_dims("squeeze", as_dims("squeeze", dim), input.dim())
    if not isinstance(dim, (tuple, list)):
        return apply(_SQUEEZE_DIM, 1, 0, input, *dims)
    sizes = [s for k, s in enumerate(input.shape) if k not in dims or s != 1]
    return invoke(BY_NAME["view.squeezed"], (input,), sizes)


@public()
@planned
def unsqueeze(input: Any, dim: int) -> Any:
    """With a new dimension of size 1."""
    return apply(_UNSQUEEZE, 1, 0, need_tensor("unsqueeze", input), as_index("unsqueeze", "dim", dim))


@public(package=False)
@planned
def expand(input: Any, *size: Any) -> Any:
    """Dimensions of size 1 repeated without copying; -1 keeps a size."""
    return apply(_EXPAND, 1, 0, input, *need_sizes("expand", size))


@public(package=False)
@planned
def expand_as(input: Any, other: Any) -> Any:
    """Expanded to the sizes of another tensor."""
    return apply(_EXPAND, 1, 0, input, *need_tensor("expand_as", other, "other", 2).shape)


@public()
@planned
def broadcast_to(input: Any, size: Sequence[int]) -> Any:
    """Expanded to sizes."""
    return expand(input, as_sizes("broadcast_to", (size,)))


@public()
@planned
def select(input: Any, dim: int, index: int) -> Any:
    """The slice at one position of a dimension, which goes."""
    return apply(_SELECT, 1, 0, input, as_index("select", "dim", dim), as_index("select", "index", index))


@public()
@planned
def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    """`length` positions of a dimension from `start` on."""
    need_tensor("narrow", input)
    dim, start = as_index("narrow", "dim", dim), as_index("narrow", "start", start)
    length = as_index("narrow", "length", length)
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    return invoke(BY_NAME["narrow"], (input,), dim, start, length)


@public()
@planned
def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A view of a diagonal, as last dimension."""
    need_tensor("diagonal", input)
    given = (("offset", offset), ("dim1", dim1), ("dim2", dim2))
    return invoke(
        BY_NAME["diagonal"], (input,), *(as_index("diagonal", name, value) for name, value in given)
    )


@public()
@planned
def tril(input: Any, diagonal: int = 0) -> Any:
    """The lower triangle of the last two dimensions."""
    return _triangle("tril", input, diagonal)


@public()
@planned
def triu(input: Any, diagonal: int = 0) -> Any:
    """The upper triangle of the last two dimensions."""
    return _triangle("triu", input, diagonal)


def _triangle(name: str, input: Any, diagonal: int) -> Any:
    if _field(need_tensor(name, input), _NDIM) < 2:
        raise RuntimeError(f"{name}(): input tensor must have at least 2 dimensions")
    return apply(BY_NAME[name].id, 1, 0, input, as_index(name, "diagonal", diagonal))


# --- joining ---------------------------------------------------------------------------------------------------


_SEQUENCES = frozenset((list, tuple))


def _joined(name: str, tensors: Any, dim: Any) -> tuple[tuple[Any, ...], int]:
    """The tensors of a join, of one dtype, and the dimension; types are looked at before values."""
    kind = type(tensors)
    if kind not in _SEQUENCES and (is_tensor(tensors) or not hasattr(kind, "__iter__")):
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not {kind.__name__}"
        )
    if type(dim) is not int:
        dim = as_index(name, "dim", dim)
    tensors = tuple(tensors)
    if not tensors:
        error = ValueError if name == "cat" else RuntimeError
        raise error(f"{name}(): expected a non-empty list of Tensors")
    common, several = -1, False
    for x in tensors:
        if not isinstance(x, TensorBase):
            k = next(k for k, y in enumerate(tensors) if y is x)
            raise TypeError(
                f"{name}(): expected Tensor as element {k} in argument 0, but got {type(x).__name__}"
            )
        code = _field(x, _DTYPE)
        if code != common:
            common, several = code, common >= 0
    if several:
        target = reduce(promote_types, (x.dtype for x in tensors))
        tensors = tuple(x.to(target) for x in tensors)
    return tensors, dim


def _lengths(tensors: Any, dim: int) -> list[int]:
    """The sizes along a dimension of tensors of one dtype and one number of dimensions; none of anything else."""
    found: list[int] = []
    ndim = code = -1
    for x in tensors:
        if not isinstance(x, TensorBase):
            return []
        if not found:
            ndim, code = _field(x, _NDIM), _field(x, _DTYPE)
            if not 0 <= dim < ndim:
                return []
        elif _field(x, _NDIM) != ndim or _field(x, _DTYPE) != code:
            return []
        found.append(_field(x, _SHAPE + dim))
    return found


@public("concat", "concatenate", method=False)
@planned
@widest
def cat(tensors: Any, dim: int = 0) -> Any:
    """Tensors one behind the other along a dimension; all other sizes must agree.

    Parameters
    ----------
    tensors : sequence of Tensor
        One-dimensional tensors without elements are left out.
    dim : int

    Raises
    ------
    RuntimeError
        If there are no tensors, or sizes do not agree.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.cat([fg.zeros(2), fg.ones(1)])
    tensor([0., 0., 1.])
    """
    if type(dim) is int and type(tensors) in _SEQUENCES:
        lengths = _lengths(tensors, dim)
        if lengths:
            return apply(_CAT, len(lengths), 0, *tensors, dim, *lengths)
    parts, dim = _joined("cat", tensors, dim)
    shapes = [_sizes(x) for x in parts]
    if () in shapes:
        raise RuntimeError(
            f"cat(): zero-dimensional tensor (at position {shapes.index(())}) cannot be concatenated"
        )
    nothing = (0,)
    first = shapes[0] if shapes[0] != nothing else next((s for s in shapes if s != nothing), nothing)
    d = wrapped("cat", dim, len(first))
    if nothing in shapes and len(first) != 1:
        none = [0 if k == d else s for k, s in enumerate(first)]
        parts = tuple(reshape(x, none) if s == nothing else x for x, s in zip(parts, shapes, strict=True))
    lengths = [s[d] if len(s) > d else 0 for s in shapes]
    return apply(_CAT, len(parts), 0, *parts, d, *lengths)


@public(method=False)
@planned
@widest
def stack(tensors: Any, dim: int = 0) -> Any:
    """Tensors of one shape along a new dimension."""
    parts, dim = _joined("stack", tensors, dim)
    d = wrapped("stack", dim, _field(parts[0], _NDIM) + 1)
    return apply(_STACK, len(parts), 0, *parts, d)


# --- splitting -------------------------------------------------------------------------------------------------


@public()
@planned
def unbind(input: Any, dim: int = 0) -> tuple[Any, ...]:
    """All slices along a dimension, as views."""
    d = existing("unbind", dim, need_tensor("unbind", input).dim())
    n = input.shape[d]
    return apply(BY_NAME["unbind"].id, 1, n, input, d) if n else ()


@public()
@planned
def split(input: Any, split_size_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    """Views of runs of a dimension: of one length (the last may be shorter), or of the lengths given.

    Raises
    ------
    RuntimeError
        If lengths do not add up to the size of the dimension.
    """
    sizes = _sizes(need_tensor("split", input))
    if not sizes:
        raise RuntimeError("split(): expects at least a 1-dimensional tensor")
    d = wrapped("split", dim, len(sizes))
    size = sizes[d]
    if isinstance(split_size_or_sections, (tuple, list)):
        lengths = [as_index("split", "split_size", s) for s in split_size_or_sections]
        if builtin_sum(lengths) != size or min(lengths, default=0) < 0:
            raise RuntimeError(
                f"split(): expects split_sizes to sum exactly to {size} (input tensor's size at dimension {d}), "
                f"but got split_sizes={lengths}"
            )
        if not lengths:
            return ()
        return apply(_SPLIT_SIZES, 1, len(lengths), input, d, *lengths)  # type: ignore[no-any-return]
    step = as_index("split", "split_size", split_size_or_sections)
    if step < 0 or (step == 0 and size != 0):
        raise RuntimeError(f"split(): expects split_size be non-negative, but got split_size={step}")
    return _split_evenly(input, d, size, step)


builtin_sum = sum


def _split_evenly(input: Any, d: int, size: int, step: int) -> tuple[Any, ...]:
    """Views of runs of `step` of a dimension of the given size; the last may be shorter."""
    lengths = [step] * (size // step) if size else [0]
    if size and size % step:
        lengths.append(size % step)
    return apply(_SPLIT, 1, len(lengths), input, d, *lengths)  # type: ignore[no-any-return]


@public()
@planned
def chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """At most `chunks` views of equal runs of a dimension."""
    sizes = _sizes(need_tensor("chunk", input))
    if not sizes:
        raise RuntimeError("chunk(): expects at least a 1-dimensional tensor")
    chunks = as_index("chunk", "chunks", chunks)
    if chunks <= 0:
        raise RuntimeError(f"chunk(): expects `chunks` to be greater than 0, got: {chunks}")
    d = wrapped("chunk", dim, len(sizes))
    size = sizes[d]
    step = -(-size // chunks)
    if step == 0:
        return split(input, [0] * chunks, d)
    return _split_evenly(input, d, size, step)


def joined_dims(
    name: str, input: Any, dims: tuple[int, ...], keepdim: bool, reduce: Callable[[Any], Any]
) -> Any:
    """Reduce several dimensions with a reduction of one: they are moved to the end and joined."""
    ndim = input.dim()
    picked = wrapped_dims(name, dims, ndim) if dims else list(range(ndim))
    if not ndim:
        return reduce(reshape(input, (1,)))
    kept = [d for d in range(ndim) if d not in picked]
    shape = tuple(input.shape)
    joined = math.prod(shape[d] for d in picked)
    out = reduce(reshape(permute(input, (*kept, *picked)), (*[shape[d] for d in kept], joined)))
    return reshape(out, [1 if d in picked else shape[d] for d in range(ndim)]) if keepdim else out
