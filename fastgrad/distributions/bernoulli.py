"""The Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.distribution import OneParameter
from fastgrad.distributions.exp_family import ExponentialFamily
from fastgrad.distributions.utils import broadcast_all, is_scalar
from fastgrad.nn.functional import binary_cross_entropy_with_logits

__all__ = ["Bernoulli"]


class Bernoulli(OneParameter, ExponentialFamily):
    """1 with probability `probs`, else 0.

    Parameters
    ----------
    probs, logits : float or Tensor
        One of both.
    validate_args : bool, optional

    Examples
    --------
    >>> from fastgrad.distributions import Bernoulli
    >>> Bernoulli(0.25).variance
    tensor(0.1875)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        given = self._given(probs, logits)
        (value,) = broadcast_all(given)
        setattr(self, "logits" if probs is None else "probs", value)
        super().__init__(() if is_scalar(given) else value.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "probs", "logits", base=Bernoulli)

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        return (self.probs >= 0.5).to(self.probs.dtype).masked_fill(self.probs == 0.5, math.nan)

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        with fg.no_grad():
            return fg.bernoulli(self.probs.expand(tuple(self._extended_shape(sample_shape))))

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Any:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Any:
        values = fg.arange(2, dtype=self._param.dtype, device=self._param.device)
        return self._enumerated(values, expand)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (fg.logit(self.probs),)

    def _log_normalizer(self, x: Any) -> Any:  # type: ignore[override]
        return fg.log1p(fg.exp(x))
