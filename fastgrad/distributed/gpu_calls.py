"""Calls on tensors of GPUs, by NCCL.

Note [Calls on GPUs]: ranks compare a call as any other one (Note [Checked calls] in `work`), by MPI. Then it is put
into the stream that was the current one of the tensors' GPU when it was made, behind what the tensors wait for. To wait
for it is to let the current stream wait: the host goes on, as with kernels.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fastgrad.autograd.modes import no_grad
from fastgrad.cuda.selection import gpu_of
from fastgrad.cuda.streams import Event, StreamContext, stream_on
from fastgrad.distributed.checks import average, facts, run
from fastgrad.distributed.groups import ProcessGroup
from fastgrad.distributed.nccl import BYTES, Communicator, kind_and_count, operation_of
from fastgrad.distributed.transport import DistError, need_contiguous, written
from fastgrad.distributed.work import Work
from fastgrad.functions.creation import empty
from fastgrad.functions.shape import cat
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.limits import FIRST_GPU
from fastgrad.native.contracts.records import TENSOR

_DEVICE = TENSOR.fields["device"][0]
Enqueue = Callable[[Communicator, int], None]


def takes(group: ProcessGroup, tensor: Any) -> bool:
    """Whether a call on a tensor is one for NCCL."""
    return group.has_gpus and isinstance(tensor, TensorBase) and bool(rt.field(tensor, _DEVICE) >= FIRST_GPU)


def one_gpu(call: str, tensors: Sequence[Any]) -> Any:
    """The GPU of all tensors of a call; an error if there are several, or if it is being captured."""
    for t in tensors:
        if t.device != tensors[0].device:
            raise ValueError(
                f"{call}(): all tensors must lie on one GPU, but found {tensors[0].device} and {t.device}"
            )
    gpu = gpu_of(tensors[0].device)
    gpu.refuse_in_capture(f"{call}()")
    return gpu


class _Place:
    """Where a call stands: in a stream of a GPU, which may be another one than that which waits for it."""

    def __init__(self, call: str, group: ProcessGroup, tensors: Sequence[Any]) -> None:
        self.gpu = one_gpu(call, tensors)
        self.kept = tensors  # until the call is over: the library knows addresses alone
        self.communicator = group.communicator(self.gpu)
        self.stream, self.passed = stream_on(self.gpu), Event()

    def put(self, *enqueue: Enqueue) -> None:
        """Put calls into the stream, so that none waits for another one."""
        stream = self.stream.cuda_stream
        with StreamContext(self.stream):
            self.communicator.together([partial(one, self.communicator, stream) for one in enqueue])

    def leave(self) -> None:
        """All that belongs to the call is in the stream."""
        self.passed.record(self.stream)

    def wait(self) -> None:
        """Let the current stream wait for it."""
        here = stream_on(self.gpu)
        if here != self.stream:
            here.wait_event(self.passed)


def _run(
    group: ProcessGroup,
    call: str,
    equal: tuple[Any, ...],
    tensors: Sequence[Any],
    enqueue: Enqueue,
    async_op: bool,
    result: Sequence[Any],
    *,
    before: Callable[[], None] | None = None,
    after: Callable[[], None] | None = None,
    changes: bool = True,
) -> Work | None:
    place = _Place(call, group, tensors)

    def begin() -> None:
        with StreamContext(place.stream), no_grad():
            if before is not None:
                before()
            place.put(enqueue)
            if after is not None:
                after()
        place.leave()

    return run(group, call, (*equal, "on GPUs"), begin, async_op, result, place.wait, changes=changes)


def _need_like(call: str, argument: str, tensor: Any, like: Any, times: int = 1) -> Any:
    plain = need_contiguous(call, tensor, argument)
    if plain.dtype != like.dtype or plain.numel() != like.numel() * times:
        raise ValueError(
            f"{call}(): '{argument}' has {plain.numel()} elements of {plain.dtype}, but {like.numel() * times} of "
            f"{like.dtype} are expected"
        )
    return plain


def _nbytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def all_reduce(group: ProcessGroup, tensor: Any, op: Any, async_op: bool) -> Work | None:
    """See `collectives`; this and the others below are what those do with tensors of GPUs."""
    return _reduce(group, "all_reduce", "ncclAllReduce", tensor, op, async_op)


def reduce(group: ProcessGroup, tensor: Any, root: int, op: Any, async_op: bool) -> Work | None:
    """Likewise; a rank that gets nothing keeps what it has, unless the operation is AVG."""
    return _reduce(group, "reduce", "ncclReduce", tensor, op, async_op, (root,))


def _reduce(
    group: ProcessGroup,
    call: str,
    name: str,
    tensor: Any,
    op: Any,
    async_op: bool,
    root: tuple[int, ...] = (),
) -> Work | None:
    """A reduction in place, for one rank or for all."""
    plain = need_contiguous(call, tensor)
    function = operation_of(call, op, plain.dtype)
    kind, n = kind_and_count(call, plain)
    at = plain.data_ptr()
    return _run(
        group,
        call,
        facts(plain, op.name, *(f"dst={group.ranks[r]}" for r in root)),
        [plain],
        lambda c, s: c.call(name, at, at, n, kind, function, *root, s),
        async_op,
        [tensor],
        before=lambda: average(op, plain, group),
        changes=group.rank() in root or not root,
    )


def broadcast(group: ProcessGroup, tensor: Any, root: int, async_op: bool) -> Work | None:
    """Likewise."""
    call = "broadcast"
    plain = need_contiguous(call, tensor)
    at, n = plain.data_ptr(), _nbytes(plain)
    return _run(
        group,
        call,
        facts(plain, f"src={group.ranks[root]}"),
        [plain],
        lambda c, s: c.call("ncclBroadcast", at, at, n, BYTES, root, s),
        async_op,
        [tensor],
        changes=group.rank() != root,
    )


def all_gather_into_tensor(group: ProcessGroup, output: Any, given: Any, async_op: bool) -> Work | None:
    """Likewise."""
    call = "all_gather_into_tensor"
    plain = need_contiguous(call, given, "input_tensor")
    target = _need_like(call, "output_tensor", output, plain, group.size())
    return _gather(group, call, plain, target, async_op, [output])


def _gather(
    group: ProcessGroup,
    call: str,
    plain: Any,
    target: Any,
    async_op: bool,
    result: Sequence[Any],
    after: Callable[[], None] | None = None,
) -> Work | None:
    source, at, n = plain.data_ptr(), target.data_ptr(), _nbytes(plain)
    return _run(
        group,
        call,
        facts(plain),
        [plain, target],
        lambda c, s: c.call("ncclAllGather", source, at, n, BYTES, s),
        async_op,
        result,
        after=after,
    )


def all_gather(group: ProcessGroup, targets: Sequence[Any], given: Any, async_op: bool) -> Work | None:
    """Likewise."""
    call = "all_gather"
    plain = need_contiguous(call, given)
    found = [_need_like(call, f"tensor_list[{k}]", t, plain) for k, t in enumerate(targets)]
    one_gpu(call, [plain, *found])
    flat = empty(group.size(), plain.numel(), dtype=plain.dtype, device=plain.device)

    def after() -> None:
        for k, t in enumerate(found):
            t.copy_(flat[k].view(t.shape))

    return _gather(group, call, plain, flat, async_op, targets, after)


def reduce_scatter_tensor(
    group: ProcessGroup, output: Any, given: Any, op: Any, async_op: bool, call: str = "reduce_scatter_tensor"
) -> Work | None:
    """Likewise."""
    target = need_contiguous(call, output, "output")
    plain = _need_like(call, "input", given, target, group.size())
    function = operation_of(call, op, plain.dtype)
    kind, n = kind_and_count(call, target)
    source, at = plain.data_ptr(), target.data_ptr()
    return _run(
        group,
        call,
        facts(target, op.name),
        [plain, target],
        lambda c, s: c.call("ncclReduceScatter", source, at, n, kind, function, s),
        async_op,
        [output],
        after=lambda: average(op, target, group),
    )


def reduce_scatter(
    group: ProcessGroup, output: Any, given: Sequence[Any], op: Any, async_op: bool
) -> Work | None:
    """Likewise."""
    call = "reduce_scatter"
    target = need_contiguous(call, output, "output")
    parts = [_need_like(call, f"input_list[{k}]", t, target) for k, t in enumerate(given)]
    one_gpu(call, [target, *parts])
    flat = cat([t.reshape(-1) for t in parts])
    return reduce_scatter_tensor(group, output, flat, op, async_op, call)


# --- calls made of messages --------------------------------------------------------------------------------------


def gather(
    group: ProcessGroup, given: Any, targets: Sequence[Any] | None, root: int, async_op: bool
) -> Work | None:
    """Likewise; only the root has `targets`."""
    call = "gather"
    plain = need_contiguous(call, given)
    found = [_need_like(call, f"gather_list[{k}]", t, plain) for k, t in enumerate(targets or ())]
    equal = facts(plain, f"dst={group.ranks[root]}")
    return exchange(group, call, equal, {root: plain}, dict(enumerate(found)), async_op, targets or ())


def scatter(
    group: ProcessGroup, target: Any, given: Sequence[Any] | None, root: int, async_op: bool
) -> Work | None:
    """Likewise; only the root has what is `given`."""
    call = "scatter"
    plain = need_contiguous(call, target)
    parts = [_need_like(call, f"scatter_list[{k}]", t, plain) for k, t in enumerate(given or ())]
    equal = facts(plain, f"src={group.ranks[root]}")
    return exchange(group, call, equal, dict(enumerate(parts)), {root: plain}, async_op, [target])


def exchange(
    group: ProcessGroup,
    call: str,
    equal: tuple[Any, ...],
    sent: dict[int, Any],
    came: dict[int, Any],
    async_op: bool,
    result: Sequence[Any],
) -> Work | None:
    """Send a tensor to each of some ranks and receive one from each of some, which may be this rank itself.

    Sizes fit those of the other ranks: that is looked at before. Nothing is sent of tensors without elements.
    """
    targets = list(came.values())
    given = dict(zip(sent, _apart(list(sent.values()), targets), strict=True))
    sides = (("ncclSend", given), ("ncclRecv", came))
    messages = [
        (name, t.data_ptr(), _nbytes(t), peer)
        for name, tensors in sides
        for peer, t in tensors.items()
        if t.numel()
    ]

    def enqueue(communicator: Communicator, stream: int) -> None:
        for name, at, n, peer in messages:
            communicator.call(name, at, n, BYTES, peer, stream)

    return _run(group, call, equal, [*given.values(), *targets], enqueue, async_op, result)


def _apart(given: Sequence[Any], targets: Sequence[Any]) -> list[Any]:
    """Tensors to send that do not lie where others arrive: copies of those that would."""
    spans = sorted((t.data_ptr(), t.data_ptr() + _nbytes(t)) for t in targets if t.numel())

    def meets(tensor: Any) -> bool:
        begin = tensor.data_ptr()
        before = bisect_left(spans, (begin + _nbytes(tensor),))
        return before > 0 and spans[before - 1][1] > begin

    return [t.clone() if t.numel() and meets(t) else t for t in given]


# --- messages ----------------------------------------------------------------------------------------------------


class Message(Work):
    """A message between two GPUs, which is put into the current stream at once.

    Parameters
    ----------
    peer : int
        The other rank in the group.
    sends : bool
    """

    def __init__(self, group: ProcessGroup, name: str, tensor: Any, peer: int, sends: bool) -> None:
        plain = need_contiguous(name, tensor)
        self._need_communicator(group, name, plain)
        at, n = plain.data_ptr(), _nbytes(plain)
        self._place = _Place(name, group, [plain])
        self._peer, self._sends = group.ranks[peer], sends
        function = "ncclSend" if sends else "ncclRecv"
        self.enqueue: Enqueue = lambda c, s: c.call(function, at, n, BYTES, peer, s)
        super().__init__(group, name, None, [tensor], self._place.wait if sends else self._received)

    @staticmethod
    def _need_communicator(group: ProcessGroup, name: str, tensor: Any) -> None:
        """All ranks have to make one, of which only two are here."""
        if gpu_of(tensor.device) not in group.communicators:
            raise DistError(
                f"{name}(): the ranks of the {group.title()} have no communicator for their GPUs yet: pass "
                "device_id to init_process_group(), or make a call of all ranks on tensors of the GPUs before"
            )

    def _received(self) -> None:
        self._place.wait()
        written(*self._result)

    def put(self, *others: Message) -> None:
        """Put it and others into the stream, so that none waits for another one."""
        group = self._group
        group.need_working(self._name)
        try:
            self._place.put(self.enqueue, *(m.enqueue for m in others))
            for one in (self, *others):
                one._place.leave()
        except DistError as error:
            group.give_up(error)
            raise

    def _advance(self) -> None:
        self._finish()

    def source_rank(self) -> int:
        """From whom `irecv` receives."""
        return super().source_rank() if self._sends else self._peer
