"""Segments: parts of the graph that Python makes in a call on a tape, custom functions and hooks of modules.

While a tape records, such a call gets its tensors behind a boundary of the graph, and the tape is paused. What comes
of it with a history becomes the output of one node, `SegmentFunction`, whose inputs are the tensors that the call got
and the leaves of its own that it used. The backward of that node is a call on the tape as well: it differentiates the
graph between boundary and outputs. A replay makes the call with new leaves, keeps the graph that comes of it, and the
backward call at its place differentiates that: with the contexts, hooks and counts of this replay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from fastgrad.autograd.boundary import boundary
from fastgrad.autograd.function import Function, apply_directly
from fastgrad.autograd.modes import enable_grad
from fastgrad.native.build.loader import TensorBase, rt, runtime_set_object
from fastgrad.native.contracts.flags import (
    CREATE_GRAPH,
    FILTERED,
    GRAD_ENABLED,
    KEEP_GRAPH,
    LEAF_HOOKS,
    LEAF_POST_HOOKS,
    RETAINS_GRAD,
    SAVED_HOOKS,
)
from fastgrad.native.contracts.records import NODE, TENSOR
from fastgrad.native.host.hook_calls import (
    Hole,
    Lying,
    PythonCall,
    append,
    builder,
    is_like,
    landed,
    mapped,
    name_of,
    parts,
    paused,
    recording_tape,
    state,
)

_VARIABLE = NODE.fields["variable"][0]
_NODE = TENSOR.fields["node"][0]
_SCALARS = (int, float, str, bytes, type(None))
_LEAF_HOOKED = LEAF_HOOKS | LEAF_POST_HOOKS | RETAINS_GRAD
INPUT, CONSTANT, PLAIN, OUTPUT = range(4)
"""What is in the result of a call: a tensor that it got, no tensor, one without history, one with a history."""


class _Input:
    """A tensor that a call got.

    Attributes
    ----------
    tensor : Tensor
        During the capture; None afterwards, unless the call gets the same one in each replay.
    """

    def __init__(self, tensor: Any, is_same: bool) -> None:
        self.tensor = tensor
        self.wants = bool(tensor.requires_grad)
        self.is_same = is_same and not self.wants
        self.version = rt.version(tensor)
        self.node = rt.field(tensor, _NODE)
        self.lying: Lying | None = None if self.is_same else Lying(rt.where_it_lies(tensor))

    def settle(self) -> None:
        """Let go of the tensor of the capture."""
        if self.lying is not None:
            self.tensor = None

    def maker(self, tape: Any) -> Callable[[], Any]:
        """What gives what the call gets in a replay."""
        lying = self.lying
        if lying is None:
            tensor = self.tensor
            return lambda: tensor
        if lying.is_shared and lying.bound:
            return partial(rt.tape_input if self.wants else rt.tape_tensor, *lying.bound)
        if not self.wants:
            return lying.given
        return lambda: behind_boundary([lying.given().requires_grad_()])[0]


def behind_boundary(tensors: list[Any]) -> list[Any]:
    """Tensors as inputs of a segment: those that require gradients behind a boundary of the graph, each its own."""
    with enable_grad():
        return [boundary((t,))[1][0] if t.requires_grad else t for t in tensors]


class Segment(PythonCall):
    """A call whose results may have a history.

    Parameters
    ----------
    function : callable
    args : tuple
    tape : Tape
    """

    sees_changes = True

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], tape: Any) -> None:
        super().__init__(function)
        self.inputs: list[_Input] = []
        numbers: dict[int, int] = {}

        def place(value: Any) -> Any:
            if not isinstance(value, TensorBase):
                if not isinstance(value, _SCALARS):
                    self.others.append(value)
                return value
            if id(value) not in numbers:
                numbers[id(value)] = len(self.inputs)
                self.inputs.append(_Input(value, id(value) in tape.same))
            return Hole(numbers[id(value)])

        self.args = mapped(place, args)
        self.seen = behind_boundary([x.tensor for x in self.inputs])
        self.places: list[tuple[int, Any]] = []  # of what is in the result: what it is, and which or where
        self.is_recorded = False
        self.passes = False
        self.own: list[Any] = []
        self.outputs: list[Lying] = []

    def lying(self) -> Iterator[Lying]:
        """The places in memory that it knows."""
        yield from (x.lying for x in self.inputs if x.lying is not None)
        yield from (place for kind, place in self.places if kind >= PLAIN)

    def settle(self) -> None:
        """Let go of what belongs to the capture alone: the tape is bound."""
        self.seen = []
        for x in self.inputs:
            x.settle()

    def call(self, seen: list[Any]) -> tuple[Any, Any]:
        """Call the function: what it returns, and the arguments that it got."""
        args = mapped(lambda v: seen[v.number] if isinstance(v, Hole) else v, self.args)
        return self.function(*args), args

    # --- the capture -------------------------------------------------------------------------------------------

    def is_touched(self, number: int, seen: list[Any]) -> bool:
        """Whether the call left hooks at what it got."""
        return self.inputs[number].wants and bool(rt.is_hooked(seen[number]))

    def take(self, result: Any, tape: Any) -> tuple[Any, list[Any]]:
        """Note what the call returned: that for the capture, with outputs that have no history yet, and these."""
        numbers = {id(t): k for k, t in enumerate(self.seen)}
        outputs: list[Any] = []
        given_back: set[int] = set()
        for x in self.inputs:
            if rt.field(x.tensor, _NODE) != x.node or (x.wants and rt.version(x.tensor) != x.version):
                tape.refuse(f"{name_of(self.function)} changes a tensor in place that has a history")
            elif x.lying is not None and not x.wants and rt.version(x.tensor) != x.version:
                x.lying.writes = True

        def take(value: Any) -> Any:
            if not isinstance(value, TensorBase):
                self.places.append((CONSTANT, value))
                if not isinstance(value, _SCALARS) and not any(value is other for other in self.others):
                    tape.refuse(f"{name_of(self.function)} returns a {type(value).__name__}")
                return value
            number = numbers.get(id(value))
            if number is not None:
                given_back.add(number)
                if not self.is_touched(number, self.seen):
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
        for number in range(len(self.inputs)):
            if number not in given_back and self.is_touched(number, self.seen):
                tape.refuse(f"{name_of(self.function)} leaves hooks at a tensor that nothing reads behind it")
        return taken, outputs

    def find_own(self, outputs: list[Any], tape: Any) -> None:
        """Find the leaves of its own that the outputs depend on."""
        ends = {id(t.grad_fn) for t in self.seen if t.requires_grad}
        seen: dict[int, Any] = {}
        todo = [t.grad_fn for t in outputs]
        while todo:
            node = todo.pop()
            if node is None or id(node) in seen or id(node) in ends:
                continue
            seen[id(node)] = node
            leaf = rt.node_variable(node) if rt.node_field(node, _VARIABLE) else None
            if leaf is None:
                todo += [following for following, _ in node.next_functions]
                continue
            self.own.append(leaf)
            if id(leaf) not in tape.same or rt.flags_of(leaf) & _LEAF_HOOKED:
                tape.refuse(
                    f"{name_of(self.function)} uses a tensor that requires gradients and that the function does not "
                    "reach, or that has hooks"
                )

    # --- replays -----------------------------------------------------------------------------------------------

    def runner(self, tape: Any) -> Callable[[], None]:
        """What makes the call in replays: where it returned nothing, with a look at what it leaves."""
        makers = [x.maker(tape) for x in self.inputs]
        build = builder(self.args)
        wants = [k for k, x in enumerate(self.inputs) if x.wants]
        function = self.function

        def run() -> None:
            seen = [make() for make in makers]
            args = build(seen)
            self.bring(tape, seen, self.value(function(*args), args))

        def look() -> None:
            seen = [make() for make in makers]
            if function(*build(seen)) is not None:
                raise self.diverged("returned something else")
            for k in wants:
                if is_hooked(seen[k]):
                    raise self.diverged("left other hooks")

        is_hooked = rt.is_hooked
        only_looks = self.places == [(CONSTANT, None)] and not isinstance(self, KeywordPreHookSegment)
        return look if only_looks else run

    def bring(self, tape: Any, seen: list[Any], value: Any) -> None:
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
        for number, t in enumerate(seen):
            if self.inputs[number].wants and rt.is_hooked(t) and id(t) not in back:
                raise self.diverged("left other hooks")
        if outputs:
            tape.values[self] = outputs, self.wanted(seen)

    def value(self, result: Any, args: Any) -> Any:
        """What comes of the call."""
        return result

    def wanted(self, seen: list[Any]) -> list[Any]:
        """What the backward call differentiates by."""
        return [t for t in seen if t.requires_grad] + self.own


class ForwardHookSegment(Segment):
    """The call of a forward hook: where it returns None and leaves hooks at the output, that comes of it."""

    def replaced(self, args: tuple[Any, ...]) -> Any:
        """What stands for None."""
        return args[-1] if self.passes else None

    def value(self, result: Any, args: Any) -> Any:
        """What it returned, or the output."""
        if result is None and not self.is_recorded:
            found = [v for v in parts(args[-1]) if isinstance(v, TensorBase)]
            numbers = {id(t): k for k, t in enumerate(self.seen)}
            self.passes = any(self.is_touched(numbers[id(t)], self.seen) for t in found)
        return self.replaced(args) if result is None else result


class PreHookSegment(ForwardHookSegment):
    """The call of a forward pre-hook."""

    def value(self, result: Any, args: Any) -> Any:
        """What it returned, or the positional arguments."""
        if result is None and not self.is_recorded:
            self.passes = any(self.is_touched(k, self.seen) for k in range(len(self.inputs)))
        return self.replaced(args) if result is None else result

    def replaced(self, args: tuple[Any, ...]) -> Any:
        """What stands for None."""
        return args[1] if self.passes else None


class KeywordPreHookSegment(PreHookSegment):
    """The same for one that gets the dict of keyword arguments as well, which it may change."""

    def replaced(self, args: tuple[Any, ...]) -> Any:
        """What stands for None."""
        return args[1], args[2]


def record(function: Callable[..., Any], args: tuple[Any, ...], kind: type[Segment] = Segment) -> Any:
    """Make a call while a tape records that makes it again: what it returns, with a history of one node."""
    tape = recording_tape()
    if tape is None:
        return function(*args)
    if rt.get_mode() & SAVED_HOOKS:
        tape.refuse(f"saved-tensor hooks are in force while {name_of(function)} is called")
    with paused():
        tape.show(function, args)
        call = kind(function, args, tape)
        result, got = call.call(call.seen)
        result, outputs = call.take(call.value(result, got), tape)
        call.is_recorded = True
        if outputs:
            call.find_own(outputs, tape)
            tape.values[call] = outputs, call.wanted(call.seen)
            result = _attached(call, result, outputs)
    append(tape, call)
    return result


def _attached(call: Segment, result: Any, outputs: list[Any]) -> Any:
    """The result of a call with outputs that have a history: to be called while the tape is paused."""
    tensors = [x.tensor for x in call.inputs if x.wants] + call.own
    fresh = [t for (kind, _), t in zip(call.places, parts(result), strict=True) if kind == OUTPUT]
    with enable_grad():
        attached = SegmentFunction.apply((call, outputs, call.wanted(call.seen)), tuple(fresh), *tensors)
    left = iter(attached if len(fresh) > 1 else (attached,))
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

    def lying(self) -> Iterator[Lying]:
        """The places in memory that it knows."""
        return (lying for lying in (*self.gradients, *self.outcome) if lying is not None)

    def make(self, tape: Any) -> None:
        """Differentiate the graph of this replay."""
        outputs, wanted = tape.value_of(self.segment)
        gradients = [None if g is None else g.given() for g in self.gradients]
        found = _differentiated(outputs, gradients, wanted, 0)
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
        """Let fresh tensors be the outputs of a node."""
        ctx.graph, ctx.tensors = graph, [rt.detach(t) for t in tensors]
        ctx.set_materialize_grads(False)
        return fresh if len(fresh) > 1 else fresh[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Differentiate the graph of the segment, on a tape if one records."""
        segment, outputs, wanted = ctx.graph
        tape = recording_tape()
        if rt.get_mode() & GRAD_ENABLED and not state.rehearses:
            if tape is not None:
                tape.refuse(f"a gradient with a history goes through {name_of(segment.function)}")
            with paused():
                return None, None, *_differentiated(outputs, list(gradients), wanted, CREATE_GRAPH)
        if tape is None:
            return None, None, *_differentiated(outputs, list(gradients), wanted, 0)
        with paused():
            call = SegmentBackward(segment, list(gradients))
            found = ctx.tensors
            if not state.rehearses:
                found = _differentiated(outputs, list(gradients), wanted, 0)
            pairs = [(None, None) if g is None else landed(g) for g in found]
            call.outcome = [lying for _, lying in pairs]
        append(tape, call)
        return None, None, *(g for g, _ in pairs)


# --- who is recorded -------------------------------------------------------------------------------------------


def record_module_hook(hook: Callable[..., Any], args: tuple[Any, ...], before: bool, both: bool) -> Any:
    """Called by the runtime for a forward pre-hook or a forward hook with its arguments; what it is to have returned.

    `before`: whether it is a pre-hook; `both`: whether it gets keyword arguments as well.
    """
    if before:
        return record(hook, args, KeywordPreHookSegment if both else PreHookSegment)
    return record(hook, args, ForwardHookSegment)


def record_function(function: type[Function], args: tuple[Any, ...]) -> Any:
    """Called by the runtime for a custom function with the arguments of its `forward`."""
    return record(_Applied(function), args)


class _Applied:
    """What applies a custom function."""

    def __init__(self, function: type[Function]) -> None:
        self.function = function
        self.__qualname__ = function.__name__

    def __repr__(self) -> str:
        return f"{self.function.__name__}.apply"

    def __call__(self, *args: Any) -> Any:
        return apply_directly(self.function, args)


for _callback in (record_module_hook, record_function):
    runtime_set_object(_callback.__name__, _callback)
runtime_set_object("segment_function", SegmentFunction)
