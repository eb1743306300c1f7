"""What PyTorch's layers keep and those of fastgrad do not: what it is computed from is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastgrad import nn
from fastgrad.nn import functional


def _kind_of_activation(layer: Any) -> int:
    """PyTorch's number for the activations that it has a faster way for."""
    for number, function, kind in ((1, functional.relu, nn.ReLU), (2, functional.gelu, nn.GELU)):
        if layer.activation is function or isinstance(layer.activation, kind):
            return number
    return 0


_ADDED: list[tuple[type | tuple[type, ...], Callable[[Any], dict[str, Any]]]] = [
    (
        nn.RNNBase,
        lambda layer: {"_all_weights": [[None]]},
    ),  # so PyTorch makes them, and what belongs to them, anew
    (
        nn.MultiheadAttention,
        lambda layer: {"_qkv_same_embed_dim": layer.kdim == layer.embed_dim == layer.vdim},
    ),
    (nn.TransformerEncoderLayer, lambda layer: {"activation_relu_or_gelu": _kind_of_activation(layer)}),
    (nn.Upsample, lambda layer: {"name": type(layer).__name__}),
    ((nn.ZeroPad1d, nn.ZeroPad2d, nn.ZeroPad3d), lambda layer: {"value": 0.0}),
]


def added_state(layer: Any) -> dict[str, Any]:
    """Attributes that PyTorch's layer needs besides those of this one."""
    out: dict[str, Any] = {}
    for kind, make in _ADDED:
        if isinstance(layer, kind):
            out |= make(layer)
    return out
