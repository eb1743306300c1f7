"""Calls on tensors of GPUs by NCCL, over stand-ins of the driver and the library."""

from __future__ import annotations

import pytest
from ranks import run, succeed

pytest.importorskip("mpi4py")
pytestmark = pytest.mark.mpi


@pytest.mark.parametrize(
    ("number", "case"),
    [
        ("N1", "collectives"),
        ("N1", "exchanges"),
        ("N1", "objects"),
        ("N2", "kept"),
        ("N2", "streams"),
        ("N3", "ddp"),
        ("N4", "messages"),
        ("N5", "refused"),
    ],
)
def test_two_ranks(number: str, case: str):
    assert succeed(2, "gpus.py", case) == ""


def test_n1_groups_of_some_ranks():
    assert succeed(4, "gpus.py", "subgroups") == ""


def test_n6_where_a_tensor_lies_is_compared():
    done = run(2, "gpus.py", "differs")
    assert done.returncode != 0
    assert "rank 0 called all_reduce(float32, 4 elements, SUM, on GPUs)" in done.stderr
    assert "rank 1 called all_reduce(float32, 4 elements, SUM)" in done.stderr


def test_n6_who_gets_what_is_gathered_is_compared():
    done = run(2, "gpus.py", "roots")
    assert done.returncode != 0
    assert "rank 0 called gather(float32, 4 elements, dst=0, on GPUs)" in done.stderr
    assert "rank 1 called gather(float32, 4 elements, dst=1, on GPUs)" in done.stderr


def test_n6_what_nccl_says():
    done = run(2, "gpus.py", "fails")
    assert done.returncode != 0
    assert done.stdout.count("told\n") == 2, done.stderr
