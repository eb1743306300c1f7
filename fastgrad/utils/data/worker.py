"""What a worker process of a loader does."""

from __future__ import annotations

import pickle
import random
import signal
import socket
import traceback
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from fastgrad.native.host.threads import set_num_threads
from fastgrad.random import manual_seed
from fastgrad.utils.data import info
from fastgrad.utils.data.channel import Channel, Message, packed, unpacked
from fastgrad.utils.data.fetch import End, Recipe


class _Text(str):
    """A text that prints as it is where others are quoted: in a KeyError."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Failure:
    """An exception on its way to the process that reads the batches.

    Parameters
    ----------
    error : BaseException
    where : str
        For its message: ``"in DataLoader worker process 0"``.
    """

    def __init__(self, error: BaseException, where: str) -> None:
        kind = type(error)
        self.text = f"Caught {kind.__name__} {where}.\nOriginal {''.join(traceback.format_exception(error))}"
        try:
            self.kind = pickle.dumps(kind)  # by itself, because the other process may not find it
        except Exception:  # noqa: BLE001 - whatever keeps a class of the program's from being pickled
            self.kind = pickle.dumps(RuntimeError)

    def reraise(self) -> None:
        """Raise an exception of the same class, if it can be made, with the traceback as its message."""
        raise self._error()  # no name for it here: it would keep this frame, and that all that called it

    def _error(self) -> Exception:
        try:
            kind: Any = pickle.loads(self.kind)
            if issubclass(kind, StopIteration):
                kind = RuntimeError  # the other would end the loop
            text = _Text(self.text) if kind is KeyError else self.text
            return kind(message=text) if getattr(kind, "message", None) else kind(text)  # type: ignore[no-any-return]
        except Exception:  # noqa: BLE001 - the class is not found, or takes other arguments
            return RuntimeError(self.text)


class Job(NamedTuple):
    """What a worker is told when it starts."""

    recipe: Recipe
    init_fn: Callable[[int], Any] | None
    base_seed: int
    number: int
    num_workers: int

    @property
    def seed(self) -> int:
        """Of its random numbers."""
        return self.base_seed + self.number

    @property
    def where(self) -> str:
        """For messages."""
        return f"in DataLoader worker process {self.number}"


def seed_all(job: Job) -> None:
    """Start the random numbers of a worker: of `random`, NumPy and this library."""
    random.seed(job.seed)
    manual_seed(job.seed)
    words = [job.number, job.base_seed & 0xFFFFFFFF, job.base_seed >> 32, 0]
    np.random.seed(np.random.SeedSequence(words).generate_state(4))  # noqa: NPY002 - for data sets that draw from it


def work(end: socket.socket, job: Job, mask: Iterable[int]) -> None:
    """Answer tasks until the loader is gone; the target of a process, with the signals that it does not take."""
    channel = Channel(end)
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        set_num_threads(1)
        seed_all(job)
        info.current = info.WorkerInfo(job.number, job.num_workers, job.seed, job.recipe.dataset)
        _answer_all(channel, job, _started(job))
    except (KeyboardInterrupt, ConnectionError):
        pass  # the loader got the signal as well, or it is gone


def _started(job: Job) -> Failure | None:
    """Run the function of the program's, and say what it raised."""
    try:
        if job.init_fn is not None:
            job.init_fn(job.number)
    except Exception as error:  # noqa: BLE001 - the loader raises it
        return Failure(error, job.where)
    return None


def _answer_all(channel: Channel, job: Job, failed: Failure | None) -> None:
    turn, ended = -1, False
    fetch: Callable[[Any], Any] | None = None
    while (message := channel.receive()) is not None:
        if message.turn != turn:
            turn, ended, fetch = message.turn, False, None
        answer: Any = failed
        if ended:
            answer = End()
        elif failed is None:
            try:
                fetch = fetch or job.recipe.fetcher()
                answer = fetch(unpacked(message.body))
            except Exception as error:  # noqa: BLE001 - the loader raises it
                answer = Failure(error, job.where)
        ended = isinstance(answer, End)
        _send(channel, message, answer, job)
        del answer, message  # memory


def _send(channel: Channel, message: Message, answer: Any, job: Job) -> None:
    """Send an answer; of one that cannot be pickled, or has no room in memory, what went wrong."""
    try:
        channel.send(message.turn, message.task, packed(answer))
    except ConnectionError:
        raise
    except Exception as error:  # noqa: BLE001 - the loader raises it
        channel.send(message.turn, message.task, packed(Failure(error, job.where)))
