"""Functions that PyTorch's layers are made of: results and gradients beside PyTorch's, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastgrad as fg


def line(lib: Any, x: Any) -> Any:
    return lib.linspace(-1, 1, 12, dtype=x.dtype)


CASES: dict[str, tuple[tuple[int, ...], Any]] = {
    "constant_pad_nd": ((2, 3), lambda lib, x: lib.constant_pad_nd(x, (1, -1, 0, 2), 3.0)),
    "grid_sampler_2d": (
        (1, 2, 3, 4),
        lambda lib, x: lib.grid_sampler_2d(x, line(lib, x).reshape(1, 2, 3, 2), 2, 1, False),
    ),
    "grid_sampler_3d": (
        (1, 1, 2, 3, 4),
        lambda lib, x: lib.grid_sampler_3d(x, line(lib, x).reshape(1, 1, 2, 2, 3), 0, 2, True),
    ),
    "native_layer_norm": (
        (2, 3, 4), lambda lib, x: lib.native_layer_norm(x, (3, 4), lib.ones(3, 4, dtype=x.dtype) * 2, None, 1e-5)
    ),
    "native_group_norm": ((2, 4, 3), lambda lib, x: lib.native_group_norm(x, None, None, 2, 4, 3, 2, 1e-5)),
    "native_batch_norm": (
        (2, 3, 4),
        lambda lib, x: lib.native_batch_norm(x, lib.ones(3, dtype=x.dtype), None, None, None, True, 0.1, 1e-5),
    ),
    "native_batch_norm, fixed": (
        (2, 3), lambda lib, x: lib.native_batch_norm(
            x, None, None, lib.zeros(3, dtype=x.dtype), lib.ones(3, dtype=x.dtype), False, 0.1, 1e-5
        )
    ),
    "kl_div": ((3, 4), lambda lib, x: lib.kl_div(x, line(lib, x).reshape(3, 4), 2, log_target=True)),
    "kl_div, mean": ((3, 4), lambda lib, x: lib.kl_div(x, line(lib, x).reshape(3, 4).exp(), 1)),
    "cosine_embedding_loss": (
        (3, 4), lambda lib, x: lib.cosine_embedding_loss(x, line(lib, x).reshape(3, 4), lib.tensor([1, -1, 1]), 0.1, 0)
    ),
    "margin_ranking_loss": (
        (3, 4), lambda lib, x: lib.margin_ranking_loss(x, line(lib, x).reshape(3, 4), lib.ones(3, 4), 0.5, 2)
    ),
    "triplet_margin_loss": (
        (3, 4), lambda lib, x: lib.triplet_margin_loss(x, line(lib, x).reshape(3, 4), x * 2, 0.5, 1, 1e-4, True, 0)
    ),
    "hinge_embedding_loss": ((4,), lambda lib, x: lib.hinge_embedding_loss(x, lib.tensor([1, -1, 1, -1]), 2.0)),
    "poisson_nll_loss": (
        (3, 4), lambda lib, x: lib.poisson_nll_loss(x, line(lib, x).reshape(3, 4) + 3, True, True, 1e-6, 1)
    ),
    "binary_cross_entropy_with_logits": (
        (3, 4), lambda lib, x: lib.binary_cross_entropy_with_logits(
            x, lib.ones(3, 4, dtype=x.dtype) / 4, None, lib.ones(4, dtype=x.dtype) * 3, 2
        )
    ),
    "ctc_loss": (
        (5, 2, 3), lambda lib, x: lib.ctc_loss(
            x.log_softmax(-1), lib.tensor([[1, 2], [2, 1]]), lib.tensor([5, 4]), lib.tensor([2, 1]), 0, 2
        )
    ),
    "batch_norm": (
        (2, 3, 4), lambda lib, x: lib.batch_norm(
            x, lib.ones(3, dtype=x.dtype) * 2, lib.ones(3, dtype=x.dtype), None, None, True, 0.1, 1e-5, True
        )
    ),
    "instance_norm": (
        (2, 3, 4), lambda lib, x: lib.instance_norm(
            x, lib.ones(3, dtype=x.dtype) * 2, None, None, None, True, 0.1, 1e-5, False
        )
    ),
    "without a number": (
        (3, 4), lambda lib, x: (
            lib.kl_div(x, line(lib, x).reshape(3, 4).exp()).sum(0)
            + lib.cosine_embedding_loss(x, x * 2 + 1, lib.ones(3)).sum()
            + lib.margin_ranking_loss(x, x * 2, lib.ones(3, 4)).sum(0)
            + lib.triplet_margin_loss(x, x + 1, x * 2).sum()
            + lib.binary_cross_entropy_with_logits(x, lib.ones(3, 4, dtype=x.dtype)).sum(0)
        )
    ),
    "embedding": ((3, 4), lambda lib, x: lib.embedding(x, lib.tensor([[2, 0], [2, 1]]), 0, True)),
    "embedding, all": ((3, 4), lambda lib, x: lib.embedding(x, lib.tensor([2, 0]))),
    "dropout": ((3, 4), lambda lib, x: lib.dropout(x, 0.5, False)),
    "feature_dropout": (
        (3, 4, 2), lambda lib, x: lib.feature_dropout(x, 1.0, True) + lib.feature_dropout(x, 0.5, False)
    ),
}  # fmt: skip
WRONG: dict[str, tuple[type[Exception], Any]] = {
    "no tensor": (TypeError, lambda lib: lib.constant_pad_nd(None, (1, 1))),
    "rank": (RuntimeError, lambda lib: lib.grid_sampler_2d(lib.ones(2, 2), lib.ones(1, 1, 1, 2), 0, 0, True)),
    "elements": (
        RuntimeError,
        lambda lib: lib.native_group_norm(lib.ones(2, 4), None, None, 2, 4, 2, 2, 0.0),
    ),
    "reduction": (TypeError, lambda lib: lib.kl_div(lib.ones(2), lib.ones(2), "mean")),
    "one dimension": (RuntimeError, lambda lib: lib.feature_dropout(lib.ones(2), 0.5, True)),
    "no reduction": (
        TypeError,
        lambda lib: lib.poisson_nll_loss(lib.ones(2), lib.ones(2), True, False, 1e-8),
    ),
    "eps": (TypeError, lambda lib: lib.native_layer_norm(lib.ones(2), (2,), None, None, None)),
}


@pytest.mark.parity
@pytest.mark.parametrize("case", CASES)
def test_results_and_gradients(case):
    torch = pytest.importorskip("torch")
    shape, call = CASES[case]
    values = np.random.default_rng(0).standard_normal(shape)
    found = []
    for lib in (fg, torch):
        x = lib.tensor(values).requires_grad_()
        results = call(lib, x)
        results = results if isinstance(results, tuple) else (results,)
        sum((r * r).sum() for r in results if r.requires_grad).backward()
        found.append([*(r.detach().numpy() for r in results), x.grad.numpy()])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("name", ["fastgrad", pytest.param("torch", marks=pytest.mark.parity)])
def test_errors(name, case):
    kind, call = WRONG[case]
    with pytest.raises(kind):
        call(fg if name == "fastgrad" else pytest.importorskip(name))


# --- fastgrad.ops.aten -----------------------------------------------------------------------------------------


def aten(lib: Any) -> Any:
    return lib.ops.aten


@pytest.mark.parity
@pytest.mark.parametrize(
    "settings", [(2, 2, 0, 1, False), ((3, 2), (2, 1), (1, 0), (1, 2), True), (2, [], 0, 1, False)]
)
@pytest.mark.parametrize("shape", [(2, 3, 6, 7), (3, 6, 7)])
def test_gradient_of_max_pool(settings: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    image = np.random.default_rng(5).normal(size=shape)
    found = []
    for lib in (fg, torch):
        x = lib.tensor(image).requires_grad_()
        kernel, stride, padding, dilation, ceil = settings
        out, where = lib.nn.functional.max_pool2d_with_indices(
            x, kernel, None if stride == [] else stride, padding, dilation, ceil
        )
        g = lib.linspace(1, 2, out.numel(), dtype=x.dtype).reshape(out.shape).requires_grad_()
        back = aten(lib).max_pool2d_with_indices_backward.default(g, x, *settings, where)
        gradients = lib.autograd.grad((back * x.detach()).sum(), (g, x), allow_unused=True)
        found.append((back.detach().numpy(), *(0 if t is None else t.numpy() for t in gradients)))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs)


def test_gradient_of_max_pool_refusals() -> None:
    x = fg.ones(1, 1, 4, 4)
    back = aten(fg).max_pool2d_with_indices_backward
    where = fg.zeros(1, 1, 2, 2, dtype=fg.int64)
    for g, indices, error, text in (
        (fg.ones(1, 1, 2, 3), where, RuntimeError, "sizes"),
        (fg.ones(1, 1, 2, 2), where[0], RuntimeError, "sizes"),
        (fg.ones(1, 1, 2, 2), where + 16, IndexError, "beyond"),
        (fg.ones(1, 1, 2, 2), where - 1, IndexError, "beyond"),
        (fg.ones(1, 1, 2, 2).double(), where, RuntimeError, "dtype"),
        (fg.ones(1, 1, 2, 2), where.int(), RuntimeError, "int64"),
        (None, where, TypeError, "grad_output"),
    ):
        with pytest.raises(error, match=text):
            back(g, x, 2, 2, 0, 1, False, indices)


@pytest.mark.parity
def test_gradient_of_dropout() -> None:
    torch = pytest.importorskip("torch")
    found = []
    for lib in (fg, torch):
        g = lib.linspace(-1, 1, 6).requires_grad_()
        mask = lib.tensor([True, False, True, True, False, True])
        out = aten(lib).native_dropout_backward(g, mask, 1.25)
        out.sum().backward()
        found.append((out.detach().numpy(), g.grad.numpy()))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs)
    with pytest.raises(TypeError, match="'mask'"):
        aten(fg).native_dropout_backward(fg.ones(2), None, 1.0)


@pytest.mark.parity
@pytest.mark.parametrize(
    "bounds", [(), (1,), (1, 1), (0, -3, -1), (1, 1, None, 2), (0, 5, 2), (-1, -100, 100, 3)]
)
def test_slices(bounds: tuple[Any, ...]) -> None:
    torch = pytest.importorskip("torch")
    found = [aten(lib).slice.Tensor(lib.arange(24).reshape(4, 6), *bounds) for lib in (fg, torch)]
    assert found[0].tolist() == found[1].tolist()
    x = fg.arange(24).reshape(4, 6)
    aten(fg).slice(x, *bounds).fill_(-1)
    assert (x == -1).sum().item() == found[0].numel()


def test_slice_refusals() -> None:
    for bounds, error, text in (
        ((2,), IndexError, "out of range"),
        ((0, 0, 1, 0), RuntimeError, "positive"),
        ((0, 0, 1, -1), RuntimeError, "positive"),
        ((0, 0.5), TypeError, "start"),
    ):
        with pytest.raises(error, match=text):
            aten(fg).slice(fg.ones(2, 3), *bounds)
    with pytest.raises(IndexError):
        aten(fg).slice(fg.ones(()))
    with pytest.raises(AttributeError, match="no op of this name"):
        _ = aten(fg).convolution


def test_channels_are_dropped_whole():
    fg.manual_seed(0)
    y = fg.feature_dropout(fg.ones(20, 30, 4), 0.25, True)
    assert set(y.unique().tolist()) == {0.0, fg.tensor(4 / 3).item()}
    assert (y == y[..., :1]).all()
    with pytest.raises(
        ValueError, match=r"kl_div\(\): reduction must be 0 \(none\), 1 \(mean\) or 2 \(sum\), but got 3"
    ):
        fg.kl_div(fg.ones(2), fg.ones(2), 3)
