"""The sentences of docs/module_hooks.md, tests for each number: containers, and what else hooks leave as it is."""

from __future__ import annotations

import dataclasses
import importlib
from collections import OrderedDict
from typing import Any

import pytest

import fastgrad as fg


def say(log: list[Any], what: Any) -> Any:
    return lambda *args: log.append(what)


@dataclasses.dataclass(frozen=True)
class Output:
    value: Any
    extra: Any = None


def plain(value: Any) -> Any:
    """Gradients as lists of numbers."""
    if isinstance(value, fg.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(plain(v) for v in value)
    return Output(plain(value.value), plain(value.extra)) if isinstance(value, Output) else value


def fg_module(forward: Any) -> Any:
    m = fg.nn.Module()
    m.forward = forward
    return m


def leaf(n: int = 1) -> Any:
    return fg.ones(n, requires_grad=True)


def test_m28_containers():
    seen = []

    def run(forward, loss, *args):
        m = fg_module(forward)
        m.register_full_backward_hook(lambda m, gi, go: seen.append(plain((gi, go))), containers=True)
        m.register_full_backward_pre_hook(lambda m, go: seen.append(plain(go)), containers=True)
        loss(m(*args)).backward()

    x, y = leaf(), leaf()
    run(lambda x: (x, (x * 2, [1, 2])), lambda o: o[0] + o[1][0], x)
    assert seen == [([1.0], ([1.0], None)), (([3.0],), ([1.0], ([1.0], None)))]
    seen.clear()
    run(lambda x, d, c: x * d["y"][0] * d["z"], lambda o: o, x, {"y": [y, fg.ones(1)], "z": 3}, {"k": 1})
    assert seen == [([1.0],), (([3.0], {"y": [[3.0], None], "z": None}, None), ([1.0],))]
    seen.clear()
    run(lambda pair: pair[0] * pair[1], lambda o: o, [x, y])
    assert seen == [([1.0],), (([[1.0], [1.0]],), ([1.0],))]


def test_m28_beside_a_hook_without():
    """Hooks that did not ask see None, and what they return for a container does not matter."""
    seen = []
    m, x, y = fg_module(lambda x, ys: (x * ys[0], [x * ys[1]])), leaf(), leaf()
    m.register_full_backward_hook(lambda m, gi, go: (seen.append(plain((gi, go))), (gi[0] * 10, 5))[1])
    m.register_full_backward_hook(
        lambda m, gi, go: (seen.append(plain((gi, go))), (gi[0], [g * 2 for g in gi[1]]))[1], containers=True
    )
    m.register_full_backward_pre_hook(lambda m, go: seen.append(plain(go)))
    out = m(x, [y, y])
    (out[0] + out[1][0] * 3).backward()
    assert seen == [
        ([1.0], None),
        (([4.0], None), ([1.0], None)),
        (([40.0], [[1.0], [3.0]]), ([1.0], [[3.0]])),
    ]
    assert (x.grad.tolist(), y.grad.tolist()) == ([40.0], [8.0])


def test_m28_everywhere():
    """Hooks of all modules may ask for it, and removing one takes the wish with it."""
    seen = []
    m = fg_module(lambda xs: (xs[0] * 2, [xs[0]]))
    module = importlib.import_module("fastgrad.nn.modules.module")
    with (
        module.register_module_full_backward_hook(
            lambda m, gi, go: seen.append(plain((gi, go))), containers=True
        ),
        module.register_module_full_backward_pre_hook(lambda m, go: seen.append(plain(go)), containers=True),
    ):
        out = m([leaf()])
        (out[0] + out[1][0]).backward()
    assert seen == [([1.0], [[1.0]]), (([[3.0]],), ([1.0], [[1.0]]))]
    handle = m.register_full_backward_hook(print, containers=True)
    assert handle.id in m._backward_hooks_with_containers
    handle.remove()
    assert not m._backward_hooks_with_containers


def test_m29_the_output_is_a_container():
    seen = []

    def run(forward, loss):
        m = fg_module(forward)
        m.register_full_backward_hook(lambda m, gi, go: seen.append(plain(go)))
        out = m(leaf())
        loss(out).backward()
        return out

    out = run(lambda x: {"a": x * 2, "n": 1, "b": [x * 3, "s"]}, lambda o: o["a"] + o["b"][0] * 4)
    assert seen.pop() == ({"a": [1.0], "n": None, "b": [[4.0], None]},)
    assert out["n"] == 1
    assert out["b"][1] == "s"
    run(lambda x: [x * 2, x * 3], lambda o: o[0])
    assert seen.pop() == ([[1.0], None],)
    out = run(lambda x: Output(x * 2, extra={"k": x}), lambda o: o.value + o.extra["k"] * 2)
    assert seen.pop() == (Output([1.0], {"k": [2.0]}),)
    assert type(out) is Output
    out = run(lambda x: OrderedDict(a=x), lambda o: o["a"])
    assert type(out) is OrderedDict


def test_m30_replacing():
    def run(hook):
        y, x = leaf(), leaf()
        m = fg_module(lambda x, d: x * d["y"] * d["z"][0])
        m.register_full_backward_hook(hook, containers=True)
        m(x, {"y": y, "z": [2, 3]}).backward()
        return x.grad.tolist(), None if y.grad is None else y.grad.tolist()

    assert run(lambda m, gi, go: (gi[0], {"y": gi[1]["y"] * 10})) == ([2.0], [20.0])
    assert run(lambda m, gi, go: (gi[0], None)) == ([2.0], None)
    assert run(lambda m, gi, go: (gi[0], {**gi[1], "y": None})) == ([2.0], None)
    for wrong in (5, [1], {}, {"y": None, "q": None}, leaf()):
        with pytest.raises(RuntimeError, match=r"'dict' of 2: what replaces it must have the same form"):
            run(lambda m, gi, go, wrong=wrong: (gi[0], wrong))
    with pytest.raises(RuntimeError, match="has changed the size of value"):
        run(lambda m, gi, go: (gi[0], {"y": fg.ones(3)}))
    m = fg_module(lambda pair: pair[0] * 2)
    m.register_full_backward_hook(lambda m, gi, go: ([go[0], go[0]],), containers=True)
    with pytest.raises(RuntimeError, match="can't replace a None gradient with a non-None value"):
        m([leaf(), leaf()]).backward()


def test_m31_containers_are_copied():
    x, y = leaf(), leaf()
    given, config, kept = {"x": x}, {"k": 1}, []
    seen = []
    m = fg_module(lambda d, c: (seen.append((d, c)), kept.append([d["x"] * 2, c]), kept[0])[2])
    m.register_full_backward_hook(lambda *a: None, containers=True)
    out = m(given, config)
    assert given["x"] is x
    ((d, c),) = seen
    assert d is not given
    assert c is config
    assert out is not kept[0]
    assert out[1] is config
    assert m.forward is not None
    cycle = [y]
    cycle.append(cycle)
    m = fg_module(lambda v: v[0] * 2)
    m.register_full_backward_hook(lambda *a: None, containers=True)
    m(cycle).backward()
    assert y.grad.tolist() == [2.0]
    cycle.clear()


def test_m32_other_outputs(module, ones):
    log: list[str] = []
    m = module(lambda x: iter([x]))
    m.register_full_backward_hook(say(log, "backward"))
    with pytest.warns(UserWarning, match="For backward hooks to be called, module output should be a Tensor"):
        (y,) = m(ones())
    y.sum().backward()
    assert log == []


def test_m33_in_place():
    seen = []
    for hooked in (False, True):
        m, x = fg_module(lambda x: x.mul_(3)), leaf(2)
        if hooked:
            m.register_full_backward_hook(lambda m, gi, go: seen.append(plain((gi, go))))
        y = m(x * 1)
        y.mul_(2)
        y.sum().backward()
        assert x.grad.tolist() == [6.0, 6.0]
    assert seen == [(([6.0, 6.0],), ([2.0, 2.0],))]
