"""The LKJ distribution of Cholesky factors of correlation matrices."""

from __future__ import annotations

import math
from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.beta import Beta
from fastgrad.distributions.distribution import Distribution
from fastgrad.distributions.utils import broadcast_all, standard_normal

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Lower Cholesky factors of correlation matrices R whose density is ``det(R)**(concentration - 1)``.

    Drawn by the onion method of Lewandowski, Kurowicka, Joe: Generating random correlation matrices based on vines and
    extended onion method (2009).

    Parameters
    ----------
    dim : int
        Rows of the matrices, 2 at least.
    concentration : float or Tensor
        1 for the uniform distribution.
    validate_args : bool, optional

    Raises
    ------
    ValueError
        If `dim` is less than 2.

    Examples
    --------
    >>> from fastgrad.distributions import LKJCholesky
    >>> LKJCholesky(3, 0.5).sample().shape
    fastgrad.Size([3, 3])
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        marginal = self.concentration + 0.5 * (dim - 2)
        places = fg.arange(dim - 1, dtype=marginal.dtype, device=marginal.device)
        offset = fg.cat([places.new_zeros((1,)), places])
        self._beta = Beta(offset + 0.5, marginal.unsqueeze(-1) - 0.5 * offset)
        super().__init__(self.concentration.shape, (dim, dim), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._expanded(batch_shape, _instance, "concentration", base=LKJCholesky)
        made.dim, made._beta = self.dim, self._beta.expand((*batch_shape, self.dim))
        return made

    def sample(self, sample_shape: Any = ()) -> Any:
        with fg.no_grad():
            y = self._beta.sample(sample_shape).unsqueeze(-1)
            noise = standard_normal(self._extended_shape(sample_shape), y).tril(-1)
            length = (noise * noise).sum(-1, keepdim=True).sqrt()
            w = y.sqrt() * fg.where(length > 0, noise / length, 0.0)
            rest = (1 - (w * w).sum(-1)).clamp(min=fg.finfo(w.dtype).tiny)
            return w + fg.diag_embed(rest.sqrt())

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = fg.arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        found = (order * diagonal.log()).sum(-1)
        n = self.dim - 1
        alpha = self.concentration + 0.5 * n
        normalizer = fg.mvlgamma(alpha - 0.5, n) - fg.lgamma(alpha) * n
        return found - 0.5 * n * math.log(math.pi) - normalizer
