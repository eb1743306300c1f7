"""`fastgrad.library.op`: users' ops that are compiled functions on arrays."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from numba import njit

import fastgrad as fg
from fastgrad import flags
from fastgrad.autograd import gradcheck, gradgradcheck
from fastgrad.library import op
from fastgrad.native.host.tables import OPS
from fastgrad.native.host.tape import record

ARRAY = np.ones(3)
SCALE = 2.0


def multiply(a, b, out):
    """The product of two matrices."""
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            out[i, j] = 0
            for k in range(a.shape[1]):
                out[i, j] += a[i, k] * b[k, j]


MATRICES = {"inputs": ("(m, k)", "(k, n)"), "outputs": ("(m, n)",)}
product = op(
    multiply,
    **MATRICES,
    backward={"a": lambda g, b: g @ b.mT, "b": lambda g, a: a.mT @ g},
    name="tests_ao::product",
)


@njit
def multiply_backward(g, a, b, da, db):
    da[:] = 0
    db[:] = 0
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                da[i, k] += g[i, j] * b[k, j]
                db[k, j] += g[i, j] * a[i, k]


once = op(njit(multiply), **MATRICES, backward=multiply_backward, name="once")


@op(
    inputs=("(m, n)", "(m, k)", "(k, n)"),
    outputs=("(m, k)", "(k, n)"),
    backward={
        "grad": {"da": lambda g, b: g @ b, "db": lambda g, a: a @ g},
        "a": {"da": None, "db": lambda g, grad: grad @ g.mT},
        "b": {"da": lambda g, grad: g.mT @ grad, "db": None},
    },
)
def both(grad, a, b, da, db):
    multiply_backward(grad, a, b, da, db)


def numbers(*sizes, dtype=fg.float64):
    return fg.randn(*sizes, dtype=dtype, requires_grad=True)


@pytest.fixture(autouse=True)
def seed():
    fg.manual_seed(3)


def test_values_and_dtypes():
    for dtype in (fg.float32, fg.float64, fg.float16, fg.bfloat16):
        a, b = (fg.ones(*sizes, dtype=dtype) for sizes in ((2, 3), (3, 4)))
        y = product(a, b)
        assert y.dtype is dtype
        assert y.tolist() == [[3.0] * 4] * 2
    a, b = numbers(4, 3), numbers(2, 4)
    fg.testing.assert_close(product(a.T, b=b.T), a.T @ b.T)
    assert product(fg.ones(0, 3), fg.ones(3, 2)).shape == (0, 2)
    fg.testing.assert_close(product(fg.ones(2, 0), fg.ones(0, 2)), fg.zeros(2, 2))
    assert fg.ops.tests_ao.product is product
    assert product.__doc__ == "The product of two matrices."
    assert product.__name__ == "multiply"


def test_derivatives_in_tensor_language():
    a, b = numbers(2, 3), numbers(3, 4)
    assert gradcheck(product, (a, b))
    assert gradgradcheck(product, (a, b))
    assert gradcheck(product, (a, b.detach()))
    assert gradcheck(product, (numbers(3, 2).T, b))
    y = product(a, b)
    assert y.grad_fn.name() == "ProductBackward0"
    assert y.grad_fn._saved_a is a


def test_compiled_backward():
    a, b = numbers(2, 3), numbers(3, 4)
    assert gradcheck(once, (a, b))
    assert gradcheck(once, (a, b.detach()))
    assert gradcheck(once, (a.detach(), b))
    x = fg.ones(2, 3, dtype=fg.float16, requires_grad=True)
    once(x, fg.ones(3, 4, dtype=fg.float16)).sum().backward()
    assert x.grad.dtype is fg.float16
    assert x.grad.tolist() == [[4.0] * 3] * 2
    [g] = fg.autograd.grad(once(a, b).sum(), a, create_graph=True)
    assert g.requires_grad
    with pytest.raises(NotImplementedError, match="OnceBackwardBackward0"):
        g.sum().backward()
    twice = op(multiply, **MATRICES, backward=both, name="twice")
    assert gradcheck(twice, (a, b))
    assert gradgradcheck(twice, (a, b))
    assert gradcheck(both, (numbers(2, 4), a, b))
    assert gradgradcheck(both, (numbers(2, 4), a, b))


def test_one_compiled_gradient_for_each_input():
    @njit
    def by_a(g, b, da):
        for i in range(g.shape[0]):
            for k in range(b.shape[0]):
                da[i, k] = 0
                for j in range(b.shape[1]):
                    da[i, k] += g[i, j] * b[k, j]

    mixed = op(multiply, **MATRICES, backward={"a": by_a, "b": lambda g, a: a.mT @ g}, name="mixed")
    assert gradcheck(mixed, (numbers(2, 3), numbers(3, 4)))
    none = op(multiply, **MATRICES, backward={"a": None, "b": lambda g, a: a.mT @ g}, name="half")
    a, b = numbers(2, 3), numbers(3, 4)
    assert gradcheck(lambda b: none(a.detach(), b), (b,))
    with pytest.raises(NotImplementedError, match="HalfBackward0"):
        none(a, b).sum().backward()


def take(x, index, out, best, scale: float = 1.0):
    for i in range(index.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = scale * x[index[i], j]
    for j in range(x.shape[1]):
        best[j] = 0
        for i in range(x.shape[0]):
            if x[i, j] > x[best[j], j]:
                best[j] = i


def test_constants_fixed_dtypes_and_several_outputs():
    @njit
    def back(g, index, dx, scale):
        dx[:] = 0
        for i in range(index.shape[0]):
            for j in range(g.shape[1]):
                dx[index[i], j] += scale * g[i, j]

    taken = op(
        take, inputs=("(n, d)", "int64 (k)"), outputs=("(k, d)", "int64 (d)"),
        backward=back, name="taken",
    )  # fmt: skip
    x, index = numbers(4, 3), fg.tensor([2, 0, 2])
    y, best = taken(x, index, scale=0.5)
    fg.testing.assert_close(y, 0.5 * x[index])
    assert best.dtype is fg.int64
    assert best.tolist() == x.argmax(0).tolist()
    assert y.requires_grad
    assert not best.requires_grad
    assert gradcheck(lambda x: taken(x, index, 0.5)[0], (x,))
    assert taken(x, index, np.float32(2))[0].shape == (3, 3)

    @op(inputs=("int64 (n)",), outputs=("int64 (n, classes)",))
    def one_hot(index, out, classes: int, low: bool = False):
        for i in range(index.shape[0]):
            for j in range(classes):
                out[i, j] = 1 if index[i] == j and not low else 0

    assert one_hot(fg.tensor([1, 0]), 3).tolist() == [[0, 1, 0], [1, 0, 0]]
    assert one_hot(fg.tensor([1, 0]), classes=2, low=True).tolist() == [[0, 0], [0, 0]]
    assert one_hot(fg.tensor([1]), classes=0).shape == (1, 0)
    for value, error in ((-1, ValueError), (1.5, TypeError), (None, TypeError), (1 << 70, OverflowError)):
        with pytest.raises(error, match="classes"):
            one_hot(fg.tensor([1]), value)
    with pytest.raises(TypeError, match="low"):
        one_hot(fg.tensor([1]), 2, 1)


def test_hooks():
    a, b, seen, packed = numbers(2, 3), numbers(3, 4), [], []
    for function in (product, once):
        seen.clear()
        packed.clear()
        y = function(a, b)
        y.register_hook(lambda g: seen.append("tensor") or g * 2)
        y.grad_fn.register_prehook(lambda grads: seen.append("pre"))
        y.grad_fn.register_hook(lambda ins, outs: seen.append("post"))
        [g] = fg.autograd.grad(y.sum(), a)
        assert seen == ["tensor", "pre", "post"]
        fg.testing.assert_close(g, 2 * b.detach().sum(1).expand(2, 3))
        with fg.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t.shape) or t, lambda t: t):
            y = function(a, b)
        assert packed == [(2, 3), (3, 4)]
        y.sum().backward()
        c = a.exp()
        y = function(c, b)
        c.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
    with fg.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: fg.ones(1, dtype=fg.float64)):
        y = once(a, b)
    with pytest.raises(RuntimeError):
        y.sum().backward()


def test_calls_have_plans_and_are_captured():
    calls = []
    of = fg.library.arrays._sizes

    a, b = numbers(2, 3, dtype=fg.float32), numbers(3, 4, dtype=fg.float32)
    for _ in range(4):
        product(a, b)
    try:
        fg.library.arrays._sizes = lambda *given: calls.append(1) or of(*given)
        for _ in range(3):
            product(a, b)
        assert not calls or flags.DEBUG
    finally:
        fg.library.arrays._sizes = of

    @fg.compile
    def step(a, b):
        y = once(product(a, b) * 2, b.mT)
        return y.sum()

    for k in range(4):
        a.grad = b.grad = None
        with fg.no_grad():
            a.add_(k)
        step(a, b).backward()
        found = a.grad, b.grad
        a.grad = b.grad = None
        ((a @ b * 2) @ b.mT).sum().backward()
        fg.testing.assert_close(found, (a.grad, b.grad))
    assert "launches" in str(fg.compile.explain(step))


def test_constants_are_brought_to_captured_calls():
    @op(inputs=("(n)",), outputs=("(n)",), backward=lambda g, factor: g * factor)
    def scaled(x, out, factor: float = 1.0):
        for i in range(x.shape[0]):
            out[i] = x[i] * factor

    x = numbers(5)
    assert gradcheck(lambda x: scaled(x, 3.0), (x,))
    assert gradgradcheck(lambda x: scaled(x, 3.0), (x,))
    y = scaled(x, 0.1)  # which float32 does not hold
    assert fg.autograd.grad(y.sum(), x, retain_graph=True)[0].tolist() == [0.1] * 5
    assert fg.autograd.grad(y.sum(), x, create_graph=True)[0].tolist() == [0.1] * 5
    call = fg.compile(lambda x, factor: scaled(x, factor) + 1)
    for factor in (1.0, 2.0, 3.0, 4.0):
        fg.testing.assert_close(call(x, factor), x * factor + 1)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap_and_transforms():
    a, b = fg.randn(5, 2, 3), fg.randn(3, 4)
    fg.testing.assert_close(fg.func.vmap(product, in_dims=(0, None))(a, b), a @ b)
    with pytest.warns(UserWarning, match="batching rule for tests_ao::product"):
        fg.func.vmap(product, in_dims=(0, None))(a, b)
    g = fg.func.grad(lambda a: once(a, b).sum())(a[0])
    fg.testing.assert_close(g, b.sum(1).expand(2, 3))
    y, t = fg.func.jvp(lambda a: product(a, b), (a[0],), (a[1],))
    fg.testing.assert_close((y, t), (a[0] @ b, a[1] @ b))
    with pytest.raises(NotImplementedError, match="OnceBackwardBackward0"):
        fg.func.jvp(lambda a: once(a, b), (a[0],), (a[1],))


def test_scalars_fixed_sizes_and_integers():
    @op(inputs=("(n)", "()"), outputs=("()", "(300)"), dtypes=(fg.int64, fg.float64))
    def total(x, start, out, table):
        out[()] = start[()]
        for i in range(x.shape[0]):
            out[()] += x[i]
        for i in range(300):
            table[i] = i

    y, table = total(fg.arange(5), fg.tensor(2))
    assert (y.item(), y.shape, table.shape, table[299].item()) == (12, (), (300,), 299)
    with pytest.raises(NotImplementedError, match="not implemented for 'Float'"):
        total(fg.ones(2), fg.tensor(1.0))

    @op(inputs=("(3, n)",), outputs=("(n)",))
    def norm(x, out):
        for i in range(x.shape[1]):
            out[i] = math.sqrt(x[0, i] ** 2 + x[1, i] ** 2 + x[2, i] ** 2) * SCALE

    assert norm(fg.ones(3, 2)).shape == (2,)
    with pytest.raises(RuntimeError, match="needs 3 in it"):
        norm(fg.ones(2, 2))


def test_same_declaration_is_the_same_op():
    def declared(turned):
        rules = {"a": lambda g, b: g @ b.mT, "b": lambda g, a: a.transpose(*turned) @ g}
        return op(multiply, **MATRICES, backward=rules, name="tests_ao::again")

    first = declared((0, 1))
    n = len(OPS)
    again = declared((0, 1))
    assert len(OPS) == n
    assert fg.ops.tests_ao.again is again
    assert again.declared.op is first.declared.op
    assert declared((-1, -2)).declared.op is not first.declared.op
    del fg.ops.tests_ao.again
    assert copy.deepcopy(product) is product
    assert pickle.loads(pickle.dumps(take_first)) is take_first
    assert isinstance(hash(product), int)


@op(inputs=("(n)",), outputs=("()",))
def take_first(x, out):
    out[()] = x[0]


@njit
def fussy_backward(g, dx):
    for i in range(g.shape[0]):
        if g[i] > 1:
            raise ValueError("large")
        dx[i] = g[i]


@op(inputs=("(n)",), outputs=("(n)",), backward=fussy_backward)
def fussy(x, out):
    for i in range(x.shape[0]):
        if x[i] < 0:
            raise ArithmeticError("negative", 3)
        out[i] = x[i]


def test_what_functions_raise():
    x = fg.ones(3, requires_grad=True)
    for _ in range(4):  # by a plan, too
        with pytest.raises(ArithmeticError, match="negative") as caught:
            fussy(-x)
        assert caught.value.args == ("negative", 3)
        assert "raised by the function of fussy (line" in caught.value.__notes__[0]
    fussy(x).sum().backward()
    assert x.grad.tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="large") as caught:
        (fussy(x) * 2).sum().backward()
    assert "raised by the function of FussyBackward0 (line" in caught.value.__notes__[0]


def test_what_functions_raise_in_captured_calls():
    values = fg.ones(3)
    with record() as tape:
        y = fussy(values) * 2
    values.fill_(3)
    tape.replay()
    assert y.tolist() == [6, 6, 6]
    values[1] = -1
    with pytest.raises(ArithmeticError, match="negative"):
        tape.replay()
    call = fg.compile(lambda x: fussy(x) + 1)
    for _ in range(3):
        assert call(fg.ones(2)).tolist() == [2, 2]
    with pytest.raises(ArithmeticError, match="negative"):
        call(-fg.ones(2))
    assert call(fg.ones(2)).tolist() == [2, 2]


@op(inputs=("(n)",), outputs=("(n)",))
def too_far(x, out, by: int):
    for i in range(x.shape[0] + by):
        out[i] = x[0]


@pytest.mark.skipif(not flags.DEBUG, reason="for FASTGRAD_DEBUG=1")
def test_debug_mode_finds_indices_outside():
    assert too_far(fg.ones(3), 0).tolist() == [1, 1, 1]
    with pytest.raises(IndexError, match="out of bounds"):
        too_far(fg.ones(3), 1)
    fg.debug.check()


def test_compiled_derivatives_of_several_outputs():
    @njit
    def of_sine(g, x, dx):
        for i in range(x.shape[0]):
            dx[i] = g[i] * math.cos(x[i])

    @op(
        inputs=("(n)",),
        outputs=("(n)", "int64 (n)", "(n)"),
        backward={"x": {"sine": of_sine, "cosine": lambda g, sine: -(g * sine)}},
    )
    def both_of(x, sine, positive, cosine):
        for i in range(x.shape[0]):
            sine[i] = math.sin(x[i])
            cosine[i] = math.cos(x[i])
            positive[i] = sine[i] > 0

    x = numbers(4)
    sine, positive, cosine = both_of(x)
    assert sine.requires_grad
    assert cosine.requires_grad
    assert not positive.requires_grad
    assert gradcheck(lambda x: both_of(x)[0], (x,))
    assert gradcheck(lambda x: both_of(x)[2], (x,))
    assert gradcheck(lambda x: both_of(x)[0] * both_of(x)[2], (x,))
    assert gradcheck(lambda x: (lambda y: y[0] * y[2])(both_of(x)), (x,))
    assert [t.dtype for t in both_of(fg.ones(2, dtype=fg.float16))] == [fg.float16, fg.int64, fg.float16]


def test_options_of_numba():
    def divided(x, out):
        for i in range(x.shape[0]):
            out[i] = 1 / x[i]

    shapes = {"inputs": ("(n)",), "outputs": ("(n)",)}
    zero = fg.zeros(1)
    assert op(divided, **shapes)(zero).tolist() == [math.inf]
    assert op(njit(fastmath={"contract"})(divided), **shapes)(zero).tolist() == [math.inf]
    strict = op(njit(error_model="python")(divided), **shapes)
    with pytest.raises(ZeroDivisionError):
        strict(zero)


def m(x):
    return 2 * x


def c(x):
    return m(x) + 1


@pytest.mark.parametrize("compiled", [False, True])
def test_functions_may_have_names_that_are_words_of_formulas(compiled):
    def called(x, out):
        for i in range(x.shape[0]):
            out[i] = c(x[i])

    shapes = {"inputs": ("(n)",), "outputs": ("(n)",)}
    assert op(njit(called) if compiled else called, **shapes)(fg.ones(2)).tolist() == [3, 3]


@op(inputs=("(n)",), outputs=("(n)",), backward=lambda g: g * np.float32(2.5) + np.int32(0))
def two_and_a_half_times(x, out):
    for i in range(x.shape[0]):
        out[i] = x[i] * 2.5


def test_numbers_of_numpy_in_rules():
    assert gradcheck(two_and_a_half_times, (numbers(3),))


def test_names_are_part_of_the_key():
    one = op(multiply, **MATRICES, name="tests_ao::named")
    other = op(multiply, **MATRICES, name="tests_ao2::named")
    for function, name in ((one, "tests_ao::named"), (other, "tests_ao2::named")):
        with pytest.raises(TypeError, match=name):
            function(1, 2)
        assert function.declared.op.called == name


def test_sizes_in_rules():
    @op(
        inputs=("(n, d)",),
        outputs=("(d)",),
        backward=lambda g, n, d, factor: (factor * (g / n)).unsqueeze(0).expand(n, d),
    )
    def mean_of_rows(x, out, factor: int = 1):
        for j in range(x.shape[1]):
            out[j] = 0
            for i in range(x.shape[0]):
                out[j] += factor * x[i, j] / x.shape[0]

    for sizes in ((3, 2), (5, 1), (1, 4)):
        x = numbers(*sizes)
        fg.testing.assert_close(mean_of_rows(x), x.mean(0))
        assert gradcheck(mean_of_rows, (x,))
        assert gradgradcheck(lambda x: mean_of_rows(x, 3).exp(), (x,))
    x = fg.ones(4, 2, requires_grad=True)
    mean_of_rows(x, factor=2).sum().backward()
    assert x.grad.dtype is fg.float32
    assert x.grad.tolist() == [[0.5, 0.5]] * 4
    call = fg.compile(lambda x: mean_of_rows(x).sum())
    for n in (2, 4, 2, 4, 2):
        x = fg.ones(n, 2, requires_grad=True)
        call(x).backward()
        assert x.grad.tolist() == [[1 / n] * 2] * n
