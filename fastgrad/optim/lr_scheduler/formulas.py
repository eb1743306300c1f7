"""Schedules that are one formula of the epoch.

Where a formula allows it, a rate follows from the one before (`get_lr`), so that schedules can be combined and
rates changed by hand; `_get_closed_form_lr` is the same without what went before.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fastgrad.optim.lr_scheduler.base import LRScheduler, need_nonzero, needed, per_group, state_of_callable
from fastgrad.optim.optimizer import Optimizer


class _OfFunctions(LRScheduler):
    """Base of schedules that call a function of the epoch for each group."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        self.lr_lambdas = per_group("lr_lambda", optimizer, lr_lambda)
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the optimizer; of the functions only the attributes of those that are objects."""
        return {**super().state_dict(), "lr_lambdas": [state_of_callable(f) for f in self.lr_lambdas]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave; functions stay."""
        lambdas = self.lr_lambdas
        super().load_state_dict({**state_dict, "lr_lambdas": lambdas})
        for function, state in zip(lambdas, needed(state_dict, "lr_lambdas"), strict=True):
            if state is not None:
                vars(function).update(state)


class LambdaLR(_OfFunctions):
    """Each group's initial rate times a function of the epoch.

    Parameters
    ----------
    optimizer : Optimizer
    lr_lambda : callable or list of callable
        The factor as a function of the epoch, for all groups or one for each.
    last_epoch : int

    Raises
    ------
    ValueError
        If the number of functions is not that of the groups.

    Examples
    --------
    >>> import fastgrad as fg
    >>> optimizer = fg.optim.SGD([fg.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = fg.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def get_lr(self) -> list[Any]:
        """The learning rate of each group for epoch `last_epoch`."""
        self._warn_if_called_from_outside()
        return [
            lr * factor(self.last_epoch) for lr, factor in zip(self.base_lrs, self.lr_lambdas, strict=True)
        ]


class MultiplicativeLR(_OfFunctions):
    """Rates multiplied in each epoch by a function of it.

    Parameters
    ----------
    optimizer : Optimizer
    lr_lambda : callable or list of callable
        The factor as a function of the epoch, for all groups or one for each.
    last_epoch : int

    Raises
    ------
    TypeError
        If one of the functions cannot be called.
    ValueError
        If the number of functions is not that of the groups.

    Examples
    --------
    >>> import fastgrad as fg
    >>> optimizer = fg.optim.SGD([fg.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = fg.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
    >>> for epoch in range(2):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        for function in per_group("lr_lambda", optimizer, lr_lambda):
            if not callable(function):
                raise TypeError(f"lr_lambda should be a function, but got {type(function).__name__}")
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[Any]:
        """The learning rate of each group for epoch `last_epoch`."""
        self._warn_if_called_from_outside()
        if self._is_initial:
            return self._unchanged()
        groups = self.optimizer.param_groups
        return [
            group["lr"] * factor(self.last_epoch)
            for group, factor in zip(groups, self.lr_lambdas, strict=True)
        ]


class StepLR(LRScheduler):
    """Rates multiplied by `gamma` every `step_size` epochs.

    Parameters
    ----------
    optimizer : Optimizer
    step_size : int
    gamma : float
    last_epoch : int

    Examples
    --------
    >>> import fastgrad as fg
    >>> optimizer = fg.optim.SGD([fg.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = fg.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> for epoch in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = need_nonzero("StepLR", "step_size", step_size)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The learning rate of each group for epoch `last_epoch`."""
        self._warn_if_called_from_outside()
        due = self.last_epoch != 0 and self.last_epoch % self.step_size == 0
        return self._times(self.gamma) if due else self._unchanged()

    def _get_closed_form_lr(self) -> list[Any]:
        return [lr * self.gamma ** (self.last_epoch // self.step_size) for lr in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Rates multiplied by `gamma` at each of some epochs.

    Parameters
    ----------
    optimizer : Optimizer
    milestones : iterable of int
        The epochs; one that stands there twice counts twice.
    gamma : float
    last_epoch : int

    Examples
    --------
    >>> import fastgrad as fg
    >>> optimizer = fg.optim.SGD([fg.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = fg.optim.lr_scheduler.MultiStepLR(optimizer, [1, 3], gamma=0.5)
    >>> for epoch in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The learning rate of each group for epoch `last_epoch`."""
        self._warn_if_called_from_outside()
        times = self.milestones.get(self.last_epoch)
        return self._times(self.gamma**times) if times else self._unchanged()

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [lr * self.gamma**passed for lr in self.base_lrs]


class ConstantLR(LRScheduler):
    """Rates multiplied by `factor` until epoch `total_iters`.

    Parameters
    ----------
    optimizer : Optimizer
    factor : float
        Between 0 and 1.
    total_iters : int
    last_epoch : int

    Raises
    ------
    ValueError
        If the factor is out of range.

    Examples
    --------
    >>> import fastgrad as fg
    >>> optimizer = fg.optim.SGD([fg.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = fg.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 <= factor <= 1.0:
            raise ValueError(
                f"Constant multiplicative factor expected to be between 0 and 1, but got {factor}."
            )
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The learning rate of each group for epoch `last_epoch`."""
        self._warn_if_called_from_outside()
        if self.last_epoch == 0:
            return self._times(self.factor)
        return self._times(1.0 / self.factor) if self.last_epoch == self.total_iters else self._unchanged()

    def _get_closed_form_lr(self) -> list[Any]:
        over = self.last_epoch >= self.total_iters
        return [lr * (self.factor + over * (1 - self.factor)) for lr in self.base_lrs]


class LinearLR(LRScheduler):
    """A factor of the rates that goes linearly from one value to another until epoch `total_iters`.

    Parameters
    ----------
    optimizer : Optimizer
    start_factor : float
        Greater than 0, at most 1.
    end_factor : float
        Between 0 and 1.
    total_iters : int
    last_epoch : int

    Raises
    ------
    ValueError
        If a factor is out of range.

    Examples
    --------
    >>> import fastgrad as fg
    >>> optimizer = fg.optim.SGD([fg.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = fg.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1.0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal to 1, but got "
                f"{start_factor}."
            )
        if not 0 <= end_factor <= 1.0:
            raise ValueError(
                f"Ending multiplicative factor expected to be between 0 and 1, but got {end_factor}."
            )
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The learning rate of each group for epoch `last_epoch`."""
        self._warn_if_called_from_outside()
        if self.last_epoch == 0:
            return self._times(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._unchanged()
        slope = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * slope
        return self._times(1.0 + slope / before)

    def _get_closed_form_lr(self) -> list[Any]:
        slope = (self.end_factor - self.start_factor) / self.total_iters
        factor = self.start_factor + slope * min(self.total_iters, self.last_epoch)
        return [lr * factor for lr in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Rates multiplied by `gamma` every epoch.

    Parameters
    ----------
    optimizer : Optimizer
    gamma : float
    last_epoch : int

    Examples
    --------
    >>> import fastgrad as fg
    >>> optimizer = fg.optim.SGD([fg.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = fg.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The learning rate of each group for epoch `last_epoch`."""
        self._warn_if_called_from_outside()
        return self._unchanged() if self._is_initial else self._times(self.gamma)

    def _get_closed_form_lr(self) -> list[Any]:
        return [lr * self.gamma**self.last_epoch for lr in self.base_lrs]


def _half_cosine(part: float) -> float:
    """From 1 to 0 as `part` goes from 0 to 1, along half a cosine."""
    return (1 + math.cos(math.pi * part)) / 2


class PolynomialLR(LRScheduler):
    """Rates that go down to zero as a power of the epochs that are left of `total_iters`.

    Parameters
    ----------
    optimizer : Optimizer
    total_iters : int
    power : float
    last_epoch : int

    Examples
    --------
    >>> import fastgrad as fg
    >>> optimizer = fg.optim.SGD([fg.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = fg.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.75]
    """

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The learning rate of each group for epoch `last_epoch`."""
        self._warn_if_called_from_outside()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._unchanged()
        left, before = (1.0 - epoch / self.total_iters for epoch in (self.last_epoch, self.last_epoch - 1))
        return self._times((left / before) ** self.power)

    def _get_closed_form_lr(self) -> list[Any]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [lr * left**self.power for lr in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Rates from their initial values to `eta_min` along half a cosine of `T_max` epochs, and back.

    Parameters
    ----------
    optimizer : Optimizer
    T_max : int
    eta_min : float
    last_epoch : int

    References
    ----------
    Loshchilov, Hutter: SGDR: Stochastic Gradient Descent with Warm Restarts, ICLR 2017 (without the restarts).

    Examples
    --------
    >>> import fastgrad as fg
    >>> optimizer = fg.optim.SGD([fg.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = fg.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_max: int,  # noqa: N803 - PyTorch's name
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        self.T_max = need_nonzero("CosineAnnealingLR", "T_max", T_max)
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The learning rate of each group for epoch `last_epoch`."""
        self._warn_if_called_from_outside()
        if self._is_initial:
            return self._unchanged()
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        groups, low = self.optimizer.param_groups, self.eta_min
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # The rate before was eta_min, of which no multiple gives the next one.
            rise = 1 - _half_cosine(1 / self.T_max)
            return [g["lr"] + (lr - low) * rise for lr, g in zip(self.base_lrs, groups, strict=True)]
        factor = _half_cosine(self.last_epoch / self.T_max) / _half_cosine((self.last_epoch - 1) / self.T_max)
        return [low + (group["lr"] - low) * factor for group in groups]

    def _get_closed_form_lr(self) -> list[Any]:
        part = _half_cosine(self.last_epoch / self.T_max)
        return [self.eta_min + (lr - self.eta_min) * part for lr in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines one after the other: `T_0` epochs the first, each `T_mult` times as long as the one before.

    Parameters
    ----------
    optimizer : Optimizer
    T_0, T_mult : int
    eta_min : float
    last_epoch : int

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    Loshchilov, Hutter: SGDR: Stochastic Gradient Descent with Warm Restarts, ICLR 2017.

    Examples
    --------
    >>> import fastgrad as fg
    >>> optimizer = fg.optim.SGD([fg.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = fg.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> for epoch in range(2):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,  # noqa: N803 - PyTorch's names
        T_mult: int = 1,  # noqa: N803
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(T_0, int) or T_0 <= 0:
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The learning rate of each group for epoch `last_epoch`."""
        self._warn_if_called_from_outside()
        part = _half_cosine(self.T_cur / self.T_i)
        return [self.eta_min + (lr - self.eta_min) * part for lr in self.base_lrs]

    def step(self, epoch: Any = None) -> None:
        """Go to the next epoch, or to any, which may be a fraction: after each batch, say.

        Parameters
        ----------
        epoch : float, optional

        Raises
        ------
        ValueError
            If it is negative.
        """
        if epoch is None and self.last_epoch >= 0:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            epoch = 0 if epoch is None else epoch
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            self._go_to(epoch)
        self._update_lr(math.floor(epoch))

    def _go_to(self, epoch: float) -> None:
        """Find the cycle that an epoch lies in, and its place there."""
        self.T_i = self.T_0
        self.T_cur = epoch
        if epoch >= self.T_0 and self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        elif epoch >= self.T_0:
            n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**n
