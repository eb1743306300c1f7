"""Pruning, on both libraries."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fastgrad as fg


@pytest.fixture
def prune(lib: ModuleType) -> ModuleType:
    return importlib.import_module(f"{lib.__name__}.nn.utils.prune")


def layer(lib: ModuleType, *sizes: int) -> Any:
    sizes = sizes or (4, 3)
    made = lib.nn.Linear(3, 4)
    made.weight = lib.nn.Parameter(lib.tensor(np.sin(np.arange(1.0, 1 + np.prod(sizes))).reshape(sizes)))
    return made


def modes(lib: ModuleType, prune: ModuleType) -> dict[str, Any]:
    scores = lib.tensor(np.cos(np.arange(12.0)).reshape(4, 3))
    mask = lib.tensor(np.arange(12).reshape(4, 3) % 3 != 1)
    return {
        "identity": lambda m: prune.identity(m, "weight"),
        "l1": lambda m: prune.l1_unstructured(m, "weight", 3),
        "l1 part": lambda m: prune.l1_unstructured(m, "weight", 0.3),
        "l1 none": lambda m: prune.l1_unstructured(m, "weight", 0),
        "l1 scores": lambda m: prune.l1_unstructured(m, "weight", 0.5, importance_scores=scores),
        "ln": lambda m: prune.ln_structured(m, "weight", 1, 2, 0),
        "ln inf": lambda m: prune.ln_structured(m, "weight", 0.5, float("-inf"), 1),
        "ln scores": lambda m: prune.ln_structured(m, "weight", 2, 1, -2, importance_scores=scores),
        "mask": lambda m: prune.custom_from_mask(m, "weight", mask),
    }


MODES = ["identity", "l1", "l1 part", "l1 none", "l1 scores", "ln", "ln inf", "ln scores", "mask"]


@pytest.mark.parity
def test_masks_and_gradients_as_torch():
    torch = pytest.importorskip("torch")
    for first in MODES:
        for second in (None, *MODES):
            found = []
            for lib in (torch, fg):
                ways = modes(lib, importlib.import_module(f"{lib.__name__}.nn.utils.prune"))
                module = ways[first](layer(lib))
                if second is not None:
                    assert ways[second](module) is module
                (module.weight**2).sum().backward()
                (hook,) = module._forward_pre_hooks.values()
                found.append(
                    (
                        list(module.state_dict()), [n for n, _ in module.named_parameters()], type(hook).__name__,
                        module.weight_mask.tolist(), module.weight.tolist(), module.weight_orig.grad.tolist(),
                        str(module.weight_mask.dtype).split(".")[1],
                    )
                )  # fmt: skip
            assert found[0] == found[1], (first, second)


def test_random_masks(lib: ModuleType, prune: ModuleType):
    module = prune.random_unstructured(layer(lib), "weight", 5)
    assert module.weight_mask.sum().item() == 7
    module = prune.random_structured(layer(lib), "weight", 2, dim=0)
    rows = module.weight_mask.sum(1).tolist()
    assert sorted(rows) == [0, 0, 3, 3]
    prune.random_structured(module, "weight", 1, dim=1)
    assert module.weight_mask.sum().item() == 4
    prune.random_unstructured(module, "weight", 0.5)
    assert module.weight_mask.sum().item() == 2
    container = next(iter(module._forward_pre_hooks.values()))
    assert [type(m).__name__ for m in container] == [
        "RandomStructured",
        "RandomStructured",
        "RandomUnstructured",
    ]
    assert len(container) == 3
    assert container[0].dim == 0


def test_calls_compute_the_weight(lib: ModuleType, prune: ModuleType):
    module = prune.custom_from_mask(lib.nn.Linear(3, 2), "weight", lib.tensor([[1, 0, 1], [0, 1, 0]]))
    with lib.no_grad():
        module.weight_orig.fill_(2.0)
        module.bias.zero_()
    assert module(lib.ones(3)).tolist() == [4.0, 2.0]
    assert module.weight.tolist() == [[2.0, 0.0, 2.0], [0.0, 2.0, 0.0]]
    original = module.weight_orig
    assert prune.is_pruned(lib.nn.Sequential(module))
    assert prune.remove(module, "weight") is module
    assert module.weight is original
    assert module.weight.tolist() == [[2.0, 0.0, 2.0], [0.0, 2.0, 0.0]]
    assert list(module.state_dict()) == ["bias", "weight"]
    assert not prune.is_pruned(module)
    with pytest.raises(ValueError, match="has to be pruned"):
        prune.remove(module, "weight")


def test_several_parameters_as_one(lib: ModuleType, prune: ModuleType):
    a, b = layer(lib), layer(lib, 2, 5)
    with lib.no_grad():
        b.weight.mul_(10)
    listed = [(a, "weight"), (b, "weight")]
    prune.global_unstructured(listed, prune.L1Unstructured, amount=11)
    assert a.weight_mask.sum().item() + b.weight_mask.sum().item() == 11
    assert b.weight_mask.sum().item() > 8
    prune.global_unstructured(iter(listed) if lib is fg else listed, prune.L1Unstructured, amount=0.5)
    assert a.weight_mask.sum().item() + b.weight_mask.sum().item() in (5, 6)
    c = layer(lib)
    scores = {(c, "weight"): lib.tensor(np.arange(12.0).reshape(4, 3))}
    prune.global_unstructured([(c, "weight")], prune.L1Unstructured, importance_scores=scores, amount=4)
    assert c.weight_mask.flatten().tolist() == [0.0] * 4 + [1.0] * 8


def test_methods_of_ones_own(lib: ModuleType, prune: ModuleType):
    class EverySecond(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t: Any, default_mask: Any) -> Any:
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    module = layer(lib)
    EverySecond.apply(module, "weight")
    assert module.weight_mask.flatten().tolist() == [0.0, 1.0] * 6
    EverySecond.apply(module, "weight")
    assert module.weight_mask.flatten().tolist() == [0.0, 0.0, 0.0, 1.0] * 3
    x = lib.ones(2, 2)
    assert EverySecond().prune(x).tolist() == [[0.0, 1.0], [0.0, 1.0]]
    assert EverySecond().prune(x, default_mask=lib.zeros(2, 2)).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    with pytest.raises(AssertionError, match="same shape"):
        EverySecond().prune(x, importance_scores=lib.ones(3))


BAD: dict[str, tuple[type[Exception], str, Any]] = {
    "amount": (TypeError, "Must be int or float", lambda p, m: p.l1_unstructured(m, "weight", "3")),
    "negative": (ValueError, "range", lambda p, m: p.l1_unstructured(m, "weight", -1)),
    "fraction": (ValueError, "range", lambda p, m: p.random_unstructured(m, "weight", 1.5)),
    "too many": (ValueError, "smaller than", lambda p, m: p.random_unstructured(m, "weight", 13)),
    "too many rows": (ValueError, "smaller than", lambda p, m: p.random_structured(m, "weight", 5, 0)),
    "dim": (IndexError, "Invalid index 2", lambda p, m: p.ln_structured(m, "weight", 1, 2, 2)),
    "vector": (ValueError, "multidimensional", lambda p, m: p.random_structured(m, "bias", 1, 0)),
    "mask": (AssertionError, "must match", lambda p, m: p.custom_from_mask(m, "weight", m.bias)),
    "scores": (AssertionError, "same shape", lambda p, m: p.l1_unstructured(m, "weight", 1, m.bias)),
    "name": (AttributeError, "nothing", lambda p, m: p.identity(m, "nothing")),
    "iterable": (TypeError, "Iterable", lambda p, m: p.global_unstructured(3, p.L1Unstructured, amount=1)),
    "dict": (TypeError, "dict", lambda p, m: p.global_unstructured([(m, "weight")], p.L1Unstructured, [], amount=1)),
    "structured": (
        TypeError, "unstructured", lambda p, m: p.global_unstructured([(m, "weight")], p.LnStructured, amount=1, n=1)
    ),
    "abstract": (TypeError, "abstract", lambda p, m: p.BasePruningMethod()),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input(lib: ModuleType, prune: ModuleType, case: str):
    kind, text, call = BAD[case]
    module = layer(lib)
    before = list(module.state_dict())
    with pytest.raises(kind, match=text):
        call(prune, module)
    assert list(module.state_dict()) in (before, ["bias", "weight"])
    assert not module._forward_pre_hooks


def test_what_fails_leaves_the_pruning_there_was():
    """PyTorch has removed the hook by then."""
    p, module = fg.nn.utils.prune, layer(fg)
    p.l1_unstructured(module, "weight", 3)
    with pytest.raises(ValueError, match="smaller than"):
        p.random_unstructured(module, "weight", 100)
    assert len(module._forward_pre_hooks) == 1
    assert p.is_pruned(module)
    for bad in (None, 3, fg.ones(2)):
        with pytest.raises(TypeError, match="must be Module"):
            p.identity(bad, "weight")


def test_containers(lib: ModuleType, prune: ModuleType):
    first = prune.L1Unstructured(1)
    first._tensor_name = "weight"
    container = prune.PruningContainer(first)
    with pytest.raises(TypeError, match="not a BasePruningMethod"):
        container.add_pruning_method(3)
    other = prune.L1Unstructured(1)
    other._tensor_name = "bias"
    with pytest.raises(ValueError, match="named 'weight'"):
        container.add_pruning_method(other)
