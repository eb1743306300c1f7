"""Re-entrant checkpoints, on both libraries."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fastgrad as fg


@pytest.fixture(params=["fastgrad", pytest.param("torch", marks=pytest.mark.parity)])
def lib(request: pytest.FixtureRequest) -> ModuleType:
    found = pytest.importorskip(request.param)
    found.manual_seed(0)
    __import__(f"{request.param}.utils.checkpoint")
    return found


def checkpoint(lib: ModuleType, function: Any, *args: Any, **options: Any) -> Any:
    return lib.utils.checkpoint.checkpoint(function, *args, use_reentrant=True, **options)


def leaf(lib: ModuleType) -> Any:
    return lib.linspace(0.1, 0.9, 4, dtype=lib.float64).view(2, 2).requires_grad_()


FUNCTIONS = {
    "chain": lambda lib, x, w: (x @ w).sin().exp(),
    "used twice": lambda lib, x, w: (x * w + x.exp()) @ w,
    "in place": lambda lib, x, w: (x * w).mul_(2).sin().add_(1),
    "one of two": lambda lib, x, w: (x.exp(), w.detach().sin()),
    "several": lambda lib, x, w: (x.exp(), 3, w.sin()),
}


def total(out: Any) -> Any:
    parts = [o for o in out if hasattr(o, "sum")] if isinstance(out, tuple) else [out]
    return sum((o**2).sum() for o in parts if o.requires_grad)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(lib: ModuleType, name: str):
    found = []
    for call in (lambda f, *a: f(*a), lambda f, *a: checkpoint(lib, f, *a)):
        x, w = leaf(lib), leaf(lib)
        calls: list[bool] = []

        def function(x: Any, w: Any, calls: list[bool] = calls) -> Any:
            calls.append(lib.is_grad_enabled())
            return FUNCTIONS[name](lib, x, w)

        out = call(function, x * 2, w)
        total(out).backward()
        found.append([None if t.grad is None else t.grad.numpy() for t in (x, w)])
    assert calls == [False, True]
    for a, b in zip(*found, strict=True):
        if a is not None:
            np.testing.assert_allclose(b, a, rtol=1e-12)


def test_parameters_and_hooks_within(lib: ModuleType):
    layer, log = lib.nn.Linear(2, 2, dtype=lib.float64), []
    layer.register_forward_hook(lambda m, a, o: log.append("forward"))
    layer.register_full_backward_hook(lambda m, gi, go: log.append("backward"))
    layer.weight.register_hook(lambda g: log.append("weight"))
    x = leaf(lib)
    y = x * 1
    y.register_hook(lambda g: log.append("input"))
    out = checkpoint(lib, layer, y)
    assert out.grad_fn.name() == "CheckpointFunctionBackward"
    out.register_hook(lambda g: log.append("output"))
    out.sum().backward()
    assert log[:3] == ["forward", "output", "forward"]
    assert sorted(log[3:5]) == ["backward", "weight"]
    assert log[5:] == ["input"]
    expected = lib.autograd.grad(layer(x).sum(), [x, layer.weight, layer.bias])
    for a, b in zip((x.grad, layer.weight.grad, layer.bias.grad), expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


@pytest.mark.filterwarnings("ignore:None of the inputs")  # of the inner one, in the first run
def test_nested_and_several_passes(lib: ModuleType):
    x = leaf(lib)
    out = checkpoint(lib, lambda x: checkpoint(lib, lambda y: y.sin(), x * 2).exp(), x)
    out.sum().backward(retain_graph=True)
    once = x.grad.clone()
    out.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * once.numpy(), rtol=1e-12)
    with pytest.raises(RuntimeError, match="second time"):
        out.sum().backward()


def test_random_numbers(lib: ModuleType):
    for preserve in (True, False):
        x, drawn = leaf(lib), []

        def function(x: Any, drawn: list[Any] = drawn) -> Any:
            drawn.append(lib.rand(2, 2, dtype=lib.float64))
            return x * drawn[-1]

        out = checkpoint(lib, function, x, preserve_rng_state=preserve)
        expected = lib.get_rng_state().tolist()
        out.sum().backward()
        assert (drawn[0].tolist() == drawn[1].tolist()) == preserve
        assert (lib.get_rng_state().tolist() == expected) == preserve


def test_other_arguments(lib: ModuleType):
    x = leaf(lib)
    seen = []

    def function(x: Any, n: int, more: Any, nothing: Any) -> Any:
        seen.append((n, more, nothing, x.requires_grad))
        return x * n

    checkpoint(lib, function, x, 3, [4], None).sum().backward()
    assert seen[1] == (3, [4], None, True)
    assert x.grad.tolist() == [[3.0, 3.0]] * 2
    with lib.no_grad():
        assert not checkpoint(lib, lambda x: x * 2, x).requires_grad


def test_errors(lib: ModuleType):
    x = leaf(lib)
    with pytest.raises(RuntimeError, match=r"incompatible with \.grad\(\)"):
        lib.autograd.grad(checkpoint(lib, lambda x: x * 2, x).sum(), x)
    with pytest.raises(RuntimeError, match=r"incompatible with \.grad\(\)"):
        checkpoint(lib, lambda x: x * 2, x).sum().backward(inputs=[x])
    x.grad = None
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        assert not checkpoint(lib, lambda x: x * 2, x.detach()).requires_grad
    with pytest.raises(RuntimeError, match="none of output has requires_grad=True"):
        checkpoint(lib, lambda x: x.detach() * 2, x).sum().backward()
    with pytest.raises(ValueError, match="Unexpected keyword arguments: other"):
        checkpoint(lib, lambda x: x, x, other=3)
    for bad in ({"context_fn": lambda: None}, {"debug": True}):
        with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
            checkpoint(lib, lambda x: x, x, **bad)
    with pytest.raises(KeyError, match="mine"):
        checkpoint(lib, lambda x: {}["mine"], x)
    calls = []

    def fails(x: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyError("second")
        return x * 2

    with pytest.raises(KeyError, match="second"):
        checkpoint(lib, fails, x).sum().backward()
    assert x.grad is None
    with pytest.raises(RuntimeError, match="Only tuple of tensors"):
        lib.utils.checkpoint.detach_variable([x])


def test_a_change_of_an_input_is_noticed(lib: ModuleType):
    x = leaf(lib)
    y = x * 1
    out = checkpoint(lib, lambda y: y.exp(), y)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_sequences(lib: ModuleType):
    functions = [lib.exp, lib.sin, lib.cos, lib.tanh, lib.exp]
    x, w = leaf(lib), leaf(lib)
    lib.utils.checkpoint.checkpoint_sequential(functions, 3, x, use_reentrant=True).sum().backward()
    w.exp().sin().cos().tanh().exp().sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), w.grad.numpy(), rtol=1e-12)


def test_autocast():
    x = fg.ones(2, 2, requires_grad=True)
    seen = []

    def function(x: Any) -> Any:
        out = x @ x
        seen.append(out.dtype)
        return out

    with fg.autocast("cpu", dtype=fg.bfloat16):
        out = checkpoint(fg, function, x)
    out.float().sum().backward()
    assert seen == [fg.bfloat16] * 2


def test_the_graph_is_freed():
    before = fg.debug.live()
    x = leaf(fg)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checkpoint(fg, lambda x: x.exp().sin(), x).sum().backward()
        del x
    assert fg.debug.live() == before
