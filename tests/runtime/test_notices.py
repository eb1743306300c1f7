"""What compiling says, and where."""

from __future__ import annotations

import io
import re
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from fastgrad.native.build import notices


class Stream(io.StringIO):
    """A stderr that may be a terminal."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Stream:
    """A terminal on which nothing was said yet."""
    monkeypatch.setattr(notices, "_said", set())
    monkeypatch.setattr(notices, "_Total", type("_Total", (), {"units": 0, "seconds": 0.0}))
    monkeypatch.setattr(notices, "FIRST", 0.01)
    monkeypatch.setattr(notices, "STEP", 0.01)
    stream = Stream(terminal=True)
    monkeypatch.setattr(notices, "sys", SimpleNamespace(stderr=stream, flags=sys.flags))  # not that of pytest
    return stream


def shown(stream: Stream) -> str:
    """What stands on the terminal in the end: a carriage return leads back to the beginning of the line."""
    lines = []
    for line in stream.getvalue().split("\n"):
        seen = ""
        for part in line.split("\r"):
            seen = part + seen[len(part) :]
        lines.append(seen.rstrip())
    return "\n".join(lines)


def wait_for(stream: Stream, pattern: str) -> None:
    end = time.monotonic() + 60
    while not re.search(pattern, stream.getvalue()) and time.monotonic() < end:
        time.sleep(0.005)
    assert re.search(pattern, stream.getvalue())


def test_a_terminal_sees_it_count_and_keeps_one_line(terminal: Stream):
    with notices.compiling("a unit", "once; kept here", 12.3):
        wait_for(terminal, r"fastgrad: compiling a unit: \d+ of about \d+ s")
    with notices.compiling("another", "once; kept here", 0.4):
        wait_for(terminal, r"compiling another: \d+ of about \d+ s \(1 unit before it in \d+ s\)")
    assert shown(terminal) == "fastgrad: compiling a unit for this machine, about 12 s (once; kept here)\n"
    assert not any(thread.name.endswith("(_count)") for thread in threading.enumerate())


def test_the_line_is_wiped_when_compiling_fails(terminal: Stream):
    def fail() -> None:
        with notices.compiling("a unit", "", 3.0):
            wait_for(terminal, r"compiling a unit: \d+ of about \d+ s")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert shown(terminal) == ""


def test_what_took_longer_than_expected_says_so():
    assert notices.progress_line("x", 41.2, 30.0).startswith("fastgrad: compiling x: 41 of about 41 s")
    assert notices.progress_line("x", 41.2, 0.0).startswith("fastgrad: compiling x: 41 s")


def test_no_terminal_sees_one_line_and_no_counting(terminal: Stream):
    terminal.terminal = False
    for _ in range(2):
        with notices.compiling("a unit", "once", 0.0):
            time.sleep(0.05)
    assert terminal.getvalue() == "fastgrad: compiling a unit for this machine (once)\n"


def test_who_tells_of_progress_is_not_disturbed(terminal: Stream):
    with notices.unannounced(), notices.compiling("a unit", "once", 1.0):
        time.sleep(0.05)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("stream", [None, "closed", "no isatty"])
def test_no_stream_is_no_trouble(stream: str | None, monkeypatch: pytest.MonkeyPatch):
    closed = io.StringIO()
    closed.close()
    streams = {
        "closed": closed,
        "no isatty": type("W", (), {"write": lambda *_: 0, "flush": lambda _: None})(),
    }
    monkeypatch.setattr(notices, "sys", SimpleNamespace(stderr=streams.get(stream or ""), flags=sys.flags))
    monkeypatch.setattr(notices, "_said", set())
    with notices.compiling("a unit", "once", 1.0):
        pass
