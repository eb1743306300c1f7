"""Batches that worker processes make: who has which task, and in which order answers are given out."""

from __future__ import annotations

import contextlib
import itertools
import os
import selectors
import signal
import threading
import time
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fastgrad import multiprocessing
from fastgrad.utils.data.channel import Message, connected, packed, unpacked
from fastgrad.utils.data.fetch import End
from fastgrad.utils.data.sampler import drawn_seed
from fastgrad.utils.data.worker import Failure, Job, work

if TYPE_CHECKING:
    from fastgrad.utils.data.dataloader import DataLoader

_BOTH = selectors.EVENT_READ | selectors.EVENT_WRITE
_PATIENCE = 5.0
"""How many seconds a worker has to end by itself, and again after SIGTERM; after as many without a message the loader
looks whether all are alive: processes that a worker forked hold its connection open when it is gone."""


@contextlib.contextmanager
def _interrupts_held(context: Any) -> Iterator[set[int]]:
    """Let Ctrl-C wait, which a worker gets as well, until that can answer it; gives the signals blocked before.

    Only while forking: other ways to start take long, or share a process that would keep what is blocked.
    """
    held = {signal.SIGINT} if context.get_start_method() == "fork" else set()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        yield mask
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class Worker:
    """A worker process, as its loader sees it.

    Attributes
    ----------
    tasks : int
        How many of this pass it has not answered.
    active : bool
        Whether it has batches left in this pass.
    """

    def __init__(self, context: Any, job: Job) -> None:
        self.number = job.number
        self.tasks = 0
        self.active = True
        self.channel, there = connected()
        try:
            # That end is the worker's alone: with it goes the connection.
            with there, _interrupts_held(context) as mask:
                self.process = context.Process(target=work, args=(there, job, mask), daemon=True)
                self.process.start()
        except BaseException:
            self.channel.close()
            raise

    def obituary(self, of: int) -> str:
        """What to say of a worker that has died, of so many."""
        self.process.join(_PATIENCE)
        code = self.process.exitcode
        which = (
            f"it was worker {self.number} of {of}. With num_workers=0 the data set runs in this process, where an "
            "error shows its traceback"
        )
        if code is not None and code < 0:
            return (
                f"DataLoader worker (pid {self.process.pid}) is killed by signal: "
                f"{signal.strsignal(-code) or -code}; {which}"
            )
        how = "" if code is None else f" with exit code {code}"
        return f"DataLoader worker (pid {self.process.pid}) exited unexpectedly{how}; {which}"


def _stop(workers: list[Worker], owner: int) -> None:
    """End all workers; in a child that was forked they are none of its own."""
    if os.getpid() != owner:
        return
    for worker in workers:
        with contextlib.suppress(OSError):  # the program may have closed it: the others have to be
            worker.channel.close()
    end = time.monotonic() + _PATIENCE
    for worker in workers:
        worker.process.join(max(0.0, end - time.monotonic()))
        if worker.process.is_alive():
            worker.process.terminate()
            worker.process.join(_PATIENCE)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        worker.process.close()
    workers.clear()


class WorkerBatches:
    """One pass after the other over a data set by worker processes.

    Parameters
    ----------
    loader : DataLoader
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader = loader
        self._turn = 0
        context = loader.multiprocessing_context or multiprocessing.get_context()
        n = self._n = loader.num_workers
        self._workers: list[Worker] = []
        self._selector = selectors.PollSelector()
        self._process = os.getpid()
        self._one_thread = threading.RLock()  # threads of the program take turns
        self._stop = weakref.finalize(self, _stop, self._workers, self._process)
        base_seed = drawn_seed(loader.generator)
        try:
            for k in range(n):
                job = Job(loader.recipe(), loader.worker_init_fn, base_seed, k, n)
                worker = Worker(context, job)
                self._workers.append(worker)
                self._selector.register(worker.channel.end, selectors.EVENT_READ, worker)
                self._selector.register(worker.process.sentinel, selectors.EVENT_READ, worker)
            self._begin()
        except BaseException:
            self._stop()
            raise

    @property
    def stopped(self) -> bool:
        """Whether its workers are gone, or those of another process, which forked this one."""
        return not self._stop.alive or os.getpid() != self._process

    def restart(self) -> None:
        """Begin the next pass; what is on its way from the one before is forgotten."""
        self._turn += 1
        self._begin()

    def _begin(self) -> None:
        loader = self._loader
        self._numbers = iter(loader.index_sampler)
        self._sent = 0  # how many tasks
        self._owners: dict[int, Worker] = {}  # of tasks whose answers have not been given out, in order
        self._answers: dict[int, Message] = {}
        self._cycle = itertools.cycle(self._workers)
        for worker in self._workers:
            worker.tasks, worker.active = 0, True
        self._most = (loader.prefetch_factor or 2) * self._n
        for _ in range(self._most):
            if not self._dispatch():
                break

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if os.getpid() != self._process:
            raise RuntimeError(
                "an iterator of a DataLoader with workers belongs to the process that made it; make one here"
            )
        with self._one_thread:
            try:
                return self._next()
            except Exception:
                raise
            except BaseException:  # Ctrl-C, at any line: a batch may be neither owed nor given out
                self._end()
                raise

    def _next(self) -> Any:
        while self._owners:
            task = self._wait()
            worker = self._owners.pop(task)
            worker.tasks -= 1
            try:
                answer = unpacked(self._answers.pop(task).body)
            except Exception as error:  # noqa: BLE001 - of classes of the program's, which says so below
                answer = Failure(error, f"in a batch of DataLoader worker process {worker.number}")
            if isinstance(answer, End):
                if worker.active:
                    worker.active = False
                    self._dispatch()
                continue
            self._dispatch()
            if isinstance(answer, Failure):
                answer.reraise()
            return answer
        if not self._loader.persistent_workers:
            self._stop()
        raise StopIteration

    def _dispatch(self) -> bool:
        """Give the next task to the worker whose turn it is; False if there are not both."""
        worker = self._free()
        if worker is None:
            return False
        try:
            index = next(self._numbers)
        except StopIteration:
            return False
        parts = packed(index)
        self._owners[self._sent] = worker
        worker.tasks += 1
        try:
            while not worker.channel.send(self._turn, self._sent, parts, wait=False):
                self._receive(None, sending_to=worker)
        except ConnectionError:
            self._bury(worker)
        except BaseException:  # the task may be on its way or not
            self._end()
            raise
        self._sent += 1
        return True

    def _free(self) -> Worker | None:
        active = sum(worker.active for worker in self._workers)
        for worker in itertools.islice(self._cycle, self._n):
            if worker.active and (self._loader.in_order or worker.tasks < self._most // active):
                return worker
        return None

    def _wait(self) -> int:
        """The task whose answer is given out next, when it is there."""
        timeout = self._loader.timeout
        end = time.monotonic() + timeout
        while True:
            if not self._loader.in_order:
                for task in self._answers:
                    return task
            elif (task := next(iter(self._owners))) in self._answers:
                return task
            left = end - time.monotonic() if timeout else None
            if left is not None and left <= 0:
                raise RuntimeError(
                    f"DataLoader timed out after {timeout} seconds; the workers with tasks are "
                    f"{sorted({worker.number for worker in self._owners.values()})} of {self._n}"
                )
            self._receive(left)

    def _receive(self, timeout: float | None, sending_to: Worker | None = None) -> None:
        """Take what has come, and wait for something if nothing has, or for room on the way to a worker."""
        if sending_to is not None:
            self._selector.modify(sending_to.channel.end, _BOTH, sending_to)
        try:
            found = self._selector.select(_PATIENCE if timeout is None else min(timeout, _PATIENCE))
            for worker in () if found else self._workers:
                if not worker.process.is_alive():
                    self._bury(worker)
            for key, events in found:
                worker = key.data
                if events & selectors.EVENT_READ and (
                    not self._take(worker) or key.fileobj == worker.process.sentinel
                ):
                    self._bury(worker)
        except BaseException:  # of a message that was being read nobody knows how far it got
            self._end()
            raise
        if sending_to is not None:
            self._selector.modify(sending_to.channel.end, selectors.EVENT_READ, sending_to)

    def _take(self, worker: Worker) -> bool:
        """Take all that a worker has sent; False if it is gone."""
        while True:
            try:
                message = worker.channel.receive(wait=False)
            except BlockingIOError:
                return True
            if message is None:
                return False
            if message.turn == self._turn:
                self._answers[message.task] = message

    def _bury(self, worker: Worker) -> None:
        text = worker.obituary(self._n)
        self._end()
        raise RuntimeError(text)

    def _end(self) -> None:
        """End the pass and the workers."""
        self._owners.clear()
        self._answers.clear()
        self._stop()
