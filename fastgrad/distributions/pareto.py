"""The Pareto distribution."""

from __future__ import annotations

from typing import Any

from fastgrad.distributions import constraints
from fastgrad.distributions.exponential import Exponential
from fastgrad.distributions.transformed_distribution import TransformedDistribution
from fastgrad.distributions.transforms import AffineTransform, ExpTransform
from fastgrad.distributions.utils import broadcast_all

__all__ = ["Pareto"]


class Pareto(TransformedDistribution):
    """``alpha scale**alpha / x**(alpha + 1)`` from `scale` on.

    Parameters
    ----------
    scale, alpha : float or Tensor
    validate_args : bool, optional

    Examples
    --------
    >>> from fastgrad.distributions import Pareto
    >>> Pareto(1.0, 2.0).mean
    tensor(2.)
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        steps = [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, steps, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._get_checked_instance(Pareto, _instance)
        made.scale, made.alpha = self.scale.expand(batch_shape), self.alpha.expand(batch_shape)
        return super().expand(batch_shape, made)

    @property
    def mean(self) -> Any:
        a = self.alpha.clamp(min=1)  # without a mean, infinity
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    def entropy(self) -> Any:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())
