"""Messages between two ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastgrad.distributed import gpu_calls
from fastgrad.distributed.checks import root_of
from fastgrad.distributed.groups import ProcessGroup, need_group
from fastgrad.distributed.transport import memory, mpi, need_sendable, written
from fastgrad.distributed.work import PointToPoint, Work


def isend(
    tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> Work | None:
    """Begin to send a tensor to another rank; it must not change before the work is done.

    Parameters
    ----------
    tensor : Tensor
        Contiguous, on the CPU.
    dst, group_dst : int
        The rank, among all or in the group.
    group : ProcessGroup, optional
    tag : int
        That of the `recv` which is to get it.

    Returns
    -------
    Work or None
    """
    work = _send("isend", tensor, dst, group, tag, group_dst)
    return work and work.leave_alone()


def send(
    tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> None:
    """Send a tensor to another rank.

    Parameters
    ----------
    tensor, dst, group, tag, group_dst
        As for `isend`.
    """
    work = _send("send", tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def _send(call: str, tensor: Any, dst: Any, group: Any, tag: Any, group_dst: Any) -> Work | None:
    found = need_group(call, group)
    if found is None:
        return None
    if gpu_calls.takes(found, tensor):
        message = _message(call, found, tensor, "dst", dst, group_dst)
        message.put()
        return message
    data = memory(need_sendable(call, tensor))
    peer = _peer(call, found, "dst", dst, group_dst)
    number = _need_tag(call, tag)
    found.need_working(call)
    begin = lambda: found.comm.Isend(data, peer, number)  # noqa: E731
    return PointToPoint(found, call, begin, found.ranks[peer], result=[tensor])


def irecv(
    tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> Work | None:
    """Begin to receive a tensor from another rank.

    Parameters
    ----------
    tensor : Tensor
        Where it goes: contiguous, on the CPU, of the size and dtype that is sent.
    src, group_src : int, optional
        The rank, among all or in the group; by default any.
    group : ProcessGroup, optional
    tag : int

    Returns
    -------
    Work or None
        Its ``source_rank()`` is who sent.
    """
    work = _receive("irecv", tensor, src, group, tag, group_src)
    return work and work.leave_alone()


def recv(
    tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> int:
    """Receive a tensor from another rank.

    Parameters
    ----------
    tensor, src, group, tag, group_src
        As for `irecv`.

    Returns
    -------
    int
        Who sent it; -1 if this process is no member of the group.

    Raises
    ------
    DistBackendError
        If what came has another size, or the other rank is gone.
    """
    work = _receive("recv", tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    return work.source_rank()


def _receive(call: str, tensor: Any, src: Any, group: Any, tag: Any, group_src: Any) -> Work | None:
    found = need_group(call, group)
    if found is None:
        return None
    if gpu_calls.takes(found, tensor):
        message = _message(call, found, tensor, "src", src, group_src)
        message.put()
        return message
    data = memory(need_sendable(call, tensor))
    anyone = src is None and group_src is None
    peer = mpi().ANY_SOURCE if anyone else _peer(call, found, "src", src, group_src)
    number = _need_tag(call, tag)
    found.need_working(call)
    return PointToPoint(
        found,
        call,
        lambda: found.comm.Irecv(data, peer, number),
        None if anyone else found.ranks[peer],
        data.nbytes,
        result=[tensor],
        end=lambda: written(tensor),
    )


def _message(
    call: str, group: ProcessGroup, tensor: Any, argument: str, rank: Any, group_rank: Any
) -> gpu_calls.Message:
    """A message between GPUs that is still to be put into a stream. It has no tag: NCCL keeps the order of messages."""
    if rank is None and group_rank is None:
        raise NotImplementedError(f"{call}(): tensors on GPUs come from a rank that is named by '{argument}'")
    peer = _peer(call, group, argument, rank, group_rank)
    return gpu_calls.Message(group, call, tensor, peer, argument == "dst")


def _peer(call: str, group: ProcessGroup, argument: str, rank: Any, group_rank: Any) -> int:
    peer = root_of(call, group, argument, rank, group_rank)
    if peer == group.rank():
        raise ValueError(
            f"{call}(): Invalid {'destination' if argument == 'dst' else 'source'} rank: it is this one"
        )
    return peer


def _need_tag(call: str, tag: Any) -> int:
    if type(tag) is not int:
        raise TypeError(f"{call}(): argument 'tag' must be int, not {type(tag).__name__}")
    most = mpi().COMM_WORLD.Get_attr(mpi().TAG_UB)
    if not 0 <= tag <= most:
        raise ValueError(f"{call}(): argument 'tag' must be between 0 and {most}, got {tag}")
    return tag


class P2POp:
    """A message for `batch_isend_irecv`.

    Parameters
    ----------
    op : callable
        `isend` or `irecv`.
    tensor : Tensor
    peer : int, optional
        The other rank among all.
    group : ProcessGroup, optional
    tag : int
    group_peer : int, optional
        The other rank in the group.
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Any,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(f"Invalid ``op``: {op!r}. Expected fastgrad.distributed.isend or irecv.")
        self.op, self.tensor, self.peer, self.group, self.tag = op, tensor, peer, group, tag
        self.group_peer = group_peer


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Begin several messages.

    Parameters
    ----------
    p2p_op_list : list of P2POp

    Returns
    -------
    list of Work
    """
    if not p2p_op_list or not all(isinstance(one, P2POp) for one in p2p_op_list):
        raise ValueError(
            "batch_isend_irecv(): argument 'p2p_op_list' must be a list of P2POp with at least one"
        )
    begun: list[Work] = []
    messages: list[gpu_calls.Message] = []
    for one in p2p_op_list:
        found = need_group("batch_isend_irecv", one.group)
        if found is not None and gpu_calls.takes(found, one.tensor):
            argument = "dst" if one.op is isend else "src"
            messages.append(_message(one.op.__name__, found, one.tensor, argument, one.peer, one.group_peer))
            begun.append(messages[-1])
            continue
        # irecv before isend on one side is no deadlock: nothing here waits
        work = one.op(one.tensor, one.peer, one.group, one.tag, one.group_peer)
        if work is not None:
            begun.append(work)
    if messages:
        messages[0].put(*messages[1:])
    return begun
