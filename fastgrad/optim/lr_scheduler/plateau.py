"""Smaller rates when a measure stops getting better."""

from __future__ import annotations

import math
import warnings
from typing import Any

from fastgrad.optim.lr_scheduler.base import (
    EPOCH_DEPRECATION_WARNING,
    LRScheduler,
    need_optimizer,
    per_group,
    set_value,
    values_of,
)
from fastgrad.optim.optimizer import Optimizer
from fastgrad.optim.options import scalar


class ReduceLROnPlateau(LRScheduler):
    """Rates multiplied by `factor` when a measure was no better than its best for more than `patience` epochs.

    Parameters
    ----------
    optimizer : Optimizer
    mode : str
        ``"min"`` if less is better, ``"max"`` if more is.
    factor : float
        Less than 1.
    patience : int
    threshold : float
        How much better counts.
    threshold_mode : str
        ``"rel"``: in parts of the best; ``"abs"``: as a difference.
    cooldown : int
        Epochs after a change in which nothing counts.
    min_lr : float or list of float
        The least rate, for all groups or one for each.
    eps : float
        Smaller changes of a rate are not made.

    Raises
    ------
    ValueError
        If an argument is out of range.
    RuntimeError
        From `step` if groups were added and `min_lr` is a list.

    Examples
    --------
    >>> import fastgrad as fg
    >>> optimizer = fg.optim.SGD([fg.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = fg.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    >>> for loss in (1.0, 1.0, 1.0):
    ...     scheduler.step(loss)
    >>> scheduler.get_last_lr()
    [0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: Any = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError(f"Factor should be < 1.0, but got {factor}.")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown! It must be 'min' or 'max'.")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown! It must be 'rel' or 'abs'.")
        self.factor = factor
        self.optimizer = need_optimizer(optimizer)
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.min_lrs = per_group("min_lr", optimizer, min_lr)
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.last_epoch = 0
        self._last_lr = values_of(optimizer, "lr")
        self._reset()

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: Any, epoch: Any = None) -> None:  # type: ignore[override]
        """Go to the next epoch.

        Parameters
        ----------
        metrics : float or Tensor
            The measure of the epoch that is over.
        epoch : int, optional
            Deprecated: the epoch to go to.
        """
        current = scalar(metrics)
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = values_of(self.optimizer, "lr")

    def _reduce_lr(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from when "
                    f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due to a new param group "
                    "being added to the optimizer. Please modify the `min_lrs` field to match the length of the "
                    "`optimizer` param groups."
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs, strict=True):
            old = scalar(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                set_value(group, "lr", new)

    @property
    def in_cooldown(self) -> bool:
        """Whether a change was so recent that nothing counts."""
        return self.cooldown_counter > 0

    def _is_better(self, a: float, best: float) -> bool:
        sign = 1 if self.mode == "max" else -1
        if self.threshold_mode == "rel":
            bound = best * (1.0 + sign * self.threshold)
        else:
            bound = best + sign * self.threshold
        return a > bound if self.mode == "max" else a < bound
