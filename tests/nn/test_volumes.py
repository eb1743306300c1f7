"""Where maxima are, and what pooling of volumes, blocks and the way back from maxima refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.nn.functional as F

IMAGE = np.random.default_rng(0).integers(0, 4, (2, 2, 5, 6, 4)).astype(np.float64)  # with ties


@pytest.mark.parity
@pytest.mark.parametrize(
    "call",
    [
        lambda f, x: f.max_pool3d(x, (2, 3, 2), stride=2, padding=1, return_indices=True),
        lambda f, x: f.max_pool3d(x, 3, stride=1, return_indices=True),
        lambda f, x: f.adaptive_max_pool3d(x, (2, 4, 3), return_indices=True),
        lambda f, x: f.adaptive_max_pool2d(x[0], (4, 3), return_indices=True),
        lambda f, x: f.adaptive_max_pool1d(x[0, 0], 3, return_indices=True),
    ],
    ids=["windows", "overlapping", "volumes", "images", "signals"],
)
def test_where_maxima_are(call: Any):
    torch = pytest.importorskip("torch")
    (a, i), (b, j) = (call(lib.nn.functional, lib.tensor(IMAGE)) for lib in (fg, torch))
    assert a.tolist() == b.tolist()
    assert i.tolist() == j.tolist()
    assert i.dtype is fg.int64


def test_maxima_go_back_to_their_places():
    x = fg.tensor(IMAGE + np.arange(IMAGE.size).reshape(IMAGE.shape) / IMAGE.size, requires_grad=True)
    best, where = F.max_pool3d(x, (5, 2, 2), return_indices=True)
    back = F.max_unpool3d(best, where, (5, 2, 2))
    assert back.shape == x.shape
    assert float(back.detach().sum()) == pytest.approx(float(best.detach().sum()))
    back.sum().backward()
    assert float(x.grad.sum()) == best.numel()


ERRORS: dict[str, tuple[Any, type[Exception], str]] = {
    "dims": (lambda f, o: f.max_pool3d(o(2, 3, 4), 2), RuntimeError, "4D or 5D|dim"),
    "blocks": (lambda f, o: f.unfold(o(1, 1, 3, 3), 5), RuntimeError, "at least one"),
    "rows": (lambda f, o: f.fold(o(1, 5, 4), 3, 2), RuntimeError, "product of"),
    "window": (lambda f, o: f.unfold(o(1, 1, 3, 3), 0), RuntimeError, "kernel"),
    "size": (lambda f, o: f.adaptive_max_pool2d(o(1, 1, 3, 3), (2, 2, 2)), RuntimeError, "output_size"),
    "index": (lambda f, o: f.max_unpool1d(o(1, 1, 1), o(1, 1, 1).long() * 7, 2), RuntimeError, "[Ii]nvalid|index"),
    "unpooled": (
        lambda f, o: f.max_unpool1d(o(1, 1, 1), o(1, 1, 1).long(), 2, output_size=(9,)), ValueError, "output_size",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_refused(lib, name: str):
    call, kind, text = ERRORS[name]
    with pytest.raises(kind, match=text):
        call(lib.nn.functional, lib.ones)


def test_means_of_integers_are_refused():
    with pytest.raises(NotImplementedError, match="Long"):
        F.avg_pool3d(fg.ones(1, 2, 2, 2, dtype=fg.int64), 2)


def test_derivatives():
    x = fg.tensor(np.random.default_rng(1).standard_normal((1, 1, 3, 4)), requires_grad=True)
    for f in (lambda x: F.unfold(x, 2, padding=1), lambda x: F.fold(F.unfold(x, 2), (3, 4), 2)):
        assert fg.autograd.gradcheck(f, (x,))
        assert fg.autograd.gradgradcheck(f, (x,))


@pytest.mark.parametrize("rank", [2, 3])
def test_an_empty_batch_in_random_windows(rank: int):
    x = fg.zeros(0, 2, *[4] * rank, requires_grad=True)
    out = getattr(F, f"fractional_max_pool{rank}d")(x, 2, output_size=2)
    assert tuple(out.shape) == (0, 2, *[2] * rank)
    out.sum().backward()
    assert x.grad.shape == x.shape


@pytest.mark.parametrize("size", [0, (2, 0, 2), (0, 2, 2), (2, 2, 0)])
@pytest.mark.parametrize("shape", [(2, 3, 4, 4, 4), (3, 4, 4, 4)])
def test_volumes_of_no_means(size: Any, shape: tuple[int, ...]):
    x = fg.ones(shape, requires_grad=True)
    out = F.adaptive_avg_pool3d(x, size)
    assert tuple(out.shape) == (*shape[:-3], *((size,) * 3 if size == 0 else size))
    out.sum().backward()
    assert x.grad.tolist() == fg.zeros(shape).tolist()
