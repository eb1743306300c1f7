"""A driver without a GPU for the tests of this folder."""

from __future__ import annotations

import gc

import pytest

import fastgrad as fg
from fastgrad.cuda import later
from tests.collecting import collect
from tests.cuda.fake_driver import FakeDriver, attached
from tests.cuda.steps import settle


@pytest.fixture(scope="module")
def driver():
    """Two GPUs without a GPU; `driver.gpus` are they."""
    fake = FakeDriver(n_gpus=2)
    with attached(fake) as gpus:
        fake.gpus = gpus
        yield fake
        gc.collect()


@pytest.fixture
def all_is_done(driver):
    """A test leaves no work, no stream and no memory in the hands of others behind."""
    yield
    collect()
    fg.cuda.synchronize(0)
    fg.cuda.synchronize(1)
    assert not later._waiting
    fg.cuda.empty_cache()
    assert [gpu.read("n_choices") for gpu in driver.gpus] == [0, 0]
    assert [gpu.read("waiting") for gpu in driver.gpus] == [0, 0]


@pytest.fixture
def no_graphs_are_left(driver):
    """A test leaves no graph, no capture and no pool behind."""
    yield
    collect()
    fg.cuda.synchronize(0)
    fg.cuda.synchronize(1)
    settle()
    assert not driver.captures
    assert not driver.graphs
    assert not driver.executables
    fg.cuda.empty_cache()
    for gpu in driver.gpus:
        assert not gpu._captures
        assert all(not gpu._word(arena).value for arena in gpu._retired)


@pytest.fixture
def no_driver(monkeypatch):
    """A machine without a driver."""
    from fastgrad.cuda import gpus

    monkeypatch.setattr(gpus, "_gpus", None)
    monkeypatch.setattr(gpus, "_count", None)
    monkeypatch.setattr("fastgrad.cuda.driver.LIBRARY", "libcuda-of-nobody.so")
