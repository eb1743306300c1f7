"""Categorical distributions of vectors with a single one."""

from __future__ import annotations

from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.categorical import Categorical
from fastgrad.distributions.distribution import Distribution
from fastgrad.distributions.utils import one_hot

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(Distribution):
    """`Categorical`, with a one at the index in a vector of zeros.

    Parameters
    ----------
    probs, logits : Tensor
        One of both.
    validate_args : bool, optional

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.distributions import OneHotCategorical
    >>> OneHotCategorical(fg.tensor([0.0, 1.0])).sample()
    tensor([0., 1.])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._expanded(batch_shape, _instance, base=OneHotCategorical)
        made._categorical = self._categorical.expand(batch_shape)
        return made

    @property
    def _param(self) -> Any:
        return self._categorical._param

    @property
    def probs(self) -> Any:
        """Probabilities, whose sum is 1."""
        return self._categorical.probs

    @property
    def logits(self) -> Any:
        """Their logarithms."""
        return self._categorical.logits

    @property
    def mean(self) -> Any:
        return self._categorical.probs

    @property
    def mode(self) -> Any:
        return one_hot(self.probs.argmax(dim=-1), self.probs.shape[-1], self.probs)

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._categorical.param_shape

    def sample(self, sample_shape: Any = ()) -> Any:
        probs = self.probs
        return one_hot(self._categorical.sample(sample_shape), self._categorical._num_events, probs)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Any:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        n = self.event_shape[0]
        values = fg.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view(n, *([1] * len(self.batch_shape)), n)
        return values.expand((n, *self.batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` whose samples pass gradients on to the probabilities as they come.

    The estimator of Bengio, Léonard, Courville: Estimating or propagating gradients through stochastic neurons (2013).
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Any:
        samples = self.sample(sample_shape)
        probs = self._categorical.probs  # kept by the instance, so that the graph is not made anew
        return samples + (probs - probs.detach())
