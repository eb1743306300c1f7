"""Sampling, bags, fractional pooling, the adaptive softmax and others: against torch, and what they refuse."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.nn.functional as F

rng = np.random.default_rng(0)


def results(lib: Any, call: Any, arrays: Any) -> list[np.ndarray]:
    """What a call gives and the gradients of its operands."""
    leaves = [lib.tensor(a, requires_grad=True) for a in arrays]
    out = call(lib, lib.nn.functional, *leaves)
    found = list(out) if isinstance(out, (tuple, list)) else [out]
    first = found[0]
    weights = lib.arange(1.0, first.numel() + 1, dtype=lib.float64).reshape(first.shape)
    gradients = lib.autograd.grad(first, leaves, weights)
    return [t.detach().numpy() for t in (*found, *gradients)]


def compare(torch: Any, call: Any, *arrays: np.ndarray) -> None:
    for ours, theirs in zip(results(fg, call, arrays), results(torch, call, arrays), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)


# --- sampling -------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
def test_affine_grids():
    turn = fg.tensor([[[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]]], dtype=fg.float64)
    x = fg.arange(9.0, dtype=fg.float64).reshape(1, 1, 3, 3)
    for corners in (False, True):
        found = F.grid_sample(x, F.affine_grid(turn, (1, 1, 3, 3), corners), align_corners=corners)
        np.testing.assert_allclose(found[0, 0].numpy(), np.rot90(x[0, 0].numpy()), atol=1e-12)
    with pytest.warns(UserWarning, match="align_corners"):
        F.affine_grid(turn, (1, 1, 2, 2))
    for bad, size, error in (
        (turn, (1, 1, 2), NotImplementedError), (turn, (1, 1, 2, 0), ValueError), (turn, (2, 1, 2, 2), RuntimeError),
        (turn[0], (1, 1, 2, 2), ValueError), (turn, (1, 1, 2, 2, 2), ValueError),
        (turn.long(), (1, 1, 2, 2), ValueError),
    ):  # fmt: skip
        with pytest.raises(error, match="affine_grid"):
            F.affine_grid(bad, size, False)


def test_gradients_of_a_transformer():
    x = fg.tensor(rng.standard_normal((1, 2, 4, 3)), requires_grad=True)
    theta = fg.tensor(rng.standard_normal((1, 2, 3)) * 0.4, requires_grad=True)
    for mode, padding in (("bilinear", "border"), ("bicubic", "zeros")):

        def warped(x: Any, theta: Any, mode: str = mode, padding: str = padding) -> Any:
            return F.grid_sample(x, F.affine_grid(theta, (1, 2, 3, 3), False), mode, padding, False)

        assert fg.autograd.gradcheck(warped, (x, theta))
        assert fg.autograd.gradgradcheck(warped, (x, theta))


def test_third_derivatives_are_refused():
    x = fg.tensor(rng.standard_normal((1, 1, 3, 3)))
    grid = fg.tensor(rng.uniform(-0.9, 0.9, (1, 1, 2, 2)), requires_grad=True)
    g = F.grid_sample(x, grid, align_corners=True).pow(2).sum()
    for _ in range(2):
        (g,) = fg.autograd.grad(g, grid, create_graph=True)
        g = g.pow(2).sum()
    with pytest.raises(NotImplementedError, match="third order"):
        fg.autograd.grad(g, grid)


def test_places_that_are_no_numbers():
    x = fg.ones(1, 1, 3, 3)
    grid = fg.tensor([[[[float("nan"), 0.0], [float("inf"), 0.0], [1e30, -1e30]]]], requires_grad=True)
    for mode, padding, corners in itertools.product(
        ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (False, True)
    ):
        out = F.grid_sample(x, grid, mode, padding, corners)
        out.sum().backward()
        if mode != "bicubic" and padding != "zeros":
            assert out.flatten().tolist() == [1.0, 1.0, 1.0]


def test_many_places_and_channels():
    x, grid = rng.standard_normal((2, 5, 9, 7)), rng.uniform(-1.2, 1.2, (2, 50, 40, 2))
    whole = F.grid_sample(fg.tensor(x), fg.tensor(grid), align_corners=False).numpy()
    for k in (0, 17, 49):
        row = F.grid_sample(fg.tensor(x), fg.tensor(grid[:, k : k + 1]), align_corners=False).numpy()
        np.testing.assert_allclose(whole[:, :, k : k + 1], row, rtol=1e-13, atol=1e-13)


@pytest.mark.parity
def test_samples_as_in_pytorch():
    torch = pytest.importorskip("torch")
    shapes = (((2, 3, 5, 7), (2, 6, 11, 2)), ((2, 3, 4, 5, 6), (2, 3, 4, 5, 3)))
    for (image, grid), mode, padding, corners in itertools.product(
        shapes, ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (False, True)
    ):
        if mode == "bicubic" and len(image) == 5:
            continue
        settings = (mode, padding, corners)
        compare(
            torch, lambda lib, f, x, g, settings=settings: f.grid_sample(x, g, *settings),
            rng.standard_normal(image), rng.uniform(-1.8, 1.8, grid),
        )  # fmt: skip
    for size in ((2, 1, 3, 4), (2, 1, 3, 2, 4)):
        theta = rng.standard_normal((2, len(size) - 2, len(size) - 1))
        for corners in (False, True):
            compare(
                torch, lambda lib, f, t, size=size, corners=corners: f.affine_grid(t, size, corners), theta
            )


# --- bags -----------------------------------------------------------------------------------------------


def test_gradients_by_frequency():
    index, table = np.array([0, 3, 1, 1, 3, 3]), rng.standard_normal((5, 2))
    weight = fg.tensor(table, requires_grad=True)
    out = F.embedding_bag(fg.tensor(index), weight, fg.tensor([0, 2]), mode="sum", scale_grad_by_freq=True)
    np.testing.assert_allclose(out.detach().numpy(), [table[index[:2]].sum(0), table[index[2:]].sum(0)])
    (g,) = fg.autograd.grad(
        out, weight, fg.tensor([[1.0, 2.0], [10.0, 20.0]], dtype=fg.float64), create_graph=True
    )
    counts = np.array([1, 2, 1, 3, 1])[:, None]
    wanted = np.array([[1, 2], [20, 40], [0, 0], [21, 42], [0, 0]]) / counts
    np.testing.assert_allclose(g.detach().numpy(), wanted)


def test_offsets_that_go_back():
    index = fg.tensor([0, 1, 2, 1, 0])
    for offsets in ([0, 3, 2], [0, -1, 2]):
        for mode in ("sum", "mean", "max"):
            with pytest.raises(RuntimeError, match="out of range"):
                F.embedding_bag(index, fg.ones(3, 2), fg.tensor(offsets), mode=mode)


def test_long_rows_come_shortened():
    layer = fg.nn.EmbeddingBag(4, 3, max_norm=1.0, mode="sum", padding_idx=-1)
    assert layer.weight[3].tolist() == [0.0, 0.0, 0.0]
    layer(fg.tensor([[0, 1]]))
    assert float(layer.weight[:2].norm(2, 1).max()) <= 1.0 + 1e-6
    assert repr(layer) == "EmbeddingBag(4, 3, max_norm=1.0, mode='sum', padding_idx=3)"
    frozen = fg.nn.EmbeddingBag.from_pretrained(fg.ones(3, 2))
    assert not frozen.weight.requires_grad
    with pytest.raises(NotImplementedError, match="sparse"):
        fg.nn.EmbeddingBag(3, 2, sparse=True)


@pytest.mark.parity
def test_bags_as_in_pytorch():
    torch = pytest.importorskip("torch")
    index, offsets = np.array([0, 3, 1, 1, 5, 2, 3, 4]), np.array([0, 3, 3, 8])
    table, factors = rng.standard_normal((6, 4)), rng.standard_normal(8)
    for mode, padding, last in itertools.product(("sum", "mean", "max"), (None, 1, -3), (False, True)):
        settings = {"mode": mode, "padding_idx": padding, "include_last_offset": last}

        def call(lib: Any, f: Any, w: Any, settings: Any = settings) -> Any:
            return f.embedding_bag(lib.tensor(index), w, lib.tensor(offsets), **settings)

        compare(torch, call, table)
    compare(
        torch,
        lambda lib, f, w, s: f.embedding_bag(
            lib.tensor(index.reshape(2, 4)), w, mode="sum", per_sample_weights=s, padding_idx=1
        ),
        table, factors.reshape(2, 4),
    )  # fmt: skip


# --- fractional pooling ---------------------------------------------------------------------------------


def test_fractional_windows():
    x = fg.tensor(rng.standard_normal((2, 3, 7, 6)), requires_grad=True)
    out, places = F.fractional_max_pool2d(x, (2, 3), output_ratio=(0.5, 0.5), return_indices=True)
    assert out.shape == places.shape == (2, 3, 3, 3)
    picked = x.detach().reshape(2, 3, -1).gather(2, places.reshape(2, 3, -1)).reshape(out.shape)
    assert picked.tolist() == out.tolist()
    samples = fg.rand(2, 3, 2, dtype=fg.float64)
    assert fg.autograd.gradcheck(lambda x: F.fractional_max_pool2d(x, 2, 4, _random_samples=samples), x)
    with pytest.raises(ValueError, match="output_size"):
        F.fractional_max_pool2d(x, 2)
    with pytest.raises(RuntimeError, match="too large"):
        F.fractional_max_pool2d(x, 4, 4)
    with pytest.raises(RuntimeError, match="_random_samples"):
        F.fractional_max_pool2d(x, 2, 2, _random_samples=samples[:1])
    with pytest.raises(RuntimeError, match="non-zero"):
        F.fractional_max_pool3d(x[0, 0], 2, 2)
    with pytest.raises(ValueError, match="between 0 and 1"):
        fg.nn.FractionalMaxPool2d(2, output_ratio=1.5)
    with pytest.raises(ValueError, match="only one"):
        fg.nn.FractionalMaxPool3d(2, 2, 0.5)


@pytest.mark.parity
def test_fractional_windows_as_in_pytorch():
    torch = pytest.importorskip("torch")
    x, v = rng.standard_normal((2, 3, 9, 8)), rng.standard_normal((2, 2, 6, 7, 5))
    u, w = rng.random((2, 3, 2)), rng.random((2, 2, 3))
    for k, size in ((2, (4, 3)), ((3, 2), (7, 1)), (1, (9, 8))):
        compare(
            torch,
            lambda lib, f, x, k=k, size=size: f.fractional_max_pool2d(x, k, size, None, True, lib.tensor(u)),
            x,
        )
    for k, size in ((2, (4, 3, 2)), ((3, 2, 1), (1, 5, 3))):
        compare(
            torch,
            lambda lib, f, x, k=k, size=size: f.fractional_max_pool3d(x, k, size, None, True, lib.tensor(w)),
            v,
        )
    compare(
        torch, lambda lib, f, x: lib.nn.FractionalMaxPool2d(2, 4, _random_samples=lib.tensor(u[:1]))(x), x[0]
    )


# --- others ---------------------------------------------------------------------------------------------


def test_adaptive_softmax():
    layer = fg.nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], div_value=2.0, head_bias=True, dtype=fg.float64)
    x, target = fg.tensor(rng.standard_normal((6, 8))), fg.tensor([0, 2, 3, 6, 7, 11])
    whole = layer.log_prob(x)
    np.testing.assert_allclose(whole.exp().sum(1).detach().numpy(), np.ones(6))
    output, loss = layer(x, target)
    np.testing.assert_allclose(output.tolist(), whole.gather(1, target.unsqueeze(1)).squeeze(1).tolist())
    assert float(loss) == pytest.approx(-float(output.mean()))
    assert layer.predict(x).tolist() == whole.argmax(1).tolist()
    assert layer(x[0], target[0]).output.shape == ()
    loss.backward()
    assert all(p.grad is not None for p in layer.parameters())
    for cutoffs in ([], [3, 3], [0], [12], [5, 2]):
        with pytest.raises(ValueError, match="cutoffs"):
            fg.nn.AdaptiveLogSoftmaxWithLoss(8, 12, cutoffs)
    for bad in (target + 1, target[:2], target.unsqueeze(1), target[0]):
        with pytest.raises(RuntimeError, match="AdaptiveLogSoftmaxWithLoss"):
            layer(x, bad)


@pytest.mark.parity
def test_other_layers_as_in_pytorch():
    torch = pytest.importorskip("torch")
    layers = [lib.nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], 2.0, dtype=lib.float64) for lib in (fg, torch)]
    state = {name: value.detach().numpy() for name, value in layers[1].state_dict().items()}
    layers[0].load_state_dict({name: fg.tensor(value) for name, value in state.items()})
    x, target = rng.standard_normal((6, 8)), np.array([0, 2, 3, 6, 7, 11])
    ours, theirs = (
        layer(lib.tensor(x), lib.tensor(target)) for lib, layer in zip((fg, torch), layers, strict=True)
    )
    np.testing.assert_allclose(ours.output.detach().numpy(), theirs.output.detach().numpy())
    np.testing.assert_allclose(ours.loss.item(), theirs.loss.item())
    compare(
        torch, lambda lib, f, x, w, b: f.conv_tbc(x, w, b, 1), rng.standard_normal((5, 2, 3)),
        rng.standard_normal((3, 3, 4)), rng.standard_normal(4),
    )  # fmt: skip
    for p in (0.5, 1.0, 2.0, 3.0, float("inf")):
        compare(torch, lambda lib, f, x, p=p: f.pdist(x, p), rng.standard_normal((5, 3)))
