"""`make_tensor`: random tensors to test with."""

from __future__ import annotations

import math
from typing import Any

from fastgrad import dtypes
from fastgrad.functions.complex_numbers import view_as_complex
from fastgrad.functions.creation import rand, randint
from fastgrad.native.contracts.element_types import real_of

_LOWEST, _HIGHEST = -9, 9
"""Between these numbers elements lie by default, the highest one excluded of floats."""


def make_tensor(
    *shape: Any,
    dtype: dtypes.dtype,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Any:
    """A tensor of random numbers, uniform from `low` to before `high`.

    Parameters
    ----------
    *shape : int, or one sequence of them
    dtype : dtype
    device : str or device
    low, high : float, optional
        By default -9 and 9; 0 and 10 for uint8, and 0 and 2 for bool. What the dtype does not hold is clamped.
    requires_grad : bool, default False
    noncontiguous : bool, default False
        Let elements not lie side by side, where there are two or more. Not with `memory_format`.
    exclude_zero : bool, default False
        Let the smallest positive number of the dtype, or 1, stand in place of zeros.
    memory_format : memory_format, optional

    Returns
    -------
    Tensor

    Raises
    ------
    ValueError
        If `low` is not below `high`, one of them is NaN, or integers or bools are to require gradients, or
        `noncontiguous` and `memory_format` are both given.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.testing.make_tensor(2, 3, dtype=fg.float64, device="cpu", low=0, high=1)
    >>> x.shape, bool((x < 1).all())
    (fastgrad.Size([2, 3]), True)
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
            f"{noncontiguous=} and {memory_format=}"
        )
    if requires_grad and not dtype.inexact:
        raise ValueError(
            f"`requires_grad=True` is not supported for boolean and integral dtypes, but got dtype={dtype}"
        )
    first, end = _limits(dtype, low, high)
    wide = (*sizes[:-1], 2 * sizes[-1]) if noncontiguous and math.prod(sizes) > 1 else sizes
    if dtype.is_complex:
        part = dtypes.ALL[real_of(dtype.code)]
        made = view_as_complex(make_tensor((*wide, 2), dtype=part, device=device, low=low, high=high))
    elif dtype.is_floating_point:
        made = (rand(wide, dtype=dtypes.float64, device=device) * (end - first) + first).to(dtype)
        made = made.clamp(first, math.nextafter(end, first)) if dtype is dtypes.float64 else made
    else:
        lowest = math.ceil(first)
        made = randint(lowest, max(math.ceil(end), lowest + 1), wide, dtype=dtypes.int64, device=device).to(
            dtype
        )
    if wide is not sizes:
        made = made[..., ::2]
    if memory_format is not None:
        made = made.contiguous(memory_format=memory_format)
    if exclude_zero:
        made[made == 0] = float(_tiny(dtype)) if dtype.inexact else 1
    return made.requires_grad_(requires_grad) if requires_grad else made


def _limits(dtype: dtypes.dtype, low: float | None, high: float | None) -> tuple[float, float]:
    """From where to before where elements lie."""
    usual = (0, 2) if dtype is dtypes.bool_ else (0, 10) if dtype is dtypes.uint8 else (_LOWEST, _HIGHEST)
    first = usual[0] if low is None else low
    end = usual[1] if high is None else high
    if first != first or end != end:
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    if not first < end:
        raise ValueError(f"`low` must be less than `high`, but got {first} >= {end}")
    if dtype.inexact:
        limits = dtypes.finfo(dtype)
        return max(first, limits.min), min(end, limits.max)
    if dtype is dtypes.bool_:
        return max(first, 0), min(end, 2)
    whole = dtypes.iinfo(dtype)
    return max(first, whole.min), min(end, whole.max)


def _tiny(dtype: dtypes.dtype) -> float:
    return dtypes.finfo(dtype).tiny  # type: ignore[no-any-return]
