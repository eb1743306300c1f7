"""Loaders with worker processes whose program, system or user does the unexpected; nothing hangs or stays behind."""

from __future__ import annotations

import itertools
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import context
from types import FrameType
from typing import Any

import pytest

import fastgrad as fg
from fastgrad.utils.data import DataLoader, processes
from tests.utils.test_data_workers import alive, few_processors, singles  # noqa: F401 - a fixture for all tests


def pids_of(it: Any) -> list[int]:
    return [w.process.pid for w in it._source._workers]


def ended(it: Any, pids: list[int]) -> bool:
    """Whether an iterator has nothing more to give, and no worker."""
    return list(it) == [] and not any(alive(pid) for pid in pids)


def await_sleep(pid: int) -> None:
    """Wait until a process waits, as a loader that has given out what it had does; in 100 looks, one after another."""
    looks = 0
    while looks < 100:
        with open(f"/proc/{pid}/stat") as file:
            looks = looks + 1 if file.read().rpartition(")")[2].split()[0] == "S" else 0
        time.sleep(0.001)


def test_an_interrupt_ends_the_pass():
    loader = os.getpid()

    def make(index: int) -> int:
        if index == 3:
            await_sleep(loader)
            os.kill(loader, signal.SIGINT)
            time.sleep(1)  # the answer is not there before the signal
        return index

    it = iter(singles(fg, make))
    pids = pids_of(it)
    with pytest.raises(KeyboardInterrupt):
        list(it)
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(20)]  # get the numbers of what was closed
    assert ended(it, pids)
    for file in files:
        os.close(file)


def test_an_interrupt_at_any_line_of_next_ends_the_pass():
    """A batch that was taken and not given out would be missing from a pass that went on."""

    def interrupt_at(line: int) -> bool:
        """Whether there is such a line."""
        it = iter(singles(fg, lambda i: i))
        pids = pids_of(it)
        left = line

        def trace(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal left
            if frame.f_code.co_filename != processes.__file__ or frame.f_code.co_name in ("__next__", "_end"):
                return trace
            left -= event == "line"
            if left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            next(it)
        except KeyboardInterrupt:
            assert ended(it, pids)
            return True
        finally:
            sys.settrace(before)
        return False

    assert next(line for line in itertools.count() if not interrupt_at(line)) > 20


class InterruptedProcess(context.ForkProcess):
    """A process that gets Ctrl-C with the one that starts it, before either is ready."""

    pids: list[int | None] = []

    def start(self) -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        super().start()
        self.pids.append(self.pid)

    def run(self) -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        super().run()


class InterruptedContext(context.ForkContext):
    """Starts such processes."""

    Process = InterruptedProcess


def test_an_interrupt_while_a_worker_starts(capfd: pytest.CaptureFixture[str]):
    loader = singles(fg, lambda i: i, multiprocessing_context=InterruptedContext())
    InterruptedProcess.pids.clear()
    with pytest.raises(KeyboardInterrupt):
        iter(loader)
    (pid,) = InterruptedProcess.pids
    assert pid is not None
    assert os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT).si_status == 0  # type: ignore[union-attr]
    assert capfd.readouterr().err == ""
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert list(singles(fg, lambda i: len(signal.pthread_sigmask(signal.SIG_BLOCK, ())))) == [0] * 6


def test_a_loader_with_workers_goes_along_with_a_fork(capfd: pytest.CaptureFixture[str]):
    loader = singles(fg, lambda i: os.getpid(), persistent_workers=True)
    ours = set(loader)

    def use() -> None:
        os.write(1, b"%d" % len({*loader, *loader} - ours))

    process = context.ForkProcess(target=use)
    process.start()
    process.join()
    assert capfd.readouterr() == ("2", "")
    assert set(loader) == ours


def test_a_connection_that_the_program_closes():
    it = iter(singles(fg, lambda i: i, 40))
    pids = pids_of(it)
    os.close(it._source._workers[0].channel.end.fileno())
    with pytest.raises(OSError, match="Bad file descriptor"):
        list(it)
    assert ended(it, pids)


@pytest.fixture
def no_files_left() -> Iterator[Callable[[], None]]:
    """A function that opens as many files as may be open."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    held: list[int] = []

    def hold() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(1000, *limits), limits[1]))
        try:
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass

    yield hold
    for file in held:
        os.close(file)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_tasks_that_need_more_open_files_than_there_may_be(no_files_left: Callable[[], None]):
    it = iter(
        DataLoader(range(6 * 10**5), batch_size=10**5, collate_fn=len, num_workers=2, prefetch_factor=1)
    )
    no_files_left()
    with pytest.raises(OSError, match="Too many open files"):
        list(it)
    assert list(it) == []


def test_batches_that_need_more_open_files_than_there_may_be(no_files_left: Callable[[], None]):
    it = iter(singles(fg, lambda i: fg.ones(20_000)))
    no_files_left()
    with pytest.raises(RuntimeError, match="Too many open files: no block of a worker can be received"):
        list(it)
    assert list(it) == []


def test_a_worker_that_dies_while_another_process_has_its_connection(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(processes, "_PATIENCE", 0.1)
    there, here = os.pipe()

    def make(index: int) -> int:
        if index == 3:
            if not os.fork():
                os.close(here)
                os.read(there, 1)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
        return index

    it = iter(singles(fg, make))
    pids = pids_of(it)
    with pytest.raises(RuntimeError, match="is killed by signal: Killed; it was worker 1 of 2"):
        list(it)
    assert ended(it, pids)
    os.close(here)
    os.close(there)


@pytest.mark.parametrize("timeout", [1e7, 1e300, float("inf")])
def test_any_timeout(timeout: float):
    assert list(singles(fg, lambda i: i, timeout=timeout)) == list(range(6))


@pytest.mark.parametrize(
    ("name", "value"), [("num_workers", -3), ("prefetch_factor", -2), ("timeout", float("nan"))]
)
def test_options_that_are_changed_to_what_cannot_be(name: str, value: Any):
    loader = singles(fg, lambda i: i)
    setattr(loader, name, value)
    with pytest.raises(ValueError, match=f"{name} option should be"):
        iter(loader)


def test_no_task_is_asked_for_behind_the_last():
    asked = []

    class Once:
        def __iter__(self) -> Any:
            return self

        def __next__(self) -> int:
            asked.append(None)
            if len(asked) == 3:
                raise StopIteration
            assert len(asked) < 3
            return 0

    it = iter(singles(fg, lambda i: i, sampler=Once(), prefetch_factor=10**6))
    assert len(asked) == 3
    del it


def test_threads_take_turns_with_one_iterator():
    batches, failed = iter(DataLoader(list(range(60)), batch_size=None, num_workers=2)), []
    given: list[int] = []

    def take() -> None:
        try:
            given.extend(batches)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed
    assert sorted(given) == list(range(60))
