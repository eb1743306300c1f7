"""A recorded call that later ones replay."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fastgrad.compiler.again import Again
from fastgrad.compiler.differentiation import Backward, Call, CompiledFunction, FreedFunction
from fastgrad.compiler.gpu_guards import GpuGuards
from fastgrad.compiler.guards import Guards, Walk
from fastgrad.compiler.options import brought_options
from fastgrad.compiler.programs import OnceError, UnrecordableError, storage_of
from fastgrad.compiler.recordings import Graph, Recording, has_history, wants_gradient
from fastgrad.compiler.structure import HOLE, Flat, GivenBack, filled, foreign_class
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.flags import RETAINS_GRAD
from fastgrad.native.contracts.records import RUNTIME

_DEFAULT_DTYPE = RUNTIME.fields["default_dtype"][0]


class Replay:
    """A recorded call that later ones replay.

    Parameters
    ----------
    recording : Recording
    walk : Walk
        What the function reached before the call.
    function : callable
        Calls the function with the tensors that came with a call.

    Attributes
    ----------
    n_calls : int
        How often it was replayed.
    first
        What the recorded call returns.
    finished : callable
        What the function returns, from the tensors that came and from what the tape gave back.
    is_quick : bool
        Whether that may be asked for without the lock: the numbers that a call drew do not belong to the result.

    Raises
    ------
    UnrecordableError
        If the call did what a replay does not do.
    """

    def __init__(self, recording: Recording, walk: Walk, function: Callable[[Sequence[Any]], Any]) -> None:
        recording.check()
        self.guards = (GpuGuards if recording.uses_gpus else Guards)(walk)
        if change := self.guards.first_change():
            _rehearse_hooks(recording)
            raise OnceError(f"the call changed something that it reaches: {change}")
        result = Flat(recording.marked)
        of_tensors = _returned(result)
        self._structure = result.structure
        around = [before.tensor for before in (*recording.given, *recording.held)]
        places = {
            id(t): k for k, t in reversed(list(enumerate(around)))
        }  # the first of one that came more than once
        self._same = [places.get(id(t)) for t in result.tensors]
        own = [t for t, place in zip(result.tensors, self._same, strict=True) if place is None]
        tensors = [(k, t) for k, t in enumerate(own) if not isinstance(t, GivenBack)]
        if any(wants_gradient(t) and not has_history(t) for _, t in tensors):
            raise UnrecordableError("it returns a new leaf that requires gradients")
        self._n_own = len(own)
        self._with_history = [k for k, t in tensors if has_history(t)]
        self._wanted = sorted(k for k in places.values() if wants_gradient(around[k]))
        self._backward: Backward | None = None
        outputs = [own[k] for k in self._with_history]
        wanted = [around[k] for k in self._wanted]
        graph = Graph(outputs, wanted)
        if outputs and not graph.is_freed:
            self._backward = Backward(recording, outputs, wanted, graph.states)
            self._wanted = [self._wanted[k] for k in self._backward.order]
        self._kept = [k for k, t in enumerate(outputs) if rt.flags_of(t) & RETAINS_GRAD]
        gradients = _gradients_of([t for _, t in tensors])
        self._graded = [k for (k, _), g in zip(tensors, gradients, strict=True) if g is not None]
        left = [g for g in gradients if g is not None]
        saved = self._backward.saved if self._backward else []
        modes = rt.get_mode(), rt.word(_DEFAULT_DTYPE)
        recording.refuse_shared(outputs)
        drawing = recording.drawing() if self._backward is not None else set()  # before launches become one
        options = brought_options(recording, walk)
        histories = [k for k, t in enumerate(of_tensors) if id(t) not in places and has_history(t)]
        self._again = Again(function, recording, self.guards, histories)
        self._again.wanted, self._again.kept = self._wanted, self._kept
        self.bound = recording.bind([*own, *left, *saved], modes=modes, options=options)
        states = set(map(storage_of, graph.states))
        self._again.free = {k for k in self.bound.untouched if storage_of(around[k]) in states}
        self.guards.release(options)
        self.n_calls = 0
        self.tape, self.objects = self.bound.tape, self.bound.objects
        self._is_plain = not self._with_history and not left and all(place is None for place in self._same)
        self._drawing = sorted(drawing | self._backward.drawing) if self._backward is not None else []
        self.finished: Callable[[Sequence[Any], Sequence[Any]], Any] = self._result
        if self._is_plain:
            self.finished = _first if self._structure is HOLE else self._filled
        if self._is_plain and self._structure is None:
            self.finished = _nothing
        self.tape.keeps_values = self._backward is not None and bool(self.tape._calls)
        self.is_quick = not (self._drawing or self.tape.keeps_values or recording.reads_values)
        given = tuple(before.tensor for before in recording.given)
        first = [t.value if isinstance(t, GivenBack) else rt.where_it_lies(t) for t in (*own, *left)]
        self.first = self._result(given, [*first, *saved])
        self.tape.values = {}

    def call(self, given: tuple[Any, ...]) -> tuple[bool, Any]:
        """Replay: whether that is possible, and what the function returns or why it is not."""
        with self.bound.lock:
            answer = self.bound.call(given)
            if type(answer) is int:
                return False, self.bound.refusal(answer)
            self.n_calls += 1
            result = self.finished(given, answer)
            if self.tape.keeps_values:
                self.tape.values = {}
            return True, result

    def _filled(self, _: Sequence[Any], answer: Sequence[Any]) -> Any:
        return filled(self._structure, answer)

    def _result(self, given: Sequence[Any], answer: Sequence[Any]) -> Any:
        own, around = list(answer[: self._n_own]), (*given, *self.bound.held)
        if self._with_history:
            outputs = tuple(own[k] for k in self._with_history)
            wanted = [around[k] for k in self._wanted]
            attached: Any
            if self._backward is None:
                attached = FreedFunction.apply(outputs, *wanted)
            else:
                memory = (
                    *(around[k] for k in self._backward.reads),
                    *answer[self._n_own + len(self._graded) :],
                )
                numbers = [rt.tape_numbers(self.bound.tape, device) for device in self._drawing]
                again = partial(
                    self._again.gradients, given=tuple(given), seal=self._again.seal(given), numbers=numbers
                )
                call = Call(self._backward, outputs, memory, numbers, self.tape.values, again)
                attached = CompiledFunction.apply(call, *wanted)
            attached = attached if len(outputs) > 1 else (attached,)
            for k, t in zip(self._with_history, attached, strict=True):
                own[k] = t
            for k in self._kept:
                attached[k].retain_grad()
                if self._backward is not None:
                    rt.keep_late(attached[k].grad_fn)
        for k, gradient in zip(self._graded, answer[self._n_own :], strict=False):
            rt.set_grad(own[k], gradient)
        left = iter(own)
        tensors = [next(left) if place is None else around[place] for place in self._same]
        return filled(self._structure, tensors)


def _returned(result: Flat) -> list[Any]:
    """The tensors in a result.

    Raises
    ------
    UnrecordableError
        If it holds what no replay makes.
    """
    if result.objects:
        raise UnrecordableError(f"it returns a {type(result.objects[0]).__name__}")
    found = [t for t in result.tensors if not isinstance(t, GivenBack)]
    if foreign := foreign_class(found):
        raise UnrecordableError(f"it returns a {foreign}, a class of tensors of the program's own")
    return found


def _gradients_of(tensors: Sequence[Any]) -> list[Any]:
    """The gradients that tensors have which a call made, None of those without."""
    found = [rt.get_grad(t) for t in tensors]
    if any(g is not None and wants_gradient(g) for g in found):
        raise UnrecordableError("it leaves gradients with a history (create_graph=True)")
    return found


def _rehearse_hooks(recording: Recording) -> None:
    """Find the hooks of the backward pass as well: it may be their state that changes."""
    outputs = [t for t in Flat(recording.result).tensors if has_history(t)]
    wanted = [b.tensor for b in (*recording.given, *recording.held) if wants_gradient(b.tensor)]
    with contextlib.suppress(UnrecordableError):
        if outputs and not (graph := Graph(outputs, wanted)).is_freed:
            Backward(recording, outputs, wanted, graph.states)


def _first(_: Sequence[Any], answer: Sequence[Any]) -> Any:
    return answer[0]


def _nothing(_: Sequence[Any], answer: Sequence[Any]) -> None:
    """What a function returns that returns None."""
