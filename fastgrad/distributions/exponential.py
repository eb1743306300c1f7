"""The exponential distribution."""

from __future__ import annotations

from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.exp_family import ExponentialFamily
from fastgrad.distributions.utils import broadcast_all

__all__ = ["Exponential"]


class Exponential(ExponentialFamily):
    """``rate exp(-rate x)`` for x from 0 on.

    Parameters
    ----------
    rate : float or Tensor
    validate_args : bool, optional

    Examples
    --------
    >>> from fastgrad.distributions import Exponential
    >>> Exponential(2.0).mean
    tensor(0.5000)
    """

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Any:
        return fg.zeros_like(self.rate)

    @property
    def stddev(self) -> Any:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Any:
        return self.rate.pow(-2)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "rate", base=Exponential)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = tuple(self._extended_shape(sample_shape))
        return fg.empty(shape, dtype=self.rate.dtype, device=self.rate.device).exponential_() / self.rate

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Any) -> Any:
        self._checked(value)
        return 1 - fg.exp(-self.rate * value)

    def icdf(self, value: Any) -> Any:
        return -fg.log1p(-value) / self.rate

    def entropy(self) -> Any:
        return 1.0 - fg.log(self.rate)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (-self.rate,)

    def _log_normalizer(self, x: Any) -> Any:  # type: ignore[override]
        return -fg.log(-x)
