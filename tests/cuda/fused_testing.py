"""What the tests of fused kernels of GPUs share."""

from __future__ import annotations

import gc
import re

import numpy as np
import pytest

import fastgrad as fg
from fastgrad.compiler.fusion import fuse
from fastgrad.kernels.cuda.compile import FusedRow
from fastgrad.native.contracts.element_types import FLOAT32
from fastgrad.native.contracts.frames import FLAT
from fastgrad.native.host.tape import record
from tests.fusion_testing import wanted_of


def tensor(seed, *sizes, dtype=np.float32):
    return fg.tensor(np.random.default_rng(seed).standard_normal(sizes).astype(dtype), device="cuda")


def fused_tape(function, *inputs):
    """A function on a tape, fused: the tape, the result, what it was before, and the report.

    What becomes of the inputs is undone.
    """
    before = [t.detach().clone() for t in inputs]

    def undo():
        for t, value in zip(inputs, before, strict=True):
            t.detach().copy_(value)

    function(*inputs)
    undo()
    with record() as tape:
        out = function(*inputs)
    expected = out.cpu().numpy().copy()
    found = fuse(tape.entries(), wanted_of([out, *inputs]))
    tape.edit(found.order)
    undo()
    return tape, out, expected, found.report


def rows_of(function, *sizes):
    """The rows of the kernel table that stand for the fused kernels of a function."""
    made, own = [], FusedRow.__init__

    def kept(self, program, kernels):
        own(self, program, kernels)
        made.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FusedRow, "__init__", kept)
        fused_tape(function, *(tensor(k, *s) for k, s in enumerate(sizes)))
        gc.collect()
    return made


def assert_compiles(row, doubles):
    """A kernel compiles for all architectures, without spills, calls and divisions of 64 bits."""
    from fastgrad.kernels.cuda.assemble import assembled

    for architecture in ("sm_80", "sm_90", "sm_100", "sm_120"):
        made = assembled(row, FLOAT32, FLAT, architecture)
        assert not any(map(int, re.findall(r"(\d+) bytes (?:spill|stack)", made.report)))
        assert (".f64" in made.ptx) == doubles
        assert not re.search(r"\b(?:div|rem)\.[su]64", made.ptx)
        assert not made.ptx.count(".extern .func")
