"""The multivariate normal distribution."""

from __future__ import annotations

import math
from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.distribution import Distribution
from fastgrad.distributions.utils import lazy_property, linalg, standard_normal

__all__ = ["MultivariateNormal"]


def batch_mv(matrices: Any, vectors: Any) -> Any:
    """Matrices times vectors; their batches broadcast."""
    return (matrices @ vectors.unsqueeze(-1)).squeeze(-1)


def batch_mahalanobis(tril: Any, x: Any) -> Any:
    """``x^T (L L^T)^-1 x`` for lower triangular L."""
    shape = fg.broadcast_shapes(tuple(tril.shape[:-2]), tuple(x.shape[:-1]))
    n = tril.shape[-1]
    solved = linalg.solve_triangular(
        tril.expand(*shape, n, n), x.expand(*shape, n).unsqueeze(-1), upper=False
    )
    return solved.square().sum((-2, -1))


def half_log_det(tril: Any) -> Any:
    """The logarithm of the determinant of a triangular matrix."""
    return tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def eye_like(matrix: Any) -> Any:
    """The unit matrix of the size of the last dimension."""
    return fg.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)


def precision_to_scale_tril(precision: Any) -> Any:
    """The lower Cholesky factor of the inverse: that of the matrix turned by half, turned back and inverted."""
    turned = linalg.cholesky(fg.flip(precision, (-2, -1)))
    upper = fg.flip(turned, (-2, -1)).transpose(-2, -1)
    return linalg.solve_triangular(upper, eye_like(precision).expand(upper.shape), upper=False)


def inverse_of_factored(tril: Any) -> Any:
    """``(L L^T)^-1``."""
    inverse = linalg.solve_triangular(tril, eye_like(tril).expand(tril.shape), upper=False)
    return inverse.transpose(-2, -1) @ inverse


class MultivariateNormal(Distribution):
    """Normal vectors with a mean and a covariance matrix.

    Parameters
    ----------
    loc : Tensor
        The mean.
    covariance_matrix, precision_matrix, scale_tril : Tensor
        One of the three: the covariance, its inverse, or its lower Cholesky factor, with which alone it is computed.
    validate_args : bool, optional

    Raises
    ------
    ValueError
        If not exactly one matrix is given, or a parameter has too few dimensions.

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.distributions import MultivariateNormal
    >>> MultivariateNormal(fg.zeros(2), scale_tril=fg.eye(2)).variance
    tensor([1., 1.])
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        named = [(name, value) for name, value in given.items() if value is not None]
        if len(named) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
            )
        name, matrix = named[0]
        if matrix.dim() < 2:
            raise ValueError(
                f"{name} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch = fg.broadcast_shapes(tuple(matrix.shape[:-2]), tuple(loc.shape[:-1]))
        setattr(self, name, matrix.expand(*batch, -1, -1))
        self.loc = loc.expand(*batch, -1)
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        if scale_tril is not None:
            self._unbroadcasted_scale_tril = scale_tril
        elif covariance_matrix is not None:
            self._unbroadcasted_scale_tril = linalg.cholesky(covariance_matrix)
        else:
            self._unbroadcasted_scale_tril = precision_to_scale_tril(precision_matrix)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._expanded(batch_shape, _instance, base=MultivariateNormal)
        made.loc = self.loc.expand((*batch_shape, *self.event_shape))
        made._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        for name in {"covariance_matrix", "precision_matrix", "scale_tril"} & vars(self).keys():
            matrix = vars(self)[name].expand((*batch_shape, *self.event_shape, *self.event_shape))
            setattr(made, name, matrix)
        return made

    def _square(self, matrix: Any) -> Any:
        return matrix.expand((*self._batch_shape, *self._event_shape, *self._event_shape))

    @lazy_property
    def scale_tril(self) -> Any:
        """The lower Cholesky factor of the covariance."""
        return self._square(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        tril = self._unbroadcasted_scale_tril
        return self._square(tril @ tril.transpose(-2, -1))

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        return self._square(inverse_of_factored(self._unbroadcasted_scale_tril))

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        squares = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return squares.expand((*self._batch_shape, *self._event_shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        noise = standard_normal(self._extended_shape(sample_shape), self.loc)
        return self.loc + batch_mv(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        distance = batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        n = self._event_shape[0]
        half = half_log_det(self._unbroadcasted_scale_tril)
        return -0.5 * (n * math.log(2 * math.pi) + distance) - half

    def entropy(self) -> Any:
        n = self._event_shape[0]
        found = 0.5 * n * (1.0 + math.log(2 * math.pi)) + half_log_det(self._unbroadcasted_scale_tril)
        return found.expand(self._batch_shape) if self._batch_shape else found
