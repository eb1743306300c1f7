"""The uniform distribution."""

from __future__ import annotations

import math
from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.distribution import Distribution
from fastgrad.distributions.utils import broadcast_all, uniform

__all__ = ["Uniform"]


class Uniform(Distribution):
    """``1 / (high - low)`` on [low, high).

    Parameters
    ----------
    low, high : float or Tensor
    validate_args : bool, optional

    Raises
    ------
    ValueError
        If `low` is not less than `high`.

    Examples
    --------
    >>> from fastgrad.distributions import Uniform
    >>> Uniform(1.0, 3.0).mean
    tensor(2.)
    """

    has_rsample = True

    @property
    def arg_constraints(self) -> Any:
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Any:
        return math.nan * self.high

    @property
    def stddev(self) -> Any:
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Any:
        return (self.high - self.low).pow(2) / 12

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "low", "high", base=Uniform)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.low + uniform(self._extended_shape(sample_shape), self.low) * (self.high - self.low)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        inside = self.low.le(value).type_as(self.low) * self.high.gt(value).type_as(self.low)
        return fg.log(inside) - fg.log(self.high - self.low)

    def cdf(self, value: Any) -> Any:
        self._checked(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Any) -> Any:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        return fg.log(self.high - self.low)
