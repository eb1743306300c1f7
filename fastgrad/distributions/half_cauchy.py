"""The half-Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints, transforms
from fastgrad.distributions.cauchy import Cauchy
from fastgrad.distributions.transformed_distribution import TransformedDistribution

__all__ = ["HalfCauchy"]


class HalfCauchy(TransformedDistribution):
    """The absolute value of a Cauchy number of median 0; it has no mean.

    Parameters
    ----------
    scale : float or Tensor
    validate_args : bool, optional

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.distributions import HalfCauchy
    >>> HalfCauchy(1.0).cdf(fg.tensor(1.0))
    tensor(0.5000)
    """

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(
            Cauchy(0, scale, validate_args=False), transforms.AbsTransform(), validate_args=validate_args
        )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(HalfCauchy, _instance))

    @property
    def scale(self) -> Any:
        """The median."""
        return self.base_dist.scale

    @property
    def mean(self) -> Any:
        return fg.full(
            tuple(self._extended_shape()), math.inf, dtype=self.scale.dtype, device=self.scale.device
        )

    @property
    def mode(self) -> Any:
        return fg.zeros_like(self.scale)

    @property
    def variance(self) -> Any:
        return self.base_dist.variance

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        value = fg.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        log_prob = self.base_dist.log_prob(value) + math.log(2)
        return fg.where(value >= 0, log_prob, -math.inf)

    def cdf(self, value: Any) -> Any:
        self._checked(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Any) -> Any:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Any:
        return self.base_dist.entropy() - math.log(2)
