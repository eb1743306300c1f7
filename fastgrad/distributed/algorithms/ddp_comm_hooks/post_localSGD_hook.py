"""Averaging over all ranks at first, and later over a few of them."""

from __future__ import annotations

from typing import Any

from fastgrad.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
from fastgrad.distributed.algorithms.ddp_comm_hooks.default_hooks import average
from fastgrad.distributed.buckets import GradBucket
from fastgrad.functions.arguments import need_type
from fastgrad.futures import Future


class PostLocalSGDState:
    """The state of `post_localSGD_hook`.

    Parameters
    ----------
    process_group : ProcessGroup or None
        Over which is averaged at first; None for all ranks.
    subgroup : ProcessGroup
        Over which is averaged later.
    start_localSGD_iter : int
        After how many passes later begins.
    post_local_gradient_allreduce : bool
        Whether anything is averaged later.

    Raises
    ------
    ValueError
        If there is no subgroup although one is needed.
    """

    def __init__(
        self,
        process_group: Any,
        subgroup: Any,
        start_localSGD_iter: int,  # noqa: N803 - PyTorch's name
        post_local_gradient_allreduce: bool = True,
    ) -> None:
        if subgroup is None and post_local_gradient_allreduce:
            raise ValueError(
                "PostLocalSGDState(): argument 'subgroup' must be a ProcessGroup of some ranks, made with "
                "fastgrad.distributed.new_group(ranks), not None"
            )
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count a pass at its last bucket."""
        if bucket.is_last():
            self.iter += 1


def post_localSGD_hook(state: PostLocalSGDState, bucket: GradBucket) -> Future[Any]:  # noqa: N802
    """Average gradients over all ranks at first, later over a subgroup.

    A program that uses it averages the parameters of all ranks itself, now and then.

    Parameters
    ----------
    state : PostLocalSGDState
    bucket : GradBucket

    Returns
    -------
    Future
        Of the buffer.
    """
    need_type("post_localSGD_hook", state, PostLocalSGDState, "state")
    if state.iter < state.start_localSGD_iter:
        state.maybe_increase_iter(bucket)
        return average(bucket.buffer(), state.process_group)
    if not state.post_local_gradient_allreduce:
        return noop_hook(None, bucket)
    return average(bucket.buffer(), state.subgroup)
