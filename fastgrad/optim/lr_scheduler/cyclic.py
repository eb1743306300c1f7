"""Cycles: the rate goes up and down again and again, momentum the other way."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fastgrad.optim.lr_scheduler.base import (
    LRScheduler,
    cycles_beta1,
    need_nonzero,
    need_optimizer,
    needed,
    per_group,
    set_momentum,
    set_value,
    state_of_callable,
)
from fastgrad.optim.optimizer import Optimizer

_MODES = ("triangular", "triangular2", "exp_range")


class CyclicLR(LRScheduler):
    """Rates from `base_lr` up to `max_lr` and down again in each cycle, which may get lower. Step it after each batch.

    Parameters
    ----------
    optimizer : Optimizer
    base_lr, max_lr : float or list of float
        For all groups or one for each, as the momenta below.
    step_size_up : int
        The steps that go up.
    step_size_down : int, optional
        Those that go down; if not given, as many.
    mode : str
        How high a cycle is: ``"triangular"``, as all others; ``"triangular2"``, half of the one before;
        ``"exp_range"``, ``gamma**step``.
    gamma : float
    scale_fn : callable, optional
        How high it is, in place of a mode.
    scale_mode : str
        ``"cycle"`` if `scale_fn` takes the number of the cycle, from 1 on, ``"iterations"`` if that of the step.
    cycle_momentum : bool
        Momentum, or the first beta, goes from `max_momentum` to `base_momentum` and back.
    base_momentum, max_momentum : float or list of float
    last_epoch : int
        The step before the first.

    Raises
    ------
    ValueError
        If `mode` is none of these and there is no `scale_fn`, or the optimizer has no momentum to cycle.
    ZeroDivisionError
        If there are no steps up.

    References
    ----------
    Smith: Cyclical Learning Rates for Training Neural Networks, WACV 2017.

    Examples
    --------
    >>> import fastgrad as fg
    >>> optimizer = fg.optim.SGD([fg.ones(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> scheduler = fg.optim.lr_scheduler.CyclicLR(optimizer, base_lr=0.5, max_lr=1.0, step_size_up=2)
    >>> for batch in range(3):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: Any,
        max_lr: Any,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.8,
        max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = need_optimizer(optimizer)
        base_lrs = per_group("base_lr", optimizer, base_lr)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        up = float(need_nonzero("CyclicLR", "step_size_up", step_size_up))
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in _MODES and scale_fn is None:
            raise ValueError(
                f"mode is invalid and scale_fn is None: mode must be one of {_MODES}, but is {mode!r}"
            )
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = cycles_beta1(optimizer)
            self.base_momentums = per_group("base_momentum", optimizer, base_momentum)
            self.max_momentums = per_group("max_momentum", optimizer, max_momentum)
        if last_epoch == -1:
            for k, group in enumerate(optimizer.param_groups):
                set_value(group, "lr", base_lrs[k])
                if cycle_momentum:
                    set_momentum(group, self.use_beta1, self.max_momentums[k])
                    group["max_momentum"] = self.max_momentums[k]
                    group["base_momentum"] = self.base_momentums[k]
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """How high a cycle is, for its number or that of a step, see `scale_mode`."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "exp_range":
            return float(self.gamma**x)
        return 1.0 if self.mode == "triangular" else 1 / (2.0 ** (x - 1))

    def get_lr(self) -> list[Any]:
        """The learning rate of each group for step `last_epoch`; sets the momentum of the groups."""
        self._warn_if_called_from_outside()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            bounds = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, least, most in bounds:
                set_momentum(group, self.use_beta1, most - (most - least) * height)
        return [
            least + (most - least) * height for least, most in zip(self.base_lrs, self.max_lrs, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the optimizer; of `scale_fn` only the attributes of an object."""
        function = self._scale_fn_custom
        kept = None if function is None else state_of_callable(function)
        return {**super().state_dict(), "_scale_fn_custom": kept}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave; the function stays."""
        function, kept = self._scale_fn_custom, needed(state_dict, "_scale_fn_custom")
        super().load_state_dict({**state_dict, "_scale_fn_custom": function})
        if kept is not None:
            vars(function).update(kept)
