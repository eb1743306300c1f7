"""Strided launches over a very short innermost dimension, whose loop stands behind the next one's."""

from __future__ import annotations

import numpy as np
import pytest

import fastgrad as fg

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("m", [1, 7, 8, 9, 70])
def test_values_and_gradients(m: int, n: int):
    a, b, c = (RNG.standard_normal(sizes) for sizes in ((3, m, n), (m, 1), (n,)))
    x, y, z = (fg.tensor(values, requires_grad=True) for values in (a, b, c))
    np.testing.assert_array_equal((x + y).detach(), a + b)
    np.testing.assert_array_equal((x * z).detach(), a * c)
    np.testing.assert_array_equal((y * z).detach(), b * c)
    np.testing.assert_array_equal(x.detach().permute(1, 2, 0).contiguous(), a.transpose(1, 2, 0))
    np.testing.assert_array_equal(x.detach().permute(2, 1, 0).contiguous(), a.transpose(2, 1, 0))
    wide = fg.tensor(RNG.standard_normal((m, 2 * n)))
    np.testing.assert_array_equal(wide[:, ::2] - wide[:, 1::2], wide.numpy()[:, ::2] - wide.numpy()[:, 1::2])
    wide[:, :n] += z.detach()
    wide[:, n:].copy_(z.detach())
    np.testing.assert_array_equal(wide[:, n:], np.broadcast_to(c, (m, n)))
    (x * y * z).sum().backward()
    np.testing.assert_allclose(x.grad, np.broadcast_to(b * c, a.shape))
    np.testing.assert_allclose(y.grad, (a * c).sum((0, 2))[:, None])
    np.testing.assert_allclose(z.grad, (a * b).sum((0, 1)))


@pytest.mark.parametrize("threads", [1, 3])
def test_large_ones_on_threads(threads: int):
    before = fg.get_num_threads()
    fg.set_num_threads(threads)
    try:
        a = RNG.standard_normal((5, 40000, 3)).astype(np.float32)
        x = fg.tensor(a)
        np.testing.assert_array_equal(x.permute(0, 2, 1).contiguous(), a.transpose(0, 2, 1))
        np.testing.assert_array_equal(x * x[:, :1], a * a[:, :1])
        np.testing.assert_array_equal(x.permute(1, 0, 2) * 2, a.transpose(1, 0, 2) * 2)
    finally:
        fg.set_num_threads(before)


@pytest.mark.parametrize("n", [2, 3])
def test_fusion_sees_them_as_others(n: int):
    def launches(size: int) -> list[int]:
        run = fg.compile(lambda x, y, z: ((x * z + y).tanh() - y).sum(1))
        for _ in range(3):
            run(fg.ones(50, size), fg.ones(50, 1), fg.ones(size))
        (signature,) = fg.compile.explain(run).signatures
        assert signature.fused[0].before > signature.launches[0]
        return signature.launches

    assert launches(n) == launches(5)
