"""Steps of a `ZeroRedundancyOptimizer` as soon as the gradients of a bucket are reduced, instead of after the pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from fastgrad.autograd.hooks import hook_name
from fastgrad.distributed.algorithms.ddp_comm_hooks.optimizer_overlap_hooks import Hook
from fastgrad.distributed.buckets import GradBucket
from fastgrad.futures import Future


def hook_with_zero_step(hook: Hook, ddp: Any, zero: Any, shard_buckets: bool = False) -> Hook:
    """A communication hook that lets another one reduce the gradients, steps parts of the parameters, and sends them.

    As in PyTorch the first passes step nothing: that in which it becomes known which buckets there will be, and the
    first one with these. The parameters of a bucket are sent while the next ones are reduced.

    Parameters
    ----------
    hook : callable
    ddp : DistributedDataParallel
        With which the hook is registered.
    zero : ZeroRedundancyOptimizer
        Made with ``overlap_with_ddp=True``, over the same process group.
    shard_buckets : bool
        Accepted for PyTorch's sake: parameters belong to ranks one by one.

    Returns
    -------
    callable

    Raises
    ------
    ValueError
        If the optimizer was made otherwise.
    """
    if not getattr(zero, "overlap_with_ddp", False):
        raise ValueError(
            "hook_with_zero_step(): argument 'zero' must be a ZeroRedundancyOptimizer made with overlap_with_ddp=True"
        )
    if zero.process_group is not ddp.process_group:
        raise ValueError("hook_with_zero_step(): arguments 'ddp' and 'zero' have other process groups")
    reducer = ref(ddp.reducer)  # which has the hook
    sent: list[Callable[[], None]] = []
    knows_buckets = False

    def hook_then_zero(state: Any, bucket: GradBucket) -> Future[Any]:
        nonlocal knows_buckets
        reduced = hook(state, bucket)
        steps = knows_buckets
        model = reducer()
        knows_buckets |= model is not None and model.rebuilt and bucket.is_last()

        def step(done: Future[Any]) -> Any:
            done.value()
            if not bucket.index():  # what a pass that failed has left
                sent.clear()
            sent.extend(zero.begin_bucket(bucket.parameters(), bucket.gradients()))
            if bucket.is_last():
                for finish in sent:
                    finish()
                sent.clear()
            return bucket.buffer()

        return reduced.then(step) if steps else reduced

    hook_then_zero.__name__ = f"hook_with_zero_step({hook_name(hook)})"
    return hook_then_zero


hook_with_zero_step_interleaved = hook_with_zero_step
"""In PyTorch it steps the bucket before while one is reduced; here steps run where futures are waited for in both."""
