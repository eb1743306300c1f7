"""Random graph programs with hooks of every kind do the same in fastgrad and in PyTorch.

``FASTGRAD_PROGRAMS=50000 pytest -m parity tests/autograd/test_random_programs.py`` runs more of them,
``FASTGRAD_EXAMPLES=5000`` more of those that hypothesis draws, and
``python -m tests.autograd.random_programs`` does so with a process for every few hundred.
"""

from __future__ import annotations

import gc
import os
import random
from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fastgrad as fg
from tests.autograd.random_programs.compare import check, first_difference
from tests.autograd.random_programs.draw import draw
from tests.autograd.random_programs.features import DIFFERENCES, FEATURES, available
from tests.autograd.random_programs.program import Apply, Program, Register, Sweep
from tests.autograd.random_programs.run import Run
from tests.autograd.random_programs.shrink import shrink

pytestmark = pytest.mark.parity

CHUNK = 100
EXAMPLES = int(os.environ.get("FASTGRAD_EXAMPLES", "200"))  # that hypothesis draws
PROGRAMS = int(os.environ.get("FASTGRAD_PROGRAMS", "1000"))


@pytest.fixture(scope="module")
def torch() -> ModuleType:
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    gc.freeze()
    return torch


@pytest.fixture(scope="module")
def features(torch: ModuleType) -> frozenset[str]:
    return available(fg, torch)


@pytest.mark.parametrize("start", range(0, PROGRAMS, CHUNK))
def test_programs_do_the_same(torch: ModuleType, features: frozenset[str], start: int):
    for seed in range(start, min(start + CHUNK, PROGRAMS)):
        program = draw(seed, features)
        found = check(program, (fg, torch))
        if found is not None:
            kind = found.kind
            small = shrink(program, lambda p: getattr(check(p, (fg, torch)), "kind", None) == kind)  # noqa: B023
            pytest.fail(f"seed {seed}\n{small}\n{check(small, (fg, torch))}", pytrace=False)


@settings(
    max_examples=EXAMPLES,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),  # programs are large, and the fixtures hold no state
)
@given(rng=st.randoms(use_true_random=False))
def test_programs_that_hypothesis_draws_do_the_same(
    torch: ModuleType, features: frozenset[str], rng: random.Random
):
    """Its numbers are rather extreme ones, and it looks for a small program that fails by itself."""
    program = draw(rng, features)
    found = check(program, (fg, torch))
    assert found is None, f"\n{program}\n{found}"


def test_a_program_does_the_same_twice_with_every_feature_of_torch(torch: ModuleType):
    features = available(torch)
    assert features >= set(FEATURES)
    for seed in range(200):
        assert check(draw(seed, features), (torch, torch)) is None


def test_features_of_both_libraries_are_used(features: frozenset[str]):
    """What is missing today is left out, and comes in as soon as its probe finds it."""
    print("used:", *sorted(features), sep="\n  ")
    print("left out:", *sorted({*FEATURES, *DIFFERENCES} - features), sep="\n  ")
    marks = {
        "function": "F.",
        "multi grad hook": "multi a",
        "saved tensors hooks": "with packed",
        "callback": "callback",
        "gradient edge": "edge(",
    }
    assert set(marks) == set(FEATURES)
    for name, mark in marks.items():
        chosen = features | {name}
        assert any(mark in str(draw(seed, chosen)) for seed in range(100)), name
        without = features - {name}
        assert not any(mark in str(draw(seed, without)) for seed in range(100)), name


def test_differences_have_reasons():
    assert all(len(reason) > 30 for _, reason in DIFFERENCES.values())


def test_a_seed_always_gives_the_same_program(features: frozenset[str]):
    assert [draw(seed, features) for seed in range(20)] == [draw(seed, features) for seed in range(20)]


def test_programs_have_passes_hooks_and_events(features: frozenset[str]):
    programs = [draw(seed, features) for seed in range(200)]
    for kind in (Apply, Register, Sweep):
        assert sum(any(isinstance(s, kind) for s in p.statements) for p in programs) > 150
    hooks = {s.hook.kind for p in programs for s in p.statements if isinstance(s, Register)}
    assert hooks >= {"tensor", "retain", "post accumulate", "node pre", "node post", "leaf pre", "leaf post"}
    fired = [event[0] for p in programs for event in Run(fg, p).log if event[0].startswith("h")]
    assert len(fired) > 200


def test_a_difference_is_found_and_made_small(features: frozenset[str]):
    """Here a program fails if a product is among its ops: all else goes."""

    def has_product(p: Program) -> bool:
        return any(" * t" in s.code for s in p.statements if isinstance(s, Apply))

    program = next(p for p in (draw(seed, features) for seed in range(100)) if has_product(p))
    assert len(shrink(program, has_product).statements) == 1
    log = Run(fg, program).log
    assert first_difference(log, list(log), single=False) is None
    found = first_difference(log, log[:-1], single=False)
    assert found is not None
    assert found.index == len(log) - 1
    assert found.theirs is None
