"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.distribution import OneParameter
from fastgrad.distributions.gamma import Gamma
from fastgrad.distributions.utils import broadcast_all, lazy_property
from fastgrad.nn.functional import logsigmoid

__all__ = ["NegativeBinomial"]


class NegativeBinomial(OneParameter):
    """Successes, each with probability `probs`, before `total_count` failures.

    Parameters
    ----------
    total_count : float or Tensor
        Failures at which to stop; may be any positive number.
    probs, logits : float or Tensor
        One of both.
    validate_args : bool, optional

    Examples
    --------
    >>> from fastgrad.distributions import NegativeBinomial
    >>> NegativeBinomial(3.0, 0.5).mean
    tensor(3.)
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        given = self._given(probs, logits)
        self.total_count, value = broadcast_all(total_count, given)
        self.total_count = self.total_count.type_as(value)
        setattr(self, "logits" if probs is None else "probs", value)
        super().__init__(value.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        names = ("total_count", "probs", "logits")
        return self._expanded(batch_shape, _instance, *names, base=NegativeBinomial)

    @property
    def mean(self) -> Any:
        return self.total_count * fg.exp(self.logits)

    @property
    def mode(self) -> Any:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Any:
        return self.mean / fg.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self) -> Any:
        return Gamma(self.total_count, fg.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape: Any = ()) -> Any:
        with fg.no_grad():
            return fg.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        n = self.total_count
        unnormalized = n * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        normalizer = -fg.lgamma(n + value) + fg.lgamma(1.0 + value) + fg.lgamma(n)
        return unnormalized - normalizer.masked_fill(n + value == 0.0, 0.0)
