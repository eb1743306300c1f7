"""Passes within passes: as deep as in PyTorch, with what the thread had switched on, and errors that come out."""

from __future__ import annotations

import contextvars
import gc
import signal
import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import fastgrad as fg
from fastgrad.autograd import threads


def nested(lib: ModuleType, depth: int, innermost: Callable[[], Any] = lambda: None) -> int:
    """Passes whose tensor hooks start the next one; returns how many there were."""
    count = 0

    def hook(_):
        nonlocal count
        count += 1
        if count < depth:
            one_more()
        else:
            innermost()

    def one_more():
        with lib.enable_grad():
            y = lib.ones(1, requires_grad=True) * 2
        y.register_hook(hook)
        y.backward()

    one_more()
    return count


@pytest.mark.parametrize("depth", [59, 60, 61, 400, 2000])
def test_hooks(lib: ModuleType, depth: int):
    assert nested(lib, depth) == depth


def test_functions(lib: ModuleType):
    calls = 0

    class Again(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            nonlocal calls
            calls += 1
            if calls < 1000:
                with lib.enable_grad():
                    y = Again.apply(lib.ones(1, requires_grad=True))
                y.backward()
            return grad

    x = lib.ones(1, requires_grad=True)
    Again.apply(x).backward()
    assert calls == 1000
    assert x.grad.tolist() == [1.0]


def test_grad_gives_its_results(lib: ModuleType):
    """A result that passes through several threads."""

    def power(n: int) -> Any:
        with lib.enable_grad():
            x = lib.tensor([2.0], requires_grad=True)
            y = x * 2

        y.register_hook(lambda g: g * 1 if n == 0 else power(n - 1) * 0 + g + n)
        (g,) = lib.autograd.grad(y, x)
        return g

    assert power(150).tolist() == [302.0]


def test_what_a_thread_has_is_carried_over(lib: ModuleType):
    variable = contextvars.ContextVar("variable", default="none")
    seen: list[Any] = []

    def look() -> None:
        with lib.enable_grad():
            lib.ones(1, requires_grad=True).exp()
        seen.append((variable.get(), lib.is_grad_enabled(), lib.is_anomaly_enabled()))

    variable.set("mine")
    with (
        lib.autograd.set_detect_anomaly(True),
        lib.autograd.graph.saved_tensors_hooks(lambda t: (seen.append("packed"), t)[1], lambda t: t),
    ):
        nested(lib, 130, look)
    assert "packed" in seen
    assert seen[-1][1:] == (False, True)
    if lib is fg:
        assert seen[-1][0] == "mine"
    assert lib.is_grad_enabled()
    variable.set("none")


def test_exceptions_come_out():
    """PyTorch loses them at the boundary of a thread: SystemError."""
    error = ValueError("innermost")

    def fail() -> None:
        raise error

    with pytest.raises(ValueError, match="innermost") as caught:
        nested(fg, 150, fail)
    assert caught.value is error
    error.__traceback__ = None
    assert fg.is_grad_enabled()
    assert nested(fg, 2) == 2


def test_passes_that_never_end():
    with pytest.raises(RecursionError, match="passes within passes do not end"):
        nested(fg, 10**9)
    gc.collect()
    assert nested(fg, 100) == 100


def test_a_thread_of_its_own_begins_anew():
    """Threads that run passes at the same time do not count for each other."""
    done: list[int] = []
    threads = [threading.Thread(target=lambda: done.append(nested(fg, 80))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert done == [80] * 4


@pytest.mark.parametrize("depth", [3, 150])
def test_keyboard_interrupt(depth: int):
    """It ends the innermost pass, wherever that runs, and leaves all of them."""
    begin, where = time.monotonic(), []

    def wait() -> None:
        try:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            while time.monotonic() < begin + 60:
                time.sleep(0.001)
        except KeyboardInterrupt:
            where.append(threading.current_thread() is threading.main_thread())
            raise

    with pytest.raises(KeyboardInterrupt):
        nested(fg, depth, wait)
    assert time.monotonic() < begin + 30
    assert where == [depth == 3]
    assert fg.is_grad_enabled()
    assert nested(fg, 100) == 100


@pytest.mark.parametrize("begun", [False, True])
def test_keyboard_interrupt_while_a_thread_begins(monkeypatch: pytest.MonkeyPatch, begun: bool):
    """Whether or not the thread runs by then, it does nothing."""
    begin = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if begun:
            begin(thread)
        raise KeyboardInterrupt

    calls: list[int] = []
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        nested(fg, 100, lambda: calls.append(1))
    monkeypatch.undo()
    for thread in threading.enumerate():
        if thread.name == "fastgrad-nested-pass":
            thread.join()
    assert not calls
    assert fg.is_grad_enabled()
    assert nested(fg, 100) == 100


def test_what_reaches_the_waiting_thread():
    """What reaches the waiting thread is raised where the innermost one is at work, and comes out of it."""
    seen: list[type] = []

    class Late(BaseException):
        pass

    def interrupt() -> None:
        helper = threads._HELPERS[threading.main_thread().ident or 0]
        assert helper is threading.current_thread()
        try:
            assert threads._interrupt(threading.main_thread().ident or 0, Late)
            for _ in range(1000):
                time.sleep(0)
        except Late:
            seen.append(Late)
            raise

    with pytest.raises(Late):
        threads.on_another_thread(interrupt)
    assert seen == [Late]
    assert not threads._HELPERS
    assert not threads._interrupt(threading.get_ident(), Late), "nobody is at work"
