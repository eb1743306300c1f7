"""`GradScaler`: losses are multiplied so that small gradients do not vanish in float16, and steps with infinite ones
are left out.
"""

from __future__ import annotations

import ctypes
import enum
import math
import warnings
from typing import Any

from fastgrad.cuda import gpus
from fastgrad.dtypes import float16, float32
from fastgrad.functions import creation
from fastgrad.functions.complex_numbers import view_as_real
from fastgrad.native.build.loader import TensorBase
from fastgrad.ops.conjugates import as_it_lies
from fastgrad.ops.optim import unscale


class _State(enum.Enum):
    READY, UNSCALED, STEPPED = range(3)


def _rounded(factor: Any) -> float:
    """A factor as a number of float32, which losses are multiplied by."""
    return ctypes.c_float(float(factor)).value


class GradScaler:
    """Scales losses, and gradients back, by a factor that finds its own size.

    Parameters
    ----------
    device : str
        Where the gradients are. For ``"cuda"`` without a GPU there is a warning, and nothing is scaled; otherwise it
        has no effect.
    init_scale, growth_factor, backoff_factor : float
        The factor, and by what it is multiplied after `growth_interval` steps without an infinite gradient, or after
        one with it.
    growth_interval : int
    enabled : bool
        If false, nothing is scaled and `step` calls the optimizer.

    Raises
    ------
    ValueError
        If `growth_factor` is not above 1 or `backoff_factor` not below.

    Examples
    --------
    >>> import fastgrad as fg
    >>> w = fg.ones(2, requires_grad=True)
    >>> optimizer, scaler = fg.optim.SGD([w], lr=0.5), fg.amp.GradScaler("cpu")
    >>> scaler.scale(w.sum()).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> w
    tensor([0.5000, 0.5000], requires_grad=True)
    """

    def __init__(
        self,
        device: str = "cpu",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        if enabled and device == "cuda" and not gpus.count():
            warnings.warn("GradScaler is enabled, but CUDA is not available. Disabling.", stacklevel=2)
            enabled = False
        self._enabled = enabled
        if not enabled:
            return
        if not growth_factor > 1.0:
            raise ValueError(f"GradScaler(): the growth factor must be > 1.0, but is {growth_factor}")
        if not backoff_factor < 1.0:
            raise ValueError(f"GradScaler(): the backoff factor must be < 1.0, but is {backoff_factor}")
        self._scale = _rounded(init_scale)
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval, self._growth_tracker = growth_interval, 0
        self._forget()

    def _forget(self) -> None:
        self._states: dict[int, _State] = {}  # of optimizers that are not ready
        self._found_inf: dict[int, bool] = {}

    def scale(self, outputs: Any) -> Any:
        """A tensor, or a list or tuple of them, within each other, times the factor.

        Raises
        ------
        ValueError
            For anything else.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, TensorBase):
            made: Any = outputs
            return made * creation.tensor(self._scale, dtype=float32, device=made.device)
        if isinstance(outputs, (list, tuple)):
            scaled = [self.scale(out) for out in outputs]
            named = isinstance(outputs, tuple) and hasattr(outputs, "_fields")
            return type(outputs)(*scaled) if named else type(outputs)(scaled)
        raise ValueError("scale(): outputs must be a tensor, or a list or tuple of tensors")

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the factor, in place: once before each `step`.

        Raises
        ------
        RuntimeError
            If that has been done since `update`, or the step has.
        ValueError
            If a gradient is of float16: parameters are to be of float32.
        """
        if not self._enabled:
            return
        state = self._states.get(id(optimizer), _State.READY)
        if state is not _State.READY:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
                if state is _State.UNSCALED
                else "unscale_() is being called after step()."
            )
        self._found_inf[id(optimizer)] = self._unscale(optimizer)
        self._states[id(optimizer)] = _State.UNSCALED

    def _unscale(self, optimizer: Any) -> bool:
        """Divide gradients; whether one is infinite or NaN, which is asked once for each device."""
        found: dict[Any, Any] = {}  # on each device
        tensors: list[Any] = []
        for p in (p for group in optimizer.param_groups for p in group["params"] if p.grad is not None):
            grad = p.grad
            if grad.dtype is float16:
                raise ValueError("Attempting to unscale FP16 gradients.")
            if grad.device not in found:
                found[grad.device] = creation.zeros((), dtype=float32, device=grad.device)
            # As they lie: a real factor and a conjugate may change places.
            tensors += [
                view_as_real(as_it_lies(grad.detach())) if grad.is_complex() else grad,
                found[grad.device],
            ]
        if tensors:
            unscale(tensors, _rounded(1.0 / self._scale) if self._scale else math.inf)
        return any(bool(flag) for flag in found.values())

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the optimizer's `step`, with gradients divided by the factor, unless one of them is infinite or NaN.

        Returns
        -------
        object
            What that returns; None where it was not called.

        Raises
        ------
        RuntimeError
            If it is called twice before `update`, with a closure, or no gradient was found.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs or (args and callable(args[0])):
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        state = self._states.get(id(optimizer), _State.READY)
        if state is _State.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if all(p.grad is None for group in optimizer.param_groups for p in group["params"]):
            raise AssertionError("No inf checks were recorded for this optimizer.")
        if state is _State.READY:
            self.unscale_(optimizer)
        out = None if self._found_inf[id(optimizer)] else optimizer.step(*args, **kwargs)
        self._states[id(optimizer)] = _State.STEPPED
        return out

    def update(self, new_scale: Any = None) -> None:
        """Let the factor grow or shrink by what the last steps found, or be another one.

        Raises
        ------
        AssertionError
            If there was no step, or `new_scale` is no number.
        """
        if not self._enabled:
            return
        if new_scale is not None:
            if isinstance(new_scale, TensorBase):
                new_scale = new_scale.item()  # type: ignore[attr-defined]
            assert isinstance(new_scale, (int, float)), (
                "new_scale should be a float or a tensor with one element."
            )
            self._scale = _rounded(new_scale)
        else:
            assert self._found_inf, "No inf checks were recorded prior to update."
            if any(self._found_inf.values()):
                self._scale, self._growth_tracker = _rounded(self._scale * self._backoff_factor), 0
            else:
                self._growth_tracker += 1
                if self._growth_tracker == self._growth_interval:
                    grown = _rounded(self._scale * self._growth_factor)
                    self._scale = grown if math.isfinite(grown) else self._scale
                    self._growth_tracker = 0
        self._forget()

    def get_scale(self) -> float:
        """The factor; 1 where scaling is off."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """By what the factor grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set by what the factor grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """By what the factor shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set by what the factor shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many steps the factor grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many steps the factor grows."""
        self._growth_interval = new_interval

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled; optimizers are known by their identity, so only after `update` or before a step."""
        if self._enabled and self._states:
            raise AssertionError(
                "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after "
                "scaler.update()."
            )
        return self.__dict__.copy()

    def is_enabled(self) -> bool:
        """Whether anything is scaled."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The factor and what changes it; empty where scaling is off."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned.

        Raises
        ------
        RuntimeError
            If it is empty: that of a scaler that was off.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._scale = _rounded(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]
