"""Recurrent layers: all steps of a sequence in one launch, divided by the sequences of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from fastgrad.native.contracts.element_types import INT64
from fastgrad.native.contracts.frame import Field, Frame, reads, writes
from fastgrad.native.contracts.frames.framed import FRAMED, INPUT
from fastgrad.native.contracts.split import Split

_in = partial(reads, part=INPUT)

# Each of `steps` has rows of some gates next to each other, `size` elements each, one row for each of its sequences. Of
# these there are `batch`, or as many as `sizes` says: the longest sequences come first, so that each step has the first
# ones. There are `rows` in all, in the order of time, in which the steps may run `backwards`. Of the sequences a part
# computes `n` from `first` on. The panels of the weights have `width` columns.
_INTEGERS = "steps rows batch n first size backwards width"
_ROWS, _FIRST, _PANELS = ("rows", "size"), ("batch", "size"), ("width", "size")
_SIZES = {"sizes": _in("steps", element=INT64)}
SEQUENCES = 16
"""Sequences of a part: fewer read the weights from memory too often."""
_BY_SEQUENCES = (Split("n", {"first": 1}, grain=SEQUENCES),)


def _layer(name: str, outputs: Mapping[str, Field], inputs: Mapping[str, Field], more: str = "") -> Frame:
    """The frame of a kernel that runs over all steps."""
    return FRAMED.named(
        name, outputs=outputs, inputs={**inputs, **_SIZES}, integers=_INTEGERS + more, splits=_BY_SEQUENCES
    )


def _gates(count: int) -> tuple[str | int, ...]:
    return ("rows", count, "size")


# The cell states of all rows, and behind them the first ones, which `states` counts as well. The gates are kept: what
# becomes of the products and of `x`, which the input gives to them.
LSTM = _layer(
    "lstm", {"out": writes(*_ROWS), "cells": writes("states", "size"), "gates": writes(*_gates(4))},
    {"x": _in(*_gates(4)), "h": _in(*_FIRST), "c": _in(*_FIRST), "panels": _in(*_PANELS)}, " states",
)  # fmt: skip
# Gradients of the outputs and of the last cell state become those of the gates before their functions, and of the first
# hidden and cell states.
LSTM_BACKWARD = _layer(
    "lstm_backward", {"grad_x": writes(*_gates(4)), "grad_states": writes(2, *_FIRST)},
    {
        "gates": _in(*_gates(4)), "cells": _in("states", "size"), "panels": _in("width", 4, "size"),
        "grad_out": _in(*_ROWS), "grad_cell": _in(*_FIRST),
    }, " states",
)  # fmt: skip

# Of the gates are kept their values, and what the state gives to the candidate before the gate of resetting.
GRU = _layer(
    "gru", {"out": writes(*_ROWS), "gates": writes(*_gates(4))},
    {"x": _in(*_gates(3)), "h": _in(*_FIRST), "panels": _in(*_PANELS), "bias": _in(3, "size")},
)  # fmt: skip
# The gradients of what the input gives to the gates, then of what the state gives to them.
GRU_BACKWARD = _layer(
    "gru_backward", {"grad_gates": writes(2, *_gates(3)), "grad_h": writes(*_FIRST)},
    {
        "gates": _in(*_gates(4)), "out": _in(*_ROWS), "h": _in(*_FIRST), "panels": _in("width", 3, "size"),
        "grad_out": _in(*_ROWS),
    },
)  # fmt: skip

RNN = _layer("rnn", {"out": writes(*_ROWS)}, {"x": _in(*_ROWS), "h": _in(*_FIRST), "panels": _in(*_PANELS)})
RNN_BACKWARD = _layer(
    "rnn_backward", {"grad_x": writes(*_ROWS), "grad_h": writes(*_FIRST)},
    {"out": _in(*_ROWS), "panels": _in(*_PANELS), "grad_out": _in(*_ROWS)},
)  # fmt: skip
