"""The geometric distribution."""

from __future__ import annotations

from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.distribution import OneParameter
from fastgrad.distributions.utils import broadcast_all, is_scalar, open_uniform
from fastgrad.nn.functional import binary_cross_entropy_with_logits

__all__ = ["Geometric"]


class Geometric(OneParameter):
    """``(1 - probs)**k probs``: failures before the first success, for k = 0, 1, ...

    Parameters
    ----------
    probs, logits : float or Tensor
        One of both.
    validate_args : bool, optional

    Examples
    --------
    >>> from fastgrad.distributions import Geometric
    >>> Geometric(0.25).mean
    tensor(3.)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        given = self._given(probs, logits)
        (value,) = broadcast_all(given)
        setattr(self, "logits" if probs is None else "probs", value)
        super().__init__(() if is_scalar(given) else value.shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not (self.probs > 0).all():
            raise ValueError(
                f"Expected parameter probs ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                f"{self!r} to be positive but found invalid values:\n{value}"
            )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "probs", "logits", base=Geometric)

    @property
    def mean(self) -> Any:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Any:
        return fg.zeros_like(self.probs)

    @property
    def variance(self) -> Any:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Any:
        with fg.no_grad():
            u = open_uniform(self._extended_shape(sample_shape), self.probs)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        value, probs = broadcast_all(value, self.probs)
        probs = probs.masked_fill((probs == 1) & (value == 0), 0.0)
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Any:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs
