"""Second derivatives of calls that were replayed: the function is called again, with a graph.

A replay leaves no graph behind, and its backward tape is differentiated by nobody. A pass that is to be differentiated
itself calls the function once more instead, for the same tensors and with the same random numbers, and goes through the
graph of that. So it may only be done where a second call is not seen, and where all is as it was at the first one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from fastgrad.autograd.segment_inputs import behind_boundary
from fastgrad.compiler.guards import Guards
from fastgrad.compiler.recordings import Recording
from fastgrad.compiler.structure import Flat
from fastgrad.native.build.loader import ContextBase, rt
from fastgrad.native.contracts.flags import AUTOCAST_STATE, CREATE_GRAPH, FILTERED, KEEP_GRAPH, REHEARSAL
from fastgrad.native.contracts.records import RUNTIME, TENSOR
from fastgrad.random import numbers_from

_DATA = TENSOR.fields["data"][0]
_DEFAULT_DTYPE = RUNTIME.fields["default_dtype"][0]


def seal_of(tensors: Sequence[Any]) -> tuple[int, ...]:
    """Where tensors lie, and how often they were changed: other numbers where one of them was changed."""
    return (*(rt.version(t) for t in tensors), *(rt.field(t, _DATA) for t in tensors))


class Again:
    """Calls once more a function whose calls are replayed.

    Parameters
    ----------
    function : callable
        Gets the tensors that came with a call, and returns what the function returns.
    recording : Recording
    guards : Guards
    outputs : list of int
        Which tensors of a result have a history.

    Attributes
    ----------
    wanted : list of int
        To which tensors, of those that come and those that are held, gradients go.
    kept : list of int
        Which of the tensors with a history keep their gradients.
    free : set of int
        Which of the tensors, of those that come and those that are held, may change before a second call.
    """

    def __init__(
        self,
        function: Callable[[Sequence[Any]], Any],
        recording: Recording,
        guards: Guards,
        outputs: list[int],
    ) -> None:
        self._function = function
        self._guards = guards
        self._outputs = outputs
        self._held = [before.tensor for before in recording.held]
        self._modes = ContextBase()
        on = rt.get_mode() & AUTOCAST_STATE
        self._modes._on, self._modes._off = on, AUTOCAST_STATE & ~on
        self._dtype = rt.word(_DEFAULT_DTYPE)
        self._refused = _why_not(recording)
        self.wanted: list[int] = []
        self.kept: list[int] = []
        self.free: set[int] = set()

    def seal(self, given: Sequence[Any]) -> tuple[int, ...]:
        """The seal of what came with a call and of what is held."""
        return seal_of([t for k, t in enumerate((*given, *self._held)) if k not in self.free])

    def gradients(
        self,
        gradients: Sequence[Any],
        given: Sequence[Any],
        seal: tuple[int, ...],
        numbers: Sequence[tuple[int, ...]],
    ) -> tuple[list[Any], list[Any]]:
        """The gradients of what is wanted, with a history, from those of the outputs; those that outputs keep.

        `given`: what came with the call; `seal`: that of all tensors then; `numbers`: devices, and where their random
        numbers began.
        """
        if why := self._refused or self._changed(given, seal):
            raise RuntimeError(
                f"a backward pass through a compiled function cannot be differentiated again (create_graph=True), as "
                f"{why}; call the function itself, which is the attribute __wrapped__ of the compiled one"
            )
        inputs = behind_boundary(list(given))
        with contextlib.ExitStack() as drawing, self._modes:
            for device, seed, offset in numbers:
                drawing.enter_context(numbers_from((seed % (1 << 64), offset), device))
            tensors = Flat(self._function(inputs)).tensors
        outputs = [tensors[k] for k in self._outputs]
        around = (*inputs, *self._held)
        pairs = [(o, g) for o, g in zip(outputs, gradients, strict=True) if g is not None]
        found = rt.run_pass(
            [o for o, _ in pairs],
            [g for _, g in pairs],
            [around[k] for k in self.wanted],
            CREATE_GRAPH | FILTERED | KEEP_GRAPH | REHEARSAL,
        )
        if not isinstance(found, tuple):
            raise RuntimeError("too many backward passes are under way in this thread")
        return list(found), [rt.get_grad(outputs[k]) for k in self.kept]

    def _changed(self, given: Sequence[Any], seal: tuple[int, ...]) -> str:
        """What is not as it was at the call; empty if all is."""
        if self.seal(given) != seal:
            return "a tensor that it reads was changed after the call"
        if rt.word(_DEFAULT_DTYPE) != self._dtype:
            return "the default dtype is another one than at the call"
        return self._guards.first_change()


def _why_not(recording: Recording) -> str:
    """Why a second call would be seen; empty if it would not."""
    around = [*recording.given, *recording.held]
    if recording.tape._calls:
        return "it calls hooks or custom functions"
    if recording.reaches_given:
        return "an argument is a tensor that it also reaches otherwise"
    if any(rt.version(b.tensor) != b.version for b in around):
        return "it changes a tensor from outside"
    if any(rt.get_grad(b.tensor) is not (b.gradient.tensor if b.gradient else None) for b in around):
        return "it changes gradients"
    return ""
