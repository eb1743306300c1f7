"""A driver without a GPU for the tests of this folder."""

from __future__ import annotations

import gc

import pytest

from tests.cuda.fake_driver import FakeDriver, attached


@pytest.fixture(scope="module")
def driver():
    """Two GPUs without a GPU; `driver.gpus` are they."""
    fake = FakeDriver(n_gpus=2)
    with attached(fake) as gpus:
        fake.gpus = gpus
        yield fake
        gc.collect()


@pytest.fixture
def no_driver(monkeypatch):
    """A machine without a driver."""
    from fastgrad.cuda import gpus

    monkeypatch.setattr(gpus, "_gpus", None)
    monkeypatch.setattr(gpus, "_count", None)
    monkeypatch.setattr("fastgrad.cuda.driver.LIBRARY", "libcuda-of-nobody.so")
