"""Memory that processes share, and functions that run in several of them."""

from __future__ import annotations

import errno
import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fastgrad as fg
from fastgrad import multiprocessing as mp
from fastgrad.functions import shared_memory
from fastgrad.functions.shared_memory import Block, filled
from fastgrad.multiprocessing import reductions
from tests.utils.test_data_workers import alive

METHODS = ["fork", "spawn", "forkserver"]


# --- what other processes run -------------------------------------------------------------------------------


def fill_both(index: int, shared: Any, copied: Any, value: float) -> None:
    shared.fill_(value)
    copied.fill_(value)


def answer(tasks: Any, answers: Any) -> None:
    while (task := tasks.get()) is not None:
        answers.put(task * 2)
        task.add_(1)
    answers.put("end")
    tasks.get()  # memory of a process stays as long as this one


def train(index: int, model: Any) -> None:
    x = fg.ones(4, 2)
    optimizer = fg.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()


def fail(index: int, how: str) -> None:
    if index == 0:
        time.sleep(60)
    if how == "raise":
        raise ValueError("wrong " + "x" * 10**6)
    if how == "exit":
        sys.exit(3)
    os.kill(os.getpid(), signal.SIGKILL)


def nothing(index: int) -> None:
    pass


# --- tensors ------------------------------------------------------------------------------------------------


def test_names():
    for name in multiprocessing.__all__:
        assert getattr(mp, name) is getattr(multiprocessing, name)
    for name in mp.__all__:
        assert hasattr(mp, name)
    assert mp.get_all_sharing_strategies() == {mp.get_sharing_strategy()} == {"file_descriptor"}
    mp.set_sharing_strategy("file_descriptor")
    with pytest.raises(AssertionError, match="invalid sharing strategy 'file_system'"):
        mp.set_sharing_strategy("file_system")


@pytest.mark.parametrize("lib", ["fastgrad", pytest.param("torch", marks=pytest.mark.parity)], indirect=True)
def test_sharing_keeps_the_tensor(lib: ModuleType):
    x = lib.arange(6.0).view(2, 3)
    assert not x.is_shared()
    assert x.share_memory_() is x
    assert x.share_memory_().is_shared()
    assert x[1:].is_shared()
    assert not (x + 1).is_shared()
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    y = lib.ones(3, requires_grad=True)
    y.share_memory_()
    (y * 2).sum().backward()
    assert y.grad.tolist() == [2, 2, 2]
    assert lib.ones(()).share_memory_().item() == 1


def test_layouts_of_shared_tensors():
    x = fg.arange(24).view(2, 3, 4).permute(2, 0, 1)
    before = x.tolist(), x.stride()
    assert (x.share_memory_().tolist(), x.stride()) == before
    part = fg.arange(10)[3:7:2]
    assert part.share_memory_().tolist() == [3, 5]
    assert part.storage_offset() == 3
    assert fg.empty(0).share_memory_().shape == (0,)


def test_views_stay_where_their_base_is():
    x = fg.zeros(3)
    view = x[1:]
    with pytest.raises(RuntimeError, match=r"share_memory_\(\): other tensors lie in the memory"):
        x.share_memory_()
    view.share_memory_()  # takes its base along
    assert x.is_shared()
    view.fill_(1)
    assert x.tolist() == [0, 1, 1]
    bits = fg.ones(2).view(fg.int32)
    base = bits._base
    bits.share_memory_()
    assert base.tolist() == [1, 1]
    assert bits.fill_(0).is_shared()
    assert base.tolist() == [0, 0]
    y = fg.zeros(3)
    views = y[:1], y[1:]
    with pytest.raises(RuntimeError, match=r"share_memory_\(\): other tensors lie in the memory"):
        views[0].share_memory_()
    assert y.storage_offset() == 0


def test_modules_are_shared():
    model = fg.nn.Sequential(fg.nn.Linear(2, 3), fg.nn.BatchNorm1d(3))
    parameters = list(model.parameters())
    model(fg.ones(4, 2)).sum().backward()
    assert model.share_memory() is model
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
    assert all(t.is_shared() for t in (*model.parameters(), *model.buffers()))
    assert all(p.grad.is_shared() for p in parameters)


@pytest.mark.parametrize("method", METHODS)
def test_processes_write_to_shared_tensors(method: str):
    shared, copied = fg.zeros(5).share_memory_(), fg.zeros(5)
    mp.start_processes(fill_both, (shared, copied, 3.0), nprocs=1, start_method=method)
    assert shared.tolist() == [3] * 5
    assert copied.tolist() == [0] * 5


def test_processes_train_one_model():
    model = fg.nn.Linear(2, 1)
    model.share_memory()
    before = [p.detach().clone() for p in model.parameters()]
    mp.spawn(train, (model,), nprocs=2)
    assert not any(fg.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", [3, 50_000])
def test_queues(method: str, n: int):
    context = mp.get_context(method)
    tasks, answers = context.Queue(), context.Queue()
    process = context.Process(target=answer, args=(tasks, answers))
    process.start()
    shared = fg.ones(n).share_memory_()
    tasks.put(shared)
    assert fg.equal(answers.get(timeout=60), fg.full((n,), 2.0))
    own = fg.arange(n, dtype=fg.bfloat16)
    tasks.put(own)
    found = answers.get(timeout=60)
    assert fg.equal(found, own * 2)
    assert found.is_shared() == (2 * n >= reductions.SMALL)
    tasks.put(None)
    assert answers.get(timeout=60) == "end"
    assert fg.equal(shared, fg.full((n,), 2.0))
    tasks.put(None)
    process.join()
    assert process.exitcode == 0


def test_pipes_share_memory_between_views():
    here, there = mp.Pipe()
    x = fg.zeros(4).share_memory_()
    here.send({"x": x, "part": x[2:], "same": x})
    found = there.recv()
    assert found["x"] is found["same"]
    found["part"].fill_(1)
    assert found["x"].tolist() == x.tolist() == [0, 0, 1, 1]
    there.send(found["part"])  # on to somebody else
    here.recv().fill_(2)
    assert x.tolist() == [0, 0, 2, 2]
    here.close()
    there.close()


def test_parameters_and_numpy_go_along():
    here, there = mp.Pipe()
    here.send((fg.nn.Parameter(fg.ones(2).share_memory_()), np.arange(3), fg.float16))
    parameter, array, dtype = there.recv()
    assert isinstance(parameter, fg.nn.Parameter)
    assert parameter.requires_grad
    assert parameter.is_shared()
    assert array.tolist() == [0, 1, 2]
    assert dtype is fg.float16
    here.close()
    there.close()


def test_what_cannot_be_sent():
    here, there = mp.Pipe()
    with pytest.raises(
        RuntimeError, match="Cowardly refusing to serialize non-leaf tensor which requires_grad"
    ):
        here.send(fg.ones(2, requires_grad=True) * 2)
    here.close()
    there.close()


def test_blocks_lie_within_their_files():
    descriptor = filled([bytes(8)])
    with pytest.raises(ValueError, match="a file of 8 bytes cannot hold a block of 4096"):
        Block(descriptor, 4096)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)  # the block took it over


@pytest.mark.parametrize(
    "args", [(), (None, 8), (fg.ones(2), 8), (1.5, 8), (-1, 8), (1, None), (1, fg.ones(2))]
)
@pytest.mark.filterwarnings("error")
def test_blocks_that_are_never_finished(args: tuple[Any, ...]):
    block = Block.__new__(Block, *args)
    with pytest.raises((TypeError, OSError)):
        block.__init__(*args)  # type: ignore[misc]
    del block  # nothing to give back; what is raised here would be a warning


def test_other_pickles_hold_the_elements():
    x = fg.arange(3).share_memory_()
    copy = pickle.loads(pickle.dumps(x))
    copy.fill_(7)
    assert x.tolist() == [0, 1, 2]


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel of Linux which files are mapped")
def test_shared_memory_has_no_name_and_ends_with_its_tensors():
    def files() -> tuple[int, int]:
        with open("/proc/self/maps") as file:
            return sum("memfd:fastgrad" in line for line in file), len(os.listdir("/proc/self/fd"))

    names, before = set(os.listdir("/dev/shm")), files()
    x = fg.ones(1000).share_memory_()
    view = x[5:]
    assert files() == (before[0] + 1, before[1] + 1)
    assert not [name for name in set(os.listdir("/dev/shm")) - names if "fastgrad" in name]
    del x
    assert view.is_shared()
    del view
    assert files() == before


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The directory of temporary files, on a system that has no files in memory."""
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr(shared_memory, "_POPULATE", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("how", METHODS)
def test_blocks_where_no_files_are_in_memory(elsewhere: Path, how: str):
    x, y = fg.zeros(1000).share_memory_(), fg.zeros(20_000, dtype=fg.float64)
    here, there = mp.Pipe()
    there.send(y)
    received = here.recv()
    assert received.is_shared()
    assert fg.equal(received, y)
    mp.start_processes(fill_both, (x, y, 7.0), 1, start_method=how)
    assert x.tolist() == [7] * 1000
    assert not list(elsewhere.glob("fastgrad-*"))
    here.close()
    there.close()


def test_batches_where_no_files_are_in_memory(elsewhere: Path):
    gc.collect()  # what earlier tests left closes files
    open_before = len(os.listdir("/dev/fd"))
    for batch in fg.utils.data.DataLoader(list(fg.ones(5, 20_000)), batch_size=None, num_workers=2):
        assert fg.equal(batch, fg.ones(20_000))
        batch.add_(1)  # memory of its own
    del batch
    assert not list(elsewhere.iterdir())
    assert len(os.listdir("/dev/fd")) == open_before


def test_without_room_for_a_block(elsewhere: Path, monkeypatch: pytest.MonkeyPatch):
    def full(descriptor: int, parts: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    gc.collect()  # what earlier tests left closes files
    open_before = len(os.listdir("/dev/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", full)
        with pytest.raises(OSError, match="No space left on device"):
            fg.ones(1000).share_memory_()
    assert not list(elsewhere.iterdir())
    assert len(os.listdir("/dev/fd")) == open_before
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere / "missing"))
    with pytest.raises(FileNotFoundError):
        fg.ones(1000).share_memory_()


def test_blocks_are_written_piece_by_piece(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shared_memory, "_BYTES", 7)
    parts = [b"", bytes(range(20)), b"ab", b"", b"cdefghijk", bytes(7)]
    assert bytes(Block(filled(parts), 38).view()) == b"".join(parts)


# --- functions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["raise", "exit", "kill"])
def test_the_failure_of_one_ends_all(how: str):
    expected: dict[str, tuple[type[Exception], str]] = {
        "raise": (
            mp.ProcessRaisedException,
            "\n\n-- Process 1 terminated with the following error:\nTraceback",
        ),
        "exit": (mp.ProcessExitedException, "process 1 terminated with exit code 3"),
        "kill": (mp.ProcessExitedException, "process 1 terminated with signal SIGKILL"),
    }
    kind, text = expected[how]
    context = mp.start_processes(fail, (how,), nprocs=2, join=False, start_method="fork")
    assert context is not None
    assert len(set(context.pids())) == 2
    with pytest.raises(kind) as found:
        context.join()
    error: Any = found.value
    assert str(error).startswith(text)
    assert error.error_index == 1
    assert error.error_pid == context.pids()[1]
    assert not any(process.is_alive() for process in context.processes)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_waiting_for_processes():
    context = mp.start_processes(fail, ("raise",), nprocs=1, join=False, start_method="fork")
    assert context is not None
    assert not context.join(timeout=0.01)
    context.processes[0].kill()
    with pytest.raises(mp.ProcessExitedException):
        context.join()
    assert mp.start_processes(nothing, nprocs=2, start_method="fork") is None
    empty = mp.start_processes(nothing, nprocs=0, join=False, start_method="fork")
    assert empty is not None
    assert empty.join()


PROGRAM = """
import os, time
from fastgrad import multiprocessing

def wait(index, main):
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(60)

if __name__ == "__main__":
    multiprocessing.start_processes(wait, (0,), nprocs=2, start_method="fork")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_processes_end_with_the_one_that_started_them(number: int):
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        pids = [int(process.stdout.readline()) for _ in range(2)]
        process.send_signal(number)
        process.communicate(timeout=60)
    deadline = time.monotonic() + 30
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(alive(pid) for pid in pids)


def test_old_names():
    with pytest.warns(FutureWarning, match="only supports start_method=spawn"):
        mp.spawn(nothing, nprocs=0, start_method="fork")
    with pytest.warns(UserWarning, match="SpawnContext is renamed"):
        mp.SpawnContext([], [])
