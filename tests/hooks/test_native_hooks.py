"""The sentences of docs/native_hooks.md, one test for each number: making native hooks, and where they stand."""

from __future__ import annotations

import copy
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import fastgrad as fg
from fastgrad import native_hook
from fastgrad.flags import DEBUG
from fastgrad.native.host.tape import record

FACTOR = 3.0


def double(grad):
    for i in range(grad.size):
        grad[i] *= 2


def add_one(grad):
    grad += 1


def count(grad, state):
    state[0] += 1
    state[1] += grad.size


def triple_out(grad, out):
    for i in range(grad.size):
        out[i] = 3 * grad[i]


def step(param, grad, state):
    for i in range(param.size):
        param[i] -= state[0] * grad[i]


@native_hook
def at_module_level(grad):
    grad[0] = 7


@pytest.fixture
def called_python() -> Iterator[Callable[[], list[str]]]:
    """The names of Python functions that a call has run."""
    names: list[str] = []

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            names.append(frame.f_code.co_name)

    def run(function: Callable[[], Any]) -> list[str]:
        names.clear()
        sys.setprofile(note)
        try:
            function()
        finally:
            sys.setprofile(None)
        return list(names)

    yield run
    sys.setprofile(None)


def gradient(shape=(3,), *hooks, weight=None, dtype=None):
    """The gradient of a leaf with hooks: ones, or a weight."""
    x = fg.zeros(*shape, dtype=dtype, requires_grad=True)
    for hook in hooks:
        x.register_hook(hook)
    (x if weight is None else x * weight).sum().backward()
    return x.grad


# --- making one --------------------------------------------------------------------------------------------------

PROGRAM = """
import sys
import fastgrad as fg

def fresh(grad, state):
    state[0] += grad[0] * {number}
    grad[0] = 5

state = fg.zeros(1)
x = fg.ones(2, requires_grad=True)
x.register_hook(fg.native_hook(fresh, state))
x.sum().backward()
y = fg.ones(2, dtype=fg.float64, requires_grad=True)
y.register_hook(fg.native_hook(fresh, state))
y.sum().backward()
print(x.grad.tolist(), y.grad.tolist(), state.tolist(), "numba" in sys.modules)
"""


def test_n1_compiled_once_and_kept(tmp_path: Path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(number=os.getpid()))
    first, second = (
        subprocess.run(
            [sys.executable, "-q", str(path)], capture_output=True, text=True, check=True, env=os.environ
        ).stdout
        for _ in range(2)
    )
    assert first.split("]")[:2] == ["[5.0, 1.0", " [5.0, 1.0"]
    assert first.endswith("True\n")
    assert second == first.replace("True", "False")


def test_n2_access():
    state = fg.zeros(2)
    assert gradient((3,), native_hook(double)).tolist() == [2, 2, 2]
    assert gradient((3,), native_hook(count, state, access="read")).tolist() == [1, 1, 1]
    assert state.tolist() == [1, 3]
    assert gradient((3,), native_hook(triple_out, access="replace")).tolist() == [3, 3, 3]
    with pytest.raises(TypeError, match="readonly"):
        native_hook(double, access="read")
    with pytest.raises(ValueError, match="access must be one of 'read'"):
        native_hook(double, access="write")


def test_n3_dimensions():
    def rows(grad):
        for i in range(grad.shape[0]):
            for j in range(grad.shape[1]):
                grad[i, j] = 10 * i + j

    def order(grad):
        for i in range(grad.size):
            grad[i] = i

    flat, in_rows = native_hook(order), native_hook(rows, ndim=2)
    assert gradient((2, 3), flat).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert gradient((2, 3), in_rows).tolist() == [[0, 1, 2], [10, 11, 12]]
    with pytest.raises(RuntimeError, match=r"'rows' of \S+ wants arrays of 2 dimensions, but got .* \[3\]"):
        gradient((3,), in_rows)
    for wrong in (0, 9, 1.5):
        with pytest.raises(ValueError, match="ndim must be from 1 to 8"):
            native_hook(rows, ndim=wrong)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_n4_dtypes(dtype: str):
    seen = fg.zeros(1, dtype=fg.float64)

    def third(grad, state):
        state[0] = grad[0] / 3.0 if grad[0] > 1.0 else 0.0
        grad[0] = grad[0] + 0.0001

    weight = fg.tensor([2.0, 1.0], dtype=getattr(fg, dtype))
    got = gradient((2,), native_hook(third, seen), weight=weight, dtype=getattr(fg, dtype))
    assert got.dtype == getattr(fg, dtype)
    wide = fg.float32 if "16" in dtype else got.dtype
    expected = (fg.tensor([2.0], dtype=wide) + 0.0001).to(got.dtype)
    assert got[0].item() == expected.item()
    assert abs(seen.item() - 2 / 3) < 1e-6

    def replaced(grad, out):
        for i in range(grad.size):
            out[i] = grad[i] + 0.0001

    got = gradient((2,), native_hook(replaced, access="replace"), weight=weight, dtype=got.dtype)
    assert got[0].item() == expected.item()


@pytest.mark.parametrize("access", ["update", "read", "replace"])
def test_n5_layouts_and_sizes(access: str):
    def update(grad, state):
        state[0] += grad.size
        for i in range(grad.size):
            state[1] = grad[i]
            grad[i] = grad[i] + i

    def read(grad, state):
        state[0] += grad.size
        for i in range(grad.size):
            state[1] = grad[i]

    def replace(grad, out, state):
        state[0] += grad.size
        for i in range(grad.size):
            state[1] = grad[i]
            out[i] = grad[i] + i

    state = fg.zeros(2, dtype=fg.float64)
    hook = native_hook({"update": update, "read": read, "replace": replace}[access], state, access=access)
    x = fg.zeros(2, 3, requires_grad=True)
    y = x.clone()
    y.register_hook(hook)
    weight = fg.arange(6.0).reshape(3, 2)
    (y.t() * weight).sum().backward()  # the gradient of `y` is transposed in memory
    added = fg.arange(6.0).reshape(2, 3) if access != "read" else fg.zeros(2, 3)
    assert (x.grad == weight.t() + added).all()
    assert state.tolist() == [6, 5]
    assert gradient((0,), hook).shape == (0,)
    assert gradient((2, 0), hook).shape == (2, 0)
    assert state.tolist() == [6, 5]
    assert gradient((), hook).item() == 1
    assert state.tolist() == [7, 1]
    expanded = gradient((4,), hook)  # that of a sum has stride 0
    assert expanded.tolist() == ([1, 1, 1, 1] if access == "read" else [1, 2, 3, 4])


def test_n6_undefined():
    state = fg.zeros(2)
    hook = native_hook(count, state, access="read")
    a, b = fg.ones(4, requires_grad=True).unbind()[:2]
    pair = fg.ones(2, 2, requires_grad=True).split(1)
    pair[0].register_hook(hook)
    pair[1].sum().backward()
    pair[0].grad_fn.register_hook(hook)
    assert state.tolist() == [0, 0]
    assert hook(None) is None
    assert hook((None, None)) is None
    del a, b


@pytest.mark.parametrize("kind", ["tensor", "array"])
def test_n7_state(kind: str):
    held = np.zeros((2, 1), np.int64) if kind == "array" else fg.zeros(2, 1, dtype=fg.int64)
    hook = native_hook(count, held, access="read")
    gradient((3,), hook, hook)
    assert held.tolist() == [[2], [6]]
    assert hook.state is held
    held[0] = 10
    gradient((3,), hook)
    assert held.tolist() == [[11], [9]]
    if kind == "tensor":
        version = held._version
        gradient((3,), hook)
        assert held._version == version + 1


def test_n8_states_that_are_none():
    for state, kind, text in (
        ([1.0], TypeError, "must be a Tensor or an array"),
        (fg.zeros(2, dtype=fg.float16), TypeError, "must not be fastgrad.float16; float32 holds"),
        (fg.zeros(2, 2).t(), TypeError, "must be contiguous"),
        (fg.zeros(2, requires_grad=True), RuntimeError, "must not require grad"),
        (np.zeros((2, 2)).T, TypeError, "writable and contiguous"),
        (np.zeros(2, "U1"), TypeError, "U1"),
    ):
        with pytest.raises(kind, match=text):
            native_hook(count, state)
    frozen = np.zeros(2)
    frozen.flags.writeable = False
    with pytest.raises(TypeError, match="writable"):
        native_hook(count, frozen)


def test_n9_a_state_that_changes():
    state = fg.zeros(2)
    hook = native_hook(count, state, access="read")
    state.data = fg.ones(2)
    gradient((3,), hook)
    assert state.tolist() == [2, 4]
    for change in (
        lambda: setattr(state, "data", fg.zeros(3)),
        lambda: setattr(state, "data", fg.zeros(2, dtype=fg.float64)),
        lambda: setattr(state, "data", fg.zeros(2, 2)[:, 0]),
        lambda: state.requires_grad_(),
    ):
        state.data = fg.zeros(2)
        change()
        with pytest.raises(RuntimeError, match="'count' of .* has a state that is no longer what it was"):
            gradient((3,), hook)
    state.requires_grad_(False)
    state.data = fg.zeros(2)
    gradient((3,), hook)
    assert state.tolist() == [1, 3]


def test_n10_signatures():
    for function, access, state in (
        (lambda: None, "update", None),
        (lambda a, b: None, "update", None),
        (lambda a: None, "update", fg.zeros(1)),
        (lambda a: None, "replace", None),
        (lambda a: None, "leaf", None),
        (lambda *a: None, "update", None),
        (lambda a, *, b: None, "update", fg.zeros(1)),
    ):
        with pytest.raises(TypeError, match=r"must be a function of \(.*\), but it is one of"):
            native_hook(function, state, access=access)
    for what in (1, "x", print, np.sum, type("C", (), {"__call__": lambda self, g: None})()):
        with pytest.raises(TypeError, match="must be a function of Python or numba.njit"):
            native_hook(what)
    with pytest.raises(TypeError, match="not both"):
        native_hook(double, elementwise=lambda g: g)
    with pytest.raises(TypeError, match="derivative belongs to `elementwise`"):
        native_hook(double, derivative=lambda g: 1)


def makes_an_array(grad):
    grad[:] = grad * 2


def says_something(grad):
    print(grad[0])


def draws(grad):
    grad[0] = np.random.rand()  # noqa: NPY002


def unknown_attribute(grad):
    grad.spam()


def raises_what_varies(grad):
    raise ValueError("wrong", grad[0])


@pytest.mark.parametrize(
    ("function", "kind", "text"),
    [
        (makes_an_array, RuntimeError, "makes no arrays"),
        (says_something, RuntimeError, "prints nothing"),
        (draws, RuntimeError, "np.random"),
        (unknown_attribute, TypeError, "Unknown attribute 'spam'"),
        (raises_what_varies, RuntimeError, "makes no arrays"),
    ],
)
def test_n11_what_cannot_be_compiled(function, kind, text: str):
    with pytest.raises(kind, match=f"native hook '{function.__name__}' cannot be compiled") as caught:
        native_hook(function)
    assert text in str(caught.value)
    if "it needs" not in str(caught.value):  # LLVM does not know the line
        assert f"(line {function.__code__.co_firstlineno + 1} of {__file__})" in str(caught.value)


@numba.njit
def _shared(value):
    return value + FACTOR


def _plain(value):
    return math.sqrt(value) * _shared(value)


def calls_others(grad):
    view = grad[1:]
    for i in range(view.size):
        view[i] = np.float32(_plain(view[i]))


def test_n12_what_it_reads(monkeypatch: pytest.MonkeyPatch):
    assert gradient((2,), native_hook(calls_others)).tolist() == [1, 4]
    assert gradient((2,), native_hook(numba.njit(calls_others))).tolist() == [1, 4]
    monkeypatch.setitem(globals(), "FACTOR", 8.0)
    assert gradient((2,), native_hook(calls_others)).tolist() == [1, 9]
    array = np.ones(3)
    for function in (lambda grad: array[0], lambda grad: held):
        held = object()
        with pytest.raises(TypeError, match="key cannot hold its value, which reads `(array|held)`"):
            native_hook(function)
    with pytest.raises(TypeError, match="parallel=True"):
        native_hook(numba.njit(parallel=True)(double))


def test_n13_bounds():
    def outside(grad, state):
        if state[0] > 0:
            grad[grad.size] = 1

    state = fg.ones(1)
    hook = native_hook(outside, state)
    if not DEBUG:
        state[0] = 0
        assert gradient((2,), hook).tolist() == [1, 1]
        return
    with pytest.raises(IndexError) as caught:
        gradient((2,), hook)
    assert "raised by native hook 'outside'" in caught.value.__notes__[0]


def test_n14_results():
    for function in (lambda grad: grad, lambda grad: 1.0):
        with pytest.raises(TypeError, match="must not return anything"):
            native_hook(function)


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
    with pytest.raises(RuntimeError, match="'step' of .* gets a leaf and its gradient"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="gets a leaf and its gradient"):
        hook(p.detach())
    with pytest.raises(RuntimeError, match="a leaf without a gradient"):
        hook(fg.ones(2, dtype=d, requires_grad=True))


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
    assert called_python(lambda: module(x)) == called_python(lambda: module.forward(x))
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
    assert "<native hook count (read)>" == repr(hook)
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
    with pytest.raises(RuntimeError, match=r"the native hook 'positive' raised ValueError: a negative gradient \(line"):
        tape.replay()
