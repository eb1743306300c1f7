"""Ops over float16 and bfloat16: computed in float32, rounded once, differentiable, in place, over anything strided."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastgrad as fg
from fastgrad.functions.data import elements_of
from fastgrad.native.build.loader import runtime_get

HALVES = pytest.mark.parametrize("half", [fg.float16, fg.bfloat16], ids=lambda d: d.name)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def places(most: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, most, shape)


def functional(lib: Any) -> Any:
    return lib.nn.functional


Case = tuple[Callable[..., Any], tuple[np.ndarray, ...]]

# One op each, of every family of kernels.
ONE_OP: dict[str, Case] = {
    "mul": (lambda lib, a, b: a * b, (numbers(5, 7), numbers(5, 7, seed=1))),
    "broadcast": (lambda lib, a, b: a + b, (numbers(5, 7), numbers(7))),
    "transposed": (lambda lib, a: a.t().exp(), (numbers(5, 7),)),
    "number": (lambda lib, a: a * 0.1, (numbers(5, 7),)),
    "exact number": (lambda lib, a: a * 2, (numbers(5, 7),)),
    "reflected": (lambda lib, a: 1.1 - a, (numbers(5, 7),)),
    "large number": (lambda lib, a: a * 1001, (numbers(5, 7),)),
    "clamp": (lambda lib, a: a.clamp(-0.3, 0.7), (numbers(5, 7),)),
    "where": (lambda lib, a, b: lib.where(a > b, a, b), (numbers(5, 7), numbers(5, 7, seed=1))),
    "sum": (lambda lib, a: a.sum(), (numbers(300, 70),)),
    "sum of columns": (lambda lib, a: a.sum(0), (numbers(300, 7),)),
    "mean": (lambda lib, a: a.mean(1), (numbers(5, 7),)),
    "amax": (lambda lib, a: a.amax(1), (numbers(5, 7),)),
    "max": (lambda lib, a: a.max(1)[0], (numbers(5, 7),)),
    "prod": (lambda lib, a: a.prod(1), (numbers(5, 7),)),
    "cumsum": (lambda lib, a: a.cumsum(1), (numbers(5, 7),)),
    "var": (lambda lib, a: a.var(1), (numbers(5, 7),)),
    "norm": (lambda lib, a: a.norm(), (numbers(5, 7),)),
    "softmax": (lambda lib, a: functional(lib).softmax(a, 1), (numbers(5, 7),)),
    "log_softmax": (lambda lib, a: functional(lib).log_softmax(a, 0), (numbers(5, 20),)),
    "mm": (lambda lib, a, b: a @ b, (numbers(5, 70), numbers(70, 9))),
    "mv": (lambda lib, a, b: a @ b, (numbers(5, 70), numbers(70))),
    "linear": (
        lambda lib, a, w, b: functional(lib).linear(a, w, b), (numbers(4, 7), numbers(5, 7), numbers(5)),
    ),
    "bmm": (lambda lib, a, b: lib.bmm(a, b), (numbers(2, 3, 4), numbers(2, 4, 5))),
    "conv2d": (
        lambda lib, a, w, b: functional(lib).conv2d(a, w, b, padding=1),
        (numbers(2, 3, 8, 8), numbers(4, 3, 3, 3), numbers(4)),
    ),
    "max_pool": (lambda lib, a: functional(lib).max_pool2d(a, 2), (numbers(2, 3, 8, 8),)),
    "avg_pool": (lambda lib, a: functional(lib).avg_pool2d(a, 2), (numbers(2, 3, 8, 8),)),
    "pad": (lambda lib, a: functional(lib).pad(a, (1, 2), value=0.5), (numbers(5, 7),)),
    "layer_norm": (
        lambda lib, a, w, b: functional(lib).layer_norm(a, (7,), w, b), (numbers(5, 7), numbers(7), numbers(7)),
    ),
    "batch_norm": (
        lambda lib, a, w: functional(lib).batch_norm(a, None, None, w, None, True),
        (numbers(6, 3, 4, 4), numbers(3)),
    ),
    "attention": (
        lambda lib, q, k, v: functional(lib).scaled_dot_product_attention(q, k, v),
        (numbers(2, 2, 5, 8), numbers(2, 2, 6, 8, seed=1), numbers(2, 2, 6, 8, seed=2)),
    ),
    "nll": (lambda lib, a, y: functional(lib).nll_loss(a, y), (numbers(300, 7), places(7, 300))),
    "mse": (lambda lib, a, b: functional(lib).mse_loss(a, b), (numbers(5, 7), numbers(5, 7, seed=1))),
    "embedding": (lambda lib, w, i: functional(lib).embedding(i, w), (numbers(10, 4), places(10, 12))),
    "gather": (lambda lib, a, i: a.gather(1, i), (numbers(5, 7), places(7, 5, 3))),
    "index": (lambda lib, a, i: a[i], (numbers(5, 7), places(5, 9))),
    "scatter_add": (
        lambda lib, a, i, b: a.scatter_add(1, i, b), (numbers(5, 7), places(3, 5, 7), numbers(5, 7, seed=1)),
    ),
    "sort": (lambda lib, a: a.sort(1)[0], (numbers(5, 7),)),
    "sort of columns": (lambda lib, a: a.sort(0)[0], (numbers(70, 70),)),
    "topk": (lambda lib, a: a.topk(3, 1)[0], (numbers(5, 7),)),
    "cat": (lambda lib, a, b: lib.cat([a, b]), (numbers(5, 7), numbers(2, 7))),
    "tril": (lambda lib, a: a.tril(), (numbers(5, 7),)),
    "empty": (lambda lib, a: a.sum(1), (numbers(3, 0),)),
    "empty rows": (lambda lib, a: a * 2, (numbers(0, 3),)),
}  # fmt: skip
CASES = pytest.mark.parametrize("case", ONE_OP)


def operands(lib: Any, arrays: tuple[np.ndarray, ...], dtype: Any, wide: Any = None) -> list[Any]:
    """Tensors with the same numbers, those of a half; in another dtype if asked for."""
    found = []
    for array in arrays:
        x = lib.tensor(array.tolist()).reshape(array.shape)
        if x.is_floating_point():
            x = x.to(dtype) if wide is None else x.to(dtype).to(wide)
            x.requires_grad_()
        found.append(x)
    return found


def values(x: Any) -> np.ndarray:
    return np.asarray(x.detach().float().tolist(), np.float32)


@HALVES
@CASES
def test_rounded_once(half: Any, case: str):
    function, arrays = ONE_OP[case]
    inputs, wide = operands(fg, arrays, half), operands(fg, arrays, half, fg.float32)
    out, exact = function(fg, *inputs), function(fg, *wide)
    assert out.dtype is half
    assert out.stride() == exact.stride()
    np.testing.assert_array_equal(elements_of(out.detach()), elements_of(exact.detach().to(half)))
    weights = fg.ones(out.shape) + 1
    (out.float() * weights).sum().backward()
    (exact * weights).sum().backward()
    for x, y in zip(inputs, wide, strict=True):
        if x.grad is not None:
            assert x.grad.dtype is half
            eps, largest = fg.finfo(half).eps, max([abs(v) for v in values(y.grad).reshape(-1)], default=0)
            np.testing.assert_allclose(
                values(x.grad), values(y.grad), rtol=8 * eps, atol=4 * eps * max(largest, 1)
            )


@pytest.mark.parity
@HALVES
@CASES
def test_as_in_torch(half: Any, case: str):
    torch = pytest.importorskip("torch")
    function, arrays = ONE_OP[case]
    eps = fg.finfo(half).eps
    results = []
    for lib in (fg, torch):
        inputs = operands(lib, arrays, getattr(lib, half.name))
        out = function(lib, *inputs)
        assert str(out.dtype).endswith(half.name)
        out.float().sum().backward()
        results.append([out, *(x.grad for x in inputs if x.is_floating_point())])
    for ours, theirs in zip(*results, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert str(ours.dtype)[9:] == str(theirs.dtype)[6:]
            wanted = values(theirs)
            scale = max(np.abs(wanted).max(initial=0), 1)
            np.testing.assert_allclose(values(ours), wanted, rtol=8 * eps, atol=8 * eps * scale)


@pytest.mark.parity
@HALVES
def test_bit_for_bit_as_in_torch(half: Any):
    """Where PyTorch computes in float32 and rounds once, too."""
    torch = pytest.importorskip("torch")
    special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        math.inf,
        -math.inf,
        math.nan,
        6e-8,
        -1e-5,
        65504.0,
        1e-39,
        3e38,
        0.3,
        -2.7,
    ]
    a, b = (
        np.array(v, np.float32).reshape(-1)
        for v in zip(*((x, y) for x in special for y in special), strict=True)
    )
    ours, theirs = (
        [lib.tensor(v.tolist()).to(getattr(lib, half.name)) for v in (a, b)] for lib in (fg, torch)
    )
    for function in (
        lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x / y, lambda x, y: x * 0.1,
        lambda x, y: x / 0.3, lambda x, y: -x, lambda x, y: x.abs(), lambda x, y: x < y, lambda x, y: x == 0.1,
        lambda x, y: x.sqrt(), lambda x, y: x.relu(), lambda x, y: x.float(), lambda x, y: x.double(),
    ):  # fmt: skip
        one, other = function(*ours), function(*theirs)
        assert str(one.dtype)[9:] == str(other.dtype)[6:]
        one, other = (np.array(v.double().tolist()) for v in (one, other))
        np.testing.assert_array_equal(one, other)
        assert (np.signbit(one) == np.signbit(other))[~np.isnan(one)].all()


# --- mixed dtypes, numbers, in place ---------------------------------------------------------------------------


@HALVES
def test_mixed_graphs(half: Any):
    x = fg.tensor([1.5, 2.0], dtype=half, requires_grad=True)
    w = fg.tensor([0.3, 0.7], requires_grad=True)
    y = x * w
    assert y.dtype is fg.float32
    y.sum().backward()
    assert (x.grad.dtype, w.grad.dtype) == (half, fg.float32)
    assert x.grad.tolist() == w.detach().to(half).tolist()
    x.half().bfloat16().float().sum().backward()
    assert x.grad.dtype is half


def test_halves_of_both_kinds():
    a, b = fg.ones(2).half().requires_grad_(), fg.ones(2).bfloat16().requires_grad_()
    (a * b).sum().backward()
    assert ((a * b).dtype, a.grad.dtype, b.grad.dtype) == (fg.float32, fg.float16, fg.bfloat16)


@HALVES
def test_tensors_without_dimensions_are_not_rounded(half: Any):
    x, third = fg.full((3,), 3.0, dtype=half), fg.tensor(1 / 3)
    assert (x * third).tolist() == [1.0] * 3
    assert (x * third).dtype is half
    assert (x * third.to(half)).tolist() == (x.float() * third.to(half).float()).to(half).tolist()


@HALVES
def test_in_place(half: Any):
    x = fg.tensor([1.0, 2.0, 3.0], dtype=half)
    view = x[1:]
    view.mul_(0.1)
    x += fg.ones(3)
    x[0] = 0.3
    exact = (fg.tensor([2.0, 3.0]) * 0.1).to(half).float() + 1
    assert x.tolist() == [fg.tensor(0.3).to(half).item(), *exact.to(half).tolist()]
    x.fill_(0.7)
    x[fg.tensor([0, 2])] = fg.tensor([1.5, 2.5], dtype=half)
    assert x.tolist() == [1.5, fg.tensor(0.7).to(half).item(), 2.5]
    with pytest.raises(RuntimeError, match="can't be cast"):
        fg.tensor([1]).add_(x[:1])
    w = fg.ones(2, requires_grad=True)
    (w.to(half) * 1).mul_(0.5).float().sum().backward()
    assert w.grad.tolist() == [0.5, 0.5]


@HALVES
def test_sums_are_not_rounded_on_the_way(half: Any):
    assert fg.ones(4096, dtype=half).sum().item() == 4096
    assert fg.full((1 << 15,), 0.5, dtype=half).mean().item() == 0.5
    loss = fg.nn.functional.nll_loss(fg.ones(3000, 2, dtype=half), fg.zeros(3000, dtype=fg.int64))
    assert loss.item() == -1


def test_what_operands_of_two_dtypes_raise():
    a, b = fg.ones(2, 2).half(), fg.ones(2, 2)
    for call in (lambda: a @ b, lambda: b @ a, lambda: fg.addmm(a, a, b), lambda: a @ b.bfloat16()):
        with pytest.raises(RuntimeError, match="same dtype"):
            call()
    with pytest.raises(RuntimeError, match="should be the same"):
        fg.nn.functional.conv1d(fg.ones(1, 1, 3).half(), fg.ones(1, 1, 1))
    with pytest.raises(RuntimeError, match=r"dtype"):
        fg.zeros(2, 2).half().scatter_add(0, fg.zeros(1, 2, dtype=fg.int64), fg.ones(1, 2))
    with pytest.raises(NotImplementedError, match="not implemented for 'Half'"):
        a & a


# --- modules and optimizers ------------------------------------------------------------------------------------


def trained(lib: Any, kind: str, name: str, **options: Any) -> list[np.ndarray]:
    model = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.ReLU(), lib.nn.Linear(4, 2))
    with lib.no_grad():
        for k, p in enumerate(model.parameters()):
            p.copy_(lib.tensor(numbers(*p.shape, seed=k).tolist()))
    model = model.half() if name == "float16" else model.bfloat16()
    optimizer = getattr(lib.optim, kind)(model.parameters(), lr=0.1, **options)
    x = lib.tensor(numbers(5, 3).tolist()).to(getattr(lib, name))
    for _ in range(3):
        optimizer.zero_grad()
        model(x).float().pow(2).mean().backward()
        optimizer.step()
    for p in model.parameters():
        assert str(p.dtype).endswith(name)
        assert str(p.grad.dtype).endswith(name)
        for key, state in optimizer.state[p].items():
            if key != "step" and state is not None:
                assert str(state.dtype).endswith(name)
    return [values(p) for p in model.parameters()]


OPTIMIZERS = pytest.mark.parametrize(
    ("kind", "options"),
    [("SGD", {"momentum": 0.9, "weight_decay": 0.1}), ("AdamW", {"amsgrad": True})],
    ids=["SGD", "AdamW"],
)


@HALVES
@OPTIMIZERS
def test_training(half: Any, kind: str, options: dict[str, Any]):
    for p in trained(fg, kind, half.name, **options):
        assert np.isfinite(p).all()


@pytest.mark.parity
@HALVES
@OPTIMIZERS
def test_training_as_in_torch(half: Any, kind: str, options: dict[str, Any]):
    torch = pytest.importorskip("torch")
    both = (trained(lib, kind, half.name, **options) for lib in (fg, torch))
    for ours, theirs in zip(*both, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=0.05)


@HALVES
def test_modules(half: Any):
    model = fg.nn.Sequential(fg.nn.Conv2d(1, 2, 3), fg.nn.BatchNorm2d(2), fg.nn.Flatten(), fg.nn.Linear(8, 2))
    model.to(half)
    norm = model[1]
    assert norm.num_batches_tracked.dtype is fg.int64
    before = norm.running_mean.clone()
    out = model(fg.tensor(numbers(3, 1, 4, 4).tolist()).to(half))
    assert (out.dtype, norm.running_mean.dtype) == (half, half)
    assert norm.running_mean.tolist() != before.tolist()
    out.sum().backward()
    assert all(p.grad.dtype is half for p in model.parameters())
    state = model.state_dict()
    other = fg.nn.Sequential(fg.nn.Conv2d(1, 2, 3), fg.nn.BatchNorm2d(2), fg.nn.Flatten(), fg.nn.Linear(8, 2))
    other.load_state_dict(state)
    assert other[3].weight.tolist() == model[3].weight.tolist()
    lstm = fg.nn.LSTM(3, 4).to(half)
    y, (h, c) = lstm(fg.ones(2, 1, 3, dtype=half))
    assert {y.dtype, h.dtype, c.dtype} == {half}


@HALVES
def test_norms_with_wide_weights(half: Any):
    """Weights of a norm may be float32 beside an input of a half, as in PyTorch."""
    x = fg.tensor(numbers(5, 7).tolist()).to(half).requires_grad_()
    w = fg.tensor(numbers(7).tolist(), requires_grad=True)
    y = fg.nn.functional.layer_norm(x, (7,), w, w)
    y.float().sum().backward()
    assert (y.dtype, x.grad.dtype, w.grad.dtype) == (half, half, fg.float32)


@HALVES
def test_second_derivatives(half: Any):
    x = fg.tensor([0.5, 1.5], dtype=half, requires_grad=True)
    (g,) = fg.autograd.grad((x * x * x).sum(), x, create_graph=True)
    assert g.dtype is half
    g.sum().backward()
    assert x.grad.tolist() == [3.0, 9.0]
    w = fg.ones(2, 2, dtype=half, requires_grad=True)
    (g,) = fg.autograd.grad((w @ w).tanh().sum(), w, create_graph=True)
    g.sum().backward()
    assert w.grad.dtype is half


@HALVES
def test_captured(half: Any):
    from fastgrad.native.host.tape import record

    x = fg.ones(3, dtype=half)
    out = fg.empty(3, dtype=half)
    with record() as tape:
        out.copy_((x * 0.1).softmax(0) + x)
    x.copy_(fg.tensor([1.0, 2.0, 3.0]))
    tape.replay()
    exact = (x * 0.1).softmax(0) + x
    assert out.tolist() == exact.tolist()


def test_nothing_is_converted_without_halves():
    x = fg.ones(3, 3)
    before = runtime_get("launches")
    x @ x
    x.sum()
    assert runtime_get("launches") - before == 2
