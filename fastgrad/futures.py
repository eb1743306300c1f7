"""Futures: results that come later, from a thread or from communication under way."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from fastgrad.module_names import getattr_of as _getattr_of

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")


class Source(Protocol):
    """What a future waits for when no other thread will complete it."""

    def poll(self) -> None:
        """Look whether it is done, without waiting."""

    def complete(self) -> None:
        """Wait until it is done."""


class Future(Generic[T]):
    """A result that is not there yet.

    Parameters
    ----------
    devices : list, optional
        Accepted for PyTorch's sake; results lie where they were made.

    Examples
    --------
    >>> first = Future()
    >>> second = first.then(lambda done: done.value() + 1)
    >>> first.set_result(3)
    >>> second.wait()
    4
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._lock = threading.Lock()
        self._event: threading.Event | None = None
        self._done = False
        self._value: Any = None
        self._exception: BaseException | None = None
        self._callbacks: list[Callable[[Future[T]], _Calls | None]] = []
        self._source: Source | None = None

    @classmethod
    def driven_by(cls, source: Source) -> Future[Any]:
        """A future that whoever waits for it completes, by asking a source."""
        out: Future[Any] = cls()
        out._source = source
        return out

    def done(self) -> bool:
        """Whether there is a result or an exception."""
        if not self._done and self._source is not None:
            self._source.poll()
        return self._done

    def wait(self) -> T:
        """The result, once it is there.

        Raises
        ------
        Exception
            What `set_exception` was given.
        """
        if not self._done:
            if self._source is not None:
                self._source.complete()
            else:
                self._wait_for_a_thread()
        return self.value()

    def _wait_for_a_thread(self) -> None:
        with self._lock:
            if self._done:
                return
            if self._event is None:
                self._event = threading.Event()
            event = self._event
        event.wait()

    def value(self) -> T:
        """The result of a future that is done.

        Raises
        ------
        RuntimeError
            If it is not done; `wait` waits for it.
        Exception
            What `set_exception` was given.
        """
        if not self._done:
            raise RuntimeError("Future.value(): the future is not completed; call wait() instead")
        if self._exception is not None:
            raise self._exception
        return self._value  # type: ignore[no-any-return]

    def set_result(self, result: T) -> None:
        """Complete the future.

        Raises
        ------
        RuntimeError
            If it is complete.
        """
        self._finish(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Complete the future with an exception, which `wait` and `value` raise.

        Raises
        ------
        AssertionError
            If the argument is no exception.
        RuntimeError
            If the future is complete.
        """
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._finish(None, result)

    def _finish(self, value: Any, exception: BaseException | None) -> None:
        _run(self._settle(value, exception))

    def _settle(self, value: Any, exception: BaseException | None) -> _Calls:
        """Keep the result; returns the calls that are due then, the last one first."""
        with self._lock:
            if self._done:
                raise RuntimeError(
                    "Attempting to mark a completed Future as complete again. Note that a Future can only be marked "
                    "completed once."
                )
            self._value, self._exception, self._done = value, exception, True
            callbacks, self._callbacks = self._callbacks, []
            if self._event is not None:
                self._event.set()
        self._source = None
        return [(self, callback) for callback in reversed(callbacks)]

    def _when_done(self, callback: Callable[[Future[T]], _Calls | None]) -> None:
        with self._lock:
            if not self._done:
                self._callbacks.append(callback)
                return
        _run([(self, callback)])

    def then(self, callback: Callable[[Future[T]], Any]) -> Future[Any]:
        """A future of what a function makes of this one.

        Parameters
        ----------
        callback : callable
            Called with this future when it is done, at once if it is; also if it holds an exception.

        Returns
        -------
        Future
            Of what `callback` returns, also if that is a future; of a RuntimeError if it raises.

        Raises
        ------
        TypeError
            If `callback` cannot be called.
        """
        _need_callable("Future.then", callback)
        out: Future[Any] = Future()
        out._source = self._source

        def run(done: Future[T]) -> _Calls:
            try:
                result = callback(done)
            except Exception as error:  # noqa: BLE001 - whoever waits for the result gets it
                text = f"Got the following error when running the callback: {type(error).__name__}: {error}"
                failure = RuntimeError(text)
                failure.__cause__ = error
                return out._settle(None, failure)
            return out._settle(result, None)

        self._when_done(run)
        return out

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Call a function with this future when it is done, at once if it is; what it raises is logged.

        Raises
        ------
        TypeError
            If `callback` cannot be called.
        """
        _need_callable("Future.add_done_callback", callback)

        def run(done: Future[T]) -> None:
            try:
                callback(done)
            except Exception:
                logging.getLogger(__name__).exception("a callback of a Future raised")

        self._when_done(run)


_Calls = list[tuple[Future[Any], Callable[[Future[Any]], Any]]]


def _run(waiting: _Calls) -> None:
    """Make calls, and those that become due by each of them before the next: chains may be longer than a stack."""
    while waiting:
        done, callback = waiting.pop()
        waiting += callback(done) or ()


def _need_callable(name: str, callback: Any) -> None:
    if not callable(callback):
        raise TypeError(f"{name}(): argument 'callback' must be callable, not {type(callback).__name__}")


class _All:
    """The source of a future of several."""

    def __init__(self, futures: Sequence[Future[Any]]) -> None:
        self.futures = futures

    def poll(self) -> None:
        for future in self.futures:
            future.done()

    def complete(self) -> None:
        for future in self.futures:
            try:
                future.wait()
            except Exception:  # noqa: BLE001 - it stays in the future, where the caller finds it
                continue


def _need_futures(name: str, futures: Any) -> list[Future[Any]]:
    found = list(futures)
    for k, future in enumerate(found):
        if not isinstance(future, Future):
            raise TypeError(f"{name}(): expected Futures, but element {k} is of type {type(future).__name__}")
    return found


def collect_all(futures: Sequence[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future of a list of futures, complete when all of them are, or with the exception of the first that has one.

    Parameters
    ----------
    futures : sequence of Future

    Returns
    -------
    Future

    Examples
    --------
    >>> a, b = Future(), Future()
    >>> both = collect_all([a, b])
    >>> a.set_result(1), b.set_result(2)
    (None, None)
    >>> [f.value() for f in both.wait()]
    [1, 2]
    """
    found = _need_futures("collect_all", futures)
    out: Future[list[Future[Any]]] = Future.driven_by(_All(found))
    lock, left = threading.Lock(), [len(found)]
    ended: list[Future[Any]] = []

    def one_more(done: Future[Any]) -> _Calls | None:
        with lock:
            left[0] -= 1
            ends = not ended and (not left[0] or done._exception is not None)
            if ends:
                ended.append(done)
        return out._settle(None if done._exception else found, done._exception) if ends else None

    if not found:
        out.set_result(found)
    for future in found:
        future._when_done(one_more)
    return out


def wait_all(futures: Sequence[Future[Any]]) -> list[Any]:
    """The results of several futures, once all are there.

    Parameters
    ----------
    futures : sequence of Future

    Returns
    -------
    list

    Raises
    ------
    Exception
        Of the first future that has one.

    Examples
    --------
    >>> a = Future()
    >>> a.set_result(1)
    >>> wait_all([a])
    [1]
    """
    return [future.wait() for future in collect_all(futures).wait()]


__getattr__ = _getattr_of(__name__)
