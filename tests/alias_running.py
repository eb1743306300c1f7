"""Running programs under the alias, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ALIAS = ("-m", "fastgrad.as_torch")


def started(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What ``python ...`` did."""
    root = str(Path(__file__).parents[1])
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": root, "FASTGRAD_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=240, cwd=cwd,
    )  # fmt: skip


def output(*arguments: str | Path, cwd: Path | None = None) -> str:
    """What ``python ...`` printed; it has to end well."""
    done = started(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def under_alias(program: str) -> str:
    """What a program printed that ran under the alias."""
    return output(*ALIAS, "-c", program)
