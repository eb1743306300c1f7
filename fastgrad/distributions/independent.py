"""Distributions whose last batch dimensions are part of the event."""

from __future__ import annotations

from typing import Any

from fastgrad.distributions import constraints
from fastgrad.distributions.distribution import Distribution
from fastgrad.distributions.utils import sum_rightmost

__all__ = ["Independent"]


class Independent(Distribution):
    """A distribution, some of whose last batch dimensions are seen as dimensions of the event.

    Parameters
    ----------
    base_distribution : Distribution
    reinterpreted_batch_ndims : int
    validate_args : bool, optional

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.distributions import Independent, Normal
    >>> Independent(Normal(fg.zeros(3), fg.ones(3)), 1).log_prob(fg.zeros(3)).shape
    fastgrad.Size([])
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self,
        base_distribution: Any,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        if reinterpreted_batch_ndims > len(base_distribution.batch_shape):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(base_distribution.batch_shape)}"
            )
        shape = tuple(base_distribution.batch_shape) + tuple(base_distribution.event_shape)
        cut = len(base_distribution.batch_shape) - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._expanded(batch_shape, _instance, base=Independent)
        inner = tuple(self.event_shape)[: self.reinterpreted_batch_ndims]
        made.base_dist = self.base_dist.expand((*batch_shape, *inner))
        made.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        return made

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return bool(self.base_dist.has_rsample)

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        return self.reinterpreted_batch_ndims == 0 and bool(self.base_dist.has_enumerate_support)

    @constraints.dependent_property
    def support(self) -> Any:
        found = self.base_dist.support
        n = self.reinterpreted_batch_ndims
        return constraints.independent(found, n) if n else found

    @property
    def mean(self) -> Any:
        return self.base_dist.mean

    @property
    def mode(self) -> Any:
        return self.base_dist.mode

    @property
    def variance(self) -> Any:
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Any:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
