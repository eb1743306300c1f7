"""Categorical distributions."""

from __future__ import annotations

import math
from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.distribution import OneParameter

__all__ = ["Categorical"]


class Categorical(OneParameter):
    """An index from 0 to K - 1, with probabilities in proportion to the last dimension of `probs`.

    Parameters
    ----------
    probs : Tensor, optional
        Not negative, with a sum; they are divided by it.
    logits : Tensor, optional
        Logarithms of probabilities up to a constant.
    validate_args : bool, optional

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.distributions import Categorical
    >>> Categorical(fg.tensor([1.0, 3.0])).probs
    tensor([0.2500, 0.7500])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _binary = False

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        given = self._given(probs, logits)
        if given.dim() < 1:
            name = "logits" if probs is None else "probs"
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is None:
            self.logits = given - given.logsumexp(dim=-1, keepdim=True)
        else:
            self.probs = given / given.sum(-1, keepdim=True)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._expanded(batch_shape, _instance, base=Categorical)
        for name in {"probs", "logits"} & vars(self).keys():
            setattr(made, name, vars(self)[name].expand((*batch_shape, self._num_events)))
        made._num_events = self._num_events
        return made

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    def _none(self) -> Any:
        return fg.full(
            tuple(self._extended_shape()), math.nan, dtype=self.probs.dtype, device=self.probs.device
        )

    @property
    def mean(self) -> Any:
        return self._none()

    @property
    def mode(self) -> Any:
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Any:
        return self._none()

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = fg.Size(sample_shape)
        rows = self.probs.detach().reshape(-1, self._num_events)
        if 0 in self._extended_shape(shape):
            return fg.empty(tuple(self._extended_shape(shape)), dtype=fg.long, device=rows.device)
        drawn = fg.multinomial(rows, shape.numel(), True).T
        return drawn.reshape(self._extended_shape(shape))

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        index, logs = fg.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logs.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Any:
        kept = self.logits.clamp(min=fg.finfo(self.logits.dtype).min)
        return -(kept * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        values = fg.arange(self._num_events, dtype=fg.long, device=self._param.device)
        return self._enumerated(values, expand)
