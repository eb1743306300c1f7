"""Recurrent cells: one step at a time."""

from __future__ import annotations

import math
from typing import Any

from fastgrad.functions.arguments import need_tensor
from fastgrad.functions.creation import empty, zeros
from fastgrad.functions.recurrent import gru_cell, lstm_cell, rnn_relu_cell, rnn_tanh_cell
from fastgrad.functions.shape import squeeze, unsqueeze
from fastgrad.nn import init
from fastgrad.nn.modules.module import Module
from fastgrad.nn.parameter import Parameter


def fill_uniformly(module: Any) -> None:
    """Fill all parameters from the uniform distribution between ``-1 / sqrt(H)`` and ``1 / sqrt(H)``."""
    bound = 1 / math.sqrt(module.hidden_size) if module.hidden_size > 0 else 0.0
    for weight in module.parameters():
        init.uniform_(weight, -bound, bound)


class RNNCellBase(Module):
    """What `RNNCell`, `LSTMCell` and `GRUCell` have in common.

    Parameters
    ----------
    input_size, hidden_size : int
        Numbers of features.
    bias : bool
        Whether there are biases.
    num_chunks : int
        Number of gates.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (rows, input_size),
            "weight_hh": (rows, hidden_size),
        }
        shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        for name, shape in shapes.items():
            absent = name.startswith("bias") and not bias
            self.register_parameter(
                name, None if absent else Parameter(empty(shape, device=device, dtype=dtype))
            )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Fill all parameters anew, uniformly between ``-1 / sqrt(hidden_size)`` and ``1 / sqrt(hidden_size)``."""
        fill_uniformly(self)

    def extra_repr(self) -> str:
        """The arguments that are not as by default."""
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"

    def _step(self, cell: Any, x: Any, states: Any, names: tuple[str, ...]) -> Any:
        """One call of `cell`, with or without a batch; absent states are zeros."""
        kind = type(self).__name__
        if need_tensor(kind, x).ndim not in (1, 2):
            raise ValueError(f"{kind}: Expected input to be 1D or 2D, got {x.ndim}D instead")
        if states is not None:
            states = states if len(names) == 2 else (states,)
            for name, state in zip(names, states, strict=False):
                if need_tensor(kind, state, name, 2).ndim not in (1, 2):
                    raise ValueError(f"{kind}: Expected {name} to be 1D or 2D, got {state.ndim}D instead")
        batched = x.ndim == 2
        if states is not None:
            for name, state in zip(names, states, strict=False):
                if state.ndim != x.ndim:
                    raise RuntimeError(
                        f"{kind}: {name} has {state.ndim} dimensions and the input {x.ndim}: both have a batch or "
                        "neither has"
                    )
        if not batched:
            x = unsqueeze(x, 0)
        if states is None:
            states = (zeros(x.shape[0], self.hidden_size, dtype=x.dtype, device=x.device),) * len(names)
        elif not batched:
            states = tuple(unsqueeze(s, 0) for s in states)
        parameters = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        out = cell(x, states if len(names) == 2 else states[0], *parameters)
        if batched:
            return out
        return tuple(squeeze(s, 0) for s in out) if len(names) == 2 else squeeze(out, 0)


class RNNCell(RNNCellBase):
    """One step of a simple recurrent network: ``tanh(W_ih x + b_ih + W_hh h + b_hh)`` (Elman 1990).

    Parameters
    ----------
    input_size, hidden_size : int
        Numbers of features.
    bias : bool
        Whether there are biases.
    nonlinearity : "tanh" or "relu"

    Attributes
    ----------
    weight_ih, weight_hh : Parameter
        Shapes (H, I) and (H, H).
    bias_ih, bias_hh : Parameter
        Shape (H,).

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.RNNCell(4, 3)(fg.zeros(2, 4)).shape
    fastgrad.Size([2, 3])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The next hidden state (N, H) or (H,), from `input` (N, I) or (I,) and `hx`, zeros if not given.

        Raises
        ------
        ValueError
            If an operand has not 1 or 2 dimensions.
        RuntimeError
            If sizes do not fit, or the nonlinearity is neither "tanh" nor "relu".
        """
        cells = {"tanh": rnn_tanh_cell, "relu": rnn_relu_cell}
        if self.nonlinearity not in cells:
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}; use 'tanh' or 'relu'")
        return self._step(cells[self.nonlinearity], input, hx, ("hidden",))


class LSTMCell(RNNCellBase):
    """One step of a long short-term memory; see `fastgrad.lstm_cell`.

    Parameters
    ----------
    input_size, hidden_size : int
        Numbers of features.
    bias : bool
        Whether there are biases.

    Attributes
    ----------
    weight_ih, weight_hh : Parameter
        Shapes (4 H, I) and (4 H, H).
    bias_ih, bias_hh : Parameter
        Shape (4 H,).

    Examples
    --------
    >>> import fastgrad as fg
    >>> h, c = fg.nn.LSTMCell(4, 3)(fg.zeros(2, 4))
    >>> c.shape
    fastgrad.Size([2, 3])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The next hidden and cell state (N, H) or (H,), from `input` (N, I) or (I,) and the pair `hx` of states.

        Raises
        ------
        ValueError
            If an operand has not 1 or 2 dimensions.
        RuntimeError
            If sizes do not fit.
        """
        return self._step(lstm_cell, input, hx, ("hx[0]", "hx[1]"))


class GRUCell(RNNCellBase):
    """One step of a gated recurrent unit; see `fastgrad.gru_cell`.

    Parameters
    ----------
    input_size, hidden_size : int
        Numbers of features.
    bias : bool
        Whether there are biases.

    Attributes
    ----------
    weight_ih, weight_hh : Parameter
        Shapes (3 H, I) and (3 H, H).
    bias_ih, bias_hh : Parameter
        Shape (3 H,).

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.GRUCell(4, 3)(fg.zeros(4)).shape
    fastgrad.Size([3])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The next hidden state (N, H) or (H,), from `input` (N, I) or (I,) and `hx`, zeros if not given.

        Raises
        ------
        ValueError
            If an operand has not 1 or 2 dimensions.
        RuntimeError
            If sizes do not fit.
        """
        return self._step(gru_cell, input, hx, ("hidden",))
