"""Programs for passes that are recorded themselves, made of rules when a pass first asks for them.

See Note [Recorded derivatives] in `native.backward.derivatives`.
"""

from __future__ import annotations

import functools
import operator
from contextlib import suppress

from fastgrad.native.contracts.limits import SAVED_INPUTS
from fastgrad.native.contracts.records import BY_PYTHON
from fastgrad.ops.registry import Op
from fastgrad.ops.rules import LongRuleError, Recorded, install, trace
from fastgrad.ops.saving import OUTPUTS


def trace_recorded(op: Op, k: int) -> None:
    """Tell the runtime what gives the gradient of input `k` of an op with a history: a program, another op, or Python.

    A rule that asks for more than a trace knows, such as sizes or values, is called on tensors in each pass.
    """
    rule = op.rules.get(k)
    address = BY_PYTHON
    if k in op.recorded and not op.joint:
        address = install(_together(op, op.recorded[k]))
        op.write("together", address, k)
    elif rule is not None and not op.joint:
        with suppress(AttributeError, TypeError, LongRuleError):
            rules = rule if isinstance(rule, tuple) else (rule,)
            programs = [trace(op, one, recorded=True) if one else None for one in rules]
            masks = [program.takes_numbers for program in programs if program]
            op.write("takes_numbers", functools.reduce(operator.and_, masks), k)
            addresses = [program.install() if program else 0 for program in programs]
            address = install(addresses) if isinstance(rule, tuple) else addresses[0]
    op.write("recorded", address, k)


def _together(op: Op, by: Recorded) -> list[int]:
    """What the runtime knows of an op that records gradients of inputs: see `native.contracts.records`."""
    places = {name: place for place, name in enumerate(op.inputs[:SAVED_INPUTS])}
    places |= {name: SAVED_INPUTS + k for k, name in enumerate(OUTPUTS) if name not in places}
    results = [which if isinstance(which, int) else -1 - places[which] for which in by.results]
    return [by.op.id, len(by.read), *(places[name] for name in by.read), len(results), *results]
