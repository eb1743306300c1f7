"""Complex tensors on the bodies of the GPU's kernels, which the simulator runs."""

from __future__ import annotations

import gc

import pytest
from complex_cases import cases, of, pairs, reals, same

from fastgrad.functions import long_transforms
from tests.cuda.fake_driver import FakeDriver, attached

pytestmark = pytest.mark.cudasim


@pytest.fixture(scope="module")
def driver():
    fake = FakeDriver()
    with attached(fake, fake.simulator):
        yield fake
        gc.collect()


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("name", cases())
def test_values_and_gradients(driver, name):
    function, arrays = cases()[name]
    same("cuda", function, [of(a, "complex64") for a in arrays], "complex64")


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_transforms(driver, name, dtype):
    for n in (5, 12, 22):
        x = reals(2, n) if name in ("rfft", "ihfft") else pairs(2, n)
        same("cuda", lambda lib, x, n=n: getattr(lib.fft, name)(x, n=n), [of(x, dtype)], dtype)


@pytest.mark.parametrize("n", [12, 13])
def test_long_transforms(driver, n, monkeypatch):
    monkeypatch.setattr(long_transforms, "room_of", lambda rows: 8)
    x = of(pairs(2, n), "complex64")
    driver.launched.clear()
    same("cuda", lambda lib, x: lib.fft.fft(x), [x], "complex64", 3)
    assert "fft" in driver.launched
    assert ("polar" in driver.launched) == (n == 13)  # a convolution with a chirp
