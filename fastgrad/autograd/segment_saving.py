"""What calls on a tape save for backward while hooks on saved tensors are in force around them.

A replay makes such a call with the same pair of hooks in force. A checkpoint's own hooks are another matter, as what
they do stands on the tape: a tensor that a call of the first run saves is held by the call that corresponds to it in
the second run. So during a capture these hooks are asked, and which call holds what is noted; in replays `Saving` keeps
what calls of a second run save among the values of the replay, where the backward of the first run's calls finds it.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from fastgrad.autograd.saved import pair_in_force, saved_tensors_hooks
from fastgrad.native.build.loader import rt
from fastgrad.native.host.hook_calls import paused
from fastgrad.native.host.saved_calls import UnrehearsableError, as_pass, is_launched_again, runs_of


class Ended(BaseException):
    """Ends a call of a second run that has saved all that is needed."""


class _Box:
    """What a call of a first run saved, in one replay: by number while its backward is under way."""

    def __init__(self) -> None:
        self.values: dict[int, Any] = {}


class _Kept:
    """Stands in the graph of a call for a tensor that it saved.

    Attributes
    ----------
    box : _Box
    number : int
    slot
        During a capture what the checkpoint's pack hook returned.
    """

    def __init__(self, box: _Box, number: int, slot: Any = None) -> None:
        self.box, self.number, self.slot = box, number, slot


class HooksInForce:
    """A pair of hooks of the program's around a call: a replay calls it with them in force.

    Attributes
    ----------
    pair : tuple of callable
    is_seen : bool
        Whether a replay may not make the call without them.
    stops : bool
        Whether a second run ended within the call.
    is_of_checkpoint : bool
    """

    is_seen = True
    stops = is_of_checkpoint = False

    def __init__(self, pair: Any) -> None:
        self.pair = pair

    def first_call(self, make: Callable[[], Any], tape: Any) -> Any:
        """Make the call of a capture."""
        for hook in self.pair:
            tape.show(hook, ())
        return make()

    def call(self, make: Callable[[], Any], tape: Any) -> Any:
        """Make the call of a replay."""
        with saved_tensors_hooks(*self.pair):
            return make()

    def functions(self) -> tuple[Any, ...]:
        """The hooks, which a replay may call."""
        return self.pair  # type: ignore[no-any-return]

    def unpacking(
        self, tape: Any, number: int, sources: dict[int, Any]
    ) -> contextlib.AbstractContextManager[Any]:
        """A block in which the graph of a call is differentiated."""
        return contextlib.nullcontext()

    def unpack_all(self, tape: Any, sources: dict[int, Any]) -> None:
        """Let a second run fill what the call saved, for a pass that does not ask for it."""

    def filled(self, tape: Any, sources: dict[int, Any]) -> contextlib.AbstractContextManager[Any]:
        """A block in which the graph of a replay is differentiated."""
        return contextlib.nullcontext()

    def made(self, call: Any) -> None:
        """A call of a capture was made."""

    def counterpart(self, function: Any) -> Any:
        """The call of the first run that corresponds to one of the second run which is made next.

        Raises
        ------
        UnrehearsableError
        """
        raise UnrehearsableError("hooks or custom functions are called in a way that is not known before")

    def save_as(self, first: Any, tape: Any) -> None:
        """Hand over what a call of the first run saved, as this one, which is not made, would."""

    def settle(self) -> None:
        """Let go of what belongs to the capture alone."""


class NoHooks(HooksInForce):
    """No hooks around a call."""

    is_seen = False

    def call(self, make: Callable[[], Any], tape: Any) -> Any:
        """Make the call of a replay."""
        return make()


class Saving(HooksInForce):
    """The hooks of a checkpoint around a call.

    Attributes
    ----------
    is_second : bool
        Whether it is a call of a second run, which holds what another one of the first run saved.
    tensors : list of Tensor
        During a capture what the call saved.
    """

    is_of_checkpoint = True

    def __init__(self, pair: Any, diverged: Callable[[str], Exception]) -> None:
        super().__init__(pair)
        self.run = runs_of(pair[0])
        self.is_second = self.run.first is not None
        self.tensors: list[Any] = []
        self.n = 0
        self._diverged = diverged
        self._slots: list[Any] = []
        self._box = _Box()
        self._under_way: Any = (None, 0, {})

    @property
    def is_seen(self) -> bool:  # type: ignore[override]
        """Whether a replay may not make the call without them."""
        return self.n > 0

    def functions(self) -> tuple[Any, ...]:
        """None: what they do stands on the tape."""
        return ()

    def settle(self) -> None:
        """Let go of what belongs to the capture alone."""
        self.pair = self.run = None
        self.tensors, self._slots = [], []

    # --- captures ----------------------------------------------------------------------------------------------

    def first_call(self, make: Callable[[], Any], tape: Any) -> Any:
        """Make the call of a capture."""
        tape.values[self] = self._box
        tape.runs_again = True
        with saved_tensors_hooks(lambda tensor: self.save(tensor, tape), self._unpack):
            return make()

    def save(self, tensor: Any, tape: Any) -> Any:
        """Hand a tensor that the call saves over to the checkpoint; what stands for it."""
        value = rt.detach(tensor) if self.is_second or tensor.requires_grad else tensor
        number = self.n
        self.n += 1
        self.tensors.append(value)
        if not self.is_second:
            self._slots.append(self.pair[0](value))
            return _Kept(self._box, number, self._slots[-1])
        tape.saved[id(value)] = value, self, number
        try:
            self.pair[0](value)
        except BaseException:
            self.stops = True
            raise
        return value

    def save_as(self, first: Any, tape: Any) -> None:
        """Hand over what a call of the first run saved, as this one, which is not made, would."""
        for tensor in first.tensors:
            self.save(tensor, tape)

    def _unpack(self, kept: Any) -> Any:
        """What the graph of the capture asks for."""
        if type(kept) is not _Kept:
            return kept
        if kept.number in kept.box.values:  # the result of the capture is that of its first replay
            return kept.box.values.pop(kept.number)
        tape, number, sources = self._under_way
        if number == 0:
            return self.pair[1](kept.slot)
        if tape is None:
            with as_pass(number):
                return self.pair[1](kept.slot)
        with paused(False), as_pass(number):
            value = self.pair[1](kept.slot)
        self._note(tape, kept.number, value, sources)
        return value

    def _note(self, tape: Any, number: int, value: Any, sources: dict[int, Any]) -> None:
        """Note which call of a second run holds a tensor that this one saved."""
        if (found := tape.saved.get(id(value))) is None:
            tape.refuse("the second run of a checkpoint saves otherwise than by the same call")
        else:
            sources[number] = found[1:]

    def made(self, call: Any) -> None:
        """A call of a capture was made."""
        self.run.calls.append(weakref.ref(call))  # of a tape, whose graph may hold the run

    def counterpart(self, function: Any) -> Any:
        """The call of the first run that corresponds to one of the second run which is made next.

        Raises
        ------
        UnrehearsableError
        """
        if not self.is_second:
            raise UnrehearsableError("a checkpoint within another one calls hooks or custom functions")
        number = len(self.run.calls)
        self.run.calls.append(None)
        calls = self.run.first.calls
        found = calls[number]() if number < len(calls) else None
        if found is None or found.function != function:
            raise UnrehearsableError("a checkpoint's function calls something else in its second run")
        return found

    @contextlib.contextmanager
    def unpacking(self, tape: Any, number: int, sources: dict[int, Any]) -> Iterator[None]:
        """A block in which the graph of the capture is differentiated, in the pass of a number."""
        before, self._under_way = self._under_way, (tape, number, sources)
        try:
            yield
        finally:
            self._under_way = before

    def unpack_all(self, tape: Any, sources: dict[int, Any]) -> None:
        """Let a second run fill what the call saved, for a pass that does not ask for it."""
        for k, slot in enumerate(self._slots):
            self._note(tape, k, self.pair[1](slot), sources)

    # --- replays -----------------------------------------------------------------------------------------------

    def call(self, make: Callable[[], Any], tape: Any) -> Any:
        """Make the call of a replay.

        Raises
        ------
        Ended
            Where that of the capture ended.
        """
        values: list[Any] = []
        box = _Box()

        def pack(tensor: Any) -> Any:
            number = len(values)
            if number >= self.n:
                raise self._diverged("saves other tensors")
            if not self.is_second:
                values.append(None)
                return _Kept(box, number)
            values.append(rt.detach(tensor) if tensor.requires_grad else tensor)
            if self.stops and number == self.n - 1:
                raise Ended
            return values[number]

        def unpack(kept: Any) -> Any:
            if type(kept) is not _Kept:
                return kept
            if kept.number not in box.values:
                raise self._diverged("reads what it saved at another time")
            return box.values.pop(kept.number)

        tape.values[self] = values if self.is_second else box
        with saved_tensors_hooks(pack, unpack):
            result = make()
        if self.stops or len(values) != self.n:
            raise self._diverged("saves other tensors")
        return result

    @contextlib.contextmanager
    def filled(self, tape: Any, sources: dict[int, Any]) -> Iterator[None]:
        """A block in which the graph of a replay finds what the call saved where second runs hold it."""
        if not sources:
            yield
            return
        box = tape.value_of(self)
        box.values = {number: tape.value_of(second)[k] for number, (second, k) in sources.items()}
        try:
            yield
        finally:
            box.values = {}


def hooks_in_force(diverged: Callable[[str], Exception]) -> HooksInForce:
    """What a call has around it that a tape notes."""
    pair = pair_in_force()
    if pair is None:
        return NoHooks(())
    return Saving(pair, diverged) if is_launched_again(pair[0]) else HooksInForce(pair)
