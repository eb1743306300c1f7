"""The inverse gamma distribution."""

from __future__ import annotations

import math
from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.gamma import Gamma
from fastgrad.distributions.transformed_distribution import TransformedDistribution
from fastgrad.distributions.transforms import PowerTransform

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """The reciprocal of a gamma number.

    Parameters
    ----------
    concentration, rate : float or Tensor
        Of that number.
    validate_args : bool, optional

    Examples
    --------
    >>> from fastgrad.distributions import InverseGamma
    >>> InverseGamma(3.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        minus = -base.rate.new_ones(())
        super().__init__(base, PowerTransform(minus), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(InverseGamma, _instance))

    @property
    def concentration(self) -> Any:
        """The shape."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Any:
        """The rate of the gamma number, the scale of its reciprocal."""
        return self.base_dist.rate

    @property
    def mean(self) -> Any:
        found = self.rate / (self.concentration - 1)
        return fg.where(self.concentration > 1, found, math.inf)

    @property
    def mode(self) -> Any:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Any:
        a = self.concentration
        return fg.where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def entropy(self) -> Any:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()
