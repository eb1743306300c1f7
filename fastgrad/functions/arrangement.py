"""Joining along new or given dimensions, splitting at places, common shapes, diagonals as matrices, parts replaced."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from fastgrad import dtypes
from fastgrad.functions.arguments import LIMIT, as_index, as_sizes, is_tensor, need_tensor, need_tensors
from fastgrad.functions.creation import created, device_code, dtype_code, linspace, tensor, zeros
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.functions.shape import cat, chunk, expand, flatten, narrow, reshape, stack, unsqueeze, wrapped
from fastgrad.native.contracts.element_types import INT32, INT64
from fastgrad.native.contracts.frames.filling import TRIANGLE, staircase
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import invoke

_SEQUENCE = BY_NAME["sequence"].id

# --- at least so many dimensions -------------------------------------------------------------------------------


def _at_least(name: str, widen: Callable[[Any], Any], tensors: tuple[Any, ...]) -> Any:
    if len(tensors) == 1 and is_tensor(tensors[0]):
        return widen(tensors[0])
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    return tuple(widen(x) for x in need_tensors(name, given))


def _one(x: Any) -> Any:
    return x if x.dim() else reshape(x, 1)


def _two(x: Any) -> Any:
    return x if x.dim() > 1 else unsqueeze(_one(x), 0)


def _three(x: Any) -> Any:
    return x if x.dim() > 2 else unsqueeze(_two(x), -1)


@public(method=False)
def atleast_1d(*tensors: Any) -> Any:
    """Tensors with one dimension at least; of several a tuple."""
    return _at_least("atleast_1d", _one, tensors)


@public(method=False)
def atleast_2d(*tensors: Any) -> Any:
    """Tensors with two dimensions at least; new ones stand in front."""
    return _at_least("atleast_2d", _two, tensors)


@public(method=False)
def atleast_3d(*tensors: Any) -> Any:
    """Tensors with three dimensions at least; a vector lies along the second."""
    return _at_least("atleast_3d", _three, tensors)


# --- joining ---------------------------------------------------------------------------------------------------


@public(method=False)
@planned
def hstack(tensors: Any) -> Any:
    """Tensors side by side: along the second dimension, vectors along their only one.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.hstack([fg.tensor([1, 2]), fg.tensor([3])])
    tensor([1, 2, 3])
    """
    parts = [_one(x) for x in need_tensors("hstack", tensors)]
    return cat(parts, 0 if parts and parts[0].dim() == 1 else 1)


@public("row_stack", method=False)
@planned
def vstack(tensors: Any) -> Any:
    """Tensors below each other: along the first dimension, vectors as rows."""
    return cat([_two(x) for x in need_tensors("vstack", tensors)], 0)


@public(method=False)
@planned
def dstack(tensors: Any) -> Any:
    """Tensors behind each other, along the third dimension."""
    return cat([_three(x) for x in need_tensors("dstack", tensors)], 2)


@public(method=False)
@planned
def column_stack(tensors: Any) -> Any:
    """Tensors side by side, vectors as columns."""
    parts = [x if x.dim() > 1 else reshape(x, -1, 1) for x in need_tensors("column_stack", tensors)]
    return cat(parts, 1)


@public(method=False)
@planned
def block_diag(*tensors: Any) -> Any:
    """A matrix of matrices along its diagonal, with zeros beside them.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.block_diag(fg.tensor([[1, 2]]), fg.tensor([3]))
    tensor([[1, 2, 0],
            [0, 0, 3]])
    """
    parts = [_two(x) for x in need_tensors("block_diag", tensors)]
    if not parts:
        return zeros(1, 0)
    if any(x.dim() > 2 for x in parts):
        raise RuntimeError("block_diag(): Input tensors must have 2 or fewer dimensions")
    width, before, rows = sum(x.shape[1] for x in parts), 0, []
    for x in parts:
        n, m = x.shape
        sides = [zeros(n, before, dtype=x.dtype, device=x.device)]
        sides += [x, zeros(n, width - before - m, dtype=x.dtype, device=x.device)]
        rows.append(cat(sides, 1))
        before += m
    return cat(rows, 0)


# --- splitting -------------------------------------------------------------------------------------------------


@public()
def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    """Views of parts of a dimension: of so many, as equal as may be, or of those between places.

    Parameters
    ----------
    input : Tensor
    indices_or_sections : int, tuple of int or Tensor
    dim : int

    Examples
    --------
    >>> import fastgrad as fg
    >>> [part.tolist() for part in fg.tensor_split(fg.arange(5), 2)]
    [[0, 1, 2], [3, 4]]
    """
    if need_tensor("tensor_split", input).dim() == 0:
        raise RuntimeError("tensor_split(): expected at least a 1-dimensional tensor")
    if is_tensor(indices_or_sections):
        indices_or_sections = indices_or_sections.tolist()
    d = wrapped("tensor_split", dim, input.dim())
    size = input.shape[d]
    if isinstance(indices_or_sections, (list, tuple)):
        places = [as_index("tensor_split", "indices", k) for k in indices_or_sections]
    else:
        count = as_index("tensor_split", "sections", indices_or_sections)
        if count <= 0:
            raise RuntimeError(f"tensor_split(): number of sections must be larger than 0, got {count}")
        least, more = divmod(size, count)
        places = [k * least + min(k, more) for k in range(1, count)]
    bounds = [slice(k, None).indices(size)[0] for k in places]
    starts, ends = [0, *bounds], [*bounds, size]
    return tuple(narrow(input, d, a, max(b - a, 0)) for a, b in zip(starts, ends, strict=True))


def _split_at(name: str, input: Any, places: Any, least: int, dim: int) -> tuple[Any, ...]:
    if need_tensor(name, input).dim() < least:
        raise RuntimeError(
            f"{name}(): requires a tensor with at least {least} dimension, but got {input.dim()}"
        )
    if isinstance(places, int) and (places < 1 or input.shape[dim] % places):
        raise RuntimeError(
            f"{name}(): attempted to split along dimension {dim}, but the size of the dimension {input.shape[dim]} is "
            f"not divisible by the split_size {places}!"
        )
    return tensor_split(input, places, dim)


@public()
def hsplit(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """Equal parts, or those between places, side by side: what `hstack` joins. See `tensor_split`."""
    dim = 0 if is_tensor(input) and input.dim() == 1 else 1
    return _split_at("hsplit", input, indices_or_sections, 1, dim)


@public()
def vsplit(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """The same along the first dimension."""
    return _split_at("vsplit", input, indices_or_sections, 2, 0)


@public()
def dsplit(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """The same along the third dimension."""
    return _split_at("dsplit", input, indices_or_sections, 3, 2)


@public()
@planned
def unsafe_chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """Another name of `chunk`."""
    return chunk(input, chunks, dim)


# --- common shapes ---------------------------------------------------------------------------------------------


@public(method=False)
def broadcast_shapes(*shapes: Any) -> Any:
    """The shape that tensors of these shapes are broadcast to.

    Raises
    ------
    RuntimeError
        If there is none.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.broadcast_shapes((2, 1), (3,))
    fastgrad.Size([2, 3])
    """
    name = "broadcast_shapes"
    out = common_sizes(name, [as_sizes(name, (s,) if isinstance(s, int) else (tuple(s),)) for s in shapes])
    return expand(zeros(()), *out).shape if out else zeros(()).shape


def common_sizes(name: str, shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The sizes that shapes are broadcast to; what a function of this name raises if there are none."""
    rank = max(map(len, shapes), default=0)
    out = [1] * rank
    for sizes in shapes:
        for k, size in enumerate(sizes, rank - len(sizes)):
            if size < 0:
                raise RuntimeError(f"{name}(): Trying to create tensor with negative dimension ({size})")
            if size not in (1, out[k]) and out[k] != 1:
                raise RuntimeError(
                    f"{name}(): shape mismatch: {[list(s) for s in shapes]} cannot be broadcast to one shape"
                )
            out[k] = size if out[k] == 1 else out[k]
    return tuple(out)


@public(method=False)
def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    """Tensors expanded to their common shape."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    found = need_tensors("broadcast_tensors", given)
    shape = broadcast_shapes(*(x.shape for x in found))
    return tuple(x if x.shape == shape else expand(x, *shape) for x in found)


@public(method=False)
def meshgrid(*tensors: Any, indexing: Any = None) -> tuple[Any, ...]:
    """The coordinates of a grid, as views: one tensor for each vector, along its dimension.

    Parameters
    ----------
    *tensors : Tensor
        Vectors of one dtype; what has no dimensions counts as one of size 1.
    indexing : "ij" or "xy", default "ij"
        With "xy" the first two dimensions change places.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.meshgrid(fg.tensor([1, 2]), fg.tensor([3, 4]), indexing="ij")[1]
    tensor([[3, 4],
            [3, 4]])
    """
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    found = need_tensors("meshgrid", given)
    if not found:
        raise RuntimeError("meshgrid(): expects a non-empty TensorList")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f"meshgrid(): indexing must be one of 'xy' or 'ij', but received: {indexing}")
    if any(x.dtype is not found[0].dtype for x in found):
        raise RuntimeError("meshgrid(): expects all tensors to have the same dtype")
    if any(x.dim() > 1 for x in found):
        raise RuntimeError("meshgrid(): Expected 0D or 1D tensor in the tensor list")
    swapped = indexing == "xy" and len(found) > 1
    if swapped:
        found[:2] = found[1], found[0]
    sizes = [x.numel() for x in found]
    grids = [
        expand(reshape(x, [-1 if j == k else 1 for j in range(len(found))]), *sizes)
        for k, x in enumerate(found)
    ]
    if swapped:
        grids[:2] = grids[1], grids[0]
    return tuple(grids)


@public(method=False)
def cartesian_prod(*tensors: Any) -> Any:
    """All combinations of elements of vectors, as rows.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.cartesian_prod(fg.tensor([1, 2]), fg.tensor([3]))
    tensor([[1, 3],
            [2, 3]])
    """
    found = need_tensors("cartesian_prod", tensors)
    if any(x.dim() != 1 for x in found):
        raise RuntimeError("cartesian_prod(): Expect a 1D vector")
    if len(found) == 1:
        return found[0]
    return stack([flatten(grid) for grid in meshgrid(*found, indexing="ij")], 1)


@public()
def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """All combinations of `r` elements of a vector, as rows."""
    if need_tensor("combinations", input).dim() != 1:
        raise RuntimeError("combinations(): Expect a 1D vector")
    r = as_index("combinations", "r", r)
    if r < 0:
        raise RuntimeError(f"combinations(): Expect a non-negative number, but got {r}")
    if r == 0:
        return zeros(0, dtype=input.dtype)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = [k for row in choose(range(input.shape[0]), r) for k in row]
    if not places:
        return input[:0].reshape(0, 1).expand(0, r).clone()
    return input[tensor(places, dtype=dtypes.int64, device=input.device)].reshape(-1, r)


# --- turns -----------------------------------------------------------------------------------------------------


@public()
@planned
def rot90(input: Any, k: int = 1, dims: Any = (0, 1)) -> Any:
    """Turned by 90 degrees, `k` times, from the first of two dimensions towards the second."""
    ndim = need_tensor("rot90", input).dim()
    dims = as_sizes("rot90", (tuple(dims),), "dims")
    if len(dims) != 2:
        raise RuntimeError(f"rot90(): expected total rotation dims == 2, but got dims = {len(dims)}")
    if ndim < 2:
        raise RuntimeError(f"rot90(): expected total dims >= 2, but got total dims = {ndim}")
    a, b = (wrapped("rot90", d, ndim) for d in dims)
    if a == b:
        raise RuntimeError(
            f"rot90(): expected rotation dims to be different, but got dim0 = {a} and dim1 = {b}"
        )
    k = as_index("rot90", "k", k) % 4
    if k == 1:
        return input.flip(b).transpose(a, b)
    if k == 2:
        return input.flip(a, b)
    return input.flip(a).transpose(a, b) if k == 3 else input.clone()


@public()
@planned
def fliplr(input: Any) -> Any:
    """The second dimension backwards."""
    if need_tensor("fliplr", input).dim() < 2:
        raise RuntimeError("fliplr(): Input must be >= 2-d.")
    return input.flip(1)


@public()
@planned
def flipud(input: Any) -> Any:
    """The first dimension backwards."""
    if need_tensor("flipud", input).dim() < 1:
        raise RuntimeError("flipud(): Input must be >= 1-d.")
    return input.flip(0)


@public()
@planned
def ravel(input: Any) -> Any:
    """All elements as one dimension."""
    return reshape(need_tensor("ravel", input), -1)


@public()
def narrow_copy(input: Any, dim: int, start: int, length: int) -> Any:
    """A copy of what `narrow` gives."""
    return narrow(input, dim, start, length).clone()


# --- diagonals -------------------------------------------------------------------------------------------------


@public()
@planned
def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Matrices with the last dimension as their diagonal and zeros beside it.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.diag_embed(fg.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    if need_tensor("diag_embed", input).dim() == 0:
        raise RuntimeError("diag_embed(): expected at least a 1-dimensional tensor")
    rank, offset = input.dim() + 1, as_index("diag_embed", "offset", offset)
    a, b = wrapped("diag_embed", dim1, rank, "dim1"), wrapped("diag_embed", dim2, rank, "dim2")
    if a == b:
        raise RuntimeError(f"diag_embed(): diagonal dimensions cannot be identical {dim1}, {dim2}")
    size = input.shape[-1] + abs(offset)
    rest = iter(input.shape[:-1])
    sizes = [size if k in (a, b) else next(rest) for k in range(rank)]
    return invoke(BY_NAME["diagonal_backward"], (input,), offset, a, b, (rank, *sizes))


@public()
@planned
def diag(input: Any, diagonal: int = 0) -> Any:
    """A vector as diagonal of a matrix, or the diagonal of a matrix as a copy."""
    if need_tensor("diag", input).dim() == 1:
        return diag_embed(input, diagonal)
    if input.dim() != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.dim()}D")
    return input.diagonal(diagonal).clone()


@public()
@planned
def diagflat(input: Any, offset: int = 0) -> Any:
    """All elements as the diagonal of a matrix."""
    return diag_embed(reshape(need_tensor("diagflat", input), -1), offset)


def _triangle(name: str, rows: Any, columns: Any, offset: Any, dtype: Any, device: Any, lower: bool) -> Any:
    n, k = as_index(name, "row", rows), as_index(name, "offset", offset)
    m = as_index(name, "col", columns)
    if n < 0 or m < 0:
        raise RuntimeError(f"{name}(): row and col must be non-negative, got {n} and {m}")
    k = min(max(k, -n), m)  # beyond these, a triangle is all or nothing
    down = m - k
    count = staircase(n + k, m) - staircase(k, m) if lower else staircase(down, m) - staircase(down - n, m)
    if count >= LIMIT // 16:
        raise RuntimeError(f"{name}(): Storage size calculation overflowed with sizes={[2, count]}")
    code = INT64 if dtype is None else dtype_code(dtype)
    made = code if code == INT32 else INT64
    out = created(name, _SEQUENCE, made, (2, count), device_code(device), TRIANGLE, m, 2 * k + (not lower))
    return out if code == made else out.to(dtype)


@public(method=False)
@planned
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Any:
    """Where the elements of the lower triangle of a matrix stand: a row of rows, a row of columns.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return _triangle("tril_indices", row, col, offset, dtype, device, True)


@public(method=False)
@planned
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Any:
    """The same of the upper triangle."""
    return _triangle("triu_indices", row, col, offset, dtype, device, False)


# --- parts replaced --------------------------------------------------------------------------------------------


def _replaced(name: str, input: Any, src: Any, view: Callable[[Any], Any]) -> Any:
    """A copy of a tensor with `src` in a part of it."""
    need_tensor(name, input)
    need_tensor(name, src, "src", 2)
    out = input.clone()
    part = view(out)
    if tuple(part.shape) != tuple(src.shape):
        raise RuntimeError(
            f"{name}(): expected src to have a size equal to that part of self. src size = {list(src.shape)}, "
            f"part size = {list(part.shape)}"
        )
    part.copy_(src)
    return out


@public()
def select_scatter(input: Any, src: Any, dim: int, index: int) -> Any:
    """A copy with `src` at one position of a dimension.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.select_scatter(fg.zeros(2, 2), fg.ones(2), 0, 1)
    tensor([[0., 0.],
            [1., 1.]])
    """
    return _replaced("select_scatter", input, src, lambda x: x.select(dim, index))


@public()
def slice_scatter(
    input: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    """A copy with `src` at a slice of a dimension."""
    need_tensor("slice_scatter", input)
    d = wrapped("slice_scatter", dim, input.dim())
    key: Sequence[slice] = [slice(None)] * d + [slice(start, end, step)]
    return _replaced("slice_scatter", input, src, lambda x: x[tuple(key)])


@public()
def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A copy with `src` on a diagonal."""
    return _replaced("diagonal_scatter", input, src, lambda x: x.diagonal(offset, dim1, dim2))


@public(method=False)
def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Any:  # fmt: skip
    """`steps` powers of `base`, whose exponents have equal distances from `start` to `end`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    target = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if not target.is_floating_point:  # as in PyTorch, exponents begin and end at whole numbers then
        start, end = int(start), int(end)
    out = (float(base) ** linspace(start, end, steps, dtype=dtypes.float64, device=device)).to(target)
    return out.requires_grad_() if requires_grad else out
