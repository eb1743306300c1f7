"""What goes wrong between ranks: every other one says what, and no process is left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ranks import MPIEXEC, PROGRAMS, environment

from fastgrad.distributed import faults

pytest.importorskip("mpi4py")
pytestmark = pytest.mark.mpi

LAUNCH = (sys.executable, "-m", "fastgrad", "launch", "-n")
DOES_NOT_MATCH = "does not match the calls of the other ranks of the default group: rank 0 called"


def in_session(session: int) -> list[int]:
    """The processes of a session that run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, number = path.read_text().rpartition(") ")[2].split()[:4]
        except OSError:  # it has just ended
            continue
        if int(number) == session and state not in "ZX":
            found.append(int(path.parent.name))
    return found


def goes_wrong(case: str, folder: Path, n: int = 2) -> str:
    """What a program says that goes wrong on its last rank; nothing of it is left."""
    with subprocess.Popen(
        [*LAUNCH, str(n), str(PROGRAMS / "faults.py"), case, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
        start_new_session=True,
    ) as process:
        said, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    end = time.monotonic() + 5
    while in_session(process.pid) and time.monotonic() < end:
        time.sleep(0.02)
    assert not in_session(process.pid)
    return said


@pytest.mark.parametrize(
    ("number", "case", "words"),
    [
        (
            "W3",
            "killed",
            ["all_reduce() (call 2) on rank 0 cannot be completed: rank 1 failed: its process (", "is gone"],
        ),
        ("W3", "killed_while_receiving", ["recv() of rank 0 with rank 1 cannot be completed", "is gone"]),
        (
            "W3",
            "killed_beside",
            ["all_reduce() (call 2) on rank 0 cannot be completed: rank 1 failed: its process (", "is gone"],
        ),
        ("W4", "late_beside", ["all_reduce() (call 1) on rank 0 timed out after 2 s: rank 1 did not come"]),
        ("W2", "early", ["LookupError: before the group"]),
        ("W4", "absent", ["init_process_group() on rank 0 timed out after 2 s: not all 2 ranks called it"]),
        (
            "W2",
            "raises",
            ["LookupError: of this rank", "on rank 0 cannot be completed: rank 1 failed: LookupError"],
        ),
        ("W3", "ends", ["on rank 0 cannot be completed: rank 1 left after 0 calls of this group"]),
        ("W3", "ends_in_a_message", ["recv() of rank 0 with rank 1 cannot be completed: rank 1 left"]),
        ("W4", "late", ["all_reduce() (call 1) on rank 0 timed out after 2 s: rank 1 did not come"]),
        (
            "W1",
            "sizes",
            [f"{DOES_NOT_MATCH} all_reduce(float32, 4 elements, SUM)", "(float32, 5 elements, SUM)"],
        ),
        (
            "W1",
            "dtypes",
            [f"{DOES_NOT_MATCH} all_reduce(float32, 4 elements, SUM)", "(float64, 4 elements, SUM)"],
        ),
        ("W1", "operations", [f"{DOES_NOT_MATCH} all_reduce(float32, 4 elements, SUM)", "4 elements, MAX)"]),
        (
            "W1",
            "order",
            [f"{DOES_NOT_MATCH} all_reduce(float32, 4 elements, SUM)", "rank 1 called broadcast("],
        ),
        ("W1", "roots", ["src=0)", "src=1)"]),
        ("W5", "messages", ["recv() of rank 0 with rank 1 expected 16 bytes, but rank 1 sent 12"]),
        ("W1", "splits", ["all_to_all_single(): rank 1 sends 2 elements to rank 1, which expects 1"]),
        ("W1", "groups", ["rank 0 called new_group([0, 1])", "rank 1 called new_group([0])"]),
        (
            "W2",
            "hook",
            ["LookupError: in the hook\nin communication hook mine, bucket 0", "rank 1 failed: LookupError"],
        ),
        (
            "W2",
            "joins",
            ["LookupError: in a batch", "on rank 0 cannot be completed: rank 1 failed: LookupError"],
        ),
        ("W1", "divides", ["rank 0 called broadcast(float32, 4 elements, src=0)", "5 elements, src=0)"]),
        (
            "W1",
            "ahead",
            [f"{DOES_NOT_MATCH} all_reduce(float32, 4 elements, SUM), call 1; rank 1 called barrier()"],
        ),
        ("W1", "caught", [f"{DOES_NOT_MATCH} all_reduce(", "rank 1 called barrier()"]),
        ("W2", "says_nothing", ["cannot be completed: rank 1 failed: SilentError: <exception str() failed>"]),
        ("W2", "finalized", ["all_reduce(): MPI has been finalized"]),
        ("W6", "busy", ["LookupError: of this rank"]),
        ("W6", "tries_again", ["rank 0: the default group cannot be used any more", "rank 1 went on"]),
    ],
)
def test_two_ranks(number: str, case: str, words: list[str], tmp_path: Path):
    said = goes_wrong(case, tmp_path)
    assert all(word in said for word in words), said


@pytest.mark.parametrize("case", ["killed", "raises", "late"])
def test_four_ranks(case: str, tmp_path: Path):
    said = goes_wrong(case, tmp_path, 4)
    call = "1" if case == "late" else "2"
    for rank in range(3):
        assert re.search(rf"all_reduce\(\) \(call {call}\) on rank {rank} ", said), said
    assert "rank 3 did not come" in said if case == "late" else "rank 3 failed" in said


def test_w8_no_file_stays_of_shared_memory(tmp_path: Path):
    said = goes_wrong("early", tmp_path)
    names = set(re.findall(r"/dev/shm/\w+", said))
    assert names or sys.platform != "linux"
    assert not any(Path(name).exists() for name in names)


def test_what_is_printed_is_read_before_all_are_ended(tmp_path: Path):
    """A rank asks the pipe; what is no pipe keeps everything by itself."""
    code = (
        "import sys, time\nfrom fastgrad.distributed import faults\n"
        "print('x' * 9999)\nstart = time.monotonic()\nfaults.hand_over()\n"
        "sys.stderr.write(f'{time.monotonic() - start} {faults._unread(1)}')"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stderr is not None
        waited, unread = process.stderr.read().split()  # nobody reads what it printed
        assert float(waited) >= faults.READ_IN
        assert int(unread) == 10_000
    with (tmp_path / "file").open("w") as file:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=file, stderr=subprocess.PIPE, env=environment(), check=True
        )
    assert done.stderr.split()[1] == b"0"
    assert (tmp_path / "file").stat().st_size == 10_000


def test_without_the_launcher(tmp_path: Path):
    """mpiexec itself ends all ranks when one dies."""
    done = subprocess.run(
        [str(MPIEXEC), "-n", "2", sys.executable, str(PROGRAMS / "faults.py"), "killed", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(),
        check=False,
    )
    assert done.returncode != 0


def test_w7_interrupts(tmp_path: Path):
    process = subprocess.Popen(
        [*LAUNCH, "2", str(PROGRAMS / "faults.py"), "interrupted", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(),
        start_new_session=True,
    )
    assert process.stdout is not None
    with process:
        for _ in range(2):
            assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        process.communicate(timeout=20)
    assert process.returncode != 0
    end = time.monotonic() + 5
    while in_session(process.pid) and time.monotonic() < end:
        time.sleep(0.02)
    assert not in_session(process.pid)
