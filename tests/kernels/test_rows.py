"""Rows that lie side by side, sums for weights and the gradient of the likelihood, on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.nn.functional as F

# Around the edges of a tile of 64 columns, of the least number of them, and of eight rows and a block of 512.
SIZES = [
    ((3, 7, 64), 1), ((2, 9, 63), 1), ((2, 33, 65), 1), ((8, 15), 0), ((9, 16), 0), ((1, 600, 130), 1), ((3, 1, 70), 1),
    ((3, 0, 70), 1), ((0, 3, 70), 1), ((2, 1030, 3), 1), ((4, 3, 5, 40), 1), ((700, 200), 0),
]  # fmt: skip
OPS = ["softmax", "log_softmax", "logsumexp"]


def operand(shape, dtype, special=False):
    x = np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)
    if special and x.size:
        x.flat[::97], x.flat[5::131], x.flat[3::41] = np.nan, np.inf, -np.inf
        x[:, ..., 1] = -np.inf
    return x


def with_gradient(function, *arrays):
    """The result and the gradients of the floating operands, as arrays."""
    operands = [fg.from_numpy(a.copy()) for a in arrays]
    floating = [t for t in operands if t.is_floating_point()]
    for t in floating:
        t.requires_grad_(True)
    out = function(*operands)
    weights = np.random.default_rng(1).standard_normal(tuple(out.shape)).astype(arrays[0].dtype)
    out.backward(fg.from_numpy(np.asarray(weights)))
    return [out.detach().numpy(), *(t.grad.numpy() for t in floating)]


def expected(op, x, dim):
    x = x.astype(np.float64)
    largest = np.max(x, axis=dim, keepdims=True, initial=-np.inf)
    with np.errstate(all="ignore"):
        if op == "logsumexp":
            largest = np.where(np.isinf(largest), 0, largest)
            return np.squeeze(largest + np.log(np.exp(x - largest).sum(dim, keepdims=True)), dim)
        e = np.exp(x - largest)
        total = e.sum(dim, keepdims=True)
        return e / total if op == "softmax" else x - largest - np.log(total)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("special", [False, True])
def test_any_dimension(op, dtype, special):
    for shape, dim in SIZES:
        x = operand(shape, dtype, special)
        out = getattr(fg, op)(fg.from_numpy(x), dim).numpy()
        close = 1e-5 if dtype == np.float32 else 1e-12
        np.testing.assert_allclose(out, expected(op, x, dim), close, close, err_msg=str((shape, dim)))


@pytest.mark.parity
@pytest.mark.parametrize("op", OPS)
def test_gradients_as_in_torch(op):
    torch = pytest.importorskip("torch")
    for shape, dim in SIZES:
        x = operand(shape, np.float64)
        ours = with_gradient(lambda t: getattr(fg, op)(t, dim), x)  # noqa: B023
        t = torch.from_numpy(x.copy()).requires_grad_(True)
        out = getattr(torch, op)(t, dim)
        out.backward(torch.from_numpy(np.asarray(np.random.default_rng(1).standard_normal(tuple(out.shape)))))
        for mine, theirs in zip(ours, (out.detach(), t.grad), strict=True):
            np.testing.assert_allclose(mine, theirs.numpy(), 1e-10, 1e-12, err_msg=str((shape, dim)))


def norms(dtype):
    """Normalisations whose channels or groups are divided, with their operands."""
    for n, c in ((300, 1100), (70, 1537), (1027, 64), (5, 3)):
        x, w, b = operand((n, c), dtype), operand((c,), dtype), operand((c,), dtype)
        yield lambda x, w, b: F.layer_norm(x, w.shape, w, b), x, w, b
        yield lambda x, w: F.rms_norm(x, w.shape, w), x, w
        yield lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), x, w, b
    for shape in ((16, 64, 28, 28), (4, 12, 5, 7), (700, 8, 1, 16)):
        x, w, b = operand(shape, dtype), operand(shape[1:2], dtype), operand(shape[1:2], dtype)
        yield lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), x, w, b
        yield lambda x, w, b: F.group_norm(x, 4, w, b), x, w, b
        yield lambda x, w, b: F.group_norm(x, 1, w, b), x, w, b


def losses():
    for shape in ((700, 300), (5, 3), (40, 20, 33, 17)):
        targets = np.random.default_rng(2).integers(0, shape[1], (shape[0], *shape[2:]))
        targets.flat[1] = -100
        for reduction in "mean", "sum", "none":
            yield (
                lambda x, y, r=reduction: F.cross_entropy(x, y, reduction=r),
                operand(shape, np.float32),
                targets,
            )


def test_the_same_on_any_number_of_threads():
    before = fg.get_num_threads()
    rows = [
        (lambda t, op=op, dim=dim: getattr(fg, op)(t, dim), operand(shape, np.float32))
        for op in OPS
        for shape, dim in (((1, 600, 1300), 1), ((700, 200), 0), ((64, 32, 256), 1))
    ]
    try:
        for function, *arrays in (*rows, *norms(np.float32), *losses()):
            found = []
            for threads in 1, 2, 5:
                fg.set_num_threads(threads)
                found.append([r.tobytes() for r in with_gradient(function, *arrays)])
            assert found[0] == found[1] == found[2]
    finally:
        fg.set_num_threads(before)


@pytest.mark.parity
def test_normalisations_and_losses_as_in_torch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(4)
    x, w, b = rng.standard_normal((130, 1100)), rng.standard_normal(1100), rng.standard_normal(1100)
    images, targets = rng.standard_normal((9, 20, 33, 17)), rng.integers(0, 20, (9, 33, 17))
    v, u = rng.standard_normal(20), rng.standard_normal(20)
    cases = [
        (lambda f, x, w, b: f.layer_norm(x, (1100,), w, b), x, w, b),
        (lambda f, x, w: f.rms_norm(x, (1100,), w), x, w),
        (lambda f, x, w, b: f.batch_norm(x, None, None, w, b, training=True), x, w, b),
        (lambda f, x, w, b: f.batch_norm(x, None, None, w, b, training=True), images, v, u),
        (lambda f, x, w, b: f.group_norm(x, 5, w, b), images, v, u),
        (lambda f, x, y: f.cross_entropy(x, y, reduction="none"), images, targets),
    ]
    for function, *arrays in cases:
        ours = with_gradient(lambda *ts, f=function: f(F, *ts), *arrays)
        ts = [torch.from_numpy(a.copy()) for a in arrays]
        floating = [t.requires_grad_(True) for t in ts if t.is_floating_point()]
        out = function(torch.nn.functional, *ts)
        out.backward(torch.from_numpy(np.random.default_rng(1).standard_normal(tuple(out.shape))))
        for mine, theirs in zip(ours, (out.detach(), *(t.grad for t in floating)), strict=True):
            np.testing.assert_allclose(mine, theirs.numpy(), 1e-9, 1e-9)
