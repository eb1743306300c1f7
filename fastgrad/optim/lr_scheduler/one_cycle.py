"""One cycle: the rate goes up once and down to almost nothing, momentum the other way."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from fastgrad.optim.lr_scheduler.base import (
    LRScheduler,
    cycles_beta1,
    need_nonzero,
    need_optimizer,
    per_group,
    set_momentum,
)
from fastgrad.optim.optimizer import Optimizer


def _cosine(start: Any, end: Any, part: float) -> Any:
    return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)


def _linear(start: Any, end: Any, part: float) -> Any:
    return (end - start) * part + start


_ANNEAL = {"cos": _cosine, "linear": _linear}


class OneCycleLR(LRScheduler):
    """Rates from ``max_lr / div_factor`` up to `max_lr` and down to a `final_div_factor`-th of where they began.

    Step it after each batch. Momentum, or the first beta, goes from `max_momentum` to `base_momentum` and back.

    Parameters
    ----------
    optimizer : Optimizer
    max_lr : float or list of float
        For all groups or one for each, as the momenta below.
    total_steps : int, optional
        If not given: `epochs` times `steps_per_epoch`.
    epochs, steps_per_epoch : int, optional
    pct_start : float
        The part of the steps that go up.
    anneal_strategy : str
        ``"cos"`` or ``"linear"``.
    cycle_momentum : bool
    base_momentum, max_momentum : float or list of float
    div_factor, final_div_factor : float
    three_phase : bool
        Come down as one went up, and only then to almost nothing.
    last_epoch : int

    Raises
    ------
    ValueError
        If an argument is out of range, or the optimizer has no momentum to cycle; from `step` when the steps are
        over.

    References
    ----------
    Smith, Topin: Super-Convergence: Very Fast Training of Neural Networks Using Large Learning Rates, 2018.

    Examples
    --------
    >>> import fastgrad as fg
    >>> optimizer = fg.optim.SGD([fg.ones(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> scheduler = fg.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10, pct_start=0.5)
    >>> for batch in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr(), optimizer.param_groups[0]["momentum"]
    ([1.0], 0.85)
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: Any,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.85,
        max_momentum: Any = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = need_optimizer(optimizer)
        self.total_steps = _total(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in tuple(_ANNEAL):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_func_type = anneal_strategy
        need_nonzero("OneCycleLR", "div_factor", div_factor)
        need_nonzero("OneCycleLR", "final_div_factor", final_div_factor)
        # Each phase ends at a step, with a rate and a momentum; it begins with those of the one before.
        up = pct_start * self.total_steps
        ends: list[tuple[float, str, str]] = [
            (0.0, "initial_lr", "max_momentum"), (up - 1, "max_lr", "base_momentum"),
        ]  # fmt: skip
        if three_phase:
            ends.append((2 * up - 2, "initial_lr", "max_momentum"))
        self._ends = [*ends, (self.total_steps - 1, "min_lr", "max_momentum")]
        self.cycle_momentum = cycle_momentum
        max_lrs = per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, largest in zip(optimizer.param_groups, max_lrs, strict=True):
                group["initial_lr"] = largest / div_factor
                group["max_lr"] = largest
                group["min_lr"] = group["initial_lr"] / final_div_factor
        if cycle_momentum:
            self.use_beta1 = cycles_beta1(optimizer)
            largest_momenta = per_group("max_momentum", optimizer, max_momentum)
            smallest_momenta = per_group("base_momentum", optimizer, base_momentum)
            if last_epoch == -1:
                for group, most, least in zip(
                    optimizer.param_groups, largest_momenta, smallest_momenta, strict=True
                ):
                    set_momentum(group, self.use_beta1, most)
                    group["max_momentum"] = most
                    group["base_momentum"] = least
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The learning rate of each group for epoch `last_epoch`."""
        self._warn_if_called_from_outside()
        at = self.last_epoch
        if at > self.total_steps:
            raise ValueError(
                f"Tried to step {at} times. The specified number of total steps is {self.total_steps}"
            )
        for begin, end in pairwise(self._ends):  # noqa: B007 - the phase that it stops at, or the last
            if at <= end[0]:
                break
        part = (at - begin[0]) / (end[0] - begin[0])
        anneal = _ANNEAL[self._anneal_func_type]
        groups = self.optimizer.param_groups
        if self.cycle_momentum:
            for group in groups:
                set_momentum(group, self.use_beta1, anneal(group[begin[2]], group[end[2]], part))
        return [anneal(group[begin[1]], group[end[1]], part) for group in groups]


def _total(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    """The number of steps, from whichever arguments tell it."""
    if total_steps is None and (epochs is None or steps_per_epoch is None):
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    given = {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
    if total_steps is not None:
        given = {"total_steps": total_steps}
    total = 1
    for name, value in given.items():
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"Expected positive integer {name}, but got {value}")
        total *= value
    return total
