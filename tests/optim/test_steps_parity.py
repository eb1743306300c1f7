"""Optimizers over twenty steps, in fastgrad and in PyTorch: parameters and state agree, over all options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from optim_cases import CASES, ONE_OF_EACH, arrays, case_id, parameters, set_gradients, trained

import fastgrad as fg

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

TOLERANCE = {"float64": {"rtol": 1e-11, "atol": 1e-13}, "float32": {"rtol": 2e-5, "atol": 2e-6}}


def assert_same_state(ours: Any, theirs: Any, **tolerance: float) -> None:
    """State dicts with the same keys, dtypes and values."""
    assert list(ours["state"]) == list(theirs["state"])
    for key, expected in theirs["state"].items():
        got = ours["state"][key]
        assert set(got) == set(expected)
        for name, value in expected.items():
            assert str(got[name].dtype).rpartition(".")[2] == str(value.dtype).rpartition(".")[2]
            assert tuple(got[name].shape) == tuple(value.shape)
            np.testing.assert_allclose(*arrays([got[name], value]), **tolerance)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_same_steps(case, dtype):
    params, optimizer = trained(fg, case, dtype)
    expected, reference = trained(torch, case, dtype)
    for a, b in zip(arrays(params), arrays(expected), strict=True):
        np.testing.assert_allclose(a, b, **TOLERANCE[dtype])
    ours, theirs = optimizer.state_dict(), reference.state_dict()
    assert_same_state(ours, theirs, **TOLERANCE[dtype])
    assert ours["param_groups"] == theirs["param_groups"]


@pytest.mark.parametrize("case", ONE_OF_EACH, ids=case_id)
def test_same_versions(case):
    (ours, optimizer), (theirs, reference) = trained(fg, case, "float32"), trained(torch, case, "float32")
    changed = [[p._version > 0 for p in params] for params in (ours, theirs)]
    assert changed[0] == changed[1]
    before = [p._version for p in ours]
    for lib, params in ((fg, ours), (torch, theirs)):
        set_gradients(lib, params, 0)
    optimizer.step()
    reference.step()
    assert [p._version - v for p, v in zip(ours, before, strict=True)] == [
        int(p.grad is not None) for p in ours
    ]


@pytest.mark.parametrize("case", ONE_OF_EACH, ids=case_id)
def test_lr_as_a_tensor(case):
    name, options = case
    results = []
    for lib in (fg, torch):
        params = parameters(lib, "float64")
        lr = lib.tensor(0.05, dtype=lib.float64)
        optimizer = getattr(lib.optim, name)(params, lr=lr, **options)
        for step in range(3):
            set_gradients(lib, params, step)
            optimizer.step()
            lr.mul_(0.5)
        results.append(arrays(params))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("case", ONE_OF_EACH, ids=case_id)
def test_a_state_dict_of_torch_is_taken_over(case):
    """A run that goes on from a state dict of PyTorch's ends where PyTorch's own does."""
    name, options = case
    theirs, reference = trained(torch, case, "float64")
    ours = [fg.tensor(p.detach().numpy()).requires_grad_() for p in theirs]
    optimizer = getattr(fg.optim, name)([{"params": ours[:2]}, {"params": ours[2:]}], **options)

    def converted(value):
        if isinstance(value, torch.Tensor):
            return fg.tensor(value.numpy())
        return {k: converted(v) for k, v in value.items()} if isinstance(value, dict) else value

    optimizer.load_state_dict(converted(reference.state_dict()))
    for step in range(3):
        for lib, params, o in ((fg, ours, optimizer), (torch, theirs, reference)):
            set_gradients(lib, params, step)
            o.step()
    for a, b in zip(arrays(ours), arrays(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


ERRORS = [
    ("SGD", {"lr": -1.0}), ("SGD", {"momentum": -1.0}), ("SGD", {"weight_decay": -1.0}),
    ("SGD", {"nesterov": True}), ("SGD", {"nesterov": True, "momentum": 0.9, "dampening": 0.1}),
    ("SGD", {"fused": True, "foreach": True}), ("SGD", {"fused": True, "differentiable": True}),
    ("Adam", {"lr": -1.0}), ("Adam", {"betas": (1.0, 0.9)}), ("Adam", {"betas": (0.9, -0.1)}),
    ("Adam", {"eps": -1.0}), ("Adam", {"weight_decay": -1.0}), ("Adam", {"lr": float("nan")}),
    ("AdamW", {"weight_decay": -1.0}), ("RMSprop", {"alpha": -1.0}), ("RMSprop", {"momentum": -1.0}),
    ("Adadelta", {"rho": 1.5}), ("Adadelta", {"eps": -1.0}), ("Adamax", {"betas": (0.9, 1.0)}),
    ("ASGD", {"weight_decay": -1.0}), ("ASGD", {"lr": -1.0}), ("NAdam", {"momentum_decay": -1.0}),
    ("RAdam", {"betas": (-0.1, 0.9)}), ("Rprop", {"etas": (1.5, 1.2)}), ("Rprop", {"etas": (0.5, 0.9)}),
    ("Adafactor", {"beta2_decay": 0.5}), ("Adafactor", {"d": 0.5}), ("Adafactor", {"eps": (-1.0, 0.1)}),
    ("Adafactor", {"eps": (None, -0.1)}), ("Muon", {}), ("Muon", {"adjust_lr_fn": "other"}), ("LBFGS", {"lr": -1.0}),
    ("Adagrad", {"lr_decay": -1.0}), ("Adagrad", {"initial_accumulator_value": -1.0}),
]  # fmt: skip


@pytest.mark.parametrize("case", ERRORS, ids=case_id)
def test_same_errors(case):
    name, options = case
    kinds = []
    for lib in (fg, torch):
        with pytest.raises((ValueError, RuntimeError)) as error:
            getattr(lib.optim, name)(parameters(lib, "float32"), **options)
        kinds.append(error.type)
        text = str(error.value)
    assert kinds[0] is kinds[1], text
