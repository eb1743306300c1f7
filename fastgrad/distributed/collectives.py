"""Calls that every rank of a group makes, on tensors."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np

from fastgrad.distributed import gpu_calls
from fastgrad.distributed.boards import Sharing, adding, copying
from fastgrad.distributed.checks import (
    alike,
    average,
    facts,
    need_nothing,
    need_times,
    one_for_each,
    root_of,
    run,
    spread,
)
from fastgrad.distributed.groups import ProcessGroup, need_group
from fastgrad.distributed.progress import Transfer, elements, fits
from fastgrad.distributed.transport import ReduceOp, apart, memory, mpi, need_sendable, operation
from fastgrad.distributed.work import Collective, Repeated, Work, need_timeout

Begin = Transfer | Callable[[], Any]

# --- reductions --------------------------------------------------------------------------------------------------


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Combine the tensors of all ranks, in place; all get the result.

    Parameters
    ----------
    tensor : Tensor
        Contiguous, on the CPU, or on a GPU with the backend nccl. Its memory is read and written; nothing is copied.
    op : ReduceOp
    group : ProcessGroup, optional
        By default that of all ranks.
    async_op : bool
        Return a `Work` at once.

    Returns
    -------
    Work or None
        None also for a process that is no member of the group.

    Raises
    ------
    DistBackendError
        If a rank makes another call, or none in time, or is gone.
    RuntimeError
        If the operation has no meaning for the dtype.
    ValueError
        If the tensor is not contiguous.

    Examples
    --------
    >>> import fastgrad as fg
    >>> import fastgrad.distributed as dist
    >>> dist.init_process_group("mpi")
    >>> x = fg.ones(2)
    >>> dist.all_reduce(x)
    >>> x / dist.get_world_size()
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    found = need_group("all_reduce", group)
    if found is None:
        return None
    if gpu_calls.takes(found, tensor):
        return gpu_calls.all_reduce(found, tensor, op, async_op)
    equal, begin, sharing = _all_reduce(found, tensor, op)
    return run(found, "all_reduce", equal, begin, async_op, [tensor], sharing=sharing)


def repeated_sum(tensor: Any, group: ProcessGroup) -> Repeated:
    """The calls that add up a tensor, of memory that nobody else sees, again and again.

    Parameters
    ----------
    tensor : Tensor
        As for `all_reduce`.
    group : ProcessGroup

    Returns
    -------
    Repeated
    """
    equal, begin, sharing = _all_reduce(group, tensor, ReduceOp.SUM)
    return Repeated(group, "all_reduce", equal, begin, sharing, result=[tensor])


def _all_reduce(group: ProcessGroup, tensor: Any, op: Any) -> tuple[tuple[Any, ...], Begin, Sharing | None]:
    """What has to be equal on all ranks, how MPI moves the data, and how shared memory does."""
    plain = need_sendable("all_reduce", tensor)
    data, function = memory(plain), operation("all_reduce", op, plain.dtype)

    def average_first() -> Any:
        average(op, plain, group)
        return group.comm.Iallreduce(mpi().IN_PLACE, data, op=function)

    equal = facts(plain, op.name)
    if op is ReduceOp.AVG or not fits(data):
        return equal, average_first, None
    begin = Transfer("MPI_Iallreduce", mpi().IN_PLACE, data, *elements(data), function, group.comm)
    return equal, begin, adding(group, data, op, plain.dtype)


def reduce(
    tensor: Any,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Combine the tensors of all ranks, in place; one rank gets the result.

    Parameters
    ----------
    tensor, op, group, async_op
        As for `all_reduce`.
    dst, group_dst : int
        The rank, among all or in the group.

    Returns
    -------
    Work or None
    """
    found = need_group("reduce", group)
    if found is None:
        return None
    root = root_of("reduce", found, "dst", dst, group_dst)
    if gpu_calls.takes(found, tensor):
        return gpu_calls.reduce(found, tensor, root, op, async_op)
    plain = need_sendable("reduce", tensor)
    data, function = memory(plain), operation("reduce", op, plain.dtype)
    here = found.rank() == root

    def begin() -> Any:
        average(op, plain, found)
        if here:
            return found.comm.Ireduce(mpi().IN_PLACE, data, op=function, root=root)
        return found.comm.Ireduce(data, None, op=function, root=root)

    equal = facts(plain, op.name, f"dst={found.ranks[root]}")
    return run(found, "reduce", equal, begin, async_op, [tensor], changes=here)


def reduce_scatter_tensor(
    output: Any, input: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Combine the inputs of all ranks; each rank gets its part of the result.

    Parameters
    ----------
    output : Tensor
    input : Tensor
        As many times as long as there are ranks.
    op, group, async_op
        As for `all_reduce`.

    Returns
    -------
    Work or None
    """
    call = "reduce_scatter_tensor"
    found = need_group(call, group)
    if found is None:
        return None
    if gpu_calls.takes(found, output):
        return gpu_calls.reduce_scatter_tensor(found, output, input, op, async_op)
    plain, given = need_sendable(call, output, "output"), need_sendable(call, input, "input")
    need_times(call, "input", given, "output", plain, found.size())
    return _reduce_scatter(call, found, output, plain, apart(memory(given), memory(plain)), op, async_op)


def reduce_scatter(
    output: Any, input_list: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Combine the lists of all ranks, element by element; each rank gets its element of the result.

    Parameters
    ----------
    output : Tensor
    input_list : list of Tensor
        One for each rank, of the size of `output`.
    op, group, async_op
        As for `all_reduce`.

    Returns
    -------
    Work or None
    """
    call = "reduce_scatter"
    found = need_group(call, group)
    if found is None:
        return None
    given = one_for_each(call, "input_list", input_list, found.size())
    if gpu_calls.takes(found, output):
        return gpu_calls.reduce_scatter(found, output, given, op, async_op)
    plain = need_sendable(call, output, "output")
    data = np.concatenate(alike(call, "input_list", given, plain))
    return _reduce_scatter(call, found, output, plain, data, op, async_op)


def _reduce_scatter(
    call: str, group: ProcessGroup, output: Any, plain: Any, data: np.ndarray, op: Any, async_op: bool
) -> Work | None:
    function = operation(call, op, plain.dtype)
    target = memory(plain)
    return run(
        group,
        call,
        facts(plain, op.name),
        lambda: group.comm.Ireduce_scatter_block(data, target, op=function),
        async_op,
        [output],
        lambda: average(op, plain, group),
    )


# --- copies ------------------------------------------------------------------------------------------------------


def broadcast(
    tensor: Any,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Give all ranks the tensor of one, in place.

    Parameters
    ----------
    tensor : Tensor
        Contiguous, on the CPU, of the same size and dtype on all ranks.
    src, group_src : int
        The rank, among all or in the group.
    group, async_op
        As for `all_reduce`.

    Returns
    -------
    Work or None
    """
    found = need_group("broadcast", group)
    if found is None:
        return None
    root = root_of("broadcast", found, "src", src, group_src)
    if gpu_calls.takes(found, tensor):
        return gpu_calls.broadcast(found, tensor, root, async_op)
    equal, begin, sharing = _broadcast(found, tensor, root)
    return run(
        found,
        "broadcast",
        equal,
        begin,
        async_op,
        [tensor],
        changes=found.rank() != root,
        sharing=sharing,
    )


def repeated_broadcast(tensor: Any, group: ProcessGroup, root: int) -> Repeated:
    """The calls that give all ranks a tensor of one, of memory that nobody else sees, again and again.

    Parameters
    ----------
    tensor : Tensor
        As for `broadcast`.
    group : ProcessGroup
    root : int
        The rank in the group.

    Returns
    -------
    Repeated
    """
    equal, begin, sharing = _broadcast(group, tensor, root)
    return Repeated(group, "broadcast", equal, begin, sharing, result=[tensor])


def _broadcast(group: ProcessGroup, tensor: Any, root: int) -> tuple[tuple[Any, ...], Begin, Sharing | None]:
    plain = need_sendable("broadcast", tensor)
    data = memory(plain)
    equal = facts(plain, f"src={group.ranks[root]}")
    if not fits(data):
        return equal, lambda: group.comm.Ibcast(data, root=root), None
    begin = Transfer("MPI_Ibcast", data, *elements(data), root, group.comm)
    return equal, begin, copying(group, data, root)


def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """Give all ranks the tensors of all, one after the other in one tensor.

    Parameters
    ----------
    output_tensor : Tensor
        As many times as long as `input_tensor` as there are ranks.
    input_tensor : Tensor
    group, async_op
        As for `all_reduce`.

    Returns
    -------
    Work or None
    """
    call = "all_gather_into_tensor"
    found = need_group(call, group)
    if found is None:
        return None
    if gpu_calls.takes(found, output_tensor):
        return gpu_calls.all_gather_into_tensor(found, output_tensor, input_tensor, async_op)
    plain = need_sendable(call, output_tensor, "output_tensor")
    given = need_sendable(call, input_tensor, "input_tensor")
    need_times(call, "output_tensor", plain, "input_tensor", given, found.size())
    target = memory(plain)
    data = apart(memory(given), target)
    return run(
        found,
        call,
        facts(given),
        lambda: found.comm.Iallgather(data, target),
        async_op,
        [output_tensor],
    )


def all_gather(tensor_list: Any, tensor: Any, group: Any = None, async_op: bool = False) -> Work | None:
    """Give all ranks the tensors of all, as a list.

    Parameters
    ----------
    tensor_list : list of Tensor
        Where they go: one for each rank, of the size and dtype of `tensor`.
    tensor : Tensor
    group, async_op
        As for `all_reduce`.

    Returns
    -------
    Work or None
    """
    found = need_group("all_gather", group)
    if found is None:
        return None
    targets = one_for_each("all_gather", "tensor_list", tensor_list, found.size())
    if gpu_calls.takes(found, tensor):
        return gpu_calls.all_gather(found, targets, tensor, async_op)
    given = need_sendable("all_gather", tensor)
    data = memory(given)
    memories = alike("all_gather", "tensor_list", targets, given)
    parts = np.empty((found.size(), data.size), data.dtype)
    return run(
        found,
        "all_gather",
        facts(given),
        lambda: found.comm.Iallgather(data, parts),
        async_op,
        targets,
        lambda: spread(parts, memories),
    )


def gather(
    tensor: Any,
    gather_list: Any = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Give one rank the tensors of all.

    Parameters
    ----------
    tensor : Tensor
    gather_list : list of Tensor, optional
        Where they go, on that rank alone.
    dst, group_dst : int
        The rank, among all or in the group; by default 0.
    group, async_op
        As for `all_reduce`.

    Returns
    -------
    Work or None
    """
    found = need_group("gather", group)
    if found is None:
        return None
    root = root_of("gather", found, "dst", dst, group_dst, default=0)
    targets = _at_root("gather", found, "dst", root, "gather_list", gather_list)
    if gpu_calls.takes(found, tensor):
        return gpu_calls.gather(found, tensor, targets, root, async_op)
    given = need_sendable("gather", tensor)
    data = memory(given)
    equal = facts(given, f"dst={found.ranks[root]}")
    if targets is None:
        return run(found, "gather", equal, lambda: found.comm.Igather(data, None, root=root), async_op)
    memories = alike("gather", "gather_list", targets, given)
    parts = np.empty((found.size(), data.size), data.dtype)
    return run(
        found,
        "gather",
        equal,
        lambda: found.comm.Igather(data, parts, root=root),
        async_op,
        targets,
        lambda: spread(parts, memories),
    )


def _at_root(
    call: str, group: ProcessGroup, rank: str, root: int, argument: str, tensors: Any
) -> list[Any] | None:
    """The list of tensors that one rank alone has; None on others."""
    if group.rank() == root:
        return one_for_each(call, argument, () if tensors is None else tensors, group.size())
    need_nothing(call, argument, tensors, rank)
    return None


def scatter(
    tensor: Any,
    scatter_list: Any = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Give each rank its tensor of the list of one.

    Parameters
    ----------
    tensor : Tensor
        Where it goes.
    scatter_list : list of Tensor, optional
        One for each rank, on that rank alone.
    src, group_src : int
        The rank, among all or in the group; by default 0.
    group, async_op
        As for `all_reduce`.

    Returns
    -------
    Work or None
    """
    found = need_group("scatter", group)
    if found is None:
        return None
    root = root_of("scatter", found, "src", src, group_src, default=0)
    given = _at_root("scatter", found, "src", root, "scatter_list", scatter_list)
    if gpu_calls.takes(found, tensor):
        return gpu_calls.scatter(found, tensor, given, root, async_op)
    plain = need_sendable("scatter", tensor)
    target = memory(plain)
    parts = None if given is None else np.concatenate(alike("scatter", "scatter_list", given, plain))
    equal = facts(plain, f"src={found.ranks[root]}")
    return run(
        found, "scatter", equal, lambda: found.comm.Iscatter(parts, target, root=root), async_op, [tensor]
    )


# --- barriers ----------------------------------------------------------------------------------------------------


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Wait until all ranks have come here.

    Parameters
    ----------
    group, async_op
        As for `all_reduce`.
    device_ids : list of int, optional
        Of GPUs, with the backend nccl; ignored, as it is the ranks that wait.

    Returns
    -------
    Work or None
    """
    found = need_group("barrier", group)
    if found is None:
        return None
    if device_ids is not None and not found.has_gpus:
        raise NotImplementedError(
            "barrier(): argument 'device_ids' is for GPUs, which the backend mpi does not know"
        )
    return run(found, "barrier", (), None, async_op)


def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """Like `barrier`, with a time limit of its own; the error names the ranks that did not come.

    Parameters
    ----------
    group : ProcessGroup, optional
    timeout : timedelta, optional
    wait_all_ranks : bool
        All ranks that are late are named in any case.
    """
    found = need_group("monitored_barrier", group)
    if found is not None:
        limit = need_timeout("monitored_barrier", timeout, found.timeout)
        Collective(found, "monitored_barrier", (), None).wait(limit)
