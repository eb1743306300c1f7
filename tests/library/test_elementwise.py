"""`fastgrad.library.elementwise`: users' ops that are formulas."""

from __future__ import annotations

import copy
import gc
import math
import pickle
import threading

import numpy as np
import pytest

import fastgrad as fg
from fastgrad.autograd import gradcheck, gradgradcheck
from fastgrad.library import ElementwiseOp, c, elementwise, m
from fastgrad.native.contracts.element_types import FLOAT32
from fastgrad.native.contracts.frames.elementwise import FLAT
from fastgrad.native.host.tables import OPS
from fastgrad.ops.kernel_table import KERNELS

ARRAY = np.ones(3)
LIST = [1.0]
SCALE = 2.0


def twice(x):
    return x + x


@elementwise(derivative=lambda x, y: y * (c(1) - y), name="tests_ew::logistic")
def logistic(x):
    """1 / (1 + exp(-x))."""
    return c(1) / (c(1) + m.exp(-x))


@elementwise(
    derivative={
        "x": lambda x, limit: c(1) - m.tanh(x / limit) * m.tanh(x / limit),
        "limit": lambda x, limit, y: y / limit - x / limit * (c(1) - (y / limit) * (y / limit)),
    }
)
def softclip(x, limit):
    return limit * m.tanh(x / limit)


@elementwise(derivative=lambda g, x: m.where(x > c(0), twice(g), c(0)))
def kinked(x):
    return m.where(x > c(0), twice(x), c(0))


def numbers(*sizes, dtype=fg.float64):
    fg.manual_seed(3)
    return fg.randn(*sizes, dtype=dtype, requires_grad=True)


def test_values_names_and_promotion():
    x = fg.tensor([-1.0, 0.0, 2.0])
    fg.testing.assert_close(logistic(x), fg.sigmoid(x))
    fg.testing.assert_close(softclip(x, 2), 2 * fg.tanh(x / 2))
    fg.testing.assert_close(softclip(limit=2.0, x=x), softclip(x, limit=np.float32(2.0)))
    assert logistic(fg.tensor([0, 0])).dtype is fg.float32
    assert logistic(fg.tensor([0.0], dtype=fg.float16)).dtype is fg.float16
    assert softclip(fg.ones(2, 1), fg.ones(3, dtype=fg.float64)).shape == (2, 3)
    assert kinked(fg.tensor([math.nan, math.inf, -math.inf])).tolist()[1:] == [math.inf, 0]
    assert logistic(fg.zeros(0, 2)).shape == (0, 2)
    assert fg.ops.tests_ew.logistic is logistic
    assert (logistic.inputs, softclip.differentiable) == (("x",), ("x", "limit"))
    assert logistic.__doc__ == "1 / (1 + exp(-x))."
    assert "logistic(x)" in repr(logistic)


def test_derivatives_of_any_order():
    x, limit = numbers(3, 4), (fg.rand(4, dtype=fg.float64) + 0.5).requires_grad_()
    for function, operands in (
        (logistic, (x,)),
        (softclip, (x, limit)),
        (kinked, (x,)),
        (softclip, (x.T, 1.5)),
    ):
        assert gradcheck(function, operands)
        assert gradgradcheck(function, operands)
    y = logistic(x)
    for _ in range(3):
        [y] = fg.autograd.grad(y.sum(), x, create_graph=True)
    s = fg.sigmoid(x.detach())
    fg.testing.assert_close(y.detach(), s * (1 - s) * (1 - 6 * s + 6 * s * s))
    [g] = fg.autograd.grad(kinked(fg.tensor([0.0, math.inf], requires_grad=True)).sum(), x, allow_unused=True)
    assert g is None


def test_hooks():
    x, seen = numbers(3), []
    y = softclip(x, 2.0)
    assert y.grad_fn.name() == "SoftclipBackward0"
    y.register_hook(lambda g: seen.append("tensor") or g * 2)
    y.grad_fn.register_prehook(lambda grads: seen.append("pre"))
    y.grad_fn.register_hook(lambda ins, outs: seen.append("post"))
    [twice_g] = fg.autograd.grad(y.sum(), x, retain_graph=True)
    assert seen == ["tensor", "pre", "post"]
    fg.testing.assert_close(twice_g, 2 * (1 - fg.tanh(x.detach() / 2) ** 2))
    packed = []
    with fg.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t.shape) or t, lambda t: t):
        y = logistic(x)
    assert packed == [(3,), (3,)]
    assert y.grad_fn._saved_x is not None
    fg.testing.assert_close(y.grad_fn._saved_result, y)
    x2 = numbers(3).exp()
    y = logistic(x2)
    x2.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_compiled_and_fused():
    compiled = fg.compile(lambda x: softclip(logistic(x * 2), 1.5) + 1)
    x = numbers(50, dtype=fg.float32)
    for _ in range(3):
        with fg.no_grad():
            y = compiled(x)
    fg.testing.assert_close(y, softclip(logistic(x.detach() * 2), 1.5) + 1)
    assert "1 launches, of 8 before fusion" in str(fg.compile.explain(compiled))
    for _ in range(3):
        x.grad = None
        compiled(x).sum().backward()
    [wanted] = fg.autograd.grad((softclip(logistic(x * 2), 1.5) + 1).sum(), x)
    fg.testing.assert_close(x.grad, wanted)


def test_same_formula_is_one_op_and_another_one_another():
    def made(factor):
        def scaled(x):
            return x * c(factor)

        return elementwise(scaled, derivative=lambda x: c(factor), name="tests_ew::scaled")

    first, before = made(2.0), len(OPS)
    again = made(2.0)
    assert len(OPS) == before
    x = fg.ones(1, requires_grad=True)
    y = first(x)
    other = made(3.0)
    assert fg.ops.tests_ew.scaled is other
    assert (y.item(), again(x).item(), other(x).item()) == (2, 2, 3)
    assert fg.autograd.grad(y, x)[0].item() == 2
    del fg.ops.tests_ew.scaled
    assert not hasattr(fg.ops.tests_ew, "scaled")
    with pytest.raises(AttributeError, match="no op of this name"):
        del fg.ops.tests_ew.scaled
    gc.collect()
    assert other(x).item() == 3


def test_without_a_derivative():
    rounded = elementwise(lambda x, step: m.floor(x / step) * step, name="rounded")
    x = numbers(3)
    y = rounded(x, 0.5)
    with pytest.raises(NotImplementedError, match=r"RoundedBackward0.*derivative"):
        y.sum().backward()
    partly = elementwise(lambda x, k: x * k, name="partly", derivative={"x": lambda k: k, "k": None})
    assert fg.autograd.grad(partly(x, 3.0).sum(), x)[0].tolist() == [3, 3, 3]
    with pytest.raises(NotImplementedError, match="derivative"):
        partly(x, fg.ones(3, dtype=fg.float64, requires_grad=True)).sum().backward()


def test_copies_pickles_threads():
    assert copy.copy(logistic) is copy.deepcopy(logistic) is logistic
    assert pickle.loads(pickle.dumps(logistic)) is logistic
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(elementwise(lambda x: x, name="local"))
    x, results, rows = fg.ones(100), [], len(OPS)

    def work():
        op = elementwise(lambda x: x + c(SCALE), name="threaded", derivative=lambda x: c(1))
        results.append((op._id, op(x).sum().item()))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(results)) == 1
    assert results[0][1] == 300
    assert len(OPS) <= rows + 2


def branch(x):
    return x if x > c(0) else -x


def loop(x):
    while x > c(0):
        x = x - c(1)
    return x


def early(x, y_=None):
    return x


async def later(x):
    return x


def with_list(x):
    return x * c(LIST[0])


def with_sum(x):
    return sum([x, x])


WRONG = [
    (branch, {}, TypeError, r"m\.where\(condition, a, b\)"),
    (loop, {}, TypeError, r"m\.where"),
    (early, {}, TypeError, "plain parameters"),
    (later, {}, TypeError, "coroutine"),
    (with_list, {}, TypeError, "reads `LIST`"),
    (with_sum, {}, TypeError, "cannot be compiled"),
    (len, {}, TypeError, "must be a function of Python"),
    (3, {}, TypeError, "must be a function of Python"),
    (lambda x: x, {}, TypeError, "a lambda has no name"),
    (lambda: 1, {"name": "a"}, TypeError, "1 to 4 operands"),
    (lambda p, q, r, s, t: p, {"name": "a"}, TypeError, "1 to 4 operands"),
    (lambda *x: x, {"name": "a"}, TypeError, "plain parameters"),
    (lambda y: y, {"name": "a"}, TypeError, "cannot be called 'y'"),
    (lambda x: m.foo(x), {"name": "a"}, TypeError, r"no function m\.foo"),
    (lambda x: m.sum(x), {"name": "a"}, TypeError, "no function of elements"),
    (lambda x: m.pow(x, x, x), {"name": "a"}, TypeError, "takes 2 operands"),
    (lambda x: m.rsub(x, x), {"name": "a"}, RuntimeError, "cannot be compiled"),
    (lambda x: math.exp(x), {"name": "a"}, TypeError, "no formula"),
    (lambda x: fg.exp(x), {"name": "a"}, TypeError, "no formula"),
    (lambda x: x * ARRAY, {"name": "a"}, TypeError, "ndarray"),
    (lambda x: x**2, {"name": "a"}, TypeError, r"m\.pow"),
    (lambda x: x % 2, {"name": "a"}, TypeError, r"m\.remainder"),
    (lambda x: "text", {"name": "a"}, TypeError, "returned str"),
    (lambda x: None, {"name": "a"}, TypeError, "returned NoneType"),
    (lambda x: 1 // 0, {"name": "a"}, TypeError, "division|modulo by zero"),
    (lambda x: x, {"name": 3}, TypeError, "name must be a str"),
    (lambda x: x, {"name": "1"}, ValueError, "identifier"),
    (lambda x: x, {"name": "class"}, ValueError, "identifier"),
    (lambda x: x, {"name": "a::b::c"}, ValueError, "namespace::name"),
    (lambda x: x, {"name": "registry::b"}, ValueError, "reserved"),
    (lambda x: x, {"name": "aten::b"}, ValueError, "reserved"),
    (lambda x: x, {"name": "a::b.c"}, ValueError, "overload"),
    (lambda x: x, {"name": "a", "derivative": 1}, TypeError, "derivative by 'x' must be a function"),
    (lambda x: x, {"name": "a", "derivative": lambda z: z}, TypeError, "in this order"),
    (lambda x: x, {"name": "a", "derivative": lambda x, g: g}, TypeError, "in this order"),
    (lambda x: x, {"name": "a", "derivative": {}}, TypeError, "keys x"),
    (lambda x: x, {"name": "a", "derivative": {"x": None, "z": None}}, TypeError, "keys x"),
    (lambda x, z: x, {"name": "a", "derivative": lambda x: x}, TypeError, "operands x, z"),
    (
        lambda x: x,
        {"name": "a", "derivative": lambda x: x if x > c(0) else c(0)},
        TypeError,
        "derivative by 'x'",
    ),
    (
        lambda p, q, r, s: p,
        {
            "name": "a",
            "derivative": {"p": lambda p, q, r, s, y: y, "q": None, "r": None, "s": None},
        },
        TypeError,
        "at most 5 fit",
    ),
]


def test_wrong_declarations_say_what_to_do_and_take_no_rows():
    before = len(OPS), len(KERNELS)
    for formula, options, kind, text in WRONG:
        with pytest.raises(kind, match=text):
            elementwise(formula, **options)
    assert (len(OPS), len(KERNELS)) == before
    assert not hasattr(fg.ops, "a")


def test_words_must_be_those_of_the_library():
    from fastgrad.library import c, m

    with pytest.raises(TypeError, match="imported in the module"):
        elementwise(lambda x: m.exp(x), name="inner")
    formula = eval("lambda x: x * c(1)", {"c": lambda value: 2.0})
    with pytest.raises(TypeError, match="imported in the module"):
        elementwise(formula, name="other")
    assert c(1) == 1


def test_a_full_table(monkeypatch):
    monkeypatch.setattr("fastgrad.ops.formulas.MAX_OPS", len(OPS))
    with pytest.raises(RuntimeError, match="declare an op once"):
        elementwise(lambda x: x + c(17), name="too_many")


def test_wrong_calls():
    x = fg.ones(2)
    for call, kind, text in (
        (lambda: logistic(), TypeError, r"expected the operands \(x\)"),
        (lambda: logistic(x, x), TypeError, "got 2 by position"),
        (lambda: logistic(z=x), TypeError, "and z by name"),
        (lambda: softclip(x, x=x), TypeError, "and x by name"),
        (lambda: logistic(1.0), TypeError, "expected a Tensor among"),
        (lambda: softclip(x, None), TypeError, "argument 'limit' must be a Tensor or a number, not NoneType"),
        (lambda: softclip("a", x), TypeError, "argument 'x'"),
        (lambda: softclip(x, 2j), NotImplementedError, "Complex"),
        (lambda: softclip(x, fg.ones(3)), RuntimeError, "must match|broadcast"),
        (lambda: softclip(x, 1 << 70), OverflowError, "too large"),
        (lambda: ElementwiseOp(lambda x: x), TypeError, "is made by"),
        (lambda: type("Sub", (ElementwiseOp,), {}), TypeError, "derived"),
        (lambda: elementwise(lambda x: x, derivitive=1), TypeError, "derivitive"),
    ):
        with pytest.raises(kind, match=text):
            call()


@pytest.mark.cudasim
def test_kernels_of_gpus_are_made_from_the_formula():
    from cuda_comparing import ROWS, agree

    # 1 - tanh(x)**2 cancels where tanh is near 1, hence the units in the last place
    kernels = (softclip._op.kernel, *(OPS[number].kernel for number in softclip._op.calls))
    rng = np.random.default_rng(0)
    for kernel in kernels:
        ROWS[kernel.name] = kernel
        given = {name: rng.random(70).astype(np.float32) + np.float32(0.5) for name in kernel.inputs}
        agree(kernel.name, FLOAT32, FLAT, {"out": np.zeros(70, np.float32)}, 64, n=70, **given)
