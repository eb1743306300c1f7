"""How losses of elements become one, by the numbers and arguments of old."""

from __future__ import annotations

import warnings

from fastgrad.nn.functional.reduction import REDUCTIONS

__all__: list[str] = []


def get_enum(reduction: str) -> int:
    """The number of a reduction."""
    if reduction == "elementwise_mean":
        warnings.warn(
            "reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.", stacklevel=2
        )
        reduction = "mean"
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return REDUCTIONS[reduction]


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """The name of the reduction that two arguments of old stand for."""
    average = True if size_average is None else size_average
    each = True if reduce is None else reduce
    name = "none" if not each else ("mean" if average else "sum")
    if emit_warning:
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{name}' instead.",
            stacklevel=2,
        )
    return name


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    """The number of the reduction that two arguments of old stand for."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
