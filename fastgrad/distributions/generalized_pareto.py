"""The generalized Pareto distribution."""

from __future__ import annotations

import math
from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.distribution import Distribution
from fastgrad.distributions.utils import broadcast_all, uniform

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """Excesses over a threshold: ``1 - (1 + concentration z)**(-1 / concentration)`` with ``z = (x - loc) / scale``.

    Parameters
    ----------
    loc, scale, concentration : float or Tensor
    validate_args : bool, optional

    Examples
    --------
    >>> from fastgrad.distributions import GeneralizedPareto
    >>> GeneralizedPareto(0.0, 1.0, 0.5).mean
    tensor(2.)
    """

    arg_constraints = {
        "loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real,
    }  # fmt: skip
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        names = ("loc", "scale", "concentration")
        return self._expanded(batch_shape, _instance, *names, base=GeneralizedPareto)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.icdf(uniform(self._extended_shape(sample_shape), self.loc))

    def _safe(self) -> Any:
        """Where the concentration is zero, and one that is not."""
        none = fg.isclose(self.concentration, fg.zeros_like(self.concentration))
        return none, fg.where(none, 1.0, self.concentration)

    def _z(self, x: Any) -> Any:
        return (x - self.loc) / self.scale

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        z = self._z(value)
        none, c = self._safe()
        y = 1 / c + fg.ones_like(z)
        found = fg.where(y == 0, y, y * fg.log1p(c * z))
        return -self.scale.log() - fg.where(none, z, found)

    def log_survival_function(self, value: Any) -> Any:
        """The logarithm of the probability of what is larger."""
        self._checked(value)
        z = self._z(value)
        none, c = self._safe()
        return fg.where(none, -z, -fg.log1p(c * z) / c)

    def log_cdf(self, value: Any) -> Any:
        """The logarithm of `cdf`."""
        return fg.log1p(-fg.exp(self.log_survival_function(value)))

    def cdf(self, value: Any) -> Any:
        return fg.exp(self.log_cdf(value))

    def icdf(self, value: Any) -> Any:
        none, c = self._safe()
        logs = fg.log1p(-value)
        found = self.loc + self.scale / c * fg.expm1(-c * logs)
        return fg.where(none, self.loc - self.scale * logs, found)

    @property
    def mean(self) -> Any:
        valid = self.concentration < 1
        c = fg.where(valid, self.concentration, 0.5)
        return fg.where(valid, self.loc + self.scale / (1 - c), math.nan)

    @property
    def variance(self) -> Any:
        valid = self.concentration < 0.5
        c = fg.where(valid, self.concentration, 0.25)
        return fg.where(valid, self.scale**2 / ((1 - c) ** 2 * (1 - 2 * c)), math.nan)

    def entropy(self) -> Any:
        return fg.log(self.scale) + self.concentration + 1

    @property
    def mode(self) -> Any:
        return self.loc

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        upper = fg.where(self.concentration < 0, self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(self.loc, upper)
