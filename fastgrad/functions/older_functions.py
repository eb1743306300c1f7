"""Functions that programs of old versions of PyTorch call, and that have a newer one beside them."""

from __future__ import annotations

import math
from typing import Any

from fastgrad import dtypes
from fastgrad.functions.arguments import is_tensor, need_sizes, need_tensor, product
from fastgrad.functions.creation import arange
from fastgrad.functions.plans import warn
from fastgrad.functions.public import public
from fastgrad.functions.shape import reshape


@public(method=False)
def range(
    start: float, end: float, step: float = 1, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:  # fmt: skip
    """``start, start + step, ...`` up to `end`, which is the last one if it is met. Use `arange`.

    Parameters
    ----------
    start, end, step : number
    dtype : dtype, optional
        The default dtype, also of whole numbers.

    Raises
    ------
    RuntimeError
        If `step` is zero or leads away from `end`, or a bound is infinite.

    Warns
    -----
    UserWarning
        Always: Python's ``range`` ends before its end.
    """
    given: tuple[Any, ...] = (start, end, step)
    first, last, by = (value.item() if is_tensor(value) else value for value in given)
    for name, value in (("start", first), ("end", last), ("step", by)):
        if not isinstance(value, (int, float)):
            raise TypeError(f"range(): argument '{name}' must be Number, not {type(value).__name__}")
    kind = dtypes.get_default_dtype() if dtype is None else dtype
    if isinstance(kind, dtypes.dtype) and (kind.is_complex or kind is dtypes.bool_):
        raise NotImplementedError(f"range(): not implemented for '{kind.type_name}'")
    if by == 0 or by != by:
        raise RuntimeError("range(): step must be nonzero")
    if not (math.isfinite(first) and math.isfinite(last)):
        raise RuntimeError(f"range(): unsupported range: {first} -> {last}")
    if (last - first) * by < 0:
        raise RuntimeError(
            f"range(): upper bound and lower bound inconsistent with step sign: start {first}, end {last}, step {by}"
        )
    warn(
        "range() is deprecated, because its behavior is inconsistent with Python's range. Use arange, whose values are "
        "in [start, end).",
        stacklevel=3,
    )
    count = math.floor((last - first) / by) + 1
    if isinstance(kind, dtypes.dtype) and not kind.is_floating_point:
        first, by = int(first), int(by)
        if by == 0:
            raise RuntimeError(f"range(): step must be nonzero, but as {kind.name} {step} is 0")
        return arange(first, first + count * by, by, dtype=kind, device=device)
    last = first + (count - 0.5) * by  # between the last one and the next
    return arange(first, last, by, dtype=kind, device=device, requires_grad=requires_grad)


@public(package=False)
def resize(input: Any, *sizes: Any) -> Any:
    """The same elements in other sizes, as many. Use `reshape`.

    Raises
    ------
    RuntimeError
        If the sizes have another number of elements.
    """
    return _resized("resize", input, need_sizes("resize", sizes, "sizes"))


@public(package=False)
def resize_as(input: Any, tensor: Any) -> Any:
    """The same elements in the sizes of another tensor, as many. Use `reshape_as`."""
    return _resized("resize_as", input, tuple(need_tensor("resize_as", tensor, "tensor", 2).shape))


def _resized(name: str, input: Any, sizes: tuple[int, ...]) -> Any:
    warn(f"non-inplace {name} is deprecated; use reshape()", stacklevel=4)
    if product(*sizes) != need_tensor(name, input).numel():
        raise RuntimeError(
            f"{name}(): requested resize to {list(sizes)} ({product(*sizes)} elements in total), but the given tensor "
            f"has a size of {list(input.shape)} ({input.numel()} elements): only the shape changes"
        )
    return reshape(input, sizes)
