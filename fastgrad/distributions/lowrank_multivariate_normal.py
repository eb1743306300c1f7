"""Multivariate normal distributions whose covariance has few large directions."""

from __future__ import annotations

import math
from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.distribution import Distribution
from fastgrad.distributions.multivariate_normal import (
    batch_mahalanobis,
    batch_mv,
    eye_like,
    half_log_det,
)
from fastgrad.distributions.utils import lazy_property, linalg, standard_normal

__all__ = ["LowRankMultivariateNormal"]


class LowRankMultivariateNormal(Distribution):
    """Normal vectors with the covariance ``cov_factor cov_factor^T + diag(cov_diag)``.

    Determinant and inverse are those of a matrix of the rank of `cov_factor` (Woodbury's identity).

    Parameters
    ----------
    loc : Tensor
        The mean, of shape (..., n).
    cov_factor : Tensor
        Of shape (..., n, rank).
    cov_diag : Tensor
        Positive, of shape (..., n).
    validate_args : bool, optional

    Raises
    ------
    ValueError
        If shapes do not fit.
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch dimensions"
            )
        if tuple(cov_factor.shape[-2:-1]) != tuple(event):
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event[0]} x m")
        if tuple(cov_diag.shape[-1:]) != tuple(event):
            raise ValueError(f"cov_diag must be a batch of vectors with shape {tuple(event)}")
        try:
            batch = fg.broadcast_shapes(
                tuple(loc.shape[:-1]), tuple(cov_factor.shape[:-2]), tuple(cov_diag.shape[:-1])
            )
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {tuple(loc.shape)}, cov_factor {tuple(cov_factor.shape)}, "
                f"cov_diag {tuple(cov_diag.shape)}"
            ) from error
        self.loc, self.cov_diag = loc.expand(*batch, -1), cov_diag.expand(*batch, -1)
        self.cov_factor = cov_factor.expand(*batch, -1, -1)
        super().__init__(batch, event, validate_args=validate_args)
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        scaled = cov_factor.transpose(-2, -1) / cov_diag.unsqueeze(-2)
        capacitance = scaled @ cov_factor
        self._capacitance_tril = linalg.cholesky(capacitance + eye_like(capacitance))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._expanded(batch_shape, _instance, base=LowRankMultivariateNormal)
        shape = (*batch_shape, *self.event_shape)
        made.loc, made.cov_diag = self.loc.expand(shape), self.cov_diag.expand(shape)
        made.cov_factor = self.cov_factor.expand((*shape, self.cov_factor.shape[-1]))
        for name in ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril"):
            setattr(made, name, getattr(self, name))
        return made

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @lazy_property
    def variance(self) -> Any:
        found = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return found.expand((*self._batch_shape, *self._event_shape))

    def _square(self, matrix: Any) -> Any:
        return matrix.expand((*self._batch_shape, *self._event_shape, *self._event_shape))

    @lazy_property
    def scale_tril(self) -> Any:
        """The lower Cholesky factor of the covariance."""
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        inner = scaled @ scaled.transpose(-2, -1)
        return self._square(root * linalg.cholesky(inner + eye_like(inner)))

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        factor = self._unbroadcasted_cov_factor
        return self._square(factor @ factor.transpose(-2, -1) + fg.diag_embed(self._unbroadcasted_cov_diag))

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        diag = self._unbroadcasted_cov_diag
        scaled = self._unbroadcasted_cov_factor.transpose(-2, -1) / diag.unsqueeze(-2)
        a = linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        return self._square(fg.diag_embed(diag.reciprocal()) - a.transpose(-2, -1) @ a)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        few = standard_normal((*shape[:-1], self.cov_factor.shape[-1]), self.loc)
        many = standard_normal(shape, self.loc)
        moved = self.loc + batch_mv(self._unbroadcasted_cov_factor, few)
        return moved + self._unbroadcasted_cov_diag.sqrt() * many

    def _mahalanobis(self, x: Any) -> Any:
        diag = self._unbroadcasted_cov_diag
        scaled = self._unbroadcasted_cov_factor.transpose(-2, -1) / diag.unsqueeze(-2)
        inner = batch_mahalanobis(self._capacitance_tril, batch_mv(scaled, x))
        return (x.pow(2) / diag).sum(-1) - inner

    def _log_det(self) -> Any:
        return 2 * half_log_det(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        distance = self._mahalanobis(value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det() + distance)

    def entropy(self) -> Any:
        found = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_det())
        return found.expand(self._batch_shape) if self._batch_shape else found
