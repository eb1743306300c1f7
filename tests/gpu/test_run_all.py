"""The program that a machine with a GPU runs does its steps, here over a driver without a GPU."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.gpu.run_all import STEPS
from tests.gpu.run_all import __file__ as program


@pytest.mark.slow
def test_all_steps_run_over_a_driver_without_a_gpu(tmp_path):
    done = subprocess.run(
        [sys.executable, program, "--stand-in", "--out", str(tmp_path), "--budget", "540"],
        capture_output=True, text=True, timeout=580,
    )  # fmt: skip
    found = json.loads((tmp_path / "all.json").read_text())
    wrong = [(step, row) for step, rows in found.items() for row in rows if row["ok"] is False]
    assert not wrong
    assert set(found) == set(STEPS)
    assert all(len(rows) > 1 for rows in found.values())
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "table.md").read_text().count("\n") > 60
