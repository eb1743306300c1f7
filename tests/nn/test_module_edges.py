"""Sizes and arguments at the edge of what layers take: in fastgrad and in PyTorch the same."""

from __future__ import annotations

import importlib
from collections import OrderedDict
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import fastgrad as fg


@pytest.mark.parametrize("kind", ["RNNCell", "GRUCell", "LSTMCell"])
def test_states_of_cells(lib: ModuleType, kind: str):
    """A batch of states with a batch of inputs, and one state with one input."""
    cell = getattr(lib.nn, kind)(4, 3)

    def call(x: Any, h: Any) -> Any:
        state = lib.zeros(*h)
        out = cell(lib.zeros(*x), (state, state) if kind == "LSTMCell" else state)
        return tuple((out[0] if kind == "LSTMCell" else out).shape)

    assert call((4,), (3,)) == (3,)
    assert call((2, 4), (2, 3)) == (2, 3)
    for x, h in (
        ((4,), (1, 3)),
        ((4,), (2, 3)),
        ((2, 4), (3,)),
        ((1, 4), (3,)),
        ((2, 4), (1, 3)),
        ((4,), (5,)),
    ):
        with pytest.raises(RuntimeError):
            call(x, h)


@pytest.mark.parametrize(("rank", "sizes"), [(1, (0, 3, 4)), (2, (0, 3, 4, 4)), (1, (0, 4))])
def test_adaptive_pooling_of_nothing(lib: ModuleType, rank: int, sizes: tuple[int, ...]):
    x = lib.zeros(sizes, requires_grad=True)
    y = getattr(lib.nn, f"AdaptiveAvgPool{rank}d")(2)(x)
    assert tuple(y.shape) == (*sizes[:-rank], *[2] * rank)
    y.sum().backward()
    assert x.grad.shape == x.shape


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_transformer_layer_on_an_empty_batch(lib: ModuleType, batch_first: bool, training: bool):
    layer = lib.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=batch_first).train(training)
    x = lib.zeros((0, 3, 4) if batch_first else (3, 0, 4), requires_grad=True)
    y = layer(x)
    assert y.shape == x.shape
    y.sum().backward()
    assert x.grad.shape == x.shape


def test_label_smoothing_out_of_range(lib: ModuleType):
    logits = lib.zeros(2, 3)
    for target in (lib.tensor([0, 1]), lib.softmax(logits, 1)):
        for reduction in ("mean", "none"):
            with pytest.raises(RuntimeError, match=r"label_smoothing must be between 0\.0 and 1\.0"):
                lib.nn.functional.cross_entropy(logits, target, label_smoothing=1.2, reduction=reduction)


GLOBAL_HOOKS = {
    "_global_forward_pre_hooks": 1, "_global_forward_hooks": 1, "_global_backward_pre_hooks": 1,
    "_global_backward_hooks": 1,
    "_global_parameter_registration_hooks": 2, "_global_buffer_registration_hooks": 3,
    "_global_module_registration_hooks": 1,
}  # fmt: skip
"""How often hooks of all modules are called by what `exercise` does, by the name of their dict."""


def exercise(lib: ModuleType) -> None:
    lib.nn.Linear(1, 1)(lib.ones(1, 1, requires_grad=True)).sum().backward()
    lib.nn.BatchNorm1d(1, affine=False)
    lib.nn.Sequential(lib.nn.ReLU())


@pytest.mark.parametrize("name", GLOBAL_HOOKS)
def test_dicts_of_hooks_of_all_modules_can_be_set(
    lib: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str
):
    modules = importlib.import_module(f"{lib.__name__}.nn.modules.module")
    called = []
    hooks = OrderedDict()
    monkeypatch.setattr(modules, "_global_is_full_backward_hook", True)
    with monkeypatch.context() as patch:
        patch.setattr(modules, name, hooks)
        assert getattr(modules, name) is hooks
        exercise(lib)
        hooks[1] = lambda *args: called.append(args)
        exercise(lib)
        assert len(called) == GLOBAL_HOOKS[name]
        if name == "_global_forward_hooks":
            with modules.register_module_forward_hook(lambda *args: called.append(args)) as handle:
                assert list(hooks) == [1, handle.id]
                exercise(lib)
            assert len(called) == 3
        called.clear()
    exercise(lib)
    assert called == []


def test_only_dicts_of_hooks_can_be_set(monkeypatch: pytest.MonkeyPatch):
    modules = importlib.import_module("fastgrad.nn.modules.module")
    with pytest.raises(TypeError, match="_global_forward_hooks must be a dict of hooks, not list"):
        modules._global_forward_hooks = []
    with pytest.raises(TypeError, match="_global_is_full_backward_hook must be a bool or None, not int"):
        modules._global_is_full_backward_hook = 1
    monkeypatch.setattr(modules, "something_else", 5, raising=False)
    assert modules.something_else == 5
    assert not modules.hooks_.CALL_HOOKS


class LongTuple(tuple):
    """Tells more than it has."""

    __slots__ = ()

    def __len__(self) -> int:
        return tuple.__len__(self) + 1


class EmptyHanded(tuple):
    """Iterates over nothing."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return iter(())


def answered(lib: ModuleType, kind: type, values: int, pre: bool) -> Any:
    """The gradient of the input of a module whose backward hook answers with a tuple of a class."""
    module = lib.nn.ReLU()
    if pre:
        module.register_full_backward_pre_hook(lambda module, grads: kind([grads[0] * 3] * values))
    else:
        module.register_full_backward_hook(lambda module, grads, _: kind([grads[0] * 3] * values))
    x = lib.ones(2, requires_grad=True)
    module(x).sum().backward()
    return x.grad.tolist()


@pytest.mark.parametrize("pre", [False, True])
def test_what_a_hook_returns_is_what_its_tuple_holds(lib: ModuleType, pre: bool):
    assert answered(lib, EmptyHanded, 1, pre) == [3.0, 3.0]
    with pytest.raises(RuntimeError, match=r"invalid number of grad_(in|out)put, got 2, but expected 1"):
        answered(lib, LongTuple, 1, pre)


@pytest.mark.parametrize("pre", [False, True])
def test_a_tuple_that_lacks_what_it_tells_is_refused(pre: bool):
    with pytest.raises(RuntimeError, match=r"invalid number of grad_(in|out)put, got 0, but expected 1"):
        answered(fg, LongTuple, 0, pre)


@pytest.mark.parametrize("prefix", [5, None, {}, [], b"a.", ("a",)])
def test_a_prefix_is_text(lib: Any, prefix: Any):
    with pytest.raises(TypeError):
        lib.nn.Linear(2, 2).state_dict(prefix=prefix)


def test_names_of_a_module_that_was_never_made(nn: Any):
    half = nn.Module.__new__(nn.Module)
    with pytest.raises(AttributeError, match="no attribute '_parameters'"):
        del half.x


@pytest.mark.parametrize("key", [1, None, b"weight"])
def test_keys_of_a_state_dict_are_texts(key: Any):
    with pytest.raises(
        TypeError, match=r"load_state_dict\(\): argument 'a key of state_dict' .* must be str"
    ):
        fg.nn.Linear(2, 2).load_state_dict({key: fg.ones(1)}, strict=False)
