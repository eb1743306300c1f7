"""Communication hooks that average gradients, as they are or as halves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastgrad import dtypes
from fastgrad.autograd.hooks import hook_name
from fastgrad.autograd.modes import no_grad
from fastgrad.distributed import collectives
from fastgrad.distributed.buckets import GradBucket
from fastgrad.distributed.groups import need_member
from fastgrad.distributed.work import Repeated, Work
from fastgrad.futures import Future

Hook = Callable[[Any, GradBucket], Future[Any]]


def average(tensor: Any, group: Any, call: Repeated | None = None) -> Future[Any]:
    """A future of the mean of a tensor over the ranks, in its memory; `call` is one that adds it up."""
    return begin_average(tensor, group, None, call).get_future().then(lambda done: done.value()[0])


def begin_average(tensor: Any, group: Any, count: int | None, call: Repeated | None) -> Work:
    """The work of the mean of a tensor over the ranks, or a `count` of them, in its memory."""
    divisor = need_member("average", group).size() if count is None else count
    if call is not None:
        return call.average(divisor)
    with no_grad():
        tensor.div_(divisor)
    return begin_total(tensor, group)


def begin_total(tensor: Any, group: Any) -> Work:
    """The work of the sum of a tensor over the ranks, in its memory."""
    work = collectives.all_reduce(tensor, group=need_member("all_reduce", group), async_op=True)
    assert work is not None
    return work


def total(tensor: Any, group: Any) -> Future[Any]:
    """A future of a list of the sum of a tensor over the ranks, in its memory."""
    return begin_total(tensor, group).get_future()


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """Average the gradients, as without a hook.

    Parameters
    ----------
    process_group : ProcessGroup or None
        The state of the hook; None for all ranks.
    bucket : GradBucket

    Returns
    -------
    Future
        Of the buffer.

    Examples
    --------
    ``model.register_comm_hook(None, allreduce_hook)``
    """
    call = bucket.prepared_sum(need_member("allreduce_hook", process_group))
    return average(bucket.buffer(), process_group, call)


def _compress_hook(dtype: Any, process_group: Any, bucket: GradBucket) -> Future[Any]:
    buffer = bucket.buffer()

    def decompress(done: Future[Any]) -> Any:
        with no_grad():
            return buffer.copy_(done.value())

    return average(buffer.to(dtype), process_group).then(decompress)


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """Average the gradients as float16, with half the bytes on the way.

    Parameters
    ----------
    process_group : ProcessGroup or None
    bucket : GradBucket

    Returns
    -------
    Future
        Of the buffer, in its own dtype.
    """
    return _compress_hook(dtypes.float16, process_group, bucket)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """Average the gradients as bfloat16, with half the bytes on the way.

    Parameters
    ----------
    process_group : ProcessGroup or None
    bucket : GradBucket

    Returns
    -------
    Future
        Of the buffer, in its own dtype.
    """
    return _compress_hook(dtypes.bfloat16, process_group, bucket)


def _compress_wrapper(name: str, dtype: Any, hook: Hook) -> Hook:
    def wrapped(state: Any, bucket: GradBucket) -> Future[Any]:
        buffer = bucket.buffer()
        bucket.set_buffer(buffer.to(dtype))

        def decompress(done: Future[Any]) -> Any:
            value = done.value()
            with no_grad():
                return buffer.copy_(value[0] if isinstance(value, list) else value)

        return hook(state, bucket).then(decompress)

    wrapped.__name__ = f"{name}({hook_name(hook)})"
    return wrapped


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that gives another one the gradients as float16.

    Parameters
    ----------
    hook : callable
        A communication hook that reduces ``bucket.buffer()``.

    Returns
    -------
    callable
    """
    return _compress_wrapper("fp16_compress_wrapper", dtypes.float16, hook)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that gives another one the gradients as bfloat16.

    Parameters
    ----------
    hook : callable
        A communication hook that reduces ``bucket.buffer()``.

    Returns
    -------
    callable
    """
    return _compress_wrapper("bf16_compress_wrapper", dtypes.bfloat16, hook)
