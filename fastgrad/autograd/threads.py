"""Calling a function on a thread of its own as if it were the calling one: for passes nested too deeply for its stack.

What a thread has switched on (modes of gradients, saved-tensor hooks, anomaly mode) is carried over, and so are the
context variables of Python, and what it has chosen of devices and streams.
"""

from __future__ import annotations

import contextvars
import ctypes
import queue
import threading
from collections.abc import Callable
from typing import Any

from fastgrad import places
from fastgrad.cuda import streams
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.flags import GRAD_ENABLED, N_SETTINGS

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
        self.modes = (rt.get_mode(), *(rt.setting(k) for k in range(N_SETTINGS)))
        self.context = contextvars.copy_context()
        self.places, self.streams = places.carried(), streams.carried()
        self.call: Callable[[], Any] | None = call
        self.result: Any = None
        self.failure: BaseException | None = None
        self.done = False
        self.orders: queue.SimpleQueue[bool] = queue.SimpleQueue()  # whether to call; the first one counts
        self.end = threading.Lock()  # `join` takes a thread for ended when an exception interrupts it
        self.end.acquire()

    def is_over(self) -> bool:
        """Whether the function has returned or raised."""
        return self.done

    def run(self) -> None:
        """Call the function as the waiting thread would."""
        assert self.call is not None
        try:
            try:
                if self.orders.get():
                    rt.take_over(*self.modes)
                    places.carry_over(self.places)
                    streams.carry_over(self.streams)
                    self.result = self.context.run(self.call)
            except BaseException as error:  # noqa: BLE001 - it is raised by the thread that waits
                self.failure = error
            self.call = None
            self.modes = (GRAD_ENABLED, *[None] * N_SETTINGS)
            rt.take_over(*self.modes)
        except BaseException as error:  # noqa: BLE001 - an interruption that came when the function had ended
            self.failure = self.failure or error
        finally:  # whatever interrupts: nothing is looked at before the lock is free
            self.done = True
            self.end.release()


_HELPERS: dict[int, _Helper] = {}  # by the thread that waits for it


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
        try:
            helper.start()
        except BaseException:  # `start` waits for the thread, which may run already
            helper.orders.put(False)
            raise
        interruption = _see_through(helper, caller)
    finally:
        del _HELPERS[caller]
    if helper.failure is None:
        helper.failure = interruption
    if helper.failure is not None:
        try:
            raise helper.failure
        finally:
            helper.failure = None  # its traceback holds this frame
    return helper.result


def _see_through(helper: _Helper, caller: int) -> BaseException | None:
    """Let a helper begin and wait for its end, whatever interrupts; returns what came too late to be passed on.

    Signals are looked at where Python calls and where it loops: all of these stand within the `try`.
    """
    pending: BaseException | None = None
    while True:
        try:
            helper.orders.put(True)
            if pending is not None and _interrupt(caller, type(pending)):
                pending = None
            while not helper.is_over():
                helper.end.acquire()
            return pending and pending.with_traceback(None)  # else it would hold this frame, which holds it
        except BaseException as interruption:  # noqa: BLE001 - it belongs to what the helper does
            pending = interruption


def _interrupt(caller: int, kind: type[BaseException]) -> bool:
    """Raise an exception in the innermost of the helpers behind a thread; returns whether there is one at work."""
    thread = caller
    while thread in _HELPERS and not _HELPERS[thread].is_over():
        thread = _HELPERS[thread].ident or thread
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    return thread != caller and raise_in(ctypes.c_ulong(thread), ctypes.py_object(kind)) == 1
