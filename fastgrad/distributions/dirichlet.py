"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.exp_family import ExponentialFamily
from fastgrad.distributions.utils import one_hot
from fastgrad.functions.draws import dirichlet_grad, sample_dirichlet

__all__ = ["Dirichlet"]


class _Dirichlet(fg.autograd.Function):
    """Samples, and how they move with the concentrations: the others make room for what moves."""

    @staticmethod
    def forward(ctx: Any, concentration: Any) -> Any:
        x = sample_dirichlet(concentration)
        ctx.save_for_backward(x, concentration)
        return x

    @staticmethod
    @fg.autograd.function.once_differentiable
    def backward(ctx: Any, grad_output: Any) -> Any:
        x, concentration = ctx.saved_tensors
        total = concentration.sum(-1, True).expand_as(concentration)
        slope = dirichlet_grad(x, concentration, total)
        return slope * (grad_output - (x * grad_output).sum(-1, True))


class Dirichlet(ExponentialFamily):
    """Points x of the simplex, with the density ``prod x_i**(concentration_i - 1)`` up to a constant.

    Parameters
    ----------
    concentration : Tensor
        The last dimension is that of an event.
    validate_args : bool, optional

    Raises
    ------
    ValueError
        If `concentration` has no dimension.

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.distributions import Dirichlet
    >>> Dirichlet(fg.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._expanded(batch_shape, _instance, base=Dirichlet)
        made.concentration = self.concentration.expand((*batch_shape, *self.event_shape))
        return made

    def rsample(self, sample_shape: Any = ()) -> Any:
        return _Dirichlet.apply(self.concentration.expand(tuple(self._extended_shape(sample_shape))))

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        a = self.concentration
        return fg.xlogy(a - 1.0, value).sum(-1) + fg.lgamma(a.sum(-1)) - fg.lgamma(a).sum(-1)

    @property
    def mean(self) -> Any:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Any:
        above = (self.concentration - 1).clamp(min=0.0)
        found = above / above.sum(-1, True)
        flat = (self.concentration < 1).all(dim=-1, keepdim=True)
        corner = one_hot(found.argmax(dim=-1), above.shape[-1], found)
        return fg.where(flat, corner, found)

    @property
    def variance(self) -> Any:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self) -> Any:
        k, a = self.concentration.shape[-1], self.concentration
        total = a.sum(-1)
        normalizer = fg.lgamma(a).sum(-1) - fg.lgamma(total)
        return normalizer - (k - total) * fg.digamma(total) - ((a - 1.0) * fg.digamma(a)).sum(-1)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Any) -> Any:  # type: ignore[override]
        return x.lgamma().sum(-1) - fg.lgamma(x.sum(-1))
