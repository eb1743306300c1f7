"""The network: plain functions over plain parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import fastgrad as fg
import fastgrad.nn.functional as F


class Layer(NamedTuple):
    """One affine layer: ``x @ weight + bias``."""

    name: str
    weight: fg.Tensor
    bias: fg.Tensor


def init_layers(sizes: Sequence[int], seed: int, device: str = "cpu") -> list[Layer]:
    """Make layers between neighbouring sizes.

    Weights are normal with variance ``1 / (3 fan_in)``, the variance that PyTorch gives the weights of a
    linear layer; biases are zero.

    Parameters
    ----------
    sizes : sequence of int
        Numbers of inputs, of units in each hidden layer, and of classes.
    seed : int
        Fixes the weights, on every device the same.
    device : str, optional
        Where they are.
    """
    fg.manual_seed(seed)
    layers = []
    for index, (fan_in, fan_out) in enumerate(pairwise(sizes), 1):
        weight = (fg.randn(fan_in, fan_out) * (3 * fan_in) ** -0.5).to(device).requires_grad_()
        bias = fg.zeros(fan_out, device=device, requires_grad=True)
        layers.append(Layer(f"layer {index}", weight, bias))
    return layers


def parameters(layers: Sequence[Layer]) -> list[fg.Tensor]:
    """List every weight and bias, in the layers' order."""
    return [parameter for layer in layers for parameter in (layer.weight, layer.bias)]


def forward(
    layers: Sequence[Layer], x: fg.Tensor, observe: Callable[[int, fg.Tensor], None] | None = None
) -> fg.Tensor:
    """Compute logits, shape (batch, classes), from inputs, shape (batch, features).

    ``observe(index, output)`` is called with every layer's output before its activation: the place to hang
    hooks on the node that made it.
    """
    for index, layer in enumerate(layers):
        x = x @ layer.weight + layer.bias
        if observe is not None:
            observe(index, x)
        if index < len(layers) - 1:
            x = F.relu(x)
    return x


def accuracy(layers: Sequence[Layer], x: fg.Tensor, y: fg.Tensor) -> float:
    """Compute the share of inputs whose most likely class is the right one."""
    with fg.no_grad():
        return (forward(layers, x).argmax(1) == y).float().mean().item()
