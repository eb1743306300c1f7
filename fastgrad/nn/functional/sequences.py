"""Recurrent layers as PyTorch's package has them: functions of lists of weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastgrad.functions.arguments import as_float, as_index, need_tensor, need_tensors, need_type
from fastgrad.functions.public import public
from fastgrad.functions.shape import transpose
from fastgrad.native.build.loader import TensorBase
from fastgrad.nn.functional.dropout import dropout as zeroed
from fastgrad.nn.functional.recurrent import MODES, Weights, recurrent

__all__ = ["gru", "lstm", "rnn_relu", "rnn_tanh"]

_OPTIONS = ("has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first")


@public(method=False)
def lstm(input: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
    """A stack of LSTM layers; `nn.LSTM` has the weights in one module.

    Called as ``lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)``, or with
    a packed sequence as ``lstm(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional)``.

    Parameters
    ----------
    input : Tensor
        Of shape (T, N, I), or (N, T, I) with `batch_first`; as `data` all steps, one after the other.
    batch_sizes : Tensor
        How many sequences each step has.
    hx : sequence of Tensor
        The first hidden and cell states, of shape (layers * directions, N, H).
    params : sequence of Tensor
        For each layer and direction the weights of the input and of the state, their biases, and the projection if
        there is one.
    has_biases : bool
    num_layers : int
    dropout : float
        Of what a layer hands to the next one, with `train`.
    train, bidirectional, batch_first : bool

    Returns
    -------
    output, h, c : Tensor

    Examples
    --------
    >>> import fastgrad as fg
    >>> layer = fg.nn.LSTM(2, 3)
    >>> zero = fg.zeros(1, 1, 3)
    >>> out, h, c = fg.lstm(
    ...     fg.ones(4, 1, 2), (zero, zero), list(layer.parameters()), True, 1, 0.0, False, False, False
    ... )
    >>> out.shape, c.shape
    (fastgrad.Size([4, 1, 3]), fastgrad.Size([1, 1, 3]))
    """
    output, states = _called("lstm", "LSTM", input, args, kwargs)
    return (output, *states)


@public(method=False)
def gru(input: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """A stack of GRU layers; called as `lstm`, with one tensor as `hx`.

    Returns
    -------
    output, h : Tensor
    """
    output, states = _called("gru", "GRU", input, args, kwargs)
    return output, states[0]


@public(method=False)
def rnn_tanh(input: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """A stack of layers of simple cells with the hyperbolic tangent; called as `gru`."""
    output, states = _called("rnn_tanh", "RNN_TANH", input, args, kwargs)
    return output, states[0]


@public(method=False)
def rnn_relu(input: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """A stack of layers of simple cells with the rectifier; called as `gru`."""
    output, states = _called("rnn_relu", "RNN_RELU", input, args, kwargs)
    return output, states[0]


def _called(
    name: str, mode: str, input: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, tuple[Any, ...]]:
    """A layer's outputs and last states, from arguments in either form."""
    many = MODES[mode][2] > 1
    packed = "batch_sizes" in kwargs or (
        isinstance(args[0], TensorBase)
        if many and args
        else len(args) > 1 and isinstance(args[1], TensorBase)
    )
    names = ("batch_sizes", "hx", "params", *_OPTIONS[:-1]) if packed else ("hx", "params", *_OPTIONS)
    given = _by_name(name, names, args, kwargs)
    x, sizes = need_tensor(name, input), None
    if packed:
        sizes = need_tensor(name, given["batch_sizes"], "batch_sizes", 2).tolist()
    elif need_type(name, given["batch_first"], bool, "batch_first", 9):
        x = transpose(x, 0, 1)
    if many:
        states = need_tensors(name, given["hx"], "hx", 2 + packed)
        if len(states) != 2:
            raise RuntimeError(f"{name}(): lstm expects two hidden states, but got {len(states)}")
    else:
        states = [need_tensor(name, given["hx"], "hx", 2 + packed)]
    flags = {key: need_type(name, given[key], bool, key) for key in ("has_biases", "train", "bidirectional")}
    directions, chance = 1 + flags["bidirectional"], as_float(name, "dropout", given["dropout"])
    layers = as_index(name, "num_layers", given["num_layers"])
    params = need_tensors(name, given["params"], "params", 3 + packed)
    weights = _weights(name, params, layers * directions, flags["has_biases"], many)
    _check(name, x, states, 2 if packed else 3, layers * directions)
    between = (lambda y: zeroed(y, chance)) if chance and flags["train"] else None
    output, ends = recurrent(mode, x, states, weights, directions, between, sizes)
    return transpose(output, 0, 1) if given.get("batch_first") else output, ends


def _by_name(
    name: str, names: Sequence[str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Arguments by their names; TypeError if one is missing, unknown, or given twice."""
    given = dict(zip(names, args, strict=False))
    wrong = [key for key in kwargs if key not in names or key in given]
    missing = [key for key in names if key not in given and key not in kwargs]
    if len(args) > len(names) or wrong or missing:
        what = (
            f"unexpected {wrong}"
            if wrong
            else f"missing {missing}"
            if missing
            else f"{len(args) + 1} arguments"
        )
        raise TypeError(f"{name}(): expected the arguments (input, {', '.join(names)}), but got {what}")
    return given | kwargs


def _weights(name: str, params: Sequence[Any], count: int, biases: bool, projections: bool) -> list[Weights]:
    """The parameters of each layer and direction."""
    usual = 4 if biases else 2
    each, left = divmod(len(params), count) if count > 0 else (0, 1)
    if left or (each != usual and not (projections and each == usual + 1)):
        raise RuntimeError(
            f"{name}(): expected {usual} tensors in 'params' for each of {count} layers and directions, but got "
            f"{len(params)}"
        )
    found = []
    for k in range(count):
        group = params[k * each : (k + 1) * each]
        of_input, of_state = group[2:4] if biases else (None, None)
        found.append(Weights(group[0], group[1], of_input, of_state, group[-1] if each > usual else None))
    return found


def _check(name: str, x: Any, states: Sequence[Any], rank: int, count: int) -> None:
    """Raise RuntimeError unless input and states have the dimensions that layers take."""
    if x.dim() != rank:
        raise RuntimeError(f"{name}(): expected an input of {rank} dimensions, but got shape {list(x.shape)}")
    for state in states:
        if state.dim() != 3 or state.shape[0] != count:
            raise RuntimeError(
                f"{name}(): expected states of shape ({count}, N, H), one for each layer and direction, but got "
                f"{list(state.shape)}"
            )
        if rank == 3 and state.shape[1] != x.shape[1]:
            raise RuntimeError(
                f"{name}(): expected states of {x.shape[1]} sequences, as the input has, but got {state.shape[1]}"
            )
