"""Passes that are recorded: what compiled programs do is what the rules do on tensors, values and graph.

`numbers` of calls, complex numbers, packed tensors and rules that ask for sizes take the other way by themselves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from op_cases import OP_CASES, OpCase
from op_testing import Traced, array_of, by_name, samples_of

import fastgrad as fg
from fastgrad.autograd import grad
from fastgrad.native.build.loader import runtime_set_object
from fastgrad.native.contracts.ops import IDENTITY
from fastgrad.native.contracts.records import BY_PYTHON
from fastgrad.native.host.tables import OPS
from fastgrad.ops import recorded
from fastgrad.ops.recorded import trace_recorded

KNOWN_OPS = tuple(OPS)  # without what other tests register, whose numbers would stay
DIFFERENTIABLE = [case for case in OP_CASES if case.differentiable and "float64" in case.dtypes]


@contextlib.contextmanager
def called_on_tensors() -> Iterator[None]:
    """No program is run: every rule of a recorded pass is called by Python."""
    known = [(op, k, op._read("recorded", k)) for op in OPS for k in op.rules]
    for op, k, _ in known:
        op.write("recorded", BY_PYTHON, k)
    try:
        yield
    finally:
        for op, k, address in known:
            op.write("recorded", address, k)


def graph_of(tensors: list[Any]) -> list[Any]:
    """Nodes in the order in which a walk from the tensors finds them: names, and where their edges go."""
    numbers: dict[Any, int] = {}
    found: list[Any] = []
    waiting = [t.grad_fn for t in tensors if t is not None and t.grad_fn is not None]
    for node in waiting:
        if node in numbers:
            continue
        numbers[node] = len(numbers)
        found.append(node)
        waiting.extend(before for before, _ in node.next_functions if before is not None)
    edges = [[(b and numbers[b], k) for b, k in node.next_functions] for node in found]
    return [(node.name(), e) for node, e in zip(found, edges, strict=True)]


def second_order(case: OpCase, sample: Any) -> tuple[list[Any], list[Any]]:
    """The gradients with their graph, and arrays of them and of those of their sum."""
    fg.manual_seed(0)
    traced = Traced(fg, case, sample)
    first = traced.gradients(create_graph=True)
    followed = [g.sum() for g in first if g is not None and g.requires_grad and not g.is_complex()]
    again = grad(followed, traced.inputs, allow_unused=True) if followed else ()
    return first, [None if g is None else array_of(g) for g in (*first, *again)]


@pytest.mark.parametrize("case", by_name(DIFFERENTIABLE))
def test_values_and_graph_are_those_of_the_rules_on_tensors(case: OpCase):
    for sample in samples_of(case, "float64"):
        compiled, values = second_order(case, sample)
        with called_on_tensors():
            called, expected = second_order(case, sample)
        assert graph_of(compiled) == graph_of(called)
        for value, other in zip(values, expected, strict=True):
            np.testing.assert_array_equal(value, other)


def test_nearly_all_rules_have_a_program():
    lacking = set()
    for op in KNOWN_OPS:
        for k in op.rules:
            if op._read("grad_kind", k) != IDENTITY:
                trace_recorded(op, k)
                if op._read("recorded", k) == BY_PYTHON:
                    lacking.add(op.name)
    assert {"mul", "mm", "tanh", "mse_loss.mean", "conv", "layer_norm", "unbind"} & lacking == set()
    assert "pow" in lacking  # its derivative by the exponent looks at the dtypes of numbers
    assert len(lacking) <= len(KNOWN_OPS) // 12, sorted(lacking)


def test_a_rule_is_called_by_python_where_a_number_of_the_call_decides():
    x = fg.tensor([2.0, 3.0], requires_grad=True)
    (g,) = grad((x**3).sum(), x, create_graph=True)
    assert grad(g.sum(), x)[0].tolist() == [12.0, 18.0]
    assert [name for name, _ in graph_of([g])][:3] == ["MulBackward0", "MulBackward0", "PowBackward0"]


def test_what_python_raises_while_it_traces_goes_through(monkeypatch: pytest.MonkeyPatch):
    x = fg.ones(2, requires_grad=True)
    y = x.sin().sum()
    (op,) = [op for op in OPS if op.name == "sin"]
    before = op._read("recorded", 0)

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(recorded, "trace", interrupted)
    op.write("recorded", 0)
    try:
        with pytest.raises(KeyboardInterrupt):
            grad(y, x, create_graph=True, retain_graph=True)
        assert op._read("recorded", 0) == 0  # the next pass tries again
    finally:
        op.write("recorded", before)
    assert grad(y, x, create_graph=True)[0].tolist() == x.cos().tolist()


def test_no_python_runs_at_nodes():
    x = fg.randn(4, 4, requires_grad=True)
    y = fg.nn.functional.layer_norm((x @ x).tanh() * 2, (4,)).square().sum()
    called = []
    real = fg.autograd.engine._apply_rules
    runtime_set_object("apply_rules", lambda *args: called.append(None) or real(*args))
    try:
        grad(y, x, create_graph=True)
        assert called == []
        grad((x**3).sum(), x, create_graph=True)
        assert len(called) == 1
    finally:
        runtime_set_object("apply_rules", real)
