"""A node applied in Python: its op's rules on tensors, so that what they compute can be differentiated again.

This is for nodes that are called by themselves, and for what compiled code leaves: see Note [Recorded derivatives] in
`native.backward.derivatives`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from fastgrad.autograd.modes import no_grad
from fastgrad.autograd.saved import is_packed, saved_value
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.element_types import COMPLEX
from fastgrad.native.contracts.flags import IN_VIEW, PACKED, POST_HOOKS, SAVED_FREED, WRAPPED_NUMBER
from fastgrad.native.contracts.limits import RULES, SAVED_INPUTS
from fastgrad.native.contracts.ops import EVERY_GRADIENT
from fastgrad.native.contracts.records import NODE, TENSOR
from fastgrad.native.host.saved_calls import number_of
from fastgrad.native.host.tables import OPS
from fastgrad.ops.call import invoke
from fastgrad.ops.complex_numbers import conj_physical
from fastgrad.ops.registry import Op
from fastgrad.ops.rules import Recorded, argument, parameters
from fastgrad.ops.shape import copy_slices

_OP, _N_IN, _N_OUT, _FLAGS = (NODE.fields[n][0] for n in ("op", "n_in", "n_out", "flags"))
_N_ATTRS = NODE.fields["n_attrs"][0]
_TENSOR_FLAGS, _DTYPE = (TENSOR.fields[name][0] for name in ("flags", "dtype"))


def apply_rules(
    node: Any, grads: tuple[Any, ...], wanted: Callable[[int], Any] | None = None
) -> Iterator[tuple[int, Any]]:
    """Yield input number and gradient, in the op's order, for each input that needs one and, if `wanted` is given,
    is wanted; or that hooks of the node see.
    """
    op, flags = OPS[rt.node_field(node, _OP)], rt.node_field(node, _FLAGS)
    undefined = all(g is None for g in grads)
    if flags & SAVED_FREED:
        if _saves(node, op) or (op is copy_slices and not undefined):
            rt.check_saved(node)  # raises
    elif not (undefined and flags & IN_VIEW):
        rt.check_saved(node)
    if undefined and flags & IN_VIEW:
        return
    source = _Node(node, op, grads)
    if undefined:
        return
    if op.joint:
        results = source.call(op.rules[0])
        yield from ((k, results[k]) for k in range(len(results)) if rt.node_output(node, k) >= 0)
        return
    flags = rt.node_field(node, _FLAGS)
    every = op.facts["flags"] & EVERY_GRADIENT and (wanted is None or flags & POST_HOOKS)
    order = [
        k
        for k in op.saving.order(rt.node_field(node, _N_IN))
        if every or (rt.node_output(node, k) >= 0 and (wanted is None or wanted(k)))
    ]
    done: set[int] = set()
    for k in order:
        if k in done:
            continue
        by = op.recorded.get(k)
        if by is not None:
            group = [other for other in order if op.recorded.get(other) is by]
            done.update(group)
            yield from source.together(group, by)
            continue
        rule = op.rules.get(min(k, RULES - 1))
        if rule is None:
            raise NotImplementedError(
                f"the derivative of {op.name} with regard to input {k} is not implemented"
            )
        source.k = k
        if isinstance(rule, tuple):
            yield k, source.summed(rule)
        elif grads[0] is not None or "gs" in parameters(rule):
            yield k, source.call(rule)


class _Node:
    """What the rules of a node read; see `ops.rules.Source`.

    What hooks have packed is unpacked when this is made: once, in the op's order.

    Attributes
    ----------
    k : int
        The number of the input whose gradient is computed.
    """

    def __init__(self, node: Any, op: Op, grads: tuple[Any, ...]) -> None:
        self.k = 0
        self._node, self._op, self._grads, self._first = node, op, grads, grads[0]
        self._saved: dict[int, Any] = {}
        self._sums: tuple[int, ...] | None = None  # of the integers that belong to the inputs, one by one
        if rt.node_field(node, _FLAGS) & PACKED:
            packed = [place for place in op.saving.places if is_packed(node, place)]
            self._saved = {place: _saved(node, place) for place in op.saving.places if place not in packed}
            self._saved |= {place: _saved(node, place) for place in packed}

    def call(self, rule: Callable[..., Any]) -> Any:
        """What a rule gives: see Note [Complex gradients] in `ops.complex_numbers`."""
        if not self._op.conjugates or rt.field(self._first, _DTYPE) not in COMPLEX:
            return self._called(rule)
        given, self._first = self._first, invoke(conj_physical, (self._first,))
        try:
            found = self._called(rule)
        finally:
            self._first = given
        return invoke(conj_physical, (found,)) if rt.field(found, _DTYPE) in COMPLEX else found

    def _called(self, rule: Callable[..., Any]) -> Any:
        return rule(**{name: argument(self._op, name, self) for name in parameters(rule)})

    def together(self, order: Sequence[int], by: Recorded) -> Iterator[tuple[int, Any]]:
        """Each gradient, all with one node; what is not wanted has the gradient of the output in its place."""
        made = {}
        with no_grad():
            for k in order:
                self.k = k
                made[k] = self.call(self._op.rules[k])
        operands = [self._first, *(argument(self._op, name, self) for name in by.read)]
        given = [
            argument(self._op, which, self) if isinstance(which, str) else made.get(which, self._first)
            for which in by.results
        ]
        outputs = invoke(by.op, (*operands, *given), self.integers(0))
        for k in order:
            yield k, outputs[by.results.index(k)] if isinstance(outputs, tuple) else outputs

    def summed(self, rules: tuple[Callable[..., Any], ...]) -> Any:
        """The sum of what the rules of outputs give, of those with a gradient."""
        total = None
        for g, rule in zip(self._grads, rules, strict=True):
            if g is not None and rule is not None:
                self._first = g
                part = self.call(rule)
                total = part if total is None else total + part
        self._first = self._grads[0]
        return total

    def gradient(self) -> Any:
        return self._first

    def gradients(self) -> tuple[Any, ...]:
        return self._grads

    def saved(self, place: int) -> Any:
        return self._saved[place] if place in self._saved else _saved(self._node, place)

    def sizes(self) -> tuple[int, ...]:
        meta = rt.input_meta(self._node, self.k)
        return (len(meta) - 2, *meta[2:])

    def position(self) -> int:
        return self.k

    def before(self, star: int) -> int:
        if self._sums is None:
            self._sums = tuple(accumulate(self.integers(star), initial=0))
        return self._sums[self.k]

    def own(self, star: int) -> int:
        return rt.node_attr(self._node, star + self.k)  # type: ignore[no-any-return]

    def integer(self, index: int) -> int:
        return rt.node_attr(self._node, index) if index < rt.node_field(self._node, _N_ATTRS) else 0

    def integers(self, index: int) -> tuple[int, ...]:
        return tuple(rt.node_attr(self._node, i) for i in range(index, rt.node_field(self._node, _N_ATTRS)))


def _saved(node: Any, place: int) -> Any:
    """What a node saved in a place, with the history that it had; a number of the call as a Python number.

    Of several outputs those that have no gradient are indices, or facts of the forward pass.
    """
    if place < SAVED_INPUTS:
        value = saved_value(node, place, place)
        number = value is not None and rt.field(value, _TENSOR_FLAGS) & WRAPPED_NUMBER
        return number_of(value) if number else value
    value, number = saved_value(node, place), place - SAVED_INPUTS
    recorded = value is not None and value.dtype.inexact and number < rt.node_field(node, _N_OUT)
    return rt.attach_output(node, number, value) if recorded else value


def _saves(node: Any, op: Op) -> bool:
    """Whether a node saves tensors at all, or did before they were freed."""
    edges = range(rt.node_field(node, _N_IN))
    return any(rt.node_output(node, k) >= 0 and op.saved_for(min(k, RULES - 1)) for k in edges)
