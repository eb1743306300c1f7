"""Automatic differentiation: passes, modes, hooks, nodes."""

# `_functions` is found here
from fastgrad.autograd import _functions, function, graph, segment_derivatives, segments  # noqa: F401
from fastgrad.autograd.anomaly import (
    detect_anomaly,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_detect_anomaly,
)
from fastgrad.autograd.compiled_autograd import compiled
from fastgrad.autograd.engine import backward, grad
from fastgrad.autograd.function import Function
from fastgrad.autograd.gradcheck import gradcheck, gradgradcheck
from fastgrad.autograd.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from fastgrad.autograd.saved import SavedTensor
from fastgrad.autograd.variable import Variable
from fastgrad.module_names import getattr_of as _getattr_of

__all__ = [
    "Function",
    "SavedTensor",
    "Variable",
    "backward",
    "compiled",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "profiler",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

__getattr__ = _getattr_of(
    __name__, dict.fromkeys(("forward_ad", "functional", "profiler"))
)  # few programs use them
