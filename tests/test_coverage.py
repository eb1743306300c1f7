"""The table of what of PyTorch there is: its file of totals, the page that shows it, what falls below it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fastgrad.testing import coverage

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "tests" / "coverage.json"
TOTALS = {"ops that exist": (3, 4), "samples": (1200, 1300)}


def test_readme_shows_the_totals_that_are_kept():
    page = (ROOT / "README.md").read_text()
    assert coverage.with_table(page, json.loads(KEPT.read_text())) == page


def test_table_in_a_page():
    page = f"before\n{coverage._BEGIN}\nold\n{coverage._END}\nafter\n"
    written = coverage.with_table(page, TOTALS)
    assert "| samples | 1,200 of 1,300 |" in written
    assert "old" not in written
    assert written.startswith("before\n")
    assert written.endswith("\nafter\n")
    assert coverage.with_table(written, TOTALS) == written
    with pytest.raises(ValueError, match="no place for the table"):
        coverage.with_table("a page", TOTALS)


def test_page_is_written_without_pytorch(tmp_path):
    page, totals = tmp_path / "page.md", tmp_path / "totals.json"
    page.write_text(f"{coverage._BEGIN}{coverage._END}")
    totals.write_text(json.dumps(TOTALS))
    assert coverage.main(["--baseline", str(totals), "--readme", str(page)]) == 0
    assert "ops that exist | 3 of 4" in page.read_text()
    with pytest.raises(SystemExit):
        coverage.main(["--readme", str(page)])


@pytest.mark.parity
def test_baseline_refuses_what_fell(tmp_path, capsys):
    pytest.importorskip("torch")
    pytest.importorskip("expecttest")
    kept = tmp_path / "totals.json"
    arguments = ["--only", "hypot", "--jobs", "1"]
    assert coverage.main([*arguments, "--write", str(kept)]) == 0
    assert coverage.main([*arguments, "--baseline", str(kept)]) == 0
    totals = json.loads(kept.read_text())
    assert totals["ops that exist"] == [1, 1]
    assert totals["samples"][0] == totals["samples"][1] > 0
    more = totals["samples"][0] + coverage.SLACK["samples"] + 1
    kept.write_text(json.dumps(totals | {"samples": [more, more], "gone": [1, 1]}))
    assert coverage.main([*arguments, "--baseline", str(kept)]) == 1
    said = capsys.readouterr().err
    assert f"samples: {totals['samples'][0]}, was {more}" in said
    assert "gone: 0, was 1" in said
