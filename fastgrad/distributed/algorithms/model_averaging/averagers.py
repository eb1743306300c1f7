"""What averages parameters over ranks every few steps; see Lin, Stich, Patel and Jaggi, "Don't Use Large Mini-Batches,
Use Local SGD", 2020.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from fastgrad.distributed.algorithms.model_averaging.utils import average_parameters_or_parameter_groups
from fastgrad.distributed.groups import need_member
from fastgrad.module_names import getattr_of as _getattr_of

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager(ABC):
    """What averages parameters now and then.

    Parameters
    ----------
    process_group : ProcessGroup, optional
        By default that of all ranks.

    Attributes
    ----------
    step : int
        How often it was called.
    """

    def __init__(self, process_group: Any = None) -> None:
        self.process_group = need_member(type(self).__name__, process_group)
        self.step = 0

    @abstractmethod
    def average_parameters(self, params: Iterable[Any]) -> None:
        """Average parameters, if it is time to.

        Parameters
        ----------
        params : iterable of Tensor or of dict
            Parameters, or groups of an optimizer; those without gradient stay as they are.
        """


class PeriodicModelAverager(ModelAverager):
    """Averages parameters in every `period`-th call, the first one after those of the beginning among them.

    Parameters
    ----------
    period : int
        With 1 there is a warning: averaging gradients costs no more then.
    warmup_steps : int
        In how many calls at the beginning nothing is averaged.
    process_group : ProcessGroup, optional
        By default that of all ranks.

    Raises
    ------
    ValueError
        If `period` is less than 1, or `warmup_steps` less than 0.

    Examples
    --------
    >>> import fastgrad as fg
    >>> import fastgrad.distributed as dist
    >>> dist.init_process_group("mpi")
    >>> model = fg.nn.Linear(2, 1)
    >>> averager = PeriodicModelAverager(period=4)
    >>> for _ in range(8):
    ...     averager.average_parameters(model.parameters())
    >>> averager.step
    8
    >>> dist.destroy_process_group()
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        need_steps(warmup_steps)
        if period < 1:
            raise ValueError(f"Arg ``period`` must be a positive value, got {period}.")
        if period == 1:
            warn_of_every_step()
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Average parameters, if it is time to.

        Parameters
        ----------
        params : iterable of Tensor or of dict
            Parameters, or groups of an optimizer; those without gradient stay as they are.
        """
        if self.step >= self.warmup_steps and not (self.step - self.warmup_steps) % self.period:
            average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1


def need_steps(warmup_steps: int) -> None:
    """Raise for a number of steps that is less than none."""
    if warmup_steps < 0:
        raise ValueError(f"Arg ``warmup_steps`` must be a non-negative number, got {warmup_steps}.")


def warn_of_every_step() -> None:
    """Say that averaging in every step gains nothing."""
    warnings.warn(
        "a period of 1 averages parameters in every step, which costs as much as averaging gradients; "
        "DistributedDataParallel alone does that",
        stacklevel=3,
    )


__getattr__ = _getattr_of(__name__)
