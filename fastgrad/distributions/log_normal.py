"""The log-normal distribution."""

from __future__ import annotations

from typing import Any

from fastgrad.distributions import constraints
from fastgrad.distributions.normal import Normal
from fastgrad.distributions.transformed_distribution import TransformedDistribution
from fastgrad.distributions.transforms import ExpTransform

__all__ = ["LogNormal"]


class LogNormal(TransformedDistribution):
    """The exponential of a normal number.

    Parameters
    ----------
    loc, scale : float or Tensor
        Mean and standard deviation of the logarithm.
    validate_args : bool, optional

    Examples
    --------
    >>> from fastgrad.distributions import LogNormal
    >>> LogNormal(0.0, 1.0).mean
    tensor(1.6487)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(LogNormal, _instance))

    @property
    def loc(self) -> Any:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Any:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Any:
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Any:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Any:
        squared = self.scale.pow(2)
        return squared.expm1() * (2 * self.loc + squared).exp()

    def entropy(self) -> Any:
        return self.base_dist.entropy() + self.loc
