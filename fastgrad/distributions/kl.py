"""The Kullback-Leibler divergence, and the table of pairs of classes that it is known for.

Pairs of one class have formulas of their own. For others it is minus the entropy of p, less the mean over p of the log
density of q, which takes a few means over p: see `_Means` and ``_LOG_DENSITY``.

Examples
--------
>>> import fastgrad as fg
>>> from fastgrad.distributions import Gamma, Normal, kl_divergence
>>> kl_divergence(Gamma(2.0, 1.0), Normal(2.0, 1.0))
tensor(0.3417)
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import fastgrad as fg
from fastgrad.distributions.bernoulli import Bernoulli
from fastgrad.distributions.beta import Beta
from fastgrad.distributions.binomial import Binomial
from fastgrad.distributions.categorical import Categorical
from fastgrad.distributions.cauchy import Cauchy
from fastgrad.distributions.continuous_bernoulli import ContinuousBernoulli
from fastgrad.distributions.dirichlet import Dirichlet
from fastgrad.distributions.exp_family import ExponentialFamily
from fastgrad.distributions.exponential import Exponential
from fastgrad.distributions.gamma import Gamma
from fastgrad.distributions.geometric import Geometric
from fastgrad.distributions.gumbel import Gumbel
from fastgrad.distributions.half_normal import HalfNormal
from fastgrad.distributions.independent import Independent
from fastgrad.distributions.laplace import Laplace
from fastgrad.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from fastgrad.distributions.multivariate_normal import (
    MultivariateNormal,
    batch_mahalanobis,
    half_log_det,
)
from fastgrad.distributions.normal import Normal
from fastgrad.distributions.one_hot_categorical import OneHotCategorical
from fastgrad.distributions.pareto import Pareto
from fastgrad.distributions.poisson import Poisson
from fastgrad.distributions.transformed_distribution import TransformedDistribution
from fastgrad.distributions.uniform import Uniform
from fastgrad.distributions.utils import euler_constant, sum_rightmost
from fastgrad.nn.functional import softplus

__all__ = ["kl_divergence", "register_kl"]

Formula = Callable[[Any, Any], Any]
_REGISTRY: dict[tuple[type, type], Formula] = {}
_FOUND: dict[tuple[type, type], Formula | None] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Formula], Formula]:
    """A decorator: the function computes the divergence for a pair of classes, and for their subclasses.

    Of several that fit, the one for the more special classes counts, that of p first.

    Raises
    ------
    TypeError
        If one is no class. Classes that are no `Distribution` may be named, as in PyTorch: libraries have their own.
    """
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind}")

    def register(function: Formula) -> Formula:
        _REGISTRY[type_p, type_q] = function
        _FOUND.clear()
        return function

    return register


def _dispatch(type_p: type, type_q: type) -> Formula | None:
    fitting = [pair for pair in _REGISTRY if issubclass(type_p, pair[0]) and issubclass(type_q, pair[1])]
    if not fitting:
        return None

    def nearest(pairs: Any) -> Any:
        """The pair whose classes stand first in the orders of resolution, as an order over tuples."""
        return min(pairs, key=lambda pair: tuple(k.index(c) for k, c in zip(pairs_order, pair, strict=True)))

    pairs_order = (type_p.__mro__, type_q.__mro__)
    left = nearest(fitting)
    pairs_order = (type_q.__mro__, type_p.__mro__)
    q, p = nearest([(q, p) for p, q in fitting])
    if _REGISTRY[left] is not _REGISTRY[p, q]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl({left[0].__name__}, "
            f"{q.__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _REGISTRY[left]


def kl_divergence(p: Any, q: Any) -> Any:
    """``E_p[log p - log q]``, a number for each of the batch.

    Parameters
    ----------
    p, q : Distribution

    Raises
    ------
    NotImplementedError
        If it is not known for a pair of classes.
    """
    pair = type(p), type(q)
    if pair not in _FOUND:
        _FOUND[pair] = _dispatch(*pair)
    function = _FOUND[pair]
    if function is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    return function(p, q)


# --- pairs of one class ------------------------------------------------------------------------------------------


def _own(kind: type) -> Callable[[Formula], Formula]:
    return register_kl(kind, kind)


def _infinite_where(condition: Any, value: Any) -> Any:
    return fg.where(condition, math.inf, value)


@_own(Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    ones = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    ones = fg.where(p.probs == 0, 0.0, _infinite_where(q.probs == 0, ones))
    zeros = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    return ones + fg.where(p.probs == 1, 0.0, _infinite_where(q.probs == 1, zeros))


@_own(Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    normalizers = a.sum(-1).lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return normalizers + ((a - b) * (a.digamma() - a.sum(-1).digamma().unsqueeze(-1))).sum(-1)


@_own(Beta)
def _beta(p: Any, q: Any) -> Any:
    return _dirichlet(p._dirichlet, q._dirichlet)


@_own(Binomial)
def _binomial(p: Any, q: Any) -> Any:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    single = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return _infinite_where(p.total_count > q.total_count, p.total_count * single)


@_own(Categorical)
def _categorical(p: Any, q: Any) -> Any:
    terms = _infinite_where(q.probs == 0, p.probs * (p.logits - q.logits))
    return fg.where(p.probs == 0, 0.0, terms).sum(-1)


@_own(OneHotCategorical)
def _one_hot_categorical(p: Any, q: Any) -> Any:
    return _categorical(p._categorical, q._categorical)


@_own(ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Any:
    first = p.mean * (p.logits - q.logits) + p._cont_bern_log_norm() + fg.log1p(-p.probs)
    return first - q._cont_bern_log_norm() - fg.log1p(-q.probs)


@_own(Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@_own(Gamma)
def _gamma(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    first = b * (p.rate / q.rate).log() + fg.lgamma(b) - fg.lgamma(a)
    return first + (a - b) * fg.digamma(a) + (q.rate - p.rate) * (a / p.rate)


@_own(Gumbel)
def _gumbel(p: Any, q: Any) -> Any:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc) / q.scale
    first = apart - ratio.log() + ratio * euler_constant
    return first + fg.exp((1 + ratio).lgamma() - apart) - (1 + euler_constant)


@_own(Geometric)
def _geometric(p: Any, q: Any) -> Any:
    return -p.entropy() - fg.log1p(-q.probs) / p.probs - q.logits


@_own(Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc).abs()
    return apart / q.scale + ratio * fg.exp(-apart / p.scale) - ratio.log() - 1


@_own(Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@_own(HalfNormal)
def _half_normal(p: Any, q: Any) -> Any:
    return _normal(p.base_dist, q.base_dist)


@_own(Pareto)
def _pareto(p: Any, q: Any) -> Any:
    ratio = q.alpha / p.alpha
    found = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return _infinite_where(p.scale < q.scale, found)


@_own(Poisson)
def _poisson(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@_own(Uniform)
def _uniform(p: Any, q: Any) -> Any:
    found = ((q.high - q.low) / (p.high - p.low)).log()
    return _infinite_where((q.low > p.low) | (q.high < p.high), found)


@_own(Cauchy)
def _cauchy(p: Any, q: Any) -> Any:
    spread = ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log()
    return spread - (4 * p.scale * q.scale).log()


@_own(ExponentialFamily)
def _exponential_family(p: Any, q: Any) -> Any:
    """The divergence of Bregman of the function A of the natural parameters."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman "
            "divergences"
        )
    params = [x.detach().requires_grad_() for x in p._natural_params]
    normalizer = p._log_normalizer(*params)
    slopes = fg.autograd.grad(normalizer.sum(), params, create_graph=True)
    result = q._log_normalizer(*q._natural_params) - normalizer
    for x, y, slope in zip(params, q._natural_params, slopes, strict=True):
        result = result - sum_rightmost((y - x) * slope, len(q.event_shape))
    return result


@_own(TransformedDistribution)
def _transformed(p: Any, q: Any) -> Any:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            "kl_divergence(): transformed distributions need the same transforms and event shapes"
        )
    return kl_divergence(p.base_dist, q.base_dist)


@_own(Independent)
def _independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "kl_divergence(): Independent distributions need the same reinterpreted_batch_ndims"
        )
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


# --- multivariate normal distributions ---------------------------------------------------------------------------


def _log_det(x: Any) -> Any:
    if isinstance(x, LowRankMultivariateNormal):
        return x._log_det()
    return 2 * half_log_det(x._unbroadcasted_scale_tril)


def _factors(x: Any) -> list[Any]:
    """Matrices the sum of whose products with their transposes is the covariance."""
    if isinstance(x, LowRankMultivariateNormal):
        return [x._unbroadcasted_cov_factor, fg.diag_embed(x._unbroadcasted_cov_diag.sqrt())]
    return [x._unbroadcasted_scale_tril]


def _whitened_squares(q: Any, matrix: Any) -> Any:
    """The trace of ``matrix^T C^-1 matrix`` with the covariance C of q."""
    columns = matrix.transpose(-2, -1)
    if isinstance(q, LowRankMultivariateNormal):
        diag = q._unbroadcasted_cov_diag.unsqueeze(-2)
        inner = (columns / diag) @ q._unbroadcasted_cov_factor
        tril = q._capacitance_tril.unsqueeze(-3)
        return (columns.pow(2) / diag).sum((-2, -1)) - batch_mahalanobis(tril, inner).sum(-1)
    return batch_mahalanobis(q._unbroadcasted_scale_tril.unsqueeze(-3), columns).sum(-1)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p: Any, q: Any) -> Any:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two (Low Rank) Multivariate Normals with different event shapes cannot be "
            f"computed: {tuple(p.event_shape)} and {tuple(q.event_shape)}"
        )
    spread = functools.reduce(lambda a, b: a + b, (_whitened_squares(q, f) for f in _factors(p)))
    apart = _whitened_squares(q, (q.loc - p.loc).unsqueeze(-1))
    return 0.5 * (_log_det(q) - _log_det(p) + spread + apart - p.event_shape[0])


# --- other pairs -------------------------------------------------------------------------------------------------


def _xlogx(x: Any) -> Any:
    return fg.xlogy(x, x)


class _Means:
    """Means over a distribution of what log densities are made of."""

    def __init__(self, p: Any) -> None:
        self.p, self.mean = p, p.mean

    def square_around(self, place: Any) -> Any:
        """Of ``(x - place)**2``."""
        return self.p.variance + (self.mean - place).pow(2)

    @property
    def log(self) -> Any:
        """Of ``log(x)``."""
        p = self.p
        if isinstance(p, Beta):
            return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
        if isinstance(p, Exponential):
            return -euler_constant - p.rate.log()
        if isinstance(p, Gamma):
            return p.concentration.digamma() - p.rate.log()
        if isinstance(p, Pareto):
            return p.scale.log() + p.alpha.reciprocal()
        return (_xlogx(p.high) - _xlogx(p.low)) / (p.high - p.low) - 1

    @property
    def log_rest(self) -> Any:
        """Of ``log(1 - x)``, over a uniform distribution."""
        p = self.p
        return (_xlogx(1 - p.low) - _xlogx(1 - p.high)) / (p.high - p.low) - 1

    def exp(self, t: Any, place: Any) -> Any:
        """Of ``exp(-(x - place) t)``."""
        p = self.p
        if isinstance(p, Exponential):
            return fg.exp(place * t) * p.rate / (p.rate + t)
        if isinstance(p, Gamma):
            return fg.exp(place * t) * (1 + t / p.rate).pow(-p.concentration)
        if isinstance(p, Normal):
            return fg.exp((place - p.loc) * t + 0.5 * (p.scale * t).pow(2))
        ends = fg.exp(-(p.low - place) * t) - fg.exp(-(p.high - place) * t)
        return ends / (t * (p.high - p.low))


# The mean over p of the logarithm of the density of q.
_LOG_DENSITY: dict[type, Callable[[Any, _Means], Any]] = {
    Exponential: lambda q, of: q.rate.log() - q.rate * of.mean,
    Gamma: lambda q, of: (
        q.concentration * q.rate.log() - q.concentration.lgamma() + (q.concentration - 1) * of.log - q.rate * of.mean
    ),
    Normal: lambda q, of: (
        -0.5 * (2 * math.pi * q.scale.pow(2)).log() - of.square_around(q.loc) / (2 * q.scale.pow(2))
    ),
    Uniform: lambda q, of: -(q.high - q.low).log(),
    Beta: lambda q, of: (
        (q.concentration1 - 1) * of.log + (q.concentration0 - 1) * of.log_rest
        - q._log_normalizer(q.concentration1, q.concentration0)
    ),
    ContinuousBernoulli: lambda q, of: of.mean * q.logits + fg.log1p(-q.probs) + q._cont_bern_log_norm(),
    Pareto: lambda q, of: q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * of.log,
    Gumbel: lambda q, of: -q.scale.log() - (of.mean - q.loc) / q.scale - of.exp(q.scale.reciprocal(), q.loc),
    Poisson: lambda q, of: of.mean * q.rate.log() - q.rate,  # of p that are 0 or 1
}  # fmt: skip

# Which p reach where q does not, for pairs for which that depends on the parameters.
_OUTSIDE: dict[tuple[type, type], Formula] = {
    (Beta, Uniform): lambda p, q: (q.low > 0) | (q.high < 1),
    (ContinuousBernoulli, Uniform): lambda p, q: (q.low >= 0) | (q.high <= 1),
    (Uniform, Beta): lambda p, q: (p.high > 1) | (p.low < 0),
    (Uniform, ContinuousBernoulli): lambda p, q: (p.high >= 1) | (p.low <= 0),
    (Uniform, Exponential): lambda p, q: p.low < 0,
    (Uniform, Gamma): lambda p, q: p.low < 0,
    (Uniform, Pareto): lambda p, q: p.low < q.scale,
}

_BY_MEANS: dict[type, tuple[type, ...]] = {
    Bernoulli: (Poisson,),
    Beta: (ContinuousBernoulli, Exponential, Gamma, Normal, Uniform),
    ContinuousBernoulli: (Exponential, Normal, Uniform),
    Exponential: (Gamma, Gumbel, Normal),
    Gamma: (Exponential, Gumbel, Normal),
    Gumbel: (Normal,),
    Laplace: (Normal,),
    Normal: (Gumbel,),
    Pareto: (Exponential, Gamma, Normal),
    Uniform: (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Normal, Pareto),
}

_ALWAYS_INFINITE: dict[type, tuple[type, ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}


def _by_means(type_p: type, type_q: type) -> Formula:
    density, outside = _LOG_DENSITY[type_q], _OUTSIDE.get((type_p, type_q))

    def divergence(p: Any, q: Any) -> Any:
        found = -p.entropy() - density(q, _Means(p))
        return found if outside is None else _infinite_where(outside(p, q), found)

    return divergence


def _infinite(p: Any, q: Any) -> Any:
    return fg.full_like(p.mean, math.inf)


for _p, _qs in _BY_MEANS.items():
    for _q in _qs:
        register_kl(_p, _q)(_by_means(_p, _q))
for _p, _qs in _ALWAYS_INFINITE.items():
    for _q in _qs:
        register_kl(_p, _q)(_infinite)


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Any:
    apart = p.loc - q.loc
    z = apart / p.scale
    near = math.sqrt(2 / math.pi) * p.scale * fg.exp(-0.5 * z.pow(2))
    distance = near + apart * fg.erf(math.sqrt(0.5) * z)
    return distance / q.scale - (p.scale / q.scale).log() - 0.5 * (1 + math.log(0.5 * math.pi))
