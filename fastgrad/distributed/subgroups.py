"""Several groups at once, of which every rank is in one at most."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from fastgrad.distributed.groups import GroupMember, get_rank, need_member, new_group


def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Divide a group into some of equal size, of ranks that follow each other. Every process has to call it.

    Parameters
    ----------
    group_size : int, optional
        By default as many as there are ranks on this machine.
    group : ProcessGroup, optional
        By default that of all ranks.
    timeout, backend, pg_options, group_desc
        As for `new_group`.

    Returns
    -------
    tuple
        The one that this rank is in, and a list of all, where ``GroupMember.NON_GROUP_MEMBER`` stands for the others.

    Raises
    ------
    ValueError
        If the size of the group is no multiple of `group_size`.

    Examples
    --------
    >>> import fastgrad.distributed as dist
    >>> dist.init_process_group("mpi")
    >>> mine, every = dist.new_subgroups(1)
    >>> dist.get_world_size(mine)
    1
    >>> dist.destroy_process_group()
    """
    ranks = need_member("new_subgroups", group).ranks
    size = int(os.environ["LOCAL_WORLD_SIZE"]) if group_size is None else group_size
    if type(size) is not int:
        raise TypeError(f"new_subgroups(): argument 'group_size' must be int, not {type(size).__name__}")
    if size <= 0:
        raise ValueError(f"The arg 'group_size' ({size}) must be positive")
    if len(ranks) < size:
        raise ValueError(f"The arg 'group_size' ({size}) must not exceed the world size ({len(ranks)})")
    if len(ranks) % size:
        raise ValueError(f"The world size ({len(ranks)}) must be divisible by 'group_size={size}'")
    parts = [ranks[k : k + size] for k in range(0, len(ranks), size)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Make groups of these ranks, of which none is in two. Every process has to call it.

    Parameters
    ----------
    ranks_per_subgroup_list : sequence of sequences of int
    timeout, backend, pg_options, group_desc
        As for `new_group`.

    Returns
    -------
    tuple
        The one that this rank is in, or None, and a list of all as from `new_subgroups`.

    Raises
    ------
    ValueError
        If there is no list, or a rank is in two of them.
    """
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    seen: set[int] = set()
    for ranks in ranks_per_subgroup_list:
        twice = seen.intersection(ranks)
        if twice:
            raise ValueError(f"Rank {min(twice)} has appeared in two subgroups")
        seen.update(ranks)
    get_rank()  # before any is made there has to be a group
    made = [
        new_group(ranks=ranks, timeout=timeout, backend=backend, pg_options=pg_options, group_desc=group_desc)
        for ranks in ranks_per_subgroup_list
    ]
    mine = [group for group in made if group is not GroupMember.NON_GROUP_MEMBER]
    return (mine[0] if mine else None), made
