"""The backward pass of a replayed call: one node whose derivative is a tape of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fastgrad.autograd.function import Function
from fastgrad.compiler.programs import Before, Regions
from fastgrad.compiler.recordings import Recording, rehearse
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.flags import GRAD_ENABLED
from fastgrad.native.contracts.records import REGION_GIVEN, REGION_OWN


class Backward:
    """What differentiates the calls of a recording.

    Parameters
    ----------
    forward : Recording
    outputs : list of Tensor
        Those that the recorded call gave and that have a history.
    wanted : list of Tensor
        Tensors that came or are held, to which gradients go.

    Attributes
    ----------
    reads : list of int
        Which of the tensors that came or are held it reads.
    saved : list of Tensor
        The memory that the call made and that it reads, as tensors of bytes.
    present : list of bool
        Which of the wanted tensors the outputs depend on: their gradients are what it computes.
    draws : bool
        Whether it draws random numbers of the call again.
    calls : bool
        Whether it calls Python.

    Raises
    ------
    UnrecordableError
    """

    def __init__(self, forward: Recording, outputs: Sequence[Any], wanted: Sequence[Any]) -> None:
        self.numbers = forward.tape
        gradients = [rt.detach(t).clone() for t in outputs]
        self._gradients = gradients
        around = [before.tensor for before in (*forward.given, *forward.held)]
        made = rt.tape_memory(forward.tape)
        recording = Recording(lambda: rehearse(outputs, gradients, wanted), (), ())
        forward.backward = recording
        recording.check()
        self.present = [g is not None for g in recording.result]
        results = [g for g in recording.result if g is not None]
        touched = _touched(recording, gradients, around, made, results)
        self.reads = [k for k in range(len(around)) if touched[k]]
        self.saved = [memory for memory, is_read in zip(made, touched[len(around) :], strict=True) if is_read]
        apart = [rt.detach(around[k]) for k in self.reads]
        recording.given = [Before.of(t) for t in (*gradients, *apart, *self.saved)]
        self.calls = bool(recording.tape._calls)
        self.draws = any("seed" in launch.frame.fields for launch in recording.tape)
        self.bound = recording.bind(results, forward.tape)

    def call(
        self,
        gradients: Sequence[Any],
        memory: Sequence[Any],
        numbers: tuple[int, ...],
        values: dict[Any, Any],
    ) -> list[Any]:
        """The gradients of what the outputs depend on, from those of the outputs.

        `memory`: what the call brought of what is read, and then what it saved. `numbers`: where its random numbers
        began. `values`: what came of its calls of Python.
        """
        fitted = [_fitted(g, like) for g, like in zip(gradients, self._gradients, strict=True)]
        n = len(self.reads)
        given = (*fitted, *map(rt.detach, memory[:n]), *memory[n:])
        with self.bound.lock:
            if self.draws:
                rt.follow_numbers(self.bound.tape, self.numbers, *numbers)
            self.bound.tape.forward_values = values
            try:
                found = self.bound.call(given)
            finally:
                self.bound.tape.forward_values = {}
        if type(found) is int:
            raise RuntimeError(
                f"backward of a compiled function: {self.bound.refusal(found)}; was it changed after the call?"
            )
        return list(found)


def _touched(
    recording: Recording,
    gradients: Sequence[Any],
    around: Sequence[Any],
    made: Sequence[Any],
    results: Sequence[Any],
) -> list[bool]:
    """Which memory of a call, of its tensors and made by it, a pass reads; each is named once."""
    regions = Regions()
    for tensor in (*gradients, *around, *made):
        regions.add(REGION_GIVEN, tensor)
    for memory in rt.tape_memory(recording.tape):
        regions.add(REGION_OWN, memory)
    regions.link(recording.tape)
    needed = {k for k, region in enumerate(regions.all) if region.links} | {regions.find(g) for g in results}
    needed -= {regions.find(g) for g in gradients}
    found = []
    for tensor in (*around, *made):
        number = regions.find(tensor)
        found.append(number in needed)
        needed.discard(number)
    return found


def _fitted(gradient: Any, like: Any) -> Any:
    """A gradient that lies as in the recording; zeros for none."""
    if gradient is None:
        return like.clone().zero_()
    if rt.steps(gradient) == rt.steps(like):
        return rt.where_it_lies(gradient)
    return like.clone().copy_(gradient)


class Call(NamedTuple):
    """A call, for its node: its outputs, what the pass reads of it, where its random numbers began, and what came of
    its calls of Python.
    """

    backward: Backward
    outputs: tuple[Any, ...]
    memory: tuple[Any, ...]
    numbers: tuple[int, ...]
    values: dict[Any, Any]


class CompiledFunction(Function):
    """The node of a replayed call."""

    @staticmethod
    def forward(ctx: Any, call: Call, *wanted: Any) -> Any:
        """Let the outputs of a call be those of a node."""
        ctx.backward_of_call, ctx.numbers, ctx.values = call.backward, call.numbers, call.values
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*call.memory)
        return call.outputs if len(call.outputs) > 1 else call.outputs[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Replay the backward pass."""
        if rt.get_mode() & GRAD_ENABLED:
            raise RuntimeError(
                "a backward pass through a compiled function cannot be differentiated again (create_graph=True); call "
                "the function itself, which is the attribute __wrapped__ of the compiled one"
            )
        return None, *ctx.backward_of_call.call(gradients, ctx.saved_tensors, ctx.numbers, ctx.values)


class FreedFunction(Function):
    """The node of an output whose graph a pass within the call has freed."""

    @staticmethod
    def forward(ctx: Any, outputs: tuple[Any, ...], *wanted: Any) -> Any:
        """Let outputs be those of a node."""
        return outputs if len(outputs) > 1 else outputs[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Raise what the freed graph would."""
        raise RuntimeError(
            "Trying to backward through the graph a second time: a pass within the compiled function has freed it. "
            "Specify retain_graph=True there if you need to backward through the graph again"
        )
