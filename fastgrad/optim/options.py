"""Options and state that the optimizers of this package have in common."""

from __future__ import annotations

from typing import Any

from fastgrad.dtypes import float32, float64, get_default_dtype
from fastgrad.functions.creation import tensor
from fastgrad.native.build.loader import TensorBase
from fastgrad.optim.optimizer import Optimizer


def scalar(value: Any) -> float:
    """An option that may be a tensor of one element as a number."""
    if isinstance(value, (str, bytes, bytearray)):  # `float` would read them
        raise TypeError(f"expected a number, but got {type(value).__name__}")
    return float(value.item()) if isinstance(value, TensorBase) else float(value)


def check_options(
    *, foreach: bool | None = None, fused: bool | None = None, differentiable: bool = False, lr: Any = 0.0
) -> None:
    """Refuse what cannot be had; `foreach` and `fused` change nothing, since each step is one compiled call.

    Raises
    ------
    ValueError
        For a tensor as `lr` with more or less than one element.
    RuntimeError
        If options exclude each other.
    NotImplementedError
        For ``differentiable=True``.
    """
    if isinstance(lr, TensorBase) and lr.numel() != 1:
        raise ValueError(f"Tensor lr must be 1-element, but has sizes {list(lr.shape)}")
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
    if differentiable:
        raise NotImplementedError(
            "differentiable=True is not supported: a step is not recorded; compute the new parameters with ops instead"
        )


def check_range(name: str, value: Any, below: float | None = None) -> None:
    """Raise ValueError for an option that is negative, NaN, or not below a bound."""
    number = scalar(value)
    if not number >= 0.0 or (below is not None and number >= below):
        expected = "at least 0" if below is None else f"at least 0 and less than {below}"
        raise ValueError(f"Invalid {name}: {value}; it must be {expected}")


def zero_steps(p: Any, steps: Any = 0.0) -> Any:
    """The number of steps as the state holds it: a tensor, counted by the kernel."""
    return tensor(float(steps), dtype=float64 if get_default_dtype() is float64 else float32, device=p.device)


def count_steps_in_tensors(optimizer: Optimizer) -> None:
    """Let states that count their steps in Python numbers, as old checkpoints do, count them in tensors."""
    for group in optimizer.param_groups:
        for p in group["params"]:
            state = optimizer.state.get(p)
            if state and not isinstance(state["step"], TensorBase):
                state["step"] = zero_steps(p, state["step"])
