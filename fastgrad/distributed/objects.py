"""Calls on picklable objects instead of tensors.

They unpickle what other ranks send: all ranks are processes of one program, started together.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from fastgrad.distributed import collectives, point_to_point
from fastgrad.distributed.checks import need_nothing, root_of
from fastgrad.distributed.groups import ProcessGroup, need_group
from fastgrad.functions.sharing import from_numpy


def _packed(call: str, obj: Any) -> Any:
    try:
        data = pickle.dumps(obj, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(
            f"{call}(): an object of type {type(obj).__name__} cannot be pickled: {error}"
        ) from error
    return from_numpy(np.frombuffer(bytearray(data), np.uint8))


def _unpacked(data: Any) -> Any:
    return pickle.loads(data.numpy().tobytes())


def _room(size: int) -> Any:
    return from_numpy(np.zeros(size, np.uint8))


def _lengths(packed: Sequence[Any], n: int) -> np.ndarray:
    """How long packed objects are; as many zeros, where others have them."""
    return np.array([p.numel() for p in packed] or [0] * n, np.int64)


def _need_list(call: str, argument: str, value: Any, n: int | None = None) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{call}(): argument '{argument}' must be list, not {type(value).__name__}")
    if n is not None and len(value) != n:
        raise ValueError(
            f"{call}(): argument '{argument}' must have {n} elements, one for each rank, got {len(value)}"
        )
    return value


def _all_lengths(group: ProcessGroup, length: int) -> list[int]:
    out = from_numpy(np.zeros(group.size(), np.int64))
    collectives.all_gather_into_tensor(out, from_numpy(np.array([length], np.int64)), group)
    return [int(n) for n in out.tolist()]


def _padded(data: Any, length: int) -> Any:
    out = _room(length)
    out[: data.numel()] = data
    return out


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Give all ranks the objects of all.

    Parameters
    ----------
    object_list : list
        Where they go; as long as there are ranks.
    obj : object
    group : ProcessGroup, optional

    Examples
    --------
    >>> import fastgrad.distributed as dist
    >>> dist.init_process_group("mpi")
    >>> found = [None] * dist.get_world_size()
    >>> dist.all_gather_object(found, {"rank": dist.get_rank()})
    >>> found
    [{'rank': 0}]
    >>> dist.destroy_process_group()
    """
    found = need_group("all_gather_object", group)
    if found is None:
        return
    _need_list("all_gather_object", "object_list", object_list, found.size())
    data = _packed("all_gather_object", obj)
    lengths = _all_lengths(found, data.numel())
    longest = max(lengths)
    parts = _room(longest * found.size())
    collectives.all_gather_into_tensor(parts, _padded(data, longest), found)
    object_list[:] = [_unpacked(parts[k * longest :][:length]) for k, length in enumerate(lengths)]


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Give one rank the objects of all.

    Parameters
    ----------
    obj : object
    object_gather_list : list, optional
        Where they go, on that rank alone.
    dst, group_dst : int
        The rank, among all or in the group; by default 0.
    group : ProcessGroup, optional
    """
    found = need_group("gather_object", group)
    if found is None:
        return
    root = root_of("gather_object", found, "dst", dst, group_dst, default=0)
    here = found.rank() == root
    if here:
        _need_list("gather_object", "object_gather_list", object_gather_list, found.size())
    else:
        need_nothing("gather_object", "object_gather_list", object_gather_list, "dst")
    data = _packed("gather_object", obj)
    lengths = _all_lengths(found, data.numel())
    longest = max(lengths)
    parts = [_room(longest) for _ in lengths] if here else None
    collectives.gather(_padded(data, longest), parts, group=found, group_dst=root)
    if parts is not None and object_gather_list is not None:
        object_gather_list[:] = [_unpacked(p[:length]) for p, length in zip(parts, lengths, strict=True)]


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Give all ranks the objects of one, in place.

    Parameters
    ----------
    object_list : list
        As long on all ranks.
    src, group_src : int
        The rank, among all or in the group; by default 0.
    group : ProcessGroup, optional
    device : optional
        Ignored: bytes travel in memory of the CPU.
    """
    found = need_group("broadcast_object_list", group)
    if found is None:
        return
    root = root_of("broadcast_object_list", found, "src", src, group_src, default=0)
    _need_list("broadcast_object_list", "object_list", object_list)
    here = found.rank() == root
    packed = [_packed("broadcast_object_list", obj) for obj in object_list] if here else []
    lengths = _lengths(packed, len(object_list))
    collectives.broadcast(from_numpy(lengths), group=found, group_src=root)
    parts = packed if here else [_room(length) for length in lengths.tolist()]
    for data in parts:
        collectives.broadcast(data, group=found, group_src=root)
    if not here:
        object_list[:] = [_unpacked(part) for part in parts]


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: Sequence[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Give each rank its object of the list of one.

    Parameters
    ----------
    scatter_object_output_list : list
        Its first element becomes the object.
    scatter_object_input_list : list, optional
        One for each rank, on that rank alone.
    src, group_src : int
        The rank, among all or in the group; by default 0.
    group : ProcessGroup, optional
    """
    call = "scatter_object_list"
    found = need_group(call, group)
    if found is None:
        return
    root = root_of(call, found, "src", src, group_src, default=0)
    if not _need_list(call, "scatter_object_output_list", scatter_object_output_list):
        raise ValueError(
            f"{call}(): Expected argument scatter_object_output_list to be a list of size at least 1."
        )
    here = found.rank() == root
    packed = []
    if here:
        given = _need_list(call, "scatter_object_input_list", scatter_object_input_list, found.size())
        packed = [_packed(call, obj) for obj in given]
    lengths = _lengths(packed, found.size())
    collectives.broadcast(from_numpy(lengths), group=found, group_src=root)
    longest = int(lengths.max())
    room = _room(longest)
    parts = [_padded(p, longest) for p in packed] if here else None
    collectives.scatter(room, parts, group=found, group_src=root)
    scatter_object_output_list[0] = _unpacked(room[: int(lengths[found.rank()])])


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send objects to another rank, which calls `recv_object_list`.

    Parameters
    ----------
    object_list : list
    dst, group_dst : int
        The rank, among all or in the group.
    group : ProcessGroup, optional
    device, use_batch : optional
        Ignored.
    """
    if need_group("send_object_list", group) is None:
        return
    _need_list("send_object_list", "object_list", object_list)
    packed = [_packed("send_object_list", obj) for obj in object_list]
    for data in (from_numpy(_lengths(packed, 0)), *packed):
        point_to_point.send(data, dst, group, group_dst=group_dst)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receive objects from another rank, in place.

    Parameters
    ----------
    object_list : list
        As long as what is sent.
    src, group_src : int, optional
        The rank, among all or in the group; by default any.
    group : ProcessGroup, optional
    device, use_batch : optional
        Ignored.

    Returns
    -------
    int
        Who sent them; -1 if this process is no member of the group.
    """
    if need_group("recv_object_list", group) is None:
        return -1
    _need_list("recv_object_list", "object_list", object_list)
    lengths = np.zeros(len(object_list), np.int64)
    sender = point_to_point.recv(from_numpy(lengths), src, group, group_src=group_src)
    parts = [_room(length) for length in lengths.tolist()]
    for room in parts:
        point_to_point.recv(room, sender, group)
    object_list[:] = [_unpacked(part) for part in parts]
    return sender
