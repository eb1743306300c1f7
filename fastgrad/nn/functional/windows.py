"""What functions over windows of images share: settings for each dimension, sizes of results."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from fastgrad.functions.arguments import as_index, as_sizes

remembered = functools.lru_cache(maxsize=1024)
"""For functions from sizes and settings, tuples of plain integers, to what an op is called with: layers meet the same
ones again and again."""
_SMALL = 1 << 31


Setting = int | tuple[int, ...]


def are_plain(*settings: Any) -> bool:
    """Whether settings are integers and tuples of integers, and nothing that is only equal to such."""
    for setting in settings:
        if type(setting) is not int:
            if type(setting) is not tuple:
                return False
            for value in setting:
                if type(value) is not int:
                    return False
    return True


def each_dim(name: str, argument: str, value: Any, rank: int) -> tuple[int, ...]:
    """A setting given once, or for each of `rank` dimensions.

    Raises
    ------
    TypeError
        If it is no integer or sequence of integers.
    RuntimeError
        If there are too many or too few.
    """
    if type(value) is int and -_SMALL < value < _SMALL:
        return (value,) * rank
    if not isinstance(value, (tuple, list)):
        return (as_index(name, argument, value),) * rank
    values = as_sizes(name, (value,), argument)
    if len(values) not in (1, rank):
        raise RuntimeError(
            f"{name}(): {argument} must be a single integer or {rank} of them, one for each dimension, but got "
            f"{argument}={list(values)}"
        )
    return values * (rank // len(values))


def at_least(name: str, argument: str, values: Sequence[int], least: int) -> None:
    """Refuse a setting that is too small anywhere."""
    if min(values) < least:
        raise RuntimeError(
            f"{name}(): {argument} must be at least {least}, but got {argument}={list(values)}"
        )


def with_rows(rank: int, values: tuple[int, ...], absent: int) -> tuple[int, ...]:
    """Settings down and across, with `absent` down for images of one row."""
    return values if rank == 2 else (absent, *values)
