"""A communication hook that communicates nothing."""

from __future__ import annotations

from typing import Any

from fastgrad.distributed.buckets import GradBucket
from fastgrad.futures import Future


def noop_hook(_: Any, bucket: GradBucket) -> Future[Any]:
    """Leave the gradients of each rank as they are, to see what communication costs.

    Parameters
    ----------
    _ : object
        The state; ignored.
    bucket : GradBucket

    Returns
    -------
    Future
        Of the buffer.
    """
    out: Future[Any] = Future()
    out.set_result(bucket.buffer())
    return out
