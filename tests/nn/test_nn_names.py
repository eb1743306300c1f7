"""Smaller names of `nn`, on both libraries."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fastgrad as fg


@pytest.mark.parity
def test_all_layers_are_there():
    torch = pytest.importorskip("torch")
    classes = {n for n in dir(torch.nn) if isinstance(getattr(torch.nn, n), type)}
    assert not {n for n in classes if not hasattr(fg.nn, n)}
    for name in ("Transformer", "LazyLinear", "LazyConv2d", "LazyBatchNorm1d", "TransformerDecoder"):
        ours, theirs = getattr(fg.nn, name), getattr(torch.nn, name)
        missing = {n for n in vars(theirs) if not n.startswith("_") and not hasattr(ours, n)}
        assert missing <= {"activation_relu_or_gelu"}, name


def test_deprecated_classes(lib: ModuleType):
    with pytest.warns(FutureWarning, match="NLLLoss2d"):
        loss = lib.nn.NLLLoss2d(reduction="sum")
    assert isinstance(loss, lib.nn.NLLLoss)
    assert loss(lib.zeros(1, 2, 1, 1), lib.zeros(1, 1, 1, dtype=lib.int64)).item() == 0
    with pytest.warns(FutureWarning, match="Container"):
        container = lib.nn.Container(a=lib.nn.ReLU(), b=None)
    assert list(container._modules) == ["a", "b"]
    assert repr(container).startswith("Container(\n  (a): ReLU()")


def test_factory_kwargs(lib: ModuleType):
    make = lib.nn.factory_kwargs
    assert make(None) == {}
    assert make({"device": "cpu", "factory_kwargs": {"dtype": lib.float64}}) == {
        "device": "cpu",
        "dtype": lib.float64,
    }
    with pytest.raises(TypeError, match="specified twice"):
        make({"device": "cpu", "factory_kwargs": {"device": "cpu"}})
    with pytest.raises(TypeError, match="unexpected kwargs"):
        make({"other": 3})


def test_implementations_of_attention(lib: ModuleType):
    attention = importlib.import_module(f"{lib.__name__}.nn.attention")
    backend = attention.SDPBackend
    assert [backend.MATH.value, backend.FLASH_ATTENTION.value, backend.OVERRIDEABLE.value] == [0, 1, 4]
    q = lib.ones(1, 1, 2, 4)
    for chosen in (backend.MATH, [backend.MATH, backend.FLASH_ATTENTION]):
        with attention.sdpa_kernel(chosen):
            out = lib.nn.functional.scaled_dot_product_attention(q, q, q)
        np.testing.assert_allclose(out.numpy(), q.numpy())
    with pytest.raises(AssertionError, match="instance of SDPBackend"), attention.sdpa_kernel(3):
        pass


def test_devices_that_there_are_not():
    module = fg.nn.Linear(1, 1)
    for name in ("ipu", "mtia", "xpu"):
        with pytest.raises(RuntimeError, match=f"no support for {name}"):
            getattr(module, name)()


CASES: list[tuple[int, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    (1, (2, 4, 7), (6, 2, 3), {"stride": 2, "padding": 1, "groups": 2}),
    (1, (1, 1, 3), (1, 1, 1), {}),
    (2, (2, 3, 6, 5), (4, 3, 2, 3), {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)}),
    (2, (1, 2, 3, 3), (2, 1, 2, 2), {"groups": 2}),
]


def test_gradients_of_convolutions(lib: ModuleType):
    for rank, sizes, weight_sizes, options in CASES:
        x = lib.tensor(np.sin(np.arange(float(np.prod(sizes)))).reshape(sizes), requires_grad=True)
        w = lib.tensor(
            np.cos(np.arange(float(np.prod(weight_sizes)))).reshape(weight_sizes), requires_grad=True
        )
        out = getattr(lib.nn.functional, f"conv{rank}d")(x, w, None, **options)
        g = lib.tensor(np.cos(np.arange(float(out.numel())) * 2).reshape(tuple(out.shape)))
        expected = lib.autograd.grad(out, (x, w), g)
        found = (
            getattr(lib.nn.grad, f"conv{rank}d_input")(x.shape, w, g, **options),
            getattr(lib.nn.grad, f"conv{rank}d_weight")(x, w.shape, g, **options),
        )
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a.detach().numpy(), b.numpy(), rtol=1e-10, atol=1e-12)
        (again,) = lib.autograd.grad(found[0].sum(), w)
        assert again.shape == w.shape
        assert not getattr(lib.nn.grad, f"conv{rank}d_input")(x.shape, w.detach(), g, **options).requires_grad


def test_gradients_of_what_does_not_fit():
    x, w, g = fg.ones(1, 1, 3), fg.ones(1, 1, 1), fg.ones(1, 1, 3)
    for call, kind in (
        (lambda: fg.nn.grad.conv1d_input((1, 2, 3), w, g), RuntimeError),
        (lambda: fg.nn.grad.conv1d_input((1, 1, 4), w, g), RuntimeError),
        (lambda: fg.nn.grad.conv1d_weight(x, (1, 1), g), RuntimeError),
        (lambda: fg.nn.grad.conv1d_input((1, 1, 3), None, g), TypeError),
        (lambda: fg.nn.grad.conv1d_weight(x, (1, 1, 1), 3), TypeError),
        (lambda: fg.nn.grad.conv1d_input(None, w, g), TypeError),
    ):
        with pytest.raises(kind):
            call()
