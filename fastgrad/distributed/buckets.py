"""Gradients of several parameters in one tensor, for `nn.parallel.DistributedDataParallel` and its hooks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Sequence
from enum import Enum
from typing import Any

from fastgrad.autograd.hooks import hook_name
from fastgrad.functions.arguments import need_tensor
from fastgrad.futures import Future

DEFAULT_FIRST_BUCKET_BYTES = 2**20
DEFAULT_BUCKET_BYTES = 25 * 2**20


class BuiltinCommHookType(Enum):
    """Communication hooks that a model has by name, see ``DistributedDataParallel._register_builtin_comm_hook``."""

    ALLREDUCE = 1
    FP16_COMPRESS = 2


class GradBucket:
    """The gradients of some parameters as communication hooks get them.

    Parameters
    ----------
    index : int
        Of the bucket in this pass.
    count : int
        Of all buckets.
    buffer : Tensor
        All gradients, flat.
    gradients : list of Tensor
        Views of it.
    parameters : list of Tensor
        In the same order.
    sum : Repeated, optional
        The calls that add up the buffer over the ranks of the model, where they are prepared.
    """

    def __init__(
        self,
        index: int,
        count: int,
        buffer: Any,
        gradients: Sequence[Any],
        parameters: Sequence[Any],
        sum: Any = None,
    ) -> None:
        self._index, self._count = index, count
        self._buffer, self._gradients, self._parameters = buffer, list(gradients), list(parameters)
        self._sum = sum

    def index(self) -> int:
        """The number of the bucket, in the order in which they are reduced."""
        return self._index

    def buffer(self) -> Any:
        """All gradients as one flat tensor."""
        return self._buffer

    def gradients(self) -> list[Any]:
        """The gradient of each parameter, as a view of the buffer."""
        return list(self._gradients)

    def parameters(self) -> list[Any]:
        """The parameters, in the order of `gradients`."""
        return list(self._parameters)

    def is_last(self) -> bool:
        """Whether it is the last bucket of this pass."""
        return self._index == self._count - 1

    def set_buffer(self, buffer: Any) -> None:
        """Let `buffer` give another tensor from now on.

        Parameters
        ----------
        buffer : Tensor

        Raises
        ------
        TypeError
            If it is no tensor.
        """
        self._buffer = need_tensor("GradBucket.set_buffer", buffer, "buffer")
        self._sum = None

    def prepared_sum(self, group: Any) -> Any:
        """The calls that add up the buffer over a group, if they are prepared.

        Parameters
        ----------
        group : ProcessGroup

        Returns
        -------
        Repeated or None
        """
        return self._sum if self._sum is not None and self._sum.group is group else None


def assign_buckets(
    sizes: Sequence[int], kinds: Sequence[Hashable], limits: Sequence[float]
) -> list[list[int]]:
    """Put tensors into buckets, in order: each bucket is closed when it has reached its limit.

    Parameters
    ----------
    sizes : sequence of int
        Of the tensors, in bytes.
    kinds : sequence
        Only tensors of one kind, which is dtype and device, share a bucket.
    limits : sequence of float
        Of the first, second, ... bucket of each kind; the last one holds for the rest.

    Returns
    -------
    list of list of int
        The numbers of the tensors in each bucket, in the order in which the buckets were closed.

    Examples
    --------
    >>> assign_buckets([4, 4, 4, 4, 4], ["a"] * 5, [4, 8])
    [[0], [1, 2], [3, 4]]
    """
    closed: list[list[int]] = []
    open_ones: dict[Hashable, list[int]] = {}
    filled: dict[Hashable, int] = {}
    done: dict[Hashable, int] = {}
    for number, (size, kind) in enumerate(zip(sizes, kinds, strict=True)):
        open_ones.setdefault(kind, []).append(number)
        filled[kind] = filled.get(kind, 0) + size
        if filled[kind] >= limits[min(done.get(kind, 0), len(limits) - 1)]:
            closed.append(open_ones.pop(kind))
            filled[kind] = 0
            done[kind] = done.get(kind, 0) + 1
    return closed + list(open_ones.values())


# --- hooks -------------------------------------------------------------------------------------------------------


def need_comm_hook(hook: Any) -> Callable[[Any, GradBucket], Any]:
    """The hook, if it can be one: called with a state and a parameter named ``bucket``."""
    if not callable(hook):
        raise TypeError("Communication hook must be callable.")
    try:
        signature = inspect.signature(hook, eval_str=True)
    except Exception:  # noqa: BLE001 - an annotation that only type checkers can read
        signature = inspect.signature(hook)
    if "bucket" not in signature.parameters:
        raise KeyError(
            f"Communication hook {hook_name(hook)}: expected the parameters (state, bucket), got {signature}"
        )
    annotated = signature.parameters["bucket"].annotation
    if annotated not in (inspect.Parameter.empty, GradBucket, "GradBucket", "dist.GradBucket"):
        raise ValueError("Communication hook: bucket annotation should be dist.GradBucket.")
    returned = signature.return_annotation
    plain = getattr(returned, "__origin__", returned)
    if not isinstance(returned, str) and plain not in (inspect.Signature.empty, Future):
        raise ValueError(
            "Communication hook: return annotation should be fastgrad.futures.Future[fastgrad.Tensor]."
        )
    return hook  # type: ignore[no-any-return]


def need_future(hook: Any, index: int, value: Any) -> Future[Any]:
    """What a hook returned, if it is a future."""
    if not isinstance(value, Future):
        kind = "None" if value is None else type(value).__name__
        raise RuntimeError(
            f"communication hook {hook_name(hook)}, bucket {index}: expected the hook to return a "
            f"fastgrad.futures.Future, but got {kind}; make one with Future() and set_result(tensor)"
        )
    return value


def need_reduced(hook: Any, index: int, value: Any, buffer: Any) -> Any:
    """What a hook's future gave, if it can stand for the buffer."""
    if isinstance(value, list) and len(value) == 1:  # what calls give
        value = value[0]
    if value is buffer:  # as nearly always
        return value
    where = f"communication hook {hook_name(hook)}, bucket {index}: the future must hold"
    if not isinstance(value, type(buffer)):
        raise RuntimeError(f"{where} a Tensor, but it holds {type(value).__name__}")
    if value.numel() != buffer.numel() or value.dtype != buffer.dtype:
        raise RuntimeError(
            f"{where} {buffer.numel()} elements of {buffer.dtype}, like the buffer, but it holds {value.numel()} of "
            f"{value.dtype}"
        )
    return value
