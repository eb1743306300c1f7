"""The Poisson distribution."""

from __future__ import annotations

from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.exp_family import ExponentialFamily
from fastgrad.distributions.utils import broadcast_all, is_scalar

__all__ = ["Poisson"]


class Poisson(ExponentialFamily):
    """``rate**k exp(-rate) / k!`` for k = 0, 1, ...

    Parameters
    ----------
    rate : float or Tensor
    validate_args : bool, optional

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.distributions import Poisson
    >>> Poisson(4.0).log_prob(fg.tensor(0.0))
    tensor(-4.)
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(() if is_scalar(rate) else self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.rate

    @property
    def mode(self) -> Any:
        return self.rate.floor()

    @property
    def variance(self) -> Any:
        return self.rate

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "rate", base=Poisson)

    def sample(self, sample_shape: Any = ()) -> Any:
        with fg.no_grad():
            return fg.poisson(self.rate.expand(tuple(self._extended_shape(sample_shape))))

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        rate, value = broadcast_all(self.rate, value)
        return fg.xlogy(value, rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (fg.log(self.rate),)

    def _log_normalizer(self, x: Any) -> Any:  # type: ignore[override]
        return fg.exp(x)
