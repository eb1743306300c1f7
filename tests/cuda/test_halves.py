"""float16 and bfloat16 on GPUs, over the driver without one: what the CPU computes, and autocast."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad.functions.data import elements_of
from tests.cuda.fake_driver import FakeDriver, attached

HALVES = pytest.mark.parametrize("half", [fg.float16, fg.bfloat16], ids=lambda d: d.name)


@pytest.fixture(scope="module")
def driver():
    fake = FakeDriver()
    with attached(fake):
        yield fake
        gc.collect()


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(found, expected, dtype, scale: float = 1) -> None:
    """Compare tensors of a dtype, of the GPU and of the CPU."""
    assert found.dtype is expected.dtype is dtype
    off = {fg.float16: 2e-3, fg.bfloat16: 1.6e-2}.get(dtype, 1e-5) * scale
    np.testing.assert_allclose(found.cpu().float().numpy(), expected.float().numpy(), rtol=off, atol=off)


PRODUCTS = {
    "mm": lambda a, b: a @ b.t(),
    "by columns": lambda a, b: a.t().contiguous().t() @ b.t(),
    "bmm": lambda a, b: fg.bmm(a.view(2, 3, 8), b.view(2, 8, 3)),
    "mv": lambda a, b: a @ b[0],
    "dot": lambda a, b: a[0] @ b[1],
    "linear": lambda a, b: F.linear(a, b, b[:, 0]),
    "addmm": lambda a, b: fg.addmm(a[:, :6], a, b.t(), beta=0.5, alpha=2),
    "addmm of nothing": lambda a, b: fg.addmm(a[:, :6] * float("nan"), a, b.t(), beta=0),
    "addmm of no factors": lambda a, b: fg.addmm(a[:, :6], a[:, :0], b.t()[:0]),
    "of no factors": lambda a, b: a[:, :0] @ b.t()[:0],
}


@HALVES
@pytest.mark.parametrize("program", PRODUCTS.values(), ids=PRODUCTS)
def test_products_are_those_of_cublas(driver, half, program):
    def computed(device):
        a, b = (fg.tensor(numbers(6, 8, seed=k)).to(half).to(device).requires_grad_() for k in range(2))
        out = program(a, b)
        if out.requires_grad:
            out.sum().backward()
        return [out.detach(), *(x.grad for x in (a, b) if x.grad is not None)]

    expected = computed("cpu")
    driver.launched.clear()
    found = computed("cuda")
    for one, other in zip(found, expected, strict=True):
        close(one, other, half, 8)
    products = {name for name in driver.launched if name.startswith("product")}
    assert products <= {f"product of {half.name}"}


def test_what_is_added_to_a_product_of_halves_is_rounded_with_it(driver):
    a, b = fg.full((1, 1), 1.0, dtype=fg.float16), fg.full((1, 1), 2049.0).half()  # 2048
    c = fg.full((1, 1), 1.5, dtype=fg.float16)
    found = fg.addmm(c.cuda(), a.cuda(), b.cuda() + 0)
    assert found.item() == fg.addmm(c, a, b).item() == 2050.0


@HALVES
def test_elements_go_to_the_gpu_and_back_as_they_are(driver, half):
    x = fg.empty(1 << 16, dtype=half)
    every = np.arange(1 << 16, dtype=np.uint16)
    elements_of(x)[...] = every.view(elements_of(x).dtype)
    for y in (x.cuda().cpu(), x.cuda().clone().cpu(), x.cuda().view(2, -1).t().contiguous().cpu().view(-1)):
        got = elements_of(y).view(np.uint16)
        expected = every if y.shape == x.shape and got[1] == 1 else every.reshape(2, -1).T.ravel()
        np.testing.assert_array_equal(got, expected)
