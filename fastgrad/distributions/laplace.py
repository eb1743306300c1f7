"""The Laplace distribution."""

from __future__ import annotations

from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.distribution import Distribution
from fastgrad.distributions.utils import broadcast_all, uniform

__all__ = ["Laplace"]


class Laplace(Distribution):
    """``exp(-|x - loc| / scale) / (2 scale)``.

    Parameters
    ----------
    loc, scale : float or Tensor
    validate_args : bool, optional

    Examples
    --------
    >>> from fastgrad.distributions import Laplace
    >>> Laplace(0.0, 1.0).entropy()
    tensor(1.6931)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Any:
        return 2**0.5 * self.scale

    @property
    def variance(self) -> Any:
        return 2 * self.scale.pow(2)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "loc", "scale", base=Laplace)

    def rsample(self, sample_shape: Any = ()) -> Any:
        known = fg.finfo(self.loc.dtype)
        u = uniform(self._extended_shape(sample_shape), self.loc) * (2 - known.eps) + (known.eps - 1)
        return self.loc - self.scale * u.sign() * fg.log1p(-u.abs().clamp(min=known.tiny))

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        return -fg.log(2 * self.scale) - fg.abs(value - self.loc) / self.scale

    def cdf(self, value: Any) -> Any:
        self._checked(value)
        z = value - self.loc
        return 0.5 - 0.5 * z.sign() * fg.expm1(-z.abs() / self.scale)

    def icdf(self, value: Any) -> Any:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * fg.log1p(-2 * term.abs())

    def entropy(self) -> Any:
        return 1 + fg.log(2 * self.scale)
