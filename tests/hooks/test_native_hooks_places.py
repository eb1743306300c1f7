"""The sentences of docs/native_hooks.md, one test for each number: where native hooks stand."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import fastgrad as fg
from fastgrad import native_hook
from fastgrad.native.host.tape import record
from tests.hooks.functions import add_one, count, double, gradient, step, triple_out


@native_hook
def at_module_level(grad):
    grad[0] = 7


# --- where it stands ---------------------------------------------------------------------------------------------


def test_n15_tensors(called_python):
    hook = native_hook(double)

    def program(hooked: bool):
        x = fg.ones(3, requires_grad=True)
        y = x * 2
        if hooked:
            x.register_hook(hook)
            y.register_hook(hook)
        y.sum().backward()
        return x.grad.tolist()

    assert program(True) == [8, 8, 8]
    assert program(False) == [2, 2, 2]
    x = fg.ones(3, requires_grad=True)
    x.register_hook(hook)
    y = x * 2
    y.register_hook(hook)
    z = y.sum()
    with_hooks = called_python(z.backward)
    z = (fg.ones(3, requires_grad=True) * 2).sum()
    assert with_hooks == called_python(z.backward)


def test_n16_order():
    log: list[Any] = []

    def python(g):
        log.append(g.tolist())
        return g * 10

    got = gradient((2,), native_hook(double), python, native_hook(add_one), python, native_hook(add_one))
    assert log == [[2, 2], [21, 21]]
    assert got.tolist() == [211, 211]
    kept: list[Any] = []
    got = gradient((2,), kept.append, native_hook(double), kept.append)
    assert [g.tolist() for g in kept] == [[1, 1], [2, 2]]
    assert got.tolist() == [2, 2]


def test_n17_nodes(called_python):
    log: list[Any] = []
    hook = native_hook(double)
    x, w = fg.ones(2, requires_grad=True), fg.full((2,), 3.0, requires_grad=True)

    def graph(*places):
        y = x * w
        node = y.grad_fn
        for place, registered in places:
            (node.register_prehook if place == "pre" else node.register_hook)(registered)
        x.grad = w.grad = None
        y.sum().backward()
        return x.grad.tolist(), w.grad.tolist()

    assert graph(("pre", hook)) == ([6, 6], [2, 2])
    assert graph(("post", hook)) == ([6, 6], [2, 2])
    assert graph(("post", hook), ("pre", hook)) == ([12, 12], [4, 4])
    assert graph(("post", hook), ("post", lambda gi, go: log.append(gi[0].tolist())), ("post", hook)) == (
        [12, 12],
        [4, 4],
    )
    assert log == [[6, 6]]
    assert graph(("pre", lambda gs: (gs[0] + 1,)), ("pre", hook)) == ([12, 12], [4, 4])
    assert graph(("pre", hook), ("pre", lambda gs: (gs[0] + 1,))) == ([9, 9], [3, 3])
    y = x * w
    y.grad_fn.register_hook(lambda gi, go: (gi[0] + 1, None))
    y.grad_fn.register_hook(hook)  # the gradient of `w` is undefined by then
    x.grad = w.grad = None
    y.sum().backward()
    assert (x.grad.tolist(), w.grad) == ([8, 8], None)
    y = x * w
    y.grad_fn.register_hook(hook)
    y.grad_fn.register_prehook(hook)
    z = y.sum()
    z.backward(retain_graph=True)
    calls = called_python(z.backward)
    z = (x * w).sum()
    assert calls == called_python(z.backward)


def test_n18_post_accumulate(called_python):
    p = fg.ones(2, requires_grad=True)
    p.register_post_accumulate_grad_hook(native_hook(double))
    (p * 3).sum().backward()
    assert p.grad.tolist() == [6, 6]
    held = p.grad
    (p * 3).sum().backward()
    assert p.grad.tolist() == [18, 18]
    assert held is p.grad
    replacing = fg.ones(2, requires_grad=True)
    replacing.register_post_accumulate_grad_hook(native_hook(triple_out, access="replace"))
    replacing.sum().backward()
    assert replacing.grad.tolist() == [3, 3]
    z = (p * 3).sum()
    calls = called_python(z.backward)
    z = (fg.ones(2, requires_grad=True) * 3).sum()
    assert calls == called_python(z.backward)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_n19_leaves(dtype: str):
    d = getattr(fg, dtype)
    state = fg.tensor([0.5])
    hook = native_hook(step, state, access="leaf")
    p = fg.ones(2, dtype=d, requires_grad=True)
    log: list[Any] = []
    p.register_post_accumulate_grad_hook(lambda leaf: log.append(leaf.tolist()))
    p.register_post_accumulate_grad_hook(hook)
    p.register_post_accumulate_grad_hook(lambda leaf: log.append(leaf.tolist()))
    version = p._version
    (p * 3).sum().backward()
    assert log == [[1, 1], [-0.5, -0.5]]
    assert p._version > version
    assert p.is_leaf
    columns = fg.ones(2, 3, dtype=d).t().requires_grad_()
    columns.register_post_accumulate_grad_hook(hook)
    weight = fg.arange(6.0, dtype=d).reshape(3, 2)
    (columns * weight).sum().backward()
    assert (columns == 1 - weight * 0.5).all()
    with fg.no_grad():
        assert hook(p) is None
    assert p.tolist() == [-2, -2]
    with pytest.raises(RuntimeError, match="'step' is not differentiable"):
        hook(p)
    y = p * 2
    y.register_hook(hook)
    with pytest.raises(RuntimeError, match=r"'step' of .* gets a leaf and its gradient"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="gets a leaf and its gradient"):
        hook(p.detach())
    with pytest.raises(RuntimeError, match="a leaf without a gradient"):
        hook(fg.ones(2, dtype=d, requires_grad=True))


class Same(fg.nn.Module):
    """Gives what it gets."""

    def forward(self, x):
        return x


def test_n20_forward_hooks(called_python):
    state = fg.zeros(2)
    module = fg.nn.Linear(2, 3)
    module.register_forward_hook(native_hook(count, state, access="read"))
    x = fg.ones(4, 2)
    plain = module(x)
    assert state.tolist() == [1, 12]
    module.register_forward_pre_hook(native_hook(count, state, access="read"))
    module(x)
    assert state.tolist() == [3, 32]
    same = Same()
    same.register_forward_pre_hook(native_hook(count, state, access="read"))
    same.register_forward_hook(native_hook(count, state, access="read"))
    assert called_python(lambda: same(x)) == ["<lambda>", "forward"]
    module.register_forward_hook(native_hook(double))
    with fg.no_grad():
        assert (module(x) == 2 * plain).all()
    with pytest.raises(RuntimeError, match="'double' is not differentiable"):
        module(x)

    class Pair(fg.nn.Module):
        def forward(self, a, b):
            return a + 0, (b + 0).t(), "text"

    pair = Pair()
    pair.register_forward_pre_hook(native_hook(triple_out, access="replace"))
    pair.register_forward_hook(native_hook(double))
    a, b, text = pair(fg.ones(2), fg.ones(2, 2))
    assert (a.tolist(), b.tolist(), text) == ([6, 6], [[6, 6], [6, 6]], "text")


def test_n21_backward_hooks_of_modules():
    module = fg.nn.Linear(2, 2, bias=False)
    with fg.no_grad():
        module.weight.fill_(1)
    x = fg.ones(1, 2, requires_grad=True)
    handle = module.register_full_backward_hook(native_hook(double))
    module(x).sum().backward()
    assert x.grad.tolist() == [[4, 4]]
    assert module.weight.grad.tolist() == [[1, 1], [1, 1]]
    handle.remove()
    x.grad = module.weight.grad = None
    module.register_full_backward_pre_hook(native_hook(double))
    module(x).sum().backward()
    assert x.grad.tolist() == [[4, 4]]
    assert module.weight.grad.tolist() == [[2, 2], [2, 2]]


def test_n22_handles_and_lists():
    hook, other = native_hook(double), native_hook(add_one)
    x = fg.ones(2, requires_grad=True)
    y = x * 1
    handle, second = y.register_hook(hook), y.register_hook(other)
    assert list(y._backward_hooks.values()) == [hook, other]
    assert [h.hook for h in fg.hooks(y)] == [hook, other]
    handle.remove()
    assert list(y._backward_hooks.values()) == [other]
    with fg.autograd.graph.measure_hooks():
        y.sum().backward()
    [info] = fg.hooks(y)
    assert (info.name, info.hook, info.calls) == ("add_one", other, 1)
    assert info.seconds > 0
    assert x.grad.tolist() == [2, 2]
    second.remove()
    leaf = fg.ones(2, requires_grad=True)
    leaf._backward_hooks = {0: hook, 1: other}
    leaf.sum().backward()
    assert leaf.grad.tolist() == [3, 3]
    with leaf.register_hook(hook):
        pass
    assert list(leaf._backward_hooks.values()) == [hook, other]


def test_n23_copies_and_pickles():
    state = fg.zeros(2)
    hook = native_hook(count, state, access="read")
    assert copy.copy(hook) is hook
    assert copy.deepcopy(hook) is hook
    module = fg.nn.Linear(2, 2)
    module.register_forward_hook(hook)
    copy.deepcopy(module)(fg.ones(1, 2))
    assert state.tolist() == [1, 2]
    assert repr(hook) == "<native hook count (read)>"
    assert pickle.loads(pickle.dumps(at_module_level)) is at_module_level
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(hook)


def test_n24_others_are_not_changed():
    hook = native_hook(double)
    seed = fg.ones(2)
    x = fg.ones(2, requires_grad=True)
    x.register_hook(hook)
    x.backward(seed)
    assert (x.grad.tolist(), seed.tolist()) == ([2, 2], [1, 1])
    a, b = fg.ones(2, requires_grad=True), fg.ones(2, requires_grad=True)
    a.register_hook(hook)
    (a + b).backward(seed)
    assert (a.grad.tolist(), b.grad.tolist()) == ([2, 2], [1, 1])
    array = np.ones(2, np.float32)
    z = a * 1
    z.register_hook(lambda g: fg.from_numpy(array))
    z.register_hook(hook)
    a.grad = None
    z.sum().backward()
    assert (array.tolist(), a.grad.tolist()) == ([1, 1], [4, 4])
    kept: list[Any] = []
    y = a * 2
    y.register_hook(lambda g: kept.append(g))
    y.register_hook(hook)
    y.retain_grad()
    (found,) = fg.autograd.grad(y.sum(), y)
    assert found.tolist() == [2, 2]
    assert kept[0].tolist() == [1, 1]


def test_n25_called():
    hook = native_hook(double)
    t = fg.ones(3)
    version = t._version
    assert hook(t) is None
    assert t.tolist() == [2, 2, 2]
    assert t._version > version
    columns = fg.ones(2, 3).t()
    assert hook(columns) is None
    assert columns.tolist() == [[2, 2]] * 3
    view = t[1:]
    hook(view)
    assert t.tolist() == [2, 4, 4]
    half = fg.ones(2, dtype=fg.float16)
    hook(half)
    assert half.tolist() == [2, 2]
    new = native_hook(triple_out, access="replace")
    assert new(fg.ones(2)).tolist() == [3, 3]
    assert [t.tolist() for t in new((fg.ones(1), None, fg.ones(2)))[::2]] == [[3], [3, 3]]
    assert hook((fg.ones(1), fg.ones(2)), (fg.ones(1),)) is None
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        hook(fg.ones(1).expand(3))
    with fg.inference_mode():
        frozen = fg.ones(2)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        hook(frozen)
    for arguments in ((), (1,), (fg.ones(1),) * 4, ([fg.ones(1)],), (1, 2, 3)):
        with pytest.raises(TypeError, match="'double' must be called with"):
            hook(*arguments)
    with pytest.raises(TypeError, match="'double' must be called with"):
        hook(fg.ones(1), spam=1)
    saved = fg.ones(2)
    y = fg.ones(2, requires_grad=True) * saved
    hook(saved)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


# --- tapes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hooks", [False, True])
def test_n35_tapes(hooks: bool, called_python):
    log: list[Any] = []
    state = fg.zeros(2)
    x = fg.ones(2, requires_grad=True)
    weight = fg.ones(2)
    other = native_hook(double)
    with record(hooks=hooks) as tape:
        y = x * weight
        y.register_hook(native_hook(count, state, access="read"))
        y.register_hook(other)
        if hooks:
            y.register_hook(lambda g: log.append(g.tolist()))
        y.register_hook(native_hook(triple_out, access="replace"))
        (g,) = fg.autograd.grad((y * weight).sum(), x)
    assert g.tolist() == [6, 6]
    weight.fill_(2)
    tape.replay()
    assert g.tolist() == [24, 24]
    assert state.tolist() == [2, 4]
    assert log == ([[2, 2], [4, 4]] if hooks else [])
    if not hooks:
        assert called_python(tape.replay) == ["replay", "launches"]


def positive(grad):
    for i in range(grad.size):
        if grad[i] < 0:
            raise ValueError("a negative gradient")


def test_n35_raising_in_a_replay():
    x = fg.ones(2, requires_grad=True)
    weight = fg.ones(2)
    with record() as tape:
        y = x * weight
        x.register_hook(native_hook(positive, access="read"))
        y.sum().backward()
    weight.fill_(-1)
    with pytest.raises(
        RuntimeError, match=r"the native hook 'positive' raised ValueError: a negative gradient \(line"
    ):
        tape.replay()
