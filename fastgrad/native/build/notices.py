"""What compiling says on stderr: one line that stays, once, and on a terminal another that counts up meanwhile."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

_said: set[str] = set()


def say_once(text: str, topic: str | None = None) -> None:
    """Print a line on stderr, unless the same, or one of the same topic, was printed before."""
    if (topic or text) in _said:
        return
    _said.add(topic or text)
    _write(f"fastgrad: {text}\n")


def _write(text: str) -> None:
    try:
        if sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()
    except (OSError, ValueError):  # it is closed; nothing of this is worth a failure
        pass


_COMPILING, _WAITING = "compiling", "waiting"
_PROGRESS = frozenset((_COMPILING, _WAITING))
_silent = 0  # callers that tell of progress themselves


@contextlib.contextmanager
def unannounced() -> Iterator[None]:
    """Within it nothing is said of progress: its caller does that."""
    global _silent
    new = _PROGRESS - _said
    _said.update(new)
    _silent += 1
    try:
        yield
    finally:
        _silent -= 1
        _said.difference_update(new)


def say_waiting(what: str) -> None:
    """Another process compiles the same."""
    if not sys.flags.quiet:
        say_once(f"waiting for another process, which compiles {what}", _WAITING)


# --- counting up -----------------------------------------------------------------------------------------------

FIRST, STEP = 0.5, 0.25  # seconds: what is over sooner is not counted


class _Total:
    """How many units this process has compiled, and in how many seconds."""

    units = 0
    seconds = 0.0


@contextlib.contextmanager
def compiling(what: str, kept: str, estimate: float) -> Iterator[None]:
    """Tell that something is compiled within, unless Python was started with ``-q``.

    Parameters
    ----------
    what : str
        What messages call it.
    kept : str
        Whether and where the code is kept; empty if all of the line that stays is said already.
    estimate : float
        How many seconds it is likely to take; zero if nobody can tell.
    """
    about = f", about {max(estimate, 1):.0f} s" if estimate else ""
    if kept and not sys.flags.quiet:
        say_once(f"compiling {what} for this machine{about} ({kept})", _COMPILING)
    start, ended = time.monotonic(), threading.Event()
    counter = None
    if not sys.flags.quiet and not _silent and _is_terminal():
        counter = threading.Thread(target=_count, args=(what, estimate, start, ended), daemon=True)
        with contextlib.suppress(RuntimeError):  # no thread can be started: it counts for itself
            counter.start()
    try:
        yield
    finally:
        _Total.units += 1
        _Total.seconds += time.monotonic() - start
        ended.set()
        if counter is not None and counter.ident is not None:
            counter.join()


def _is_terminal() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except (OSError, ValueError, AttributeError):  # it is closed, or something that only writes
        return False


def _count(what: str, estimate: float, start: float, ended: threading.Event) -> None:
    """Paint one line over and over, and wipe it in the end."""
    width, pause = 0, FIRST
    while not ended.wait(pause):
        line = progress_line(what, time.monotonic() - start, estimate)
        _write("\r" + line.ljust(width))
        width, pause = len(line), STEP
    if width:
        _write("\r" + " " * width + "\r")


def progress_line(what: str, seconds: float, estimate: float) -> str:
    """How far compiling is, as one line."""
    of = f" of about {max(estimate, seconds, 1):.0f}" if estimate else ""
    before = ""
    if _Total.units:
        units = f"{_Total.units} unit{'s' if _Total.units > 1 else ''}"
        before = f" ({units} before it in {_Total.seconds:.0f} s)"
    return f"fastgrad: compiling {what}: {seconds:.0f}{of} s{before}"
