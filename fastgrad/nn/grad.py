"""Gradients of convolutions with regard to one operand, as functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastgrad.autograd.engine import grad
from fastgrad.autograd.modes import enable_grad
from fastgrad.functions.arguments import need_tensor, records
from fastgrad.functions.creation import zeros
from fastgrad.nn import functional as F

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _gradient(
    name: str, sizes: Any, other: Any, grad_output: Any, call: Callable[[Any, Any], Any], argument: str
) -> Any:
    """The gradient of a convolution with regard to an operand of these sizes; it is linear in it."""
    need_tensor(name, other, argument, 2 if argument == "weight" else 1)
    need_tensor(name, grad_output, "grad_output", 3)
    recorded = records(other, grad_output)
    with enable_grad():
        operand = zeros(tuple(sizes), dtype=other.dtype, device=other.device, requires_grad=True)
        out = call(operand, other if recorded else other.detach())
        (found,) = grad(out, operand, grad_output, create_graph=recorded)
    return found


def _convolution(name: str, rank: int, *settings: Any) -> Callable[[Any, Any], Any]:
    convolve = getattr(F, f"conv{rank}d", None)
    if convolve is None:
        raise NotImplementedError(f"{name}(): there is no nn.functional.conv{rank}d yet")
    return lambda x, weight: convolve(x, weight, None, *settings)


def _input(rank: int) -> Callable[..., Any]:
    name = f"conv{rank}d_input"

    def gradient(
        input_size: Sequence[int],
        weight: Any,
        grad_output: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        call = _convolution(name, rank, stride, padding, dilation, groups)
        return _gradient(name, input_size, weight, grad_output, call, "weight")

    gradient.__name__ = gradient.__qualname__ = name
    gradient.__doc__ = f"""The gradient of `nn.functional.conv{rank}d` with regard to its input.

    Parameters
    ----------
    input_size : sequence of int
        The sizes of the input.
    weight : Tensor
    grad_output : Tensor
        The gradient of the output.
    stride, padding, dilation, groups
        Those of the convolution.

    Returns
    -------
    Tensor
        Of the sizes `input_size`.

    Raises
    ------
    RuntimeError
        If sizes do not fit.
    """
    return gradient


def _weight(rank: int) -> Callable[..., Any]:
    name = f"conv{rank}d_weight"

    def gradient(
        input: Any,
        weight_size: Sequence[int],
        grad_output: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        convolve = _convolution(name, rank, stride, padding, dilation, groups)
        return _gradient(name, weight_size, input, grad_output, lambda w, x: convolve(x, w), "input")

    gradient.__name__ = gradient.__qualname__ = name
    gradient.__doc__ = f"""The gradient of `nn.functional.conv{rank}d` with regard to its weight.

    Parameters
    ----------
    input : Tensor
    weight_size : sequence of int
        The sizes of the weight.
    grad_output : Tensor
        The gradient of the output.
    stride, padding, dilation, groups
        Those of the convolution.

    Returns
    -------
    Tensor
        Of the sizes `weight_size`.

    Raises
    ------
    RuntimeError
        If sizes do not fit.
    """
    return gradient


conv1d_input, conv2d_input, conv3d_input = (_input(rank) for rank in (1, 2, 3))
conv1d_weight, conv2d_weight, conv3d_weight = (_weight(rank) for rank in (1, 2, 3))
