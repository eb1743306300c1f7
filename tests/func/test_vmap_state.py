"""`vmap`: calls that are interrupted anywhere leave nothing under way; integers of the batch are indices."""

from __future__ import annotations

import sys

import pytest

import fastgrad as fg
from fastgrad.func import grad, vmap
from fastgrad.func.batched import levels
from fastgrad.places import any_chosen


@pytest.mark.parametrize("name", ["entered.__enter__", "entered.__exit__"])
@pytest.mark.parametrize("event", ["call", "line", "return"])
def test_an_interrupted_call_is_over(name, event):
    """Wherever a signal comes while a block begins or ends, no level of it remains."""
    x = fg.arange(6.0).reshape(2, 3)
    interrupted, chosen = 0, any_chosen()
    for place in range(8):
        seen = [0]

        def trace(frame, what, _, seen=seen, place=place):
            if frame.f_code.co_qualname != name:
                return None
            if what == event:
                seen[0] += 1
                if seen[0] == place + 1:
                    raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            vmap(fg.sin)(x)
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            sys.settrace(before)
        left = len(levels())
        del levels()[:]
        assert left == 0
        assert any_chosen() == chosen  # else no function would run by its plan any more
    assert interrupted


def test_an_integer_of_the_batch_is_an_index():
    x, i, j = fg.arange(24.0).reshape(2, 3, 4), fg.tensor([0, 2]), fg.tensor([1, 3])
    assert vmap(lambda t, k: t[k])(x, i).tolist() == [x[0, 0].tolist(), x[1, 2].tolist()]
    assert vmap(lambda t, k: t[:, k])(x, j).tolist() == [x[0, :, 1].tolist(), x[1, :, 3].tolist()]
    assert vmap(lambda t, k, m: t[k, m])(x, i, j).tolist() == [1.0, 23.0]
    assert vmap(lambda k: x[0, k])(i).tolist() == [x[0, 0].tolist(), x[0, 2].tolist()]
    slopes = vmap(grad(lambda t, k: (t[k] ** 2).sum()))(x, i)
    assert slopes[1, 2].tolist() == [40.0, 42.0, 44.0, 46.0]
    assert not slopes[1, :2].any()


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_each_row_is_seen_as_another_dtype():
    x = fg.arange(6.0, dtype=fg.float64).reshape(2, 3) + 0.5
    for dtype in (fg.int64, fg.int32, fg.float64):
        assert vmap(lambda row, dtype=dtype: row.view(dtype))(x).tolist() == x.view(dtype).tolist()
    fg.testing.assert_close(vmap(lambda row: tuple(fg.frexp(row)))(x), tuple(fg.frexp(x)))
    fg.testing.assert_close(vmap(fg.nextafter)(x, x + 1), fg.nextafter(x, x + 1))
