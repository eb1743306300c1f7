"""Mixtures of distributions of one family."""

from __future__ import annotations

from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.categorical import Categorical
from fastgrad.distributions.distribution import Distribution

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """One of the distributions along the last batch dimension, which a categorical distribution picks.

    Parameters
    ----------
    mixture_distribution : Categorical
    component_distribution : Distribution
        Its last batch dimension has a component for each category.
    validate_args : bool, optional

    Raises
    ------
    ValueError
        If the shapes do not fit or the first is no `Categorical`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.distributions import Categorical, MixtureSameFamily, Normal
    >>> both = Normal(fg.tensor([0.0, 4.0]), fg.ones(2))
    >>> MixtureSameFamily(Categorical(fg.ones(2)), both).mean
    tensor(2.)
    """

    arg_constraints: dict[str, Any] = {}
    has_rsample = False

    def __init__(
        self,
        mixture_distribution: Any,
        component_distribution: Any,
        validate_args: bool | None = None,
    ) -> None:
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an  instance of torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution need to be an instance of torch.distributions.Distribution"
            )
        shape = component_distribution.batch_shape[:-1]
        for size1, size2 in zip(
            reversed(tuple(mixture_distribution.batch_shape)), reversed(tuple(shape)), strict=False
        ):
            if size1 != 1 and size2 != 1 and size1 != size2:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixture_distribution.batch_shape}) is not compatible "
                    f"with `component_distribution.batch_shape`({shape})"
                )
        km, kc = mixture_distribution.logits.shape[-1], component_distribution.batch_shape[-1]
        if km != kc:
            raise ValueError(
                f"`mixture_distribution component` ({km}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({kc})"
            )
        self._num_component = km
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(shape, component_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._expanded(batch_shape, _instance, base=MixtureSameFamily)
        components = self._component_distribution
        made._component_distribution = components.expand((*batch_shape, self._num_component))
        made._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        made._num_component, made._event_ndims = self._num_component, self._event_ndims
        return made

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Any:
        """What picks a component."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The components."""
        return self._component_distribution

    def _weights(self) -> Any:
        probs = self.mixture_distribution.probs
        return probs.reshape(*probs.shape, *([1] * self._event_ndims))

    @property
    def mean(self) -> Any:
        return (self._weights() * self.component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Any:
        weights, dim = self._weights(), -1 - self._event_ndims
        within = (weights * self.component_distribution.variance).sum(dim)
        apart = (self.component_distribution.mean - self.mean.unsqueeze(dim)).pow(2.0)
        return within + (weights * apart).sum(dim)

    def cdf(self, x: Any) -> Any:
        found = self.component_distribution.cdf(x.unsqueeze(-1 - self._event_ndims))
        return (found * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Any) -> Any:
        self._checked(x)
        found = self.component_distribution.log_prob(x.unsqueeze(-1 - self._event_ndims))
        weights = fg.log_softmax(self.mixture_distribution.logits, dim=-1)
        return fg.logsumexp(found + weights, dim=-1)

    def sample(self, sample_shape: Any = ()) -> Any:
        with fg.no_grad():
            picked = self.mixture_distribution.sample(sample_shape)
            samples = self.component_distribution.sample(sample_shape)
            ones = [1] * (self._event_ndims + 1)
            index = picked.reshape(*picked.shape, *ones)
            kept = (*picked.shape, 1, *self.event_shape)
            return samples.gather(-1 - self._event_ndims, index.expand(kept)).squeeze(-1 - self._event_ndims)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
