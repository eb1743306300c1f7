"""`futures`, beside PyTorch's."""

from __future__ import annotations

import importlib
import threading

import pytest


@pytest.fixture
def futures(lib):
    return importlib.import_module(f"{lib.__name__}.futures")


def test_f1_chains(futures):
    first = futures.Future()
    order = []
    first.add_done_callback(lambda f: order.append(("callback", f.value())))
    second = first.then(lambda f: f.value() + 1)
    third = second.then(lambda f: f.wait() * 10)
    assert not third.done()
    first.set_result(3)
    assert (second.value(), third.wait(), order) == (4, 40, [("callback", 3)])
    assert first.then(lambda f: first).wait() is first  # not flattened


def test_f3_once(futures):
    future = futures.Future()
    future.set_result(3)
    with pytest.raises(RuntimeError, match="mark a completed Future as complete again"):
        future.set_result(4)
    assert future.wait() == 3


def test_f2_failures(futures):
    with pytest.raises(RuntimeError):
        futures.Future().value()
    failed = futures.Future()
    failed.set_exception(ValueError("bad"))
    with pytest.raises(ValueError, match="bad"):
        failed.wait()
    assert failed.then(lambda f: 5).wait() == 5
    chained = failed.then(lambda f: f.value())
    with pytest.raises(RuntimeError, match="error when running the callback: ValueError: bad"):
        chained.wait()
    with pytest.raises(AssertionError, match="not an Exception"):
        futures.Future().set_exception(5)


def test_what_cannot_be_called():
    from fastgrad.futures import Future, collect_all

    with pytest.raises(TypeError, match="must be callable, not int"):
        Future().then(5)
    with pytest.raises(TypeError, match="must be callable, not NoneType"):
        Future().add_done_callback(None)
    with pytest.raises(TypeError, match="element 1 is of type int"):
        collect_all([Future(), 5])


def test_f4_several(futures):
    a, b = futures.Future(), futures.Future()
    both = futures.collect_all([a, b])
    a.set_result(1)
    assert not both.done()
    b.set_result(2)
    assert [f.value() for f in both.wait()] == [1, 2] == futures.wait_all([a, b])
    assert futures.collect_all([]).wait() == []
    failed = futures.Future()
    failed.set_exception(ValueError("late"))
    with pytest.raises(ValueError, match="late"):
        futures.collect_all([a, failed]).wait()
    with pytest.raises(ValueError, match="late"):
        futures.wait_all([a, failed])


def test_another_thread_completes(futures):
    future = futures.Future()
    doubled = future.then(lambda f: f.value() * 2)
    thread = threading.Thread(target=lambda: future.set_result(21))
    thread.start()
    assert doubled.wait() == 42
    thread.join()


def test_long_chains(futures):
    first = last = futures.Future()
    for _ in range(2000):
        last = last.then(lambda f: f.value() + 1)
    first.set_result(0)
    assert last.done()
    assert last.value() == 2000


def test_what_follows_comes_before_what_is_beside(futures):
    first, order = futures.Future(), []
    first.then(lambda f: order.append("a")).then(lambda f: order.append("behind a"))
    first.then(lambda f: order.append("b"))
    first.set_result(0)
    assert order == ["a", "behind a", "b"]


def test_f5_logged_callbacks(futures, caplog):
    future = futures.Future()
    future.add_done_callback(lambda f: 1 / 0)
    future.set_result(1)
    assert future.wait() == 1
