"""The backward pass of a replayed call: one node whose derivative is a tape of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from fastgrad.autograd.function import Function
from fastgrad.compiler.programs import Before, Regions, storage_of
from fastgrad.compiler.recordings import SHARES_MEMORY, Recording, rehearse
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.flags import (
    GRAD_ENABLED,
    LEAF_HOOKS,
    LEAF_POST_HOOKS,
    REQUIRES_GRAD,
    RETAINS_GRAD,
)
from fastgrad.native.contracts.frame import READ
from fastgrad.native.contracts.records import REGION_GIVEN, REGION_OWN, TENSOR
from fastgrad.native.host.tape import Launch

_DATA = TENSOR.fields["data"][0]
_ALWAYS = -1  # no number of an output


class Backward:
    """What differentiates the calls of a recording.

    Parameters
    ----------
    forward : Recording
    outputs : list of Tensor
        Those that the recorded call gave and that have a history.
    wanted : list of Tensor
        Tensors that came or are held, to which gradients go.
    states : list of Tensor
        Those of native hooks that the pass runs.

    Attributes
    ----------
    reads : list of int
        Which of the tensors that came or are held it reads.
    saved : list of Tensor
        The memory that the call made and that it reads, as tensors of bytes.
    order : list of int
        Which of the wanted tensors the outputs depend on: their gradients are what it computes, in the order in which
        the node of a call has to hand them on. Then hooks of leaves run in the order of an eager pass.
    kept : list of int
        Which of the outputs keep their gradients.
    unchecked : list of int
        Which of those that it reads, and of the memory behind them, may change before it: what it changes itself, as
        the second run of a checkpoint may, and the states of hooks.
    drawing : set of int
        The numbers of the devices whose random numbers of the call it draws again.
    calls : bool
        Whether it calls Python.

    Raises
    ------
    UnrecordableError
    """

    def __init__(
        self, forward: Recording, outputs: Sequence[Any], wanted: Sequence[Any], states: Sequence[Any]
    ) -> None:
        self.numbers = forward.tape
        gradients = [rt.detach(t).clone() for t in outputs]
        self._gradients = gradients
        around = [before.tensor for before in (*forward.given, *forward.held)]
        made = rt.tape_memory(forward.tape)
        self.kept = [k for k, t in enumerate(outputs) if rt.flags_of(t) & RETAINS_GRAD]
        needs = [*_needs(outputs, wanted), *(_needs(outputs, [outputs[k]])[0] for k in self.kept)]
        recording, come, counts = _rehearsal(forward, (outputs, gradients, wanted), states, self.kept)
        forward.backward = recording
        recording.tape.counts_numbers = False  # its calls draw where the generator stands by then
        recording.check()
        present = [k for k, g in enumerate(recording.result[: len(wanted)]) if g is not None]
        self.order = handed_on(present, wanted, come)
        numbers = [*self.order, *range(len(wanted), len(needs))]
        results = [recording.result[k] for k in numbers]
        self._needs = [needs[k] if k >= len(wanted) or _may_lack(wanted[k]) else {_ALWAYS} for k in numbers]
        touched = _touched(recording, gradients, around, made, results)
        self.reads = [k for k in range(len(around)) if touched[k]]
        self.saved = [memory for memory, is_read in zip(made, touched[len(around) :], strict=True) if is_read]
        apart = [rt.detach(around[k]) for k in self.reads]
        recording.given = [Before.of(t) for t in (*gradients, *apart, *self.saved)]
        of_hooks = {storage_of(t) for t in states}
        self._states = [n for n, k in enumerate(self.reads) if storage_of(around[k]) in of_hooks]
        changing = of_hooks | counts.keys()
        self.unchecked = [k for k, t in enumerate((*apart, *self.saved)) if storage_of(t) in changing]
        for k, before in enumerate(recording.given):
            n = counts.get(before.storage, 0)
            recording.given[k] = before._replace(version=before.version - n)
        self.calls = bool(recording.tape._calls)
        self.drawing = recording.drawing()
        self.bound = recording.bind(results, forward.tape)

    def call(
        self,
        gradients: Sequence[Any],
        memory: Sequence[Any],
        numbers: Sequence[tuple[int, ...]],
        values: dict[Any, Any],
    ) -> tuple[list[Any], list[Any]]:
        """The gradients of what the outputs depend on, from those of the outputs; those that outputs keep.

        `memory`: what the call brought of what is read, and then what it saved. `numbers`: devices, and where their
        random numbers began. `values`: what came of its calls of Python.
        """
        fitted = [_fitted(g, like) for g, like in zip(gradients, self._gradients, strict=True)]
        n = len(self.reads)
        if any(rt.flags_of(memory[k]) & REQUIRES_GRAD for k in self._states):
            raise RuntimeError(
                "backward of a compiled function: a native hook within it has a state that requires grad by now"
            )
        given = (*fitted, *map(rt.detach, memory[:n]), *memory[n:])
        with self.bound.lock:
            for drawn in numbers if self.drawing else ():
                rt.follow_numbers(self.bound.tape, self.numbers, *drawn)
            self.bound.tape.forward_values = values
            try:
                found = self.bound.call(given)
                if type(found) is int and found % 16 == SHARES_MEMORY:  # one gradient for two outputs, say
                    found = self.bound.call((*(g.clone() for g in fitted), *given[len(fitted) :]))
            finally:
                self.bound.tape.forward_values = {}
        if type(found) is int:
            raise RuntimeError(
                f"backward of a compiled function: {self.bound.refusal(found)}; was it changed after the call?"
            )
        missing = {k for k, g in enumerate(gradients) if g is None}
        found = [None if needs <= missing else g for g, needs in zip(found, self._needs, strict=True)]
        return found[: len(self.order)], found[len(self.order) :]


def _rehearsal(
    forward: Recording,
    graph: tuple[Sequence[Any], Sequence[Any], Sequence[Any]],
    states: Sequence[Any],
    kept: Sequence[int],
) -> tuple[Recording, list[Any], dict[int, int]]:
    """A pass through outputs of a call that is recorded, and what it did is undone.

    The gradients that it found, of what was wanted and those that outputs keep; the nodes to which it came; and how
    often it changed which memory of others.

    `graph`: outputs, their gradients, what is wanted.
    """
    outputs = graph[0]
    around = [before.tensor for before in (*forward.given, *forward.held)]
    as_before = _AsBefore([*(around if forward.tape.runs_again else ()), *states])
    before = [(outputs[k], rt.get_grad(outputs[k])) for k in kept]
    come: list[Any] = []
    for t, _ in before:
        rt.set_grad(t, None)

    def run() -> tuple[Any, ...]:
        return (*rehearse(*graph, come), *(rt.get_grad(t) for t, _ in before))

    try:
        recording = Recording(run, (), (), forward=forward)
    except BaseException:
        as_before.restore()
        raise
    finally:
        for t, gradient in before:
            rt.set_grad(t, gradient)
    return recording, come, as_before.restore(recording)


def _may_lack(tensor: Any) -> bool:
    """Whether a tensor gets no gradient where there is none: hooks, and a graph behind it, would see that."""
    return bool(tensor.is_leaf) and not rt.flags_of(tensor) & (LEAF_HOOKS | LEAF_POST_HOOKS)


def _needs(outputs: Sequence[Any], wanted: Sequence[Any]) -> list[set[int]]:
    """For each wanted tensor, the numbers of the outputs that depend on it, other than by another wanted one."""
    ends = [rt.gradient_node(t) for t in wanted]
    numbers = set(map(id, ends))
    found: list[set[int]] = [set() for _ in wanted]
    for k, output in enumerate(outputs):
        seen: dict[int, Any] = {}
        todo = [output.grad_fn]
        while todo:
            node = todo.pop()
            if node is None or id(node) in seen:
                continue
            seen[id(node)] = node
            if id(node) not in numbers:
                todo += [following for following, _ in node.next_functions]
        for end, needed in zip(ends, found, strict=True):
            if id(end) in seen:
                needed.add(k)
    return found


def handed_on(present: Sequence[int], wanted: Sequence[Any], come: Sequence[Any]) -> list[int]:
    """The order in which a node has to hand gradients on, so that a pass comes to leaves as it came to some nodes.

    What is ready at the same time leaves the queue of a pass in an order that its heap makes of that in which it came.
    """
    places = {id(node): k for k, node in enumerate(come)}
    nodes = {k: rt.gradient_node(wanted[k]) for k in present}
    leaves = [k for k in present if wanted[k].is_leaf]
    leaves.sort(key=lambda k: places.get(id(nodes[k]), len(places)))
    others = [k for k in present if not wanted[k].is_leaf]
    queue: list[tuple[int, int]] = []
    for number in range(len(present)):
        push_heap(queue, (int(number < len(leaves)), number))
    found = dict(zip((pop_heap(queue)[1] for _ in leaves), leaves, strict=False))
    return [found[number] for number in range(len(leaves))] + others


def push_heap(queue: list[tuple[int, int]], item: tuple[int, int]) -> None:
    """Put an item on the heap as a pass does; the first number counts."""
    queue.append(item)
    _rise(queue, len(queue) - 1, item)


def _rise(queue: list[tuple[int, int]], hole: int, item: tuple[int, int]) -> None:
    while hole > 0 and queue[(hole - 1) // 2][0] < item[0]:
        queue[hole] = queue[(hole - 1) // 2]
        hole = (hole - 1) // 2
    queue[hole] = item


def pop_heap(queue: list[tuple[int, int]]) -> tuple[int, int]:
    """Take the item on top of the heap as a pass does."""
    top, item = queue[0], queue.pop()
    n = len(queue)
    if n == 0:
        return top
    hole = child = 0
    while child < (n - 1) // 2:
        child = 2 * (child + 1)
        if queue[child][0] < queue[child - 1][0]:
            child -= 1
        queue[hole] = queue[child]
        hole = child
    if n % 2 == 0 and child == (n - 2) // 2:
        child = 2 * child + 1
        queue[hole] = queue[child]
        hole = child
    _rise(queue, hole, item)
    return top


class _AsBefore:
    """What the tensors around a call hold, so that a rehearsal that changes them can be undone."""

    def __init__(self, around: Sequence[Any]) -> None:
        self._around = [(t, rt.detach(t).clone(), rt.version(t)) for t in around]

    def restore(self, rehearsal: Recording | None = None) -> dict[int, int]:
        """Let them be as before: how often memory that was changed was."""
        written = {
            address
            for launch in (rehearsal.tape if rehearsal is not None and self._around else ())
            for place, address in _words(launch)
            if launch.frame.roles[launch.frame.addresses[place]].role != READ
        }
        counts: dict[int, int] = {}
        for t, kept, version in self._around:
            memory = rt.memory_of(t)
            low, n = rt.field(memory, _DATA), rt.sizes(memory)[0]
            if rehearsal is None or any(low <= address < low + n for address in written):
                counts.setdefault(storage_of(t), rt.version(t) - version)
                rt.copy(rt.where_it_lies(t), kept)
        for t, _, version in self._around:
            rt.set_version(t, version)
        return counts


def _words(launch: Launch) -> Iterator[tuple[int, int]]:
    """The words of a frame that are addresses: their places, and the addresses."""
    return ((k, launch.words[k]) for k in launch.frame.addresses if k < len(launch.words))


def _touched(
    recording: Recording,
    gradients: Sequence[Any],
    around: Sequence[Any],
    made: Sequence[Any],
    results: Sequence[Any],
) -> list[bool]:
    """Which memory of a call, of its tensors and made by it, a pass reads; each is named once."""
    regions = Regions()
    for tensor in (*gradients, *around, *made):
        regions.add(REGION_GIVEN, tensor)
    for memory in rt.tape_memory(recording.tape):
        regions.add(REGION_OWN, memory)
    regions.link(recording.tape)
    needed = {k for k, region in enumerate(regions.all) if region.links} | {regions.find(g) for g in results}
    needed |= {regions.find(place.tensor) for call in recording.tape._calls for place in call.lying()}
    needed -= {regions.find(g) for g in gradients}
    found = []
    for tensor in (*around, *made):
        number = regions.find(tensor)
        found.append(number in needed)
        needed.discard(number)
    return found


def _fitted(gradient: Any, like: Any) -> Any:
    """A gradient that lies as in the recording; zeros for none."""
    if gradient is None:
        return like.clone().zero_()
    if rt.steps(gradient) == rt.steps(like):
        return rt.where_it_lies(gradient)
    return like.clone().copy_(gradient)


class Call(NamedTuple):
    """A call, for its node: its outputs, what the pass reads of it, where its random numbers began, what came of its
    calls of Python, and what differentiates it by calling the function again.
    """

    backward: Backward
    outputs: tuple[Any, ...]
    memory: tuple[Any, ...]
    numbers: Sequence[tuple[int, ...]]
    values: dict[Any, Any]
    again: Callable[[Sequence[Any]], tuple[list[Any], list[Any]]]


class CompiledFunction(Function):
    """The node of a replayed call."""

    @staticmethod
    def forward(ctx: Any, call: Call, *wanted: Any) -> Any:
        """Let the outputs of a call be those of a node."""
        ctx.backward_of_call, ctx.numbers, ctx.values = call.backward, call.numbers, call.values
        ctx.again = call.again
        ctx.set_materialize_grads(False)
        ctx.unchecked = [call.memory[k] for k in call.backward.unchecked]
        ctx.save_for_backward(*(t for k, t in enumerate(call.memory) if k not in call.backward.unchecked))
        return call.outputs if len(call.outputs) > 1 else call.outputs[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Replay the backward pass."""
        memory = list(ctx.saved_tensors)  # raises if they were changed, or are freed
        if rt.get_mode() & GRAD_ENABLED:
            found, kept = ctx.again(gradients)
        else:
            for k, tensor in zip(ctx.backward_of_call.unchecked, ctx.unchecked, strict=True):
                memory.insert(k, tensor)
            found, kept = ctx.backward_of_call.call(gradients, memory, ctx.numbers, ctx.values)
        for k, gradient in zip(ctx.backward_of_call.kept, kept, strict=True):
            if gradient is not None:
                rt.keep_gradient(ctx, k, gradient)
        return None, *found


class FreedFunction(Function):
    """The node of an output whose graph a pass within the call has freed."""

    @staticmethod
    def forward(ctx: Any, outputs: tuple[Any, ...], *wanted: Any) -> Any:
        """Let outputs be those of a node."""
        return outputs if len(outputs) > 1 else outputs[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Raise what the freed graph would."""
        raise RuntimeError(
            "Trying to backward through the graph a second time: a pass within the compiled function has freed it. "
            "Specify retain_graph=True there if you need to backward through the graph again"
        )
