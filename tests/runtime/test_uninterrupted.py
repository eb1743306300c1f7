"""Signals wait while something is compiled or loaded: the state of LLVM and Numba is between two others meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastgrad.native.base.intrinsics import native, words
from fastgrad.native.build import compiler, loader
from fastgrad.native.build.interrupts import Uninterrupted
from fastgrad.native.contracts.entries import Export

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")


@pytest.fixture
def came() -> Iterator[list[int]]:
    found: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: found.append(number))
    try:
        yield found
    finally:
        signal.signal(signal.SIGALRM, before)


def test_signals_come_at_the_end(came: list[int]):
    handler = signal.getsignal(signal.SIGALRM)
    with Uninterrupted():
        with Uninterrupted():
            signal.raise_signal(signal.SIGALRM)
        signal.raise_signal(signal.SIGALRM)
        assert came == []
    assert came == [signal.SIGALRM] * 2
    assert signal.getsignal(signal.SIGALRM) is handler


def test_ctrl_c_is_raised_behind_the_block(came: list[int]):
    handler, done = signal.getsignal(signal.SIGINT), []

    @Uninterrupted()
    def work() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGALRM)
        done.append(True)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done
    assert came  # the other signal's handler runs although this one raises
    assert signal.getsignal(signal.SIGINT) is handler
    with pytest.raises(ValueError, match="mine"), Uninterrupted():
        raise ValueError("mine")
    signal.raise_signal(signal.SIGALRM)
    assert len(came) == 2


def test_what_nobody_handles_in_python_stays_as_it_is():
    before = signal.getsignal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        with Uninterrupted():
            assert signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN
            signal.raise_signal(signal.SIGUSR1)
        assert signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_other_threads_hold_nothing_back(came: list[int]):
    within, leave = threading.Event(), threading.Event()

    def work() -> None:
        with Uninterrupted():
            within.set()
            leave.wait(60)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert within.wait(60)
        signal.raise_signal(signal.SIGALRM)
        assert came == [signal.SIGALRM]
    finally:
        leave.set()
        thread.join()


@native
def kernel(frame):
    words(frame)[0] = 7


def test_compiling_and_loading_are_such_blocks(came: list[int], monkeypatch: pytest.MonkeyPatch):
    def signalled(module: Any, name: str) -> None:
        function = getattr(module, name)

        def within(*args: Any) -> Any:
            signal.raise_signal(signal.SIGALRM)
            assert not came
            return function(*args)

        monkeypatch.setattr(module, name, within)

    signalled(compiler, "emit")
    code = compiler.compile_unit("waits", [Export("waits", kernel)])
    assert came == [signal.SIGALRM]
    came.clear()
    signalled(loader, "_new_engine")
    assert loader.load_object(code)("fastgrad_waits")
    assert came == [signal.SIGALRM]


PROGRAM = """
import signal, threading
import fastgrad as fg

def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
x, count = fg.linspace(0.1, 0.9, 50), 0
for name in ("exp", "log", "sin", "tanh", "sqrt", "erf"):
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.03)
    try:
        getattr(fg, name)(x)
        fg.add(x, x)
    except KeyboardInterrupt:
        count += 1
    finally:
        while True:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0)
                break
            except KeyboardInterrupt:
                pass
print("interrupted", count > 0)
found = []
def work():
    found.append([getattr(fg, name)(x).sum().item() for name in ("exp", "log", "sin", "tanh", "sqrt", "erf", "cos")])
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert found[0] == found[1] == found[2] and len(found[0]) == 7
print("done")
"""


def test_ctrl_c_while_kernels_are_compiled(tmp_path: Path):
    """No crash, and nothing is locked afterwards."""
    from fastgrad.native.build import cache

    here = cache.place().folder
    folder = tmp_path / here.name if here is not None else tmp_path
    folder.mkdir(mode=0o755, exist_ok=True)
    if here is not None:
        for unit in here.glob("runtime-*"):  # kernels alone are compiled anew
            shutil.copy2(unit, folder)
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", PROGRAM],
        env={**os.environ, "FASTGRAD_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["interrupted", "True", "done"]
