"""Passes that are differentiated themselves (create_graph=True) through what Python does on a tape.

The backward of a segment is then a segment, too: what comes of it has a history, which leads to the gradients that it
got and to what the segment got. A replay differentiates the graph of the segment with a graph, and keeps that. So is
the call of a hook on a gradient that has a history.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastgrad.autograd import segments
from fastgrad.autograd.segment_hooks import ForwardHookSegment
from fastgrad.autograd.segment_inputs import nodes_behind, roots
from fastgrad.autograd.segments import Segment
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.flags import (
    CREATE_GRAPH,
    POST_HOOKS,
    PRE_HOOKS,
    PYTHON_APPLY,
    REHEARSAL,
    TENSOR_HOOKS,
)
from fastgrad.native.contracts.records import NODE
from fastgrad.native.host import hook_calls
from fastgrad.native.host.call_arguments import parts
from fastgrad.native.host.hook_calls import name_of, state

_FLAGS = NODE.fields["flags"][0]
_SEEN = PYTHON_APPLY | TENSOR_HOOKS | PRE_HOOKS | POST_HOOKS


class Derivative(Segment):
    """The backward of a segment in a pass that is differentiated itself.

    Where what comes of it depends on an output of the segment, which that has saved, its history leads to this output:
    so the backward of the segment is called once for all that comes there, as in an eager pass.

    Parameters
    ----------
    segment : Segment
    graph : tuple
        The outputs of the segment, what it differentiates by, and the node that stands for it during the capture.
    args : tuple
        The gradients.
    tape : Tape
    """

    may_only_look = is_first = False

    def __init__(self, segment: Segment, graph: tuple[Any, ...], args: Any, tape: Any) -> None:
        self.segment = segment
        self._graph: Any = graph
        self._through: list[int] = []  # the outputs on which what comes of it depends
        super().__init__(segment.function, args, tape)
        self.target = self._differentiate

    def settle(self) -> None:
        """Let go of what belongs to the capture alone: the tape is bound."""
        super().settle()
        self._graph = None

    def _differentiate(self, *gradients: Any) -> tuple[Any, ...]:
        """Differentiate the graph of the segment."""
        outputs, wanted = self._graph[:2] if self._graph is not None else state.tape.value_of(self.segment)
        flags = CREATE_GRAPH | self.segment.flags
        return tuple(segments._differentiated(outputs, list(gradients), wanted, flags))

    def leads(self) -> list[Any]:
        """The tensors of the capture to which the history of what comes of it leads."""
        outputs, _, node = self._graph
        through = [rt.attach_output(node, k, rt.detach(outputs[k])) for k in self._through]
        return [x.tensor for x in self.inputs if x.wants] + through + self.segment.around() + self.own

    def around(self) -> list[Any]:
        """The same, as the graph of the call sees them."""
        return [t for t in self.ends if t.requires_grad] + self.segment.around() + self.own

    def wanted(self, ends: list[Any], tape: Any) -> list[Any]:
        """What the backward call differentiates by."""
        outputs, wanted = tape.value_of(self.segment)
        through = [outputs[k] for k in self._through]
        return [t for t in ends if t.requires_grad] + through + wanted + self.own

    def find_own(self, outputs: list[Any], tape: Any) -> None:
        """Find the leaves of its own that the outputs depend on, and through which outputs of the segment."""
        before = self.segment.around()
        self._known = [*self._known, *before]
        super().find_own(outputs, tape)
        ends = {id(t.grad_fn) for t in self._known if not t.is_leaf}
        first = [id(t.grad_fn) for t in self._graph[0]]
        reached = {id(node) for node in nodes_behind(roots(outputs), ends)}
        self._through = [k for k, node in enumerate(first) if node in reached]
        self.flags = REHEARSAL if self._through else 0  # a pass through its graph then ends at these outputs
        called = {
            id(node)
            for node in nodes_behind(roots(self._graph[0]), ends)
            if rt.node_field(node, _FLAGS) & _SEEN
        }
        again = any(id(node) in called for node in nodes_behind(roots(outputs), ends | {*first}))
        if self._through:
            again = again or isinstance(self.segment, Derivative) or any(map(rt.is_hooked, self._known))
        if again:
            tape.refuse(f"the second derivative of {name_of(self.function)} calls its backward again")


class GradientHookSegment(ForwardHookSegment):
    """The call of a hook on gradients that have a history.

    Parameters
    ----------
    first : int
        Which argument holds the gradients that it may replace.
    """

    def __init__(self, hook: Callable[..., Any], args: tuple[Any, ...], tape: Any, first: int) -> None:
        self.first = first
        self.may_replace = first == 0
        super().__init__(hook, args, tape)

    def replaced(self, args: tuple[Any, ...]) -> Any:
        """What stands for None."""
        return args[self.first] if self.passes or self.may_replace else None

    def value(self, result: Any, args: Any) -> Any:
        """What it returned, or the gradients where it left hooks at them."""
        if result is None and not self.is_recorded and not self.may_replace:
            numbers = {id(t): k for k, t in enumerate(self.seen)}
            found = [v for v in parts(args[self.first]) if isinstance(v, TensorBase)]
            self.passes = any(self.is_touched(numbers[id(t)], self.seen) for t in found)
        return self.replaced(args) if result is None else result


def record_gradient_hook(hook: Callable[..., Any], args: tuple[Any, ...], first: int) -> Any:
    """Call a hook on gradients with a history while a tape records; what it is to have returned."""
    return segments.record(hook, args, lambda h, a, tape: GradientHookSegment(h, a, tape, first))


def record_derivative(segment: Segment, graph: tuple[Any, ...], gradients: tuple[Any, ...]) -> Any:
    """Differentiate the graph of a segment with a graph while a tape records."""
    return segments.record(
        segment.function, gradients, lambda _, args, tape: Derivative(segment, graph, args, tape)
    )


hook_calls.with_history.append(record_gradient_hook)
segments.derivatives.append(record_derivative)
