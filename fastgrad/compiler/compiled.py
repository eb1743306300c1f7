"""`compile`: functions whose calls are recorded once and then replayed."""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from fastgrad.compiler.code_names import Entered, key_of
from fastgrad.compiler.guards import Walk, Wrapper
from fastgrad.compiler.programs import OnceError, UnrecordableError
from fastgrad.compiler.recordings import CaptureUnderWayError, Recording, parameters_of
from fastgrad.compiler.replays import Replay
from fastgrad.compiler.returned import Reads
from fastgrad.compiler.structure import Flat, filled, foreign_class
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.element_types import DTYPES
from fastgrad.native.contracts.flags import (
    ANOMALY,
    COMPILED_PASSES,
    EAGER_PASSES,
    MUTATION_HOOKS,
    NODE_HOOKS,
    SAVED_HOOKS,
)
from fastgrad.native.contracts.records import RUNTIME, TENSOR
from fastgrad.native.host.hook_calls import name_of
from fastgrad.nn.parameter import Parameter
from fastgrad.tensor import Tensor

MOST_RECORDINGS = 8
"""Of calls that look alike: if none of so many can be replayed, such calls run eagerly."""
MOST_SIGNATURES = 64
"""Of a function: calls that look otherwise than so many others run eagerly."""
_DEFAULT_DTYPE, _CHOSEN = (RUNTIME.fields[name][0] for name in ("default_dtype", "chosen_devices"))
_DTYPE = TENSOR.fields["dtype"][0]
_REFUSED_MODES = {
    SAVED_HOOKS: "saved-tensor hooks are in force",
    NODE_HOOKS: "node hooks are in force",
    MUTATION_HOOKS: "somebody wants to know of changes in place",
    ANOMALY: "anomaly mode is on",
}
_PLAIN = frozenset({Tensor, Parameter})
"""Classes of tensors that calls may bring which take the short way."""
_ANY_REFUSED = functools.reduce(int.__or__, _REFUSED_MODES)


class Signature:
    """Calls that look alike: what was recorded of them.

    Attributes
    ----------
    arguments : str
        What they bring.
    objects : list
        What stands among the arguments by its identity.
    replays : list of Replay
        The one that was used last comes first.
    n_recorded, n_eager : int
        How many calls were recorded, and how many not even that.
    n_in_vain : int
        How many were recorded since the last one that was replayed.
    refused : str
        Why such calls are not replayed; empty where they are.
    missed : str
        Why the last call that was not replayed was not.
    called : dict
        Hooks that recorded calls have called, by their identity, or by their code where each call makes one.
    direct : set
        The keys of those that are called by other code as well, which may decide by what they hold.
    """

    def __init__(self, arguments: str, objects: list[Any]) -> None:
        self.arguments = arguments
        self.objects = objects
        self.replays: list[Replay] = []
        self.n_recorded = 0
        self.n_in_vain = 0
        self.n_eager = 0
        self._n_forgotten = 0
        self.refused = ""
        self.missed = ""
        self.called: dict[int, Any] = {}
        self.direct: set[int] = set()

    @property
    def n_replayed(self) -> int:
        """How many calls were replayed."""
        return self._n_forgotten + sum(replay.n_calls for replay in self.replays)

    def add(self, replay: Replay) -> None:
        """Keep a recording, and forget the one that was not used for longest where there are too many."""
        self.replays.insert(0, replay)
        for old in self.replays[MOST_RECORDINGS:]:
            self._n_forgotten += old.n_calls
        del self.replays[MOST_RECORDINGS:]

    def find(self, given: tuple[Any, ...]) -> tuple[bool, Any]:
        """Replay what fits: whether anything does, and the result."""
        for k, replay in enumerate(self.replays):
            if not replay.guards.hold():
                continue
            done, result = replay.call(given)
            if done:
                self.n_in_vain = 0
                if k:
                    self.replays.insert(0, self.replays.pop(k))
                return True, result
            self.missed = result
        return False, None


_all: weakref.WeakSet[Compiled] = weakref.WeakSet()
_recording = threading.local()


def is_recording() -> bool:
    """Whether the calling thread records a call."""
    return getattr(_recording, "depth", 0) > 0


def forget_all() -> None:
    """Let every compiled function forget what was recorded."""
    for function in list(_all):
        function.forget()


def _described(flat: Flat) -> str:
    tensors = [f"{DTYPES[rt.field(t, _DTYPE)]}{list(rt.sizes(t))}" for t in flat.tensors]
    others = [] if flat.only_tensors else [repr(flat.structure)]
    return ", ".join([*tensors, *others]) or "no arguments"


def _taken_apart(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Flat:
    return Flat((args, kwargs)) if kwargs else Flat(args)


def _called(function: Callable[..., Any], flat: Flat, has_keywords: bool, tensors: Sequence[Any]) -> Any:
    """Call a function as arguments say that were taken apart, with other tensors."""
    found = filled(flat.structure, tensors)
    args, kwargs = found if has_keywords else (found, {})
    return function(*args, **kwargs)


def _refuse_changes(flat: Flat, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise if a call changed containers among its arguments.

    Raises
    ------
    UnrecordableError
    """
    now = _taken_apart(args, kwargs)
    if now.key != flat.key or list(map(id, now.tensors)) != list(map(id, flat.tensors)):
        raise UnrecordableError("it changes a list or a dict among its arguments")


class Compiled(Wrapper):
    """A function whose calls are recorded and replayed: what `compile` returns.

    Attributes
    ----------
    __wrapped__ : callable
        The function itself.
    """

    def __init__(self, function: Callable[..., Any], fullgraph: bool = False) -> None:
        functools.update_wrapper(self, function, updated=())
        self._function = function
        self.fullgraph = fullgraph
        self._signatures: dict[Any, Signature] = {}
        self.eager_because = ""
        self._last: Replay | None = None
        _all.add(self)

    def signatures(self) -> list[Signature]:
        """Calls that look alike, the first ones first."""
        return list(self._signatures.values())

    def forget(self) -> None:
        """Forget what was recorded."""
        self._last = None
        self._signatures = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, or replay a call of it."""
        last = self._last  # calls that bring tensors alone, and look like the last one, take the short way
        if last is not None and not kwargs and _PLAIN.issuperset(map(type, args)) and last.guards.hold():
            answer = rt.call_tape(last.tape, args, last.objects)
            if type(answer) is tuple:
                last.n_calls += 1
                return last.finished(args, answer)
        return self._look_up(args, kwargs)

    def _look_up(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        mode = rt.get_mode() & ~(COMPILED_PASSES | EAGER_PASSES)
        if mode & _ANY_REFUSED or rt.word(_CHOSEN) or rt.capturing() or rt.current_pass():
            return self._eagerly(args, kwargs, self._why_now(mode))
        try:
            flat = _taken_apart(args, kwargs)
        except RecursionError:
            return self._eagerly(args, kwargs, "a container among the arguments holds itself")
        if foreign := foreign_class(flat.tensors):
            return self._eagerly(
                args, kwargs, f"an argument is a {foreign}, a class of tensors of the program's own"
            )
        key = flat.key, mode, rt.word(_DEFAULT_DTYPE)
        try:
            signature = self._signatures.get(key)
        except TypeError:  # a key of a dict, or an element, that has no hash
            return self._eagerly(args, kwargs, "an argument holds what has no hash")
        if signature is None:
            if len(self._signatures) >= MOST_SIGNATURES:
                return self._eagerly(args, kwargs, f"{MOST_SIGNATURES} other signatures were recorded")
            signature = self._signatures[key] = Signature(_described(flat), flat.objects)
        if signature.replays:
            done, result = signature.find(tuple(flat.tensors))
            if done:
                first = signature.replays[0]
                self._last = first if first.is_quick and not kwargs and flat.only_tensors else None
                return result
        return self._record(signature, flat, args, kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _why_now(self, mode: int) -> str:
        for flag, why in _REFUSED_MODES.items():
            if mode & flag:
                return why
        if rt.capturing():
            return ""  # a part of what is recorded
        return "a backward pass is under way" if rt.current_pass() else "a device is chosen for new tensors"

    def _eagerly(self, args: tuple[Any, ...], kwargs: dict[str, Any], why: str) -> Any:
        if self.fullgraph and why:
            raise RuntimeError(f"compile(fullgraph=True): {self.name} cannot be replayed: {why}")
        self.eager_because = why
        return self._function(*args, **kwargs)

    @property
    def name(self) -> str:
        """What people call the function."""
        return name_of(self._function)

    def _walked(self, signature: Signature) -> Walk:
        """What the function reaches now."""
        walk = Walk(signature.called.values() if sys.getprofile() is None else ())
        walk.begin_hooks()
        walk.begin(self._function, self.name)
        for k, value in enumerate(signature.objects):
            walk.begin(value, f"argument {k}")
        return walk

    def _recorded_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], entered: Entered) -> Any:
        _recording.depth = getattr(_recording, "depth", 0) + 1
        try:
            with entered:
                return self._function(*args, **kwargs)
        finally:
            _recording.depth -= 1

    def _refuse_direct(self, signature: Signature, recording: Recording, entered: Entered) -> None:
        """Raise if the function calls by itself what was left out of the walk as a hook.

        Raises
        ------
        OnceError
        """
        if direct := entered.more_than(recording.hooks()):
            signature.direct |= direct
            for key in direct:
                del signature.called[key]
            raise OnceError("a hook is called by other code as well")

    def _record(self, signature: Signature, flat: Flat, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not signature.refused and signature.n_in_vain >= MOST_RECORDINGS:
            signature.refused = (
                f"none of {MOST_RECORDINGS} recordings one after the other was replayed: {signature.missed}"
            )
        if signature.refused:
            signature.n_eager += 1
            return self._eagerly(args, kwargs, signature.refused)
        if signature.replays:
            signature.missed = next(
                (why for r in signature.replays if (why := r.guards.first_change())), signature.missed
            )
        walk = self._walked(signature)
        if walk.opaque:
            signature.refused = f"it reaches {walk.opaque[0]}, whose changes cannot be seen"
            return self._record(signature, flat, args, kwargs)
        known = set(map(id, flat.tensors))
        reached = [*walk.tensors, *parameters_of(walk.hooks.values())]
        held = list({id(t): t for t in reached if id(t) not in known}.values())
        if foreign := foreign_class(held):
            signature.refused = f"it reaches a {foreign}, a class of tensors of the program's own"
            return self._record(signature, flat, args, kwargs)
        entered = Entered(signature.called.values())
        reads = Reads(self._function, Compiled._recorded_call.__code__)
        try:
            recording = Recording(
                lambda: self._recorded_call(args, kwargs, entered), flat.tensors, held, walk, reads
            )
        except CaptureUnderWayError:
            return self._eagerly(args, kwargs, "")
        signature.n_recorded += 1
        signature.n_in_vain += 1
        try:
            _refuse_changes(flat, args, kwargs)
            self._refuse_direct(signature, recording, entered)
            replay = Replay(recording, walk, functools.partial(_called, self._function, flat, bool(kwargs)))
        except OnceError as error:
            signature.missed = str(error)
            return recording.result
        except UnrecordableError as error:
            signature.refused = str(error)
            if self.fullgraph:
                raise RuntimeError(
                    f"compile(fullgraph=True): {self.name} cannot be replayed: {error}"
                ) from None
            return recording.result
        finally:
            for hook in recording.hooks():
                key = key_of(hook)
                if key not in signature.direct:
                    signature.called.setdefault(key, hook)
        signature.add(replay)
        first, replay.first = replay.first, None
        return first
