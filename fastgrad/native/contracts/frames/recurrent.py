"""Recurrent layers: all steps of a sequence in one launch, divided by the sequences of a batch."""

from __future__ import annotations

from functools import partial

from fastgrad.native.contracts.frame import reads, writes
from fastgrad.native.contracts.frames.framed import FRAMED, INPUT
from fastgrad.native.contracts.split import Split

PANEL_COLUMNS = 32
"""Columns of a panel of a matrix that many products share."""

_in = partial(reads, part=INPUT)

# A matrix (k, n), or its transpose, by panels of its columns, of which there are `panels`.
PANELS = FRAMED.named(
    "panels", outputs={"out": writes("panels", "k", PANEL_COLUMNS)}, inputs={"x": _in("k", "row")},
    integers="panels n k row transposed",
    splits=(
        Split("n", {"out": ("k",), "x": ("k",)}, grain=PANEL_COLUMNS, where={"transposed": 1}),
        Split("n", {"out": ("k",), "x": ()}, grain=PANEL_COLUMNS, where={"transposed": 0}),
    ),
)  # fmt: skip

# Each of `steps` has the four gates of `batch` sequences next to each other, `size` elements each: first what the input
# gives to them, in the end their values. Of the `batch` sequences a part computes `n`. There is one cell state more
# than steps, as the first one stands before them; `states` counts them. They are in the order of computing, everything
# else in that of time, in which the steps may run `backwards`. The panels of the weights have `width` columns.
_INTEGERS = "steps states batch n size backwards width"
_GATES, _STEPS, _STATES, _ROWS = (
    ("steps", "batch", 4, "size"), ("steps", "batch", "size"), ("states", "batch", "size"), ("batch", "size"),
)  # fmt: skip
SEQUENCES = 16
"""Sequences of a part: fewer read the weights from memory too often."""


def _by_sequences(gates: str, *rows: str) -> tuple[Split, ...]:
    moves = {name: (4, "size") for name in gates.split()} | dict.fromkeys(rows, ("size",))
    return (Split("n", moves, grain=SEQUENCES),)


LSTM = FRAMED.named(
    "lstm", outputs={"out": writes(*_STEPS), "cells": writes(*_STATES), "gates": writes(*_GATES)},
    inputs={"x": _in(*_GATES), "h": _in(*_ROWS), "c": _in(*_ROWS), "panels": _in("width", "size")},
    integers=_INTEGERS, splits=_by_sequences("gates x", "out", "cells", "h", "c"),
)  # fmt: skip

# Gradients of the outputs, of the last cell state, become those of the gates before their functions, of the first
# states. `weight` is by panels.
LSTM_BACKWARD = FRAMED.named(
    "lstm_backward",
    outputs={"grad_x": writes(*_GATES), "grad_h": writes(*_ROWS), "grad_c": writes(*_ROWS)},
    inputs={
        "gates": _in(*_GATES), "cells": _in(*_STATES), "panels": _in("width", 4, "size"),
        "grad_out": _in(*_STEPS), "grad_cell": _in(*_ROWS),
    },
    integers=_INTEGERS,
    splits=_by_sequences("grad_x gates", "grad_h", "grad_c", "cells", "grad_out", "grad_cell"),
)  # fmt: skip
