"""Invertible functions with known Jacobians, of which `TransformedDistribution` makes distributions.

Examples
--------
>>> import fastgrad as fg
>>> from fastgrad.distributions.transforms import ExpTransform
>>> t = ExpTransform()
>>> y = t(fg.tensor([0.0, 1.0]))
>>> t.inv(y)
tensor([0., 1.])
>>> t.log_abs_det_jacobian(fg.tensor(2.0), y)
tensor(2.)
"""

from __future__ import annotations

import functools
import math
from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.compositions import (
    CatTransform,
    ComposeTransform,
    IndependentTransform,
    ReshapeTransform,
    StackTransform,
    Transform,
    identity_transform,
)
from fastgrad.distributions.distribution import Distribution
from fastgrad.distributions.utils import (
    broadcast_all,
    is_scalar,
    linalg,
    sum_rightmost,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)
from fastgrad.nn.functional import logsigmoid, pad, softplus

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
    "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
    "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform",
    "identity_transform",
]  # fmt: skip


class _Simple(Transform):
    """A transform without parameters: two of a class are equal."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    __hash__ = Transform.__hash__


class _Increasing(_Simple):
    bijective = True
    sign = +1  # type: ignore[assignment]
    domain = constraints.real


class ExpTransform(_Increasing):
    """``y = exp(x)``."""

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class PowerTransform(Transform):
    """``y = x ** exponent`` of positive numbers.

    Parameters
    ----------
    exponent : number or Tensor
    cache_size : int
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size)

    @functools.cached_property
    def sign(self) -> Any:
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all())

    __hash__ = Transform.__hash__

    def _call(self, x: Any) -> Any:
        return x.pow(self.exponent)

    def _inverse(self, y: Any) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return (self.exponent * y / x).abs().log()

    def _event(self, shape: Any) -> Any:
        return fg.broadcast_shapes(tuple(shape), tuple(getattr(self.exponent, "shape", ())))

    forward_shape = inverse_shape = _event


class SigmoidTransform(_Increasing):
    """``y = 1 / (1 + exp(-x))``, kept from 0 and 1."""

    codomain = constraints.unit_interval

    def _call(self, x: Any) -> Any:
        known = fg.finfo(x.dtype)
        return x.sigmoid().clamp(min=known.tiny, max=1.0 - known.eps)

    def _inverse(self, y: Any) -> Any:
        known = fg.finfo(y.dtype)
        kept = y.clamp(min=known.tiny, max=1.0 - known.eps)
        return kept.log() - (-kept).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(_Increasing):
    """``y = log(1 + exp(x))``."""

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return softplus(x)

    def _inverse(self, y: Any) -> Any:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -softplus(-x)


class TanhTransform(_Increasing):
    """``y = tanh(x)``."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return fg.atanh(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(_Simple):
    """``y = |x|``; the inverse gives the positive one of two."""

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class AffineTransform(Transform):
    """``y = loc + scale x``.

    Parameters
    ----------
    loc, scale : Tensor or float
    event_dim : int
        How many of the last dimensions are one event.
    cache_size : int
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @property
    def domain(self) -> Any:  # type: ignore[override]
        real = constraints.real
        return constraints.independent(real, self.event_dim) if self.event_dim else real

    codomain = domain  # type: ignore[assignment]

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False

        def same(a: Any, b: Any) -> bool:
            return a == b if is_scalar(a) and is_scalar(b) else bool(fg.as_tensor(a == b).all())

        return same(self.loc, other.loc) and same(self.scale, other.scale)

    __hash__ = Transform.__hash__

    @property
    def sign(self) -> Any:
        if is_scalar(self.scale):
            return 1 if self.scale > 0 else -1 if self.scale < 0 else 0
        return self.scale.sign()

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if is_scalar(self.scale):
            result = fg.full_like(x, math.log(abs(self.scale)))
        else:
            result = fg.abs(self.scale).log()
        result = sum_rightmost(result, self.event_dim) if self.event_dim else result
        return result.expand(tuple(x.shape[: x.dim() - self.event_dim]))

    def _event(self, shape: Any) -> Any:
        sizes = (tuple(getattr(v, "shape", ())) for v in (self.loc, self.scale))
        return fg.broadcast_shapes(tuple(shape), *sizes)

    forward_shape = inverse_shape = _event


class CorrCholeskyTransform(Transform):
    """Vectors of length ``D (D - 1) / 2`` to Cholesky factors of D by D correlation matrices.

    Each row of the factor is a point of a half sphere, made of tanh of its numbers by stick breaking
    (Lewandowski, Kurowicka, Joe: Generating random correlation matrices, 2009).
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Any) -> Any:
        eps = fg.finfo(x.dtype).eps
        r = vec_to_tril_matrix(fg.tanh(x).clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - r * r).sqrt().cumprod(-1)
        r = r + fg.eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return r * pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        used: Any = fg.cumsum(y * y, dim=-1)
        left = pad((1 - used)[..., :-1], [1, 0], value=1)
        t = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Any, y: Any, intermediates: Any = None) -> Any:
        left = 1 - (y * y).cumsum(dim=-1)
        stick = 0.5 * tril_matrix_to_vec(left, diag=-2).log().sum(-1)
        return stick - 2 * (x + softplus(-2 * x) - math.log(2.0)).sum(dim=-1)

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        n = shape[-1]
        d = round((0.25 + 2 * n) ** 0.5 + 0.5)
        if d * (d - 1) // 2 != n:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return fg.Size((*shape[:-1], d, d))

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return fg.Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


class SoftmaxTransform(_Simple):
    """Vectors to points of the simplex by softmax; not bijective, and without a Jacobian determinant."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Any) -> Any:
        probs = (x - x.amax(-1, True)).exp()
        return probs / probs.sum(-1, True)

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(_Simple):
    """Vectors to points of the simplex with one element more: each takes a share of what the others left."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    @staticmethod
    def _offset(n: int, like: Any) -> Any:
        return fg.arange(n, 0, -1, dtype=like.dtype, device=like.device)

    def _call(self, x: Any) -> Any:
        z = SigmoidTransform()._call(x - self._offset(x.shape[-1], x).log())
        return pad(z, [0, 1], value=1) * pad((1 - z).cumprod(-1), [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        cropped = y[..., :-1]
        left = (1 - cropped.cumsum(-1)).clamp(min=fg.finfo(y.dtype).tiny)
        return cropped.log() - left.log() + self._offset(cropped.shape[-1], y).log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        moved = x - self._offset(x.shape[-1], x).log()
        return (-moved + logsigmoid(moved) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return fg.Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return fg.Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(_Simple):
    """Square matrices to lower triangular ones with a positive diagonal: what is above is dropped, the diagonal exp."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + fg.diag_embed(x.diagonal(dim1=-2, dim2=-1).exp())

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + fg.diag_embed(y.diagonal(dim1=-2, dim2=-1).log())


class PositiveDefiniteTransform(_Simple):
    """Square matrices to positive definite ones: the factor of `LowerCholeskyTransform` times its transpose."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Any) -> Any:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.transpose(-2, -1)

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform().inv(linalg.cholesky(y))


class CumulativeDistributionTransform(Transform):
    """The distribution function of a distribution of numbers, onto the unit interval.

    Parameters
    ----------
    distribution : Distribution
    cache_size : int
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = +1  # type: ignore[assignment]

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:  # type: ignore[override]
        return self.distribution.support

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size)
