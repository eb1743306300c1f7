"""Each variable assigned once: the same as Numba makes of it, name by name."""

from __future__ import annotations

import io
import textwrap
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core import ssa
from numba.core.compiler import run_frontend

from fastgrad.native.base.single_assignment import _Numba, assign_once

pytestmark = pytest.mark.static

NAMES = ("a", "b", "c", "n")


def listing(function: Any) -> str:
    text = io.StringIO()
    function.dump(text)
    return text.getvalue()


def indented(text: str) -> str:
    return textwrap.indent(text, "    ")


def agree(source: str) -> str:
    """Check that both make the same of a function, which is its listing."""
    scope: dict[str, Any] = {}
    exec(source, scope)
    theirs, ours = (run_frontend(scope["f"]) for _ in range(2))
    ssa.reconstruct_ssa(theirs)
    assign_once(ours.blocks, _Numba(ours))
    assert listing(ours) == listing(theirs)
    return listing(ours)


SOURCES = {
    "nothing": "return n",
    "in a row": "a = n; a = a + 1; a += n; return a",
    "one of two ways": """
        a = 0
        if n:
            a = 1
        return a
        """,
    "undefined on one of the ways": """
        if n:
            a = 1
        return a
        """,
    "exchanged": """
        a = 0
        while n:
            a, n = n, a
        return a + n
        """,
    "around and within": """
        a = b = 0
        for i in range(n):
            if i:
                a = b
            b = a
        return a
        """,
    "nested": """
        for i in range(n):
            for j in range(i):
                n = n + j
            n = n - i
        return n
        """,
    "left early": """
        a = 1
        while True:
            if n > 3:
                break
            n = n + a
            a = n
        return n
        """,
    "what is written to": "n[0] = a = 1; a = n[a]; n.x = a; n[a] = n.x; return a",
    "ways that do not meet": """
        a = n
        if a:
            a = 1
            return a
        return a
        """,
    "deleted": """
        if n:
            del n
        return n
        """,
}
WITHOUT_JOINS = ("nothing", "in a row", "what is written to", "ways that do not meet", "deleted")


@pytest.mark.parametrize("name", SOURCES)
def test_by_hand(name: str):
    source = "def f(n):\n" + indented(textwrap.dedent(SOURCES[name]))
    assert ("phi(" in agree(source)) == (name not in WITHOUT_JOINS)


expressions = st.one_of(
    st.sampled_from(NAMES),
    st.integers(0, 3).map(str),
    st.builds(
        "{} {} {}".format, st.sampled_from(NAMES), st.sampled_from(("+", "*", "<")), st.sampled_from(NAMES)
    ),
)
assignments = st.one_of(
    st.builds("{} = {}".format, st.sampled_from(NAMES), expressions),
    st.builds("{} += {}".format, st.sampled_from(NAMES), expressions),
    st.builds("{}, {} = {}, {}".format, *[st.sampled_from(NAMES)] * 4),
)


def compound(bodies: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    some = st.lists(bodies, min_size=1, max_size=3).map("\n".join)
    jumps = st.sampled_from(("", "\nif n:\n    break", "\nif a:\n    continue", "\nif b:\n    return c"))
    return st.one_of(
        st.builds(lambda c, x: f"if {c}:\n{indented(x)}", expressions, some),
        st.builds(lambda c, x, y: f"if {c}:\n{indented(x)}\nelse:\n{indented(y)}", expressions, some, some),
        st.builds(lambda c, x, j: f"while {c}:\n{indented(x + j)}", expressions, some, jumps),
        st.builds(
            lambda v, x, j: f"for {v} in range(n):\n{indented(x + j)}", st.sampled_from(NAMES), some, jumps
        ),
    )


@settings(max_examples=150, deadline=None)
@given(st.lists(st.recursive(assignments, compound, max_leaves=12), min_size=1, max_size=6).map("\n".join))
def test_random_functions(body: str):
    # On one of the ways there is no b and no c.
    agree(f"def f(a, n):\n    if a:\n        b = c = n\n{indented(body)}\n    return a, b, c, n")


def test_what_is_written_out_takes_time_that_grows_with_it(monkeypatch: pytest.MonkeyPatch):
    """Statements are not walked over once more for each variable."""
    looked: list[Any] = []
    read = _Numba.read
    monkeypatch.setattr(
        _Numba, "read", lambda self, statement: looked.append(statement) or read(self, statement)
    )
    lines = [f"    v{k} = n + {k}\n    v{k} = v{k} * n" for k in range(200)]
    agree("def f(n):\n" + "\n".join(lines) + "\n    return n")
    assert len(looked) < 2000
