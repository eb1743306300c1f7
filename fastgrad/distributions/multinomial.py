"""The multinomial distribution."""

from __future__ import annotations

import math
from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.binomial import Binomial
from fastgrad.distributions.categorical import Categorical
from fastgrad.distributions.distribution import Distribution
from fastgrad.distributions.utils import broadcast_all

__all__ = ["Multinomial"]


class Multinomial(Distribution):
    """How often each of K categories is drawn in `total_count` draws.

    Parameters
    ----------
    total_count : int
    probs, logits : Tensor
        One of both.
    validate_args : bool, optional

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.distributions import Multinomial
    >>> Multinomial(8, fg.tensor([1.0, 3.0])).mean
    tensor([2., 6.])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    total_count: int

    def __init__(
        self,
        total_count: int = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._expanded(batch_shape, _instance, base=Multinomial)
        made.total_count = self.total_count
        made._categorical = self._categorical.expand(batch_shape)
        made._binomial = self._binomial.expand((*batch_shape, *self.event_shape))
        return made

    @property
    def mean(self) -> Any:
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def _param(self) -> Any:
        return self._categorical._param

    @property
    def logits(self) -> Any:
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> Any:
        """Probabilities of one draw."""
        return self._categorical.probs

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._categorical.param_shape

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = fg.Size(sample_shape)
        drawn = self._categorical.sample(fg.Size((self.total_count, *shape)))
        counts = fg.zeros(tuple(self._extended_shape(shape)), dtype=self.probs.dtype, device=drawn.device)
        drawn = drawn.movedim(0, -1)
        return counts.scatter_add(-1, drawn, fg.ones_like(drawn, dtype=counts.dtype))

    def entropy(self) -> Any:
        single = self._categorical.entropy()
        counts = self._binomial.enumerate_support(expand=False)[1:]
        weights = fg.exp(self._binomial.log_prob(counts))
        rest = (weights * fg.lgamma(counts + 1)).sum([0, -1])
        return self.total_count * single - math.lgamma(self.total_count + 1) + rest

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.masked_fill((value == 0) & (logits == -math.inf), 0)
        chosen = fg.lgamma(value.sum(-1) + 1) - fg.lgamma(value + 1).sum(-1)
        return chosen + (logits * value).sum(-1)
