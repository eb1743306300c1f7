"""Automatic differentiation: passes, modes, hooks, nodes."""

from fastgrad.autograd import graph
from fastgrad.autograd.engine import backward, grad
from fastgrad.autograd.gradcheck import gradcheck, gradgradcheck
from fastgrad.autograd.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)

__all__ = [
    "backward",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
]
