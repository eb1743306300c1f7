"""Calls of saved-tensor hooks on tapes: see `hook_calls`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.host.call_arguments import is_like
from fastgrad.native.host.hook_calls import (
    Lying,
    PythonCall,
    append,
    landed,
    paused,
    recording_tape,
    state,
)

if TYPE_CHECKING:
    from fastgrad.native.host.tape import Tape


class Packed:
    """What a pack hook returned during a capture.

    Attributes
    ----------
    value
    call : PackCall
    """

    def __init__(self, value: Any, call: PackCall) -> None:
        self.value = value
        self.call = call


class PackCall(PythonCall):
    """The call of a pack hook: what it returns belongs to the replay."""

    def __init__(self, pack: Callable[[Any], Any], tensor: Any) -> None:
        super().__init__(pack)
        self.wants = bool(tensor.requires_grad)
        self.place = Lying(rt.where_it_lies(tensor))
        self.tensor = rt.where_it_lies(tensor)

    def lying(self) -> Iterator[Lying]:
        """The place in memory that it knows."""
        yield self.place

    def settle(self) -> None:
        """Let go of what belongs to the capture alone: the tape is bound."""
        self.tensor = None

    def make(self, tape: Tape) -> None:
        """Pack."""
        tensor = self.place.given()
        tape.values[self] = self.function(tensor.requires_grad_() if self.wants else tensor)


class UnpackCall(PythonCall):
    """The call of an unpack hook."""

    def __init__(self, unpack: Callable[[Any], Any], packed: PackCall, place: Lying) -> None:
        super().__init__(unpack)
        self.packed = packed
        self.place = place

    def lying(self) -> Iterator[Lying]:
        """The place in memory that it knows."""
        yield self.place

    def make(self, tape: Tape) -> None:
        """Unpack what was packed in this replay, or in the call that the tape differentiates."""
        value = self.function(tape.value_of(self.packed))
        if not is_like(self.place.now(), value):
            raise self.diverged("returned another tensor")
        rt.copy(self.place.now(), rt.detach(value))


def launches_again(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Let a hook on saved tensors be no call on tapes: what it launches stands there, and says all that it does.

    It is a method of a run of a checkpoint's function, which has the attributes `calls`, a list of calls on tapes that
    were made in it, and `first`: for a second run the first one, else None. One that unpacks does so for `pass_of`.
    """
    hook.launches_again = True  # type: ignore[attr-defined]
    return hook


def is_launched_again(hook: Callable[..., Any]) -> bool:
    """Whether a hook on saved tensors is no call on tapes."""
    return getattr(hook, "launches_again", False)


def runs_of(hook: Any) -> Any:
    """The run of a checkpoint's function that such a hook belongs to."""
    return hook.__self__


@contextlib.contextmanager
def as_pass(number: int) -> Iterator[None]:
    """A block in which the pass under way, which is within another one and a part of it, counts as that."""
    inner = rt.current_pass()
    state.parts[inner] = number
    try:
        yield
    finally:
        state.parts.pop(inner, None)


def pass_of(number: int) -> int:
    """The pass that a pass is a part of, or that itself."""
    return state.parts.get(number, number)


def number_of(tensor: Any) -> Any:
    """The number of Python's that a tensor stands for in a graph: for a tape no value that is read."""
    if recording_tape() is None:
        return tensor.item()
    with paused():
        return tensor.item()


class UnrehearsableError(Exception):
    """A backward pass that is rehearsed would call Python, and what comes of that is not known."""


def _calling_tape(hook: Callable[..., Any]) -> Any:
    """The tape on which the call of a hook goes, or None."""
    tape = recording_tape()
    if tape is None or not is_launched_again(hook):
        return tape
    tape.runs_again = True
    return None


def call_pack(pack: Callable[[Any], Any], tensor: Any) -> Any:
    """Call a pack hook, on a tape if one records."""
    tape = _calling_tape(pack)
    if tape is None:
        return pack(tensor)
    if state.rehearses:
        raise UnrehearsableError("hooks on saved tensors are in force within a checkpoint")
    with paused():
        tape.show(pack, (tensor,))
        call = PackCall(pack, tensor)
        value = Packed(pack(tensor), call)
    tape.values[call] = value.value
    append(tape, call)
    return value


def call_unpack(unpack: Callable[[Any], Any], value: Any) -> Any:
    """Call an unpack hook with what a pack hook returned, on a tape if one records."""
    if type(value) is not Packed:
        return unpack(value)
    tape = _calling_tape(unpack)
    if tape is None:
        return unpack(value.value)
    with paused():
        tape.show(unpack, ())
        result = value.call.tensor if state.rehearses else unpack(value.value)
        if not isinstance(result, TensorBase):
            return result
        result, place = landed(result)
    append(tape, UnpackCall(unpack, value.call, place))
    return result
