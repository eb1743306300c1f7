"""Calls in which every rank sends something else to every rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fastgrad.distributed import gpu_calls
from fastgrad.distributed.checks import facts, one_for_each, run, spread
from fastgrad.distributed.groups import ProcessGroup, need_group
from fastgrad.distributed.transport import apart, memory, need_contiguous, need_sendable
from fastgrad.distributed.work import Collective, Work


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
    given = one_for_each(call, "input_tensor_list", input_tensor_list, found.size())
    targets = one_for_each(call, "output_tensor_list", output_tensor_list, found.size())
    on_gpu = gpu_calls.takes(found, given[0])
    need = need_contiguous if on_gpu else need_sendable
    named = (("input_tensor_list", given), ("output_tensor_list", targets))
    given, plain = ([need(call, t, f"{name}[{k}]") for k, t in enumerate(ts)] for name, ts in named)
    for name, tensors in (("input_tensor_list", given), ("output_tensor_list", plain)):
        for k, t in enumerate(tensors):
            if t.dtype != given[0].dtype:
                raise ValueError(
                    f"{call}(): '{name}[{k}]' is of {t.dtype}, but the first input of {given[0].dtype}"
                )
    sent, came = [t.numel() for t in given], [t.numel() for t in plain]
    equal = facts(given[0])[:1]
    if on_gpu:
        return _on_gpu(call, found, equal, given, plain, async_op, targets)
    memories = [memory(t) for t in plain]
    arrived = np.empty(sum(came), memories[0].dtype)

    def end() -> None:
        spread(np.split(arrived, np.cumsum(came)[:-1]), memories)  # type: ignore[arg-type]

    data = np.concatenate([memory(t) for t in given])
    begin = _exchange(call, found, data, sent, arrived, came)
    return run(found, call, equal, begin, async_op, targets, end)


def _need_fitting(call: str, group: ProcessGroup, sent: Sequence[int], came: Sequence[int]) -> None:
    """All ranks must expect as many elements as are sent to them."""
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


def _exchange(
    call: str,
    group: ProcessGroup,
    data: np.ndarray,
    sent: Sequence[int],
    target: np.ndarray,
    came: Sequence[int],
) -> Callable[[], Any]:
    """Begin to send parts of one array and to fill parts of another one, once all know that their sizes fit."""
    _need_fitting(call, group, sent, came)
    return lambda: group.comm.Ialltoallv([data, list(sent)], [target, list(came)])


def _on_gpu(
    call: str,
    group: ProcessGroup,
    equal: tuple[Any, ...],
    given: Sequence[Any],
    targets: Sequence[Any],
    async_op: bool,
    result: Sequence[Any],
) -> Work | None:
    """The same with tensors of a GPU, one for each rank."""
    gpu_calls.one_gpu(call, [*given, *targets])  # before other ranks wait for this one
    _need_fitting(call, group, [t.numel() for t in given], [t.numel() for t in targets])
    sent, came = dict(enumerate(given)), dict(enumerate(targets))
    return gpu_calls.exchange(group, call, equal, sent, came, async_op, result)


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
    on_gpu = gpu_calls.takes(found, output)
    need = need_contiguous if on_gpu else need_sendable
    plain, given = need(call, output, "output"), need(call, input, "input")
    if plain.dtype != given.dtype:
        raise ValueError(f"{call}(): 'output' is of {plain.dtype}, but 'input' of {given.dtype}")
    sent = _splits(call, "input", given, input_split_sizes, found.size())
    came = _splits(call, "output", plain, output_split_sizes, found.size())
    equal = facts(given)[:1]
    if on_gpu:
        parts, targets = given.reshape(-1).split(sent), plain.reshape(-1).split(came)
        return _on_gpu(call, found, equal, parts, targets, async_op, [output])
    target = memory(plain)
    begin = _exchange(call, found, apart(memory(given), target), sent, target, came)
    return run(found, call, equal, begin, async_op, [output])


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
