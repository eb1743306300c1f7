"""Options and state that the optimizers of this package have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastgrad.dtypes import float32, float64, get_default_dtype
from fastgrad.functions.complex_numbers import view_as_real
from fastgrad.functions.creation import tensor
from fastgrad.native.build.loader import TensorBase


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
    """
    if isinstance(lr, TensorBase) and lr.numel() != 1:
        raise ValueError(f"Tensor lr must be 1-element, but has sizes {list(lr.shape)}")
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def check_range(name: str, value: Any, below: float | None = None) -> None:
    """Raise ValueError for an option that is negative, NaN, or not below a bound."""
    number = scalar(value)
    if not number >= 0.0 or (below is not None and number >= below):
        expected = "at least 0" if below is None else f"at least 0 and less than {below}"
        raise ValueError(f"Invalid {name}: {value}; it must be {expected}")


def check_pair(name: str, value: Any) -> Any:
    """The option if it is a pair; ValueError else."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ValueError(f"Invalid {name}: {value}; expected a tuple of two numbers")
    return value


def check_betas(betas: Any) -> None:
    """Raise ValueError for betas that are no pair of numbers from 0 up to, but without, 1."""
    for k, beta in enumerate(check_pair("betas", betas)):
        check_range(f"beta parameter at index {k}", beta, below=1.0)


def zero_steps(p: Any, steps: Any = 0.0) -> Any:
    """The number of steps as the state holds it: a tensor, counted by the kernel."""
    return tensor(float(steps), dtype=float64 if get_default_dtype() is float64 else float32, device=p.device)


def as_numbers(p: Any, state: dict[str, Any], names: Sequence[str]) -> None:
    """Let a state count in tensors what old checkpoints count in Python numbers, all of the dtype of its steps."""
    for name in names:
        value = state[name]
        if not isinstance(value, TensorBase):
            state[name] = zero_steps(p, value)
        elif name != "step":  # loading has brought it to the parameter's dtype
            state[name] = value.to(dtype=state["step"].dtype)


def kept_tensor(state: dict[str, Any], name: str) -> Any:
    """A tensor of a parameter's state; TypeError where somebody put something else there."""
    value = state.get(name)
    if not isinstance(value, TensorBase):
        raise TypeError(
            f"step(): expected a Tensor as {name!r} in the state of a parameter, but got {type(value).__name__}; "
            "clear the parameter's state to begin anew"
        )
    return value


def as_real(t: Any) -> Any:
    """A tensor, a complex one as pairs of real numbers."""
    return view_as_real(t) if t.is_complex() else t


def in_both_parts(p: Any, value: float) -> float | complex:
    """A number for the state of a parameter; of a complex one it stands in both parts."""
    return complex(value, value) if p.is_complex() else value
