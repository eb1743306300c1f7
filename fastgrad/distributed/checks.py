"""What collectives have in common: how they begin, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fastgrad.autograd.modes import no_grad
from fastgrad.distributed.boards import Sharing
from fastgrad.distributed.groups import ProcessGroup
from fastgrad.distributed.progress import Transfer
from fastgrad.distributed.transport import ReduceOp, memory, need_sendable, written
from fastgrad.distributed.work import Collective, Work
from fastgrad.functions.arguments import need_tensors


def run(
    group: ProcessGroup,
    call: str,
    equal: tuple[Any, ...],
    begin: Transfer | Callable[[], Any] | None,
    async_op: bool,
    result: Sequence[Any] = (),
    end: Callable[[], Any] | None = None,
    *,
    changes: bool = True,
    sharing: Sharing | None = None,
) -> Work | None:
    """Begin a call; wait for it unless the caller wants to.

    Parameters
    ----------
    group, call, begin, result, end
        As for `Work`.
    equal : tuple
        What has to be equal on all ranks.
    async_op : bool
        Return the work at once.
    changes : bool
        Whether this rank's `result` is written to.
    sharing : Sharing, optional
        As for `Collective`.

    Returns
    -------
    Work or None
    """

    def finish() -> None:
        if end is not None:
            end()
        if changes:
            written(*result)

    work = Collective(group, call, equal, begin, sharing, result=result, end=finish)
    if async_op:
        return work.leave_alone()
    work.wait()
    return None


def facts(tensor: Any, *more: Any) -> tuple[Any, ...]:
    """What has to be equal on all ranks: the dtype, the number of elements, and more."""
    return (str(tensor.dtype).rpartition(".")[2], f"{tensor.numel()} elements", *more)


def root_of(
    call: str, group: ProcessGroup, argument: str, rank: Any, group_rank: Any, default: int | None = None
) -> int:
    """The number in a group of the rank that a call names, either among all, which has a default, or in the group."""
    if rank is None and group_rank is None:
        rank = default
    if rank is not None and group_rank is not None:
        raise ValueError(f"{call}(): Can't specify both group_{argument} and {argument}")
    value, name = (rank, argument) if group_rank is None else (group_rank, f"group_{argument}")
    if type(value) is not int:
        raise TypeError(f"{call}(): argument '{name}' must be int, not {type(value).__name__}")
    if group_rank is not None:
        if not 0 <= value < group.size():
            raise ValueError(f"{call}(): {name}={value} is no rank of the {group.title()}")
        return value
    if value not in group.ranks:
        raise ValueError(f"{call}(): Global rank {value} is not part of the {group.title()}")
    return group.ranks.index(value)


def alike(call: str, argument: str, tensors: Sequence[Any], like: Any) -> list[np.ndarray]:
    """The memory of tensors that must be of one size and dtype."""
    found = [need_sendable(call, t, f"{argument}[{k}]") for k, t in enumerate(tensors)]
    for k, t in enumerate(found):
        if t.dtype != like.dtype or t.numel() != like.numel():
            raise ValueError(
                f"{call}(): '{argument}[{k}]' has {t.numel()} elements of {t.dtype}, but {like.numel()} of "
                f"{like.dtype} are expected; all tensors of a call must have the same size and dtype"
            )
    return [memory(t) for t in found]


def one_for_each(call: str, argument: str, tensors: Any, n: int) -> list[Any]:
    """A list of one tensor for each rank."""
    found = need_tensors(call, tensors, argument)
    if len(found) != n:
        raise ValueError(
            f"{call}(): argument '{argument}' must have one tensor for each of {n} ranks, got {len(found)}"
        )
    return found


def spread(parts: np.ndarray, memories: Sequence[np.ndarray]) -> None:
    """Copy the rows of an array to where they belong."""
    for part, target in zip(parts, memories, strict=True):
        target[...] = part


def average(op: Any, tensor: Any, group: ProcessGroup) -> None:
    """Divide by the number of ranks, if that is what the operation is."""
    if op is ReduceOp.AVG:
        with no_grad():
            tensor.div_(group.size())


def need_times(call: str, long: str, a: Any, short: str, b: Any, n: int) -> None:
    """One tensor must be as many times as long as another one as there are ranks."""
    if a.dtype != b.dtype or a.numel() != b.numel() * n:
        raise ValueError(
            f"{call}(): '{long}' must have {n} times the elements of '{short}', for as many ranks, of the same dtype; "
            f"got {a.numel()} of {a.dtype} and {b.numel()} of {b.dtype}"
        )


def need_nothing(call: str, argument: str, value: Any, root: str) -> None:
    """Refuse an argument that is for one rank alone."""
    if value:
        raise ValueError(f"{call}(): Argument '{argument}' must NOT be specified on ranks other than {root}")
