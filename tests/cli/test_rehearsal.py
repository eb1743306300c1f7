"""The rehearsal, which wheels are built with, asks for all the compiled code that the demo asks for."""

from __future__ import annotations

import pytest

from tests.asked import asked

pytest.importorskip("rich")
pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

DEMO = """
from fastgrad import cli
assert cli.main(["demo", "--epochs", "1", "--quick", "--report", {report!r}]) == 0
"""

REHEARSAL = """
from fastgrad.demo import rehearsal
rehearsal.run_demo()
rehearsal.run_layers()
"""


@pytest.mark.slow
def test_the_demo_asks_for_nothing_that_was_not_rehearsed(tmp_path):
    report = str(tmp_path / "report.html")
    rehearsed = set(asked(REHEARSAL, tmp_path, FASTGRAD_DEBUG="0"))
    assert len(rehearsed) > 20
    assert set(asked(DEMO.format(report=report), tmp_path, FASTGRAD_DEBUG="0")) <= rehearsed
