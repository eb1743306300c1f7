"""Small functions that distributions outside of the library are written with."""

from __future__ import annotations

from typing import Any

import fastgrad as fg
from fastgrad.distributions import utils

__all__: list[str] = []


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Any:
    """Numbers of the standard normal distribution."""
    return fg.randn(shape, dtype=dtype, device=device)


def _sum_rightmost(value: Any, dim: int) -> Any:
    """The sum over the last dimensions, `dim` of them."""
    return utils.sum_rightmost(value, dim)
