"""Process groups: who takes part in calls, and under which numbers."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np

from fastgrad.cuda.gpus import Gpu
from fastgrad.distributed.backends import need_backend, need_gpu
from fastgrad.distributed.boards import Retired, Window, all_say, board, window
from fastgrad.distributed.faults import Farewell, Watch, meet, unname_shared_memory
from fastgrad.distributed.nccl import Communicator
from fastgrad.distributed.progress import queue
from fastgrad.distributed.stores import Store
from fastgrad.distributed.transport import DistBackendError, mpi, need_usable
from fastgrad.distributed.work import Collective, Work, need_timeout
from fastgrad.functions.arguments import need_type

default_pg_timeout = timedelta(seconds=30)
"""How long a call waits for other ranks, if neither the call nor its group says otherwise."""


class ProcessGroup:
    """Some of the ranks, in order; made by `init_process_group` and `new_group`.

    Parameters
    ----------
    comm : communicator
        Of MPI, for transfers.
    ranks : tuple of int
        Which of all ranks take part, in the order of their numbers here.
    watch : Watch
    number : int
        Which group of the program this is; the default one is 0.
    timeout : timedelta
    desc : str
    backend : str
        As in `BACKENDS`.
    """

    def __init__(
        self,
        comm: Any,
        ranks: tuple[int, ...],
        watch: Watch,
        number: int,
        timeout: timedelta,
        desc: str = "",
        backend: str = "mpi",
    ) -> None:
        self.backend, self.has_gpus = backend, "nccl" in backend
        self.communicators: dict[Gpu, Communicator] = {}
        self.comm, self.check = comm, comm.Dup()
        self.board = board(comm)
        self.windows: list[Window] = []
        self._made_windows = 0
        self.ranks, self.watch, self.id = ranks, watch, number
        self.timeout = timeout
        self.group_name, self.group_desc = str(number), desc or ("default_pg" if not number else "undefined")
        watch.begun[number] = 0
        self.failure: BaseException | None = None
        self.pending: deque[Collective] = deque()
        self.flying: dict[Work, None] = {}  # in the order of the calls
        self.gate = np.zeros(1, np.int64)  # see Note [Progress] in `native.messages.progress`

    def rank(self) -> int:
        """The number of this process in the group."""
        return self.ranks.index(self.watch.rank)

    def size(self) -> int:
        """How many processes it has."""
        return len(self.ranks)

    def name(self) -> str:
        """The backend."""
        return self.backend

    def communicator(self, gpu: Gpu) -> Communicator:
        """What the GPUs of its ranks call each other by; all ranks ask for the first time at once."""
        if gpu not in self.communicators:
            self.communicators[gpu] = Communicator(self, gpu)
        return self.communicators[gpu]

    def share(self, size: int, wanted: bool = True) -> Window | None:
        """Memory for each rank that all share; all ranks call it at once.

        What nobody uses any more is given back before.

        Parameters
        ----------
        size : int
            Bytes for each rank.
        wanted : bool
            Whether this rank wants it.

        Returns
        -------
        Window or None
            None for all ranks if one does not want it, or there is not enough, or they are not on one machine.
        """
        Collective(self, "share_memory", (f"{size} bytes",), None).wait()
        for old in list(self.windows):
            if all_say(self.comm, not old.is_used()):
                self.windows.remove(old)
                old.free()
        self._made_windows += 1
        if self.board is None or not all_say(self.comm, wanted):
            return None
        made = window(self.comm, size, self._made_windows)
        if made is not None:
            self.windows.append(made)
        return made

    def title(self) -> str:
        """What messages call it."""
        return "default group" if not self.id else f"group of ranks {list(self.ranks)}"

    def next_number(self) -> int:
        """The number of the next call of all its ranks."""
        self.watch.begun[self.id] += 1
        return self.watch.begun[self.id]

    def need_working(self, call: str) -> None:
        """Raise if a call has failed: what the others did of it nobody knows."""
        need_usable(call)
        if self.failure is not None:
            raise DistBackendError(
                f"the {self.title()} cannot be used any more, because {self.failure}"
            ) from self.failure

    def give_up(self, error: BaseException) -> None:
        """A call failed: so do those that wait behind it, and those to come."""
        self.watch.broken = True
        if self.failure is None:
            self.failure = error
        waiting = list(self.pending)
        self.pending.clear()
        for call in waiting:
            call.abandon(error)

    def finish(self) -> None:
        """Wait for the calls that nobody waited for."""
        for call in list(self.flying):
            call.wait()

    def free(self) -> None:
        """Give back what MPI keeps for it."""
        self.free_communicators(broken=False)
        self.comm.Free()
        self.check.Free()

    def free_communicators(self, broken: bool) -> None:
        """Give back what NCCL keeps for it."""
        while self.communicators:
            _, communicator = self.communicators.popitem()
            communicator.free(broken)


class _World(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:  # noqa: N802 - PyTorch's name
        return _state.groups[0] if _state.groups else None


class group(metaclass=_World):  # noqa: N801 - PyTorch's name
    """``group.WORLD`` is the group of all ranks, None before `init_process_group`."""


class GroupMember(metaclass=_World):
    """``NON_GROUP_MEMBER`` is what `new_group` gives to a process that is none of the ranks."""

    NON_GROUP_MEMBER = object()


class _State:
    """The groups of this process, and what watches over them."""

    def __init__(self) -> None:
        self.groups: list[ProcessGroup] = []
        self.farewell: Farewell | None = None
        self.made = 0  # groups, of which a process is not always a member
        self.epoch = 0
        self.retired = Retired()
        self.variables: list[str] = []  # of the environment, that were not set before


_state = _State()


# --- the default group -------------------------------------------------------------------------------------------


def is_available() -> bool:
    """Whether this build has `fastgrad.distributed`; it always has. `is_mpi_available` says if it can be used."""
    return True


def is_initialized() -> bool:
    """Whether there is a default process group."""
    return bool(_state.groups)


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Make the default process group, of all processes that ``mpiexec`` or ``fastgrad launch`` started.

    It also sets ``RANK``, ``WORLD_SIZE``, ``LOCAL_RANK`` and ``LOCAL_WORLD_SIZE`` in `os.environ` where they are not
    set, until the group is destroyed.

    Parameters
    ----------
    backend : str, optional
        ``"mpi"``, also the default; ``"cpu:mpi"`` means the same. With ``"nccl"``, or ``"cpu:mpi,cuda:nccl"``,
        which means the same, tensors on GPUs are sent by NCCL, and those on the CPU by MPI.
    init_method : str, optional
        ``"env://"``, ``"file://..."`` or ``"tcp://host:port"``; MPI knows its processes, so nothing is read, written or
        connected.
    timeout : timedelta, optional
        How long calls wait for other ranks, by default 30 seconds.
    world_size, rank : int, optional
        Compared with what MPI says.
    store : Store, optional
        Ignored, for the same reason.
    pg_options : None
        Not supported.
    device_id : device or int, optional
        The GPU of this process, with the backend nccl: GPUs of all ranks are connected at once, not by the first call.
    group_name : str, optional
        Ignored, as by PyTorch.

    Raises
    ------
    RuntimeError
        If mpi4py or MPI is missing.
    ValueError
        If there is a group already, the backend is unknown, or numbers are not those of MPI.
    DistBackendError
        If not all ranks come here in time.
    ImportError
        If the backend is nccl, and NCCL is missing.
    NotImplementedError
        For other backends of PyTorch's.

    Examples
    --------
    >>> import fastgrad.distributed as dist
    >>> dist.init_process_group("mpi")
    >>> dist.get_rank(), dist.get_world_size()
    (0, 1)
    >>> dist.destroy_process_group()
    """
    if is_initialized():
        raise ValueError("trying to initialize the default process group twice!")
    if _state.farewell is not None:
        raise RuntimeError("init_process_group(): a call of the group before failed; start the program again")
    carrier = need_backend(backend)
    _need_meeting(init_method, store)
    if pg_options is not None:
        raise NotImplementedError(
            "init_process_group(): argument 'pg_options' is not supported; MPI connects the processes by itself"
        )
    gpu = need_gpu("init_process_group", carrier, device_id)
    limit = need_timeout("init_process_group", timeout, default_pg_timeout)
    world = mpi().COMM_WORLD
    need_usable("init_process_group")
    _compare("rank", rank, "RANK", world.Get_rank())
    _compare("world_size", world_size, "WORLD_SIZE", world.Get_size())
    meet(world, limit.total_seconds())
    unname_shared_memory()
    _state.retired.free(world)
    _state.epoch += 1
    watch = Watch(world, _state.epoch)
    ranks = tuple(range(watch.size))
    made = ProcessGroup(world.Dup(), ranks, watch, 0, limit, backend=carrier)
    _state.groups.append(made)
    _state.made = 1
    queue()  # whose thread ends after what `Farewell` still waits for
    _state.farewell = Farewell(watch, lambda: _state.groups)
    _set_environment(world)
    if gpu is not None:
        made.communicator(gpu)


def _need_meeting(method: Any, store: Any) -> None:
    """Refuse what names no place to meet at, although MPI needs none."""
    if store is not None:
        need_type("init_process_group", store, Store, "store")
        if method is not None:
            raise AssertionError("Cannot specify both init_method and store.")
    if method is None:
        return
    kind = method.partition("://")[0] if isinstance(method, str) else ""
    if kind == "tcp":
        _compare_with_address(method)
    elif kind != "file" and method != "env://":
        raise ValueError(
            "init_process_group(): argument 'init_method' must be 'env://', 'file://...', 'tcp://host:port' or None, "
            f"got {method!r}; start the processes with mpiexec or fastgrad launch"
        )


def _compare_with_address(method: str) -> None:
    """The numbers in ``tcp://host:port?rank=0&world_size=2``, if there are some, must be those of MPI."""
    try:
        url = urlsplit(method)
        found = url.hostname and url.port is not None
    except ValueError:
        found = None
    if not found:
        raise ValueError(
            f"init_process_group(): argument 'init_method' must be 'tcp://host:port', got {method!r}"
        )
    world = mpi().COMM_WORLD
    told = dict(parse_qsl(url.query))
    for name, actual in (("rank", world.Get_rank()), ("world_size", world.Get_size())):
        if name in told:
            _need_equal(f"{name} of argument 'init_method'", told[name], actual)


def _compare(argument: str, given: Any, variable: str, actual: int) -> None:
    """A number of the caller's or of the environment must be that of MPI."""
    told = [(f"argument '{argument}'", given)] if given != -1 else []
    if variable in os.environ:
        told.append((f"the environment's {variable}", os.environ[variable]))
    for where, value in told:
        _need_equal(where, value, actual)


def _need_equal(where: str, value: Any, actual: int) -> None:
    try:
        same = int(value) == actual
    except (TypeError, ValueError):
        same = False
    if not same:
        raise ValueError(
            f"init_process_group(): {where} is {value!r}, but MPI says {actual}; start the program with\n"
            "    fastgrad launch -n N program.py\nor mpiexec -n N python program.py"
        )


def _set_environment(world: Any) -> None:
    """What programs written for torchrun read."""
    here = world.Split_type(mpi().COMM_TYPE_SHARED)
    numbers = {
        "RANK": world.Get_rank(),
        "WORLD_SIZE": world.Get_size(),
        "LOCAL_RANK": here.Get_rank(),
        "LOCAL_WORLD_SIZE": here.Get_size(),
    }
    here.Free()
    _state.variables = [name for name in numbers if name not in os.environ]
    os.environ.update({name: str(numbers[name]) for name in _state.variables})


def destroy_process_group(group: Any = None) -> None:
    """Wait for calls under way, then give the groups back: all of them, or one.

    Parameters
    ----------
    group : ProcessGroup, optional
        None, or the default group, stands for all.

    Raises
    ------
    ValueError
        If there is no such group.
    DistBackendError
        If a call under way fails.
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return
    found = need_group("destroy_process_group", group)
    assert found is not None
    assert _state.farewell is not None
    need_usable("destroy_process_group")
    gone = list(_state.groups) if found.id == 0 else [found]
    broken = found.watch.broken
    for one in gone:
        if not broken:
            one.finish()
    if found.id == 0:
        _state.farewell.say_left()
        if not broken:
            _state.farewell.release()
            _state.farewell = None
        for name in _state.variables:
            os.environ.pop(name, None)
    _state.groups = [one for one in _state.groups if one not in gone]
    for one in gone:
        if not broken:
            _state.retired.add(_state.epoch, one)
            one.free()
        one.free_communicators(broken)
        for call in list(one.flying):  # of a group that failed
            call.forsake()
    if not _state.groups:
        queue().close()


# --- other groups ------------------------------------------------------------------------------------------------


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
) -> Any:
    """A group of some ranks. Every process of the default group has to call it, with the same ranks.

    Parameters
    ----------
    ranks : sequence of int, optional
        By default all; in the new group they are numbered in ascending order.
    timeout : timedelta, optional
        By default that of the default group.
    backend : str, optional
        By default that of the default group.
    use_local_synchronization : bool
        True is not supported.
    group_desc : str, optional
        What ``group_desc`` of the group says.
    pg_options : None
        Not supported.
    device_id : device or int, optional
        As for `init_process_group`.

    Returns
    -------
    ProcessGroup
        ``GroupMember.NON_GROUP_MEMBER`` for a process that is none of its ranks.

    Raises
    ------
    ValueError
        If a rank does not exist or comes twice, or there is no default group.
    """
    world = need_group("new_group", None)
    assert world is not None
    carrier = world.backend if backend is None else need_backend(backend)
    gpu = need_gpu("new_group", carrier, device_id)
    for name, value in (
        ("pg_options", pg_options),
        ("use_local_synchronization", use_local_synchronization or None),
    ):
        if value is not None:
            raise NotImplementedError(f"new_group(): argument '{name}' is not supported; leave it out")
    limit = need_timeout("new_group", timeout, world.timeout)
    members = _need_ranks(world, ranks)
    Collective(world, "new_group", (list(members),), None).wait()
    _state.retired.free(world.comm)
    color = 0 if world.watch.rank in members else mpi().UNDEFINED
    comm = world.comm.Split(color, world.watch.rank)
    number, _state.made = _state.made, _state.made + 1
    if color:
        return GroupMember.NON_GROUP_MEMBER
    made = ProcessGroup(comm, members, world.watch, number, limit, group_desc or "", carrier)
    _state.groups.append(made)
    if gpu is not None:
        made.communicator(gpu)
    return made


def _need_ranks(world: ProcessGroup, ranks: Any) -> tuple[int, ...]:
    if ranks is None:
        return world.ranks
    found = sorted(ranks)
    for rank in found:
        if type(rank) is not int:
            raise TypeError(f"new_group(): argument 'ranks' must hold ints, but found {type(rank).__name__}")
        if not 0 <= rank < world.size():
            raise ValueError(f"new_group(): rank {rank} does not exist; there are {world.size()}")
    if len(set(found)) != len(found):
        raise ValueError(f"new_group(): argument 'ranks' has a rank twice: {found}")
    if not found:
        raise ValueError("new_group(): argument 'ranks' must have at least one rank")
    return tuple(found)


def need_group(call: str, group: Any) -> ProcessGroup | None:
    """The group of a call: the default one for None; None if this process is no member of it."""
    if group is GroupMember.NON_GROUP_MEMBER:
        return None
    if not _state.groups:
        raise ValueError(
            f"{call}(): Default process group has not been initialized, please make sure to call init_process_group."
        )
    if group is None:
        return _state.groups[0]
    if not isinstance(group, ProcessGroup):
        raise TypeError(f"{call}(): argument 'group' must be ProcessGroup, not {type(group).__name__}")
    if group not in _state.groups:
        raise ValueError(f"{call}(): Invalid process group specified: it was destroyed")
    return group


def need_member(call: str, group: Any) -> ProcessGroup:
    """The group of a call that makes sense for members alone."""
    found = need_group(call, group)
    if found is None:
        raise ValueError(f"{call}(): Invalid process group specified: this process is no member of it")
    return found


def get_rank(group: Any = None) -> int:
    """The number of this process in a group, by default among all; -1 if it is no member."""
    found = need_group("get_rank", group)
    return -1 if found is None else found.rank()


def get_world_size(group: Any = None) -> int:
    """How many processes a group has, by default the default one; -1 if this process is no member."""
    found = need_group("get_world_size", group)
    return -1 if found is None else found.size()


def get_backend(group: Any = None) -> str:
    """``"mpi"`` or ``"nccl"``."""
    return need_member("get_backend", group).name()


def get_process_group_ranks(group: Any = None) -> list[int]:
    """The ranks of a group among all, in order."""
    return list(need_member("get_process_group_ranks", group).ranks)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The number among all of a rank of a group.

    Raises
    ------
    ValueError
        If the group has no such rank.
    """
    found = need_member("get_global_rank", group)
    if type(group_rank) is not int or not 0 <= group_rank < found.size():
        raise ValueError(f"get_global_rank(): rank {group_rank!r} is not part of the {found.title()}")
    return found.ranks[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    """The number in a group of one of all ranks.

    Raises
    ------
    ValueError
        If it is no member.
    """
    found = need_member("get_group_rank", group)
    if global_rank not in found.ranks:
        raise ValueError(f"get_group_rank(): Global rank {global_rank} is not part of the {found.title()}")
    return found.ranks.index(global_rank)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number of this process among those of its machine, from ``LOCAL_RANK``.

    Raises
    ------
    RuntimeError
        If that is not set and there is no `fallback_rank`.
    """
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError("LOCAL_RANK is not in the environment. Consider passing fallback_rank")
