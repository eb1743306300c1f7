"""The gamma distribution."""

from __future__ import annotations

from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.exp_family import ExponentialFamily
from fastgrad.distributions.utils import broadcast_all
from fastgrad.functions.draws import standard_gamma

__all__ = ["Gamma"]


class Gamma(ExponentialFamily):
    """``rate**concentration x**(concentration - 1) exp(-rate x) / gamma(concentration)``.

    Samples are differentiable by both parameters, by the concentration implicitly.

    Parameters
    ----------
    concentration, rate : float or Tensor
        Shape, and inverse of the scale.
    validate_args : bool, optional

    Examples
    --------
    >>> from fastgrad.distributions import Gamma
    >>> Gamma(2.0, 4.0).variance
    tensor(0.1250)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.concentration / self.rate

    @property
    def mode(self) -> Any:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Any:
        return self.concentration / self.rate.pow(2)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "concentration", "rate", base=Gamma)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = tuple(self._extended_shape(sample_shape))
        value = standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        with fg.no_grad():
            value.data.clamp_(min=fg.finfo(value.dtype).tiny)
        return value

    def log_prob(self, value: Any) -> Any:
        value = fg.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        self._checked(value)
        a, rate = self.concentration, self.rate
        return fg.xlogy(a, rate) + fg.xlogy(a - 1, value) - rate * value - fg.lgamma(a)

    def entropy(self) -> Any:
        a = self.concentration
        return a - fg.log(self.rate) + fg.lgamma(a) + (1.0 - a) * fg.digamma(a)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Any, y: Any) -> Any:  # type: ignore[override]
        return fg.lgamma(x + 1) + (x + 1) * fg.log(-y.reciprocal())

    def cdf(self, value: Any) -> Any:
        self._checked(value)
        return fg.special.gammainc(self.concentration, self.rate * value)
