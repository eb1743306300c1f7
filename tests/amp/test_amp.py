"""`autocast`, custom functions in it, and `GradScaler`: as PyTorch's on the CPU."""

from __future__ import annotations

import copy
import math
import pickle
import threading
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fastgrad as fg

DTYPES = pytest.mark.parametrize("kind", ["bfloat16", "float16"])


def numbers(lib: Any, *shape: int) -> Any:
    return lib.tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32).tolist())


# Of each list some functions, and what is on none: what they make of a, which is float32 or a half; x is float32.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "mm": lambda lib, nn, a, x: a @ x,
    "bmm": lambda lib, nn, a, x: lib.bmm(a[None], x[None]),
    "addmm": lambda lib, nn, a, x: lib.addmm(x, a, x),
    "linear": lambda lib, nn, a, x: nn.linear(a, x, x[0]),
    "conv1d": lambda lib, nn, a, x: nn.conv1d(a[None], x[:, :, None]),
    "conv_transpose2d": lambda lib, nn, a, x: nn.conv_transpose2d(a[None, None], x[None, None]),
    "attention": lambda lib, nn, a, x: nn.scaled_dot_product_attention(
        a[None, None], a[None, None], a[None, None]
    ),
    "prelu": lambda lib, nn, a, x: nn.prelu(a, x[0, :1]),
    "prod": lambda lib, nn, a, x: a.prod(1),
    "mse": lambda lib, nn, a, x: nn.mse_loss(a, x.to(a.dtype)),
    "l1": lambda lib, nn, a, x: nn.l1_loss(a, x.to(a.dtype)),
    "huber": lambda lib, nn, a, x: nn.huber_loss(a, x.to(a.dtype)),
    "cross_entropy": lambda lib, nn, a, x: nn.cross_entropy(a, lib.tensor([0, 1, 2, 3])),
    "nll": lambda lib, nn, a, x: nn.nll_loss(a, lib.tensor([0, 1, 2, 3])),
    "kl_div": lambda lib, nn, a, x: nn.kl_div(a, x.to(a.dtype), reduction="sum"),
    "bce": lambda lib, nn, a, x: nn.binary_cross_entropy_with_logits(a, x.to(a.dtype)),
    "cat": lambda lib, nn, a, x: lib.cat([a, x]),
    "cat alike": lambda lib, nn, a, x: lib.cat([a, a]),
    "stack": lambda lib, nn, a, x: lib.stack((x, a)),
    "add": lambda lib, nn, a, x: a + x,
    "softmax": lambda lib, nn, a, x: nn.softmax(a, 1),
    "layer_norm": lambda lib, nn, a, x: nn.layer_norm(a, (4,), x[0], x[1]),
    "sum": lambda lib, nn, a, x: a.sum(),
    "double": lambda lib, nn, a, x: a.double() @ x.double(),
    "relu": lambda lib, nn, a, x: nn.relu(a),
}


@pytest.mark.parity
@DTYPES
@pytest.mark.parametrize("name", FUNCTIONS)
def test_dtypes_as_in_torch(kind: str, name: str):
    torch = pytest.importorskip("torch")
    for source in ("float32", kind):
        found = []
        for lib in (fg, torch):
            x = numbers(lib, 4, 4)
            a = x.to(getattr(lib, source)).requires_grad_()
            with lib.autocast("cpu", dtype=getattr(lib, kind)):
                out = FUNCTIONS[name](lib, lib.nn.functional, a, x)
            out.double().sum().backward()
            found.append((str(out.dtype).partition(".")[2], str(a.grad.dtype).partition(".")[2], out))
        (one, g1, ours), (other, g2, theirs) = found
        assert (one, g1) == (other, g2)
        np.testing.assert_allclose(ours.double().tolist(), theirs.double().tolist(), rtol=0.05, atol=0.05)


def test_a_mode_of_the_thread():
    a = fg.ones(2, 2)
    assert not fg.is_autocast_enabled("cpu")
    assert fg.get_autocast_dtype("cpu") is fg.bfloat16
    with fg.autocast("cpu", fg.float16):
        assert fg.is_autocast_enabled("cpu")
        assert fg.get_autocast_dtype("cpu") is fg.float16
        with fg.autocast("cpu", enabled=False):
            assert not fg.is_autocast_enabled("cpu")
            assert (a @ a).dtype is fg.float32
        with fg.autocast("cpu"):
            assert (a @ a).dtype is fg.float16
        assert (a @ a).dtype is fg.float16
        seen: list[bool] = []
        thread = threading.Thread(target=lambda: seen.append(fg.is_autocast_enabled("cpu")))
        thread.start()
        thread.join()
        assert seen == [False]
    assert (a @ a).dtype is fg.float32


def test_plans_know_the_mode():
    x, w = fg.ones(2, 3), fg.ones(4, 3)
    for _ in range(5):
        assert fg.nn.functional.linear(x, w).dtype is fg.float32
        with fg.autocast("cpu"):
            assert fg.nn.functional.linear(x, w).dtype is fg.bfloat16
        with fg.autocast("cpu", fg.float16):
            assert fg.nn.functional.linear(x, w).dtype is fg.float16


def test_as_decorator():
    @fg.autocast("cpu")
    def product(a: Any) -> Any:
        return a @ a

    assert product(fg.ones(2, 2)).dtype is fg.bfloat16
    assert not fg.is_autocast_enabled("cpu")


@pytest.mark.parametrize("cached", [True, False])
def test_training(cached: bool):
    model = fg.nn.Sequential(fg.nn.Linear(3, 4), fg.nn.ReLU(), fg.nn.Linear(4, 2))
    x, y = numbers(fg, 5, 3), fg.tensor([0, 1, 0, 1, 0])
    optimizer, losses = fg.optim.SGD(model.parameters(), lr=0.5), []
    for _ in range(20):
        optimizer.zero_grad()
        with fg.autocast("cpu", cache_enabled=cached):
            out = model(x)
            loss = fg.nn.functional.cross_entropy(out, y)
        assert (out.dtype, loss.dtype) == (fg.bfloat16, fg.float32)
        loss.backward()
        assert all(p.dtype is p.grad.dtype is fg.float32 for p in model.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers(kind: str):
    layer = getattr(fg.nn, kind)(3, 4)
    with fg.autocast("cpu"):
        for x in (fg.ones(2, 1, 3), fg.ones(2, 1, 3).bfloat16()):
            out, _ = layer(x)
            assert out.dtype is fg.bfloat16
            out.float().sum().backward()
    assert all(p.grad.dtype is fg.float32 for p in layer.parameters())


def test_checkpoints_keep_the_mode():
    from fastgrad.utils.checkpoint import checkpoint

    w = fg.ones(2, 2, requires_grad=True)
    seen = []

    def block(x: Any) -> Any:
        seen.append((x @ w).dtype)
        return (x @ w).tanh()

    with fg.autocast("cpu"):
        out = checkpoint(block, fg.ones(2, 2), use_reentrant=False)
    out.float().sum().backward()
    assert seen == [fg.bfloat16, fg.bfloat16]


def test_wrong_arguments():
    with pytest.raises(ValueError, match="device_type"):
        fg.autocast(3)
    with pytest.raises(RuntimeError, match="xx"):
        fg.autocast("xx")
    with pytest.raises(TypeError, match="dtype"):
        fg.autocast("cpu", dtype=3)
    with pytest.warns(UserWarning, match="Disabling autocast"), fg.autocast("cpu", fg.float64):
        assert not fg.is_autocast_enabled("cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fg.autocast("cpu", fg.float64, enabled=False)


# --- custom functions ------------------------------------------------------------------------------------------


def test_custom_functions(lib: ModuleType):
    seen = []

    def made(**options: Any) -> Any:
        class Product(lib.autograd.Function):
            @staticmethod
            @lib.amp.custom_fwd(device_type="cpu", **options)
            def forward(ctx, a, b):
                ctx.save_for_backward(a, b)
                seen.append((a.dtype, lib.is_autocast_enabled("cpu")))
                return a @ b

            @staticmethod
            @lib.amp.custom_bwd(device_type="cpu")
            def backward(ctx, g):
                a, b = ctx.saved_tensors
                seen.append(lib.is_autocast_enabled("cpu"))
                return (g.float() @ b.float().t()).to(a.dtype), (a.float().t() @ g.float()).to(b.dtype)

        return Product

    for options, expected in (
        ({}, [(lib.float32, True), True]),
        ({"cast_inputs": lib.float32}, [(lib.float32, False), False]),
        ({"cast_inputs": lib.bfloat16}, [(lib.bfloat16, False), False]),
    ):
        seen.clear()
        a = lib.ones(2, 2, requires_grad=True)
        with lib.autocast("cpu"):
            out = made(**options).apply(a, a)
        out.float().sum().backward()
        assert seen == expected
        seen.clear()
        made(**options).apply(a, a).sum().backward()
        assert seen == [(lib.float32, False), False]


# --- the scaler ------------------------------------------------------------------------------------------------


def test_scaler(lib: ModuleType):
    w = lib.ones(2, requires_grad=True)
    optimizer = lib.optim.SGD([w], lr=0.5)
    scaler = lib.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    one, (two,) = scaler.scale([lib.tensor(1.0), (lib.tensor(2.0),)])
    assert (one.item(), two.item()) == (4.0, 8.0)
    told = []
    for factor in (1.0, float("inf"), 1.0, 1.0, float("nan"), 1.0):
        optimizer.zero_grad()
        scaler.scale((w * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        told.append((scaler.get_scale(), w.tolist()))
    assert told == [
        (4.0, [0.5] * 2), (2.0, [0.5] * 2), (2.0, [0.0] * 2), (4.0, [-0.5] * 2), (2.0, [-0.5] * 2), (2.0, [-1.0] * 2),
    ]  # fmt: skip
    state = copy.deepcopy(scaler.state_dict())
    other = lib.amp.GradScaler("cpu")
    other.load_state_dict(state)
    assert other.state_dict() == state == {
        "scale": 2.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2, "_growth_tracker": 1,
    }  # fmt: skip
    scaler.update(8.0)
    assert scaler.get_scale() == 8.0


def test_scaler_order(lib: ModuleType):
    w = lib.ones(2, requires_grad=True)
    optimizer = lib.optim.SGD([w], lr=0.5)
    scaler = lib.amp.GradScaler("cpu", init_scale=4.0)
    with pytest.raises(AssertionError):
        scaler.update()
    scaler.scale(w.sum()).backward()
    scaler.unscale_(optimizer)
    assert w.grad.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="after step"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.step(optimizer)
    scaler.update()
    with pytest.raises(RuntimeError, match=r"[Cc]losure"):
        scaler.step(optimizer, closure=lambda: None)
    h = lib.ones(2, dtype=lib.float16, requires_grad=True)
    h.grad = lib.ones(2, dtype=lib.float16)
    with pytest.raises(ValueError, match="FP16"):
        scaler.unscale_(lib.optim.SGD([h], lr=0.5))
    with pytest.raises(ValueError, match="outputs"):
        lib.amp.GradScaler("cpu").scale(3)
    off = lib.amp.GradScaler("cpu", enabled=False)
    assert (off.scale(3), off.get_scale(), off.state_dict(), off.is_enabled()) == (3, 1.0, {}, False)


@pytest.mark.parity
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("bad", [None, float("inf"), float("-inf"), float("nan")])
def test_what_becomes_of_gradients_is_what_pytorch_makes_of_them(dtype, bad):
    import torch

    values = np.random.default_rng(0).standard_normal((3, 300)).astype(np.float32)
    found = []
    for lib in (fg, torch):
        grads = [lib.tensor(values, dtype=getattr(lib, dtype)), lib.ones(3, 2, dtype=getattr(lib, dtype)).t()]
        if bad is not None:
            grads[0][2, 299] = bad
        params = [lib.zeros(g.shape, dtype=g.dtype, requires_grad=True) for g in grads]
        for p, g in zip(params, grads, strict=True):
            p.grad = g
        optimizer, scaler = lib.optim.SGD(params, lr=1.0), lib.amp.GradScaler("cpu", init_scale=3.0)
        scaler.scale(params[0].sum())  # PyTorch makes the factor here
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        found.append([scaler.get_scale(), *(p.grad.tolist() for p in params), *(p.tolist() for p in params)])
    assert str(found[0]) == str(found[1])


def test_gradients_of_complex_parameters_are_divided():
    w = fg.zeros(2, dtype=fg.complex64, requires_grad=True)
    w.grad = fg.tensor([4 + 2j, -2j])
    fg.amp.GradScaler("cpu", init_scale=2.0).unscale_(fg.optim.SGD([w], lr=1.0))
    assert w.grad.tolist() == [2 + 1j, -1j]


def test_scalers_are_pickled_between_steps():
    w = fg.ones(2, requires_grad=True)
    optimizer, scaler = fg.optim.SGD([w], lr=0.5), fg.amp.GradScaler("cpu", init_scale=8.0)
    for copied in (copy.deepcopy(scaler), pickle.loads(pickle.dumps(scaler))):
        assert copied.state_dict() == scaler.state_dict()
    scaler.scale(w.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(AssertionError, match="may only be pickled"):
        pickle.dumps(scaler)
    scaler.step(optimizer)
    scaler.update()
    copied = pickle.loads(pickle.dumps(scaler))
    copied.scale(w.sum()).backward()
    copied.step(optimizer)
    assert pickle.loads(pickle.dumps(fg.amp.GradScaler("cpu", enabled=False))).is_enabled() is False


@pytest.mark.parametrize(("factor", "grad", "factors"), [
    (2.0**127, 1.0, [2.0**127, 2.0**127]),
    (2.0**-149, math.inf, [0.0, 0.0]),
    (0.1, math.inf, [0.05000000074505806, 0.02500000037252903]),
])  # fmt: skip
def test_factors_are_of_float32(factor, grad, factors):
    w = fg.zeros(2, requires_grad=True)
    optimizer = fg.optim.SGD([w], lr=0.5)
    scaler = fg.amp.GradScaler("cpu", init_scale=factor, growth_interval=1)
    for expected in factors:
        w.grad = fg.full((2,), grad)
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == expected
