"""Reduces gradients over ranks while they become ready.

Note [Ready gradients]: a post-hook of each parameter's AccumulateGrad node says that its gradient is ready, after the
tensor hooks, the accumulation and the post-accumulate hooks of the parameter, which all see the local gradient. The
gradient is then copied into its bucket. When the last one of a bucket is there, and the buckets before it are on their
way, the bucket goes to the communication hook. A callback at the end of the pass waits for all of them, in order, and
writes what came to the gradients. Copies go by the runtime's own function: behind a pass, what Python calls is in no
cache, and each layer of it takes ten times as long as in a loop.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import finalize, ref

import numpy as np

from fastgrad.autograd.engine import queue_callback
from fastgrad.autograd.graph import get_gradient_edge
from fastgrad.autograd.hooks import hook_name
from fastgrad.autograd.modes import no_grad
from fastgrad.distributed import collectives
from fastgrad.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook, begin_average
from fastgrad.distributed.boards import KINDS, starts_of
from fastgrad.distributed.buckets import GradBucket, assign_buckets, need_future, need_reduced
from fastgrad.distributed.work import Repeated, Work
from fastgrad.functions.creation import zeros
from fastgrad.functions.sharing import from_numpy
from fastgrad.futures import Future
from fastgrad.native.build.loader import rt


class Bucket:
    """Parameters whose gradients are reduced together.

    Parameters
    ----------
    numbers : list of int
        Of the parameters.
    parameters : list of Tensor
        They.
    """

    def __init__(self, numbers: Sequence[int], parameters: Sequence[Any]) -> None:
        self.numbers, self.parameters = list(numbers), list(parameters)
        self.sizes = [p.numel() for p in self.parameters]
        self.lie_apart()
        self.left = 0
        self.future: Future[Any] | None = None  # of a communication hook
        self.work: Work | None = None  # without one

    def lie_apart(self) -> None:
        """Let the gradients lie in memory of this rank's own from now on."""
        first = self.parameters[0]
        self.lie_in(zeros(sum(self.sizes), dtype=first.dtype, device=first.device))

    def copy_beside(self, copy: Any, sum: Repeated | None) -> None:
        """Reduce a copy of the buffer there from now on, or None for the buffer itself, by these calls."""
        self.copy, self.sum = copy, sum

    def begin_average(self, group: Any, count: int | None) -> None:
        """Begin to average the gradients over ranks."""
        if self.copy is not None:
            self.copy.copy_(self.buffer)
        self.work = begin_average(self.buffer, group, count, self.sum)

    def wait_for_average(self) -> None:
        """Wait until the average is in the buffer."""
        assert self.work is not None
        self.work.wait()
        if self.copy is not None:
            self.buffer.copy_(self.copy)

    def lie_in(self, buffer: Any, sum: Repeated | None = None) -> None:
        """Let the gradients lie in this flat tensor from now on; `sum` are the calls that add it up."""
        self.buffer = buffer
        self.copy_beside(None, sum)
        ends = np.cumsum(self.sizes).tolist()
        self.views = [
            buffer[end - size : end].view(p.shape).detach()  # may be gradients, which are no views
            for end, size, p in zip(ends, self.sizes, self.parameters, strict=True)
        ]


class Reducer:
    """The buckets of a model, and what has come of them in this pass.

    Parameters
    ----------
    parameters : list of Tensor
        Those that require grad.
    names : list of str
        Theirs.
    group : ProcessGroup
    limits : sequence of float
        Bytes of the first, second, ... bucket.
    find_unused, static, as_views : bool
        ``find_unused_parameters``, ``static_graph`` and ``gradient_as_bucket_view`` of the model.
    """

    def __init__(
        self,
        parameters: Sequence[Any],
        names: Sequence[str],
        group: Any,
        limits: Sequence[float],
        *,
        find_unused: bool,
        static: bool,
        as_views: bool,
    ) -> None:
        self.parameters, self.names, self.group = list(parameters), list(names), group
        self.limits, self.find_unused, self.static, self.as_views = limits, find_unused, static, as_views
        self.state: Any = None
        self.hook: Callable[[Any, GradBucket], Any] | None = None
        self.count: Callable[[], int] | None = (
            None  # by what sums are divided, unless by the size of the group
        )
        self.kinds = [(p.dtype, p.device) for p in self.parameters]
        self.sizes = [p.numel() * p.element_size() for p in self.parameters]
        first = assign_buckets(self.sizes, self.kinds, [math.inf] if static or not find_unused else limits)
        self.set_buckets(list(reversed(first)) if find_unused and not static else first)
        self.order: list[int] = []  # in which gradients became ready
        self.passes = 0  # that reduced gradients
        self.rebuilt = find_unused and not static
        self.settled = self.shared = False  # whether buckets may lie in memory that ranks share, and do
        self.counts: Counter[int] | None = None  # with a static graph: how often each becomes ready in a pass
        self.expecting = self.begun = False
        self.used: set[int] = set()  # since gradients were reduced, also by passes that reduced none
        self.reset()
        self.nodes = [get_gradient_edge(p).node for p in self.parameters]
        handles = [node.register_hook(_teller(ref(self), k)) for k, node in enumerate(self.nodes)]
        finalize(self, _remove, handles).atexit = False

    # --- buckets ---

    def set_buckets(self, assignment: Sequence[Sequence[int]]) -> None:
        """Make buckets, and where gradients are views of old ones, let them be views of these."""
        old = getattr(self, "place", {})
        self.buckets = [Bucket(numbers, [self.parameters[k] for k in numbers]) for numbers in assignment]
        self.place = self.places()
        for k, (_, view) in old.items():
            p = self.parameters[k]
            if p.grad is not None and _is(p.grad, view):
                with no_grad():
                    self.place[k][1].copy_(p.grad)
                p.grad = self.place[k][1]

    def places(self) -> dict[int, tuple[Bucket, Any]]:
        """The bucket of each parameter, and the view that its gradient has there."""
        return {
            k: (bucket, view)
            for bucket in self.buckets
            for k, view in zip(bucket.numbers, bucket.views, strict=True)
        }

    def settle(self) -> None:
        """Once buckets stay as they are: let those that nobody else sees lie in memory that the ranks share.

        What a communication hook gets, and gradients that are views, may be kept by programs for longer than that. Of
        the latter, copies lie there.
        """
        private = self.hook is None or (self.hook is allreduce_hook and not self.as_views)
        if self.rebuilt and not self.settled and self.group.board is not None:
            self.settled = True
            sizes = [bucket.buffer.nbytes for bucket in self.buckets]
            starts = starts_of(sizes)
            fits = all(dtype in KINDS and device.type == "cpu" for dtype, device in self.kinds) and all(sizes)
            found = self.group.share(starts[-1], private and fits)
            if found is None:
                return
            self.shared = True
            for bucket, start, size in zip(self.buckets, starts, sizes, strict=False):
                buffer = from_numpy(found.memory(start, size, np.uint8)).view(bucket.buffer.dtype)
                calls = collectives.repeated_sum(buffer, self.group)
                if self.as_views:
                    bucket.copy_beside(buffer, calls)
                else:
                    bucket.lie_in(buffer, calls)
        elif self.shared and not private:  # there is a hook now
            self.shared = False
            for bucket in self.buckets:
                if self.as_views:
                    bucket.copy_beside(None, None)
                else:
                    bucket.lie_apart()
        else:
            return
        self.place = self.places()

    def rebuild(self) -> None:
        """Once: assign the parameters to buckets in the order in which rank 0 got their gradients, unused ones last."""
        if self.rebuilt or self.passes <= self.static:  # the first pass of a static graph only counts
            return
        self.rebuilt = True
        unused = set(range(len(self.parameters))).difference(self.order)
        order = np.array(self.order + sorted(unused), np.int64)
        collectives.broadcast(from_numpy(order), group=self.group, group_src=0)
        numbers = order.tolist()
        found = assign_buckets(
            [self.sizes[k] for k in numbers], [self.kinds[k] for k in numbers], self.limits
        )
        self.set_buckets([[numbers[i] for i in bucket] for bucket in found])

    # --- a pass ---

    def reset(self) -> None:
        """Begin to wait for all gradients."""
        for bucket in self.buckets:
            bucket.left, bucket.future, bucket.work = len(bucket.numbers), None, None
        self.next = 0
        self.ready: set[int] = set()
        self.unused: list[int] = []
        self.missing = Counter(self.counts) if self.counts is not None else None

    def need_finished(self) -> None:
        """Raise if the pass before left gradients unreduced."""
        if not (self.expecting and self.begun):
            return
        self.expecting = self.begun = False
        late = [k for k in range(len(self.parameters)) if k not in self.ready]
        which = ", ".join(f"{k} ({self.names[k]})" for k in late[:20])
        raise RuntimeError(
            "Expected to have finished reduction in the prior iteration before starting a new one. Parameters got no "
            f"gradient: {which or 'none, but a call failed'}. Pass find_unused_parameters=True to "
            "DistributedDataParallel if the loss does not depend on all of them, and see that all outputs of forward "
            "take part in it"
        )

    def prepare(self, outputs: Sequence[Any]) -> None:
        """Expect the backward pass of a forward that gave these tensors."""
        self.expecting, self.begun = True, False
        self.order.clear()
        self.reset()
        if self.find_unused and self.counts is None:
            reached = set(_reached(outputs))
            self.unused = [k for k, p in enumerate(self.parameters) if id(p) not in reached]
        elif self.counts is not None:
            self.unused = [k for k in range(len(self.parameters)) if not self.counts[k]]

    def became_ready(self, k: int) -> None:
        """The gradient of a parameter has been accumulated."""
        self.used.add(k)
        if not self.expecting:
            return
        if not self.begun:
            self.begin_pass()
        if self.static and self.counts is None:
            self.first_counts[k] += 1
            return
        if self.missing is not None:
            self.missing[k] -= 1
            if self.missing[k] > 0:
                return
        if k in self.ready:
            raise RuntimeError(
                f"Expected to mark a variable ready only once, but parameter {k} ({self.names[k]}) got two gradients "
                "in one pass, or was said to be unused; use static_graph=True for parameters that are used again in a "
                "re-entrant pass, and do not use parameters outside of forward"
            )
        if not self.rebuilt:
            self.order.append(k)
        self.mark(k)

    def begin_pass(self) -> None:
        """The first gradient of a pass is there."""
        self.begun = True
        if self.static and self.counts is None:
            self.first_counts: Counter[int] = Counter()
            queue_callback(self.end_first_static)
            return
        for k in self.unused:
            self.mark(k)

    def end_first_static(self) -> None:
        """The end of the first pass of a static graph: now it is known what each pass does."""
        self.counts = self.first_counts
        for k in range(len(self.parameters)):
            self.mark(k)

    def mark(self, k: int) -> None:
        """Put the gradient of a parameter into its bucket, and send the buckets that are complete."""
        self.ready.add(k)
        bucket, view = self.place[k]
        parameter = self.parameters[k]
        grad = parameter.grad
        if grad is None:
            view.zero_()
        elif not self.as_views or not _is(grad, view):
            rt.copy(view, grad)
            if self.as_views:
                parameter.grad = view
        bucket.left -= 1
        while self.next < len(self.buckets) and not self.buckets[self.next].left:
            self.send(self.next)
            self.next += 1
            if self.next == len(self.buckets):
                queue_callback(self.finish)

    def send(self, index: int) -> None:
        """Hand a bucket to the communication hook."""
        bucket = self.buckets[index]
        if self.hook is None:
            bucket.begin_average(self.group, self.count and self.count())
            return
        given = GradBucket(
            index, len(self.buckets), bucket.buffer, bucket.views, bucket.parameters, bucket.sum
        )
        value = self.named(index, self.hook, self.state, given)
        bucket.future = need_future(self.hook, index, value)

    def named(self, index: int, call: Callable[..., Any], *given: Any) -> Any:
        """What a call gives; exceptions say which communication hook raised them, for which bucket."""
        try:
            return call(*given)
        except Exception as error:
            if self.hook is not None:
                error.add_note(f"in communication hook {hook_name(self.hook)}, bucket {index}")
            raise

    def finish(self) -> None:
        """Wait for all buckets, and write what came to the gradients."""
        used = self.used_anywhere()
        with no_grad():
            for index, bucket in enumerate(self.buckets):
                self.wait_for(index)
                for k, p, view in zip(bucket.numbers, bucket.parameters, bucket.views, strict=True):
                    if used[k]:
                        self.write_back(p, view)
        self.expecting = self.begun = False
        self.used.clear()
        self.passes += 1

    def wait_for(self, index: int) -> None:
        """Wait until what came of a bucket is in its buffer."""
        bucket = self.buckets[index]
        if bucket.work is not None:
            bucket.wait_for_average()
            return
        assert bucket.future is not None
        value = self.named(index, bucket.future.wait)
        reduced = need_reduced(self.hook, index, value, bucket.buffer)
        if not _is(reduced, bucket.buffer):
            bucket.buffer.copy_(reduced.detach().view(-1))

    def answer_pass(self) -> None:
        """Take part in the pass of other ranks with zeros; gradients become what theirs are reduced to."""
        self.reset()
        self.used = set()
        with no_grad():
            for bucket in self.buckets:
                bucket.buffer.zero_()
        for index in range(len(self.buckets)):
            self.send(index)
        self.finish()

    def write_back(self, parameter: Any, view: Any) -> None:
        """Let a parameter's gradient be the reduced one."""
        grad = parameter.grad
        if grad is None or self.as_views:
            parameter.grad = view if self.as_views else view.clone()
        else:
            rt.copy(grad, view)

    def used_anywhere(self) -> Sequence[bool]:
        """Which parameters got a gradient on some rank; the others keep what they have."""
        if not (self.find_unused or self.static):
            return [True] * len(self.parameters)
        used = np.zeros(len(self.parameters), np.int32)
        used[list(self.used)] = 1
        collectives.all_reduce(from_numpy(used), group=self.group)
        return [bool(n) for n in used]


def _is(a: Any, b: Any) -> bool:
    """Whether two tensors are the same memory in the same order."""
    return a is b or bool(
        a.data_ptr() == b.data_ptr() and a.numel() == b.numel() and a.dtype == b.dtype and a.is_contiguous()
    )


def _teller(reducer: Any, k: int) -> Callable[..., None]:
    """A hook of a node that does not keep the reducer."""

    def grad_is_ready(*_: Any) -> None:
        found = reducer()
        if found is not None:
            found.became_ready(k)

    return grad_is_ready


def _remove(handles: Sequence[Any]) -> None:
    for handle in handles:
        handle.remove()


def _reached(outputs: Sequence[Any]) -> Iterator[int]:
    """The ids of the leaves to which gradients of tensors flow."""
    waiting = [t.grad_fn for t in outputs if t.grad_fn is not None]
    yield from (id(t) for t in outputs if t.grad_fn is None)
    seen = set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            yield id(variable)
        waiting.extend(following for following, _ in node.next_functions if following is not None)
