"""The Kumaraswamy distribution."""

from __future__ import annotations

import math
from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.transformed_distribution import TransformedDistribution
from fastgrad.distributions.transforms import AffineTransform, PowerTransform
from fastgrad.distributions.uniform import Uniform
from fastgrad.distributions.utils import broadcast_all, euler_constant

__all__ = ["Kumaraswamy"]


def _moment(a: Any, b: Any, n: int) -> Any:
    """The n-th moment, ``b B(1 + n / a, b)``."""
    first = 1 + n / a
    return fg.exp(fg.log(b) + fg.lgamma(first) + fg.lgamma(b) - fg.lgamma(first + b))


class Kumaraswamy(TransformedDistribution):
    """``1 - (1 - x**concentration1)**concentration0`` is the probability of what is not larger than x, on [0, 1].

    Parameters
    ----------
    concentration1, concentration0 : float or Tensor
    validate_args : bool, optional

    Examples
    --------
    >>> from fastgrad.distributions import Kumaraswamy
    >>> Kumaraswamy(1.0, 1.0).mean
    tensor(0.5000)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(
            fg.full_like(self.concentration0, 0),
            fg.full_like(self.concentration0, 1),
            validate_args=validate_args,
        )
        steps = [
            PowerTransform(exponent=self.concentration0.reciprocal()), AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]  # fmt: skip
        super().__init__(base, steps, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._get_checked_instance(Kumaraswamy, _instance)
        made.concentration1 = self.concentration1.expand(batch_shape)
        made.concentration0 = self.concentration0.expand(batch_shape)
        return super().expand(batch_shape, made)

    @property
    def mean(self) -> Any:
        return _moment(self.concentration1, self.concentration0, 1)

    @property
    def mode(self) -> Any:
        a, b = self.concentration1, self.concentration0
        found = ((a - 1) / (a * b - 1)) ** a.reciprocal()
        return found.masked_fill((a < 1) | (b < 1), math.nan)

    @property
    def variance(self) -> Any:
        return _moment(self.concentration1, self.concentration0, 2) - fg.pow(self.mean, 2)

    def entropy(self) -> Any:
        t1, t0 = 1 - self.concentration1.reciprocal(), 1 - self.concentration0.reciprocal()
        harmonic = fg.digamma(self.concentration0 + 1) + euler_constant
        return t0 + t1 * harmonic - fg.log(self.concentration1) - fg.log(self.concentration0)
