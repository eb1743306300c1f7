"""Random trees of modules with random hooks do the same in fastgrad and in PyTorch.

``FASTGRAD_MODULES=20000 pytest -m parity tests/nn/test_random_modules.py`` runs more of them.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from types import ModuleType

import pytest

import fastgrad as fg
from tests.nn.random_modules import Run, alike

pytestmark = pytest.mark.parity

CHUNK = 100
MODULES = int(os.environ.get("FASTGRAD_MODULES", "800"))


@pytest.fixture(scope="module")
def torch() -> Iterator[ModuleType]:
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    gc.freeze()
    return torch


@pytest.mark.parametrize("start", range(0, MODULES, CHUNK))
def test_trees_do_the_same(torch: ModuleType, start: int):
    for seed in range(start, min(start + CHUNK, MODULES)):
        mine, theirs = Run(fg, seed).run(), Run(torch, seed).run()
        for k, (a, b) in enumerate(zip(mine, theirs, strict=False)):
            assert alike(a, b), f"seed {seed}, event {k} after {mine[max(0, k - 3) : k]}"
        assert len(mine) == len(theirs), f"seed {seed}"
