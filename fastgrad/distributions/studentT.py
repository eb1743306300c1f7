"""Student's t distribution."""

from __future__ import annotations

import math
from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.chi2 import Chi2
from fastgrad.distributions.distribution import Distribution
from fastgrad.distributions.utils import broadcast_all, standard_normal

__all__ = ["StudentT"]


class StudentT(Distribution):
    """A normal number over the root of a chi-squared one, over its degrees of freedom; scaled and moved.

    Parameters
    ----------
    df : float or Tensor
    loc, scale : float or Tensor
    validate_args : bool, optional

    Examples
    --------
    >>> from fastgrad.distributions import StudentT
    >>> StudentT(3.0).variance
    tensor(3.)
    """

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.loc.masked_fill(self.df <= 1, math.nan)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        df = self.df
        found = self.scale.pow(2) * df / (df - 2)
        return found.masked_fill(df <= 2, math.inf).masked_fill(df <= 1, math.nan)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._expanded(batch_shape, _instance, "df", "loc", "scale", base=StudentT)
        made._chi2 = self._chi2.expand(batch_shape)
        return made

    def rsample(self, sample_shape: Any = ()) -> Any:
        normal = standard_normal(self._extended_shape(sample_shape), self.df)
        return self.loc + self.scale * normal * fg.rsqrt(self._chi2.rsample(sample_shape) / self.df)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        y, half = (value - self.loc) / self.scale, 0.5 * self.df
        z = self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi)
        z = z + fg.lgamma(half) - fg.lgamma(half + 0.5)
        return -(half + 0.5) * fg.log1p(y**2.0 / self.df) - z

    def entropy(self) -> Any:
        half = 0.5 * self.df
        log_beta = fg.lgamma(half) + math.lgamma(0.5) - fg.lgamma(half + 0.5)
        moved = (half + 0.5) * (fg.digamma(half + 0.5) - fg.digamma(half))
        return self.scale.log() + moved + 0.5 * self.df.log() + log_beta
