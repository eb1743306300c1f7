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
}  # fmt: skip
WRONG: dict[str, tuple[type[Exception], Any]] = {
    "no tensor": (TypeError, lambda lib: lib.constant_pad_nd(None, (1, 1))),
    "rank": (RuntimeError, lambda lib: lib.grid_sampler_2d(lib.ones(2, 2), lib.ones(1, 1, 1, 2), 0, 0, True)),
    "elements": (
        RuntimeError,
        lambda lib: lib.native_group_norm(lib.ones(2, 4), None, None, 2, 4, 2, 2, 0.0),
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
