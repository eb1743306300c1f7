"""Programs on the bodies of the GPU's kernels, which the simulator runs with the frames that a GPU would get."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from tests.cuda.fake_driver import FakeDriver, attached

pytestmark = pytest.mark.cudasim


@pytest.fixture(scope="module")
def driver():
    fake = FakeDriver()
    with attached(fake, fake.simulator):
        yield fake
        gc.collect()


def test_training(driver):
    rng = np.random.default_rng(2)
    first, second, x = (rng.standard_normal(size).astype(np.float32) for size in ((4, 6), (6, 3), (5, 4)))
    classes = rng.integers(0, 3, 5)

    def trained(device):
        weights = [fg.tensor(w, device=device, requires_grad=True) for w in (first, second)]
        optimizer = fg.optim.SGD(weights, lr=0.1, momentum=0.9)
        for _ in range(2):
            optimizer.zero_grad()
            hidden = F.relu(fg.tensor(x, device=device) @ weights[0])
            F.cross_entropy(hidden @ weights[1], fg.tensor(classes, device=device)).backward()
            optimizer.step()
        return [w.detach().cpu().numpy() for w in weights]

    driver.launched.clear()
    for found, expected in zip(trained("cuda"), trained("cpu"), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    assert {"product", "relu", "log_softmax", "nll_loss", "sgd_step", "threshold_backward"} <= set(
        driver.launched
    )


PROGRAMS = {
    "broadcast": lambda a, b: a * b[0] + b[:, :1],
    "transposed": lambda a, b: a.t() + b.t().contiguous(),
    "strided": lambda a, b: a[::2, 1::3] * 2 - b[1::2, 1::3],
    "both transposed": lambda a, b: a.t() * b.t(),
    "three dimensions": lambda a, b: a.view(5, 2, 13)[:, None] * b.view(5, 2, 13)[:, :, None],
    "in place": lambda a, b: a.clone().mul_(b).add_(b[0]).clamp_(-1, 1),
    "of an offset": lambda a, b: a.view(-1)[1:].exp() + b.view(-1)[:-1].tanh(),
    "compare": lambda a, b: fg.where(a > b, a, b).ne(a),
    "cast": lambda a, b: (a * 10).to(fg.int32).to(fg.float64) / (b * 3).to(fg.int64),
    "fill": lambda a, b: fg.full_like(a, 3) + fg.zeros_like(b),
    "expand": lambda a, b: a[:1].expand(10, 13) + b[:, :1].expand(10, 13),
    "many": lambda a, b: sum(((a * k + b) / (k + 1) for k in range(4)), a),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_programs(driver, program):
    rng = np.random.default_rng(3)
    a, b = (fg.tensor(rng.standard_normal((10, 13)).astype(np.float32)) for _ in range(2))
    expected = program(a, b)
    driver.launched.clear()
    found = program(a.to("cuda"), b.to("cuda"))
    assert found.stride() == expected.stride()
    assert found.dtype is expected.dtype
    np.testing.assert_allclose(found.cpu().numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    assert driver.launched


def test_gradients(driver):
    rng = np.random.default_rng(4)
    arrays = [rng.standard_normal((6, 5)).astype(np.float32) for _ in range(2)]

    def gradients(device):
        a, b = (fg.tensor(x, device=device, requires_grad=True) for x in arrays)
        (
            (a * b[:, :1]).tanh() + a.sigmoid() * b.t().exp().t() - (a @ b.t()).relu().sum(1, keepdim=True)
        ).sum().backward()
        return a.grad.cpu().numpy(), b.grad.cpu().numpy()

    for found, expected in zip(gradients("cuda"), gradients("cpu"), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_many_dimensions(driver):
    """More than a frame has room for: launches for pieces, copies that merge, indices of all dimensions."""
    x = fg.tensor(
        np.random.default_rng(3).integers(-9, 10, (2, 1, 2, 1, 2, 2) * 2 + (2, 1, 2, 2)).astype(np.float32)
    )
    ids = fg.tensor([1, 0])

    def results(x, ids):
        y = x.permute(*reversed(range(16)))
        places = tuple(ids * (size - 1) for size in x.shape)
        return [
            y * 2, y.contiguous(), y.sum((0, 3, 6)), y.amax(2), y.index_select(1, ids), x[places], (y > 0).nonzero(),
            y.gather(0, (y > 0).to(fg.int64)),
        ]  # fmt: skip

    for mine, wanted in zip(results(x.to("cuda"), ids.to("cuda")), results(x, ids), strict=True):
        np.testing.assert_array_equal(mine.cpu().numpy(), wanted.numpy())
