"""Calls get on while ranks compute, by a thread that runs no Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ranks import run, succeed

pytest.importorskip("mpi4py")
pytestmark = pytest.mark.mpi


def trained(monkeypatch: pytest.MonkeyPatch, thread: str) -> list[list[object]]:
    monkeypatch.setenv("FASTGRAD_PROGRESS_THREAD", thread)
    log, numbers = json.loads(succeed(2, "overlap.py", "train"))
    return [log, numbers]


def test_o2_hooks_keep_their_order(monkeypatch: pytest.MonkeyPatch):
    """The program's last hook also waits until all other buckets are reduced, with the thread."""
    log, numbers = trained(monkeypatch, "1")
    assert [log, numbers] == trained(monkeypatch, "0")
    names = [f"{k}.weight" for k in (3, 2, 1, 0)]
    one = [[f"tensor {n}", *["last"] * (n == names[-1]), f"accumulated {n}"] for n in names]
    buckets = [[f"bucket {k}: {n}"] for k, n in enumerate(names)]
    wanted = [event for pair in zip(one, buckets, strict=True) for events in pair for event in events]
    wanted += [f"reduced {k}" for k in range(4)]
    assert log[-len(wanted) :] == wanted


@pytest.mark.parametrize(
    ("number", "case"),
    [("O3", "beside"), ("O4", "ends"), ("O4", "forked"), ("O1", "many")],
)
def test_two_ranks(number: str, case: str, tmp_path: Path):
    assert succeed(2, "overlap.py", case, str(tmp_path / "looked")) == ""


def test_o5_where_mpi_is_for_one_thread(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MPI4PY_RC_THREAD_LEVEL", "single")
    assert succeed(2, "overlap.py", "single") == ""


def test_o5_without_the_thread(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("FASTGRAD_PROGRESS_THREAD", "0")
    assert succeed(2, "overlap.py", "many") == ""
    done = run(2, "overlap.py", "beside", str(tmp_path / "looked"))
    assert done.returncode != 0
    assert "comes_by_itself" in done.stderr
