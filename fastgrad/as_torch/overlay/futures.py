"""Results that are not there yet."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")


class Future(Generic[T]):
    """A result that some thread sets, once.

    Parameters
    ----------
    devices : list, optional
        Accepted for PyTorch's sake.

    Examples
    --------
    >>> from fastgrad.as_torch.overlay.futures import Future
    >>> future = Future()
    >>> later = future.then(lambda done: done.value() + 1)
    >>> future.set_result(1)
    >>> later.wait()
    2
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._condition = threading.Condition()
        self._is_done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future[T]], Any]] = []

    def done(self) -> bool:
        """Whether there is a result, or an error."""
        return self._is_done

    def wait(self) -> T:
        """The result, as soon as it is there; raises the error if there is one."""
        with self._condition:
            self._condition.wait_for(self.done)
        return self.value()

    def value(self) -> T:
        """The result, or RuntimeError if it is not there yet."""
        if not self._is_done:
            raise RuntimeError("Future.value(): the future has no result yet; wait() waits for it")
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[no-any-return]

    def set_result(self, result: T) -> None:
        """Let the future be done."""
        self._finish(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Let the future be done by an error, which `wait` raises."""
        if not isinstance(result, BaseException):
            raise TypeError(f"{result} is of type {type(result).__name__}, not an Exception.")
        self._finish(None, result)

    def add_done_callback(self, callback: Callable[[Future[T]], Any]) -> None:
        """Let a function be called with this future when it is done, or now if it is."""
        with self._condition:
            if not self._is_done:
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Future[T]], Any]) -> Future[Any]:
        """A future with the result of a function, which is called with this future when it is done."""
        later: Future[Any] = Future()

        def call(done: Future[T]) -> None:
            try:
                later.set_result(callback(done))
            except Exception as error:  # noqa: BLE001 - whatever it is, who waits gets it
                later.set_exception(error)

        self.add_done_callback(call)
        return later

    def _finish(self, value: Any, error: BaseException | None) -> None:
        with self._condition:
            if self._is_done:
                raise RuntimeError("Future: the result is set already, and cannot be set twice")
            self._value, self._error, self._is_done = value, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._condition.notify_all()
        for callback in callbacks:
            callback(self)


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future whose result are the futures, when all of them are done."""
    whole: Future[list[Future[Any]]] = Future()
    left, lock = [len(futures)], threading.Lock()

    def one_done(_: Future[Any]) -> None:
        with lock:
            left[0] -= 1
            last = not left[0]
        if last:
            whole.set_result(futures)

    if not futures:
        whole.set_result(futures)
    for future in futures:
        future.add_done_callback(one_done)
    return whole


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """The results of futures, when all of them are done; raises the first error among them."""
    return [future.wait() for future in collect_all(futures).wait()]
