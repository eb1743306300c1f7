"""Calling a function on a thread of its own as if it were the calling one: for passes nested too deeply for its stack.

What a thread has switched on (modes of gradients, saved-tensor hooks, anomaly mode) is carried over, and so are the
context variables of Python. Whoever keeps something by thread registers it with `carried`.
"""

from __future__ import annotations

import contextvars
import ctypes
import threading
from collections.abc import Callable
from typing import Any

from fastgrad.native.build.loader import rt

_CARRIED: list[tuple[Callable[[], Any], Callable[[Any], None]]] = [(rt.get_mode, rt.set_mode)]
_MOST = 100  # helpers behind each other: what nests deeper than that never ends


class _Helper(threading.Thread):
    """A thread that calls a function for another one, which waits.

    Parameters
    ----------
    call : callable
        Called without arguments.
    """

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__(name="fastgrad-nested-pass", daemon=True)
        self.level = getattr(threading.current_thread(), "level", 0) + 1
        self.values = [(put, get()) for get, put in _CARRIED]
        self.context = contextvars.copy_context()
        self.call: Callable[[], Any] | None = call
        self.result: Any = None
        self.failure: BaseException | None = None
        self.done = False
        self.end = threading.Lock()  # `join` takes a thread for ended when an exception interrupts it
        self.end.acquire()

    def is_over(self) -> bool:
        """Whether the function has returned or raised."""
        return self.done

    def run(self) -> None:
        """Call the function as the waiting thread would."""
        assert self.call is not None
        try:
            for put, value in self.values:
                put(value)
            self.result = self.context.run(self.call)
        except BaseException as error:  # noqa: BLE001 - it is raised by the thread that waits
            self.failure = error
        finally:
            self.call = None
            self.done = True
            self.end.release()


_HELPERS: dict[int, _Helper] = {}  # by the thread that waits for it


def carried(get: Callable[[], Any], put: Callable[[Any], None]) -> None:
    """Register what a thread has: a function that reads it, and one that makes it so in another thread."""
    _CARRIED.append((get, put))


def on_another_thread(call: Callable[[], Any]) -> Any:
    """Call a function on a thread of its own and wait; returns or raises what it does.

    An exception that reaches the waiting thread, such as KeyboardInterrupt, is raised in the innermost helper.

    Raises
    ------
    RecursionError
        If there are too many such threads behind each other.
    """
    helper = _Helper(call)
    if helper.level > _MOST:
        raise RecursionError("passes within passes do not end: too many are nested")
    caller = threading.get_ident()
    _HELPERS[caller] = helper
    try:
        helper.start()
        while not helper.is_over():
            try:
                helper.end.acquire()
            except BaseException as interruption:  # noqa: BLE001 - it belongs to what the helper does
                if not helper.is_over():
                    _interrupt(caller, type(interruption))
                elif helper.failure is None:
                    helper.failure = interruption
    finally:
        del _HELPERS[caller]
    if helper.failure is not None:
        try:
            raise helper.failure
        finally:
            helper.failure = None  # its traceback holds this frame
    return helper.result


def _interrupt(caller: int, kind: type[BaseException]) -> None:
    """Raise an exception in the innermost of the helpers behind a thread."""
    thread = caller
    while thread in _HELPERS:
        thread = _HELPERS[thread].ident or thread
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))
