"""Recurrent cells: one step of an RNN, an LSTM or a GRU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastgrad.functions import elementwise
from fastgrad.functions.arguments import need_tensor
from fastgrad.functions.autocasting import lower_precision_on_gpus
from fastgrad.functions.linalg import addmm, linear, mm
from fastgrad.functions.public import public
from fastgrad.functions.shape import chunk, split, t
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import apply

_LSTM_STATE, _LSTM_OUTPUT, _GRU_CANDIDATE, _GRU_STATE = (
    BY_NAME[n].id for n in ("lstm_state", "lstm_output", "gru_candidate", "gru_state")
)
_sigmoid: Callable[..., Any] = elementwise.sigmoid
_tanh: Callable[..., Any] = elementwise.tanh


@public(method=False)
@lower_precision_on_gpus
def lstm_cell(
    input: Any, hx: Sequence[Any], w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> tuple[Any, Any]:
    """One step of a long short-term memory.

    With the gates ``i, f, g, o = input @ w_ih^T + b_ih + h @ w_hh^T + b_hh`` (Hochreiter and Schmidhuber 1997; Gers
    et al. 2000): ``c' = sigmoid(f) c + sigmoid(i) tanh(g)`` and ``h' = sigmoid(o) tanh(c')``.

    Parameters
    ----------
    input : Tensor
        Shape (N, I).
    hx : pair of Tensor
        Hidden state ``h`` (N, H) and cell state ``c`` (N, H).
    w_ih, w_hh : Tensor
        Shapes (4 H, I) and (4 H, H).
    b_ih, b_hh : Tensor, optional
        Shape (4 H,).

    Returns
    -------
    pair of Tensor
        The next ``h`` and ``c``.

    Raises
    ------
    TypeError
        If an operand is no tensor.
    IndexError
        If one has not two dimensions.
    RuntimeError
        If sizes or dtypes do not fit.

    Examples
    --------
    >>> import fastgrad as fg
    >>> zero = fg.zeros(1, 1)
    >>> h, c = fg.lstm_cell(fg.ones(1, 1), (zero, zero), fg.ones(4, 1), fg.ones(4, 1))
    >>> h, c
    (tensor([[0.3696]]), tensor([[0.5568]]))
    """
    if not isinstance(hx, (tuple, list)):
        raise TypeError(
            f"lstm_cell(): argument 'hx' (position 2) must be tuple of Tensors, not {type(hx).__name__}"
        )
    if len(hx) != 2:
        raise RuntimeError("lstm_cell(): lstm_cell expects two hidden states")
    h, cell = hx
    _check("lstm_cell", 4, input, h, w_ih, w_hh)
    if cell.shape != h.shape and w_hh.shape[0] != 4 * cell.shape[-1]:
        raise RuntimeError(
            f"lstm_cell(): hidden1 has sizes {list(cell.shape)}, but expected {[h.shape[0], w_hh.shape[0] // 4]}"
        )
    return lstm_step(linear(input, w_ih, b_ih), (h, cell), t(w_hh), b_hh)


@public(method=False)
@lower_precision_on_gpus
def gru_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """One step of a gated recurrent unit.

    With ``xr, xz, xn = input @ w_ih^T + b_ih`` and ``hr, hz, hn = hx @ w_hh^T + b_hh`` (Cho et al. 2014), the
    candidate ``n = tanh(xn + sigmoid(xr + hr) hn)`` and ``z = sigmoid(xz + hz)``: ``h' = (1 - z) n + z hx``.

    Parameters
    ----------
    input : Tensor
        Shape (N, I).
    hx : Tensor
        Hidden state, shape (N, H).
    w_ih, w_hh : Tensor
        Shapes (3 H, I) and (3 H, H).
    b_ih, b_hh : Tensor, optional
        Shape (3 H,).

    Returns
    -------
    Tensor
        The next hidden state.

    Raises
    ------
    TypeError
        If an operand is no tensor.
    IndexError
        If one has not two dimensions.
    RuntimeError
        If sizes or dtypes do not fit.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.gru_cell(fg.ones(1, 1), fg.zeros(1, 1), fg.ones(3, 1), fg.ones(3, 1))
    tensor([[0.2048]])
    """
    _check("gru_cell", 3, input, hx, w_ih, w_hh)
    return gru_step(linear(input, w_ih, b_ih), (hx,), t(w_hh), b_hh)[0]


@public(method=False)
@lower_precision_on_gpus
def rnn_tanh_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """One step of a simple recurrent network: ``tanh(input @ w_ih^T + b_ih + hx @ w_hh^T + b_hh)`` (Elman 1990).

    Parameters
    ----------
    input : Tensor
        Shape (N, I).
    hx : Tensor
        Hidden state, shape (N, H).
    w_ih, w_hh : Tensor
        Shapes (H, I) and (H, H).
    b_ih, b_hh : Tensor, optional
        Shape (H,).

    Returns
    -------
    Tensor
        The next hidden state.

    Raises
    ------
    TypeError
        If an operand is no tensor.
    IndexError
        If one has not two dimensions.
    RuntimeError
        If sizes or dtypes do not fit.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.rnn_tanh_cell(fg.ones(1, 1), fg.zeros(1, 1), fg.ones(1, 1), fg.ones(1, 1))
    tensor([[0.7616]])
    """
    _check("rnn_tanh_cell", 1, input, hx, w_ih, w_hh)
    return tanh_step(linear(input, w_ih, b_ih), (hx,), t(w_hh), b_hh)[0]


@public(method=False)
@lower_precision_on_gpus
def rnn_relu_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """As `rnn_tanh_cell`, with ``max(x, 0)`` in place of the hyperbolic tangent."""
    _check("rnn_relu_cell", 1, input, hx, w_ih, w_hh)
    return relu_step(linear(input, w_ih, b_ih), (hx,), t(w_hh), b_hh)[0]


# --- steps -----------------------------------------------------------------------------------------------------
# A step takes what the input gives to the gates, the states, the transposed recurrent weights and their bias. The first
# of the states that it returns is the output. Complex steps are made of single functions: gates of complex numbers are
# rare, and fused ops would have their derivatives written twice.

States = tuple[Any, ...]
Step = Callable[[Any, States, Any, Any], States]


def _from_state(h: Any, weight: Any, bias: Any) -> Any:
    """What the hidden state gives to the gates."""
    return mm(h, weight) if bias is None else addmm(bias, h, weight)


def _gates(x: Any, h: Any, weight: Any, bias: Any) -> Any:
    """The sum of what input and hidden state give to the gates."""
    return addmm(x if bias is None else x + bias, h, weight)


def lstm_step(x: Any, states: States, weight: Any, bias: Any) -> States:
    """One step of an LSTM."""
    h, cell = states
    enter, forget, candidate, leave = chunk(_gates(x, h, weight, bias), 4, -1)
    if cell.is_complex():
        cell = _sigmoid(forget) * cell + _sigmoid(enter) * _tanh(candidate)
        return _sigmoid(leave) * _tanh(cell), cell
    cell = apply(_LSTM_STATE, 4, 0, enter, forget, candidate, cell)
    return apply(_LSTM_OUTPUT, 2, 0, leave, cell), cell


def gru_step(x: Any, states: States, weight: Any, bias: Any) -> States:
    """One step of a GRU."""
    (h,) = states
    size = h.shape[-1]
    from_x, x_candidate = split(x, [2 * size, size], -1)
    from_h, h_candidate = split(_from_state(h, weight, bias), [2 * size, size], -1)
    reset, update = chunk(from_x + from_h, 2, -1)
    if h.is_complex():
        candidate, kept = _tanh(x_candidate + _sigmoid(reset) * h_candidate), _sigmoid(update)
        return ((h - candidate) * kept + candidate,)
    candidate = apply(_GRU_CANDIDATE, 3, 0, reset, x_candidate, h_candidate)
    return (apply(_GRU_STATE, 3, 0, update, candidate, h),)


def tanh_step(x: Any, states: States, weight: Any, bias: Any) -> States:
    """One step of a simple network with the hyperbolic tangent."""
    return (_tanh(_gates(x, states[0], weight, bias)),)


def relu_step(x: Any, states: States, weight: Any, bias: Any) -> States:
    """One step of a simple network with the rectifier."""
    return (elementwise.relu(_gates(x, states[0], weight, bias)),)


def _check(name: str, gates: int, x: Any, h: Any, w_ih: Any, w_hh: Any) -> None:
    for k, (which, value) in enumerate((("input", x), ("hx", h), ("w_ih", w_ih), ("w_hh", w_hh))):
        need_tensor(name, value, which, k + 1)
        if value.ndim != 2:
            raise IndexError(
                f"{name}(): expected '{which}' to have 2 dimensions, but got sizes {list(value.shape)}"
            )
    if x.shape[1] != w_ih.shape[1]:
        raise RuntimeError(
            f"{name}(): input has inconsistent input_size: got {x.shape[1]} expected {w_ih.shape[1]}, the size of "
            f"w_ih {list(w_ih.shape)} in its last dimension"
        )
    if x.shape[0] != h.shape[0]:
        raise RuntimeError(
            f"{name}(): Input batch size {x.shape[0]} doesn't match hidden batch size {h.shape[0]}"
        )
    if w_hh.shape != (gates * h.shape[1], h.shape[1]) or w_ih.shape[0] != w_hh.shape[0]:
        raise RuntimeError(
            f"{name}(): hidden has inconsistent hidden_size: for hx of sizes {list(h.shape)} expected w_ih and w_hh "
            f"with {gates * h.shape[1]} rows, but got sizes {list(w_ih.shape)} and {list(w_hh.shape)}"
        )
