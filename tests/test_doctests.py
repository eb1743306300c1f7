"""The examples in docstrings give what they say, and the programs in the documentation run."""

from __future__ import annotations

import builtins
import doctest
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fastgrad

PACKAGE = Path(fastgrad.__file__).parent
ROOT = Path(__file__).parents[1]
SKIPPED = ("demo", "kernels")  # these need the extra `demo`, or Numba, when they are imported


def modules_with_examples() -> Iterator[str]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[0] not in SKIPPED and ">>> " in path.read_text(encoding="utf-8"):
            yield ".".join(("fastgrad", *parts)).removesuffix(".__init__")


def programs() -> Iterator[Any]:
    """The code blocks of the documentation that are whole programs."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        for found in re.finditer(r"^```python\n(import fastgrad.*?)^```", text, re.DOTALL | re.MULTILINE):
            line = text.count("\n", 0, found.start()) + 2
            place = f"{path.relative_to(ROOT)}:{line}"
            yield pytest.param(place, "\n" * (line - 1) + found[1], id=place)


@pytest.fixture(autouse=True)
def last_result() -> Iterator[None]:
    """An example binds its last value to ``_``, which would keep a tensor."""
    yield
    vars(builtins).pop("_", None)


@pytest.mark.parametrize("name", list(modules_with_examples()))
def test_examples(name: str):
    if name.startswith("fastgrad.utils.tensorboard"):
        pytest.importorskip("tensorboard")
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name)):
        runner.run(test, out=report.append)
    assert runner.tries > 0
    assert runner.failures == 0, "".join(report)


@pytest.mark.parametrize(("place", "source"), list(programs()))
def test_programs(
    place: str,
    source: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
):
    if "fastgrad.utils.tensorboard" in source:
        pytest.importorskip("tensorboard")
    monkeypatch.chdir(tmp_path)  # where they write files
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        exec(compile(source, place, "exec"), names)
    finally:
        names.clear()


def test_both_kinds_are_found():
    assert len(list(modules_with_examples())) >= 5
    assert list(programs())
