"""Declaring a derivative: what a rule may not do is said when it is declared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import invoke
from fastgrad.ops.rules import trace

DECISIONS: dict[str, Callable[..., Any]] = {
    "a value": lambda g, y: -g if y else g,
    "equality": lambda g, y: -g if y == 0 else g,
    "an order": lambda g, y: -g if y > 0 else g,
    "an integer": lambda g, dim: -g if dim else g,
    "equality of an integer": lambda g, dim: -g if dim == 0 else g,
    "a range": lambda g, dim: sum(g for _ in range(dim)),
    "a number": lambda g, y: g * float(y),
}


@pytest.mark.parametrize("name", DECISIONS)
def test_a_rule_cannot_decide_by_what_it_reads(name: str):
    with pytest.raises(TypeError, match=r"m\.where"):
        trace(BY_NAME["softmax"], DECISIONS[name])


def test_a_rule_reads_what_there_is():
    with pytest.raises(ValueError, match="the rule of softmax asks for 'z'"):
        trace(BY_NAME["softmax"], lambda g, z: g)


def test_a_rule_gives_a_tensor():
    with pytest.raises(TypeError, match="the rule of softmax must return a tensor, but returned int"):
        trace(BY_NAME["softmax"], lambda g: 3)


def test_a_rule_calls_so_many_ops():
    def rule(g: Any) -> Any:
        for _ in range(60):
            g = invoke(BY_NAME["neg"], (g,))
        return g

    with pytest.raises(RuntimeError, match="a rule may call at most 51 ops"):
        trace(BY_NAME["softmax"], rule)
