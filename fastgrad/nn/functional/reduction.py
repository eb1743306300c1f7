"""What the losses share: how the losses of elements become one."""

from __future__ import annotations

from fastgrad.functions.plans import warn

REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def deprecated_reduction(reduction: str, size_average: bool | None, reduce: bool | None) -> str:
    """The name of a reduction that the two deprecated arguments may name instead."""
    if size_average is None and reduce is None:
        return reduction
    average = True if size_average is None else size_average
    each = True if reduce is None else reduce
    reduction = "none" if not each else ("mean" if average else "sum")
    warn(
        f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.",
        stacklevel=5,
    )
    return reduction


def chosen_reduction(
    name: str, reduction: str, size_average: bool | None = None, reduce: bool | None = None
) -> str:
    """The name of a reduction, however it was given; ValueError if there is none."""
    if size_average is not None or reduce is not None:
        reduction = deprecated_reduction(reduction, size_average, reduce)
    if reduction not in REDUCTIONS:
        raise ValueError(
            f"{name}(): {reduction!r} is not a valid value for reduction; use 'none', 'mean' or 'sum'"
        )
    return reduction
