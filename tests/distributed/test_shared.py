"""What ranks of one machine do in memory that they share."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ranks import PROGRAMS, environment, run, succeed

pytest.importorskip("mpi4py")
pytestmark = pytest.mark.mpi


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize(
    ("number", "cases"),
    [("O6", "small ahead"), ("O7", "in_place averages with_idle_cores which without_room"), ("O8", "freed")],
)
def test_cases(number: str, cases: str, n: int):
    assert succeed(n, "shared.py", *cases.split()) == ""


def test_o6_if_one_rank_does_not_want_it():
    assert succeed(2, "shared.py", "only_here") == ""


@pytest.mark.parametrize("n", [2, 4])
def test_o7_numbers_are_those_of_mpi(n: int, monkeypatch: pytest.MonkeyPatch):
    """Those of two ranks have the same bits; of more, MPI adds in another order."""
    here = json.loads(succeed(n, "shared.py", "train"))
    monkeypatch.setenv("FASTGRAD_SHARED_MEMORY", "0")
    by_mpi = json.loads(succeed(n, "shared.py", "train"))
    if n == 2:
        assert here == by_mpi
    for a, b in zip(here, by_mpi, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_o8_no_file_stays():
    done = run(2, "shared.py", "dies", launcher=(sys.executable, "-m", "fastgrad", "launch", "-n", "2"))
    assert done.returncode != 0
    assert "is gone" in done.stderr + done.stdout
    nothing_is_left(done.stdout)


def nothing_is_left(said: str) -> None:
    names = set(re.findall(r"/dev/shm/\w+", said))
    assert names or sys.platform != "linux"
    assert not any(Path(name).exists() for name in names)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_o8_no_file_stays_of_passes_that_are_ended(how: signal.Signals):
    """Ctrl-C, as a terminal sends it, and the end of all processes at once."""
    process = subprocess.Popen(
        [sys.executable, "-m", "fastgrad", "launch", "-n", "2", str(PROGRAMS / "shared.py"), "goes_on"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(),
        start_new_session=True,
    )
    assert process.stdout is not None
    with process:
        lines = [process.stdout.readline() for _ in range(2)]
        os.killpg(process.pid, how)
        if how is signal.SIGKILL:  # mpiexec puts ranks into groups of their own, which end with it
            process.wait(timeout=20)
        said, _ = process.communicate(timeout=20)
    assert process.returncode != 0
    nothing_is_left("".join(lines) + said)


def test_w1_calls_are_compared():
    done = run(2, "shared.py", "differs")
    assert done.returncode != 0
    assert "does not match the calls of the other ranks" in done.stderr
    assert "rank 1 called all_reduce(float32, 5 elements, SUM)" in done.stderr
