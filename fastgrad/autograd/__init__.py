"""Automatic differentiation: passes, modes, hooks, nodes."""

from importlib import import_module as _import_module
from typing import Any as _Any

from fastgrad.autograd import _functions, function, graph, segments  # noqa: F401 - `_functions` is found here
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


def __getattr__(name: str) -> _Any:
    if name in ("forward_ad", "functional", "profiler"):  # few programs use them
        return _import_module(f"fastgrad.autograd.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
