"""Methods that fill with random numbers: distributions, bounds, dtypes, errors, and what autograd sees of them."""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np
import pytest

import fastgrad


@pytest.fixture(params=["fastgrad", pytest.param("torch", marks=pytest.mark.parity)])
def lib(request: pytest.FixtureRequest) -> ModuleType:
    found = pytest.importorskip(request.param)
    found.manual_seed(0)
    return found


N = 40000
FLOATS, NUMBERS = ("float32", "float64"), ("float32", "float64", "uint8", "int32", "int64")
EVERY = (*NUMBERS, "bool")

# Method, arguments, dtypes, and the distribution function at a few points.
ROWS = {
    "uniform_": ("uniform_", (-1.0, 3.0), FLOATS, {-1: 0, 0: 0.25, 1: 0.5, 3: 1}),
    "normal_": ("normal_", (1.0, 2.0), FLOATS, {-1: 0.158655, 1: 0.5, 3: 0.841345, 5: 0.97725}),
    "bernoulli_": ("bernoulli_", (0.25,), EVERY, {0: 0.75, 1: 1}),
    "exponential_": ("exponential_", (2.0,), FLOATS, {0: 0, 0.5: 1 - math.exp(-1), 1: 1 - math.exp(-2)}),
    "geometric_": ("geometric_", (0.3,), NUMBERS, {0: 0, 1: 0.3, 2: 0.51, 3: 0.657}),
    "log_normal_": ("log_normal_", (1.0, 0.5), FLOATS, {math.e: 0.5, math.exp(1.5): 0.841345}),
    "cauchy_": ("cauchy_", (1.0, 2.0), FLOATS, {-1: 0.25, 1: 0.5, 3: 0.75}),
    "random_": ("random_", (4,), NUMBERS, {0: 0.25, 1: 0.5, 2: 0.75, 3: 1}),
    "random_ from": ("random_", (2, 6), NUMBERS, {1: 0, 2: 0.25, 3: 0.5, 5: 1}),
    "random_ bool": ("random_", (), ("bool",), {0: 0.5, 1: 1}),
}
CASES = [pytest.param(*row[:2], d, row[3], id=f"{name}-{d}") for name, row in ROWS.items() for d in row[2]]


@pytest.mark.parametrize(("method", "args", "dtype", "points"), CASES)
def test_distribution_functions(lib: ModuleType, method: str, args: tuple, dtype: str, points: dict):
    x = lib.empty(N, dtype=getattr(lib, dtype))
    assert getattr(x, method)(*args) is x
    values = x.numpy().astype(np.float64)
    for point, share in points.items():
        error = 5 * math.sqrt(max(share * (1 - share), 1e-9) / N)
        assert abs((values <= point + 1e-9).mean() - share) <= error + 1e-4


@pytest.mark.parametrize(
    ("dtype", "largest"),
    [("uint8", 2**8), ("int32", 2**31), ("int64", 2**63), ("float32", 2**24), ("float64", 2**53)],
)
def test_random_without_bounds_takes_all_that_the_dtype_holds(lib: ModuleType, dtype: str, largest: int):
    values = lib.empty(4000, dtype=getattr(lib, dtype)).random_().numpy()
    assert values.min() >= 0
    assert values.max() <= largest
    assert values.max() > 0.99 * largest
    values = lib.empty(4000, dtype=getattr(lib, dtype)).random_(200, None).numpy()
    assert values.min() >= 200


def test_bounds_by_name(lib: ModuleType):
    x = lib.empty(100)
    assert set(x.random_(**{"from": 3, "to": 5}).tolist()) == {3, 4}
    assert set(x.random_(to=1).tolist()) == {0}
    x.uniform_(**{"from": 3, "to": 5})
    assert (x >= 3).all()
    assert set(x.random_(-3, -1).tolist()) == {-3, -2}


def test_probabilities_of_a_tensor(lib: ModuleType):
    p = lib.tensor([0.0, 1.0, 0.5])
    x = lib.empty(2000, 3).bernoulli_(p).numpy()
    assert (x[:, 0] == 0).all()
    assert (x[:, 1] == 1).all()
    assert 0.4 < x[:, 2].mean() < 0.6
    y = lib.ones(3, requires_grad=True) * 2
    assert y.bernoulli_(p).grad_fn.name() == "BernoulliBackward1"


ERRORS = {
    "bernoulli": (lambda t: t.empty(2).bernoulli_(1.5), RuntimeError, r"\[0, 1\].*p=1.5"),
    "bernoulli nan": (lambda t: t.empty(2).bernoulli_(math.nan), RuntimeError, r"\[0, 1\].*p=nan"),
    "bernoulli tensor": (lambda t: t.empty(2).bernoulli_(t.tensor([0.5, 2.0])), RuntimeError, "p"),
    "bernoulli sizes": (lambda t: t.empty(3).bernoulli_(t.tensor([0.5, 1.0])), RuntimeError, "expanded size"),
    "bernoulli dtype": (lambda t: t.empty(2).bernoulli_(t.tensor([0, 1])), NotImplementedError, "Long"),
    "bernoulli text": (lambda t: t.empty(2).bernoulli_("a"), TypeError, "str"),
    "exponential": (lambda t: t.empty(2).exponential_(0), RuntimeError, "lambda > 0.0, but found lambda=0"),
    "exponential dtype": (
        lambda t: t.empty(2, dtype=t.int64).exponential_(),
        RuntimeError,
        "Exponential distribution is a continuous.*Long",
    ),
    "geometric": (lambda t: t.empty(2).geometric_(1), RuntimeError, r"p to be in \(0, 1\), but got p=1"),
    "geometric dtype": (lambda t: t.empty(2, dtype=t.bool).geometric_(0.5), NotImplementedError, "Bool"),
    "log_normal": (lambda t: t.empty(2).log_normal_(1, 0), RuntimeError, "std > 0.0, but found std=0"),
    "log_normal dtype": (lambda t: t.empty(2, dtype=t.int64).log_normal_(), NotImplementedError, "Long"),
    "cauchy": (lambda t: t.empty(2).cauchy_(0, -1), RuntimeError, "sigma > 0.0, but found sigma=-1"),
    "cauchy dtype": (lambda t: t.empty(2, dtype=t.bool).cauchy_(), RuntimeError, "(?i)continuous.*bool"),
    "random empty": (
        lambda t: t.empty(2).random_(5, 5),
        RuntimeError,
        "'from' to be less than 'to'.*from=5 >= to=5",
    ),
    "random negative": (lambda t: t.empty(2).random_(-5), RuntimeError, "from=0 >= to=-5"),
    "random range": (lambda t: t.empty(2, dtype=t.uint8).random_(300), RuntimeError, "uint8|unsigned char"),
    "random float": (lambda t: t.empty(2).random_(2.5), TypeError, "float"),
    "random arguments": (lambda t: t.empty(2).random_(1, 2, 3), TypeError, "random_"),
    "random twice": (lambda t: t.empty(2).random_(1, 2, to=3), TypeError, "random_"),
    "random keyword": (lambda t: t.empty(2).random_(high=3), TypeError, "random_"),
    "uniform": (lambda t: t.empty(2).uniform_(2, 1), RuntimeError, "uniform_"),
    "uniform infinite": (lambda t: t.empty(2).uniform_(0, math.inf), RuntimeError, "to|high"),
    "uniform dtype": (lambda t: t.empty(2, dtype=t.int64).uniform_(), NotImplementedError, "Long"),
    "normal dtype": (lambda t: t.empty(2, dtype=t.bool).normal_(), NotImplementedError, "Bool"),
    "leaf": (lambda t: t.ones(2, requires_grad=True).bernoulli_(), RuntimeError, "leaf"),
    "overlap": (lambda t: t.ones(1).expand(3).uniform_(), RuntimeError, "(?s)more than one element|overlap"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(lib: ModuleType, name: str):
    call, kind, text = ERRORS[name]
    with pytest.raises(kind, match=text):
        call(lib)


METHODS = [(row[0], row[1]) for name, row in ROWS.items() if name == row[0]]
NODES = [
    ("uniform_", (), "UniformBackward0"),
    ("normal_", (1,), "NormalBackward0"),
    ("random_", (2, 4), "RandomBackward0"),
    ("random_", (4,), "RandomBackward1"),
    ("random_", (), "RandomBackward2"),
    ("bernoulli_", (0.5,), "BernoulliBackward2"),
    ("exponential_", (), "ExponentialBackward0"),
    ("geometric_", (0.5,), "GeometricBackward0"),
    ("log_normal_", (), "LogNormalBackward0"),
    ("cauchy_", (), "CauchyBackward0"),
]


@pytest.mark.parametrize(("method", "args", "node"), NODES)
def test_history(lib: ModuleType, method: str, args: tuple, node: str):
    """The node is PyTorch's; what was replaced gets zeros."""
    w = lib.ones(3, requires_grad=True)
    x = w * 2
    version = x._version
    getattr(x, method)(*args)
    assert x._version == version + 1
    assert x.grad_fn.name() == node
    x.sum().backward()
    assert w.grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize(("method", "args"), METHODS, ids=lambda v: v if isinstance(v, str) else "")
def test_generators_and_strides(method: str, args: tuple):
    def made(x: fastgrad.Tensor) -> np.ndarray:
        generator = fastgrad.Generator().manual_seed(5)
        return getattr(x, method)(*args, generator=generator).numpy().copy()

    state = fastgrad.get_rng_state()
    expected = made(fastgrad.empty(6, 4))
    np.testing.assert_array_equal(made(fastgrad.zeros(4, 12)[:, ::2].t()), expected)
    np.testing.assert_array_equal(fastgrad.get_rng_state().numpy(), state.numpy())
    assert getattr(fastgrad.empty(0, 3), method)(*args).shape == (0, 3)
    assert getattr(fastgrad.empty(()), method)(*args).ndim == 0


@pytest.mark.parametrize("name", ["complex64", "complex128"])
def test_both_parts_of_complex_numbers_are_drawn(lib: ModuleType, name: str):
    dtype = getattr(lib, name)
    x = lib.empty(100, 200, dtype=dtype).uniform_(2, 3)
    assert x.real.min() >= 2
    assert x.imag.max() < 3
    assert abs(x.mean().item() - (2.5 + 2.5j)) < 0.02
    x.normal_(1, 2)
    assert abs(x.mean().item() - (1 + 1j)) < 0.05
    assert abs(x.real.std().item() - 2**0.5) < 0.05
    assert abs(x.imag.std().item() - 2**0.5) < 0.05
    assert not lib.equal(x.real, x.imag)
    for sizes in ((), (0, 3), (2,) * 16):
        assert lib.empty(sizes, dtype=dtype).normal_().shape == sizes
    layer = lib.nn.Conv2d(1, 2, 3, dtype=dtype)
    assert layer(lib.ones(1, 1, 4, 4, dtype=dtype)).dtype is dtype


def test_distributions_of_real_numbers_refuse_complex_ones(lib: ModuleType):
    x = lib.ones(2, dtype=lib.complex64)
    with pytest.raises(NotImplementedError, match="log_normal_"):
        x.log_normal_()
    assert x.tolist() == [1, 1]


@pytest.mark.parametrize("bounds", [(), (3,), (1, 3)])
def test_random_integers_are_no_complex_numbers(lib: ModuleType, bounds: tuple[int, ...]):
    with pytest.raises(RuntimeError if bounds else NotImplementedError):
        lib.zeros(2, dtype=lib.complex64).random_(*bounds)
