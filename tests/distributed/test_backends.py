"""Names of backends, which programs compare with."""

from __future__ import annotations

import pytest

from fastgrad import distributed as dist
from fastgrad.cuda import libraries
from fastgrad.distributed import nccl

NAMES = ("undefined", "gloo", "nccl", "xccl", "ucc", "mpi", "fake")


def test_names_are_plain_strings_in_lower_case():
    assert dist.Backend("MPI") == dist.Backend.MPI == "mpi"
    assert type(dist.Backend("Other")) is str
    assert [getattr(dist.Backend, name.upper()) for name in NAMES] == list(NAMES)
    assert list(dist.Backend.backend_list) == list(NAMES)


@pytest.mark.parametrize("wrong", [None, 3, b"mpi"])
def test_a_name_is_a_string(wrong):
    with pytest.raises(ValueError, match="must be a str"):
        dist.Backend(wrong)


def test_there_is_no_other_transport():
    with pytest.raises(NotImplementedError, match="'mine' cannot be added"):
        dist.Backend.register_backend("mine", lambda *_: None)


def test_nccl_needs_a_gpu_and_its_library(monkeypatch):
    pytest.importorskip("mpi4py")
    monkeypatch.setattr("fastgrad.cuda.gpus.count", lambda: 0)
    with pytest.raises(ValueError, match="no GPUs found"):
        dist.init_process_group("nccl")
    assert not dist.is_initialized()
    with pytest.raises(ImportError, match="install it"):
        libraries.load("of nobody", ("libnobody.so",), "install it")

    def missing():
        raise ImportError("not found")

    monkeypatch.setattr(nccl, "library", missing)
    monkeypatch.setattr("fastgrad.cuda.gpus.count", lambda: 1)
    assert not dist.is_nccl_available()
    assert not dist.is_backend_available("nccl")
    with pytest.raises(ImportError, match="not found"):
        dist.init_process_group("nccl")
    assert not dist.is_initialized()


@pytest.mark.parity
def test_names_are_those_of_pytorch():
    theirs = pytest.importorskip("torch").distributed.Backend
    assert set(dist.Backend.backend_list) == set(theirs.backend_list)
    assert all(getattr(dist.Backend, n.upper()) == getattr(theirs, n.upper()) for n in NAMES)
