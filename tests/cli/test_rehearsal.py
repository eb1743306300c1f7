"""The rehearsal, which wheels are built with, asks for all the compiled code that the demo asks for."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("rich")
pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

ASKED = """
import sys
from fastgrad.native.build import cache  # the runtime is loaded with it
names, get = set(), cache.get
def spy(name, *rest):
    names.add(name)
    return get(name, *rest)
cache.get = spy
{program}
print(*sorted(names), sep="\\n", file=sys.__stderr__)
"""

DEMO = """
from fastgrad import cli
assert cli.main(["demo", "--epochs", "1", "--quick", "--report", sys.argv[1]]) == 0
"""

REHEARSAL = """
from fastgrad.demo import rehearsal
rehearsal.run_demo()
rehearsal.run_layers()
"""


def asked(program: str, report: str) -> set[str]:
    """The kernels that a program asks for, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-q", "-c", ASKED.format(program=program), report],
        env={**os.environ, "FASTGRAD_DEBUG": "0"}, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {line for line in done.stderr.splitlines() if line.count("-") >= 1 and " " not in line}


@pytest.mark.slow
def test_the_demo_asks_for_nothing_that_was_not_rehearsed(tmp_path):
    report = str(tmp_path / "report.html")
    rehearsed = asked(REHEARSAL, report)
    assert len(rehearsed) > 20
    assert asked(DEMO, report) <= rehearsed
