"""The Gumbel distribution."""

from __future__ import annotations

import math
from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.transformed_distribution import TransformedDistribution
from fastgrad.distributions.transforms import AffineTransform, ExpTransform
from fastgrad.distributions.uniform import Uniform
from fastgrad.distributions.utils import broadcast_all, euler_constant, is_scalar

__all__ = ["Gumbel"]


class Gumbel(TransformedDistribution):
    """``exp(-z - exp(-z)) / scale`` with ``z = (x - loc) / scale``.

    Parameters
    ----------
    loc, scale : float or Tensor
    validate_args : bool, optional

    Examples
    --------
    >>> from fastgrad.distributions import Gumbel
    >>> Gumbel(0.0, 1.0).mean
    tensor(0.5772)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        known = fg.finfo(self.loc.dtype)
        if is_scalar(loc) and is_scalar(scale):
            base = Uniform(known.tiny, 1 - known.eps, validate_args=validate_args)
        else:
            base = Uniform(
                fg.full_like(self.loc, known.tiny),
                fg.full_like(self.loc, 1 - known.eps),
                validate_args=validate_args,
            )
        steps = [
            ExpTransform().inv, AffineTransform(loc=0, scale=-fg.ones_like(self.scale)),
            ExpTransform().inv, AffineTransform(loc=loc, scale=-self.scale),
        ]  # fmt: skip
        super().__init__(base, steps, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._get_checked_instance(Gumbel, _instance)
        made.loc, made.scale = self.loc.expand(batch_shape), self.scale.expand(batch_shape)
        return super().expand(batch_shape, made)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    @property
    def mean(self) -> Any:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Any:
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Any:
        return self.stddev.pow(2)

    def entropy(self) -> Any:
        return self.scale.log() + (1 + euler_constant)
