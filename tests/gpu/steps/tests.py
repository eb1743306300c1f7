"""The tests that need a GPU: every op of the table, and hooks, against the CPU."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from tests.gpu.steps.machine import PYTHON, Machine, Row, holds, output_of


def run(machine: Machine) -> Iterator[Row]:
    chosen = ["-m", "cuda"] if not machine.stand_in else ["-k", "test_values and stand-in-relu-float32"]
    workers = ["-n", str(min(8, os.cpu_count() or 1))] if not machine.stand_in else []
    command = [
        PYTHON,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--tb=line",
        *workers,
        *chosen,
        "tests/gpu",
    ]
    code, text = output_of(command, 280)
    summary = text.strip().splitlines()[-1] if text.strip() else ""
    yield holds("pytest", summary[:100], code == 0)
    for line in re.findall(r"^FAILED .*", text, re.M)[:40]:
        yield holds(line[7:120], "", False)
