"""The F distribution."""

from __future__ import annotations

import math
from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.distribution import Distribution
from fastgrad.distributions.gamma import Gamma
from fastgrad.distributions.utils import broadcast_all

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """The quotient of two chi-squared numbers, each over its degrees of freedom.

    Parameters
    ----------
    df1, df2 : float or Tensor
    validate_args : bool, optional

    Examples
    --------
    >>> from fastgrad.distributions import FisherSnedecor
    >>> FisherSnedecor(2.0, 6.0).mean
    tensor(1.5000)
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._expanded(batch_shape, _instance, "df1", "df2", base=FisherSnedecor)
        made._gamma1, made._gamma2 = self._gamma1.expand(batch_shape), self._gamma2.expand(batch_shape)
        return made

    @property
    def mean(self) -> Any:
        df2 = self.df2.masked_fill(self.df2 <= 2, math.nan)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Any:
        found = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return found.masked_fill(self.df1 <= 2, math.nan)

    @property
    def variance(self) -> Any:
        df2 = self.df2.masked_fill(self.df2 <= 4, math.nan)
        return 2 * df2.pow(2) * (self.df1 + df2 - 2) / (self.df1 * (df2 - 2).pow(2) * (df2 - 4))

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = fg.Size(sample_shape)
        x1, x2 = (g.rsample(shape).reshape(self._extended_shape(shape)) for g in (self._gamma1, self._gamma2))
        tiny = fg.finfo(x2.dtype).tiny
        return (x1 / x2.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        first = (half1 + half2).lgamma() - half1.lgamma() - half2.lgamma()
        second = half1 * ratio.log() + (half1 - 1) * fg.log(value)
        return first + second - (half1 + half2) * fg.log1p(ratio * value)
