"""Transforms and constraints against PyTorch's."""

from __future__ import annotations

import gc
import pickle

import numpy as np
import pytest

import fastgrad as fg
from fastgrad.distributions import biject_to, constraints, transform_to, transforms

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

MATRIX = [[0.5, -1.0, 2.0], [0.25, 0.75, -0.5], [1.0, -0.25, 0.1]]
UNIT = [[0.5, 0.25, 0.2], [0.25, 0.75, 0.5], [0.1, 0.25, 0.1]]


def makers():
    """Functions of a library that make a transform, with values."""
    yield lambda t, lib: t.ExpTransform(), MATRIX
    yield lambda t, lib: t.ExpTransform().inv, UNIT
    yield lambda t, lib: t.PowerTransform(lib.tensor(-1.5, dtype=lib.float64)), UNIT
    yield lambda t, lib: t.SigmoidTransform(), MATRIX
    yield lambda t, lib: t.SoftplusTransform(), MATRIX
    yield lambda t, lib: t.TanhTransform(), MATRIX
    yield lambda t, lib: t.AbsTransform(), UNIT
    yield lambda t, lib: t.AffineTransform(1.0, -2.0), MATRIX
    yield (
        lambda t, lib: t.AffineTransform(1.0, lib.tensor([2.0, -0.5, 1.0], dtype=lib.float64), event_dim=1),
        MATRIX,
    )
    yield lambda t, lib: t.SoftmaxTransform(), MATRIX
    yield lambda t, lib: t.StickBreakingTransform(), MATRIX
    yield lambda t, lib: t.CorrCholeskyTransform(), MATRIX
    yield lambda t, lib: t.LowerCholeskyTransform(), MATRIX
    yield lambda t, lib: t.ReshapeTransform((3,), (3, 1)), MATRIX
    yield lambda t, lib: t.IndependentTransform(t.ExpTransform(), 1), MATRIX
    yield (
        lambda t, lib: t.ComposeTransform([t.AffineTransform(0.5, 2.0), t.TanhTransform(), t.ExpTransform()]),
        MATRIX,
    )
    yield lambda t, lib: t.ComposeTransform([t.AffineTransform(0.5, 2.0), t.StickBreakingTransform()]), MATRIX
    yield lambda t, lib: t.identity_transform, MATRIX
    yield lambda t, lib: t.CatTransform([t.ExpTransform(), t.SigmoidTransform()], -1, [1, 2]), MATRIX
    yield lambda t, lib: t.StackTransform([t.ExpTransform(), t.TanhTransform(), t.ExpTransform()], 1), MATRIX
    yield (
        lambda t, lib: t.CumulativeDistributionTransform(
            lib.distributions.Normal(lib.zeros((), dtype=lib.float64), lib.ones((), dtype=lib.float64))
        ),
        MATRIX,
    )
    yield lambda t, lib: t.PositiveDefiniteTransform(), MATRIX


def outcome(call):
    try:
        return call()
    except Exception as error:
        return type(error)


def alike(ours, theirs):
    if fg.is_tensor(ours):
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-9, atol=1e-12)
    else:
        assert repr(ours).replace("fastgrad", "torch") == repr(theirs)


@pytest.mark.parametrize(("make", "values"), list(makers()))
def test_transforms(make, values):
    found = []
    for lib, module in ((fg, transforms), (torch, torch.distributions.transforms)):
        t = make(module, lib)
        x = lib.tensor(values, dtype=lib.float64, requires_grad=True)
        y = t(x)
        back = t.inv(y)
        row = [y, back, outcome(lambda t=t, x=x, y=y: t.log_abs_det_jacobian(x, y))]
        row += [outcome(lambda t=t, n=n: getattr(t, n)) for n in ("bijective", "event_dim")]
        row += [outcome(lambda t=t, n=n: getattr(t, n).event_dim) for n in ("domain", "codomain")]
        row += [
            outcome(lambda t=t: 1.0 * t.sign),
            tuple(t.forward_shape(x.shape)),
            tuple(t.inverse_shape(y.shape)),
        ]
        y.sum().backward()
        row += [x.grad, t.inv.inv is t, t == t, t.inv == t.inv]
        cached = outcome(lambda t=t: t.with_cache())
        if not isinstance(cached, type):
            z = cached(x)
            row += [cached.inv(z) is x, cached(x) is z]
        found.append(row)
    for a, b in zip(*found, strict=True):
        alike(a, b)


def test_constraints():
    values = [[-1.0, 0.5], [0.0, 1.0], [0.5, 0.5], [float("nan"), 2.0], [1.0, 0.0]]
    square = [
        [[1.0, 0.0], [0.5, 2.0]],
        [[1.0, 0.5], [0.5, 1.0]],
        [[1.0, 0.0], [0.6, 0.8]],
        [[1.0, 2.0], [2.0, 1.0]],
    ]
    for make in (
        lambda c: c.boolean, lambda c: c.one_hot, lambda c: c.nonnegative_integer, lambda c: c.positive_integer,
        lambda c: c.integer_interval(0, 1), lambda c: c.real, lambda c: c.real_vector, lambda c: c.positive,
        lambda c: c.nonnegative, lambda c: c.greater_than(0.5), lambda c: c.greater_than_eq(0.5),
        lambda c: c.less_than(0.5), lambda c: c.multinomial(1), lambda c: c.unit_interval,
        lambda c: c.interval(0.0, 0.5), lambda c: c.half_open_interval(0.0, 0.5), lambda c: c.simplex,
        lambda c: c.independent(c.positive, 1), lambda c: c.cat([c.positive, c.real], -1, [1, 1]),
        lambda c: c.stack([c.positive, c.real], -1), lambda c: c.dependent, lambda c: c.independent(c.real, 3),
    ):  # fmt: skip
        ours, theirs = make(constraints), make(torch.distributions.constraints)
        a = outcome(lambda c=ours: c.check(fg.tensor(values)).tolist())
        b = outcome(lambda c=theirs: c.check(torch.tensor(values)).tolist())
        assert a == b, theirs
        assert outcome(lambda c=ours: c.event_dim) == outcome(lambda c=theirs: c.event_dim)
        assert outcome(lambda c=ours: c.is_discrete) == outcome(lambda c=theirs: c.is_discrete)
    names = ["lower_triangular", "lower_cholesky", "corr_cholesky", "square", "symmetric"]
    for name in [*names, "positive_definite", "positive_semidefinite"]:
        ours, theirs = getattr(constraints, name), getattr(torch.distributions.constraints, name)
        for matrix in square:
            assert ours.check(fg.tensor(matrix)).item() == theirs.check(torch.tensor(matrix)).item(), (
                name,
                matrix,
            )
        assert ours.event_dim == theirs.event_dim == 2
        assert repr(ours) == repr(theirs)


def test_registries():
    for make in (
        lambda c: c.real, lambda c: c.positive, lambda c: c.greater_than(2.0), lambda c: c.less_than(2.0),
        lambda c: c.interval(1.0, 3.0), lambda c: c.unit_interval, lambda c: c.simplex, lambda c: c.real_vector,
        lambda c: c.corr_cholesky, lambda c: c.lower_cholesky, lambda c: c.boolean,
        lambda c: c.cat([c.positive, c.unit_interval], -1, [1, 2]),
    ):  # fmt: skip
        for name in ("biject_to", "transform_to"):
            registry = {"biject_to": biject_to, "transform_to": transform_to}[name]
            a = outcome(lambda r=registry, m=make: r(m(constraints))(fg.tensor(MATRIX).double()))
            other = getattr(torch.distributions, name)
            b = outcome(
                lambda r=other, m=make: r(m(torch.distributions.constraints))(torch.tensor(MATRIX).double())
            )
            alike(a, b)
    with pytest.raises(TypeError, match="Constraint"):
        biject_to.register(3, lambda c: None)


def test_errors_and_pickles():
    for lib_transforms, lib in ((transforms, fg), (torch.distributions.transforms, torch)):
        with pytest.raises(ValueError, match="cache_size"):
            lib_transforms.ExpTransform(cache_size=2)
        with pytest.raises(ValueError, match="elements"):
            lib_transforms.ReshapeTransform((2,), (3,))
        with pytest.raises(ValueError, match="flattened"):
            lib_transforms.CorrCholeskyTransform().forward_shape((4,))
        with pytest.raises(ValueError, match="transforms"):
            lib.distributions.TransformedDistribution(lib.distributions.Normal(0.0, 1.0), 3)
    t = transforms.AffineTransform(1.0, 2.0)
    inverse = t.inv
    assert pickle.loads(pickle.dumps(t)) == t
    del t
    gc.collect()
    assert float(inverse(fg.tensor(3.0))) == 1.0
