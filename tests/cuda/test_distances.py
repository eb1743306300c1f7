"""`cdist` and `pdist` on a GPU, whose kernel holds no differences."""

from __future__ import annotations

import math

import pytest

import fastgrad as fg


def operands(*, dtype: fg.dtype = fg.float32, rows: int = 40, width: int = 30):
    generator = fg.Generator().manual_seed(1)
    sizes = ((rows, width), (2, rows + 1, width))
    return [fg.randn(s, generator=generator).to(dtype) for s in sizes]


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.5, math.inf])
def test_distances_and_their_gradients_are_those_of_the_cpu(driver, p):
    found = []
    for device in ("cpu", "cuda"):
        a, b = (t.to(device).requires_grad_() for t in operands())
        d = fg.cdist(a, b, p=p)
        pairs = fg.pdist(a, p)
        assert d.device == pairs.device == a.device
        found.append([d, pairs, *fg.autograd.grad(d.sum() + pairs.square().sum(), (a, b))])
    for here, there in zip(*found, strict=True):
        fg.testing.assert_close(there.cpu(), here)


@pytest.mark.parametrize("dtype", [fg.float16, fg.bfloat16], ids=str)
def test_halves_are_computed_in_float32_and_rounded(driver, dtype):
    a, b = operands(dtype=dtype)
    d = fg.cdist(a.to("cuda"), b.to("cuda"))
    assert d.dtype == dtype
    fg.testing.assert_close(d.cpu(), fg.cdist(a, b))


def test_gradients_of_gradients(driver):
    found = []
    for device in ("cpu", "cuda"):
        a, b = (t.to(device).requires_grad_() for t in operands(rows=4, width=3))
        (first,) = fg.autograd.grad(fg.cdist(a, b).square().sum(), a, create_graph=True)
        found.append(fg.autograd.grad(first.square().sum(), (a, b)))
    for here, there in zip(*found, strict=True):
        fg.testing.assert_close(there.cpu(), here)


def test_no_differences_are_held(driver):
    a = fg.ones(64, 256, device="cuda").requires_grad_()
    b = fg.zeros(64, 256, device="cuda")
    fg.cuda.reset_peak_memory_stats()
    before = fg.cuda.memory_allocated()
    fg.cdist(a, b).sum().backward()
    held = fg.cuda.max_memory_allocated() - before
    assert held < 64 * 64 * 256  # a quarter of what they would take


def test_operands_of_two_devices_are_refused(driver):
    a, b = operands()
    with pytest.raises(RuntimeError, match="device"):
        fg.cdist(a, b.to("cuda"))


def test_nothing_to_compute(driver):
    for rows, others, width in ((0, 3, 2), (3, 0, 2), (3, 2, 0)):
        a, b = fg.ones(rows, width, device="cuda").requires_grad_(), fg.ones(others, width, device="cuda")
        d = fg.cdist(a, b)
        d.sum().backward()
        assert d.shape == (rows, others)
        assert a.grad.shape == a.shape
        assert not d.any()


def test_ldl_on_a_gpu_and_pivots_that_are_none(driver):
    a = fg.tensor([[0.0, 2.0, 1.0], [2.0, 0.0, 3.0], [1.0, 3.0, 1.0]], device="cuda").expand(2, 3, 3)
    b = fg.ones(3, 2, device="cuda").requires_grad_()
    factors, pivots, info = fg.linalg.ldl_factor_ex(a)
    expected = fg.linalg.ldl_factor(a.cpu())
    fg.testing.assert_close(factors.cpu(), expected.LD)
    assert pivots.cpu().equal(expected.pivots)
    assert not info.any()
    x = fg.linalg.ldl_solve(factors, pivots, b)
    fg.testing.assert_close(a @ x, b.expand(2, 3, 2))
    x.sum().backward()
    assert b.grad.device == b.device
    with pytest.raises(fg.linalg.LinAlgError, match="zero"):
        fg.linalg.ldl_factor(fg.zeros(2, 2, device="cuda"))
    fg.linalg.ldl_solve(factors, fg.zeros_like(pivots), b)  # which is not waited for
    with pytest.raises(IndexError, match="ldl_solve"):
        fg.cuda.synchronize()
    assert fg.linalg.ldl_solve(factors, pivots, b).isfinite().all()  # the process goes on
