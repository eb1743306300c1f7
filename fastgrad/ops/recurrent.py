"""What recurrent cells make of their gates, element by element.

The gates come as they leave the matrix products: before the logistic function and the hyperbolic tangent.
"""

from __future__ import annotations

from collections.abc import Sequence

from fastgrad.native.contracts.element_types import FLOATS, WIDE
from fastgrad.native.contracts.frame import Frame
from fastgrad.native.contracts.frames import recurrent
from fastgrad.native.contracts.ops import FLOAT_ONLY, SHAPE_FRAMED, STRUCTURED
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.registry import Op, elementwise
from fastgrad.ops.vocabulary import c, m

# --- LSTM: the new cell state, and the hidden state that it lets out ------------------------------------------------


@elementwise("lstm_state", dtypes=FLOATS)
def lstm_state(enter, forget, candidate, state):
    return m.sigmoid(forget) * state + m.sigmoid(enter) * m.tanh(candidate)


@lstm_state.partial("enter")
def _(enter, candidate):
    s = m.sigmoid(enter)
    return s * (c(1) - s) * m.tanh(candidate)


@lstm_state.partial("forget")
def _(forget, state):
    s = m.sigmoid(forget)
    return s * (c(1) - s) * state


@lstm_state.partial("candidate")
def _(enter, candidate):
    t = m.tanh(candidate)
    return m.sigmoid(enter) * (c(1) - t * t)


@lstm_state.partial("state")
def _(forget):
    return m.sigmoid(forget)


@elementwise("lstm_output", dtypes=FLOATS)
def lstm_output(leave, state):
    return m.sigmoid(leave) * m.tanh(state)


@lstm_output.partial("leave")
def _(leave, state):
    s = m.sigmoid(leave)
    return s * (c(1) - s) * m.tanh(state)


@lstm_output.partial("state")
def _(leave, state):
    t = m.tanh(state)
    return m.sigmoid(leave) * (c(1) - t * t)


# --- GRU: the candidate, and what the update gate lets stay of the old state -----------------------------------------


@elementwise("gru_candidate", dtypes=FLOATS)
def gru_candidate(reset, x, h):
    return m.tanh(x + m.sigmoid(reset) * h)


@gru_candidate.partial("reset")
def _(reset, h, y):
    s = m.sigmoid(reset)
    return (c(1) - y * y) * s * (c(1) - s) * h


@gru_candidate.partial("x")
def _(y):
    return c(1) - y * y


@gru_candidate.partial("h")
def _(reset, y):
    return (c(1) - y * y) * m.sigmoid(reset)


@elementwise("gru_state", dtypes=FLOATS)
def gru_state(update, candidate, state):
    return candidate + m.sigmoid(update) * (state - candidate)


@gru_state.partial("update")
def _(update, candidate, state):
    s = m.sigmoid(update)
    return s * (c(1) - s) * (state - candidate)


@gru_state.partial("candidate")
def _(update):
    return c(1) - m.sigmoid(update)


@gru_state.partial("state")
def _(update):
    return m.sigmoid(update)


# --- whole sequences -------------------------------------------------------------------------------------------------
# Nodes of their own have none of these: `nn.functional.recurrent` makes one of a layer.


def _layer(name: str, frame: Frame, builder: str, n_out: int, optional: Sequence[str] = ()) -> Op:
    """The op of a kernel; its operands are those of the frame, of which some may be left out."""
    inputs = tuple(f"{n}?" if n in optional else n for n in frame.names_of("inputs"))
    return Op(
        name, STRUCTURED, inputs, (*frame.names_of("integers"), "*outputs"), n_out=n_out, flags=FLOAT_ONLY,
        kernel=Kernel(name, builder, frame=frame, dtypes=WIDE), forward=SHAPE_FRAMED,
    )  # fmt: skip


_FORWARD, _BACKWARD = ("sizes",), ("grad_out", "grad_cell", "sizes")
LSTM = _layer("lstm", recurrent.LSTM, "recurrent:lstm", 3, _FORWARD)
LSTM_BACKWARD = _layer("lstm_backward", recurrent.LSTM_BACKWARD, "recurrent:lstm_backward", 2, _BACKWARD)
GRU = _layer("gru", recurrent.GRU, "recurrent:gru", 2, _FORWARD)
GRU_BACKWARD = _layer("gru_backward", recurrent.GRU_BACKWARD, "recurrent:gru_backward", 2, _BACKWARD)
RNN_TANH, RNN_RELU = (
    _layer(name, recurrent.RNN, f"recurrent:{name}", 1, _FORWARD) for name in ("rnn_tanh", "rnn_relu")
)
RNN_TANH_BACKWARD, RNN_RELU_BACKWARD = (
    _layer(name, recurrent.RNN_BACKWARD, f"recurrent:{name}", 2, _BACKWARD)
    for name in ("rnn_tanh_backward", "rnn_relu_backward")
)
