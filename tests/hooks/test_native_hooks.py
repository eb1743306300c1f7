"""The sentences of docs/native_hooks.md, one test for each number: making native hooks."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import fastgrad as fg
from fastgrad import native_hook
from fastgrad.flags import DEBUG
from tests.hooks.functions import count, double, gradient, triple_out

FACTOR = 3.0

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


@pytest.mark.parametrize("dtype", [fg.float16, fg.float64])
def test_n1_other_default_dtypes(dtype):
    fg.set_default_dtype(dtype)
    try:
        hook = native_hook(double)
        assert gradient((2,), hook).tolist() == [2, 2]
    finally:
        fg.set_default_dtype(fg.float32)
    with pytest.raises(TypeError, match="Unknown attribute"):
        native_hook(unknown_attribute)


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
    for wrong in (0, 17, 1.5):
        with pytest.raises(ValueError, match="ndim must be from 1 to 16"):
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
        with pytest.raises(RuntimeError, match=r"'count' of .* has a state that is no longer what it was"):
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
        with pytest.raises(TypeError, match=r"must be a function of Python or numba\.njit"):
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
    held = object()
    for function in (lambda grad: array[0], lambda grad: held):
        with pytest.raises(TypeError, match=r"key cannot hold its value, which reads `(array|held)`"):
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
