"""A node applied in Python: its op's rules on tensors, so that what they compute can be differentiated again."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from fastgrad.autograd.saved import is_packed, saved_value
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.flags import IN_VIEW, PACKED, POST_HOOKS, SAVED_FREED, WRAPPED_NUMBER
from fastgrad.native.contracts.limits import RULES, SAVED_INPUTS
from fastgrad.native.contracts.ops import EVERY_GRADIENT
from fastgrad.native.contracts.records import NODE, TENSOR
from fastgrad.native.host.tables import OPS
from fastgrad.ops.registry import Op
from fastgrad.ops.saving import OUTPUTS
from fastgrad.ops.shape import copy_slices

_OP, _N_IN, _FLAGS = (NODE.fields[n][0] for n in ("op", "n_in", "flags"))
_N_ATTRS = NODE.fields["n_attrs"][0]
_TENSOR_FLAGS = TENSOR.fields["flags"][0]


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
    saved = _unpacked(node, op)
    if undefined:
        return
    if op.joint:
        rule = op.rules[0]
        results = rule(**{name: _argument(op, node, 0, name, grads, saved) for name in _parameters(rule)})
        yield from ((k, results[k]) for k in range(len(results)) if rt.node_output(node, k) >= 0)
        return
    flags = rt.node_field(node, _FLAGS)
    every = op.facts["flags"] & EVERY_GRADIENT and (wanted is None or flags & POST_HOOKS)
    for k in op.saving.order(rt.node_field(node, _N_IN)):
        if not every and (rt.node_output(node, k) < 0 or not (wanted is None or wanted(k))):
            continue
        rule = op.rules.get(min(k, RULES - 1))
        if rule is None:
            raise NotImplementedError(
                f"the derivative of {op.name} with regard to input {k} is not implemented"
            )
        if isinstance(rule, tuple):
            yield k, _summed(op, node, k, rule, grads, saved)
        elif grads[0] is not None or "gs" in _parameters(rule):
            yield k, rule(**{name: _argument(op, node, k, name, grads, saved) for name in _parameters(rule)})


def _summed(
    op: Op, node: Any, k: int, rules: tuple[Any, ...], grads: tuple[Any, ...], saved: dict[int, Any]
) -> Any:
    """The sum of what the rules of outputs give for input `k`, of those with a gradient."""
    total = None
    for g, rule in zip(grads, rules, strict=True):
        if g is not None:
            part = rule(**{name: _argument(op, node, k, name, (g,), saved) for name in _parameters(rule)})
            total = part if total is None else total + part
    return total


def _unpacked(node: Any, op: Op) -> dict[int, Any]:
    """What a node saved, by places, if hooks have some of it: that is unpacked, once, in the op's order."""
    if not rt.node_field(node, _FLAGS) & PACKED:
        return {}
    packed = [place for place in op.saving.places if is_packed(node, place)]
    values = {place: _saved(node, place) for place in op.saving.places if place not in packed}
    return values | {place: _saved(node, place) for place in packed}


def _saved(node: Any, place: int) -> Any:
    """What a node saved in a place, with the history that it had; a number of the call as a Python number.

    Of several outputs only the first has a gradient: the others are indices, or facts of the forward pass.
    """
    if place < SAVED_INPUTS:
        value = saved_value(node, place, place)
        number = value is not None and rt.field(value, _TENSOR_FLAGS) & WRAPPED_NUMBER
        return value.item() if number else value
    value = saved_value(node, place)
    return rt.attach_output(node, 0, value) if value is not None and place == SAVED_INPUTS else value


@functools.cache
def _parameters(rule: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(rule).parameters)


def _saves(node: Any, op: Op) -> bool:
    """Whether a node saves tensors at all, or did before they were freed."""
    edges = range(rt.node_field(node, _N_IN))
    return any(rt.node_output(node, k) >= 0 and op.saved_for(min(k, RULES - 1)) for k in edges)


def _argument(op: Op, node: Any, k: int, name: str, grads: tuple[Any, ...], saved: dict[int, Any]) -> Any:
    inputs = [n.lstrip("*") for n in op.inputs]
    attrs = [n.lstrip("*") for n in op.attrs]
    if name == "g":
        return grads[0]
    if name == "gs":
        return grads
    if name in OUTPUTS or name in inputs:
        place = inputs.index(name) if name in inputs else SAVED_INPUTS + OUTPUTS.index(name)
        return saved[place] if place in saved else _saved(node, place)
    star = len(attrs) - 1
    count = rt.node_field(node, _N_ATTRS)
    if name == "sizes":
        meta = rt.input_meta(node, k)
        return (len(meta) - 2, *meta[2:])
    if name == "position":
        return k
    if name == "before":
        return sum(rt.node_attr(node, star + i) for i in range(k))
    if name == "own":
        return rt.node_attr(node, star + k)
    index = attrs.index(name)
    if op.attrs[index].startswith("*"):
        return tuple(rt.node_attr(node, i) for i in range(index, count))
    return rt.node_attr(node, index) if index < count else 0
