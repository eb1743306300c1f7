"""Recurrent layers and cells."""

from __future__ import annotations

import warnings
from typing import Any

from fastgrad.functions.arguments import need_tensor
from fastgrad.functions.creation import empty, zeros
from fastgrad.functions.index import index_select
from fastgrad.functions.shape import squeeze, transpose, unsqueeze
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.flags import AUTOCAST
from fastgrad.nn.functional.dropout import dropout as zeroed
from fastgrad.nn.functional.recurrent import MODES, Weights, recurrent
from fastgrad.nn.modules.module import Module
from fastgrad.nn.modules.rnn_cells import fill_uniformly
from fastgrad.nn.parameter import Parameter
from fastgrad.nn.utils.rnn import PackedSequence


class RNNBase(Module):
    """What `RNN`, `LSTM` and `GRU` have in common.

    Parameters
    ----------
    mode : str
        "RNN_TANH", "RNN_RELU", "LSTM" or "GRU".
    input_size, hidden_size : int
        Numbers of features.
    num_layers : int
        Layers on top of each other.
    bias : bool
        Whether there are biases.
    batch_first : bool
        Whether input and output are (N, T, ...) instead of (T, N, ...).
    dropout : float
        Probability of an element to become zero between layers, in training.
    bidirectional : bool
        Whether each layer runs over the sequence from its end as well.
    proj_size : int
        Features of the output, if not 0: of an LSTM with a projection behind each step.

    Raises
    ------
    TypeError, ValueError
        If an argument is of a wrong type, or out of range.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if mode not in MODES:
            raise ValueError(f"Unrecognized RNN mode: {mode}; the modes are {', '.join(MODES)}")
        _check_options(input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        rows = MODES[mode][1] * hidden_size
        width = proj_size or hidden_size
        for layer in range(num_layers):
            entering = width * (1 + bool(bidirectional)) if layer else input_size
            shapes = {
                "weight_ih": (rows, entering), "weight_hh": (rows, width), "bias_ih": (rows,), "bias_hh": (rows,),
                "weight_hr": (proj_size, hidden_size),
            }  # fmt: skip
            for suffix in self._suffixes(layer):
                for kind in self._kinds():
                    parameter = Parameter(empty(shapes[kind], device=device, dtype=dtype))
                    self.register_parameter(kind + suffix, parameter)
        self.reset_parameters()

    def _kinds(self) -> list[str]:
        """What the names of the parameters of one direction of one layer start with."""
        biases = ["bias_ih", "bias_hh"] if self.bias else []
        return ["weight_ih", "weight_hh", *biases, *(["weight_hr"] if self.proj_size else [])]

    def _suffixes(self, layer: int) -> list[str]:
        """What they end with, for each direction."""
        return [f"_l{layer}", f"_l{layer}_reverse"] if self.bidirectional else [f"_l{layer}"]

    def reset_parameters(self) -> None:
        """Fill all parameters anew, uniformly between ``-1 / sqrt(hidden_size)`` and ``1 / sqrt(hidden_size)``."""
        fill_uniformly(self)

    def flatten_parameters(self) -> None:
        """Do nothing: parameters need no common memory here."""

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters of each layer and direction."""
        suffixes = [suffix for layer in range(self.num_layers) for suffix in self._suffixes(layer)]
        return [[getattr(self, kind + suffix) for kind in self._kinds()] for suffix in suffixes]

    def extra_repr(self) -> str:
        """The arguments that are not as by default."""
        defaults = {
            "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0, "bidirectional": False,
        }  # fmt: skip
        others = [f"{k}={getattr(self, k)}" for k, value in defaults.items() if getattr(self, k) != value]
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *others])

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The outputs of the last layer, and the last states.

        Parameters
        ----------
        input : Tensor or PackedSequence
            Shape (T, N, I), (N, T, I) with `batch_first`, or (T, I).
        hx : Tensor, or pair of Tensor for an LSTM
            The first states, shape (num_layers * directions, N, H) or without N; zeros if not given.

        Returns
        -------
        output : Tensor or PackedSequence
            Shape (T, N, directions * H), (N, T, directions * H) or (T, directions * H).
        hx : Tensor or pair of Tensor
            The last states.

        Raises
        ------
        ValueError
            If `input` has not 2 or 3 dimensions, or another dtype than the parameters.
        RuntimeError
            If sizes do not fit.
        """
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        kind = self.mode.partition("_")[0]
        if need_tensor(kind, input).ndim not in (2, 3):
            raise ValueError(f"{kind}: Expected input to be 2D or 3D, got {input.ndim}D instead")
        batched = input.ndim == 3
        if not batched:
            input = unsqueeze(input, 1)
        elif self.batch_first:
            input = transpose(input, 0, 1)
        output, states = self._run(input, self._first_states(input, input.shape[1], hx, batched))
        if not batched:
            output, states = squeeze(output, 1), tuple(squeeze(s, 1) for s in states)
        elif self.batch_first:
            output = transpose(output, 0, 1)
        return output, states if len(states) > 1 else states[0]

    def _forward_packed(self, packed: PackedSequence, hx: Any) -> Any:
        """As `forward`; states are in the order in which the sequences were packed."""
        sizes = packed.batch_sizes.tolist()
        states = self._first_states(packed.data, sizes[0], hx, True)
        if packed.sorted_indices is not None and hx is not None:
            states = tuple(index_select(s, 1, packed.sorted_indices) for s in states)
        output, states = self._run(packed.data, states, sizes)
        if packed.unsorted_indices is not None:
            states = tuple(index_select(s, 1, packed.unsorted_indices) for s in states)
        return packed._replace(data=output), states if len(states) > 1 else states[0]

    def _run(
        self, x: Any, states: tuple[Any, ...], sizes: list[int] | None = None
    ) -> tuple[Any, tuple[Any, ...]]:
        weights = [self._weights(group) for group in self.all_weights]
        between = (lambda y: zeroed(y, self.dropout)) if self.dropout and self.training else None
        return recurrent(self.mode, x, states, weights, 1 + bool(self.bidirectional), between, sizes)

    def _weights(self, group: list[Any]) -> Weights:
        """Parameters of one direction by their roles."""
        projection = group[-1] if self.proj_size else None
        biases = group[2:4] if self.bias else [None, None]
        return Weights(group[0], group[1], biases[0], biases[1], projection)

    def _first_states(self, x: Any, batch: int, hx: Any, batched: bool) -> tuple[Any, ...]:
        """The states to begin with, of three dimensions, after all checks. `x` has the steps first."""
        weight = self.weight_ih_l0
        if x.dtype is not weight.dtype and not rt.get_mode() & AUTOCAST:
            raise ValueError(
                f"RNN input dtype ({x.dtype}) does not match weight dtype ({weight.dtype}). Convert input: "
                f"input.to({weight.dtype}), or convert model: model.to({x.dtype})"
            )
        if x.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {x.shape[-1]}"
            )
        if x.shape[0] == 0:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        count = self.num_layers * (1 + bool(self.bidirectional))
        widths = (self.proj_size or self.hidden_size, self.hidden_size)[: MODES[self.mode][2]]
        if hx is None:
            return tuple(zeros(count, batch, width, dtype=x.dtype, device=x.device) for width in widths)
        states = tuple(hx) if len(widths) == 2 else (hx,)
        dims = [need_tensor(self.mode, s, "hx", 2).ndim for s in states]
        if len(states) != len(widths) or any(d != 2 + batched for d in dims):
            what = "batched 3-D" if batched else "unbatched 2-D"
            names = "hx and cx" if len(widths) == 2 else "hx"
            raise RuntimeError(
                f"For {what} input, {names} should also be {2 + batched}-D but got "
                f"({', '.join(f'{d}-D' for d in dims)}) tensors"
            )
        if not batched:
            states = tuple(unsqueeze(s, 1) for s in states)
        for k, (state, width) in enumerate(zip(states, widths, strict=True)):
            expected = (count, batch, width)
            if state.shape != expected:
                which = f"hidden[{k}]" if len(widths) == 2 else "hidden"
                raise RuntimeError(f"Expected {which} size {expected}, got {list(state.shape)}")
        return states


def _check_options(
    input_size: Any,
    hidden_size: Any,
    num_layers: int,
    bias: Any,
    batch_first: Any,
    dropout: Any,
    proj_size: int,
) -> None:
    if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed, but "
            f"got {dropout!r}"
        )
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
            f"greater than 1, but got dropout={dropout} and num_layers={num_layers}",
            stacklevel=4,
        )
    types = (("bias", bias, bool), ("batch_first", batch_first, bool), ("input_size", input_size, int))
    for name, value, kind in (*types, ("hidden_size", hidden_size, int)):
        if not isinstance(value, kind):
            raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")
    for name, value in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
        if value <= 0:
            raise ValueError(f"{name} must be greater than zero, but got {value}")
    if proj_size < 0:
        raise ValueError(
            f"proj_size should be a positive integer or zero to disable projections, but got {proj_size}"
        )
    if proj_size >= hidden_size:
        raise ValueError(
            f"proj_size has to be smaller than hidden_size, but got {proj_size} and {hidden_size}"
        )


class RNN(RNNBase):
    """A recurrent network of simple cells: ``h' = tanh(W_ih x + b_ih + W_hh h + b_hh)`` (Elman 1990).

    Parameters
    ----------
    input_size, hidden_size : int
        Numbers of features.
    num_layers : int
        Layers on top of each other.
    nonlinearity : "tanh" or "relu"
    bias : bool
        Whether there are biases.
    batch_first : bool
        Whether input and output are (N, T, ...) instead of (T, N, ...); states are not.
    dropout : float
        Probability of an element to become zero between layers, in training.
    bidirectional : bool
        Whether each layer runs over the sequence from its end as well.

    Attributes
    ----------
    weight_ih_l[k], weight_hh_l[k] : Parameter
        Shapes (H, I) and (H, H); further layers have as many columns as the layer before gives features.
    bias_ih_l[k], bias_hh_l[k] : Parameter
        Shape (H,). Those of the second direction end in ``_reverse``.

    Raises
    ------
    TypeError, ValueError
        If an argument is of a wrong type, or out of range.

    Examples
    --------
    >>> import fastgrad as fg
    >>> output, h = fg.nn.RNN(4, 3)(fg.zeros(5, 2, 4))
    >>> output.shape, h.shape
    (fastgrad.Size([5, 2, 3]), fastgrad.Size([1, 2, 3]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
        **others: Any,
    ) -> None:
        _no_projection(others)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(
            f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias, batch_first, dropout,
            bidirectional, 0, device, dtype,
        )  # fmt: skip
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """A network of long short-term memories; see `fastgrad.lstm_cell` for the step.

    Parameters
    ----------
    input_size, hidden_size : int
        Numbers of features.
    num_layers : int
        Layers on top of each other.
    bias : bool
        Whether there are biases.
    batch_first : bool
        Whether input and output are (N, T, ...) instead of (T, N, ...); states are not.
    dropout : float
        Probability of an element to become zero between layers, in training.
    bidirectional : bool
        Whether each layer runs over the sequence from its end as well.
    proj_size : int
        If not 0, the hidden state is projected to as many features after each step (Sak et al. 2014).

    Attributes
    ----------
    weight_ih_l[k], weight_hh_l[k] : Parameter
        Shapes (4 H, I) and (4 H, H or proj_size), the rows of input, forget, candidate and output gate in turn.
    bias_ih_l[k], bias_hh_l[k] : Parameter
        Shape (4 H,).
    weight_hr_l[k] : Parameter
        Shape (proj_size, H). Those of the second direction end in ``_reverse``.

    Raises
    ------
    TypeError, ValueError
        If an argument is of a wrong type, or out of range.

    Examples
    --------
    >>> import fastgrad as fg
    >>> output, (h, c) = fg.nn.LSTM(4, 3, bidirectional=True)(fg.zeros(5, 2, 4))
    >>> output.shape, c.shape
    (fastgrad.Size([5, 2, 6]), fastgrad.Size([2, 2, 3]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """A network of gated recurrent units; see `fastgrad.gru_cell` for the step.

    Parameters
    ----------
    input_size, hidden_size : int
        Numbers of features.
    num_layers : int
        Layers on top of each other.
    bias : bool
        Whether there are biases.
    batch_first : bool
        Whether input and output are (N, T, ...) instead of (T, N, ...); states are not.
    dropout : float
        Probability of an element to become zero between layers, in training.
    bidirectional : bool
        Whether each layer runs over the sequence from its end as well.

    Attributes
    ----------
    weight_ih_l[k], weight_hh_l[k] : Parameter
        Shapes (3 H, I) and (3 H, H), the rows of reset gate, update gate and candidate in turn.
    bias_ih_l[k], bias_hh_l[k] : Parameter
        Shape (3 H,). Those of the second direction end in ``_reverse``.

    Raises
    ------
    TypeError, ValueError
        If an argument is of a wrong type, or out of range.

    Examples
    --------
    >>> import fastgrad as fg
    >>> output, h = fg.nn.GRU(4, 3, num_layers=2)(fg.zeros(5, 2, 4))
    >>> output.shape, h.shape
    (fastgrad.Size([5, 2, 3]), fastgrad.Size([2, 2, 3]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _no_projection(kwargs)
        super().__init__("GRU", *args, **kwargs)


def _no_projection(options: dict[str, Any]) -> None:
    if "proj_size" in options:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
