"""Calls of Python on tapes, which a replay makes again: hooks, callbacks of passes, what packs and unpacks.

Between the launches of a tape stands the number of a call. While it is made during a capture, the tape records nothing.
A replay makes it with the tensors that lie by then where they lay during the capture, and copies what comes of it to
where the launches behind it read. What has a history through the code of such a call is a segment of the graph: see
`autograd.segments`.

Note [Values of a replay]: what came of a call and is no tensor that launches read, such as what a pack hook returned or
the graph of a segment, belongs to one replay. It stands in a dict of that replay, by the call, and later calls find it
there. The backward tape of a compiled function looks into the dict of the call that it differentiates.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from fastgrad.native.build.loader import TensorBase, rt, runtime_set_object
from fastgrad.native.contracts.flags import COPY_ON_WRITE
from fastgrad.native.contracts.records import ALIAS_HOLE, LEAF_HOLE, OWN_HOLE, TAPE, TENSOR
from fastgrad.native.host.call_arguments import Hole, builder, is_like, mapped, parts, quick
from fastgrad.native.host.call_numbers import Drawn, drawn_since, numbers_now, with_numbers

if TYPE_CHECKING:
    import weakref

    from fastgrad.native.host.tape import Tape

_DTYPE, _DEVICE, _DATA, _STORAGE = (TENSOR.fields[n][0] for n in ("dtype", "device", "data", "storage"))
_REPLAYING, _VALUES = (TAPE.fields[name][0] for name in ("replaying", "n_values"))
OWN_CAPTURE = 1
"""What `rt.capturing` says of a capture by the calling thread."""
PRESERVED = 1  # the number of the memory format that keeps an order of dimensions
recorder: weakref.ref[Tape] | None = None
"""The tape that began to record last."""
with_history: list[Callable[..., Any]] = []
"""What calls a hook on gradients with a history while a tape records: of `autograd.segment_derivatives`."""


class _State(threading.local):
    """What the calling thread does with tapes.

    Attributes
    ----------
    tape : Tape or None
        The one whose replay makes calls.
    rehearses : bool
        Whether a pass runs for a recording, whose gradients mean nothing: calls are noted and not made.
    numbers : tuple of bytes
        Where the default generators stood when the tape was paused last.
    parts : dict
        Passes within other ones that count as those, by their numbers.
    """

    def __init__(self) -> None:
        self.parts: dict[int, int] = {}

    tape: Any = None
    rehearses = False
    numbers: tuple[bytes, ...] = ()


state = _State()


def recording_tape() -> Any:
    """The tape on which calls of the calling thread go, or None; none go on one that is not replayed anyway."""
    if rt.capturing() != OWN_CAPTURE or recorder is None:
        return None
    tape = recorder()
    return tape if tape is not None and tape.calls_hooks and not tape.refused else None


def refuse_replays(why: str) -> None:
    """Note on the tape on which calls of the calling thread go, if there is one, that no replay does what was done."""
    tape = recording_tape()
    if tape is not None:
        tape.refuse(why)


@contextlib.contextmanager
def paused(is_paused: bool = True) -> Iterator[None]:
    """A block of which the tape of the calling thread records nothing; or, within such a block, one that it records."""
    rt.pause(int(is_paused))
    began = numbers_now()
    try:
        yield
    finally:
        rt.pause(int(not is_paused))
        if is_paused:
            state.numbers = began
        elif began[0] != numbers_now()[0] and recorder is not None and (tape := recorder()) is not None:
            tape.refuse(
                "a second run draws other random numbers, while a hook or a custom function is called"
            )


def name_of(function: Any) -> str:
    """What people call a hook or a function."""
    return str(getattr(function, "__qualname__", None) or type(function).__name__)


# --- values ----------------------------------------------------------------------------------------------------


def is_leaf(value: Any) -> bool:
    """Whether something is a leaf that wants gradients."""
    return isinstance(value, TensorBase) and value.requires_grad and value.is_leaf  # type: ignore[attr-defined]


class Lying:
    """Where a tensor lay during the capture: a tensor over the same memory, until the tape is bound to other memory.

    Attributes
    ----------
    tensor : Tensor or None
        It lies there; None once `bound` says how it lies.
    bound : tuple
        The tape, and how it lies in a region of that.
    writes : bool
        Whether the call writes there.
    is_landing : bool
        Whether it writes there first of all.
    is_shared : bool
        Whether the call may get the memory itself, which nothing overwrites as long as somebody holds it.
    is_apart : bool
        Whether it is memory of which the rest of a replay may have a copy instead.
    """

    def __init__(self, tensor: Any, writes: bool = False, is_landing: bool = False) -> None:
        self.tensor = tensor
        self.bound: tuple[Any, ...] = ()
        self.writes = writes
        self.is_landing = is_landing
        self.is_shared = self.is_apart = False

    def bind(self, *bound: Any) -> None:
        """Lie in a region of a bound tape from now on."""
        self.tensor, self.bound = None, bound

    def now(self) -> Any:
        """A tensor that lies there now, or by a replay that is under way."""
        return self.tensor if self.tensor is not None else rt.tape_tensor(*self.bound)

    def given(self) -> Any:
        """What lies there, for a call: changes of it may or may not reach what lies there."""
        return self.now() if self.is_shared else self.now().clone()


def landed(value: Any) -> tuple[Any, Lying]:
    """A tensor of the tape's memory with the elements of one that a call made, and where it lies.

    To be called while the tape is paused: what makes the memory is a part of the capture, the copy is none.
    """
    with paused(False):
        place = rt.like(value, rt.field(value, _DTYPE), rt.field(value, _DEVICE), PRESERVED)
    rt.copy(place, rt.detach(value))
    return place, Lying(place, writes=True, is_landing=True)


# --- calls -----------------------------------------------------------------------------------------------------


class PythonCall:
    """A call on a tape.

    Attributes
    ----------
    function : callable
    others : list
        What it got besides tensors, numbers and texts.
    sees_changes : bool
        Whether what it keeps of a tensor changes with that, as in an eager call.
    drawn : Drawn or None
        The random numbers that it drew from the default generator.
    """

    sees_changes = False
    drawn: Drawn | None = None

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.others: list[Any] = []

    def functions(self) -> tuple[Any, ...]:
        """What a replay calls."""
        return (self.function,)

    def lying(self) -> Iterator[Lying]:
        """The places in memory that it knows."""
        return iter(())

    def leaves(self) -> Iterator[Any]:
        """The leaves that it gets as they are."""
        return iter(())

    def settle(self) -> None:
        """Let go of what belongs to the capture alone: the tape is bound."""

    def make(self, tape: Tape) -> None:
        """Make the call in a replay."""
        raise NotImplementedError

    def runner(self, tape: Tape) -> Callable[[], None]:
        """What makes the call in replays: the fastest way there is."""
        return partial(self.make, tape)

    def runner_there(self, tape: Tape) -> Callable[[], None]:
        """The same, with the random numbers that it drew."""
        run = self.runner(tape)
        return run if self.drawn is None else with_numbers(tape, self.drawn, run, self.diverged)

    def diverged(self, how: str) -> RuntimeError:
        """What is raised where a call does in a replay what it did not do during the capture."""
        return RuntimeError(
            f"replay(): the hook {self.function!r} {how} than during the capture; record again"
        )


class _Place:
    """A gradient that a hook got: where it lay, or which leaf it was and with what gradient."""

    def __init__(self, tensor: Any) -> None:
        self.leaf = tensor if is_leaf(tensor) else None
        if self.leaf is None:
            self.lying: Lying | None = Lying(rt.where_it_lies(tensor))
            self.is_alone = not rt.flags_of(tensor) & COPY_ON_WRITE
        else:
            self.grad = tensor.grad
            self.lying = None if self.grad is None else Lying(self.grad)

    @property
    def is_in_place(self) -> bool:
        """Whether a replay may give the gradient itself, and go on in a copy if somebody keeps it."""
        lying = self.lying
        return lying is not None and bool(lying.bound) and lying.is_apart

    def again(self) -> Any:
        if self.leaf is None:
            return self.lying.given() if self.is_alone else self.lying.now().clone()  # type: ignore[union-attr]
        grad = self.lying.now() if self.lying is not None else None
        if self.leaf.grad is not grad:
            self.leaf.grad = grad
        return self.leaf


def _again(place: Any) -> Any:
    return place.again() if isinstance(place, _Place) else place


class HookCall(PythonCall):
    """The call of a hook on gradients: what it returns, or does to its first argument, is what comes of it."""

    def __init__(self, hook: Callable[..., Any], args: tuple[Any, ...], first: int = 0) -> None:
        super().__init__(hook)
        self.args = mapped(lambda v: _Place(v) if isinstance(v, TensorBase) else v, args)
        self.others = [v for v in parts(args) if v is not None and not isinstance(v, TensorBase)]
        self.first = first
        self.outcome: list[Lying | None] = []

    def lying(self) -> Iterator[Lying]:
        """The places in memory that it knows."""
        yield from (place.lying for place in parts(self.args) if isinstance(place, _Place) and place.lying)
        yield from (lying for lying in self.outcome if lying)

    def leaves(self) -> Iterator[Any]:
        """The leaves that the hook got."""
        return (p.leaf for p in parts(self.args) if isinstance(p, _Place) and p.leaf is not None)

    def came_to(self, given: Any, value: Any, before: dict[int, int]) -> Any:
        """Note what the hook returned, or what it got and may have changed; what stands for that.

        `before`: the memory of each tensor that it got.
        """
        places = {id(t): p for t, p in zip(parts(given), parts(self.args[self.first]), strict=True)}

        def take(t: Any) -> Any:
            if not isinstance(t, TensorBase) or is_leaf(t):
                self.outcome.append(None)
                return t
            place = places.get(id(t))
            if place is not None and place.is_alone and before[id(t)] == rt.field(t, _STORAGE):
                self.outcome.append(place.lying)
                place.lying.writes = True
                return t
            fresh, lying = landed(t)
            self.outcome.append(lying)
            return fresh

        return mapped(take, value)

    def owns(self, tensor: Any, memory: Any, args: Any) -> None:
        """Note that the hook made one of its arguments own its memory, by a change or a view of it.

        Hooks that get the same tensor later see that memory. `memory`: where the tensor lay before the call.
        """
        changed = rt.where_it_lies(tensor)
        with paused(False):
            _set_apart(tensor, memory)
        rt.copy(tensor, changed)
        for t, place in zip(parts(args), parts(self.args), strict=True):
            if t is tensor:
                place.lying, place.is_alone = Lying(rt.where_it_lies(t), writes=True), True

    def make(self, tape: Tape) -> None:
        """Call the hook, and bring what comes of it to where it lay."""
        args = mapped(_again, self.args)
        result = self.function(*args)
        self.take(parts(args[self.first] if result is None else result))

    def take(self, found: list[Any]) -> None:
        """Bring what came of the hook to where it lay."""
        if len(found) != len(self.outcome):
            raise self.diverged("returned other gradients")
        for place, value in zip(self.outcome, found, strict=True):
            if place is None:
                if isinstance(value, TensorBase) and not is_leaf(value):
                    raise self.diverged("returned other gradients")
                continue
            kept = place.now()
            if not is_like(kept, value):
                raise self.diverged("returned other gradients")
            bring(value, kept)

    def runner(self, tape: Tape) -> Callable[[], None]:
        """What makes the call in replays: with the gradient itself, if it is one that nobody else sees."""
        places = [p for p in parts(self.args) if isinstance(p, _Place)]
        if not all(p.leaf is None and p.is_in_place for p in places):
            return self._over_leaf(tape, places) or partial(self.make, tape)
        hook, first = self.function, self.first
        firsts = [p.lying if isinstance(p, _Place) else None for p in parts(self.args[first])]
        stays = firsts == self.outcome  # what the hook does in place is done
        numbers = {id(p): k for k, p in enumerate(places)}
        holes = mapped(lambda v: Hole(numbers[id(v)]) if isinstance(v, _Place) else v, self.args)
        wheres: list[Any] = [
            (p.lying and p.lying.bound[1], OWN_HOLE if p.is_alone else ALIAS_HOLE) for p in places
        ]

        def take(result: Any, *args: Any) -> None:
            self.take(parts(args[first] if result is None else result))

        if (plan := quick(hook, holes, wheres, take, always=not stays)) is not None:
            return partial(rt.call_quickly, tape, plan)
        build = builder(holes)
        makers = [
            partial(rt.tape_tensor if kind == OWN_HOLE else rt.tape_alias, tape, w) for w, kind in wheres
        ]

        def run() -> None:
            args = build([make() for make in makers])
            result = hook(*args)
            if result is not None or not stays:
                take(result, *args)
            del args, result
            for where, _ in wheres:
                rt.keep_apart(tape, where)

        return run

    def _over_leaf(self, tape: Tape, places: list[_Place]) -> Callable[[], None] | None:
        """The same of a hook that gets one leaf, which has a gradient; None of others."""
        leaf, gradient = places[0].leaf, places[0].lying
        if len(places) != 1 or leaf is None or gradient is None or not gradient.bound:
            return None

        def check(result: Any, _: Any) -> None:
            if result is not leaf:
                raise self.diverged("returned something else")

        args = mapped(lambda v: Hole(0) if isinstance(v, _Place) else v, self.args)
        plan = quick(self.function, args, [((leaf, gradient.bound[1]), LEAF_HOLE)], check)
        return None if plan is None else partial(rt.call_quickly, tape, plan)


def bring(value: Any, place: Any) -> None:
    """Copy a tensor to another one, unless it lies there."""
    if rt.field(value, _DATA) != rt.field(place, _DATA):
        rt.copy(place, rt.detach(value))
    elif rt.steps(value) != rt.steps(place):
        rt.copy(place, value.detach().clone())


def _share_memory(value: Any) -> list[Any]:
    """The gradients in a value whose memory others see as well: a change would give them memory of their own."""
    return [t for t in parts(value) if isinstance(t, TensorBase) and rt.flags_of(t) & COPY_ON_WRITE]


def _has_history(value: Any) -> bool:
    """Whether something is a gradient that is differentiated itself, or a leaf with such a one."""
    if not isinstance(value, TensorBase):
        return False
    gradient: Any = value.grad if is_leaf(value) else value  # type: ignore[attr-defined]
    return gradient is not None and bool(gradient.requires_grad)


def _set_apart(tensor: Any, memory: Any) -> None:
    """Give a gradient a copy of some memory as its own, made by a launch of the tape.

    So what a hook does to it in place is all that comes of that, and a replay has nothing to copy behind the hook.
    Next to what computed the gradient such a launch costs little, or is fused with it.
    """
    place = rt.like(memory, rt.field(memory, _DTYPE), rt.field(memory, _DEVICE), PRESERVED)
    rt.copy(place, memory)
    rt.take_memory(tensor, place)


def record_hook(hook: Callable[..., Any], *args: Any, first: int = 0) -> Any:
    """Call a hook on gradients while a tape records that calls hooks again.

    Parameters
    ----------
    hook : callable
    *args
        What it gets.
    first : int
        Which argument holds the gradients that it may change or replace.
    """
    if getattr(hook, "calls_hooks", False):  # hooks of modules, which are calls of their own
        return hook(*args)
    tape = recording_tape()
    if tape is not None and any(map(_has_history, parts(args))):
        if not any(map(is_leaf, parts(args))):
            return with_history[0](hook, args, first)
        tape.refuse(f"a gradient with a history goes through {name_of(hook)}")
    if tape is None or tape.refused:
        return hook(*args)
    for t in _share_memory(args if state.rehearses else args[first]):
        _set_apart(t, rt.where_it_lies(t))
    with paused():
        call = HookCall(hook, args, first)
        before = {id(t): rt.field(t, _STORAGE) for t in parts(args) if isinstance(t, TensorBase)}
        shared = [(t, rt.where_it_lies(t)) for t in _share_memory(args)]
        result = None
        tape.show(hook, args)
        if not state.rehearses:
            result = hook(*args)
        given = args[first]
        value = given if result is None else result
        taken = call.came_to(given, value, before)
        if any(a is not b for a, b in zip(parts(taken), parts(value), strict=True)):
            result = taken
        for t, memory in shared:
            if not rt.flags_of(t) & COPY_ON_WRITE:
                call.owns(t, memory, args)
    append(tape, call)
    return result


def call_hook(hook: Callable[..., Any], *args: Any, first: int = 0) -> Any:
    """Call a hook on gradients, on a tape if one records."""
    return hook(*args) if recording_tape() is None else record_hook(hook, *args, first=first)


def append(tape: Tape | None, call: PythonCall) -> None:
    """Let a call stand on a tape that was paused for it."""
    if tape is not None:
        try:
            call.drawn = call.drawn or drawn_since(state.numbers)
        except ValueError:
            tape.refuse(f"{name_of(call.function)} seeds the default generator")
        if state.numbers[1:] != numbers_now()[1:]:  # no call can be given these again
            tape.refuse(f"{name_of(call.function)} draws random numbers of a GPU")
        tape._calls.append(call)
        rt.record_call(len(tape._calls) - 1)


class PlainCall(PythonCall):
    """A call that gets no tensors and gives none: it finds the gradients of leaves as they are at its place."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], tape: Tape) -> None:
        super().__init__(function)
        self.args = args
        self.others = parts(args)
        self._gradients: list[tuple[Any, Lying | None]] = []
        for leaf in tape.held_leaves:
            grad = rt.get_grad(leaf)
            self._gradients.append(
                (leaf, None if grad is None else Lying(rt.where_it_lies(grad), writes=True))
            )

    def lying(self) -> Iterator[Lying]:
        """The gradients that leaves have."""
        return (lying for _, lying in self._gradients if lying)

    def make(self, tape: Tape) -> None:
        """Call the function."""
        self.show_gradients()
        if self.function(*self.args) is not None:
            raise self.diverged("returned something else")

    def show_gradients(self) -> None:
        """Let leaves have the gradients that they had."""
        for leaf, lying in self._gradients:
            grad, there = rt.get_grad(leaf), None if lying is None else lying.now()
            if there is None:
                if grad is not None:
                    rt.set_grad(leaf, None)
            elif grad is None or rt.field(grad, _DATA) != rt.field(there, _DATA):
                rt.set_grad(leaf, there)


class CallbacksCall(PlainCall):
    """The end of a pass: calls what hooks of the replay have queued."""

    def __init__(self, tape: Tape) -> None:
        super().__init__(call_callbacks, (), tape)

    def make(self, tape: Tape) -> None:
        """Call what was queued, also what that queues."""
        self.show_gradients()
        queued = tape.values.get(CallbacksCall, [])
        while queued:
            queued.pop(0)()


def queue_in_replay(callback: Callable[[], Any]) -> bool:
    """Queue what is to be called at the end of the pass that a replay stands for; False outside of replays."""
    tape = state.tape
    if tape is None or not rt.tape_field(tape, _REPLAYING):
        return False
    if not any(isinstance(call, CallbacksCall) for call in tape._calls[tape.number :]):
        raise tape._calls[tape.number].diverged("queues a callback, other")
    tape.values.setdefault(CallbacksCall, []).append(callback)
    return True


def call_plain(function: Callable[..., Any], *args: Any) -> Any:
    """Call a hook that gets no tensors, on a tape if one records."""
    tape = recording_tape()
    if tape is None:
        return function(*args)
    call = PlainCall(function, args, tape)
    return _made(tape, call, lambda: function(*args))


def call_callbacks(callbacks: list[Callable[[], Any]]) -> None:
    """Call what is to be called at the end of a pass, also what that adds, on a tape if one records."""

    def run() -> None:
        for callback in callbacks:
            callback()

    tape = recording_tape()
    if tape is None:
        run()
    else:
        _made(tape, CallbacksCall(tape), run)


def _made(tape: Tape, call: PlainCall, function: Callable[[], Any]) -> Any:
    """Make a call for the first time, and let it stand on a tape."""
    with paused():
        tape.show(call.function, call.args)
        result = function()
    if result is not None:
        tape.refuse(f"the hook {call.function!r} returns other arguments")
    append(tape, call)
    return result


# --- replays ---------------------------------------------------------------------------------------------------


def _replay(tape: Tape, number: int) -> None:
    """Called by the runtime where a call stands on a tape, in the modes of the capture."""
    if number == 0:
        tape.begin_calls()
    tape.number = number
    try:
        tape.runners[number]()
    except BaseException:
        tape.end_calls()
        raise
    if number == tape.last_number:
        tape.end_calls(tape.keeps_values)
        tape.check_numbers()


# --- values ----------------------------------------------------------------------------------------------------


def _value_read() -> None:
    """Called by the runtime where Python reads a value that the tape of this thread has noted last."""
    tape = recorder() if recorder is not None else None
    if tape is not None:
        tape.show_value(rt.tape_field(tape, _VALUES) - 1, sys._getframe(1))


runtime_set_object("record_hook", record_hook)
runtime_set_object("replay_hook", _replay)
runtime_set_object("value_read", _value_read)
