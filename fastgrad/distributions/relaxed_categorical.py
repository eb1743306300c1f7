"""Relaxed categorical distributions, whose samples are differentiable."""

from __future__ import annotations

from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.categorical import Categorical
from fastgrad.distributions.distribution import Distribution
from fastgrad.distributions.transformed_distribution import TransformedDistribution
from fastgrad.distributions.transforms import ExpTransform
from fastgrad.distributions.utils import broadcast_all, clamp_probs, uniform

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


class ExpRelaxedCategorical(Distribution):
    """The logarithms of `RelaxedOneHotCategorical`.

    Parameters
    ----------
    temperature : Tensor
    probs, logits : Tensor
        One of both.
    validate_args : bool, optional
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector  # exponentials that add up to 1
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._expanded(batch_shape, _instance, base=ExpRelaxedCategorical)
        made.temperature, made._categorical = self.temperature, self._categorical.expand(batch_shape)
        return made

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._categorical.param_shape

    @property
    def logits(self) -> Any:
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> Any:
        """Probabilities."""
        return self._categorical.probs

    def rsample(self, sample_shape: Any = ()) -> Any:
        u = clamp_probs(uniform(self._extended_shape(sample_shape), self.logits))
        scores = (self.logits - (-(u.log())).log()) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Any) -> Any:
        k = self._categorical._num_events
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        scale = fg.full_like(self.temperature, float(k)).lgamma() - self.temperature.log().mul(-(k - 1))
        score = logits - value.mul(self.temperature)
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """Points of the simplex, nearer to a corner the lower the temperature.

    The concrete or Gumbel-softmax distribution (Maddison, Mnih, Teh; Jang, Gu, Poole, both ICLR 2017).

    Parameters
    ----------
    temperature : Tensor
    probs, logits : Tensor
        One of both.
    validate_args : bool, optional

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.distributions import RelaxedOneHotCategorical
    >>> x = RelaxedOneHotCategorical(fg.tensor(1.0), fg.tensor([0.5, 0.5])).rsample()
    >>> abs(float(x.sum()) - 1) < 1e-5
    True
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True  # type: ignore[assignment]

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(RelaxedOneHotCategorical, _instance))

    @property
    def temperature(self) -> Any:
        """How far from the corners samples are."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Any:
        """Logarithms of the probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Any:
        """Probabilities of the corners."""
        return self.base_dist.probs
