"""Weight normalization by a forward pre-hook, on both libraries."""

from __future__ import annotations

import copy
import pickle
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fastgrad as fg
from fastgrad.nn.utils.weight_norm import WeightNorm


@pytest.fixture(params=["fastgrad", pytest.param("torch", marks=pytest.mark.parity)])
def lib(request: pytest.FixtureRequest) -> ModuleType:
    return pytest.importorskip(request.param)


def scale(lib: ModuleType, *sizes: int) -> Any:
    class Scale(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            values = np.sin(np.arange(1.0, 1 + np.prod(sizes))).reshape(sizes)
            self.weight = lib.nn.Parameter(lib.tensor(values))

        def forward(self, x: Any) -> Any:
            return x * self.weight

    return Scale()


def normalized(lib: ModuleType, module: Any, *args: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PyTorch has a newer form
        return lib.nn.utils.weight_norm(module, *args, **options)


CASES = [
    ((4, 3), {}),
    ((4, 3), {"dim": 1}),
    ((4, 3), {"dim": None}),
    ((2, 3, 4), {"dim": 2}),
    ((2, 3, 4), {}),
    ((5,), {}),
]


@pytest.mark.parametrize(("sizes", "options"), CASES)
def test_values_and_gradients(lib: ModuleType, sizes: tuple, options: dict):
    module = scale(lib, *sizes)
    weight = module.weight.detach().numpy().copy()
    assert normalized(lib, module, **options) is module
    assert [name for name, _ in module.named_parameters()] == ["weight_g", "weight_v"]
    np.testing.assert_allclose(module.weight.detach().numpy(), weight, rtol=1e-14)
    dim = options.get("dim", 0)
    others = tuple(d for d in range(len(sizes)) if d != dim)
    norms = np.sqrt((weight**2).sum(others or None, keepdims=True) if others else weight**2)
    assert module.weight_g.shape == (() if dim is None else norms.shape)
    np.testing.assert_allclose(module.weight_g.detach().numpy().ravel(), norms.ravel(), rtol=1e-14)
    with lib.no_grad():
        module.weight_g.mul_(2)
    x = lib.ones(*sizes, dtype=lib.float64)
    y = module(x * x.cumsum(0))
    np.testing.assert_allclose(y.detach().numpy(), 2 * weight * x.cumsum(0).numpy(), rtol=1e-14)


@pytest.mark.parity
@pytest.mark.parametrize(("sizes", "options"), CASES)
def test_gradients_are_those_of_pytorch(sizes: tuple, options: dict):
    def gradients(lib: ModuleType) -> list[np.ndarray]:
        module = normalized(lib, scale(lib, *sizes), **options)
        x = lib.ones(*sizes, dtype=lib.float64).cumsum(0).requires_grad_()
        inputs = [x, module.weight_g, module.weight_v]
        return [g.numpy() for g in lib.autograd.grad((module(x) ** 2).sum(), inputs)]

    for ours, theirs in zip(gradients(fg), gradients(pytest.importorskip("torch")), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12, strict=True)


@pytest.mark.parametrize(("sizes", "options"), CASES)
def test_second_derivatives(sizes: tuple, options: dict):
    """PyTorch 2.13's are wrong where the weight has more than one length: its own gradgradcheck fails."""
    hook = WeightNorm("weight", options.get("dim", 0))
    start = normalized(fg, scale(fg, *sizes), **options)

    def weight(g: Any, v: Any) -> Any:
        module = fg.nn.Module()
        module.weight_g, module.weight_v = g, v
        return hook.compute_weight(module)

    inputs = [t.detach().requires_grad_() for t in (start.weight_g, start.weight_v)]
    assert fg.autograd.gradgradcheck(weight, inputs)


def test_removing(lib: ModuleType):
    module = normalized(lib, scale(lib, 4, 3))
    with lib.no_grad():
        module.weight_g.mul_(3)
    expected = module(lib.ones(3, dtype=lib.float64)).tolist()
    assert lib.nn.utils.remove_weight_norm(module) is module
    assert [name for name, _ in module.named_parameters()] == ["weight"]
    assert module(lib.ones(3, dtype=lib.float64)).tolist() == expected
    assert not module._forward_pre_hooks
    with pytest.raises(ValueError, match="weight_norm of 'weight' not found in Scale"):
        lib.nn.utils.remove_weight_norm(module)


def test_twice_and_another_name(lib: ModuleType):
    module = scale(lib, 4, 3)
    module.other = lib.nn.Parameter(lib.ones(2, 2))
    normalized(lib, module, "other")
    normalized(lib, module)
    with pytest.raises(
        RuntimeError, match="Cannot register two weight_norm hooks on the same parameter weight"
    ):
        normalized(lib, module)
    lib.nn.utils.remove_weight_norm(module, "other")
    assert sorted(name for name, _ in module.named_parameters()) == ["other", "weight_g", "weight_v"]


def test_state_dicts(lib: ModuleType):
    module, other = normalized(lib, scale(lib, 4, 3)), normalized(lib, scale(lib, 4, 3))
    with lib.no_grad():
        module.weight_v.add_(1)
    other.load_state_dict(module.state_dict())
    x = lib.ones(3, dtype=lib.float64)
    assert other(x).tolist() == module(x).tolist()


def test_the_hook_can_be_copied_and_pickled():
    for hook in (copy.deepcopy(WeightNorm("a", None)), pickle.loads(pickle.dumps(WeightNorm("a", None)))):
        assert (hook.name, hook.dim) == ("a", -1)


@pytest.mark.parametrize("dim", [2, -3])
def test_a_dimension_that_the_weight_lacks(dim: int):
    module = fg.nn.Linear(3, 4)
    with pytest.raises(IndexError, match="Dimension out of range"):
        fg.nn.utils.parametrizations.weight_norm(module, dim=dim)
    with pytest.warns(FutureWarning), pytest.raises(IndexError, match="Dimension out of range"):
        fg.nn.utils.weight_norm(module, dim=dim)
    assert [name for name, _ in module.named_parameters()] == ["weight", "bias"]
