"""Many tensors in few calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fastgrad.autograd.modes import no_grad
from fastgrad.distributed import collectives
from fastgrad.functions.shape import cat


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
        with no_grad():
            sizes = [t.numel() for t in self.tensors]
            for t, part in zip(self.tensors, self.flat.split(sizes), strict=True):
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
