"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.distribution import OneParameter
from fastgrad.distributions.exp_family import ExponentialFamily
from fastgrad.distributions.utils import broadcast_all, clamp_probs, is_scalar, lazy_property, uniform
from fastgrad.nn.functional import binary_cross_entropy_with_logits

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(OneParameter, ExponentialFamily):
    """``probs**x (1 - probs)**(1 - x)`` on [0, 1], up to a constant.

    Loaiza-Ganem, Cunningham: The continuous Bernoulli, NeurIPS 2019.

    Parameters
    ----------
    probs, logits : float or Tensor
        One of both.
    lims : tuple of float
        Between these probabilities, around a half, series are computed instead of quotients of small numbers.
    validate_args : bool, optional

    Examples
    --------
    >>> from fastgrad.distributions import ContinuousBernoulli
    >>> ContinuousBernoulli(0.5).mean
    tensor(0.5000)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    _mean_carrier_measure = 0
    has_rsample = True

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        given = self._given(probs, logits)
        (value,) = broadcast_all(given)
        if probs is None:
            self.logits = value
        else:
            # Before it is kept from 0 and 1, where every number would be one.
            if validate_args is not None and not constraints.unit_interval.check(value).all():
                raise ValueError("The parameter probs has invalid values")
            self.probs = clamp_probs(value)
        self._lims = lims
        super().__init__(() if is_scalar(given) else value.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._expanded(batch_shape, _instance, "probs", "logits", base=ContinuousBernoulli)
        made._lims = self._lims
        return made

    @lazy_property
    def probs(self) -> Any:
        """Probabilities, kept from 0 and 1."""
        return clamp_probs(fg.sigmoid(self.logits))

    def _steady(self) -> Any:
        """Where no series is needed, and probabilities that are replaced elsewhere."""
        away = (self.probs <= self._lims[0]) | (self.probs > self._lims[1])
        return away, fg.where(away, self.probs, self._lims[0])

    def _cont_bern_log_norm(self) -> Any:
        away, p = self._steady()
        odds = fg.log1p(-p) - fg.log(p)
        below: Any
        above: Any
        below, above = fg.where(p <= 0.5, p, 0.0), fg.where(p >= 0.5, p, 1.0)
        divisor = fg.where(p <= 0.5, fg.log1p(-2.0 * below), fg.log(2.0 * above - 1.0))
        x = (self.probs - 0.5).pow(2)
        series = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        return fg.where(away, fg.log(fg.abs(odds)) - divisor, series)

    @property
    def mean(self) -> Any:
        away, p = self._steady()
        found = p / (2.0 * p - 1.0) + 1.0 / (fg.log1p(-p) - fg.log(p))
        x = self.probs - 0.5
        return fg.where(away, found, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x)

    @property
    def variance(self) -> Any:
        away, p = self._steady()
        found = p * (p - 1.0) / (1.0 - 2.0 * p).pow(2) + 1.0 / (fg.log1p(-p) - fg.log(p)).pow(2)
        x = (self.probs - 0.5).pow(2)
        return fg.where(away, found, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.icdf(uniform(self._extended_shape(sample_shape), self.probs))

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        loss = binary_cross_entropy_with_logits(logits, value, reduction="none")
        return self._cont_bern_log_norm() - loss

    def cdf(self, value: Any) -> Any:
        self._checked(value)
        away, p = self._steady()
        found = (p.pow(value) * (1.0 - p).pow(1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        inside = fg.where(away, found, value)
        return fg.where(value <= 0.0, 0.0, fg.where(value >= 1.0, 1.0, inside))

    def icdf(self, value: Any) -> Any:
        away, p = self._steady()
        moved = fg.log1p(-p + value * (2.0 * p - 1.0)) - fg.log1p(-p)
        return fg.where(away, moved / (fg.log(p) - fg.log1p(-p)), value)

    def entropy(self) -> Any:
        log_probs0, log_probs1 = fg.log1p(-self.probs), fg.log(self.probs)
        return self.mean * (log_probs0 - log_probs1) - self._cont_bern_log_norm() - log_probs0

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Any) -> Any:  # type: ignore[override]
        low, high = self._lims[0] - 0.5, self._lims[1] - 0.5
        away = (x <= low) | (x > high)
        kept = fg.where(away, x, low)
        found = fg.log(fg.abs(fg.expm1(kept))) - fg.log(fg.abs(kept))
        return fg.where(away, found, 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0)
