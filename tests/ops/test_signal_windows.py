"""`fastgrad.signal.windows`: values against formulas and PyTorch, errors."""

from __future__ import annotations

import numpy as np
import pytest

import fastgrad as fg
from fastgrad.signal import windows

NAMES = windows.__all__
OPTIONS = {
    "general_cosine": [{"a": [0.5, 0.3, 0.2]}, {"a": (1.0,)}],
    "general_hamming": [{}, {"alpha": 0.6}],
    "exponential": [{}, {"tau": 2.5}],
    "gaussian": [{}, {"std": 0.7}],
    "kaiser": [{}, {"beta": 3.0}, {"beta": 0.0}],
}


@pytest.mark.parametrize("name", NAMES)
def test_windows_are_symmetric_or_periodic(name):
    for options in OPTIONS.get(name, [{}]):
        whole = getattr(windows, name)(9, **options, dtype=fg.float64).numpy()
        np.testing.assert_allclose(whole, whole[::-1], rtol=1e-12, atol=1e-15)
        if name != "exponential":  # a periodic one has its middle elsewhere
            periodic = getattr(windows, name)(8, **options, sym=False, dtype=fg.float64).numpy()
            np.testing.assert_allclose(periodic, whole[:8], rtol=1e-12, atol=1e-15)
        assert getattr(windows, name)(1, **options).tolist() == [1]
        assert getattr(windows, name)(0, **options).shape == (0,)


def test_a_window_may_require_a_gradient():
    assert windows.hann(4, requires_grad=True).is_leaf
    assert windows.hann(4, requires_grad=True).requires_grad


def test_an_exponential_window_may_have_another_center():
    found = windows.exponential(4, center=0, sym=False, dtype=fg.float64)
    np.testing.assert_allclose(found.numpy(), np.exp(-np.arange(4.0)), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: windows.cosine(-1), ValueError, "non-negative window length, got M=-1"),
        (lambda: windows.cosine(2.5), TypeError, "M"),
        (lambda: windows.cosine(None), TypeError, "M"),
        (lambda: windows.cosine(5, dtype=fg.int32), ValueError, "float32 or float64"),
        (lambda: windows.cosine(5, layout="rows"), ValueError, "strided"),
        (lambda: windows.kaiser(5, beta=-1.0), ValueError, "non-negative"),
        (lambda: windows.gaussian(5, std=0.0), ValueError, "positive"),
        (lambda: windows.exponential(5, tau=-1.0), ValueError, "positive"),
        (lambda: windows.exponential(5, center=1.0), ValueError, "symmetric"),
        (lambda: windows.general_cosine(5, a=[]), ValueError, "empty"),
        (lambda: windows.general_cosine(5, a=3.0), TypeError, "list"),
        (lambda: windows.general_cosine(5, a=["x"]), TypeError, "a"),
    ],
)
def test_errors(call, error, says):
    with pytest.raises(error, match=says):
        call()


@pytest.mark.parity
@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_of_pytorch(name):
    torch = pytest.importorskip("torch")
    assert sorted(NAMES) == sorted(torch.signal.windows.__all__)
    for options in OPTIONS.get(name, [{}]):
        for m in (0, 1, 2, 5, 16):
            for sym in (True, False):
                found = getattr(windows, name)(m, **options, sym=sym)
                wanted = getattr(torch.signal.windows, name)(m, **options, sym=sym)
                np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)
                assert found.numpy().dtype == wanted.numpy().dtype
