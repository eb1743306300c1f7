"""The normal distribution."""

from __future__ import annotations

import math
from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.exp_family import ExponentialFamily
from fastgrad.distributions.utils import broadcast_all, standard_normal

__all__ = ["Normal"]

LOG_SQRT_2PI = 0.9189385332046727


class Normal(ExponentialFamily):
    """``exp(-(x - loc)**2 / (2 scale**2)) / (scale sqrt(2 pi))``.

    Parameters
    ----------
    loc, scale : float or Tensor
        Mean and standard deviation.
    validate_args : bool, optional

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.distributions import Normal
    >>> Normal(0.0, 1.0).log_prob(fg.tensor(0.0))
    tensor(-0.9189)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _mean_carrier_measure = 0

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
        return self.scale

    @property
    def variance(self) -> Any:
        return self.stddev.pow(2)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "loc", "scale", base=Normal)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.loc + standard_normal(self._extended_shape(sample_shape), self.loc) * self.scale

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        return -((value - self.loc) ** 2) / (2 * self.scale**2) - self.scale.log() - LOG_SQRT_2PI

    def cdf(self, value: Any) -> Any:
        self._checked(value)
        return 0.5 * (1 + fg.erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: Any) -> Any:
        return self.loc + self.scale * fg.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Any:
        return 0.5 + LOG_SQRT_2PI + fg.log(self.scale)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal()

    def _log_normalizer(self, x: Any, y: Any) -> Any:  # type: ignore[override]
        return -0.25 * x.pow(2) / y + 0.5 * fg.log(-math.pi / y)
