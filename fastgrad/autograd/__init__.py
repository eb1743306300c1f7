"""Automatic differentiation: passes, modes, hooks, nodes."""

from fastgrad.autograd import function, graph
from fastgrad.autograd.engine import backward, grad
from fastgrad.autograd.function import Function
from fastgrad.autograd.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)

__all__ = [
    "Function",
    "backward",
    "enable_grad",
    "function",
    "grad",
    "graph",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
]
