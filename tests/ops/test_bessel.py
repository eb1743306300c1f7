"""Bessel's and Airy's functions against integrals and series, in more digits than PyTorch's own ones have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_cases.bessel import airy_ai, bessel_j, bessel_k, bessel_y

import fastgrad as fg

SYMMETRIC, POSITIVE = np.linspace(-25, 25, 997), np.linspace(0.1, 25, 499)
CASES = {
    "bessel_j0": (bessel_j(0), SYMMETRIC),
    "bessel_j1": (bessel_j(1), SYMMETRIC),
    "bessel_y0": (bessel_y(0), POSITIVE),
    "bessel_y1": (bessel_y(1), POSITIVE),
    "scaled_modified_bessel_k0": (bessel_k(0, True), POSITIVE),
    "scaled_modified_bessel_k1": (bessel_k(1, True), POSITIVE),
    "modified_bessel_k0": (bessel_k(0, False), POSITIVE),
    "modified_bessel_k1": (bessel_k(1, False), POSITIVE),
    "airy_ai": (np.vectorize(airy_ai), np.linspace(-7, 3, 499)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("dtype", "few"), [("float64", 1e-14), ("float32", 1e-6)])
def test_values(name: str, dtype: str, few: float) -> None:
    reference, points = CASES[name]
    x = points.astype(dtype)
    y: Any = getattr(fg.special, name)(fg.tensor(x))
    assert str(y.dtype) == f"fastgrad.{dtype}"
    exact = reference(x)
    far = 0.3 if np.min(exact) < 0 else 0.0  # waves: relative to their size where they cross zero
    np.testing.assert_array_less(abs(y.numpy() - exact), few * np.maximum(abs(exact), far) + 1e-300)


@pytest.mark.parametrize(
    ("name", "x", "y"),
    [
        ("bessel_j0", 2.404825557695773, -6.10876525973673e-17),
        ("bessel_j0", 5.520078110286311, -2.7522649432621832e-17),
        ("bessel_j1", 3.8317059702075125, -6.149807356994906e-17),
        ("airy_ai", -2.338107410459767, 2.743319340666283e-17),
    ],
)
def test_beside_zeros(name: str, x: float, y: float) -> None:
    """What is left beside a zero has more digits than the distance to the nearest number of the dtype."""
    found = getattr(fg.special, name)(fg.tensor(x, dtype=fg.float64)).item()
    assert found == pytest.approx(y, rel=1e-6, abs=0)


def test_ends_of_the_range() -> None:
    tiny = fg.tensor([0.0, 5e-324, 1e-310], dtype=fg.float64)
    assert fg.special.bessel_y0(tiny).tolist()[0] == -np.inf
    np.testing.assert_allclose(
        fg.special.bessel_y0(tiny)[1:].numpy(), [-473.9990734, -454.4938756], rtol=1e-7
    )
    np.testing.assert_allclose(
        fg.special.modified_bessel_k0(tiny)[1:].numpy(), [744.5560034, 713.9173103], rtol=1e-9
    )
    assert fg.special.modified_bessel_k1(tiny).tolist() == [np.inf] * 3
    assert fg.special.bessel_j1(tiny).tolist() == [0.0, 0.0, 5e-311]
    far = fg.tensor([700.0, 745.0, 1e5, 1e300], dtype=fg.float64)
    assert fg.special.modified_bessel_k0(far)[1].item() == pytest.approx(0, abs=1e-323)
    assert fg.special.modified_bessel_k0(far)[0].item() == pytest.approx(4.669776e-306, rel=1e-6)
    assert fg.special.modified_bessel_k1(far)[3].item() == 0
    assert abs(fg.special.bessel_j0(far)[3].item()) < 1e-150
    assert fg.special.airy_ai(far).tolist() == [0.0] * 4


@pytest.mark.parity
@pytest.mark.parametrize("name", [*CASES, "spherical_bessel_j0"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_values_as_in_pytorch(name: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, -9.0, 1e-30, 104.0], dtype)
    found = getattr(fg.special, name)(fg.tensor(x)).numpy()
    wanted = getattr(torch.special, name)(torch.tensor(x)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-45)
    np.testing.assert_array_equal(np.signbit(found[3:5]), np.signbit(wanted[3:5]))


def test_gradients_are_not_offered() -> None:
    """As in PyTorch, whose results do not require one."""
    x = fg.tensor([1.0], requires_grad=True)
    for name in (*CASES, "spherical_bessel_j0"):
        assert not getattr(fg.special, name)(x).requires_grad
    with pytest.raises(RuntimeError, match="does not require grad"):
        fg.special.bessel_j0(x).sum().backward()
    with pytest.raises(RuntimeError, match="out"):
        fg.special.bessel_j0(x, out=fg.empty(1))


def test_refusals() -> None:
    with pytest.raises(TypeError, match="must be Tensor, not float"):
        fg.special.bessel_j0(1.0)
    for kind in (fg.float16, fg.bfloat16, fg.complex64):
        with pytest.raises(NotImplementedError, match="bessel_j0"):
            fg.special.bessel_j0(fg.ones(1, dtype=kind))
