"""The table of reasons: what a message asks for is there, and who fails leaves as many facts as the reason has."""

from __future__ import annotations

import ast
import string
from collections.abc import Iterator
from pathlib import Path

import pytest

import fastgrad
from fastgrad import errors
from fastgrad.native.contracts import status
from fastgrad.native.contracts.status import REASONS

NAMES = {
    name: value
    for name, value in vars(status).items()
    if f"\n{name} = _reason(" in Path(status.__file__).read_text(encoding="utf-8")
}
CALLS = ["op", "ints", "first", "others", "operands", "types", "place0", "devices", "live_bytes"]
NATIVE = Path(fastgrad.__file__).parent / "native"


def test_every_reason_has_one_name_and_one_number():
    assert sorted(NAMES.values()) == list(range(-len(REASONS), 0))


@pytest.mark.parametrize("name", NAMES)
def test_a_text_asks_for_facts_and_for_what_was_given(name):
    reason = REASONS[NAMES[name]]
    asked = {field for _, field, _, _ in string.Formatter().parse(reason.text) if field is not None}
    assert asked <= {fact.name for fact in reason.facts} | set(CALLS)
    assert {fact.kind for fact in reason.facts} <= {*errors._KINDS, "place", "sizes", "view"}


def failures() -> Iterator[tuple[str, str, int]]:
    """Where compiled code fails: file and line, reason, number of facts."""
    for path in sorted(NATIVE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "fail":
                for reason in reasons(node.args[0]):
                    yield f"{path.name}:{node.lineno}", reason, len(node.args) - 1


def test_nobody_changes_the_sign_of_a_failure():
    """A reason is negative by itself, so what failed is handed on as it is."""
    wrong = []
    for path in sorted(NATIVE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
                text = ast.unparse(node.operand)
                if text in NAMES or text in ("status", "reason") or text.startswith("fail("):
                    wrong.append(f"{path.name}:{node.lineno}: -{text}")
    assert not wrong


def reasons(node: ast.expr) -> list[str]:
    """The names of the reasons that an expression may stand for; none for a variable."""
    if isinstance(node, ast.IfExp):
        return [*reasons(node.body), *reasons(node.orelse)]
    return [node.id] if isinstance(node, ast.Name) and node.id.isupper() else []


def test_who_fails_leaves_the_facts_of_the_reason():
    found = list(failures())
    assert len(found) > 60
    wrong = {
        where: (name, given, len(REASONS[NAMES[name]].facts))
        for where, name, given in found
        if given != len(REASONS[NAMES[name]].facts)
    }
    assert not wrong
