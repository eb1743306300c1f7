"""The Wishart distribution."""

from __future__ import annotations

import math
import warnings
from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.chi2 import Chi2
from fastgrad.distributions.exp_family import ExponentialFamily
from fastgrad.distributions.multivariate_normal import (
    half_log_det,
    inverse_of_factored,
    precision_to_scale_tril,
)
from fastgrad.distributions.utils import is_scalar, lazy_property, linalg, standard_normal

__all__ = ["Wishart"]


def _mvdigamma(x: Any, p: int) -> Any:
    steps = fg.arange(p, dtype=x.dtype, device=x.device)
    return fg.digamma(x.unsqueeze(-1) - steps.div(2)).sum(-1)


class Wishart(ExponentialFamily):
    """The sum of ``x x^T`` over `df` normal vectors of mean zero.

    Parameters
    ----------
    df : float or Tensor
        Degrees of freedom, larger than the dimension less 1; need not be whole.
    covariance_matrix, precision_matrix, scale_tril : Tensor
        One of the three.
    validate_args : bool, optional

    Raises
    ------
    AssertionError
        If not exactly one matrix is given.
    ValueError
        If `df` is too small, or the matrix has too few dimensions.
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    @property
    def arg_constraints(self) -> Any:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        given = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        named = [(name, value) for name, value in given.items() if value is not None]
        if len(named) != 1:
            raise AssertionError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
            )
        name, matrix = named[0]
        if matrix.dim() < 2:
            raise ValueError(
                "scale_tril must be at least two-dimensional, with optional leading batch dimensions"
            )
        if is_scalar(df):
            batch = tuple(matrix.shape[:-2])
            self.df = fg.tensor(df, dtype=matrix.dtype, device=matrix.device).expand(batch)
        else:
            batch = tuple(fg.broadcast_shapes(tuple(matrix.shape[:-2]), tuple(df.shape)))
            self.df = df.expand(batch)
        event = matrix.shape[-2:]
        if (self.df <= event[-1] - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {event[-1] - 1}.")
        setattr(self, name, matrix.expand(*batch, -1, -1))
        if (self.df < event[-1]).any():
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        super().__init__(batch, event, validate_args=validate_args)
        if scale_tril is not None:
            self._unbroadcasted_scale_tril = scale_tril
        elif covariance_matrix is not None:
            self._unbroadcasted_scale_tril = linalg.cholesky(covariance_matrix)
        else:
            self._unbroadcasted_scale_tril = precision_to_scale_tril(precision_matrix)
        self._dist_chi2 = self._chi2()

    def _chi2(self) -> Any:
        """The squares on the diagonal of Bartlett's factor."""
        tril = self._unbroadcasted_scale_tril
        steps = fg.arange(tril.shape[-1], dtype=tril.dtype, device=tril.device)
        return Chi2(self.df.unsqueeze(-1) - steps)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._expanded(batch_shape, _instance, "df", base=Wishart)
        shape = (*batch_shape, *self.event_shape)
        made._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril.expand(shape)
        for name in {"covariance_matrix", "precision_matrix", "scale_tril"} & vars(self).keys():
            setattr(made, name, vars(self)[name].expand(shape))
        made._dist_chi2 = made._chi2()
        return made

    def _all(self, matrix: Any) -> Any:
        return matrix.expand((*self._batch_shape, *self._event_shape))

    @lazy_property
    def scale_tril(self) -> Any:
        """The lower Cholesky factor of the covariance."""
        return self._all(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance of the vectors."""
        tril = self._unbroadcasted_scale_tril
        return self._all(tril @ tril.transpose(-2, -1))

    @lazy_property
    def precision_matrix(self) -> Any:
        """Its inverse."""
        return self._all(inverse_of_factored(self._unbroadcasted_scale_tril))

    @property
    def _df(self) -> Any:
        return self.df.reshape(*self._batch_shape, 1, 1)

    @property
    def mean(self) -> Any:
        return self._df * self.covariance_matrix

    @property
    def mode(self) -> Any:
        factor = self.df - self._event_shape[-1] - 1
        factor = factor.masked_fill(factor <= 0, math.nan)
        return factor.reshape(*self._batch_shape, 1, 1) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        return self._df * (v.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _bartlett(self, sample_shape: Any) -> Any:
        root = self._dist_chi2.rsample(sample_shape).sqrt()
        root = root.clamp(min=fg.finfo(root.dtype).eps)
        below = standard_normal((*root.shape, root.shape[-1]), root).tril(-1)
        factor = self._unbroadcasted_scale_tril @ (below + fg.diag_embed(root))
        return factor @ factor.transpose(-2, -1)

    def rsample(self, sample_shape: Any = (), max_try_correction: int | None = None) -> Any:
        """Samples by Bartlett's decomposition; those that rounding made singular are drawn again, some times.

        Parameters
        ----------
        sample_shape : Size
        max_try_correction : int, default 10
            How often at most.
        """
        sample = self._bartlett(sample_shape)
        singular = ~self.support.check(sample.detach())
        if singular.any():
            warnings.warn("Singular sample detected.", stacklevel=2)
        for _ in range(10 if max_try_correction is None else max_try_correction):
            if not singular.any():
                break
            again = self._bartlett(sample_shape)
            sample = fg.where(singular.unsqueeze(-1).unsqueeze(-1), again, sample)
            singular = ~self.support.check(sample.detach())
        return sample

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        nu, p, tril = self.df, self._event_shape[-1], self._unbroadcasted_scale_tril
        inverse = inverse_of_factored(tril)
        trace = (inverse * value.transpose(-2, -1)).sum((-2, -1))
        first = -nu * (p * math.log(2) / 2 + half_log_det(tril)) - fg.mvlgamma(nu / 2, p)
        return first + (nu - p - 1) / 2 * linalg.slogdet(value).logabsdet - trace / 2

    def entropy(self) -> Any:
        nu, p = self.df, self._event_shape[-1]
        scale = p * math.log(2) / 2 + half_log_det(self._unbroadcasted_scale_tril)
        moved = (nu - p - 1) / 2 * _mvdigamma(nu / 2, p)
        return (p + 1) * scale + fg.mvlgamma(nu / 2, p) - moved + nu * p / 2

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Any, y: Any) -> Any:  # type: ignore[override]
        p = self._event_shape[-1]
        moved = y + (p + 1) / 2
        return moved * (-linalg.slogdet(-2 * x).logabsdet + math.log(2) * p) + fg.mvlgamma(moved, p)
