"""`cdist` and `pdist`: one kernel, its derivatives, and the same in tensors where they are differentiated again."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.nn.functional as F

ORDERS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf)
SIZES = [
    ((4, 3), (5, 3)), ((40, 33), (300, 33)), ((2, 4, 3), (2, 5, 3)), ((3, 1, 4, 2), (2, 5, 2)), ((0, 3), (5, 3)),
    ((4, 0), (5, 0)), ((4, 3), (0, 3)), ((1, 1), (1, 1)), ((100, 130), (33, 130)), ((0, 2, 3), (0, 4, 3)),
]  # fmt: skip


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def in_numpy(a: np.ndarray, b: np.ndarray, p: float) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # of infinities
        size = np.abs(a[..., :, None, :] - b[..., None, :, :])
    if p == 0:
        return (size != 0).sum(-1).astype(a.dtype)
    if p == math.inf:
        return size.max(-1, initial=0)
    return (size**p).sum(-1) ** (1 / p)


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_distances(sizes: Any, p: float):
    a, b = (normal(*s, seed=k) for k, s in enumerate(sizes))
    got = fg.cdist(fg.tensor(a), fg.tensor(b), p=p)
    np.testing.assert_allclose(got.numpy(), in_numpy(a, b, p), 1e-12, 1e-12)


@pytest.mark.parity
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_gradients_are_those_of_pytorch(sizes: Any, p: float, dtype: str):
    torch = pytest.importorskip("torch")
    a, b = (normal(*s, seed=k).astype(dtype) for k, s in enumerate(sizes))
    if a.ndim == b.ndim == 2 and len(a) and len(b):
        b[0] = a[0]
    found = []
    for lib in (fg, torch):
        x, y = (lib.tensor(v, requires_grad=True) for v in (a, b))
        d = lib.cdist(x, y, p=p, compute_mode="donot_use_mm_for_euclid_dist")
        g = lib.tensor(normal(*d.shape, seed=5).astype(dtype))
        found.append([d.detach().numpy(), *(t.numpy() for t in lib.autograd.grad(d, (x, y), g))])
    for mine, theirs in zip(*found, strict=True):
        scale = np.abs(theirs).max(initial=1)
        np.testing.assert_allclose(mine, theirs, 0, scale * (2e-5 if dtype == "float32" else 1e-13))


@pytest.mark.parametrize("p", ORDERS[2:])
@pytest.mark.parametrize("first", [True, False])
def test_recorded_gradients_are_those_of_the_kernel(p: float, first: bool):
    x, y = (fg.tensor(normal(*s, seed=k), requires_grad=True) for k, s in enumerate(((2, 7, 3), (2, 6, 3))))
    with fg.no_grad():
        y[0, 0] = x[0, 0]
    g = fg.tensor(normal(2, 7, 6, seed=3))
    of = x if first else y
    plain, recorded = (
        fg.autograd.grad(fg.cdist(x, y, p=p), of, g, create_graph=create)[0] for create in (False, True)
    )
    np.testing.assert_allclose(recorded.detach().numpy(), plain.numpy(), 1e-12, 1e-14)


@pytest.mark.parametrize("p", [1.5, 2.0, 3.0])
def test_derivatives_of_every_order(p: float):
    x, y = (fg.tensor(normal(*s, seed=k), requires_grad=True) for k, s in enumerate(((4, 3), (5, 3))))

    def distances(x: Any, y: Any) -> Any:
        return fg.cdist(x, y, p=p)

    assert fg.autograd.gradcheck(distances, (x, y))
    assert fg.autograd.gradgradcheck(distances, (x, y))
    values, along = (
        tuple(t.detach() for t in (x, y)),
        tuple(fg.ones_like(t) * k for k, t in enumerate((x, y), 1)),
    )
    forward = fg.func.jvp(distances, values, along)[1]
    ahead, behind = (
        distances(*(v + h * t for v, t in zip(values, along, strict=True))) for h in (1e-6, -1e-6)
    )
    assert fg.allclose(forward, (ahead - behind) / 2e-6, rtol=1e-6, atol=1e-8)
    assert fg.autograd.gradgradcheck(lambda x: F.pdist(x, p), (x,))


def test_near_rows_have_their_distance_to_the_last_digits():
    a = np.full((40, 3), 1e4, np.float32)
    b = a + np.arange(40, dtype=np.float32)[:, None] / 512
    np.testing.assert_array_equal(
        fg.cdist(fg.tensor(a), fg.tensor(b)).numpy(), in_numpy(a, b, 2).astype("f4")
    )


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_the_same_on_any_number_of_threads(p: float):
    a, b, before = normal(3, 150, 37), normal(3, 301, 37, seed=1), fg.get_num_threads()
    found = []
    try:
        for threads in (1, 4):
            fg.set_num_threads(threads)
            x, y = fg.tensor(a, requires_grad=True), fg.tensor(b, requires_grad=True)
            d = fg.cdist(x, y, p=p)
            found.append([t.detach().numpy() for t in (d, *fg.autograd.grad(d.sum(), (x, y)))])
    finally:
        fg.set_num_threads(before)
    for one, four in zip(*found, strict=True):
        np.testing.assert_array_equal(one, four)


def test_special_values():
    x, y = fg.tensor([[math.nan, 0.0], [math.inf, 0.0]]), fg.tensor([[0.0, 0.0], [math.inf, 1.0]])
    for p in ORDERS:
        expected = in_numpy(x.numpy(), y.numpy(), p) if p else np.array([[math.nan] * 2, [1.0, math.nan]])
        np.testing.assert_array_equal(fg.cdist(x, y, p=p).numpy(), expected.astype("f4"))


@pytest.mark.parametrize("dtype", [fg.float16, fg.bfloat16])
def test_halves(dtype: Any):
    x, y = fg.tensor(normal(5, 4)).to(dtype).requires_grad_(), fg.tensor(normal(6, 4, seed=1)).to(dtype)
    d = fg.cdist(x, y)
    d.sum().backward()
    assert d.dtype == x.grad.dtype == dtype
    wide = x.detach().float().requires_grad_()
    exact = fg.cdist(wide, y.float())
    exact.sum().backward()
    assert fg.equal(d, exact.to(dtype))
    assert fg.allclose(x.grad.float(), wide.grad, rtol=0.02, atol=0.02)


def test_transforms():
    a, b = fg.tensor(normal(3, 4, 2)), fg.tensor(normal(3, 5, 2, seed=1))
    each = fg.stack([fg.cdist(x, y) for x, y in zip(a, b, strict=True)])
    np.testing.assert_allclose(fg.vmap(fg.cdist)(a, b).numpy(), each.numpy(), 1e-15)
    np.testing.assert_allclose(fg.vmap(lambda x: fg.cdist(x, b[0]))(a).numpy()[0], each[0].numpy(), 1e-15)
    slopes = fg.vmap(fg.func.grad(lambda x, y: fg.cdist(x, y).sum()))(a, b)
    one = a[1].clone().requires_grad_()
    fg.cdist(one, b[1]).sum().backward()
    np.testing.assert_allclose(slopes[1].numpy(), one.grad.numpy(), 1e-12, 1e-14)


def test_saved_rows_of_other_sizes_are_refused():
    x, y = fg.ones(4, 3, requires_grad=True), fg.zeros(5, 3)
    with fg.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t[:2]):
        d = fg.cdist(x, y)
    with pytest.raises(RuntimeError, match=r"CdistBackward0.*elements"):
        d.sum().backward()
    assert x.grad is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: fg.cdist(x, x, p=math.nan), "only supports non-negative p values, but got nan"),
        (
            lambda x: fg.cdist(x.expand(2, 4, 3), x.expand(3, 4, 3)),
            r"shape mismatch: \[\[2\], \[3\]\] cannot be broadcast",
        ),
        (lambda x: fg.cdist(x, x[:, :2]), r"as many columns, but got shapes \[4, 3\] and \[4, 2\]"),
    ],
)
def test_wrong_arguments(call: Any, message: str):
    with pytest.raises(RuntimeError, match=rf"cdist\(\).*{message}"):
        call(fg.ones(4, 3))
