"""`fastgrad launch`, and what programs find in their environment."""

from __future__ import annotations

import subprocess
import sys

import pytest
from ranks import PROGRAMS, environment, run

from fastgrad import cli
from fastgrad.distributed import launching

pytest.importorskip("mpi4py")
LAUNCH = (sys.executable, "-m", "fastgrad", "launch", "-n")
NUMBERS = [["0", "2", "0", "2"], ["1", "2", "1", "2"]]


@pytest.mark.mpi
def test_g4_a_program():
    done = run(2, "launched.py", "0", "-x", "--n=3", launcher=(*LAUNCH, "2"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "['0', '-x', '--n=3'] launched.py",
        *(f"{numbers} {numbers} {rank}" for rank, numbers in enumerate(NUMBERS)),
    ]


@pytest.mark.mpi
def test_g4_mpiexec_alone():
    done = run(2, "launched.py")
    assert done.returncode == 0, done.stderr
    nothing = [None] * 4
    expected = [f"{nothing} {numbers} {rank}" for rank, numbers in enumerate(NUMBERS)]
    assert done.stdout.splitlines()[1:] == expected


@pytest.mark.mpi
def test_exit_codes():
    assert run(2, "launched.py", "3", launcher=(*LAUNCH, "2")).returncode == 3


@pytest.mark.mpi
def test_a_module():
    done = subprocess.run(
        [*LAUNCH, "2", "-m", "launched", "0", "a"],
        capture_output=True,
        text=True,
        env=environment(),
        cwd=PROGRAMS,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("['0', 'a'] launched.py\n")


@pytest.mark.mpi
def test_another_rank_in_the_environment():
    code = (
        "import os; os.environ['RANK'] = '5'; import fastgrad.distributed as dist; dist.init_process_group()"
    )
    done = run(2, "-c", code)
    assert done.returncode != 0
    assert "the environment's RANK is '5', but MPI says" in done.stderr


def test_what_is_missing(capsys, monkeypatch, tmp_path):
    assert cli.main(["launch", "-n", "2", str(tmp_path / "nothing.py")]) == cli.EXIT_USAGE
    assert "expected the path of a file" in capsys.readouterr().err
    monkeypatch.setattr(launching, "find_mpiexec", lambda: None)
    assert cli.main(["launch", "-n", "2", __file__]) == cli.EXIT_MISSING_EXTRA
    assert "launch needs mpiexec" in capsys.readouterr().err
    for arguments in (["launch", "x.py"], ["launch", "-n", "0", "x.py"], ["launch", "-n", "2"]):
        with pytest.raises(SystemExit) as caught:
            cli.main(arguments)
        assert caught.value.code == 2


def test_an_mpiexec_that_cannot_run(capsys, monkeypatch, tmp_path):
    broken = tmp_path / "mpiexec"
    broken.touch()
    monkeypatch.setattr(launching, "find_mpiexec", lambda: str(broken))
    monkeypatch.setattr(cli, "_has", lambda module: True)
    assert cli.main(["launch", "-n", "2", __file__]) == cli.EXIT_FAILURE
    assert f"{broken}: Permission denied" in capsys.readouterr().err
