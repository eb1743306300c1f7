"""The README's table of times, and the records that it is made of."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.docs.test_site import module

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def figures() -> ModuleType:
    return module(ROOT / "tools" / "figures.py")


def record(date: str, threads: int = 1, **ratios: float) -> dict[str, Any]:
    found = {name: {"seconds": 2e-6, "ratio": ratio} for name, ratio in ratios.items()}
    versions = {"fastgrad": "0.1", "torch": "2.13.0", "numpy": "2.0"}
    return {
        "machine": {"processor": f"processor of {date}"}, "date": date, "versions": versions, "threads": threads,
        "rounds": 9, "figures": found,
    }  # fmt: skip


def test_the_readme_shows_what_was_recorded(figures):
    assert figures.main(["--check"]) == 0
    assert figures.records(figures.RECORDS)
    named = {name for name, _, _ in figures.ROWS}
    for one in figures.records(figures.RECORDS):
        assert named >= set(one["figures"])
        assert one["machine"]["processor"]
        assert one["versions"]["torch"]


def test_the_newest_record_of_each_figure_is_shown(figures):
    old, new = record("2026-01-01", chain=3, cnn=1.094), record("2026-02-01", chain=20.4)
    more = record("2026-03-01", 2, chain=9)  # on two threads, which no row shows
    lines = figures.table([old, new, more])
    assert lines[1:3] == [
        f"{k}. processor of {one['date']}, {one['date']}, fastgrad 0.1, torch 2.13.0, the median of 9 rounds"
        for k, one in ((1, new), (2, old))
    ]
    assert [line.split(" | ")[1:] for line in lines[6:]] == [
        ["2.0 us", "20", "1 |"],
        ["2.0 us", "1.09", "2 |"],
    ]


def test_a_table_that_is_out_of_date_is_found(figures, tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.md"
    page.write_text(f"a\n{figures.MARK}\n<!-- end -->\nb\n")
    monkeypatch.setattr(figures, "README", page)
    assert figures.main(["--check"]) == 1
    assert "python tools/figures.py" in capsys.readouterr().err
    assert figures.main([]) == figures.main(["--check"]) == 0
    assert "| work |" in page.read_text()


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.9e-7, "0.29 us"), (1.07e-4, "107 us"), (0.0045, "4.5 ms"), (0.23, "0.23 s")]
)
def test_times(figures, seconds, text):
    assert figures.time_text(seconds) == text


def test_recording(tmp_path):
    """A library beside itself, as short as can be: what is written, not how fast anything is."""
    out = tmp_path / "record.json"
    names = ["chain", "full_backward_hook"]  # which adds many times of what it is added to
    options = ["--record", "--beside", "fastgrad", "--rounds", "3", "--seconds", "0.005", "--out", str(out)]
    command = [sys.executable, str(ROOT / "tools" / "figures.py"), *options, *names]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True, timeout=300)
    found = json.loads(out.read_text())
    assert list(found["figures"]) == names
    for figure in found["figures"].values():
        assert min(figure["seconds"], figure["others"], figure["ratio"]) > 0
    assert set(found["versions"]) == {"fastgrad", "numpy", "numba", "python"}
    assert found["threads"] == 1
    assert found["rounds"] == 3
    assert found["machine"]["processor"]
    wrong = subprocess.run(
        [*command, "nothing"], check=False, cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert "unknown: nothing" in wrong.stderr
    assert wrong.returncode == 1
