"""Hooks of every kind see on a GPU what they see on the CPU, in the same order: programs drawn at random."""

from __future__ import annotations

import os

import pytest

import fastgrad as fg
from tests.autograd.random_programs.compare import first_difference
from tests.autograd.random_programs.draw import draw
from tests.autograd.random_programs.features import FEATURES
from tests.autograd.random_programs.run import Run

CHUNK = 50
PROGRAMS = int(os.environ.get("FASTGRAD_PROGRAMS", "200"))


@pytest.mark.parametrize("start", range(0, PROGRAMS, CHUNK))
def test_programs_do_the_same(gpu, start):
    for seed in range(start, min(start + CHUNK, PROGRAMS)):
        program = draw(seed, frozenset(FEATURES))
        wanted = Run(fg, program).log
        with fg.device(gpu):
            found = Run(fg, program).log
        different = first_difference(found, wanted, "float32" in str(program))
        assert different is None, f"seed {seed}\n{program}\n{different}"
