"""Many tensors in few calls."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fastgrad.autograd.modes import no_grad
from fastgrad.distributed import collectives
from fastgrad.distributed.boards import starts_of
from fastgrad.distributed.groups import need_group
from fastgrad.distributed.transport import ReduceOp
from fastgrad.distributed.work import Repeated, Work
from fastgrad.dtypes import uint8
from fastgrad.functions.arguments import need_tensors
from fastgrad.functions.creation import empty, zeros
from fastgrad.functions.shape import cat
from fastgrad.futures import Future
from fastgrad.native.build.loader import TensorBase, rt


class Packed:
    """Copies of tensors of one dtype behind each other.

    Parameters
    ----------
    tensors : sequence of Tensor

    Attributes
    ----------
    flat : Tensor
        The copies.
    """

    def __init__(self, tensors: Sequence[Any]) -> None:
        self.tensors = tensors
        with no_grad():
            self.flat = cat([t.reshape(-1) for t in tensors])

    def write_back(self) -> None:
        """Let the tensors be what the copies have become."""
        unpack(self.flat, self.tensors)


def unpack(flat: Any, tensors: Sequence[Any]) -> None:
    """Write values that stand behind each other to tensors.

    Parameters
    ----------
    flat : Tensor
        1-d.
    tensors : sequence of Tensor
        As many elements as `flat` has in all.
    """
    with no_grad():
        for t, part in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
            t.copy_(part.view(t.shape))


def packed(tensors: Iterable[Any]) -> list[Packed]:
    """Copies of tensors, those of each dtype in one.

    Parameters
    ----------
    tensors : iterable of Tensor

    Returns
    -------
    list of Packed
    """
    by_dtype: dict[str, list[Any]] = {}
    for tensor in tensors:
        by_dtype.setdefault(str(tensor.dtype), []).append(tensor.detach())
    return [Packed(found) for found in by_dtype.values()]


def begin_broadcast(tensors: Iterable[Any], group: Any, group_src: int = 0) -> Callable[[], None]:
    """Begin to give all ranks of a group the tensors of one, those of one dtype in one call.

    Parameters
    ----------
    tensors : iterable of Tensor
    group : ProcessGroup
    group_src : int
        The rank in the group that has them.

    Returns
    -------
    callable
        Waits, and writes what came to the tensors.
    """
    begun = []
    for copies in packed(tensors):
        work = collectives.broadcast(copies.flat, group=group, group_src=group_src, async_op=True)
        assert work is not None  # of a member
        begun.append((copies, work))

    def finish() -> None:
        for copies, work in begun:
            work.wait()
            if group.rank() != group_src:
                copies.write_back()

    return finish


def broadcast_coalesced(tensors: Iterable[Any], group: Any, group_src: int = 0) -> None:
    """Give all ranks of a group the tensors of one, those of one dtype in one call.

    Parameters
    ----------
    tensors, group, group_src
        As for `begin_broadcast`.
    """
    begin_broadcast(tensors, group, group_src)()


class Mirror:
    """Tensors on the CPU of which all ranks often take the values that one has; how is prepared.

    Parameters
    ----------
    tensors : sequence of Tensor
    group : ProcessGroup
    """

    def __init__(self, tensors: Sequence[Any], group: Any) -> None:
        self.tensors, self.group = list(tensors), group
        self._known: list[Any] = []

    def _prepare(self, known: list[Any]) -> None:
        """Make room for the copies of all, each at the beginning of a line of memory."""
        self._known = known
        starts = starts_of([t.nbytes for t in self.tensors])
        self._flat = zeros(starts[-1], dtype=uint8)
        self._copies = [
            self._flat[start : start + t.nbytes].view(t.dtype).view(t.shape).detach()
            for start, t in zip(starts, self.tensors, strict=False)
        ]
        self._calls: dict[int, Repeated] = {}

    def take(self, root: int) -> None:
        """Let all ranks have the values of one, by its number in the group."""
        known = [(t.shape, t.dtype) for t in self.tensors]
        if known != self._known:
            self._prepare(known)
        if root not in self._calls:
            self._calls[root] = collectives.repeated_broadcast(self._flat, self.group, root)
        here = self.group.rank() == root
        if here:
            for t, copy in zip(self.tensors, self._copies, strict=True):
                rt.copy(copy, t)
        self._calls[root].begin().wait()
        if not here:
            for t, copy in zip(self.tensors, self._copies, strict=True):
                rt.copy(t, copy)


def all_reduce_coalesced(
    tensors: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Future[Any] | None:
    """Combine tensors of one dtype of all ranks, in place, by one `all_reduce` of them all.

    Parameters
    ----------
    tensors : list of Tensor or Tensor
        On all ranks of the same sizes. They need not be contiguous.
    op, group
        As for `all_reduce`.
    async_op : bool
        Return a future of the tensors at once; they are written to when something waits for it.

    Returns
    -------
    Future or None

    Raises
    ------
    ValueError
        If the tensors are of several dtypes.
    """
    call = "all_reduce_coalesced"
    _warn_of_age(call)
    found = need_group(call, group)
    targets = _of_one_dtype(call, "tensors", [tensors] if isinstance(tensors, TensorBase) else tensors)
    if found is None:
        return None
    (copies,) = packed(targets)
    work = collectives.all_reduce(copies.flat, op, found, async_op=True)
    return _finished(work, copies.write_back, targets, async_op)


def all_gather_coalesced(
    output_tensor_lists: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Future[Any] | None:
    """Give all ranks lists of tensors of one dtype of all, by one `all_gather_into_tensor` of them all.

    Parameters
    ----------
    output_tensor_lists : list of list of Tensor
        Where they go: for each rank tensors of the sizes and the dtype of the inputs.
    input_tensor_list : list of Tensor
        On all ranks of the same sizes.
    group
        As for `all_reduce`.
    async_op : bool
        As for `all_reduce_coalesced`.

    Returns
    -------
    Future or None

    Raises
    ------
    ValueError
        If the tensors are of several dtypes, or outputs are not of the number and sizes of the inputs.
    """
    call = "all_gather_coalesced"
    _warn_of_age(call)
    found = need_group(call, group)
    if found is None:
        return None
    given = _of_one_dtype(call, "input_tensor_list", input_tensor_list)
    if not isinstance(output_tensor_lists, list):
        kind = type(output_tensor_lists).__name__
        raise TypeError(f"{call}(): argument 'output_tensor_lists' must be a list of lists, not {kind}")
    outputs = [_of_one_dtype(call, "output_tensor_lists", one) for one in output_tensor_lists]
    wanted = [(t.shape, t.dtype) for t in given]
    if len(outputs) != found.size() or any([(t.shape, t.dtype) for t in one] != wanted for one in outputs):
        raise ValueError(
            f"{call}(): 'output_tensor_lists' must have, for each of {found.size()} ranks, tensors of the sizes and "
            "the dtype of 'input_tensor_list'"
        )
    (copies,) = packed(given)
    flat = copies.flat
    target = empty(found.size() * flat.numel(), dtype=flat.dtype, device=flat.device)
    work = collectives.all_gather_into_tensor(target, flat, found, async_op=True)
    targets = [t.detach() for one in outputs for t in one]
    return _finished(work, lambda: unpack(target, targets), outputs, async_op)


def _warn_of_age(call: str) -> None:
    """As PyTorch does."""
    warnings.warn(
        f"`distributed.{call}` is an older form; pack tensors by `cat`", FutureWarning, stacklevel=3
    )


def _of_one_dtype(call: str, argument: str, tensors: Any) -> list[Any]:
    found = need_tensors(call, tensors, argument)
    if not found:
        raise ValueError(f"{call}(): argument '{argument}' must have at least one tensor")
    for k, t in enumerate(found):
        if t.dtype != found[0].dtype:
            raise ValueError(
                f"{call}(): all tensors must have one dtype, but '{argument}[{k}]' has {t.dtype}, and the first "
                f"{found[0].dtype}"
            )
    return found


def _finished(
    work: Work | None, write: Callable[[], None], result: Any, async_op: bool
) -> Future[Any] | None:
    """Wait for a call and write what came, now or when somebody waits."""
    assert work is not None  # of a member

    def written(done: Future[Any]) -> Any:
        done.value()  # or its error
        write()
        return result

    future = work.get_future().then(written)
    if async_op:
        return future
    future.wait()
    return None
