"""The programs on the pages about compiled calls and fusion do what the pages say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import fastgrad as fg

DOCS = Path(__file__).resolve().parents[2] / "docs"


def run(page: str) -> dict[str, Any]:
    """Run the programs of a page one after the other: what they leave."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    for program in re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), flags=re.DOTALL):
        exec(program, scope)
    return scope


def test_compiled_calls():
    (signature,) = fg.compile.explain(run("compile.md")["step"]).signatures
    assert (signature.n_recorded, signature.n_replayed, signature.refused) == (2, 3, "")


def test_fusion():
    assert run("fusion.md")["tape"].launches == 2
