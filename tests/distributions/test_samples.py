"""Samples have the distributions that they should have, and move with parameters as these say."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

import fastgrad as fg
from fastgrad import distributions as D  # noqa: N812 - as programs call it
from fastgrad.functions import draws
from tests.distribution_cases import CASES, MATRICES, identity, made

COUNT = 20000


def d64(*values):
    return fg.tensor(values, dtype=fg.float64)


def farthest(probabilities):
    """The distance of Kolmogorov and Smirnov from the uniform distribution, times the root of the count."""
    u = np.sort(probabilities)
    n = len(u)
    steps = np.arange(n + 1) / n
    return max(np.max(steps[1:] - u), np.max(u - steps[:-1])) * math.sqrt(n)


@pytest.mark.parametrize("dtype", [fg.float32, fg.float64])
def test_gamma_by_its_distribution_function(dtype):
    generator = fg.Generator().manual_seed(3)
    for shape in (0.05, 0.5, 1.0, 2.5, 40.0, 3e4):
        a = fg.full((COUNT,), shape, dtype=dtype)
        x = draws.standard_gamma(a, generator)
        # What is smaller than the smallest number of float32 becomes that one.
        kept = x > fg.finfo(dtype).tiny
        u = fg.igamma(a.double(), x.double())[kept].numpy()
        low = float(fg.igamma(d64(shape), d64(fg.finfo(dtype).tiny)).item())
        assert farthest((u - low) / (1 - low)) < 1.9, shape


def test_counts_by_their_probabilities():
    """Chi-squared tests over values that are expected often enough."""
    fg.manual_seed(5)
    cases = [D.Poisson(rate) for rate in (0.0, 0.3, 4.0, 9.9, 10.1, 60.0)]
    cases += [
        D.Binomial(n, p)
        for n, p in ((1, 0.3), (20, 0.1), (40, 0.5), (50, 0.9), (300, 0.4), (9, 1.0), (0, 0.5))
    ]
    cases += [D.Geometric(0.3), D.NegativeBinomial(3.5, 0.4)]
    for p in cases:
        x = p.sample((COUNT,)).numpy()
        top = int(x.max()) + 1
        values = fg.arange(top + 1, dtype=fg.float32)
        inside = p.support.check(values)
        expected = COUNT * p.log_prob(fg.where(inside, values, 0.0)).exp().numpy() * inside.numpy()
        found = np.bincount(x.astype(np.int64), minlength=top + 1)
        often = expected > 8
        rest = COUNT - expected[often].sum(), COUNT - found[often].sum()
        statistic = ((found - expected)[often] ** 2 / expected[often]).sum()
        if rest[0] > 8:
            statistic += (rest[1] - rest[0]) ** 2 / rest[0]
        freedom = max(int(often.sum()), 1)
        assert statistic < freedom + 4.5 * math.sqrt(2 * freedom), p


@pytest.mark.parametrize(
    "case", CASES + MATRICES, ids=identity
)  # fmt: skip
def test_moments(case):
    """Of what has any, over samples."""
    fg.manual_seed(11)
    p = made(fg, case)[0]
    if case.name in (
        "Cauchy",
        "HalfCauchy",
        "VonMises",
        "Categorical",
        "StudentT",
        "FisherSnedecor",
        "InverseGamma",
    ):
        pytest.skip("without moments, or with heavy tails")
    if case.name in ("LogisticNormal", "LKJCholesky") or case.name.startswith("Relaxed"):
        pytest.skip("without formulas for moments")
    if case.name == "Pareto":
        p = D.Pareto(d64(0.05, 0.1), d64(9.0, 12.0))
    x = p.sample((COUNT,))
    deviation = (x.mean(0) - p.mean).abs() / (p.variance / COUNT).sqrt()
    assert bool((deviation < 4.5).all()), deviation
    spread = ((x - p.mean) ** 2).mean(0)
    assert bool((spread / p.variance - 1).abs().max() < 0.35)


def test_continuous_samples_by_their_distribution_functions():
    fg.manual_seed(17)
    one = [
        D.Normal(0.5, 2.0), D.Laplace(0.5, 2.0), D.Cauchy(0.5, 2.0), D.Gumbel(0.5, 2.0), D.Uniform(-1.0, 3.0),
        D.Exponential(2.0), D.Gamma(0.7, 3.0), D.HalfNormal(2.0), D.HalfCauchy(2.0), D.LogNormal(0.5, 0.75),
        D.Weibull(2.0, 1.5), D.Pareto(1.0, 2.0), D.Kumaraswamy(1.5, 2.5), D.ContinuousBernoulli(0.2),
        D.GeneralizedPareto(0.5, 2.0, 0.25), D.GeneralizedPareto(0.5, 2.0, -0.25),
        D.MixtureSameFamily(
            D.Categorical(fg.tensor([0.25, 0.75])), D.Normal(fg.tensor([-2.0, 1.0]), fg.tensor([1.0, 0.5]))
        ),
    ]  # fmt: skip
    for p in one:
        assert farthest(p.cdf(p.sample((COUNT,))).numpy()) < 1.9, p


def test_von_mises_and_beta_by_sums():
    """Whose distribution functions are sums of their densities here."""
    fg.manual_seed(19)
    for p, ends in ((D.VonMises(0.5, 2.0), (-math.pi, math.pi)), (D.Beta(1.5, 3.0), (0.0, 1.0))):
        grid = fg.linspace(*ends, 4001)
        middle = (grid[1:] + grid[:-1]) / 2
        cdf = np.concatenate(
            [[0.0], np.cumsum(p.log_prob(middle).exp().numpy() * (ends[1] - ends[0]) / 4000)]
        )
        assert abs(cdf[-1] - 1) < 1e-3
        assert farthest(np.interp(p.sample((COUNT,)).numpy(), grid.numpy(), cdf)) < 1.9


def test_reproducible():
    """By seed and generator, whatever the layout and the number of threads."""
    threads = fg.get_num_threads()
    rates = fg.rand(300, 300) * 30
    kept = []
    try:
        for count in (1, 2):
            fg.set_num_threads(count)
            g = fg.Generator().manual_seed(1)
            kept.append(
                (
                    fg.poisson(rates, g),
                    fg.binomial(rates.floor(), rates / 31, g),
                    draws.standard_gamma(rates, g),
                )
            )
    finally:
        fg.set_num_threads(threads)
    assert all(fg.equal(a, b) for a, b in zip(*kept, strict=True))
    assert len({float(x) for x in draws.standard_gamma(fg.ones(1000)).numpy()}) > 990
    for seed in (1, 2):
        fg.manual_seed(seed)
        first = D.Dirichlet(fg.ones(3)).sample((5,))
        fg.manual_seed(seed)
        assert fg.equal(first, D.Dirichlet(fg.ones(3)).sample((5,)))
    assert fg.equal(fg.poisson(rates.T, fg.Generator().manual_seed(4)).sum() * 0, fg.tensor(0.0))  # strided


def test_edges():
    nan = float("nan")
    assert fg.poisson(fg.tensor([0.0, nan])).isnan().tolist() == [False, True]
    assert fg.binomial(fg.tensor([3.0, 3.0, -1.0, nan]), fg.tensor([1.0, 2.0, 0.5, 0.5])).isnan().tolist() == [
        False, True, True, True,
    ]  # fmt: skip
    assert draws.standard_gamma(fg.tensor([-1.0, nan, float("inf")])).isnan().all()
    assert draws.standard_gamma(fg.tensor(0.0)) == fg.finfo(fg.float32).tiny
    assert fg.poisson(fg.zeros(0, 3)).shape == (0, 3)
    big = fg.poisson(d64(1e15))
    assert abs(big.item() - 1e15) < 6e8
    big = fg.binomial(d64(1e12), d64(0.25))
    assert abs(big.item() - 2.5e11) < 6 * math.sqrt(1e12 / 4)
    for dtype in (fg.float16, fg.bfloat16):
        x = draws.standard_gamma(fg.full((100,), 3.0, dtype=dtype))
        assert x.dtype is dtype
        assert 1 < float(x.float().mean()) < 6
    with pytest.raises(RuntimeError, match="non-negative"):
        fg.poisson(fg.tensor([-1.0]))
    with pytest.raises(NotImplementedError, match="poisson"):
        fg.poisson(fg.tensor([1]))
    with pytest.raises(TypeError, match="poisson"):
        fg.poisson(None)
    with pytest.raises(ValueError, match="binomial"):
        fg.binomial(fg.tensor([1]), fg.tensor([0.5]))
    with pytest.raises(TypeError, match="prob"):
        fg.binomial(fg.tensor([1.0]), 0.5)
    with pytest.raises(TypeError, match="generator"):
        fg.poisson(fg.ones(1), 3)


def test_gamma_samples_move_with_their_place_held():
    """The derivative of ``P(a, x(a)) = const`` by differences."""
    a, x = (
        t.reshape(-1)
        for t in fg.meshgrid(
            d64(0.01, 0.3, 1.0, 4.0, 30.0, 400.0, 9000.0, 2e4), d64(-3, -1, -0.1, 0.5, 2, 4), indexing="ij"
        )
    )
    x = (a + x * a.sqrt()).clamp(min=1e-3) * (1 + 0 * a)
    h = a * 1e-5
    density = ((a - 1) * x.log() - x - fg.lgamma(a)).exp()
    slope = (fg.igamma(a + h, x) - fg.igamma(a - h, x)) / (2 * h)
    expected = -slope / density
    found = draws.standard_gamma_grad(a, x)
    known = (fg.igamma(a, x) > 1e-4) & (fg.igammac(a, x) > 1e-4)
    error = ((found - expected).abs() / expected.abs())[known]
    assert int(known.sum()) > 25
    assert float(error.max()) < 2e-4
    y = a.clone().requires_grad_()
    z = draws.standard_gamma(y)
    z.sum().backward()
    assert fg.allclose(y.grad, draws.standard_gamma_grad(a, z.detach()))


def test_pathwise_gradients_of_means():
    """Gradients of means over samples are those of the means."""
    fg.manual_seed(23)
    for kind, values in (
        (D.Gamma, (2.5, 1.5)), (D.Beta, (0.7, 2.0)), (D.Normal, (1.0, 2.0)), (D.Chi2, (3.0,)),
        (D.LogNormal, (0.1, 0.5)),
        (D.Weibull, (2.0, 1.5)), (D.Kumaraswamy, (2.0, 3.0)), (D.Gumbel, (1.0, 2.0)), (D.Laplace, (1.0, 2.0)),
    ):  # fmt: skip
        params = [fg.tensor(v, dtype=fg.float64, requires_grad=True) for v in values]
        found = fg.autograd.grad(kind(*params).rsample((COUNT,)).mean(), params)
        expected = fg.autograd.grad(kind(*params).mean, params, allow_unused=True)
        for a, b in zip(found, expected, strict=True):
            assert abs(float(a) - float(0 if b is None else b)) < 0.08, kind
    a = d64(0.3, 1.0, 5.0).requires_grad_()
    weights = d64(1.0, 2.0, -1.0)
    found = fg.autograd.grad((D.Dirichlet(a).rsample((COUNT,)).mean(0) * weights).sum(), a)[0]
    expected = fg.autograd.grad((D.Dirichlet(a).mean * weights).sum(), a)[0]
    assert bool((found - expected).abs().max() < 0.01)


@pytest.mark.parametrize(
    "name", ["HalfCauchy", "HalfNormal", "LogNormal", "InverseGamma", "Pareto", "LogisticNormal"]
)
def test_transformed_distributions_keep_their_leaves(name: str):
    scale = fg.ones(3, requires_grad=True)
    made = getattr(D, name)(
        *((scale,) if name.startswith("Half") else (fg.ones(3, requires_grad=True), scale))
    )
    again = copy.deepcopy(made)
    assert again.batch_shape == made.batch_shape
    assert again.event_shape == made.event_shape


def test_the_support_of_a_mixture_has_one_answer_for_each_sample():
    weights = D.Categorical(fg.ones(2))
    flat = D.MixtureSameFamily(weights, D.Exponential(fg.ones(2)))
    assert flat.support.check(fg.tensor([1.0, -1.0, 2.0])).tolist() == [True, False, True]
    vectors = D.MixtureSameFamily(weights, D.Independent(D.Exponential(fg.ones(2, 3)), 1))
    assert vectors.support.check(fg.tensor([[1.0, 2.0, 3.0], [1.0, -2.0, 3.0]])).tolist() == [True, False]


def test_one_hot_samples_may_be_bool():
    d = D.OneHotCategorical(fg.tensor([0.25, 0.75]))
    assert d.log_prob(fg.tensor([False, True])).item() == pytest.approx(math.log(0.75))


@pytest.mark.parametrize("dtype", [fg.float32, fg.float64])
def test_von_mises_at_the_ends_of_its_concentrations(dtype):
    kappa = fg.tensor([0.0, 1e16, math.inf, math.nan], dtype=dtype)
    drawn = D.VonMises(fg.zeros(4, dtype=dtype), kappa, validate_args=False).sample((4000,))
    assert drawn.dtype == dtype
    assert farthest(drawn[:, 0].double().numpy() / (2 * math.pi) + 0.5) < 2
    assert drawn[:, 1].abs().max() < 1e-6
    assert drawn[:, 2].abs().max() < 1e-6
    assert drawn[:, 3].isnan().all()
