"""Checkpoints: the same gradients and hooks as without, the second run, nesting, errors, and the memory they free."""

from __future__ import annotations

import contextlib
import gc
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
    return lib.utils.checkpoint.checkpoint(function, *args, **{"use_reentrant": False} | options)


def leaf(lib: ModuleType, *sizes: int) -> Any:
    x = lib.linspace(0.1, 0.9, 4, dtype=lib.float64).view(2, 2)
    return x.requires_grad_()


def assert_close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12)


class Counted:
    def __init__(self, function: Any) -> None:
        self.function = function
        self.calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        return self.function(*args, **kwargs)


FUNCTIONS = {
    "chain": lambda lib, x, w: (x @ w).sin().exp(),
    "used twice": lambda lib, x, w: (x * w + x.exp()) @ w,
    "reductions": lambda lib, x, w: lib.softmax((x @ w).tanh(), 1).cumsum(0),
    "views": lambda lib, x, w: (x.t()[0] * w[:, 1].exp()).expand(2, 2).sin(),
    "in place": lambda lib, x, w: (x * w).mul_(2).sin().add_(1),
    "no op saves": lambda lib, x, w: x + w,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("early_stop", [True, False])
def test_gradients_of_both_orders(lib: ModuleType, name: str, early_stop: bool):
    def gradients(call: Any) -> list[Any]:
        x, w = leaf(lib), leaf(lib).detach().clone().requires_grad_()
        y = call(lambda a, b: FUNCTIONS[name](lib, a * 1, b), x, w)
        first = lib.autograd.grad((y * y).sum(), (x, w), create_graph=True)
        second = lib.autograd.grad(sum((g * g).sum() for g in first), (x, w), allow_unused=True)
        return [t for t in (*first, *second) if t is not None]

    def with_checkpoint(function: Any, *args: Any) -> Any:
        return checkpoint(lib, function, *args, early_stop=early_stop)

    plain = gradients(lambda function, *args: function(*args))
    for ours, theirs in zip(gradients(with_checkpoint), plain, strict=True):
        assert_close(ours, theirs)


def test_the_second_run_waits_for_backward(lib: ModuleType):
    function = Counted(lambda x: x.exp().sin())
    x = leaf(lib)
    y = checkpoint(lib, function, x)
    assert function.calls == 1
    y.sum().backward(retain_graph=True)
    assert function.calls == 2
    y.sum().backward()
    assert function.calls == 3


def test_early_stop(lib: ModuleType):
    """The second run ends at the last tensor that was saved; what comes after does not run."""
    log: list[str] = []

    def function(x: Any) -> Any:
        y = x.exp()
        log.append("after the last save")
        return y + 1

    for expected, options in ((1, {}), (2, {"early_stop": False})):
        log.clear()
        checkpoint(lib, function, leaf(lib), **options).sum().backward()
        assert len(log) == expected
    with lib.utils.checkpoint.set_checkpoint_early_stop(False):
        y = checkpoint(lib, function, leaf(lib))
    log.clear()
    y.sum().backward()
    assert len(log) == 1


def test_the_function_cannot_catch_the_stop():
    def function(x: Any) -> Any:
        with contextlib.suppress(Exception):
            x = x.exp()
        return x + 1

    x = leaf(fg)
    checkpoint(fg, function, x).sum().backward()
    assert x.grad.tolist() == x.exp().tolist()


def test_without_grad_mode_it_is_a_call(lib: ModuleType):
    function = Counted(lambda x: x.exp())
    x = leaf(lib)
    with lib.no_grad():
        assert not checkpoint(lib, function, x).requires_grad
    checkpoint(lib, function, x.detach())
    assert function.calls == 2


def test_arguments_of_any_kind(lib: ModuleType):
    def function(x: Any, factor: float, nothing: None, *, power: int, other: Any) -> dict[str, Any]:
        assert nothing is None
        return {"y": x.pow(power) * factor + other.exp()}

    x, other = leaf(lib), leaf(lib)
    checkpoint(lib, function, x, 3.0, None, power=2, other=other)["y"].sum().backward()
    assert x.grad.tolist() == (6 * x).tolist()
    assert other.grad.tolist() == other.exp().tolist()


def test_parameters_of_the_function(lib: ModuleType):
    """Hooks of a parameter fire once, also where it is used twice and in several checkpoints."""
    w = leaf(lib)
    log: list[str] = []
    w.register_hook(lambda g: log.append("hook"))
    w.register_post_accumulate_grad_hook(lambda t: log.append("accumulated"))
    x = leaf(lib)
    for _ in range(2):
        x = checkpoint(lib, lambda x: (x @ w).sin() * w, x)
    x.sum().backward()
    assert log == ["hook", "accumulated"]


def test_hooks_inside_fire_once_for_the_graph_of_the_first_run(lib: ModuleType):
    log: list[str] = []

    def function(x: Any) -> Any:
        y = x.exp()
        y.register_hook(lambda g: log.append("hook"))
        return y.sin()

    checkpoint(lib, function, leaf(lib)).sum().backward()
    assert log == ["hook"]


# --- nesting ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [2, 3, 5])
def test_nested(lib: ModuleType, depth: int):
    calls = [0] * depth

    def level(k: int) -> Any:
        def function(x: Any) -> Any:
            calls[k] += 1
            x = x.sin()
            if k + 1 < depth:
                x = checkpoint(lib, level(k + 1), x)
            return x.cos()

        return function

    x = leaf(lib)
    y = checkpoint(lib, level(0), x)
    y.sum().backward()
    expected = leaf(lib)
    z = expected
    for _ in range(depth):
        z = z.sin()
    for _ in range(depth):
        z = z.cos()
    z.sum().backward()
    assert_close(x.grad, expected.grad)
    assert calls[0] == 2
    assert calls[-1] == depth + 1  # once in forward, and once for each checkpoint around it and for itself


def test_side_by_side_inside_one(lib: ModuleType):
    def outer(x: Any) -> Any:
        a = checkpoint(lib, lambda x: x.exp().sin(), x)
        b = checkpoint(lib, lambda x: x.sin().exp(), a)
        return a * b

    x, w = leaf(lib), leaf(lib)
    checkpoint(lib, outer, x).sum().backward()
    a = w.exp().sin()
    (a * a.sin().exp()).sum().backward()
    assert_close(x.grad, w.grad)


@pytest.mark.parametrize("early_stop", [True, False])
@pytest.mark.parametrize("retain_graph", [True, False])
def test_gradients_inside_of_the_function(lib: ModuleType, early_stop: bool, retain_graph: bool):
    def function(x: Any) -> Any:
        y = x.sin()
        z = y.cos()
        (g,) = lib.autograd.grad(z.sum(), x, retain_graph=retain_graph)
        return x.cos() * g

    x, w = leaf(lib), leaf(lib)
    checkpoint(lib, function, x, early_stop=early_stop).sum().backward()
    g = -w.sin().sin() * w.cos()
    assert_close(x.grad, -w.sin() * g)


def test_other_hooks_for_saved_tensors(lib: ModuleType):
    """What is saved within belongs to the checkpoint, its inputs to the hooks around it."""
    log: list[str] = []
    x = leaf(lib)

    def pack(t: Any) -> Any:
        log.append("pack")
        return t.detach()

    with lib.autograd.graph.saved_tensors_hooks(pack, lambda t: log.append("unpack") or t):
        y = checkpoint(lib, lambda x: x.exp().sin(), x)
        assert log == ["pack"]
    y.sum().backward()
    assert log == ["pack", "unpack"]


# --- random numbers and contexts -------------------------------------------------------------------------------


def test_the_second_run_draws_the_same_numbers(lib: ModuleType):
    seen: list[Any] = []

    def function(x: Any) -> Any:
        noise = lib.rand(2, 2, dtype=lib.float64)
        seen.append(noise.tolist())
        return (x * noise).exp()

    y = checkpoint(lib, function, leaf(lib))
    lib.manual_seed(99)
    y.sum().backward()
    after = lib.rand(3).tolist()
    assert seen[0] == seen[1]
    lib.manual_seed(99)
    assert lib.rand(3).tolist() == after
    checkpoint(lib, function, leaf(lib), preserve_rng_state=False).sum().backward()
    assert seen[2] != seen[3]


def test_contexts(lib: ModuleType):
    log: list[str] = []

    @contextlib.contextmanager
    def noted(name: str) -> Any:
        log.append(f"enter {name}")
        yield
        log.append(f"leave {name}")

    def function(x: Any) -> Any:
        log.append("run")
        return x.exp()

    y = checkpoint(
        lib, function, leaf(lib), context_fn=lambda: (noted("first"), noted("second")), early_stop=False
    )
    y.sum().backward()
    assert log == ["enter first", "run", "leave first", "enter second", "run", "leave second"]


def test_a_context_must_not_suppress(lib: ModuleType):
    def function(x: Any) -> Any:
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        checkpoint(lib, function, leaf(lib))
    contexts = (contextlib.suppress(ValueError), contextlib.nullcontext())
    with pytest.raises(RuntimeError, match="suppressed an exception"):
        checkpoint(lib, function, leaf(lib), context_fn=lambda: contexts)
    x = leaf(lib)
    x.exp().sum().backward()  # no hooks are left behind


# --- errors ----------------------------------------------------------------------------------------------------


def differing(lib: ModuleType, first: Any, second: Any) -> Any:
    runs = iter([first, second])
    return lambda x: next(runs)(x)


ERRORS = {
    "fewer": (
        lambda x: x.exp().sin().exp(),
        lambda x: x.exp(),
        {},
        "A different number of tensors was saved",
    ),
    "more": (
        lambda x: x.exp(),
        lambda x: x.exp().exp().exp(),
        {"early_stop": False},
        "trying to save more tensors during recomputation",
    ),
    "sizes": (
        lambda x: x.exp(),
        lambda x: x[0].exp(),
        {},
        r"(?s)different metadata.*position 0.*shape.*\[2, 2\]",
    ),
    "dtype": (lambda x: x.exp(), lambda x: x.float().exp(), {}, r"(?s)different metadata.*dtype.*float32"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_second_runs_that_differ(lib: ModuleType, name: str):
    first, second, options, message = ERRORS[name]
    y = checkpoint(lib, differing(lib, first, second), leaf(lib), **options)
    with pytest.raises(lib.utils.checkpoint.CheckpointError, match=message):
        y.sum().backward()


def test_metadata_need_not_be_compared(lib: ModuleType):
    function = differing(lib, lambda x: x.float().exp(), lambda x: x.exp())
    checkpoint(lib, function, leaf(lib), determinism_check="none").sum().backward()
    with pytest.raises(ValueError, match="determinism_check should be one of"):
        checkpoint(lib, function, leaf(lib), determinism_check="strict")


def test_an_exception_in_the_second_run_comes_out_of_backward(lib: ModuleType):
    def failing(x: Any) -> Any:
        raise ValueError("second run")

    y = checkpoint(lib, differing(lib, lambda x: x.exp(), failing), leaf(lib))
    with pytest.raises(ValueError, match="second run"):
        y.sum().backward()


def test_inputs_that_were_changed_in_place(lib: ModuleType):
    x = leaf(lib)
    a = x * 1
    y = checkpoint(lib, lambda a: a.exp(), a)
    a.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_tensor_can_be_unpacked_once_in_a_pass(lib: ModuleType):
    class Twice(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            ctx.saved_tensors
            ctx.saved_tensors
            return g

    with pytest.raises(lib.utils.checkpoint.CheckpointError, match="already unpacked once"):
        checkpoint(lib, Twice.apply, leaf(lib)).sum().backward()


def test_saved_attributes_can_be_read_again_and_again(lib: ModuleType):
    x = leaf(lib)
    y = checkpoint(lib, lambda x: x.exp(), x)
    for _ in range(2):
        assert y.grad_fn._saved_result.tolist() == y.tolist()
    y.sum().backward()


def test_a_saved_attribute_without_history_is_the_object_that_the_function_had(lib: ModuleType):
    x, factor = leaf(lib), lib.ones(2)
    y = checkpoint(lib, lambda x: x.exp() * factor, x)
    assert y.grad_fn._saved_other is factor
    assert y.grad_fn._saved_other is y.grad_fn._saved_other


def test_what_is_not_supported():
    with pytest.raises(NotImplementedError, match="debug=True"):
        fg.utils.checkpoint.checkpoint(fg.exp, leaf(fg), debug=True)
    with pytest.warns(UserWarning, match="the variant is not chosen"):
        assert fg.utils.checkpoint.checkpoint(fg.exp, leaf(fg)).requires_grad


# --- sequences -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("segments", [1, 2, 3, 5])
def test_sequential(lib: ModuleType, segments: int):
    functions = [Counted(f) for f in (lib.exp, lib.sin, lib.cos, lib.tanh, lib.exp)]
    x, w = leaf(lib), leaf(lib)
    lib.utils.checkpoint.checkpoint_sequential(functions, segments, x, use_reentrant=False).sum().backward()
    w.exp().sin().cos().tanh().exp().sum().backward()
    assert x.grad.tolist() == w.grad.tolist()
    kept = len(functions) - (len(functions) // segments) * (segments - 1)
    assert [f.calls for f in functions[-kept:]] == [1] * kept
    assert all(f.calls == 2 for f in functions[:-kept])


def test_sequential_of_a_module(lib: ModuleType):
    class Exp(lib.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.exp()

    x = leaf(lib)
    model = lib.nn.Sequential(Exp(), Exp())
    y = lib.utils.checkpoint.checkpoint_sequential(model, 2, x, use_reentrant=False)
    assert y.tolist() == x.exp().exp().tolist()
    with pytest.raises(ValueError, match=r"range|expected segments to lie between 1 and"):
        lib.utils.checkpoint.checkpoint_sequential(model, 3, x, use_reentrant=False)


# --- memory ----------------------------------------------------------------------------------------------------


def live_bytes() -> int:
    gc.collect()
    return fg.debug.live()["bytes"]


def test_less_is_kept():
    """Ten ops would keep ten results; the checkpoint keeps none, and its second run no longer than it is needed."""

    def function(x: Any) -> Any:
        for _ in range(10):
            x = x.exp().sin()
        return x

    x = fg.rand(200, 200, requires_grad=True)
    before = live_bytes()
    y = function(x)
    plain = live_bytes() - before
    del y
    assert live_bytes() == before
    y = checkpoint(fg, function, x)
    kept = live_bytes() - before
    assert kept < 1.1 * x.nbytes  # the result
    assert plain > 10 * kept
    y.sum().backward(retain_graph=True)
    del x.grad
    assert live_bytes() - before <= 1.1 * kept


def test_nothing_is_kept_when_the_graph_goes():
    x = fg.rand(100, 100, requires_grad=True)
    before = live_bytes()
    a = x * 2
    y = checkpoint(fg, lambda a: a.exp().sin(), a)
    y.sum().backward()
    del a, y, x.grad
    assert live_bytes() == before


def test_a_pass_that_fails_keeps_nothing_after_the_graph_is_gone():
    x = fg.rand(100, 100, requires_grad=True)
    before = live_bytes()
    y = checkpoint(fg, differing(fg, lambda x: x.exp().sin().exp(), lambda x: x.exp()), x)
    with pytest.raises(fg.utils.checkpoint.CheckpointError):
        y.sum().backward()
    del y
    assert live_bytes() == before


def test_there_are_no_policies_of_what_is_kept():
    from fastgrad.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

    with pytest.raises(NotImplementedError, match="outside of checkpoint"):
        create_selective_checkpoint_contexts(lambda ctx, op, *args, **kwargs: CheckpointPolicy.MUST_SAVE)


@pytest.mark.parity
def test_policies_have_their_values():
    checkpoint = pytest.importorskip("torch.utils.checkpoint")
    from fastgrad.utils.checkpoint import CheckpointPolicy

    assert {p.name: p.value for p in CheckpointPolicy} == {
        p.name: p.value for p in checkpoint.CheckpointPolicy
    }
