"""Averaging parameters over small groups often, and over large ones less often."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

from fastgrad.distributed.algorithms.model_averaging.averagers import (
    ModelAverager,
    need_steps,
    warn_of_every_step,
)
from fastgrad.distributed.algorithms.model_averaging.utils import average_parameters_or_parameter_groups
from fastgrad.distributed.subgroups import new_subgroups


class HierarchicalModelAverager(ModelAverager):
    """Averages parameters over groups of several sizes, each with a period of its own.

    In a call that is due for several of them the one with the longest period is taken. Every process has to make it, as
    it makes the groups.

    Parameters
    ----------
    period_group_size_dict : mapping
        The size of the groups by the period, both ascending; the last size is that of `process_group`.
    warmup_steps : int
        In how many calls at the beginning nothing is averaged.
    process_group : ProcessGroup, optional
        By default that of all ranks.

    Attributes
    ----------
    period_process_group_dict : dict
        The group of this rank by the period.

    Raises
    ------
    ValueError
        If there are no periods, one is less than 1, or the last size is another.
    """

    def __init__(
        self,
        period_group_size_dict: Mapping[int, int] | None = None,
        warmup_steps: int = 0,
        process_group: Any = None,
    ) -> None:
        super().__init__(process_group)
        if not period_group_size_dict:
            raise ValueError("Arg ``period_group_size_dict`` must not be empty.")
        self._periods = list(period_group_size_dict)
        if min(self._periods) <= 0:
            raise ValueError("The minimum period in arg ``period_group_size_dict`` must be a positive value.")
        if self._periods[-1] == 1:
            warn_of_every_step()
        last, whole = list(period_group_size_dict.values())[-1], self.process_group.size()
        if last != whole:
            raise ValueError(
                f"The last value in arg ``period_group_size_dict`` {last} must be equal to the size of arg "
                f"``process_group`` {whole}."
            )
        need_steps(warmup_steps)
        self.warmup_steps = warmup_steps
        self.period_process_group_dict = OrderedDict(
            (
                period,
                self.process_group if size == whole else new_subgroups(size, self.process_group)[0],
            )
            for period, size in period_group_size_dict.items()
        )

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Average parameters, if it is time to.

        Parameters
        ----------
        params : iterable of Tensor or of dict
            Parameters, or groups of an optimizer; those without gradient stay as they are.
        """
        due = [period for period in self._periods if not self.step % period]
        if due and self.step >= self.warmup_steps:
            average_parameters_or_parameter_groups(params, self.period_process_group_dict[due[-1]])
        self.step += 1
