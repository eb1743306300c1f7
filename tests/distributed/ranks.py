"""Programs of several ranks, started as users start them."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
MPIEXEC = Path(sysconfig.get_path("scripts")) / "mpiexec"
LIMIT = 120  # seconds; a program that hangs ends by its own time limits long before
NUMBERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in NUMBERS}
    path = os.pathsep.join(filter(None, (str(ROOT), kept.get("PYTHONPATH"))))
    return kept | {"PYTHONPATH": path, "FASTGRAD_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def run(n: int, *command: str, launcher: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run a program on `n` ranks: the name of one in `programs`, or ``-c`` and its text."""
    what = command if command[0] == "-c" else (str(PROGRAMS / command[0]), *command[1:])
    start = launcher or (str(MPIEXEC), "-n", str(n), sys.executable)
    return subprocess.run(
        [*start, *what], capture_output=True, text=True, timeout=LIMIT, env=environment(), check=False
    )


def succeed(n: int, *command: str) -> str:
    """What a program that ends well on all ranks prints."""
    done = run(n, *command)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
