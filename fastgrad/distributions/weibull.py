"""The Weibull distribution."""

from __future__ import annotations

from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.exponential import Exponential
from fastgrad.distributions.transformed_distribution import TransformedDistribution
from fastgrad.distributions.transforms import AffineTransform, PowerTransform
from fastgrad.distributions.utils import broadcast_all, euler_constant

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """``1 - exp(-(x / scale)**concentration)`` is the probability of what is not larger than x.

    Parameters
    ----------
    scale, concentration : float or Tensor
    validate_args : bool, optional

    Examples
    --------
    >>> from fastgrad.distributions import Weibull
    >>> Weibull(2.0, 1.0).mean
    tensor(2.)
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(fg.ones_like(self.scale), validate_args=validate_args)
        steps = [
            PowerTransform(exponent=self.concentration_reciprocal),
            AffineTransform(loc=0, scale=self.scale),
        ]
        super().__init__(base, steps, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._get_checked_instance(Weibull, _instance)
        made.scale, made.concentration = (
            self.scale.expand(batch_shape),
            self.concentration.expand(batch_shape),
        )
        made.concentration_reciprocal = made.concentration.reciprocal()
        base = self.base_dist.expand(batch_shape)
        steps = [
            PowerTransform(exponent=made.concentration_reciprocal),
            AffineTransform(loc=0, scale=made.scale),
        ]
        TransformedDistribution.__init__(made, base, steps, validate_args=False)
        made._validate_args = self._validate_args
        return made

    @property
    def mean(self) -> Any:
        return self.scale * fg.exp(fg.lgamma(1 + self.concentration_reciprocal))

    @property
    def mode(self) -> Any:
        inside = (self.concentration - 1) / self.concentration
        return self.scale * inside ** self.concentration.reciprocal()

    @property
    def variance(self) -> Any:
        first = fg.lgamma(1 + 2 * self.concentration_reciprocal).exp()
        second = (fg.lgamma(1 + self.concentration_reciprocal) * 2).exp()
        return self.scale.pow(2) * (first - second)

    def entropy(self) -> Any:
        first = euler_constant * (1 - self.concentration_reciprocal)
        return first + fg.log(self.scale * self.concentration_reciprocal) + 1
