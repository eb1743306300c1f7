"""Random programs with hooks, modules, checkpoints and custom functions do the same compiled as eagerly, on a GPU."""

from __future__ import annotations

import functools
import gc
import os

import pytest

import fastgrad as fg
from tests.compiler.random_steps.draw import draw
from tests.compiler.random_steps.run import Arguments, check
from tests.compiler.random_steps.world import World

PROGRAMS = int(os.environ.get("FASTGRAD_GPU_STEPS", "24"))
LEAST_REPLAYED = 0.3


def on_gpu(method):
    """A method whose new tensors are those of a GPU."""

    @functools.wraps(method)
    def chosen(*args):
        with fg.device("cuda"):
            return method(*args)

    return chosen


@pytest.fixture
def worlds_on_gpus(driver, monkeypatch):
    """Whatever programs see lies on a GPU."""
    for owner, name in ((World, "__init__"), (Arguments, "make"), (Arguments, "change_world")):
        monkeypatch.setattr(owner, name, on_gpu(getattr(owner, name)))
    yield
    fg.compiler.reset()
    gc.collect()


@pytest.mark.usefixtures("worlds_on_gpus")
def test_programs_do_the_same():
    replayed = 0
    for seed in range(PROGRAMS):
        program = draw(seed)
        found, n_replayed = check(program)
        assert found is None, f"\n{program}\n{found}"
        replayed += n_replayed > 0
    assert replayed > LEAST_REPLAYED * PROGRAMS
