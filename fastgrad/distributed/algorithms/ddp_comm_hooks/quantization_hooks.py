"""Communication hooks that send gradients as bytes.

Rows of numbers x become integers q from 0 to 255, x about scale * (q - zero), with a scale and a zero for each row that
let its smallest and largest number, and 0, have integers. Every rank gathers those of all, and averages what they stand
for: with n ranks each receives n bytes for a gradient of four.
"""

from __future__ import annotations

from typing import Any

from fastgrad import dtypes
from fastgrad.autograd.modes import no_grad
from fastgrad.distributed import collectives
from fastgrad.distributed.buckets import GradBucket
from fastgrad.distributed.groups import need_member
from fastgrad.functions import reduce
from fastgrad.functions.creation import empty, zeros
from fastgrad.functions.shape import stack
from fastgrad.futures import Future, collect_all

STEPS = 255
SMALLEST = 2.0**-23  # a scale, as in PyTorch: the distance from 1 to the next float32


def quantization_pertensor_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """Average the gradients as bytes, with one scale for the whole bucket.

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
    ``model.register_comm_hook(None, quantization_pertensor_hook)``
    """
    return _average_rows(process_group, bucket, max(1, bucket.buffer().numel()))


def quantization_perchannel_hook(
    process_group: Any, bucket: GradBucket, bucket_size: int = 512
) -> Future[Any]:
    """Average the gradients as bytes, with a scale for every so many of them, which loses less.

    Parameters
    ----------
    process_group : ProcessGroup or None
    bucket : GradBucket
    bucket_size : int
        How many elements share a scale.

    Returns
    -------
    Future
        Of the buffer.

    Raises
    ------
    ValueError
        If `bucket_size` is no positive int.
    """
    if type(bucket_size) is not int or bucket_size < 1:
        raise ValueError(
            f"quantization_perchannel_hook(): argument 'bucket_size' must be an int of 1 or more, got {bucket_size!r}"
        )
    return _average_rows(process_group, bucket, bucket_size)


def _average_rows(process_group: Any, bucket: GradBucket, width: int) -> Future[Any]:
    """A future of the buffer, averaged as rows of bytes of this length; the last one is filled up with zeros."""
    group = need_member("quantization hook", process_group)
    buffer, n = bucket.buffer(), group.size()
    with no_grad():
        rows = zeros(-(-buffer.numel() // width), width)
        rows.view(-1)[: buffer.numel()] = buffer.detach()
        scaling = _scaling(rows)
        quantized = ((rows / scaling[0]).round_() + scaling[1]).clamp_(0, STEPS).to(dtypes.uint8)
    scalings, parts = empty(n, *scaling.shape), empty(n, *rows.shape, dtype=dtypes.uint8)
    works = [
        collectives.all_gather_into_tensor(target, mine, group, async_op=True)
        for target, mine in ((scalings, scaling), (parts, quantized))
    ]

    def average(done: Future[Any]) -> Any:
        done.value()
        with no_grad():
            total = zeros(*rows.shape)
            for (scale, zero), part in zip(scalings, parts, strict=True):
                total += scale * (part.to(dtypes.float32) - zero)
            buffer.copy_((total / n).view(-1)[: buffer.numel()])
        return buffer

    return collect_all([work.get_future() for work in works if work is not None]).then(average)


def _scaling(rows: Any) -> Any:
    """The scale and the zero of each row, as two columns."""
    if not rows.numel():
        return zeros(2, rows.shape[0], 1)
    least = reduce.amin(rows, 1, keepdim=True).clamp(max=0)
    most = reduce.amax(rows, 1, keepdim=True).clamp(min=0)
    scale = ((most - least) / STEPS).clamp(min=SMALLEST)
    zero = (-(least / scale).round()).clamp(0, STEPS)
    return stack([scale, zero])
