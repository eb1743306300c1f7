"""The Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.distribution import Distribution
from fastgrad.distributions.utils import broadcast_all

__all__ = ["Cauchy"]


class Cauchy(Distribution):
    """``1 / (pi scale (1 + ((x - loc) / scale)**2))``; it has no mean.

    Parameters
    ----------
    loc, scale : float or Tensor
        Median, and half the width at half the height.
    validate_args : bool, optional

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.distributions import Cauchy
    >>> Cauchy(0.0, 1.0).cdf(fg.tensor(1.0))
    tensor(0.7500)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "loc", "scale", base=Cauchy)

    @property
    def mean(self) -> Any:
        return fg.full_like(self.loc, math.nan)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return fg.full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Any = ()) -> Any:
        noise = fg.empty(
            tuple(self._extended_shape(sample_shape)), dtype=self.loc.dtype, device=self.loc.device
        )
        return self.loc + noise.cauchy_() * self.scale

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    def cdf(self, value: Any) -> Any:
        self._checked(value)
        return fg.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        return fg.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + self.scale.log()
