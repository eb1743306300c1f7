"""Padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastgrad.functions.arguments import as_sequence, multiplied, need_tensor
from fastgrad.functions.complex_numbers import complex as complex_of
from fastgrad.functions.plans import planned
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.element_types import COMPLEX, FLOATS
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.nn.functional.windows import remembered
from fastgrad.ops.call import apply, float_bits
from fastgrad.ops.pooling import PAD_MODES

_DTYPE, _NDIM = TENSOR.fields["dtype"][0], TENSOR.fields["ndim"][0]
_PAD = BY_NAME["pad"].id


@planned
def pad(input: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    """The tensor with more elements around it, or fewer where a number is negative.

    Parameters
    ----------
    input : Tensor
    pad : sequence of int
        How many to put before and behind in the last dimension, then in the one before it, and so on.
    mode : "constant", "reflect", "replicate" or "circular"
        What the new elements are: all of `value`; the tensor mirrored at its first and last element; that element; the
        tensor over and over. All but "constant" pad the last dimension of tensors of 2 or 3 dimensions, the last two
        of 3 or 4, the last three of 4 or 5.
    value : number, optional
        For "constant", 0 if not given.

    Returns
    -------
    Tensor

    Raises
    ------
    RuntimeError
        If `pad` does not fit the tensor.
    NotImplementedError
        If there is no such mode, or not for so many dimensions.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.tensor([[1, 2, 3]])
    >>> fg.nn.functional.pad(x, (1, 2))
    tensor([[0, 1, 2, 3, 0, 0]])
    >>> fg.nn.functional.pad(x, (2, -1), mode="reflect")
    tensor([[3, 2, 1, 2]])
    """
    need_tensor("pad", input)
    sides = as_sequence("pad", pad, "pad", 2)
    if len(sides) % 2:
        raise RuntimeError(f"pad(): Padding length must be divisible by 2, but got pad={list(sides)}")
    if len(sides) > 2 * rt.field(input, _NDIM):
        raise RuntimeError(
            "pad(): Padding length should be less than or equal to two times the input dimension but got padding "
            f"length {len(sides)} and input of dimension {input.ndim}"
        )
    if mode not in PAD_MODES:
        raise NotImplementedError(
            f"pad(): Unrecognised padding mode {mode}; use one of {', '.join(PAD_MODES)}"
        )
    if mode != "constant":
        _check_repeats(input, sides, mode, value)
        if mode == "circular" and min(sides) < 0:  # what is repeated is what is left
            input = _padded(input, tuple(min(n, 0) for n in sides), "constant", 0)
            sides = tuple(max(n, 0) for n in sides)
    return _padded(input, sides, mode, 0 if value is None else value)


def _padded(x: Any, sides: tuple[int, ...], mode: str, value: float) -> Any:
    if rt.field(x, _DTYPE) in COMPLEX:
        return complex_of(_padded(x.real, sides, mode, value), _padded(x.imag, sides, mode, 0))
    rank = len(sides) // 2
    least = 0 if mode == "constant" else 1
    places = _places(rt.sizes(x), sides, least)
    op = (
        _PAD
        if mode == "constant"
        else BY_NAME["pad.circular" if mode == "circular" else f"pad.{mode}{rank}d"].id
    )
    fill = float_bits(value) if rt.field(x, _DTYPE) in FLOATS else int(value)
    last = rt.channels_last(x) if mode in ("reflect", "replicate") and x.ndim == rank + 2 > 3 else 0
    return apply(op, 1, 0, x, PAD_MODES.index(mode), fill, last, *places)


@remembered
def _places(shape: tuple[int, ...], sides: tuple[int, ...], least: int) -> tuple[int, ...]:
    """How much stands before a tensor in each dimension, and the sizes that it gets; each list after its length."""
    ndim = len(shape)
    before, sizes = [0] * ndim, list(shape)
    for k in range(len(sides) // 2):
        dim = ndim - 1 - k
        before[dim] = sides[2 * k]
        sizes[dim] += sides[2 * k] + sides[2 * k + 1]
        if sizes[dim] < least or max(-sides[2 * k], -sides[2 * k + 1]) > shape[dim]:
            raise RuntimeError(
                f"pad(): the sizes {list(shape)} leave too little for padding {list(sides)}: dimension {dim} would "
                f"have size {sizes[dim]}"
            )
    multiplied("pad", *filter(None, sizes))
    return ndim, *before, ndim, *sizes


def _check_repeats(x: Any, sides: tuple[int, ...], mode: str, value: float | None) -> None:
    """What modes ask for that repeat elements of the tensor."""
    rank = len(sides) // 2
    if rank not in (1, 2, 3) or x.ndim not in (rank + 1, rank + 2):
        raise NotImplementedError(
            f"pad(): padding of {rank} dimensions is not supported in mode {mode!r} for a tensor of {x.ndim} "
            "dimensions; it can be 1 dimension of 2 or 3, 2 of 3 or 4, 3 of 4 or 5"
        )
    if value is not None and value != 0:
        raise RuntimeError(
            f'pad(): Padding mode "{mode}" doesn\'t take in value argument, but got value={value}'
        )
    if 0 in x.shape[x.ndim - rank - 1 :]:
        raise RuntimeError(
            f"pad(): expected non-zero sizes but for the batch in mode {mode!r}, but got size {list(x.shape)}"
        )
    for k in range(rank):
        size, widest = x.shape[x.ndim - 1 - k], max(sides[2 * k : 2 * k + 2])
        if mode == "reflect" and widest >= size:
            raise RuntimeError(
                "pad(): Padding size should be less than the corresponding input dimension, but got padding "
                f"{list(sides[2 * k : 2 * k + 2])} at dimension {x.ndim - 1 - k} of input {list(x.shape)}"
            )
        if mode == "circular" and widest > size:
            raise RuntimeError(
                "pad(): Padding value causes wrapping around more than once: it may be at most the size, but got "
                f"{list(sides[2 * k : 2 * k + 2])} at dimension {x.ndim - 1 - k} of input {list(x.shape)}"
            )
