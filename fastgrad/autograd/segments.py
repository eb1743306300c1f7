"""Segments: parts of the graph that Python makes in a call on a tape, custom functions and hooks of modules.

While a tape records, such a call gets its tensors behind a boundary of the graph, and the tape is paused. What comes
of it with a history becomes the output of one node, `SegmentFunction`, whose inputs are the tensors that the call got
and the leaves of its own that it used. The backward of that node is a call on the tape as well: it differentiates the
graph between boundary and outputs. A replay makes the call with new leaves, keeps the graph that comes of it, and the
backward call at its place differentiates that: with the contexts, hooks and counts of this replay.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from fastgrad.autograd.function import Function, apply_directly
from fastgrad.autograd.modes import enable_grad
from fastgrad.autograd.segment_inputs import Changed, Input, nodes_behind, roots, same_versions, twin
from fastgrad.autograd.segment_saving import Ended, hooks_in_force
from fastgrad.native.build.loader import TensorBase, rt, runtime_set_object
from fastgrad.native.contracts.flags import (
    CREATE_GRAPH,
    FILTERED,
    GRAD_ENABLED,
    KEEP_GRAPH,
    LEAF_HOOKS,
    LEAF_POST_HOOKS,
    RETAINS_GRAD,
)
from fastgrad.native.contracts.records import INPUT_HOLE, NODE, PLAIN_HOLE, TENSOR
from fastgrad.native.host.call_arguments import Hole, builder, is_like, mapped, parts, quick
from fastgrad.native.host.hook_calls import (
    OWN_CAPTURE,
    Lying,
    PythonCall,
    append,
    bring,
    landed,
    name_of,
    paused,
    recording_tape,
    state,
)
from fastgrad.native.host.saved_calls import UnrehearsableError

_VARIABLE = NODE.fields["variable"][0]
_NODE = TENSOR.fields["node"][0]
_STORAGE = TENSOR.fields["storage"][0]
_SCALARS = (int, float, str, bytes, type(None))
_LEAF_HOOKED = LEAF_HOOKS | LEAF_POST_HOOKS | RETAINS_GRAD
derivatives: list[Callable[..., Any]] = []
"""What differentiates the graph of a segment with a graph while a tape records: of `segment_derivatives`."""
INPUT, CONSTANT, PLAIN, OUTPUT = range(4)
"""What is in the result of a call: a tensor that it got, no tensor, one without history, one with a history."""


class Segment(PythonCall):
    """A call whose results may have a history.

    Parameters
    ----------
    function : callable
    args : tuple
    tape : Tape
    """

    sees_changes = True
    may_only_look = True
    """Whether a replay has nothing to bring anywhere if it returned None."""
    is_first = True
    """Whether nothing else than its inputs leads into its graph."""
    flags = 0
    """Those of a pass through its graph."""
    may_replace = False
    """Whether it may return something else than what it got in replays, where it returned that."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], tape: Any) -> None:
        super().__init__(function)
        self.target = function
        self.inputs: list[Input] = []
        numbers: dict[int, int] = {}

        def place(value: Any) -> Any:
            if not isinstance(value, TensorBase):
                if not isinstance(value, _SCALARS):
                    self.others.append(value)
                return value
            if id(value) not in numbers:
                numbers[id(value)] = len(self.inputs)
                self.inputs.append(Input(value, id(value) in tape.same))
            return Hole(numbers[id(value)])

        self.args = mapped(place, args)
        memory = [rt.field(x.tensor, _STORAGE) for x in self.inputs]
        for x in self.inputs:
            x.may_change = x.may_change and memory.count(rt.field(x.tensor, _STORAGE)) == 1
        self.seen = [x.seen() for x in self.inputs]
        self.ends = self.ends_of(self.seen, [x.may_change for x in self.inputs])
        self._known = self.ends
        self.places: list[tuple[int, Any]] = []  # of what is in the result: what it is, and which or where
        self.is_recorded = False
        self.passes = False
        self.own: list[Any] = []
        self.outputs: list[Lying] = []
        self.saving = hooks_in_force(self.diverged)
        self.taken: Any = None

    def functions(self) -> tuple[Any, ...]:
        """What a replay calls."""
        return (self.function, *self.saving.functions())

    def lying(self) -> Iterator[Lying]:
        """The places in memory that it knows."""
        yield from (x.lying for x in self.inputs if x.lying is not None)
        yield from (place for kind, place in self.places if kind >= PLAIN)

    def settle(self) -> None:
        """Let go of what belongs to the capture alone: the tape is bound."""
        self.seen, self.ends, self._known, self.taken = [], [], [], None
        self.saving.settle()
        for x in self.inputs:
            x.settle()

    def call(self, seen: list[Any]) -> tuple[Any, Any]:
        """Call the function: what it returns, and the arguments that it got."""
        args = mapped(lambda v: seen[v.number] if isinstance(v, Hole) else v, self.args)
        return self.target(*args), args

    @staticmethod
    def ends_of(seen: list[Any], changing: Iterable[bool]) -> list[Any]:
        """What the call gets, as the history of what comes of it knows it: twins of what it may change in place."""
        return [twin(t) if k else t for t, k in zip(seen, changing, strict=True)]

    @property
    def changed(self) -> list[int]:
        """Which of its inputs it changes in place that have a history."""
        return [k for k, x in enumerate(self.inputs) if x.changes]

    # --- the capture -------------------------------------------------------------------------------------------

    def find_changes(self, tape: Any) -> None:
        """Find which of its inputs the call has changed in place."""
        for x in self.inputs:
            is_changed = rt.version(x.tensor) != x.version
            if rt.field(x.tensor, _NODE) != x.node or (x.wants and is_changed and not x.may_change):
                tape.refuse(
                    f"{name_of(self.function)} changes a tensor in place that it may not change, or twice"
                )
            elif is_changed and x.lying is not None:
                x.lying.writes = True
                x.changes = x.wants

    def is_touched(self, number: int, seen: list[Any]) -> bool:
        """Whether the call left hooks at what it got."""
        return self.inputs[number].wants and bool(rt.is_hooked(seen[number]))

    def take(self, result: Any, tape: Any) -> tuple[Any, list[Any]]:
        """Note what the call returned: that for the capture, with outputs that have no history yet, and these."""
        numbers = {id(t): k for k, t in enumerate(self.seen)}
        outputs: list[Any] = []
        given_back: set[int] = set()
        self.find_changes(tape)

        def take(value: Any) -> Any:
            if not isinstance(value, TensorBase):
                self.places.append((CONSTANT, value))
                if not isinstance(value, _SCALARS) and not any(value is other for other in self.others):
                    tape.refuse(f"{name_of(self.function)} returns a {type(value).__name__}")
                return value
            number = numbers.get(id(value))
            if number is not None:
                given_back.add(number)
                kept = not self.may_replace and not self.is_touched(number, self.seen)
                if kept or self.inputs[number].changes:
                    self.places.append((INPUT, number))
                    return self.inputs[number].tensor
            wants = bool(value.requires_grad)  # type: ignore[attr-defined]
            if wants and value.is_leaf:  # type: ignore[attr-defined]
                tape.refuse(f"{name_of(self.function)} returns a leaf that requires gradients")
            fresh, lying = landed(value)
            if wants:
                outputs.append(value)
                self.outputs.append(lying)
            self.places.append((OUTPUT if wants else PLAIN, lying))
            return fresh

        taken = mapped(take, result)
        self.taken = mapped(lambda value: None if isinstance(value, TensorBase) else value, taken)
        outputs += [self.seen[number] for number in self.changed]
        for number, x in enumerate(self.inputs):
            if number not in given_back and not x.changes and self.is_touched(number, self.seen):
                tape.refuse(f"{name_of(self.function)} leaves hooks at a tensor that nothing reads behind it")
        return taken, outputs

    def find_own(self, outputs: list[Any], tape: Any) -> None:
        """Find the leaves of its own that the outputs depend on."""
        ends = {id(t.grad_fn) for t in self._known if t.requires_grad and not t.is_leaf}
        known = set(map(id, self._known))
        for node in nodes_behind(roots(outputs), ends):
            leaf = rt.node_variable(node) if rt.node_field(node, _VARIABLE) else None
            if leaf is None or id(leaf) in known:
                continue
            self.own.append(leaf)
            if id(leaf) not in tape.same or rt.flags_of(leaf) & _LEAF_HOOKED:
                tape.refuse(
                    f"{name_of(self.function)} uses a tensor that requires gradients and that the function does not "
                    "reach, or that has hooks"
                )

    def check_saved(self, outputs: list[Any]) -> None:
        """Raise what its backward would if something that its graph has saved was changed since."""
        for node in nodes_behind(roots(outputs), {id(t.grad_fn) for t in self._known if t.requires_grad}):
            rt.check_saved(node)

    def refuse_cycles(self, tape: Any) -> None:
        """Refuse a call that uses what its inputs depend on: the pass of the capture would count that twice."""
        known = [t.grad_fn for t in self._known if t.requires_grad and not t.is_leaf]
        wanted = {*map(id, known), *(id(rt.gradient_node(t)) for t in (*self._known, *self.own) if t.is_leaf)}
        behind = [following for node in known for following, _ in node.next_functions]
        if any(id(node) in wanted for node in nodes_behind(behind)):
            tape.refuse(f"{name_of(self.function)} uses a tensor by itself that what it gets depends on")

    # --- replays -----------------------------------------------------------------------------------------------

    def runner(self, tape: Any) -> Callable[[], None]:
        """What makes the call in replays: where it returned nothing, with a look at what it leaves."""
        is_nothing = self.places == [(CONSTANT, None)] and not self.changed
        only_looks = self.may_only_look and is_nothing and not self.saving.is_seen
        if only_looks and (plan := self.quick_look()) is not None:
            return partial(rt.call_quickly, tape, plan)
        makers = [x.maker(tape) for x in self.inputs]
        build = builder(self.args)
        function, saving = self.target, self.saving

        changing = [x.changes for x in self.inputs]

        def run() -> None:
            seen = [make() for make in makers]
            ends = self.ends_of(seen, changing)
            args = build(seen)
            result = function(*args) if not saving.is_seen else saving.call(lambda: function(*args), tape)
            self.bring(tape, seen, ends, self.value(result, args))

        def run_to_end() -> None:
            with contextlib.suppress(Ended):
                run()

        def look() -> None:
            seen = [make() for make in makers]
            self.check_look(function(*build(seen)), seen)

        if saving.stops:
            return run_to_end
        return look if only_looks else run

    def check_look(self, result: Any, seen: list[Any]) -> None:
        """Raise if a call that returned nothing, and left nothing, does so now."""
        if result is not None:
            raise self.diverged("returned something else")
        if any(x.wants and rt.is_hooked(t) for x, t in zip(self.inputs, seen, strict=True)):
            raise self.diverged("left other hooks")

    def quick_look(self) -> tuple[Any, ...] | None:
        """The plan of such a call for compiled code, if that can make it."""
        if not all(x.is_same or x.is_quick for x in self.inputs):
            return None
        numbers = {k: n for n, k in enumerate(k for k, x in enumerate(self.inputs) if not x.is_same)}
        places = [(x.lying.bound[1], INPUT_HOLE if x.wants else PLAIN_HOLE) for x in self.inputs if x.lying]

        def hole(value: Any) -> Any:
            if not isinstance(value, Hole):
                return value
            k = value.number
            return self.inputs[k].tensor if k not in numbers else Hole(numbers[k])

        def rest(result: Any, *_: Any) -> None:
            raise self.diverged("left other hooks" if result is None else "returned something else")

        return quick(self.function, mapped(hole, self.args), places, rest)

    def bring(self, tape: Any, seen: list[Any], ends: list[Any], value: Any) -> None:
        """Bring what came of the call to where it lay."""
        found = parts(value)
        if len(found) != len(self.places):
            raise self.diverged("returned something else")
        outputs, back = [], set()
        for (kind, place), item in zip(self.places, found, strict=True):
            if kind == INPUT:
                if item is not seen[place]:
                    raise self.diverged("returned another tensor")
            elif kind == CONSTANT:
                if item is not place and (type(item) is not type(place) or item != place):
                    raise self.diverged("returned something else")
            else:
                there = place.now()
                if not is_like(there, item) or bool(item.requires_grad) != (kind == OUTPUT):
                    raise self.diverged("returned another kind of tensor")
                rt.copy(there, rt.detach(item))
                if kind == OUTPUT:
                    outputs.append(item)
                    back.add(id(item))
        for t, x in zip(seen, self.inputs, strict=True):
            if x.changes:
                bring(t, x.lying.now())  # type: ignore[union-attr]
                outputs.append(t)
            elif x.wants and rt.is_hooked(t) and id(t) not in back:
                raise self.diverged("left other hooks")
        if outputs:
            tape.values[self] = outputs, self.wanted(ends, tape)

    def value(self, result: Any, args: Any) -> Any:
        """What comes of the call."""
        return result

    def wanted(self, ends: list[Any], tape: Any) -> list[Any]:
        """What the backward call differentiates by."""
        return [t for t in ends if t.requires_grad] + self.own

    def leads(self) -> list[Any]:
        """The tensors of the capture to which the history of what comes of it leads."""
        return [x.tensor for x in self.inputs if x.wants] + self.own

    def around(self) -> list[Any]:
        """The same, as the graph of the call sees them."""
        return self.wanted(self.ends, None)


def record(
    function: Callable[..., Any], args: tuple[Any, ...], kind: Callable[..., Segment] = Segment
) -> Any:
    """Make a call while a tape records that makes it again: what it returns, with a history of one node."""
    tape = recording_tape()
    if tape is None or tape.refused:
        if rt.capturing() != OWN_CAPTURE:
            return function(*args)
        with paused():  # else compiled code would come here again
            return function(*args)
    with paused():
        call = kind(function, args, tape)
    try:
        with paused():
            result = _rehearsed(call, tape) if state.rehearses else _made(call, args, tape)
    except BaseException:
        if call.saving.stops:
            append(tape, call)
        raise
    append(tape, call)
    return result


def _made(call: Segment, args: tuple[Any, ...], tape: Any) -> Any:
    """Make a call for the first time: to be called while the tape is paused."""
    tape.show(call.function, args)
    result, got = call.saving.first_call(lambda: call.call(call.seen), tape)
    if call.saving.stops:
        tape.refuse(f"{name_of(call.function)} goes on where the second run of a checkpoint ends")
    taken, outputs = call.take(call.value(result, got), tape)
    if outputs and not tape.refused:
        call.find_own(outputs, tape)
        if call.own or not call.is_first:
            call.refuse_cycles(tape)
    if tape.refused:  # the graph of the call goes on behind its boundary
        return _left_as_it_is(call, result)
    call.is_recorded = True
    call.saving.made(call)
    if outputs:
        wanted = call.wanted(call.ends, tape)
        tape.values[call] = outputs, wanted
        taken = _attached(call, taken, outputs, wanted)
    return taken


def _left_as_it_is(call: Segment, result: Any) -> Any:
    """The result of a call that is no segment after all, and whose graph goes on behind what it got."""
    numbers = {id(t): k for k, t in enumerate(call.seen)}
    for x, t in zip(call.inputs, call.seen, strict=True):
        if x.may_change and rt.version(x.tensor) != x.version:
            with enable_grad(), same_versions([x.tensor]):
                Changed.apply(x.tensor, t)
    return mapped(lambda v: call.inputs[numbers[id(v)]].tensor if id(v) in numbers else v, result)


def _rehearsed(call: Segment, tape: Any) -> Any:
    """What would come of a call in a second run, which is not made: what came of the one in the first run."""
    first = call.saving.counterpart(call.function)
    if len(first.inputs) != len(call.inputs):
        raise UnrehearsableError("a checkpoint's function calls something else in its second run")
    if first.drawn is not None:
        if not first.drawn.is_next:
            raise UnrehearsableError("a checkpoint's second run draws other random numbers")
        first.drawn.pass_by()
    call.drawn, call.passes, call.is_recorded = first.drawn, first.passes, True
    call.saving.save_as(first.saving, tape)
    call.own = list(first.own)
    for x, before in zip(call.inputs, first.inputs, strict=True):
        x.changes = before.changes
        if x.lying is not None and before.lying is not None:
            x.lying.writes = before.lying.writes
    places = iter(first.places)

    def take(value: Any) -> Any:
        kind, what = next(places)
        if kind >= PLAIN:
            value, what = landed(what.tensor)
        elif kind == INPUT:
            value = call.inputs[what].tensor
        call.places.append((kind, what))
        return value

    result = mapped(take, first.taken)
    has_outputs = bool(call.changed) or any(kind == OUTPUT for kind, _ in call.places)
    return _attached(call, result, [], []) if has_outputs else result


def _attached(call: Segment, result: Any, outputs: list[Any], wanted: list[Any]) -> Any:
    """The result of a call with outputs that have a history: to be called while the tape is paused."""
    fresh = [t for (kind, _), t in zip(call.places, parts(result), strict=True) if kind == OUTPUT]
    with enable_grad(), same_versions([call.inputs[k].tensor for k in call.changed]):
        attached = SegmentFunction.apply((call, outputs, wanted), tuple(fresh), *call.leads())
    left = iter(attached if isinstance(attached, tuple) else (attached,))
    kinds = iter(call.places)
    return mapped(lambda value: next(left) if next(kinds)[0] == OUTPUT else value, result)


def _differentiated(outputs: list[Any], gradients: list[Any], wanted: list[Any], flags: int) -> list[Any]:
    """The gradients of what a segment got, None where there is none."""
    present = [(o, g) for o, g in zip(outputs, gradients, strict=True) if g is not None]
    if not present:
        return [None] * len(wanted)
    found = rt.run_pass(
        [o for o, _ in present], [g for _, g in present], wanted, flags | FILTERED | KEEP_GRAPH
    )
    if not isinstance(found, tuple):
        raise RuntimeError("too many backward passes are under way in this thread")
    return list(found)


class SegmentBackward(PythonCall):
    """The backward of a segment as a call on a tape."""

    def __init__(self, segment: Segment, gradients: list[Any]) -> None:
        super().__init__(segment.function)
        self.segment = segment
        self.gradients = [None if g is None else Lying(rt.where_it_lies(g)) for g in gradients]
        self.outcome: list[Lying | None] = []
        self.sources: dict[
            int, Any
        ] = {}  # of what the segment saved within a checkpoint: which call holds it now

    def lying(self) -> Iterator[Lying]:
        """The places in memory that it knows."""
        return (lying for lying in (*self.gradients, *self.outcome) if lying is not None)

    def make(self, tape: Any) -> None:
        """Differentiate the graph of this replay."""
        outputs, wanted = tape.value_of(self.segment)
        gradients = [None if g is None else g.given() for g in self.gradients]
        with self.segment.saving.filled(tape, self.sources):
            found = _differentiated(outputs, gradients, wanted, self.segment.flags)
        for place, value in zip(self.outcome, found, strict=True):
            if place is None:
                if value is not None:
                    raise self.diverged("gives other gradients")
            elif value is None:
                place.now().zero_()
            else:
                rt.copy(place.now(), rt.detach(value))


class SegmentFunction(Function):
    """The node of a segment."""

    @staticmethod
    def forward(ctx: Any, graph: Any, fresh: tuple[Any, ...], *tensors: Any) -> Any:
        """Let fresh tensors be the outputs of a node, and what the call changed in place."""
        inputs = [x for x in graph[0].inputs if x.wants]  # the tensors begin with these
        changed = tuple(t for t, x in zip(tensors, inputs, strict=False) if x.changes)
        ctx.graph, ctx.tensors = graph, [rt.detach(t) for t in tensors]
        ctx.set_materialize_grads(False)
        ctx.mark_dirty(*changed)
        outputs = (*fresh, *changed)
        return outputs if len(outputs) > 1 else outputs[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Differentiate the graph of the segment, on a tape if one records."""
        segment, outputs, wanted = ctx.graph
        tape, number = recording_tape(), rt.current_pass()
        if rt.get_mode() & GRAD_ENABLED and not state.rehearses:
            if tape is not None and segment.saving.is_seen and segment.saving.is_of_checkpoint:
                tape.refuse(
                    f"a gradient with a history goes through {name_of(segment.function)} in a checkpoint"
                )
            if tape is not None and not tape.refused:
                return None, None, *derivatives[0](segment, (outputs, wanted, ctx), gradients)
            with paused(), segment.saving.unpacking(None, number, {}):
                return (
                    None,
                    None,
                    *_differentiated(outputs, list(gradients), wanted, CREATE_GRAPH | segment.flags),
                )
        if tape is None:
            with segment.saving.unpacking(None, number, {}):
                return None, None, *_differentiated(outputs, list(gradients), wanted, segment.flags)
        call = SegmentBackward(segment, list(gradients))
        if state.rehearses:
            segment.check_saved(outputs)
            segment.saving.unpack_all(tape, call.sources)
        with paused():
            found = ctx.tensors
            if not state.rehearses:
                with segment.saving.unpacking(tape, number, call.sources):
                    found = _differentiated(outputs, list(gradients), wanted, segment.flags)
            pairs = [(None, None) if g is None else landed(g) for g in found]
            call.outcome = [lying for _, lying in pairs]
        append(tape, call)
        return None, None, *(g for g, _ in pairs)


# --- who is recorded -------------------------------------------------------------------------------------------


def record_function(function: type[Function], args: tuple[Any, ...]) -> Any:
    """Called by the runtime for a custom function with the arguments of its `forward`."""
    if function.makes_passes and (tape := recording_tape()) is not None:
        tape.refuse(f"the backward of {function.__name__} makes a pass of its own (a re-entrant checkpoint)")
    return record(_Applied(function), args)


class _Applied:
    """What applies a custom function."""

    def __init__(self, function: type[Function]) -> None:
        self.function = function
        self.__qualname__ = function.__name__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Applied) and other.function is self.function

    def __hash__(self) -> int:
        return hash(self.function)

    def __repr__(self) -> str:
        return f"{self.function.__name__}.apply"

    def __call__(self, *args: Any) -> Any:
        return apply_directly(self.function, args)


runtime_set_object("record_function", record_function)
runtime_set_object("segment_function", SegmentFunction)
