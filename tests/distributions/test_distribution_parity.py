"""Every distribution against PyTorch's: densities, moments, probabilities, gradients, divergences, shapes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.distributions
from tests.distribution_cases import CASES, MATRICES, Case, identity, made, value_of

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

ALL = CASES + MATRICES


def same(ours: Any, theirs: Any, what: str = "", tolerance: float = 1e-7) -> None:
    assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1], what
    assert tuple(ours.shape) == tuple(theirs.shape), what
    a, b = ours.detach().numpy(), theirs.detach().numpy()
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=1e-9, err_msg=what)


def outcome(call: Any) -> Any:
    try:
        return call()
    except Exception as error:
        return type(error)


def alike(ours: Any, theirs: Any, what: str, tolerance: float = 1e-7) -> None:
    """Both gave the same tensor, or raised the same."""
    if isinstance(theirs, type):
        assert ours is theirs, f"{what}: {ours} instead of {theirs}"
    else:
        assert not isinstance(ours, type), f"{what} raised {ours}"
        same(ours, theirs, what, tolerance)


@pytest.mark.parametrize("case", ALL, ids=identity)
def test_properties(case: Case):
    (p, _), (q, _) = made(fg, case), made(torch, case)
    assert tuple(p.batch_shape) == tuple(q.batch_shape)
    assert tuple(p.event_shape) == tuple(q.event_shape)
    assert (p.has_rsample, p.has_enumerate_support) == (q.has_rsample, q.has_enumerate_support)
    assert repr(p.support) == repr(q.support) or "tensor" in repr(q.support)
    loose = 1e-5 if case.name == "VonMises" else 1e-7  # PyTorch's Bessel functions have seven digits
    for name in ("mean", "mode", "variance", "stddev"):
        if name not in case.without:
            alike(outcome(lambda n=name: getattr(p, n)), outcome(lambda n=name: getattr(q, n)), name, loose)
    for name in ("entropy", "perplexity"):
        alike(outcome(getattr(p, name)), outcome(getattr(q, name)), name)
    x, y = value_of(fg, case), value_of(torch, case)
    alike(outcome(lambda: p.cdf(x)), outcome(lambda: q.cdf(y)), "cdf")
    if not case.integer and case.name not in ("Gamma", "Beta", "Chi2", "Dirichlet"):
        u = [[0.1, 0.25], [0.5, 0.75]]
        given = fg.tensor(u, dtype=fg.float64), torch.tensor(u, dtype=torch.float64)
        alike(outcome(lambda: p.icdf(given[0])), outcome(lambda: q.icdf(given[1])), "icdf")
    for expand in (True, False):
        alike(
            outcome(lambda e=expand: p.enumerate_support(e)),
            outcome(lambda e=expand: q.enumerate_support(e)),
            "support",
        )


@pytest.mark.parametrize("case", ALL, ids=identity)
def test_gradients(case: Case):
    """Of log probabilities and of entropies, by the parameters."""
    (p, ours), (q, theirs) = made(fg, case, True), made(torch, case, True)
    first, second = p.log_prob(value_of(fg, case)), q.log_prob(value_of(torch, case))
    loose = 1e-6 if case.name == "VonMises" else 1e-7
    same(first, second, "log_prob", loose)
    first.sum().backward()
    second.sum().backward()
    for a, b in zip(ours, theirs, strict=True):
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None and case.name == "Wishart" and "scale_tril" in case.params and a.dim() > 0:
            same(a.grad.tril(), b.grad.tril(), "gradient")  # there is nothing above the diagonal
        elif a.grad is not None:
            same(a.grad, b.grad, "gradient", 1e-5 if loose > 1e-7 else 1e-7)
    if isinstance(outcome(q.entropy), type) or not q.entropy().requires_grad:
        return
    (p, ours), (q, theirs) = made(fg, case, True), made(torch, case, True)
    p.entropy().sum().backward()
    q.entropy().sum().backward()
    for a, b in zip(ours, theirs, strict=True):
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None:
            same(a.grad, b.grad, "gradient of the entropy")


@pytest.mark.filterwarnings("ignore:Singular sample")  # of PyTorch's Wishart, for samples that are not
@pytest.mark.parametrize("case", ALL, ids=identity)
def test_shapes(case: Case):
    (p, _), (q, _) = made(fg, case), made(torch, case)
    drawn_by_index = "Categorical" in case.name or case.name == "Multinomial"  # PyTorch draws none of these
    none = () if drawn_by_index and not case.name.startswith("Relaxed") else ((2, 0),)
    for shape in ((), (3,), *none):
        assert tuple(p.sample(shape).shape) == tuple(q.sample(shape).shape)
    batch = (3, *q.batch_shape)
    p, q = p.expand(batch), q.expand(batch)
    assert tuple(p.batch_shape) == tuple(q.batch_shape) == batch
    assert tuple(p.sample((2,)).shape) == tuple(q.sample((2,)).shape)
    shape = (1, *([1] * len(q.batch_shape)), *q.event_shape)
    x, y = value_of(fg, case), value_of(torch, case)
    if tuple(y.shape[y.dim() - len(shape) + 1 :]) == shape[1:]:
        same(p.log_prob(x), q.log_prob(y))
    sample = p.sample()
    assert p.support.check(sample).all()
    assert not sample.requires_grad


@pytest.mark.parametrize("case", ALL, ids=identity)
def test_validation(case: Case):
    """Parameters and values that are out of range are refused where PyTorch refuses them."""
    for name in case.params:
        # Whether a matrix of NaN can be factored says LAPACK.
        for bad in (-1.0,) if case in MATRICES else (-1.0, float("nan")):
            if name in ("total_count", "dim", "cov_diag"):
                continue
            spoiled = case._replace(
                params=case.params | {name: np.full_like(case.params[name], bad).tolist()}
            )
            a, b = (outcome(lambda lib=lib, c=spoiled: made(lib, c)) for lib in (fg, torch))
            assert (a if isinstance(a, type) else None) == (b if isinstance(b, type) else None), (name, bad)
            a, b = (
                outcome(lambda lib=lib, c=spoiled: made(lib, c, validate_args=False)) for lib in (fg, torch)
            )
            assert isinstance(a, type) == isinstance(b, type), (name, bad)
    p, q = made(fg, case)[0], made(torch, case)[0]
    for bad in (-7.5, float("nan")):
        x, y = (value_of(lib, case) * 0 + bad for lib in (fg, torch))
        assert isinstance(outcome(lambda v=x: p.log_prob(v)), type) == isinstance(
            outcome(lambda v=y: q.log_prob(v)), type
        ), bad


KL_CLASSES = [
    c for c in ALL
    if c.name not in ("Cauchy", "RelaxedBernoulli", "RelaxedOneHotCategorical") and "precision_matrix" not in c.params
]  # fmt: skip


@pytest.mark.parametrize("p", KL_CLASSES, ids=identity)
def test_kl(p: Case):
    for q in KL_CLASSES:
        ours, theirs = (
            outcome(lambda lib=lib, q=q: lib.distributions.kl_divergence(made(lib, p)[0], made(lib, q)[0]))
            for lib in (fg, torch)
        )
        alike(ours, theirs, f"kl of {p.name} and {q.name}")


def test_kl_of_one_class():
    """With other parameters, where the divergence is not zero, and its gradients."""
    for case in KL_CLASSES:
        moved = case._replace(
            params={k: v if np.isscalar(v) else np.flip(v, 0).tolist() for k, v in case.params.items()}
        )
        found = []
        for lib in (fg, torch):
            (a, first), (b, second) = (
                outcome(lambda lib=lib, c=case: made(lib, c, True)),
                outcome(lambda lib=lib, c=moved: made(lib, c, True))
                if "matrix" not in str(case.params) and "tril" not in str(case.params)
                else made(lib, case, True),
            )
            kl = outcome(lambda lib=lib, a=a, b=b: lib.distributions.kl_divergence(a, b))
            if not isinstance(kl, type):
                kl.sum().backward()
            found.append((kl, [x.grad for x in (*first, *second)]))
        alike(found[0][0], found[1][0], case.name)
        for a, b in zip(found[0][1], found[1][1], strict=True):
            assert (a is None) == (b is None), case.name
            if a is not None:
                same(a, b, f"gradient of the divergence of {case.name}", 1e-6)


def test_generalized_pareto():
    """In float32: PyTorch's refuses float64."""
    found = []
    for lib in (fg, torch):
        params = [lib.tensor(v, requires_grad=True) for v in ([0.0, 0.1], [1.5, 0.75], [0.25, 0.0])]
        p = lib.distributions.GeneralizedPareto(*params)
        x = lib.tensor([[0.1, 0.25], [3.0, 1.75]])
        p.log_prob(x).sum().backward()
        found.append([
            p.mean, p.mode, p.variance, p.entropy(), p.log_prob(x), p.cdf(x), p.icdf(x / 4), p.log_cdf(x),
            p.log_survival_function(x), *(v.grad for v in params),
        ])  # fmt: skip
        assert tuple(p.expand((3, 2)).rsample((4,)).shape) == (4, 3, 2)
    for k, (a, b) in enumerate(zip(*found, strict=True)):
        same(a, b, str(k), 1e-5)


def test_registry_of_pairs():
    """The same pairs are known."""
    from fastgrad.distributions.kl import _REGISTRY

    theirs = {(a.__name__, b.__name__) for a, b in torch.distributions.kl._KL_REGISTRY}
    assert {(a.__name__, b.__name__) for a, b in _REGISTRY} == theirs


def test_names():
    assert set(torch.distributions.__all__) <= set(dir(fastgrad.distributions))
    for name in ("constraints", "transforms"):
        theirs = set(getattr(torch.distributions, name).__all__)
        assert theirs <= set(getattr(fastgrad.distributions, name).__all__)


def test_combined():
    """Mixtures, independent and transformed distributions."""
    found = []
    for lib in (fg, torch):
        d = lib.distributions
        t = lambda *v, lib=lib: lib.tensor(v, dtype=lib.float64)  # noqa: E731
        mix = d.MixtureSameFamily(
            d.Categorical(t(0.25, 0.75)), d.Normal(t(-1.0, 2.0), t(0.5, 1.0)), validate_args=True
        )
        x = t(0.1, -0.7, 2.0)
        inner = d.Independent(d.Normal(lib.zeros(2, 3).double(), t(1.0, 2.0, 3.0)), 1)
        vectors = d.MixtureSameFamily(d.Categorical(t(0.25, 0.75)), inner)
        moved = d.TransformedDistribution(
            d.Normal(t(0.0, 1.0), t(1.0, 2.0)), [d.AffineTransform(1.0, -2.0), d.SigmoidTransform()]
        )
        wide = d.TransformedDistribution(inner, [d.ExpTransform(), d.PowerTransform(t(2.0).squeeze())])
        found.append(
            [
                mix.mean, mix.variance, mix.log_prob(x), mix.cdf(x), vectors.log_prob(x), vectors.mean,
                vectors.variance, inner.log_prob(x), inner.entropy(), inner.mean,
                moved.log_prob(t(0.25, 0.5)), moved.cdf(t(0.25, 0.5)), moved.icdf(t(0.25, 0.5)),
                wide.log_prob(t(0.1, 0.2, 0.3)), d.kl_divergence(inner, inner), d.kl_divergence(moved, moved),
            ]
        )  # fmt: skip
        assert tuple(vectors.sample((4,)).shape) == (4, 3)
        assert tuple(mix.expand((5,)).sample((4,)).shape) == (4, 5)
        assert tuple(wide.expand((5, 2)).rsample((4,)).shape) == (4, 5, 2, 3)
    for k, (a, b) in enumerate(itertools.zip_longest(*found)):
        same(a, b, str(k))


@pytest.mark.parity
def test_sizes_are_printed_as_sizes():
    torch = pytest.importorskip("torch")
    found = []
    for lib in (fg, torch):
        normal = lib.distributions.Normal(lib.zeros(2, 3), lib.ones(3))
        found.append(repr(lib.distributions.Independent(normal, 1)).replace("fastgrad", "torch"))
    assert found[0] == found[1]
