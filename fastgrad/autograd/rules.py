"""A node applied in Python: its op's rules on tensors, so that what they compute can be differentiated again."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from fastgrad.autograd.saved import saved_value
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.flags import IN_VIEW, SAVED_FREED
from fastgrad.native.contracts.records import NODE
from fastgrad.ops.registry import OPS, Op
from fastgrad.ops.shape import copy_slices

_OP, _N_IN, _FLAGS = (NODE.fields[n][0] for n in ("op", "n_in", "flags"))
_N_ATTRS = NODE.fields["n_attrs"][0]
MAX_SAVED_INPUTS = 4


def apply_rules(
    node: Any, grads: tuple[Any, ...], wanted: Callable[[int], Any] | None = None
) -> Iterator[tuple[int, Any]]:
    """Yield input number and gradient for each input that needs one and, if `wanted` is given, is wanted."""
    op, flags = OPS[rt.node_field(node, _OP)], rt.node_field(node, _FLAGS)
    undefined = all(g is None for g in grads)
    if flags & SAVED_FREED:
        if _reads_saved(op) or (op is copy_slices and not undefined):
            rt.check_saved(node)  # raises
    elif not (undefined and flags & IN_VIEW):
        rt.check_saved(node)
    if undefined:
        return
    if op.joint:
        rule = op.rules[0]
        results = rule(**{name: _argument(op, node, 0, name, grads) for name in _parameters(rule)})
        yield from ((k, results[k]) for k in range(len(results)) if rt.node_output(node, k) >= 0)
        return
    for k in range(rt.node_field(node, _N_IN)):
        if rt.node_output(node, k) < 0 or not (wanted is None or wanted(k)):
            continue
        rule = op.rules.get(min(k, 3))
        if rule is None:
            raise NotImplementedError(
                f"the derivative of {op.name} with regard to input {k} is not implemented"
            )
        names = _parameters(rule)
        if grads[0] is None and "gs" not in names:
            continue
        yield k, rule(**{name: _argument(op, node, k, name, grads) for name in names})


@functools.cache
def _parameters(rule: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(rule).parameters)


def _reads_saved(op: Op) -> bool:
    inputs = {n.lstrip("*") for n in op.inputs}
    return any(n in inputs or n in ("y", "y1") for rule in op.rules.values() for n in _parameters(rule))


def _differentiable(op: Op) -> int:
    """How many outputs of an op have a gradient: the others are indices, or facts of the forward pass."""
    return 1


def _argument(op: Op, node: Any, k: int, name: str, grads: tuple[Any, ...]) -> Any:
    inputs = [n.lstrip("*") for n in op.inputs]
    attrs = [n.lstrip("*") for n in op.attrs]
    if name == "g":
        return grads[0]
    if name == "gs":
        return grads
    if name in ("y", "y1"):
        which = ("y", "y1").index(name)
        saved = saved_value(node, MAX_SAVED_INPUTS + which)
        return rt.attach_output(node, which, saved) if which < _differentiable(op) else saved
    if name in inputs:
        place = inputs.index(name)
        return saved_value(node, place, place)
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
