"""Orthogonal polynomials: NumPy's series, PyTorch's values, derivatives, errors."""

from __future__ import annotations

import numpy as np
import pytest
from numpy import polynomial as series

import fastgrad as fg
from fastgrad.functions.polynomials import POLYNOMIALS

SERIES = {
    "chebyshev_polynomial_t": series.chebyshev.Chebyshev,
    "hermite_polynomial_h": series.hermite.Hermite,
    "hermite_polynomial_he": series.hermite_e.HermiteE,
    "laguerre_polynomial_l": series.laguerre.Laguerre,
    "legendre_polynomial_p": series.legendre.Legendre,
}
POINTS = np.array([-2.5, -1.0, -0.3, 0.0, 0.5, 1.0, 1.7])


@pytest.mark.parametrize("name", SERIES)
def test_values_are_those_of_numpy(name):
    for n in range(15):
        wanted = SERIES[name].basis(n)(POINTS)
        found = getattr(fg.special, name)(fg.tensor(POINTS), n)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-10, atol=1e-10)


def test_kinds_of_chebyshev_are_quotients_of_sines_and_cosines():
    angle = np.linspace(0.1, 3.0, 9)
    x, of = fg.tensor(np.cos(angle)), fg.special
    for n in (0, 1, 2, 7, 100):
        wanted = {
            "t": np.cos(n * angle),
            "u": np.sin((n + 1) * angle) / np.sin(angle),
            "v": np.cos((n + 0.5) * angle) / np.cos(angle / 2),
            "w": np.sin((n + 0.5) * angle) / np.sin(angle / 2),
        }
        for kind, values in wanted.items():
            found = getattr(of, f"chebyshev_polynomial_{kind}")(x, n)
            np.testing.assert_allclose(found.numpy(), values, rtol=1e-9, atol=1e-9)
            shifted = getattr(of, f"shifted_chebyshev_polynomial_{kind}")((x + 1) / 2, n)
            np.testing.assert_allclose(shifted.numpy(), values, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_each_point_has_its_order(name):
    f, x = POLYNOMIALS[name], fg.tensor(POINTS)
    orders = [-1, 0, 1, 2, 3, 8, 5]
    found = f(x, fg.tensor(orders)).tolist()
    assert found == [f(x[k], n).item() for k, n in enumerate(orders)]
    assert f(x, fg.tensor([n + 0.5 if n >= 0 else -1.5 for n in orders])).tolist() == found
    assert f(x[:, None], fg.tensor([1, 2])).shape == (7, 2)
    assert f(0.5, fg.tensor([1, 2])).dtype is fg.float32
    assert f(fg.tensor([1, 2]), 2).dtype is fg.float32
    assert f(fg.ones(0, 3), 2).shape == (0, 3)
    assert f(fg.tensor([float("nan")]), 2).isnan().all()


def test_an_order_may_be_very_high():
    high = (1 << 62) + 1
    assert fg.special.chebyshev_polynomial_t(fg.tensor([1.0, -1.0]), high).tolist() == [1, -1]
    assert fg.special.hermite_polynomial_h(fg.tensor([0.5]), high).isnan().all()
    infinite = fg.tensor([float("inf"), -float("inf")])
    assert fg.special.chebyshev_polynomial_u(infinite, 3).tolist() == infinite.tolist()


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_derivatives(name):
    x = fg.tensor([-0.7, 0.2, 1.4], dtype=fg.float64, requires_grad=True)
    assert fg.autograd.gradcheck(lambda x: POLYNOMIALS[name](x, fg.tensor([2, 5, 3])), (x,))


@pytest.mark.parity
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_values_are_those_of_pytorch(name, dtype):
    torch = pytest.importorskip("torch")
    f, g = POLYNOMIALS[name], getattr(torch.special, name)
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((5, 7)) * 2).astype(dtype)
    x[0, :3] = [1, -1, 0]
    orders = rng.integers(-2, 10, (5, 7))
    for n in (0, 1, 6, 9, -1, orders, orders.astype("float32"), orders.astype("float64")):
        ours, theirs = (lib.tensor(n) if isinstance(n, np.ndarray) else n for lib in (fg, torch))
        found, wanted = f(fg.tensor(x), ours).numpy(), g(torch.tensor(x), theirs).numpy()
        assert found.dtype == wanted.dtype
        tolerance = 2e-4 if found.dtype == np.float32 else 1e-8
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["chebyshev_polynomial_t", "legendre_polynomial_p"])
@pytest.mark.parametrize(
    ("operands", "error", "says"),
    [
        ((None, 2), TypeError, "input"),
        ((fg.ones(2), None), TypeError, "'n'"),
        ((1.0, 2), TypeError, "must be Tensor"),
        ((fg.ones(2, dtype=fg.complex64), 2), NotImplementedError, "not implemented"),
        ((fg.ones(2, dtype=fg.bfloat16), 2), NotImplementedError, "not implemented"),
        ((fg.ones(2), fg.ones(3)), RuntimeError, "size"),
    ],
)
def test_errors(name, operands, error, says):
    with pytest.raises(error, match=says):
        getattr(fg.special, name)(*operands)
