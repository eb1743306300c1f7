"""Calls that every rank of a group makes, on tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from fastgrad.autograd.modes import no_grad
from fastgrad.distributed.groups import ProcessGroup, need_group
from fastgrad.distributed.transport import ReduceOp, memory, mpi, need_sendable, operation, written
from fastgrad.distributed.work import Collective, Work
from fastgrad.functions.arguments import need_tensors


def _run(
    group: ProcessGroup,
    call: str,
    facts: tuple[Any, ...],
    begin: Callable[[], Any],
    async_op: bool,
    result: Sequence[Any] = (),
    end: Callable[[], Any] | None = None,
) -> Work | None:
    """Begin a call; wait for it unless the caller wants to."""

    def finish() -> None:
        if end is not None:
            end()
        written(*result)

    work = Collective(group, call, facts, begin, result=result, end=finish)
    if async_op:
        return work
    work.wait()
    return None


def _facts(tensor: Any, *more: Any) -> tuple[Any, ...]:
    """What has to be equal on all ranks: the dtype, the number of elements, and more."""
    return (str(tensor.dtype).rpartition(".")[2], f"{tensor.numel()} elements", *more)


def root_of(call: str, group: ProcessGroup, argument: str, rank: Any, group_rank: Any) -> int:
    """The number in a group of the rank that a call names, either among all or in the group."""
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


def _same(call: str, argument: str, tensors: Sequence[Any], like: Any) -> list[np.ndarray]:
    """The memory of tensors that must be of one size and dtype."""
    for k, t in enumerate(tensors):
        need_sendable(call, t, f"{argument}[{k}]")
        if t.dtype != like.dtype or t.numel() != like.numel():
            raise ValueError(
                f"{call}(): '{argument}[{k}]' has {t.numel()} elements of {t.dtype}, but {like.numel()} of "
                f"{like.dtype} are expected; all tensors of a call must have the same size and dtype"
            )
    return [memory(t) for t in tensors]


def _list_of(call: str, argument: str, tensors: Any, n: int) -> list[Any]:
    """A list of one tensor for each rank."""
    found = need_tensors(call, tensors, argument)
    if len(found) != n:
        raise ValueError(
            f"{call}(): argument '{argument}' must have one tensor for each of {n} ranks, got {len(found)}"
        )
    return found


def _spread(parts: np.ndarray, memories: Sequence[np.ndarray]) -> None:
    for part, target in zip(parts, memories, strict=True):
        target[...] = part


def _averaged(op: Any, tensor: Any, group: ProcessGroup) -> None:
    if op is ReduceOp.AVG:
        with no_grad():
            tensor.detach().div_(group.size())


# --- reductions --------------------------------------------------------------------------------------------------


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Combine the tensors of all ranks, in place; all get the result.

    Parameters
    ----------
    tensor : Tensor
        Contiguous, on the CPU. MPI reads and writes its memory; nothing is copied.
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
    data = memory(need_sendable("all_reduce", tensor))
    function = operation("all_reduce", op, tensor.dtype)

    def begin() -> Any:
        _averaged(op, tensor, found)
        return found.comm.Iallreduce(mpi().IN_PLACE, data, op=function)

    return _run(found, "all_reduce", _facts(tensor, op.name), begin, async_op, [tensor])


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
    data = memory(need_sendable("reduce", tensor))
    function = operation("reduce", op, tensor.dtype)
    here = found.rank() == root

    def begin() -> Any:
        _averaged(op, tensor, found)
        if here:
            return found.comm.Ireduce(mpi().IN_PLACE, data, op=function, root=root)
        return found.comm.Ireduce(data, None, op=function, root=root)

    return _run(
        found,
        "reduce",
        _facts(tensor, op.name, f"dst={found.ranks[root]}"),
        begin,
        async_op,
        [tensor] if here else (),
    )


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
    return _reduce_scatter("reduce_scatter_tensor", output, input, op, group, async_op)


def _reduce_scatter(call: str, output: Any, input: Any, op: Any, group: Any, async_op: bool) -> Work | None:
    found = need_group(call, group)
    if found is None:
        return None
    need_sendable(call, output, "output")
    need_sendable(call, input, "input")
    _need_times(call, "input", input, "output", output, found.size())
    function = operation(call, op, output.dtype)
    target, data = memory(output), memory(input)

    def begin() -> Any:
        return found.comm.Ireduce_scatter_block(data, target, op=function)

    return _run(
        found,
        call,
        _facts(output, op.name),
        begin,
        async_op,
        [output],
        lambda: _averaged(op, output, found),
    )


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
    found = need_group("reduce_scatter", group)
    if found is None:
        return None
    need_sendable("reduce_scatter", output, "output")
    given = _list_of("reduce_scatter", "input_list", input_list, found.size())
    function = operation("reduce_scatter", op, output.dtype)
    data = np.concatenate(_same("reduce_scatter", "input_list", given, output))
    target = memory(output)

    def begin() -> Any:
        return found.comm.Ireduce_scatter_block(data, target, op=function)

    return _run(
        found,
        "reduce_scatter",
        _facts(output, op.name),
        begin,
        async_op,
        [output],
        lambda: _averaged(op, output, found),
    )


def _need_times(call: str, long: str, a: Any, short: str, b: Any, n: int) -> None:
    """One tensor must be as many times as long as another one as there are ranks."""
    if a.dtype != b.dtype or a.numel() != b.numel() * n:
        raise ValueError(
            f"{call}(): '{long}' must have {n} times the elements of '{short}', for as many ranks, of the same dtype; "
            f"got {a.numel()} of {a.dtype} and {b.numel()} of {b.dtype}"
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
    data = memory(need_sendable("broadcast", tensor))
    result = () if found.rank() == root else [tensor]
    facts = _facts(tensor, f"src={found.ranks[root]}")
    work = _run(found, "broadcast", facts, lambda: found.comm.Ibcast(data, root=root), async_op, result)
    if work is not None:
        work._result = [tensor]
    return work


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
    need_sendable(call, output_tensor, "output_tensor")
    need_sendable(call, input_tensor, "input_tensor")
    _need_times(call, "output_tensor", output_tensor, "input_tensor", input_tensor, found.size())
    data, target = memory(input_tensor), memory(output_tensor)
    return _run(
        found,
        call,
        _facts(input_tensor),
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
    data = memory(need_sendable("all_gather", tensor))
    targets = _list_of("all_gather", "tensor_list", tensor_list, found.size())
    memories = _same("all_gather", "tensor_list", targets, tensor)
    parts = np.empty((found.size(), data.size), data.dtype)
    return _run(
        found,
        "all_gather",
        _facts(tensor),
        lambda: found.comm.Iallgather(data, parts),
        async_op,
        targets,
        lambda: _spread(parts, memories),
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
    root = root_of("gather", found, "dst", 0 if dst is None and group_dst is None else dst, group_dst)
    data = memory(need_sendable("gather", tensor))
    facts = _facts(tensor, f"dst={found.ranks[root]}")
    if found.rank() != root:
        _need_nothing("gather", "gather_list", gather_list, "dst")
        return _run(found, "gather", facts, lambda: found.comm.Igather(data, None, root=root), async_op)
    targets = _list_of("gather", "gather_list", () if gather_list is None else gather_list, found.size())
    memories = _same("gather", "gather_list", targets, tensor)
    parts = np.empty((found.size(), data.size), data.dtype)
    return _run(
        found,
        "gather",
        facts,
        lambda: found.comm.Igather(data, parts, root=root),
        async_op,
        targets,
        lambda: _spread(parts, memories),
    )


def _need_nothing(call: str, argument: str, value: Any, root: str) -> None:
    if value:
        raise ValueError(f"{call}(): Argument '{argument}' must NOT be specified on ranks other than {root}")


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
    root = root_of("scatter", found, "src", 0 if src is None and group_src is None else src, group_src)
    target = memory(need_sendable("scatter", tensor))
    parts = None
    if found.rank() == root:
        given = _list_of(
            "scatter", "scatter_list", () if scatter_list is None else scatter_list, found.size()
        )
        parts = np.concatenate(_same("scatter", "scatter_list", given, tensor))
    else:
        _need_nothing("scatter", "scatter_list", scatter_list, "src")
    facts = _facts(tensor, f"src={found.ranks[root]}")
    return _run(
        found, "scatter", facts, lambda: found.comm.Iscatter(parts, target, root=root), async_op, [tensor]
    )


def all_to_all(
    output_tensor_list: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """Give each rank its tensor of the list of every rank.

    Parameters
    ----------
    output_tensor_list : list of Tensor
        Where they go: one from each rank, of the size of what that rank sends.
    input_tensor_list : list of Tensor
        One for each rank; sizes may differ.
    group, async_op
        As for `all_reduce`.

    Returns
    -------
    Work or None
    """
    call = "all_to_all"
    found = need_group(call, group)
    if found is None:
        return None
    given = _list_of(call, "input_tensor_list", input_tensor_list, found.size())
    targets = _list_of(call, "output_tensor_list", output_tensor_list, found.size())
    for name, tensors in (("input_tensor_list", given), ("output_tensor_list", targets)):
        for k, t in enumerate(tensors):
            need_sendable(call, t, f"{name}[{k}]")
            if t.dtype != given[0].dtype:
                raise ValueError(
                    f"{call}(): '{name}[{k}]' is of {t.dtype}, but the first input of {given[0].dtype}"
                )
    memories = [memory(t) for t in targets]
    arrived = np.empty(sum(m.size for m in memories), memories[0].dtype)
    sizes = [m.size for m in memories]

    def end() -> None:
        _spread(np.split(arrived, np.cumsum(sizes)[:-1]), memories)  # type: ignore[arg-type]

    data = np.concatenate([memory(t) for t in given])
    begin = _exchange(call, found, data, [t.numel() for t in given], arrived, sizes)
    return _run(found, call, _facts(given[0])[:1], begin, async_op, targets, end)


def _exchange(
    call: str,
    group: ProcessGroup,
    data: np.ndarray,
    sent: Sequence[int],
    target: np.ndarray,
    came: Sequence[int],
) -> Callable[[], Any]:
    """Begin to send parts of one array and to fill parts of another one, once all know that their sizes fit."""
    n = group.size()
    told = np.empty((n, 2, n), np.int64)
    own = np.array([sent, came], np.int64)
    Collective(group, f"{call}.sizes", (), lambda: group.comm.Iallgather(own, told)).wait()
    wrong = np.argwhere(told[:, 0] != told[:, 1].T)
    if len(wrong):
        where = "; ".join(
            f"rank {group.ranks[a]} sends {told[a, 0, b]} elements to rank {group.ranks[b]}, which expects "
            f"{told[b, 1, a]}"
            for a, b in wrong
        )
        raise ValueError(f"{call}(): {where}")
    return lambda: group.comm.Ialltoallv([data, list(sent)], [target, list(came)])


def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Give each rank its part of the tensor of every rank.

    Parameters
    ----------
    output, input : Tensor
        Split along their first dimension.
    output_split_sizes, input_split_sizes : sequence of int, optional
        Of the parts; by default all are equal.
    group, async_op
        As for `all_reduce`.

    Returns
    -------
    Work or None
    """
    call = "all_to_all_single"
    found = need_group(call, group)
    if found is None:
        return None
    need_sendable(call, output, "output")
    need_sendable(call, input, "input")
    if output.dtype != input.dtype:
        raise ValueError(f"{call}(): 'output' is of {output.dtype}, but 'input' of {input.dtype}")
    sent = _splits(call, "input", input, input_split_sizes, found.size())
    came = _splits(call, "output", output, output_split_sizes, found.size())
    begin = _exchange(call, found, memory(input), sent, memory(output), came)
    return _run(found, call, _facts(input)[:1], begin, async_op, [output])


def _splits(call: str, argument: str, tensor: Any, sizes: Any, n: int) -> list[int]:
    """How many elements each part of a tensor has."""
    rows = tensor.shape[0] if tensor.dim() else 1
    if not sizes:
        if rows % n:
            raise ValueError(
                f"{call}(): the first size of '{argument}', {rows}, does not divide by {n} ranks"
            )
        return [tensor.numel() // n] * n
    if len(sizes) != n or any(type(k) is not int or k < 0 for k in sizes) or sum(sizes) != rows:
        raise ValueError(
            f"{call}(): argument '{argument}_split_sizes' must be {n} sizes of parts of {rows} rows, got {list(sizes)}"
        )
    width = tensor.numel() // rows if rows else 0
    return [k * width for k in sizes]


# --- barriers ----------------------------------------------------------------------------------------------------


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Wait until all ranks have come here.

    Parameters
    ----------
    group, async_op
        As for `all_reduce`.
    device_ids : None
        For GPUs; not supported.

    Returns
    -------
    Work or None
    """
    if device_ids is not None:
        raise NotImplementedError(
            "barrier(): argument 'device_ids' is for GPUs, which the backend mpi does not know"
        )
    found = need_group("barrier", group)
    if found is None:
        return None
    return _run(found, "barrier", (), lambda: None, async_op)


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
        Collective(found, "monitored_barrier", (), lambda: None).wait(timeout)
