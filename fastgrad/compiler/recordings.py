"""Recordings: one call of a function on a tape, and what it takes to replay it."""

from __future__ import annotations

import bisect
import gc
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from fastgrad.autograd.engine import _current_graph_task_execution_order
from fastgrad.autograd.native_hooks import state_of
from fastgrad.autograd.segment_inputs import nodes_behind, roots
from fastgrad.compiler.fusion.fusing import FusedTape, Report, fuse_tape
from fastgrad.compiler.guards import Walk
from fastgrad.compiler.hoisting import values_first
from fastgrad.compiler.programs import Before, OnceError, Program, UnrecordableError, storage_of
from fastgrad.compiler.returned import Reads, with_marks
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.flags import FILTERED as FILTERED_PASS
from fastgrad.native.contracts.flags import (
    KEEP_GRAPH,
    POST_HOOKS,
    PRE_HOOKS,
    REHEARSAL,
    REQUIRES_GRAD,
    SAVED_FREED,
    TENSOR_HOOKS,
)
from fastgrad.native.contracts.python_types import N_HOOK_PLACES
from fastgrad.native.contracts.records import NODE, TAPE, TENSOR
from fastgrad.native.host import devices
from fastgrad.native.host.call_arguments import parts
from fastgrad.native.host.hook_calls import name_of, state
from fastgrad.native.host.options import Option
from fastgrad.native.host.saved_calls import UnrehearsableError
from fastgrad.native.host.tape import ReadValue, Tape, show_nobody
from fastgrad.nn.modules.module import Module
from fastgrad.nn.parameter import Parameter
from fastgrad.optim.optimizer import Optimizer

_NODE, _DATA, _DEVICE = (TENSOR.fields[name][0] for name in ("node", "data", "device"))
_NODE_FLAGS, _RETAINS, _VARIABLE = (NODE.fields[name][0] for name in ("flags", "retains", "variable"))
_READS, _VALUES, _PYTHON_CALLS, _PASSES = (
    TAPE.fields[name][0] for name in ("reads", "n_values", "python_calls", "passes")
)

_REFUSALS = (
    "another number of tensors came",
    "another call is under way, or hooks call it",
    "is no tensor",
    "requires gradients, keeps them, has a history or hooks where it had none, or the other way round",
    "is on another device, or has another dtype, other sizes or other strides",
    "shares memory with another one in another way",
    "has a gradient where it had none, none where it had one, or one that lies otherwise",
    "other modes are on",
    "a value that it reads is another one",
    "an option of an optimizer is no number any more, or has another sign",
    "the current stream of a GPU is another one than when it was recorded",
)
SHARES_MEMORY = 5
"""Of these: what may be tried again with copies."""


def has_history(tensor: Any) -> bool:
    """Whether a tensor is the result of what a graph remembers."""
    return rt.field(tensor, _NODE) != 0


def wants_gradient(tensor: Any) -> bool:
    """Whether gradients go to a tensor."""
    return bool(rt.flags_of(tensor) & REQUIRES_GRAD)


class CaptureUnderWayError(OnceError):
    """Another thread captures, and only one may."""


class Recording:
    """A call on a tape.

    Parameters
    ----------
    function : callable
        Called while the tape records.
    given : sequence of Tensor
        Those that come with each call.
    held : sequence of Tensor
        Those that are always the same.
    walk : Walk, optional
        What the function reached before the call.
    reads : Reads, optional
        The values that the function reads by itself, which replays compare or give back; without it, none may be read.
    forward : Recording, optional
        That of the call whose backward pass the function rehearses.

    Attributes
    ----------
    result
        What the function returned.
    marked
        The same with `GivenBack` in place of numbers that it read and only returns.
    reaches_given : bool
        Whether a tensor that comes with the call is one that the function reaches otherwise as well.
    backward : Recording or None
        That of the backward pass of the call.

    Raises
    ------
    CaptureUnderWayError
        If another thread captures; the function was not called then.
    """

    def __init__(
        self,
        function: Callable[[], Any],
        given: Sequence[Any],
        held: Sequence[Any],
        walk: Walk | None = None,
        reads: Reads | None = None,
        forward: Recording | None = None,
    ) -> None:
        self.given = [Before.of(t) for t in given]
        self.held = [Before.of(t) for t in held]
        self.tape = tape = Tape(hooks=True, values=reads is not None)
        tape.same = set(map(id, held))
        tape.held_leaves = [t for t in held if wants_gradient(t) and not has_history(t)]
        self._walk: Walk | None = forward._walk if forward is not None else walk
        self.reaches_given = walk is not None and not {id(b.tensor) for b in self.given}.isdisjoint(
            map(id, walk.tensors)
        )
        self.backward: Recording | None = None
        self._shown: list[Any] = []  # tensors that hooks got: they may keep them
        if forward is not None:
            self._shown += forward._shown
        self._tapes = [self.tape] if forward is None else [self.tape, forward.tape]
        tape.show = self._look_at
        if reads is not None:
            tape.show_value = reads.note
        began, collects = False, gc.isenabled()
        try:
            gc.disable()  # what destructors of garbage launch is no part of the call
            with self.tape:
                began = True
                self.result = function()
        except RuntimeError:
            if not began:
                raise CaptureUnderWayError("another thread records") from None
            raise
        finally:
            tape.show = tape.show_value = show_nobody
            tape.saved = {}
            if collects:
                gc.enable()
        self.marked = self.result
        if reads is not None and self.reads_values and walk is not None:
            self._give_back(reads, walk)

    def _give_back(self, reads: Reads, walk: Walk) -> None:
        """Find the values that the function only returns, and forget those that it does nothing with."""
        entries = list(self.tape.entries())
        values = (entry for entry in entries if isinstance(entry, ReadValue))
        found = reads.given_back(values, walk, self.result)
        self.marked = with_marks(self.result, found)
        idle = {number for number, paths in found.items() if not paths}
        if idle:
            self.tape.edit(
                k for k, e in enumerate(entries) if not (isinstance(e, ReadValue) and e.number in idle)
            )

    @property
    def reads_values(self) -> bool:
        """Whether Python reads values in the call that a replay compares."""
        return rt.tape_field(self.tape, _VALUES) > 0

    def check(self) -> None:
        """Raise if the call did what a replay does not do.

        Raises
        ------
        UnrecordableError
        """
        if self.tape.refused:  # what is called behind that is no call of the tape, and may read tensors
            raise UnrecordableError(self.tape.refused)
        if rt.tape_field(self.tape, _READS):
            raise UnrecordableError(
                "it reads whole tensors (numpy(), tolist(), printing) or takes over memory of others"
            )
        if rt.tape_field(self.tape, _PYTHON_CALLS):
            raise UnrecordableError(
                "it differentiates a custom function that was called before, or somebody wants to know of new nodes"
            )
        self._check_objects()
        if rt.tape_field(self.tape, _PASSES) and any(before.history for before in self.given):
            raise UnrecordableError(
                "it runs a backward pass, and an argument has a history that the pass may reach"
            )
        if any(before.history for before in self.held):
            raise UnrecordableError("a tensor from outside has a history: let it be an argument")

    def hooks(self) -> list[Any]:
        """The hooks that were called, or will be by the backward pass of the call."""
        found = [function for call in self.tape._calls for function in call.functions()]
        return found + self.backward.hooks() if self.backward is not None else found

    def _made(self) -> set[int]:
        """The memory that the call has made, also in the forward computation of a pass."""
        return {storage_of(memory) for tape in self._tapes for memory in rt.tape_memory(tape)}

    def _look_at(self, function: Any, args: Any) -> None:
        """Note if a hook that is about to be called was made by this call and holds a tensor of it: another call makes
        another one.
        """
        if self._walk is None or id(function) not in self._walk.hooks:
            walk = Walk()
            walk.begin(function, "a hook")
            made: set[int] = set()
            shown = set(map(id, self._shown))
            if walk.tensors:
                made = self._made()
            if any(storage_of(t) in made and id(t) not in shown for t in walk.tensors):
                self.tape.refuse(f"it calls a hook, {name_of(function)}, that holds a tensor of this call")
        self._shown += [v for v in parts(args) if isinstance(v, TensorBase)]

    def _check_objects(self) -> None:
        """Raise if a hook got an object with a tensor that only this call made."""
        others = {id(o): o for call in self.tape._calls for o in call.others}
        walk = Walk()
        for value in others.values():
            if not isinstance(value, Module | Optimizer) and not (
                self._walk and self._walk.has_visited(value)
            ):
                walk.begin(value, "an argument of a hook")
        made = self._made() if walk.tensors else set()
        if any(storage_of(t) in made for t in walk.tensors):
            raise UnrecordableError("it calls a hook with an object that holds a tensor of this call")

    def check_launches(self, numbers: Tape | None = None) -> None:
        """Raise if a device without memory was used, or random numbers were drawn that a replay cannot draw.

        `numbers`: the tape whose random numbers this one draws again.

        Raises
        ------
        UnrecordableError
        """
        for launch in self.tape:
            if launch.device != "cpu" and not launch.device.startswith("cuda"):
                raise UnrecordableError(f"it launches kernels on the device {launch.device!r}")
            if "seed" in launch.frame.fields:
                seed, offset = (launch.words[launch.frame.place(name)] for name in ("seed", "offset"))
                device = devices.number_named(launch.device)
                if not launch.drew or not rt.tape_drew(numbers or self.tape, device, seed, offset):
                    raise UnrecordableError("it draws random numbers from a generator of its own")

    def drawing(self) -> set[int]:
        """The numbers of the devices whose random numbers it draws, by launches or, on the CPU, by what it calls."""
        drawing = [launch.device for launch in self.tape if "seed" in launch.frame.fields]
        drawing += ["cpu" for call in self.tape._calls if call.drawn is not None]
        return {devices.number_named(device) for device in drawing}

    @property
    def uses_gpus(self) -> bool:
        """Whether it launches kernels on a GPU, or makes memory there."""
        made = (rt.field(memory, _DEVICE) for memory in rt.tape_memory(self.tape))
        return any(launch.device != "cpu" for launch in self.tape) or any(made)

    def fuse(self, outputs: Sequence[Any]) -> FusedTape:
        """Let launches become one, of a call that gives some outputs."""
        given_out = (value for value in outputs if isinstance(value, TensorBase))
        held = [*(before.tensor for before in (*self.given, *self.held)), *given_out]
        gradients = (rt.get_grad(before.tensor) for before in (*self.given, *self.held))
        before = (b.gradient.tensor for b in (*self.given, *self.held) if b.gradient)
        wanted = Extents([*held, *(g for g in gradients if g is not None), *before])
        return fuse_tape(self.tape, wanted.meet)

    def bind(
        self,
        outputs: Sequence[Any],
        numbers: Tape | None = None,
        modes: tuple[int, int] | None = None,
        options: Collection[Option] = (),
    ) -> Bound:
        """A tape that may be called: with fused launches, bound to the tensors of a call, which brings options.

        Raises
        ------
        UnrecordableError
        """
        self.check_launches(numbers)
        self._shown.clear()
        values_first(self.tape, self.given, self.held, outputs)
        fused = self.fuse(outputs)
        program = Program(self.tape, self.given, self.held, outputs, modes, fused.room, options)
        return Bound(program, fused.report)

    def refuse_shared(self, outputs: Sequence[Any]) -> None:
        """Raise if one of some outputs, which have a history, lies in memory that calls bring.

        Raises
        ------
        UnrecordableError
        """
        brought = {before.storage for before in (*self.given, *self.held)}
        if any(storage_of(t) in brought for t in outputs):
            raise UnrecordableError(
                "it returns a view of an argument, or of a tensor from outside, with a history"
            )


def parameters_of(hooks: Iterable[Any]) -> list[Any]:
    """The parameters that hooks reach."""
    walk = Walk()
    for hook in hooks:
        walk.begin(hook, "a hook")
    return [t for t in walk.tensors if isinstance(t, Parameter)]


class Extents:
    """Memory of some tensors, whole storages."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        memory = [rt.memory_of(t) for t in tensors]
        pairs = {(rt.field(m, _DATA), rt.field(m, _DATA) + rt.sizes(m)[0]) for m in memory}
        self._pairs = sorted(pairs)
        self._begins = [low for low, _ in self._pairs]

    def meet(self, address: int, nbytes: int) -> bool:
        """Whether so many bytes from an address on lie in one of them."""
        k = bisect.bisect_right(self._begins, address) - 1
        if k >= 0 and self._pairs[k][1] > address:
            return True
        return k + 1 < len(self._pairs) and self._pairs[k + 1][0] < address + nbytes


class Bound:
    """A tape that may be called.

    Attributes
    ----------
    fused : Report
        Which launches became one.
    n_launches : int
    nbytes : int
        Bytes of memory that it keeps.
    untouched : set of int
        The tensors that come or are held, by their numbers, whose memory no launch and no call of Python looks at.
    """

    def __init__(self, program: Program, fused: Report) -> None:
        self.fused = fused
        around = (program.regions.find(before.tensor) for before in (*program.given, *program.held))
        self.untouched = {k for k, n in enumerate(around) if n is None or not program.regions.all[n].uses}
        self.tape = program.tape
        self.held = tuple(before.tensor for before in program.held)
        self.objects = (
            *self.held,
            *(part for b in program.brought for part in (b.option.group, b.option.key)),
        )
        self.n_given = len(program.given)
        self.lock = threading.RLock()
        self.n_launches = self.tape.launches
        program.bind()
        self.nbytes = program.nbytes

    def call(self, given: tuple[Any, ...]) -> Any:
        """Replay: the outputs, or an int that says why it cannot be."""
        return rt.call_tape(self.tape, given, self.objects)

    def refusal(self, answer: int) -> str:
        """What an int says for which `call` returns it."""
        k, reason = divmod(answer, 16)
        if reason in (0, 1, 7, 8, 9, 10):
            return _REFUSALS[reason]
        n = self.n_given
        return f"{f'tensor {k} of the arguments' if k < n else f'tensor {k - n} from outside'} {_REFUSALS[reason]}"


# --- graphs ----------------------------------------------------------------------------------------------------


class Graph:
    """What a pass through some tensors would go through, up to the tensors that come with a call or are held.

    Attributes
    ----------
    is_freed : bool
        Whether a pass has freed it, as far as that shows.
    states : list of Tensor
        Those of the native hooks within it, which run on what these hold by then.
    """

    def __init__(self, outputs: Sequence[Any], wanted: Sequence[Any]) -> None:
        self.is_freed = False
        states: dict[int, Any] = {}
        ends = {id(node): node for node in map(rt.gradient_node, wanted)}
        for node in nodes_behind(roots(outputs), ends):
            flags = rt.node_field(node, _NODE_FLAGS)
            self.is_freed = self.is_freed or bool(flags & SAVED_FREED)
            if flags & (TENSOR_HOOKS | PRE_HOOKS | POST_HOOKS) and not rt.node_field(node, _VARIABLE):
                found = (hook for hooks in node_stores(node) for hook in hooks.values())
                states.update((id(t), t) for hook in found if (t := state_of(hook)) is not None)
        self.states = list(states.values())


def node_stores(node: Any) -> Iterator[Any]:
    """The dicts of hooks that a node has."""
    for place in range(N_HOOK_PLACES):
        held = rt.node_hooks(node, place)
        if held is not None:
            yield from (hooks for _, hooks in held) if isinstance(held, tuple) else (held,)


def rehearse(
    outputs: Sequence[Any], gradients: Sequence[Any], wanted: Sequence[Any], come: list[Any]
) -> tuple[Any, ...]:
    """Differentiate for a recording: gradients that mean nothing, None for what does not depend on the outputs.

    `come`: gets the nodes to which the pass comes, in order.
    """
    flags = FILTERED_PASS | KEEP_GRAPH | REHEARSAL

    def look(_: Any) -> None:
        come[:] = _current_graph_task_execution_order()

    look.calls_hooks = True  # type: ignore[attr-defined]  # no call for a replay to make
    handle = outputs[0].grad_fn.register_prehook(look)
    state.rehearses = True
    try:
        found = rt.run_pass(list(outputs), list(gradients), list(wanted), flags)
    except UnrehearsableError as error:
        raise UnrecordableError(str(error)) from None
    except Exception as error:  # an eager call raises it where somebody makes that pass
        raise UnrecordableError(f"its backward pass raises {type(error).__name__}: {error}") from error
    finally:
        state.rehearses = False
        handle.remove()
    if not isinstance(found, tuple):
        raise UnrecordableError("too many passes are under way")
    return found
