"""Kernels of recurrent layers on the CUDA device, over the host's memory; see `test_simulator`."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_comparing import ROWS, agree, both

from fastgrad.native.contracts.element_types import DTYPES, FLOAT32, FLOAT64
from fastgrad.native.contracts.frames.elementwise import FLAT
from fastgrad.native.contracts.frames.matrices import PANEL_COLUMNS

pytestmark = pytest.mark.cudasim
FORWARD = ("lstm", "gru", "rnn_tanh", "rnn_relu")
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def panels(rows: int, columns: int, dtype: int) -> np.ndarray:
    """A matrix by panels, small enough that gates are not saturated."""
    count = -(-columns // PANEL_COLUMNS)
    return drawn(count * rows * PANEL_COLUMNS, 7, dtype) / np.sqrt(rows).astype(DTYPES[dtype])


def drawn(count: int, seed: int, dtype: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(count).astype(DTYPES[dtype])


def shape(sizes, steps, batch, size, backwards, columns):
    """The integers of a frame; and how many rows there are."""
    rows = sum(sizes) if sizes else steps * batch
    frame = {
        "steps": steps, "rows": rows, "batch": batch, "n": batch, "first": 0, "size": size, "backwards": backwards,
        "width": -(-columns // PANEL_COLUMNS) * PANEL_COLUMNS,
    }  # fmt: skip
    if sizes:
        frame["sizes__data"] = np.array(sizes)
    return frame, rows


def forward(name, sizes, steps, batch, size, backwards, dtype, seen=agree, **changes):
    gates = GATES[name]
    frame, rows = shape(sizes, steps, batch, size, backwards, gates * size)
    frame |= {
        "x__data": drawn(rows * gates * size, 1, dtype), "h__data": drawn(batch * size, 2, dtype),
        "panels__data": panels(size, gates * size, dtype),
    }  # fmt: skip
    kind = DTYPES[dtype]
    outs = {"out": np.zeros(rows * size, kind), "status": np.zeros(3, np.int64)}
    if gates > 1:
        outs["gates"] = np.zeros(rows * 4 * size, kind)
    if name == "lstm":
        outs["cells"] = np.zeros((rows + batch) * size, kind)
        frame |= {"c__data": drawn(batch * size, 3, dtype), "states": rows + batch}
        if sizes and sizes[0] < batch:  # nobody reads the first states of sequences without steps
            outs["cells"][:] = 0
    if name == "gru":
        frame["bias__data"] = drawn(3 * size, 4, dtype)
    return (
        seen(name, dtype, FLAT, outs, 64, **frame | changes)
        if seen is not agree
        else agree(name, dtype, FLAT, outs, 64, 64, 0.05, **frame | changes)
    )


def backward(name, sizes, steps, batch, size, backwards, dtype):
    gates, kind = GATES[name], DTYPES[dtype]
    frame, rows = shape(sizes, steps, batch, size, backwards, size)
    between = np.abs(np.tanh(drawn(rows * 4 * size, 5, dtype)))
    frame |= {
        "grad_out__data": drawn(rows * size, 6, dtype),
        "panels__data": panels(gates * size, size, dtype),
    }
    outs = {"status": np.zeros(3, np.int64)}
    if name == "lstm":
        frame |= {
            "gates__data": between, "cells__data": drawn((rows + batch) * size, 8, dtype), "states": rows + batch,
            "grad_cell__data": drawn(batch * size, 9, dtype),
        }  # fmt: skip
        outs |= {"grad_x": np.zeros(rows * 4 * size, kind), "grad_states": np.ones(2 * batch * size, kind)}
    elif name == "gru":
        frame |= {
            "gates__data": between, "out__data": drawn(rows * size, 8, dtype), "h__data": drawn(batch * size, 9, dtype)
        }  # fmt: skip
        outs |= {"grad_gates": np.zeros(2 * rows * 3 * size, kind), "grad_h": np.ones(batch * size, kind)}
    else:
        frame["out__data"] = drawn(rows * size, 8, dtype)
        outs |= {"grad_x": np.zeros(rows * size, kind), "grad_h": np.ones(batch * size, kind)}
    agree(f"{name}_backward", dtype, FLAT, outs, 64, 64, 0.05, **frame)


COURSES = {  # how many sequences each step has, steps, sequences, elements of a state, whether backwards
    "one size": (None, 3, 2, 9, 0), "one size from its end": (None, 2, 3, 5, 1), "sizes": ([4, 2, 1], 3, 4, 3, 0),
    "sizes from the end": ([4, 2, 2], 3, 4, 3, 1), "a sequence without steps": ([2, 1], 2, 3, 4, 0),
    "several tiles": (None, 2, 34, 9, 0),
}  # fmt: skip


@pytest.mark.parametrize("course", COURSES.values(), ids=COURSES)
@pytest.mark.parametrize("name", FORWARD)
def test_layers(name, course):
    for dtype in (FLOAT32, FLOAT64) if course[2] < 4 else (FLOAT32,):
        forward(name, *course, dtype)
        backward(name, *course, dtype)


def test_an_inner_dimension_of_several_rounds():
    for name in ("lstm", "rnn_tanh"):
        forward(name, None, 2, 1, 70, 0, FLOAT32)
        backward(name, None, 2, 1, 40, 0, FLOAT32)


@pytest.mark.parametrize("name", FORWARD)
def test_numbers_that_do_not_belong_together_are_reported(name):
    assert "status" in ROWS[name].frame(FLAT).fields
    for changes in ({"rows": 5}, {"width": 3}, {"first": 1}, {"sizes__data": np.array([1, 2])}):
        mine, theirs = forward(name, None, 2, 2, 4, 0, FLOAT32, both, **changes)
        np.testing.assert_array_equal(mine["status"], theirs["status"])
        assert mine["status"][0] != 0
        assert not mine["out"].any()
