"""Relaxed Bernoulli distributions, whose samples are differentiable."""

from __future__ import annotations

from typing import Any

from fastgrad.distributions import constraints
from fastgrad.distributions.distribution import OneParameter
from fastgrad.distributions.transformed_distribution import TransformedDistribution
from fastgrad.distributions.transforms import SigmoidTransform
from fastgrad.distributions.utils import broadcast_all, clamp_probs, is_scalar, uniform

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(OneParameter):
    """The log odds of `RelaxedBernoulli`.

    Parameters
    ----------
    temperature : Tensor
    probs, logits : float or Tensor
        One of both.
    validate_args : bool, optional
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        given = self._given(probs, logits)
        (value,) = broadcast_all(given)
        setattr(self, "logits" if probs is None else "probs", value)
        super().__init__(() if is_scalar(given) else value.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._expanded(batch_shape, _instance, "probs", "logits", base=LogitRelaxedBernoulli)
        made.temperature = self.temperature
        return made

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = tuple(self._extended_shape(sample_shape))
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(uniform(shape, probs))
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        diff = logits - value.mul(self.temperature)
        return self.temperature.log() + diff - 2 * diff.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """Numbers between 0 and 1, nearer to either the lower the temperature.

    The binary concrete distribution (Maddison, Mnih, Teh: The concrete distribution, ICLR 2017).

    Parameters
    ----------
    temperature : Tensor
    probs, logits : float or Tensor
        One of both.
    validate_args : bool, optional

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.distributions import RelaxedBernoulli
    >>> x = RelaxedBernoulli(fg.tensor(0.5), 0.25).rsample()
    >>> bool(0 < x < 1)
    True
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True  # type: ignore[assignment]

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(
            LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args=validate_args
        )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(RelaxedBernoulli, _instance))

    @property
    def temperature(self) -> Any:
        """How far from 0 and 1 samples are."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Any:
        """Log odds."""
        return self.base_dist.logits

    @property
    def probs(self) -> Any:
        """Probabilities of being nearer to 1."""
        return self.base_dist.probs
