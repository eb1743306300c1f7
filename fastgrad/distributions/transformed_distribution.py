"""Distributions of what transforms make of samples."""

from __future__ import annotations

from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.distribution import Distribution
from fastgrad.distributions.independent import Independent
from fastgrad.distributions.transforms import ComposeTransform, Transform
from fastgrad.distributions.utils import sum_rightmost

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of ``transforms(x)``, with x of a base distribution.

    Its density is that of the base over the absolute value of the Jacobian determinant.

    Parameters
    ----------
    base_distribution : Distribution
    transforms : Transform or list of Transform
        Applied in this order.
    validate_args : bool, optional

    Raises
    ------
    ValueError
        If the event of the base is too small for the transforms, or `transforms` are none.

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.distributions import ExpTransform, Normal, TransformedDistribution
    >>> TransformedDistribution(Normal(0.0, 1.0), ExpTransform()).log_prob(fg.tensor(1.0))
    tensor(-0.9189)
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(self, base_distribution: Any, transforms: Any, validate_args: bool | None = None) -> None:
        if isinstance(transforms, Transform):
            self.transforms: list[Any] = [transforms]
        elif isinstance(transforms, list) and all(isinstance(t, Transform) for t in transforms):
            self.transforms = transforms
        elif isinstance(transforms, list):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        else:
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        event_dim = len(base_distribution.event_shape)
        transform = ComposeTransform(self.transforms)
        if len(base_shape) < transform.domain.event_dim:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {transform.domain.event_dim}, but got "
                f"{tuple(base_shape)}."
            )
        shape = transform.forward_shape(base_shape)
        expanded = transform.inverse_shape(shape)
        if tuple(expanded) != tuple(base_shape):  # else its own parameters stay: leaves, that can be copied
            base_distribution = base_distribution.expand(expanded[: len(expanded) - event_dim])
        missing = transform.domain.event_dim - event_dim
        if missing > 0:
            base_distribution = Independent(base_distribution, missing)
        self.base_dist = base_distribution
        own = transform.codomain.event_dim + max(event_dim - transform.domain.event_dim, 0)
        cut = len(shape) - own
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._expanded(batch_shape, _instance, base=TransformedDistribution)
        shape = fg.Size((*batch_shape, *self.event_shape))
        for t in reversed(self.transforms):
            shape = t.inverse_shape(shape)
        kept = len(shape) - len(self.base_dist.event_shape)
        made.base_dist = self.base_dist.expand(shape[:kept])
        made.transforms = self.transforms
        return made

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        found = self.transforms[-1].codomain
        missing = len(self.event_shape) - found.event_dim
        return constraints.independent(found, missing) if missing > 0 else found

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return bool(self.base_dist.has_rsample)

    def _transformed(self, x: Any) -> Any:
        for t in self.transforms:
            x = t(x)
        return x

    def sample(self, sample_shape: Any = ()) -> Any:
        with fg.no_grad():
            return self._transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._transformed(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        event_dim = len(self.event_shape)
        log_prob: Any = 0.0
        y = value
        for t in reversed(self.transforms):
            x = t.inv(y)
            event_dim += t.domain.event_dim - t.codomain.event_dim
            term = t.log_abs_det_jacobian(x, y)
            log_prob = log_prob - sum_rightmost(term, event_dim - t.domain.event_dim)
            y = x
        rest = event_dim - len(self.base_dist.event_shape)
        return log_prob + sum_rightmost(self.base_dist.log_prob(y), rest)

    def _monotonize(self, value: Any) -> Any:
        """A probability, mirrored where the transforms fall."""
        sign = 1
        for t in self.transforms:
            sign = sign * t.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Any) -> Any:
        for t in reversed(self.transforms):
            value = t.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Any:
        return self._transformed(self.base_dist.icdf(self._monotonize(value)))
