"""The half-normal distribution."""

from __future__ import annotations

import math
from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints, transforms
from fastgrad.distributions.normal import Normal
from fastgrad.distributions.transformed_distribution import TransformedDistribution

__all__ = ["HalfNormal"]


class HalfNormal(TransformedDistribution):
    """The absolute value of a normal number of mean 0.

    Parameters
    ----------
    scale : float or Tensor
        The standard deviation of that number.
    validate_args : bool, optional

    Examples
    --------
    >>> from fastgrad.distributions import HalfNormal
    >>> HalfNormal(1.0).mean
    tensor(0.7979)
    """

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(
            Normal(0, scale, validate_args=False), transforms.AbsTransform(), validate_args=validate_args
        )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(HalfNormal, _instance))

    @property
    def scale(self) -> Any:
        """The standard deviation of the normal number."""
        return self.base_dist.scale

    @property
    def mean(self) -> Any:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Any:
        return fg.zeros_like(self.scale)

    @property
    def variance(self) -> Any:
        return self.scale.pow(2) * (1 - 2 / math.pi)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        log_prob = self.base_dist.log_prob(value) + math.log(2)
        return fg.where(value >= 0, log_prob, -math.inf)

    def cdf(self, value: Any) -> Any:
        self._checked(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Any) -> Any:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Any:
        return self.base_dist.entropy() - math.log(2)
