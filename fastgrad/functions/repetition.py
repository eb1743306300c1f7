"""Elements again, or in another order along dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad import dtypes
from fastgrad.functions.arguments import (
    as_dims,
    as_index,
    as_sizes,
    is_tensor,
    multiplied,
    need_sizes,
    need_tensor,
)
from fastgrad.functions.creation import arange
from fastgrad.functions.data import values_of
from fastgrad.functions.index import index_select
from fastgrad.functions.memory_format import contiguous_format
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.functions.shape import cat, existing, expand, narrow, reshape, unsafe_view, wrapped
from fastgrad.functions.sharing import from_numpy
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import apply

_FLIP = BY_NAME["flip"].id


@public(package=False)
@planned
def repeat(input: Any, *repeats: Any) -> Any:
    """The tensor so many times along each dimension; further repeats in front make new dimensions.

    Parameters
    ----------
    *repeats : int
        At least as many as there are dimensions.

    Raises
    ------
    RuntimeError
        If there are fewer.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    need_tensor("repeat", input)
    times = need_sizes("repeat", repeats, "repeats")
    if len(times) < input.dim():
        raise RuntimeError(
            "repeat(): Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor: "
            f"got {len(times)} for {input.dim()}"
        )
    if min(times, default=0) < 0:
        raise RuntimeError(f"repeat(): repeats must not be negative, but got {list(times)}")
    sizes = (1,) * (len(times) - input.dim()) + tuple(input.shape)
    pairs = [n for t, s in zip(times, sizes, strict=True) for n in ((t, s) if t != 1 else (s,))]
    single = [n for t, s in zip(times, sizes, strict=True) for n in ((1, s) if t != 1 else (s,))]
    whole = [multiplied("repeat", t, s) for t, s in zip(times, sizes, strict=True)]
    return unsafe_view(expand(reshape(input, single), pairs).clone(memory_format=contiguous_format), *whole)


@public()
@planned
def tile(input: Any, *dims: Any) -> Any:
    """As `repeat`; missing repeats count as 1.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.tile(fg.tensor([1, 2]), (2,))
    tensor([1, 2, 1, 2])
    """
    times = as_sizes("tile", dims, "dims")
    return repeat(input, (1,) * (need_tensor("tile", input).dim() - len(times)) + times)


@public()
@planned
def repeat_interleave(
    input: Any, repeats: Any = None, dim: int | None = None, *, output_size: Any = None
) -> Any:
    """Each element of a dimension so many times, one behind the other.

    Parameters
    ----------
    input : Tensor
    repeats : int or Tensor, optional
        One number, or one for each element of the dimension. Without it, `input` holds the repeats, and the result
        the places of its elements, each so many times.
    dim : int, optional
        Without it, the tensor is flattened first.
    output_size : int, optional
        What the repeats sum up to; not needed.

    Raises
    ------
    RuntimeError
        If a number is negative, there are not as many as elements, or `output_size` is another.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.repeat_interleave(fg.tensor([1, 2]), 2)
    tensor([1, 1, 2, 2])
    """
    need_tensor("repeat_interleave", input)
    if repeats is None:
        if input.dim() != 1:
            raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
        input, repeats, dim = arange(input.shape[0], device=input.device), input, 0
    wanted = None if output_size is None else as_index("repeat_interleave", "output_size", output_size)
    if dim is None:
        input, dim = reshape(input, -1), 0
    d = existing("repeat_interleave", dim, input.dim())
    n = input.shape[d]
    if not isinstance(repeats, (TensorBase, tuple, list)):
        return _each(input, as_index("repeat_interleave", "repeats", repeats), d, wanted)
    counts = _counts(repeats, n)
    if counts.size and int(counts.min()) < 0:
        raise RuntimeError("repeat_interleave(): Repeats must be non-negative")
    total = n * int(counts[0]) if counts.size == 1 else sum(counts.tolist())
    multiplied("repeat_interleave", total, *(s for k, s in enumerate(input.shape) if k != d))
    _need_size(wanted, total)
    places = np.repeat(np.arange(n), counts)
    return index_select(input, d, from_numpy(places).to(device=input.device))


def _need_size(wanted: int | None, size: int) -> None:
    if wanted is not None and wanted != size:
        raise RuntimeError(f"repeat_interleave(): Invalid output_size, expected {size} but got {wanted}")


def _each(input: Any, times: int, d: int, wanted: int | None) -> Any:
    """Every element of a dimension as often."""
    if times < 0:
        raise RuntimeError("repeat_interleave(): Repeats must be non-negative")
    sizes = rt.sizes(input)
    multiplied("repeat_interleave", sizes[d] * times, *(s for k, s in enumerate(sizes) if k != d))
    _need_size(wanted, sizes[d] * times)
    return index_select(input, d, arange(sizes[d] * times, device=input.device) // max(times, 1))


def _counts(repeats: Any, n: int) -> np.ndarray:
    """How often each of `n` elements comes: one number for all of them, or one for each."""
    if is_tensor(repeats):
        if repeats.dtype not in (dtypes.int64, dtypes.int32):
            raise NotImplementedError(
                f"\"repeat_interleave_cpu\" not implemented for '{repeats.dtype.type_name}'"
            )
        counts = values_of(repeats).astype(np.int64).reshape(-1)
    else:
        counts = np.array(as_sizes("repeat_interleave", repeats, "repeats"), dtype=np.int64)
    if counts.size not in (1, n):
        raise RuntimeError(
            f"repeat_interleave(): repeats must have the same size as input along dim, but got {counts.size} for {n}"
        )
    return counts


@public()
@planned
def flip(input: Any, *dims: Any) -> Any:
    """The elements in reverse order along dimensions.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.flip(fg.tensor([1, 2, 3]), (0,))
    tensor([3, 2, 1])
    """
    need_tensor("flip", input)
    chosen = [wrapped("flip", d, input.dim()) for d in need_sizes("flip", dims, "dims")]
    if len(set(chosen)) != len(chosen):
        raise RuntimeError(f"flip(): a dim appears multiple times in the list of dims {list(chosen)}")
    return apply(_FLIP, 1, 0, input, sum(1 << d for d in chosen))


@public()
@planned
def roll(input: Any, shifts: Any, dims: Any = ()) -> Any:
    """The elements moved along dimensions; what leaves at the end comes in at the front.

    Parameters
    ----------
    input : Tensor
    shifts : int or tuple of int
    dims : int or tuple of int
        As many as shifts; without them, the tensor is flattened and gets its sizes back.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.roll(fg.tensor([1, 2, 3]), 1)
    tensor([3, 1, 2])
    """
    need_tensor("roll", input)
    steps = shifts if isinstance(shifts, (tuple, list)) else (shifts,)
    chosen = as_dims("roll", dims)
    if not chosen:
        if len(steps) != 1:
            raise RuntimeError(f"roll(): shifts and dimensions must align. shifts: {len(steps)}, dims:0")
        return reshape(roll(reshape(input, -1), steps, 0), tuple(input.shape))
    if len(steps) != len(chosen):
        raise RuntimeError(
            f"roll(): shifts and dimensions must align. shifts: {len(steps)}, dims:{len(chosen)}"
        )
    out = input
    for step, dim in zip(steps, chosen, strict=True):
        d = existing("roll", dim, input.dim())
        n = input.shape[d]
        cut = (n - as_index("roll", "shifts", step) % n) % n if n else 0
        out = cat([narrow(out, d, cut, n - cut), narrow(out, d, 0, cut)], d)
    return out
