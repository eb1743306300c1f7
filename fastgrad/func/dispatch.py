"""What compiled code calls for ops on batched tensors: see Note [Batched tensors]."""

from __future__ import annotations

import warnings
from typing import Any

from fastgrad.func import custom, randomness, rules_layers, rules_places  # noqa: F401 - they declare rules
from fastgrad.func.batched import Batched, Level, batched, levels, outside, stacked
from fastgrad.func.rules import IN_PLACE, RULES, Call, elementwise
from fastgrad.native.build.loader import TensorBase, runtime_set_object
from fastgrad.native.contracts.ops import ELEMENTWISE
from fastgrad.native.host.tables import BY_NAME, OPS
from fastgrad.ops.call import apply

_SELECT = BY_NAME["select"].id


def _apply_batched(number: int, n: int, n_outs: int, *rest: Any) -> Any:
    """An op on operands of which some are batched."""
    op, given = OPS[number], rest[:n]
    level = _innermost(given)
    own = [type(x) is Batched and x._level is level for x in given]
    c = Call(op, given, own, rest[n:], n_outs, level)
    with outside(level):
        rule = elementwise if op.kind == ELEMENTWISE else RULES.get(op.name)
        out = rule(c) if rule is not None else NotImplemented
        if out is NotImplemented:
            out = _one_by_one(c)
        if n_outs == IN_PLACE:
            return given[0]
        return tuple(batched(o, level) for o in out) if isinstance(out, tuple) else batched(out, level)


def _innermost(given: tuple[Any, ...]) -> Level:
    """The innermost level of operands; RuntimeError if its call of `vmap` is over."""
    found = None
    for x in given:
        if type(x) is Batched and (found is None or x._level.depth > found.depth):
            found = x._level
    stack = levels()
    if found is None or found.depth >= len(stack) or stack[found.depth] is not found:
        raise RuntimeError(
            "a tensor of vmap was used outside of the function that got it: return it from the function instead"
        )
    return found


def _one_by_one(c: Call) -> Any:
    """An op without a rule, for each element of the batch."""
    if not c.level.size:
        raise NotImplementedError(
            f"vmap: {c.op.called}() has no batching rule, and the batch has no elements"
        )
    warnings.warn(
        f"There is a performance drop because we have not yet implemented the batching rule for {c.op.called}: it "
        "runs for each element of the batch.",
        UserWarning,
        stacklevel=4,
    )
    if c.n_outs == IN_PLACE and not c.own[0]:
        raise RuntimeError(
            f"vmap: {c.op.called}(self, *extra_args) is not possible: `self` is the same for all elements of the "
            "batch. Please use out-of-place operators instead."
        )
    rows = []
    for k in range(c.level.size):
        xs = [
            apply(_SELECT, 1, 0, x, 0, k) if own and isinstance(x, TensorBase) else x
            for x, own in zip(c.xs, c.own, strict=True)
        ]
        rows.append(c.again(xs, *c.ints))
    if isinstance(rows[0], tuple):
        return tuple(stacked(column) for column in zip(*rows, strict=True))
    return None if c.n_outs == IN_PLACE else stacked(rows)


runtime_set_object("apply_batched", _apply_batched)
