"""Steps that autograd records: the gradients of what they compute, and their values, are PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest
from optim_cases import case_id

import fastgrad as fg

CASES = [
    ("SGD", {"lr": 0.1, "weight_decay": 0.1}), ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.2}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1}), ("Adam", {"lr": 0.1, "amsgrad": True, "maximize": True}),
    ("AdamW", {"lr": 0.1}), ("RMSprop", {"momentum": 0.9, "centered": True, "weight_decay": 0.1}), ("RMSprop", {}),
    ("RMSprop", {"centered": True}), ("RMSprop", {"momentum": 0.5}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.1}),
    ("Adadelta", {"weight_decay": 0.1}), ("Adamax", {"lr": 0.1, "maximize": True}),
    ("ASGD", {"lr": 0.1, "lambd": 0.1, "t0": 1, "weight_decay": 0.1}),
    ("NAdam", {"lr": 0.1}), ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"lr": 0.1, "betas": (0.5, 0.9)}), ("RAdam", {"lr": 0.1, "betas": (0.5, 0.6), "weight_decay": 0.1}),
    ("Rprop", {"lr": 0.1}),
]  # fmt: skip
EACH = pytest.mark.parametrize("case", CASES, ids=case_id)
STEPS = 8


@pytest.fixture
def counted_in_float64():
    """The number of steps as a float64: PyTorch computes what depends on it in that dtype."""
    torch = pytest.importorskip("torch")
    for lib in (fg, torch):
        lib.set_default_dtype(lib.float64)
    yield
    for lib in (fg, torch):
        lib.set_default_dtype(lib.float32)


def tensors(lib, *values):
    return [lib.tensor(np.array(v), dtype=lib.float64).requires_grad_() for v in values]


def steps_of(case):
    """Of several steps of these PyTorch raises in backward that what one saved was changed by the next."""
    kept = "centered" in case[1] or "amsgrad" in case[1]
    return 1 if kept or case[0] in ("Adamax", "Rprop") else STEPS


def stepped(lib, case, start, grad, n=STEPS, **options):
    """A parameter after some steps, as a function of where it began and of a gradient."""
    p = start.clone()
    optimizer = getattr(lib.optim, case[0])([p], **{**case[1], "differentiable": True, **options})
    for k in range(n):
        p.grad = grad * (1 + k) * (-1 if k == 2 else 1)
        optimizer.step()
    return p, optimizer


@pytest.mark.parity
@EACH
@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_same_gradients(case, counted_in_float64):
    torch = pytest.importorskip("torch")
    found = []
    for lib in (fg, torch):
        start, grad = tensors(lib, [1.0, -2.0, 0.5], [0.3, 0.2, -0.4])
        p, optimizer = stepped(lib, case, start, grad, steps_of(case))
        (p * p).sum().backward()
        state = optimizer.state[p]
        kept = [state[name].detach().numpy() for name in sorted(state)]
        gradients = [t.grad.numpy() for t in (start, grad) if t.grad is not None]
        found.append([p.detach().numpy(), *gradients, *kept])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@EACH
def test_the_values_of_other_steps(case):
    """A recorded step computes what the kernel does."""
    start, grad = (t.detach() for t in tensors(fg, [1.0, -2.0, 0.5], [0.3, 0.2, -0.4]))
    results = [stepped(fg, case, start, grad, differentiable=flag) for flag in (True, False)]
    (first, one), (second, other) = results
    np.testing.assert_allclose(first.numpy(), second.numpy(), rtol=1e-12)
    assert one.state[first].keys() == other.state[second].keys()
    for name, value in one.state[first].items():
        np.testing.assert_allclose(value.numpy(), other.state[second][name].numpy(), rtol=1e-12)


@pytest.mark.parametrize("case", [c for c in CASES if c[0] not in ("Rprop", "SGD")], ids=case_id)
def test_against_differences(case):
    def function(start, grad):
        return stepped(fg, case, start, grad)[0]

    assert fg.autograd.gradcheck(function, tensors(fg, [1.0, -2.0], [0.3, -0.4]), atol=1e-4)


@pytest.mark.parity
@pytest.mark.parametrize(
    "case", [("SGD", {}), ("SGD", {"momentum": 0.9}), ("Adam", {}), ("AdamW", {})], ids=case_id
)
@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_gradients_of_rates(case, counted_in_float64):
    torch = pytest.importorskip("torch")
    found = []
    for lib in (fg, torch):
        start, grad, lr = tensors(lib, [1.0, -2.0, 0.5], [0.3, 0.2, -0.4], 0.1)
        p, _ = stepped(lib, case, start, grad.detach(), 1 if "momentum" in case[1] else STEPS, lr=lr)
        (p * p).sum().backward()
        found.append([p.detach().numpy(), lr.grad.numpy(), start.grad.numpy()])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)


@EACH
def test_leaves_that_require_gradients_are_refused(lib, case):
    p = lib.ones(2, requires_grad=True)
    optimizer = getattr(lib.optim, case[0])([p], **case[1], differentiable=True)
    p.grad = lib.ones(2)
    with pytest.raises(RuntimeError, match="leaf"):
        optimizer.step()


def test_parameters_may_be_no_leaves(lib):
    p = lib.ones(2, requires_grad=True) * 2
    lib.optim.SGD([p], differentiable=True)
    with pytest.raises(ValueError, match="non-leaf"):
        lib.optim.SGD([p])
