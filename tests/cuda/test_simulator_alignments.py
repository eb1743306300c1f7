"""Connectionist temporal classification on the CUDA device, in the simulator, compared with the CPU's kernels."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_comparing import ROWS, agree, both, run_cpu
from cuda_simulator import words_of

from fastgrad.native.contracts.element_types import DTYPES, FLOAT32, FLOAT64
from fastgrad.native.contracts.frame import INDEX_OUTSIDE
from fastgrad.native.contracts.frames.elementwise import FLAT

pytestmark = pytest.mark.cudasim

TIMES, CLASSES, BLANK = 7, 5, 1
# Length, labels and their start of each sequence: one that has no alignment, empty ones, one with labels of the blank.
LAYOUT = np.array([[7, 3, 0], [5, 2, 3], [3, 3, 5], [0, 0, 0], [0, 1, 2], [4, 0, 0], [7, 3, 8]])
TARGETS = np.array([0, 2, 0, 3, 3, 4, 4, 4, 2, 1, 2])
COUNT, STATES = len(LAYOUT), 9
FRAME = {
    "n": COUNT, "times": TIMES, "classes": CLASSES, "states": STATES, "blank": BLANK, "first": 0, "count": COUNT,
    "targets__numel": len(TARGETS),
}  # fmt: skip


def log_probs(dtype: int, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((TIMES, COUNT, CLASSES))
    return (x - np.log(np.exp(x).sum(-1, keepdims=True))).astype(DTYPES[dtype]).ravel()


def outs_of(dtype: int) -> dict[str, np.ndarray]:
    kind = DTYPES[dtype]
    return {"loss": np.full(COUNT, 7, kind), "alpha": np.full(COUNT * TIMES * STATES, 7, kind)}


def forward(dtype: int, x: np.ndarray) -> dict[str, np.ndarray]:
    """What the CPU keeps for the backward pass."""
    outs = outs_of(dtype)
    given = {"log_probs__data": x, "targets__data": TARGETS, "layout__data": LAYOUT.ravel()}
    run_cpu(
        ROWS["ctc_loss"], dtype, FLAT, words_of(ROWS["ctc_loss"].frame(FLAT), **outs, **given, **FRAME), 64
    )
    return outs


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=DTYPES.__getitem__)
def test_losses(dtype):
    given = {"log_probs__data": log_probs(dtype), "targets__data": TARGETS, "layout__data": LAYOUT.ravel()}
    agree("ctc_loss", dtype, FLAT, outs_of(dtype), 8, 64, of_largest=1, **given, **FRAME)
    losses = forward(dtype, given["log_probs__data"])["loss"]
    assert np.isinf(losses).sum() == 2
    assert losses[3] == 0


@pytest.mark.parametrize("zero_infinity", [0, 1])
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=DTYPES.__getitem__)
def test_gradients(dtype, zero_infinity):
    x, kind = log_probs(dtype), DTYPES[dtype]
    kept = forward(dtype, x)
    given = {
        "log_probs__data": x, "targets__data": TARGETS, "layout__data": LAYOUT.ravel(),
        "loss__data": kept["loss"], "alpha__data": kept["alpha"],
        "grad__data": np.random.default_rng(1).uniform(0.5, 2, COUNT).astype(kind),
    }  # fmt: skip
    mine, theirs = both(
        "ctc_loss_backward", dtype, FLAT,
        {"out": np.full(x.size, 7, kind), "beta": np.zeros(COUNT * 2 * STATES, kind)}, 64, **given, **FRAME,
        zero_infinity=zero_infinity,
    )  # fmt: skip
    digits = 1e-5 if dtype == FLOAT32 else 1e-13
    np.testing.assert_allclose(mine["out"], theirs["out"], rtol=digits, atol=digits, equal_nan=True)
    assert np.isfinite(theirs["out"]).all() == bool(zero_infinity)
    assert (theirs["out"] != 0).any()


@pytest.mark.parametrize("name", ["ctc_loss", "ctc_loss_backward"])
def test_what_cannot_be_is_reported_and_not_read(name):
    x, backward = log_probs(FLOAT32), name != "ctc_loss"
    outs = {"out": np.zeros(x.size, np.float32), "beta": np.zeros(COUNT * 2 * STATES, np.float32)}
    outs = (outs if backward else outs_of(FLOAT32)) | {"status": np.zeros(3, np.int64)}
    kept = forward(FLOAT32, x)
    more = (
        {"grad__data": kept["loss"], "loss__data": kept["loss"], "alpha__data": kept["alpha"]}
        if backward
        else {}
    )

    def reported(layout: np.ndarray, targets: np.ndarray, **changed: int) -> None:
        given = {"log_probs__data": x, "targets__data": targets, "layout__data": layout.ravel()}
        mine, theirs = both(name, FLOAT32, FLAT, outs, 64, **given, **more, **{**FRAME, **changed})
        assert mine["status"][0] == INDEX_OUTSIDE
        np.testing.assert_array_equal(mine["status"], theirs["status"])

    for place, value in (
        ((0, 0), TIMES + 1),
        ((1, 0), -1),
        ((0, 1), 5),
        ((1, 1), -1),
        ((1, 2), 10),
        ((1, 2), -1),
    ):
        layout = LAYOUT.copy()
        layout[place] = value
        reported(layout, TARGETS)
    for wrong in (CLASSES, -1):
        targets = TARGETS.copy()
        targets[10] = wrong
        reported(LAYOUT, targets)
    reported(LAYOUT, TARGETS, blank=CLASSES)
    reported(LAYOUT, TARGETS, first=1)
