"""Letting signals wait while LLVM and Numba work.

Python runs the handlers of signals in the main thread, between any two instructions, and Ctrl-C raises there. llvmlite
would then free what it has freed already, which ends the process, and Numba would keep its lock for ever. So while the
main thread is within, Python's handlers are replaced by one that takes note; what came is handed on at the end, which
is a second or two later at most. Other threads are never interrupted.
"""

from __future__ import annotations

import _signal  # `signal`, which is made of it, makes enumerations of all numbers: a part of an import that counts
import sys
import threading
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any

_handlers: dict[int, Callable[..., Any]] = {}  # of Python, by signals, as they were
_came: list[int] = []
_depth = 0


def _note(number: int, frame: Any) -> Any:
    """Take note of a signal; outside, if one came while handlers were put back, it is what it was."""
    if _depth:
        _came.append(number)
        return None
    return _handlers[number](number, frame)


class Uninterrupted(ContextDecorator):
    """A block, or a function, in which no handler of a signal runs."""

    def __enter__(self) -> None:
        global _depth
        if not _is_main():
            return
        try:
            _depth += 1
            if _depth == 1:
                _replace()
        except BaseException:  # a signal that came before its handler was replaced
            _depth -= 1
            _put_back()
            raise

    def __exit__(self, *_: object) -> None:
        global _depth
        if not _is_main():
            return
        _depth -= 1
        if _depth == 0:
            _put_back()
            _hand_on()


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _replace() -> None:
    for number in _signal.valid_signals():
        handler = _signal.getsignal(number)
        if callable(handler) and handler is not _note:
            _handlers[number] = handler
            _signal.signal(number, _note)


def _put_back() -> None:
    for number, handler in _handlers.items():
        if _signal.getsignal(number) is _note:
            _signal.signal(number, handler)


def _hand_on() -> None:
    """Call the handlers of what came, in order: all of them, also where one raises, and the last one's error counts."""
    if not _came:
        return
    number = _came.pop(0)
    try:
        _handlers[number](number, sys._getframe())
    finally:
        _hand_on()
