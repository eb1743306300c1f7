"""The binomial distribution."""

from __future__ import annotations

from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.distribution import OneParameter
from fastgrad.distributions.utils import broadcast_all

__all__ = ["Binomial"]


def _clamp_by_zero(x: Any) -> Any:
    """``max(x, 0)`` whose gradient at zero is a half."""
    return (x.clamp(min=0) + x - x.clamp(max=0)) / 2


class Binomial(OneParameter):
    """How many of `total_count` trials succeed, each with probability `probs`.

    Parameters
    ----------
    total_count : int or Tensor
    probs, logits : float or Tensor
        One of both.
    validate_args : bool, optional

    Examples
    --------
    >>> from fastgrad.distributions import Binomial
    >>> Binomial(8, 0.25).mean
    tensor(2.)
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self,
        total_count: Any = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        given = self._given(probs, logits)
        self.total_count, value = broadcast_all(total_count, given)
        self.total_count = self.total_count.type_as(value)
        setattr(self, "logits" if probs is None else "probs", value)
        super().__init__(value.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "total_count", "probs", "logits", base=Binomial)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Any:
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = tuple(self._extended_shape(sample_shape))
        with fg.no_grad():
            return fg.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        n, logits = self.total_count, self.logits
        chosen = fg.lgamma(n + 1) - fg.lgamma(value + 1) - fg.lgamma(n - value + 1)
        # log(1 + exp(logits)), without overflow and cancellation
        failing = n * _clamp_by_zero(logits) + n * fg.log1p(fg.exp(-fg.abs(logits)))
        return value * logits - failing + chosen

    def entropy(self) -> Any:
        count = int(self.total_count.max())
        if not (self.total_count == count).all():
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(fg.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Any:
        count = int(self.total_count.max())
        if not (self.total_count == count).all():
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        values = fg.arange(1 + count, dtype=self._param.dtype, device=self._param.device)
        return self._enumerated(values, expand)
