"""Every kernel that GPUs have a form of is one that a test runs in the simulator."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from fastgrad.kernels.cuda.compile import BUILDERS
from fastgrad.ops.kernel_table import KERNELS

HERE = Path(__file__).parent
FORMS = sorted(set(BUILDERS.values()))


@functools.cache
def said_by_tests_of_bodies() -> set[str]:
    """The strings in modules of tests that run in the simulator: names of rows of the table and of builders among them.

    So are those that such a string becomes with something before or behind it.
    """
    found: set[str] = set()
    around = set()
    for path in HERE.glob("test_*.py"):
        text = path.read_text("utf-8")
        if not re.search(r"^pytestmark = pytest\.mark\.cudasim", text, re.MULTILINE):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
            if isinstance(node, ast.JoinedStr):
                parts = [p.value if isinstance(p, ast.Constant) else None for p in node.values]
                if parts.count(None) == 1:
                    at = parts.index(None)
                    around.add(("".join(parts[:at]), "".join(parts[at + 1 :])))
    return found | {before + name + behind for before, behind in around for name in found}


@pytest.mark.parametrize("form", FORMS)
def test_a_body_of_each_builder_is_run(form):
    builders = {builder for builder, made in BUILDERS.items() if made == form}
    rows = {kernel.name for kernel in KERNELS if kernel.builder in builders}
    assert rows, f"no row of the table needs {form}"
    assert (rows | builders) & said_by_tests_of_bodies(), (
        f"no test in the simulator runs any of {sorted(rows)}"
    )
