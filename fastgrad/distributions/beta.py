"""The beta distribution."""

from __future__ import annotations

from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.dirichlet import Dirichlet
from fastgrad.distributions.exp_family import ExponentialFamily
from fastgrad.distributions.utils import broadcast_all

__all__ = ["Beta"]


class Beta(ExponentialFamily):
    """``x**(concentration1 - 1) (1 - x)**(concentration0 - 1) / B(concentration1, concentration0)`` on [0, 1].

    Parameters
    ----------
    concentration1, concentration0 : float or Tensor
    validate_args : bool, optional

    Examples
    --------
    >>> from fastgrad.distributions import Beta
    >>> Beta(1.0, 3.0).mean
    tensor(0.2500)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        both = fg.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._expanded(batch_shape, _instance, base=Beta)
        made._dirichlet = self._dirichlet.expand(batch_shape)
        return made

    @property
    def concentration1(self) -> Any:
        """The exponent of x, plus 1."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Any:
        """The exponent of ``1 - x``, plus 1."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Any:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Any:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Any:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        return self._dirichlet.log_prob(fg.stack([value, 1.0 - value], -1))

    def entropy(self) -> Any:
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Any, y: Any) -> Any:  # type: ignore[override]
        return fg.lgamma(x) + fg.lgamma(y) - fg.lgamma(x + y)
