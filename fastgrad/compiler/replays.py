"""A recorded call that later ones replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastgrad.compiler.differentiation import Backward, Call, CompiledFunction, FreedFunction
from fastgrad.compiler.guards import Guards, Walk
from fastgrad.compiler.programs import UnrecordableError
from fastgrad.compiler.recordings import Recording, has_history, is_freed, wants_gradient
from fastgrad.compiler.structure import HOLE, Flat, filled
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.records import RUNTIME

_DEFAULT_DTYPE = RUNTIME.fields["default_dtype"][0]


class Replay:
    """A recorded call that later ones replay.

    Parameters
    ----------
    recording : Recording
    walk : Walk
        What the function reached before the call.

    Attributes
    ----------
    n_calls : int
        How often it was replayed.
    first
        What the recorded call returns.
    is_plain : bool
        Whether what the function returns has no history, and holds no tensor that came or is held.
    gives_one : bool
        Whether it is a tensor, and plain.

    Raises
    ------
    UnrecordableError
        If the call did what a replay does not do.
    """

    def __init__(self, recording: Recording, walk: Walk) -> None:
        recording.check()
        result = Flat(recording.result)
        if result.objects:
            raise UnrecordableError(f"it returns a {type(result.objects[0]).__name__}")
        self._structure = result.structure
        around = [before.tensor for before in (*recording.given, *recording.held)]
        places = {id(t): k for k, t in reversed(list(enumerate(around)))}
        self._same = [places.get(id(t)) for t in result.tensors]
        own = [t for t, place in zip(result.tensors, self._same, strict=True) if place is None]
        if any(wants_gradient(t) and not has_history(t) for t in own):
            raise UnrecordableError("it returns a new leaf that requires gradients")
        self._n_own = len(own)
        self._with_history = [k for k, t in enumerate(own) if has_history(t)]
        self._wanted = [k for k, t in enumerate(around) if wants_gradient(t)]
        self._backward: Backward | None = None
        outputs = [own[k] for k in self._with_history]
        if outputs and not is_freed(outputs):
            self._backward = Backward(recording, outputs, [around[k] for k in self._wanted])
        saved = self._backward.saved if self._backward else []
        modes = rt.get_mode(), rt.word(_DEFAULT_DTYPE)
        recording.refuse_shared(outputs)
        self.bound = recording.bind([*own, *saved], modes=modes)
        self.guards = Guards(walk)
        self.n_calls = 0
        self.tape, self.objects = self.bound.tape, self.bound.objects
        self.is_plain = not self._with_history and all(place is None for place in self._same)
        self.gives_one = self.is_plain and self._structure is HOLE
        given = tuple(before.tensor for before in recording.given)
        self.first = self._result(given, [*map(rt.where_it_lies, own), *saved])

    def call(self, given: tuple[Any, ...]) -> tuple[bool, Any]:
        """Replay: whether that is possible, and what the function returns or why it is not."""
        with self.bound.lock:
            answer = self.bound.call(given)
            if type(answer) is int:
                return False, self.bound.refusal(answer)
            self.n_calls += 1
            return True, self.filled(answer) if self.is_plain else self._result(given, answer)

    def filled(self, answer: Sequence[Any]) -> Any:
        """What the function returns where that has no history, and holds no tensor of the arguments."""
        return filled(self._structure, answer)

    def _result(self, given: Sequence[Any], answer: Sequence[Any]) -> Any:
        own, around = list(answer[: self._n_own]), (*given, *self.bound.objects)
        if self._with_history:
            outputs = tuple(own[k] for k in self._with_history)
            wanted = [around[k] for k in self._wanted]
            attached: Any
            if self._backward is None:
                attached = FreedFunction.apply(outputs, *wanted)
            else:
                memory = (*(around[k] for k in self._backward.reads), *answer[self._n_own :])
                call = Call(self._backward, outputs, memory, rt.tape_numbers(self.bound.tape))
                attached = CompiledFunction.apply(call, *wanted)
            attached = attached if len(outputs) > 1 else (attached,)
            for k, t in zip(self._with_history, attached, strict=True):
                own[k] = t
        left = iter(own)
        tensors = [next(left) if place is None else around[place] for place in self._same]
        return filled(self._structure, tensors)
