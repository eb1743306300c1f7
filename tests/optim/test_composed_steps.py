"""Optimizers that are composed of ops of tensors: Adafactor, Muon and L-BFGS, beside PyTorch's."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from optim_cases import arrays, case_id

import fastgrad as fg

ADAFACTOR = [
    {}, {"weight_decay": 0.1}, {"maximize": True}, {"lr": 0.1, "beta2_decay": -0.5, "eps": (1e-3, 1e-2), "d": 2.0},
]  # fmt: skip
MUON = [{}, {"lr": 0.1, "nesterov": False}, {"adjust_lr_fn": "match_rms_adamw", "momentum": 0.5}, {"ns_steps": 2},
        {"weight_decay": 0.0, "adjust_lr_fn": "original"}]  # fmt: skip
LBFGS = [
    {}, {"lr": 0.3, "history_size": 3}, {"line_search_fn": "strong_wolfe"}, {"max_iter": 4}, {"max_eval": 5},
    {"line_search_fn": "strong_wolfe", "history_size": 2, "lr": 0.5}, {"tolerance_change": 1e-3},
    {"line_search_fn": "strong_wolfe", "max_eval": 7}, {"lr": 20.0, "line_search_fn": "strong_wolfe"},
]  # fmt: skip


def trained(lib: Any, name: str, options: Any, shapes: Any, steps: int = 12, dtype: str = "float64") -> Any:
    rng = np.random.default_rng(0)
    params = [lib.tensor(rng.standard_normal(s).astype(dtype)).requires_grad_() for s in shapes]
    optimizer = getattr(lib.optim, name)(params, **options)
    go_on(lib, optimizer, params, range(steps))
    return params, optimizer


def go_on(lib: Any, optimizer: Any, params: Any, steps: Any) -> None:
    for step in steps:
        rng = np.random.default_rng(step)
        for k, p in enumerate(params):
            values = np.asarray(rng.standard_normal(tuple(p.shape)))
            p.grad = None if (step + k) % 7 == 3 else lib.tensor(values).to(p.dtype)
        optimizer.step()


def assert_same_states(ours: Any, theirs: Any, **tolerance: float) -> None:
    assert ours["param_groups"] == theirs["param_groups"]
    assert ours["state"].keys() == theirs["state"].keys()
    for key, state in theirs["state"].items():
        assert ours["state"][key].keys() == state.keys()
        for name, value in state.items():
            for a, b in zip(_flat(ours["state"][key][name]), _flat(value), strict=True):
                np.testing.assert_allclose(a, b, err_msg=name, **tolerance)


def _flat(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [x for item in value for x in _flat(item)]
    return [] if value is None else [np.asarray(value.tolist() if hasattr(value, "tolist") else value)]


@pytest.mark.parity
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("options", ADAFACTOR, ids=str)
def test_adafactor(options, dtype):
    torch = pytest.importorskip("torch")
    shapes = ((3, 4), (5,), (), (2, 3, 4), (1, 6))
    results = [trained(lib, "Adafactor", options, shapes, dtype=dtype) for lib in (fg, torch)]
    tolerance = {"rtol": 1e-10} if dtype == "float64" else {"rtol": 1e-4, "atol": 1e-6}
    for a, b in zip(*(arrays(params) for params, _ in results), strict=True):
        np.testing.assert_allclose(a, b, **tolerance)
    assert_same_states(*(optimizer.state_dict() for _, optimizer in results), **tolerance)


@pytest.mark.parity
@pytest.mark.parametrize("options", MUON, ids=str)
def test_muon(options):
    """Products in bfloat16 are rounded in other places: the last bits of that are left open."""
    torch = pytest.importorskip("torch")
    results = [trained(lib, "Muon", options, ((3, 4), (6, 2), (5, 5)), 4) for lib in (fg, torch)]
    for a, b in zip(*(arrays(params) for params, _ in results), strict=True):
        np.testing.assert_allclose(a, b, rtol=0.02, atol=0.03 * options.get("lr", 0.01) / 0.01)
    ours, theirs = (optimizer.state_dict() for _, optimizer in results)
    assert_same_states(ours, theirs, rtol=1e-12)


def test_muon_makes_matrices_orthogonal():
    for shape in ((4, 4), (8, 3), (3, 8)):
        w = fg.zeros(shape, requires_grad=True)
        w.grad = fg.tensor(np.random.default_rng(0).standard_normal(shape).astype("float32"))
        fg.optim.Muon([w], lr=1.0, weight_decay=0.0, ns_steps=10).step()
        scale = max(1, shape[0] / shape[1]) ** 0.5
        values = np.linalg.svd(w.detach().numpy() / scale)[1]
        assert np.all((values > 0.6) & (values < 1.3))


@pytest.mark.parametrize(
    ("options", "text"),
    [({"ns_steps": 100}, "less than 100"), ({"ns_coefficients": (1.0, 2.0)}, "exactly 3")],
)
def test_muon_refuses(lib, options, text):
    w = lib.ones(2, 2, requires_grad=True)
    w.grad = lib.ones(2, 2)
    optimizer = lib.optim.Muon([w], **options)
    with pytest.raises(ValueError, match=text):
        optimizer.step()


def minimised(lib: Any, options: Any, steps: int = 2, zeros: bool = False) -> Any:
    """Rosenbrock's function of pairs, and a parameter without gradient."""
    x = lib.tensor([-1.2, 0.7], dtype=lib.float64, requires_grad=True)
    y = lib.tensor([[1.0, 0.2]], dtype=lib.float64, requires_grad=True)
    unused = lib.ones(2, dtype=lib.float64, requires_grad=True)
    optimizer = lib.optim.LBFGS([x, unused, y], **options)
    return run(lib, optimizer, x, y, steps)


def run(lib: Any, optimizer: Any, x: Any, y: Any, steps: int) -> Any:
    def closure():
        optimizer.zero_grad()
        loss = ((1 - x) ** 2 + 5 * (y[0] - x**2) ** 2).sum()
        loss.backward()
        return loss

    losses = [float(optimizer.step(closure).detach()) for _ in range(steps)]
    return [x, y], optimizer, losses


@pytest.mark.parity
@pytest.mark.parametrize("options", LBFGS, ids=str)
def test_lbfgs(options):
    torch = pytest.importorskip("torch")
    results = [minimised(lib, options) for lib in (fg, torch)]
    for a, b in zip(*(arrays(params) for params, *_ in results), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(results[0][2], results[1][2], rtol=1e-6)
    ours, theirs = (optimizer.state_dict()["state"][0] for _, optimizer, _ in results)
    assert (ours["n_iter"], ours["func_evals"]) == (theirs["n_iter"], theirs["func_evals"])
    assert ours.keys() == theirs.keys()


def test_lbfgs_finds_the_least():
    params, _, losses = minimised(fg, {"line_search_fn": "strong_wolfe"}, 3)
    for p in params:
        np.testing.assert_allclose(p.detach().numpy(), np.ones(tuple(p.shape)), rtol=1e-4)
    assert losses[-1] < 1e-8


@pytest.mark.parametrize(
    "options", [{"max_iter": 3}, {"max_iter": 3, "line_search_fn": "strong_wolfe"}], ids=str
)
def test_lbfgs_goes_on_from_a_state_dict(options):
    straight = minimised(fg, options, 4)
    (x, y), optimizer, _ = minimised(fg, options, 2)
    file = io.BytesIO()
    fg.save(optimizer.state_dict(), file)
    file.seek(0)
    x, y = (t.detach().clone().requires_grad_() for t in (x, y))
    unused = fg.ones(2, dtype=fg.float64, requires_grad=True)
    second = fg.optim.LBFGS([x, unused, y], **options)
    second.load_state_dict(fg.load(file))
    run(fg, second, x, y, 2)
    for a, b in zip(arrays(straight[0]), arrays([x, y]), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parity
def test_lbfgs_goes_on_from_pytorchs_state_dict():
    torch = pytest.importorskip("torch")
    options = {"max_iter": 4, "line_search_fn": "strong_wolfe"}
    (x, y), reference, _ = minimised(torch, options)
    ours = [
        fg.tensor(t.detach().numpy()).requires_grad_() for t in (x, torch.ones(2, dtype=torch.float64), y)
    ]
    optimizer = fg.optim.LBFGS(ours, **options)

    def converted(value):
        if isinstance(value, torch.Tensor):
            return fg.tensor(value.numpy())
        if isinstance(value, list):
            return [converted(v) for v in value]
        return {k: converted(v) for k, v in value.items()} if isinstance(value, dict) else value

    optimizer.load_state_dict(converted(reference.state_dict()))
    run(fg, optimizer, ours[0], ours[2], 1)
    run(torch, reference, x, y, 1)
    for a, b in zip(arrays([ours[0], ours[2]]), arrays([x, y]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7)


def test_lbfgs_refuses(lib):
    w = lib.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="parameter groups"):
        lib.optim.LBFGS([{"params": [w]}, {"params": [lib.ones(1, requires_grad=True)]}])
    optimizer = lib.optim.LBFGS([w], line_search_fn="armijo")
    with pytest.raises(RuntimeError, match="strong_wolfe"):
        optimizer.step(lambda: (w * w).sum().backward() or (w * w).sum())
    with pytest.raises(TypeError):
        optimizer.step()


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
def test_lbfgs_where_the_loss_is_no_number(line_search):
    """NaN ends a step, with the parameters as numbers or not, and never hangs."""
    w = fg.tensor([1.0, -2.0], requires_grad=True)
    optimizer = fg.optim.LBFGS([w], line_search_fn=line_search, lr=1e30)

    def closure():
        optimizer.zero_grad()
        loss = (w**4).sum() * (w**4).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    optimizer.step(closure)
    assert optimizer.state[w]["n_iter"] <= 40


HOOKED = [("Adafactor", {}), ("Muon", {}), ("LBFGS", {"max_iter": 2})]


@pytest.mark.parametrize("case", HOOKED, ids=case_id)
def test_hooks(lib, case):
    log = []
    w = lib.ones(2, 2, requires_grad=True)
    optimizer = getattr(lib.optim, case[0])([w], **case[1])
    optimizer.register_step_pre_hook(lambda *args: log.append("before"))
    optimizer.register_step_post_hook(lambda *args: log.append("after"))
    optimizer.register_state_dict_post_hook(lambda o, d: d | {"more": 1})

    def closure():
        log.append("closure")
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 4.0
    assert (log[0], log[1], log[-1]) == ("before", "closure", "after")
    assert optimizer.state_dict()["more"] == 1
    assert w.grad is not None


def test_lbfgs_spreads_nan_as_other_steps_do():
    p = fg.ones(2, requires_grad=True)
    optimizer = fg.optim.LBFGS([p])
    p.grad = fg.tensor([float("nan"), 1.0])
    optimizer.step(lambda: fg.tensor(1.0))
    assert p.isnan().tolist() == [True, False]


def test_lbfgs_without_a_tolerance_stays_where_the_gradient_is_zero():
    p = fg.ones(2, requires_grad=True)
    optimizer = fg.optim.LBFGS([p], tolerance_grad=-1.0)
    p.grad = fg.zeros(2)
    optimizer.step(lambda: fg.tensor(1.0))
    assert p.tolist() == [1.0, 1.0]
