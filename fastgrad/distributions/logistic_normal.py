"""The logistic-normal distribution."""

from __future__ import annotations

from typing import Any

from fastgrad.distributions import constraints
from fastgrad.distributions.normal import Normal
from fastgrad.distributions.transformed_distribution import TransformedDistribution
from fastgrad.distributions.transforms import StickBreakingTransform

__all__ = ["LogisticNormal"]


class LogisticNormal(TransformedDistribution):
    """Points of the simplex that stick breaking makes of normal numbers.

    Parameters
    ----------
    loc, scale : float or Tensor
        Of the normal numbers, one fewer than a point has elements.
    validate_args : bool, optional

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.distributions import LogisticNormal
    >>> LogisticNormal(fg.zeros(2), fg.ones(2)).sample().shape
    fastgrad.Size([3])
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(LogisticNormal, _instance))

    @property
    def loc(self) -> Any:
        """The means of the normal numbers."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Any:
        """Their standard deviations."""
        return self.base_dist.base_dist.scale
