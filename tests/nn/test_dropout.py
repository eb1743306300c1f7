"""Dropout: which elements stay, how many, and that the seed decides."""

from __future__ import annotations

import numpy as np
import pytest

import fastgrad as fg


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 3, 255, 256, 257, 1000, 70_001])
def test_elements_are_scaled_or_zero(lib, dtype: str, size: int):
    x = lib.arange(1, size + 1).to(getattr(lib, dtype)).requires_grad_()
    y = lib.nn.functional.dropout(x, 0.25)
    kept = y.detach().numpy() != 0
    np.testing.assert_allclose(y.detach().numpy()[kept], x.detach().numpy()[kept] / 0.75, rtol=1e-6)
    (g,) = lib.autograd.grad(y.sum(), x)
    np.testing.assert_allclose(g.numpy(), kept / 0.75, rtol=1e-6)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_so_many_stay(lib, p: float):
    n = 200_000
    kept = int((lib.nn.functional.dropout(lib.ones(n), p) != 0).sum())
    assert abs(kept - n * (1 - p)) < 5 * np.sqrt(n * p * (1 - p))


def test_neighbours_are_independent(lib):
    kept = (lib.nn.functional.dropout(lib.ones(100_000), 0.5) != 0).numpy().astype(np.float64) - 0.5
    for lag in (1, 2, 3, 4, 256):
        assert abs(np.mean(kept[lag:] * kept[:-lag])) < 5 * 0.25 / np.sqrt(len(kept))


def test_the_seed_decides(lib):
    def draw() -> list[float]:
        return lib.nn.functional.dropout(lib.ones(1000), 0.5).tolist()

    lib.manual_seed(1)
    first, second = draw(), draw()
    lib.manual_seed(1)
    assert draw() == first
    assert draw() == second
    assert first != second


def test_the_mask_is_that_of_the_dtype():
    masks = []
    for dtype in (fg.float32, fg.float64):
        fg.manual_seed(2)
        masks.append((fg.nn.functional.dropout(fg.ones(500, dtype=dtype), 0.5) != 0).tolist())
    assert masks[0] == masks[1]


def test_derivatives_of_any_order(lib):
    x = lib.randn(50).requires_grad_()
    y = lib.nn.functional.dropout(x, 0.5)
    (g,) = lib.autograd.grad((y * y).sum(), x, create_graph=True)
    (h,) = lib.autograd.grad(g.sum(), x)
    assert lib.equal(h, (y.detach() != 0).to(lib.float32) * 8)


@pytest.mark.parametrize(
    ("name", "sizes", "leading"),
    [("dropout1d", (4, 8, 5), 2), ("dropout1d", (8, 5), 1), ("dropout2d", (4, 8, 3, 2), 2)],
)
def test_channels_go_as_a_whole(lib, name: str, sizes: tuple[int, ...], leading: int):
    y = getattr(lib.nn.functional, name)(lib.ones(*sizes), 0.5).numpy()
    places = y.reshape(int(np.prod(sizes[:leading])), -1)
    assert set(places[:, 0]) == {0.0, 2.0}
    assert (places == places[:, :1]).all()


def test_in_place(lib):
    x = lib.ones(100)
    assert lib.nn.functional.dropout(x, 0.5, inplace=True) is x
    assert set(x.tolist()) == {0.0, 2.0}


def test_without_training_nothing_happens(lib):
    x = lib.ones(3)
    assert lib.nn.functional.dropout(x, 0.5, training=False) is x
    layer = lib.nn.Dropout(0.5)
    assert layer.eval()(x) is x
    assert set(layer.train()(lib.ones(100)).tolist()) == {0.0, 2.0}


def test_ranks(lib):
    with pytest.raises(RuntimeError, match="at least 2 dimensions"), pytest.warns(UserWarning, match="1-D"):
        lib.nn.functional.dropout2d(lib.ones(4))
    with pytest.raises(RuntimeError, match="2D or 3D"):
        lib.nn.functional.dropout1d(lib.ones(4))
    with pytest.warns(UserWarning, match="3D input"):
        lib.nn.functional.dropout2d(lib.ones(2, 3, 4))


@pytest.mark.parametrize("inplace", [False, True])
def test_alpha_dropout_keeps_mean_and_variance(lib, inplace: bool):
    lib.manual_seed(0)
    x = lib.randn(100000, dtype=lib.float64).requires_grad_()
    y = lib.nn.functional.alpha_dropout(x * 1, 0.3, training=True, inplace=inplace)
    assert abs(float(y.detach().mean())) < 0.02
    assert abs(float(y.detach().std()) - 1) < 0.02
    y.sum().backward()
    assert abs(float((x.grad == 0).double().mean()) - 0.3) < 0.01


def test_channels_drop_as_a_whole(lib):
    lib.manual_seed(0)
    F = lib.nn.functional  # noqa: N806
    x = lib.ones(50, 4, 2, 3, 2)
    for y in (
        F.dropout3d(x, 0.5),
        F.dropout3d(x[0], 0.5).unsqueeze(0),
        F.feature_alpha_dropout(x, 0.5, training=True),
    ):
        flat = y.reshape(y.shape[0] * 4, -1)
        assert lib.equal(flat, flat[:, :1].expand(flat.shape))
    assert len(set(F.dropout3d(x, 0.5)[:, :, 0, 0, 0].reshape(-1).tolist())) == 2
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        F.feature_alpha_dropout(lib.ones(3), 0.5, training=True)
