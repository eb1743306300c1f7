"""Futures."""

from __future__ import annotations

import threading

import pytest

from fastgrad.as_torch.overlay import futures


def test_futures():
    future: futures.Future[int] = futures.Future()
    later = future.then(lambda done: done.value() + 1)
    with pytest.raises(RuntimeError, match="no result yet"):
        future.value()
    threading.Timer(0.01, future.set_result, (1,)).start()
    assert (later.wait(), future.done(), futures.wait_all([future, later])) == (2, True, [1, 2])
    with pytest.raises(RuntimeError, match="cannot be set twice"):
        future.set_result(2)
    failed = future.then(lambda done: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        failed.wait()
    with pytest.raises(TypeError, match="not an Exception"):
        futures.Future().set_exception("text")  # type: ignore[arg-type]
    assert futures.collect_all([]).wait() == []
