"""Training where ranks have different numbers of batches: those that are through answer the calls of the others.

Note [Joined ranks]: every iteration of a rank begins with a sum of one number over all ranks, to which it gives one. A
rank without further batches has *joined*: it takes part in that sum with zero. As long as the sum is more than zero
others have batches, and it makes the calls of their iteration with them, which are the main hooks of what shares the
context. When the sum is zero all have joined, and the post-hooks run.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple

from fastgrad.distributed import collectives
from fastgrad.distributed.groups import get_rank
from fastgrad.distributed.work import Work
from fastgrad.functions.creation import full
from fastgrad.module_names import getattr_of as _getattr_of

__all__ = ["Join", "JoinHook", "Joinable"]

MANY = 1000
"""How many iterations the others may be ahead before a rank that has joined warns."""


class JoinHook:
    """What a rank that has joined does for one `Joinable`; a subclass overrides what it needs."""

    def main_hook(self) -> None:
        """Make the calls of one iteration; runs again and again while others have batches."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Run once, when all ranks have joined.

        Parameters
        ----------
        is_last_joiner : bool
            Whether this rank was among the last ones.
        """


class _JoinConfig(NamedTuple):
    """What a `Joinable` knows of the context that it is in."""

    enable: bool = False
    throw_on_early_termination: bool = False
    is_first_joinable: bool = False


class Joinable(ABC):
    """What makes calls between processes in each iteration, and can answer them without a batch.

    A subclass calls ``Joinable.__init__(self)``, and, before the calls of an iteration,
    ``Join.notify_join_context(self)``.
    """

    @abstractmethod
    def __init__(self) -> None:
        self._join_config = _JoinConfig()

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """The hooks of this object.

        Parameters
        ----------
        **kwargs
            Those of `Join`, the same ones for all that share it.

        Returns
        -------
        JoinHook
        """

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """The device of the tensors by which ranks tell each other that they have batches."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """The group whose ranks join."""


class Join:
    """A context in which ranks may have different numbers of batches.

    Parameters
    ----------
    joinables : sequence of Joinable
        Whose calls are to be answered, in the order in which they make them: a model, then its optimizer. All have the
        same process group.
    enable : bool
        False lets the context do nothing.
    throw_on_early_termination : bool
        Raise on all ranks as soon as one has no batch left.
    **kwargs
        For the ``join_hook`` of all joinables.

    Raises
    ------
    ValueError
        If there is no joinable, or their groups differ.
    TypeError
        If one is no `Joinable`.
    RuntimeError
        With `throw_on_early_termination`, on every rank: when it runs out of batches, or learns that another one did.

    Examples
    --------
    >>> import fastgrad as fg
    >>> import fastgrad.distributed as dist
    >>> dist.init_process_group("mpi")
    >>> model = fg.nn.parallel.DistributedDataParallel(fg.nn.Linear(2, 1))
    >>> optimizer = fg.optim.SGD(model.parameters(), lr=0.1)
    >>> with Join([model]):
    ...     for x in [fg.ones(1, 2)] * (3 + dist.get_rank()):
    ...         optimizer.zero_grad()
    ...         model(x).sum().backward()
    ...         optimizer.step()
    >>> del model, optimizer
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        joinables: Sequence[Joinable],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        self._joinables = list(joinables)
        if not self._joinables:
            raise ValueError("The join context manager requires at least one joinable")
        for k, one in enumerate(self._joinables):
            if not isinstance(one, Joinable):
                raise TypeError(
                    f"Join(): element {k} of argument 'joinables' must be Joinable, not {type(one).__name__}"
                )
        self._enable, self._throw = bool(enable), bool(throw_on_early_termination)
        first = self._joinables[0]
        self._group, self._device = first.join_process_group, first.join_device
        if any(one.join_process_group is not self._group for one in self._joinables):
            raise ValueError("Using join context manager with multiple process groups")
        self._hooks = [one.join_hook(**kwargs) for one in self._joinables]

    def __enter__(self) -> None:
        self._before = [one._join_config for one in self._joinables]
        for k, one in enumerate(self._joinables):
            one._join_config = _JoinConfig(self._enable, self._throw, k == 0)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._enable and kind is None:
                self._answer()
        finally:
            for one, before in zip(self._joinables, self._before, strict=True):
                one._join_config = before

    def _answer(self) -> None:
        """Make the calls of the others until all have joined."""
        behind = 0
        while self._sum(0.0):
            if self._throw:
                self._sum(1.0)
                raise RuntimeError(f"Rank {get_rank(self._group)} exhausted all inputs.")
            if behind == MANY:
                warnings.warn(
                    f"Detected uneven input skew of greater than {MANY}: rank {get_rank(self._group)} has at least "
                    f"{MANY} fewer inputs than other ranks, and waits for them",
                    stacklevel=3,
                )
            for hook in self._hooks:
                hook.main_hook()
            behind += 1
        for hook in self._hooks:
            hook.post_hook(not behind)

    def _sum(self, mine: float) -> float:
        number = full((1,), mine, device=self._device)
        collectives.all_reduce(number, group=self._group)
        return float(number.item())

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Work | None:
        """Say that this rank begins another iteration. The first joinable of a context does, others need not.

        Parameters
        ----------
        joinable : Joinable
            Who is about to make the calls of an iteration.

        Returns
        -------
        Work or None
            Of the sum of one number that tells how many ranks have batches; None if nothing was to be said.

        Raises
        ------
        RuntimeError
            With ``throw_on_early_termination``, if a rank has none left.
        """
        if not hasattr(joinable, "_join_config"):
            raise AssertionError(
                f"notify_join_context(): the constructor of {type(joinable).__name__} has to call "
                "Joinable.__init__(self)"
            )
        enable, throw, first = joinable._join_config
        if not (enable and first):
            return None
        group, device = joinable.join_process_group, joinable.join_device
        work = collectives.all_reduce(full((1,), 1.0, device=device), group=group, async_op=True)
        if throw:
            ended = full((1,), 0.0, device=device)
            collectives.all_reduce(ended, group=group)
            if ended.item():
                raise RuntimeError(
                    "Detected at least one rank that exhausted inputs. Throwing across all ranks."
                )
        return work


__getattr__ = _getattr_of(__name__)
