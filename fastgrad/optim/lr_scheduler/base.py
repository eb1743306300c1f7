"""What all schedules share: counting epochs, setting the learning rates of groups, saving."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable
from typing import Any

from fastgrad.native.build.loader import TensorBase
from fastgrad.optim.optimizer import Optimizer
from fastgrad.optim.options import scalar

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the closed "
    "form is used instead of the new chainable form, where available."
)


def need_optimizer(optimizer: Any) -> Optimizer:
    """The argument if it is an optimizer; TypeError else."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
    return optimizer


def need_nonzero(name: str, argument: str, value: Any) -> Any:
    """The value, if it is no zero: rates are divided by it."""
    if isinstance(value, (int, float)) and value == 0:
        raise ZeroDivisionError(f"{name}(): argument '{argument}' must not be 0")
    return value


def values_of(optimizer: Optimizer, key: str) -> list[Any]:
    """An option of every group; of a tensor a copy, which later changes leave alone."""
    values = [group[key] for group in optimizer.param_groups]
    return [v.clone() if isinstance(v, TensorBase) else v for v in values]


def set_value(group: dict[str, Any], key: str, value: Any) -> None:
    """Set an option of a group, in place where it is a tensor."""
    if isinstance(group[key], TensorBase):
        group[key].fill_(scalar(value))
    else:
        group[key] = value


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """A value for each group, from one for all or from a list of them."""
    n = len(need_optimizer(optimizer).param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * n
    if len(value) != n:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, "
            f"param_groups has {n}."
        )
    return list(value)


def cycles_beta1(optimizer: Optimizer) -> bool:
    """Whether what a schedule cycles as momentum is the first beta; ValueError if the optimizer has neither."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled; say "
            "cycle_momentum=False"
        )
    return "betas" in optimizer.defaults


def set_momentum(group: dict[str, Any], beta1: bool, value: Any) -> None:
    """Set the momentum of a group, or its first beta."""
    if beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


def state_of_callable(function: Callable[..., Any]) -> dict[str, Any] | None:
    """What a state dict keeps of a callable: the attributes of an object, nothing of a function."""
    return None if isinstance(function, types.FunctionType) else dict(vars(function))


_DETAILS = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


def needed(state: dict[str, Any], key: str) -> Any:
    """What a state that is loaded has under a key; KeyError if it is of something else."""
    if key not in state:
        raise KeyError(
            f"load_state_dict(): the state has no {key!r}: expected what state_dict of such a schedule gave"
        )
    return state[key]


class LRScheduler:
    """Base class of schedules. A subclass defines `get_lr`.

    Making a schedule sets the learning rates of epoch 0; each `step` after that goes on to the next epoch. The order
    is ``optimizer.step()``, then ``scheduler.step()``.

    Parameters
    ----------
    optimizer : Optimizer
    last_epoch : int
        The epoch before the first, to go on from a checkpoint: groups must have their ``"initial_lr"`` then.

    Attributes
    ----------
    optimizer : Optimizer
    base_lrs : list
        The learning rate that each group began with, its ``"initial_lr"``.
    last_epoch : int

    Raises
    ------
    TypeError
        If `optimizer` is none.
    KeyError
        If a group lacks ``"initial_lr"`` when going on from a checkpoint.

    Examples
    --------
    >>> import fastgrad as fg
    >>> class Halving(fg.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [lr * 0.5**self.last_epoch for lr in self.base_lrs]
    >>> optimizer = fg.optim.SGD([fg.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = Halving(optimizer)
    >>> for epoch in range(2):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    _get_lr_called_within_step = False
    _is_initial = False
    _last_lr: list[Any]

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = need_optimizer(optimizer)
        optimizer._step_of_schedules = vars(optimizer).get("step")  # type: ignore[attr-defined]
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                lr = group["lr"]
                group.setdefault("initial_lr", lr.clone() if isinstance(lr, TensorBase) else lr)
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                    "last_epoch >= 0: load the optimizer's state first, or leave last_epoch at -1 in a fresh run"
                )
        self.base_lrs = values_of(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the optimizer.

        Returns
        -------
        dict
        """
        return {key: value for key, value in vars(self).items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave.

        Parameters
        ----------
        state_dict : dict
        """
        vars(self).update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The learning rate of each group as the last step set it."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The learning rate of each group for epoch `last_epoch`, from their present ones; `step` calls it."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr()")

    def step(self, epoch: Any = None) -> None:
        """Set the learning rates of the next epoch.

        Parameters
        ----------
        epoch : int, optional
            Deprecated: the epoch to go to.

        Warns
        -----
        UserWarning
            If the optimizer did not step before, if its `step` was replaced since, or if `epoch` is given.
        """
        if self._step_count == 1:
            warning = self._order_warning()
            if warning:
                warnings.warn(warning, UserWarning, stacklevel=2)
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _order_warning(self) -> str:
        """What the first step warns of; nothing if all is well."""
        own = vars(self.optimizer)
        step, before = own.get("step"), own.get("_step_of_schedules")
        says_so = getattr(step, "__wrapped__", None) in (
            before or type(self.optimizer).step.__get__(self.optimizer),
        )
        if step is not before and not says_so:
            return (
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. "
                f"Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`. {_DETAILS}"
            )
        if own.get("_opt_called", False):
            return ""
        return (
            "Detected call of `lr_scheduler.step()` before `optimizer.step()`. You should call them in the opposite "
            "order: `optimizer.step()` before `lr_scheduler.step()`. Failure to do this will result in skipping the "
            f"first value of the learning rate schedule. {_DETAILS}"
        )

    def _update_lr(self, epoch: Any = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed = None if epoch is None else getattr(self, "_get_closed_form_lr", None)
        self._get_lr_called_within_step = True
        try:
            self._set_lrs(self.get_lr() if closed is None else closed())
        finally:
            self._get_lr_called_within_step = False

    def _set_lrs(self, lrs: list[Any]) -> None:
        for group, lr in zip(self.optimizer.param_groups, lrs, strict=True):
            set_value(group, "lr", lr)
        self._last_lr = values_of(self.optimizer, "lr")

    def _times(self, factor: float) -> list[Any]:
        """The present learning rates, multiplied."""
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _unchanged(self) -> list[Any]:
        return values_of(self.optimizer, "lr")

    def _warn_if_called_from_outside(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )
