"""Initial values: distributions and exact values, PyTorch's errors and warnings, and the generators."""

from __future__ import annotations

import math
import warnings
from types import ModuleType

import numpy as np
import pytest

import fastgrad
from fastgrad.nn import init


@pytest.fixture(params=["fastgrad", pytest.param("torch", marks=pytest.mark.parity)])
def lib(request: pytest.FixtureRequest) -> ModuleType:
    found = pytest.importorskip(request.param)
    found.manual_seed(0)
    return found


N = 40000
RANDOM = {
    "uniform_": lambda i, w, **k: i.uniform_(w, -1, 3, **k),
    "normal_": lambda i, w, **k: i.normal_(w, 1, 2, **k),
    "trunc_normal_": lambda i, w, **k: i.trunc_normal_(w, 0.5, 1.5, -1, 2, **k),
    "trunc_normal_ in a tail": lambda i, w, **k: i.trunc_normal_(w, 0, 1, 1.5, 4, **k),
    "xavier_uniform_": lambda i, w, **k: i.xavier_uniform_(w, 2.0, **k),
    "xavier_normal_": lambda i, w, **k: i.xavier_normal_(w, 2.0, **k),
    "kaiming_uniform_": lambda i, w, **k: i.kaiming_uniform_(w, a=math.sqrt(5), **k),
    "kaiming_uniform_ fan_out": lambda i, w, **k: i.kaiming_uniform_(
        w, mode="fan_out", nonlinearity="relu", **k
    ),
    "kaiming_normal_": lambda i, w, **k: i.kaiming_normal_(w, nonlinearity="tanh", **k),
    "orthogonal_": lambda i, w, **k: i.orthogonal_(w, 3.0, **k),
    "sparse_": lambda i, w, **k: i.sparse_(w, 0.3, 2.0, **k),
}


def moments(values: np.ndarray) -> np.ndarray:
    return np.array([values.mean(), values.std(), values.min(), values.max(), np.abs(values).mean()])


@pytest.mark.parity
@pytest.mark.parametrize("name", RANDOM)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_distributions_are_those_of_pytorch(name: str, dtype: str):
    """Quantiles of two samples of 40,000 differ by less than five standard errors, here at most 0.1 of the scale."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    call = RANDOM[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = call(init, fastgrad.empty(100, N // 100, dtype=getattr(fastgrad, dtype))).numpy().ravel()
        theirs = call(torch.nn.init, torch.empty(100, N // 100, dtype=getattr(torch, dtype))).numpy().ravel()
    scale = theirs.std()
    levels = np.linspace(0.02, 0.98, 25)
    np.testing.assert_allclose(
        np.quantile(ours, levels) / scale, np.quantile(theirs, levels) / scale, atol=0.1
    )
    np.testing.assert_allclose(ours.std(), scale, rtol=0.02)


@pytest.mark.parametrize("name", RANDOM)
def test_a_generator_of_the_same_seed_gives_the_same_values(name: str):
    def made(seed: int) -> np.ndarray:
        generator = fastgrad.Generator().manual_seed(seed)
        return RANDOM[name](init, fastgrad.empty(8, 6), generator=generator).numpy()

    state = fastgrad.get_rng_state()
    np.testing.assert_array_equal(made(3), made(3))
    assert (made(3) != made(4)).any()
    np.testing.assert_array_equal(fastgrad.get_rng_state().numpy(), state.numpy())


@pytest.mark.parametrize("name", RANDOM)
def test_a_leaf_that_requires_grad_stays_one(name: str):
    w = fastgrad.empty(8, 6, requires_grad=True)
    before = w._version
    assert RANDOM[name](init, w) is w
    assert w.is_leaf
    assert w.requires_grad
    assert w._version > before


@pytest.mark.parametrize("name", RANDOM)
def test_strides_are_filled_like_contiguous_memory(name: str):
    fastgrad.manual_seed(1)
    expected = RANDOM[name](init, fastgrad.empty(6, 8)).numpy().copy()
    fastgrad.manual_seed(1)
    base = fastgrad.zeros(8, 12)
    view = base[:, ::2].t()
    np.testing.assert_array_equal(RANDOM[name](init, view).numpy(), expected)
    assert (base[:, 1::2] == 0).all()


def test_truncated_values_lie_within_the_bounds_of_the_dtype():
    w = init.trunc_normal_(fastgrad.empty(20000), 0.0, 1.0, -0.1, 0.3).numpy()
    assert w.min() >= np.float32(-0.1)
    assert w.max() <= np.float32(0.3)


def test_a_far_tail_is_drawn_without_end_bounds():
    with pytest.warns(UserWarning, match="more than 2 std"):
        w = init.trunc_normal_(fastgrad.empty(20000), 0.0, 1.0, 5.0, math.inf).numpy()
    assert w.min() >= 5
    assert abs(w.mean() - 5.1865) < 0.01  # the mean of the distribution: pdf(5) / (1 - cdf(5))


# --- exact values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (6, 2, 3), (2, 3, 4)])
def test_orthogonal(lib: ModuleType, shape: tuple[int, ...]):
    w = lib.nn.init.orthogonal_(lib.empty(*shape, dtype=lib.float64), gain=2.0).numpy().reshape(shape[0], -1)
    rows, columns = w.shape
    product = w @ w.T if rows <= columns else w.T @ w
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-12)


def test_constants(lib: ModuleType):
    w = lib.empty(2, 3, requires_grad=True)
    i = lib.nn.init
    assert i.constant_(w, 3.5) is w
    np.testing.assert_array_equal(w.detach().numpy(), np.full((2, 3), 3.5))
    np.testing.assert_array_equal(i.ones_(w).detach().numpy(), np.ones((2, 3)))
    np.testing.assert_array_equal(i.zeros_(w).detach().numpy(), np.zeros((2, 3)))
    np.testing.assert_array_equal(i.eye_(w).detach().numpy(), np.eye(2, 3))
    assert w.requires_grad
    assert w.is_leaf


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("shape", [(4, 3, 3), (4, 2, 3, 4), (2, 3, 1, 2, 3)])
@pytest.mark.parity
def test_dirac(groups: int, shape: tuple[int, ...]):
    torch = pytest.importorskip("torch")
    ours = init.dirac_(fastgrad.empty(*shape), groups)
    np.testing.assert_array_equal(
        ours.numpy(), torch.nn.init.dirac_(torch.empty(*shape), groups).numpy(), strict=True
    )


def test_sparse_columns(lib: ModuleType):
    w = lib.nn.init.sparse_(lib.empty(7, 30), 0.4).numpy()
    assert ((w == 0).sum(0) == 3).all()
    assert len({tuple(np.flatnonzero(column)) for column in w.T}) > 5


GAINS = [
    ("linear",), ("conv2d",), ("conv_transpose3d",), ("sigmoid",), ("tanh",), ("relu",), ("leaky_relu",),
    ("leaky_relu", 0.3), ("leaky_relu", 2), ("selu",),
]  # fmt: skip


@pytest.mark.parity
@pytest.mark.parametrize("args", GAINS)
def test_gains(args: tuple):
    torch = pytest.importorskip("torch")
    assert init.calculate_gain(*args) == torch.nn.init.calculate_gain(*args)


def test_fans(lib: ModuleType):
    i = lib.nn.init
    assert i._calculate_fan_in_and_fan_out(lib.empty(5, 3, 2, 4)) == (24, 40)
    assert i._calculate_correct_fan(lib.empty(5, 3), "FAN_OUT") == 5


def test_tensors_without_elements(lib: ModuleType):
    w = lib.empty(0, 3)
    for name in ("kaiming_uniform_", "kaiming_normal_"):
        with pytest.warns(UserWarning, match="zero-element tensors is a no-op") as caught:
            assert getattr(lib.nn.init, name)(w) is w
        assert caught[0].filename == __file__
    assert lib.nn.init.orthogonal_(w) is w
    assert lib.nn.init.xavier_uniform_(w) is w


# --- errors ----------------------------------------------------------------------------------------------------

ERRORS = {
    "gain": (lambda t, i: i.calculate_gain("cubic"), ValueError, "Unsupported nonlinearity cubic"),
    "slope": (
        lambda t, i: i.calculate_gain("leaky_relu", True),
        ValueError,
        "negative_slope True not a valid",
    ),
    "slope text": (
        lambda t, i: i.calculate_gain("leaky_relu", "1"),
        ValueError,
        "negative_slope 1 not a valid",
    ),
    "fan": (lambda t, i: i.xavier_normal_(t.empty(3)), ValueError, "fewer than 2 dimensions"),
    "mode": (
        lambda t, i: i.kaiming_normal_(t.empty(3, 2), mode="fan"),
        ValueError,
        r"Mode fan not supported.*'fan_in', 'fan_out'",
    ),
    "eye": (lambda t, i: i.eye_(t.empty(3)), ValueError, "Only tensors with 2 dimensions"),
    "sparse": (lambda t, i: i.sparse_(t.empty(3), 0.1), ValueError, "Only tensors with 2 dimensions"),
    "dirac": (lambda t, i: i.dirac_(t.empty(3, 2)), ValueError, "3, 4, or 5 dimensions"),
    "groups": (lambda t, i: i.dirac_(t.empty(3, 2, 1), 2), ValueError, "divisible by groups"),
    "orthogonal": (lambda t, i: i.orthogonal_(t.empty(3)), ValueError, "2 or more dimensions"),
    "integers": (lambda t, i: i.uniform_(t.empty(3, dtype=t.int64)), NotImplementedError, "not implemented"),
    "std": (lambda t, i: i.normal_(t.empty(3), 0, -1), RuntimeError, "std >= 0"),
    "bounds": (lambda t, i: i.uniform_(t.empty(3), 2, 1), RuntimeError, "low=2|from=2"),
    "truncated": (lambda t, i: i.trunc_normal_(t.empty(3), 0, 1, 3, 2), RuntimeError, "a=3, b=2|from=3"),
}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.filterwarnings("ignore:mean is more than 2 std")
def test_errors(lib: ModuleType, name: str):
    call, kind, text = ERRORS[name]
    with pytest.raises(kind, match=text):
        call(lib, lib.nn.init)


def test_the_mean_outside_the_bounds_warns(lib: ModuleType):
    with pytest.warns(UserWarning, match="mean is more than 2 std from") as caught:
        lib.nn.init.trunc_normal_(lib.empty(3), 0, 1, 2.5, 3)
    if lib is fastgrad:
        assert caught[0].filename == __file__


@pytest.mark.parametrize("name", ["uniform", "xavier_normal", "eye", "orthogonal"])
def test_old_names_warn(lib: ModuleType, name: str):
    w = lib.empty(3, 2)
    with pytest.warns(
        FutureWarning, match=f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`"
    ):
        assert getattr(lib.nn.init, name)(w) is w


@pytest.mark.parametrize("groups", [0, -2, 3])
def test_dirac_in_groups_that_do_not_fit(groups):
    with pytest.raises(ValueError, match="dim 0 must be divisible by groups"):
        fastgrad.nn.init.dirac_(fastgrad.ones(2, 2, 1), groups)
