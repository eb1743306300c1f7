"""What `fastgrad.library.op` refuses, and says of it."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

import fastgrad as fg
from fastgrad.kernels.cuda.compile import built
from fastgrad.library import m, op
from fastgrad.native.contracts.element_types import FLOAT32
from fastgrad.native.contracts.frames.elementwise import FLAT
from fastgrad.native.host.tables import OPS
from fastgrad.ops.kernel_table import KERNELS
from fastgrad.ops.registry import Op

ARRAY = np.ones(3)
VECTOR = {"inputs": ("(n)",), "outputs": ("(n)",)}
PAIR = {"inputs": ("(n)", "(n)"), "outputs": ("(n)",)}


def same(x, out):
    for i in range(x.shape[0]):
        out[i] = x[i]


def of_two(a, b, out):
    for i in range(a.shape[0]):
        out[i] = a[i] * b[i]


def returns(x, out):
    return x[0]


def makes_arrays(x, out):
    out[:] = x * 2


def reads_an_array(x, out):
    out[0] = ARRAY[0]


def writes_to_its_input(x, out):
    x[0] = 1


def unknown_attribute(x, out):
    out[0] = x.foo


def prints(x, out):
    print(x[0])


def draws(x, out):
    out[0] = np.random.rand()  # noqa: NPY002


def unknown_name(x, out):
    out[0] = undefined(x[0])  # noqa: F821


def calls_itself(x, out):
    calls_itself(x, out)


def generates(x, out):
    yield x[0]


def unannotated(x, out, k):
    pass


def annotated_otherwise(x, out, k: list[int]):
    pass


def packed(*arrays):
    pass


def with_default(x=1, out=2):
    pass


def bound_size(x, out, n: int):
    pass


def float_size(x, out, k: float):
    pass


def gradient_named(g, out):
    out[0] = g[0]


def result_named(y, out):
    out[0] = y[0]


FUNCTIONS = [
    (same, {"inputs": "(n)"}, TypeError, r"inputs must be a sequence of texts, .* not '\(n\)'"),
    (same, {"outputs": None}, TypeError, "outputs must be a sequence"),
    (same, {"inputs": (3,)}, TypeError, "inputs must hold texts such as .* not int"),
    (same, {"inputs": ("n",)}, ValueError, "must hold shapes such as"),
    (same, {"inputs": ("(n+1)",)}, ValueError, r"a size must be a name or a number, not 'n\+1'"),
    (same, {"inputs": ("(n,,m)",)}, ValueError, "a size must be a name or a number, not ''"),
    (same, {"inputs": ("(a,b,c,d,e,f,h)",)}, ValueError, "at most 6 dimensions"),
    (same, {"inputs": ("float32 (n)",)}, ValueError, "only integer types and bool can be fixed"),
    (same, {"inputs": ("nothing (n)",)}, ValueError, "only integer types and bool can be fixed"),
    (same, {"outputs": ("(k)",)}, ValueError, "the size 'k' of the output 'out' is that of no input"),
    (same, {"inputs": ("int64 (n)",)}, ValueError, "no input says which dtype the output 'out' has"),
    (same, {"inputs": ()}, ValueError, "1 to 6 inputs and 1 to 5 outputs"),
    (same, {"inputs": ("(x)",), "outputs": ("(x)",)}, ValueError, "the name of a size and of a parameter"),
    (same, PAIR, TypeError, "2 inputs and 1 outputs are declared, but its function has 2 parameters"),
    (of_two, {}, TypeError, "so the parameter 'out' is a constant and must be annotated"),
    (unannotated, {}, TypeError, "the parameter 'k' is a constant and must be annotated"),
    (annotated_otherwise, {}, TypeError, "the parameter 'k' is a constant and must be annotated"),
    (packed, {}, TypeError, "must have plain parameters"),
    (with_default, {}, TypeError, "its arrays can have no defaults"),
    (bound_size, {}, ValueError, "the size 'n' of an input is also a constant"),
    (float_size, {"outputs": ("(k)",)}, ValueError, "'k' is the name of a size and of a parameter"),
    (gradient_named, {"backward": lambda g: g}, ValueError, "call its input 'grad'"),
    (result_named, {}, ValueError, "'y' means something else"),
    (generates, {}, TypeError, "must not be a generator"),
    (returns, {}, TypeError, "must not return anything, but returns float32"),
    (makes_arrays, {}, RuntimeError, r"cannot be compiled \(line \d+ of .*makes no arrays"),
    (reads_an_array, {}, TypeError, "which reads `ARRAY`, a numpy.ndarray"),
    (writes_to_its_input, {}, TypeError, r"cannot be compiled \(line \d+ of "),
    (unknown_attribute, {}, TypeError, "Unknown attribute 'foo'"),
    (unknown_name, {}, TypeError, "name 'undefined' is not defined"),
    (calls_itself, {}, TypeError, "which calls itself"),
    (prints, {}, RuntimeError, "it needs numba_gil_ensure; it makes no arrays"),
    (draws, {}, RuntimeError, "does without np.random"),
    (lambda x, out: None, {}, TypeError, "a lambda has no name"),
    (3, {}, TypeError, "a function of Python, or one of numba.njit, not int"),
    (fg.ones(1), {}, TypeError, "not Tensor"),
    (same, {"name": "a b"}, ValueError, "name must be an identifier"),
    (same, {"name": 3}, TypeError, "name must be a str"),
    (same, {"name": "fastgrad::x"}, ValueError, "reserved namespace"),
    (same, {"dtypes": fg.float32}, TypeError, "dtypes must be a sequence"),
    (same, {"dtypes": None}, TypeError, "dtypes must be a sequence"),
    (same, {"dtypes": ("float32",)}, TypeError, "must hold dtypes"),
    (same, {"dtypes": ()}, ValueError, "at least one"),
    (same, {"dtypes": (fg.float16,)}, ValueError, "halves are computed in float32"),
    (same, {"dtypes": (fg.complex64,)}, ValueError, "view_as_real"),
    (njit(parallel=True)(same), {}, TypeError, "leave parallel=True out"),
]


@pytest.mark.parametrize(("function", "options", "error", "message"), FUNCTIONS)
def test_declarations(function, options, error, message):
    n = len(OPS), len(KERNELS)
    with pytest.raises(error, match=message):
        op(function, **(VECTOR | options))
    assert (len(OPS), len(KERNELS)) == n


@njit
def of_two_gradients(g, da, db):
    da[:] = 0


another = op(same, **VECTOR, name="another")
first_alone = op(
    lambda grad, a, da, db: None, inputs=("(n)", "(n)"), outputs=("(n)", "(n)"), name="first_alone",
    backward={"grad": lambda g: g, "a": None},
)  # fmt: skip

BACKWARDS = [
    (3, "must be a function, one of numba.njit, or an op"),
    ({"z": None}, "must have the keys x, but has z"),
    ({}, "must have the keys x, but has none"),
    (lambda g: g.T, r"tensors of a rule have no \.T; they have .*mT"),
    (lambda g: g * np.ones(3), "no rule in the language of tensors"),
    (lambda g: fg.exp(g), "must be Tensor, not Symbol"),
    (lambda g: 1 / 0, "division by zero"),
    (lambda g: 3, "must return a tensor, but returned int"),
    (lambda g: None, "must return a tensor, but returned NoneType"),
    (lambda g, x: g if x > 0 else x, "a choice between values is m.where"),
    (lambda g: g + None, "add was given None"),
    (lambda g: g @ None, "bmm was given None"),
    (lambda g: g + "1", "with numbers, but this is a str"),
    (lambda g: g * fg.tensor(2.5), "with numbers, but this is a Tensor"),
    (lambda g: g * (1 << 63), "no rule in the language of tensors: .*int"),
    (lambda g: g.sum(1 << 63), "no rule in the language of tensors: .*int"),
    (lambda g: g.transpose("a", 0), "cannot be interpreted as an integer"),
    (lambda g: g.expand(*range(100)), "at most 16 dimensions, but 100 sizes were given"),
    (lambda g: g.reshape(*[1] * 17), "at most 16 dimensions, but 17 sizes were given"),
    (lambda g: m.exp(g, g), "m.exp takes 1 operands, but got 2"),
    (lambda g: m.add(g), "m.add takes 2 operands, but got 1"),
    (lambda g: m.transpose(g), "m.transpose is no function of elements"),
    (lambda g: m.accumulate_grad(g), "m.accumulate_grad is no function of elements"),
    (lambda g, n: g * (n - 1), "unsupported operand"),
    (lambda g, n: g if n > 1 else -g, "a rule is traced once"),
    (lambda g, z: g, r"must take g, and may take n, out, x, but takes \(g, z\)"),
    (lambda x: x, "must take g"),
    (lambda g, *more: g, "must have plain parameters"),
    (lambda g, x=1: g, "must have plain parameters"),
    (njit(same), "must take g and inputs and outputs by their names, then an array for each gradient"),
    (of_two_gradients, "then an array for each gradient"),
    (another, "does not fit: it must take the gradient of the output, g"),
    ({"x": {"z": None}}, "must have the keys out, but has z"),
    ({"x": {"out": lambda g, z: g}}, "but takes"),
]


@pytest.mark.parametrize(("backward", "message"), BACKWARDS)
def test_backwards(backward, message):
    n = len(OPS), len(KERNELS)
    with pytest.raises(TypeError, match=message):
        op(same, **VECTOR, backward=backward)
    assert (len(OPS), len(KERNELS)) == n


def doubled(g):
    return g * 2


def test_a_declaration_that_is_stopped_leaves_no_op(monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Op, "vjp", stopped)
        with pytest.raises(KeyboardInterrupt):
            op(same, **VECTOR, backward=doubled, name="stopped")
    x = fg.ones(3, requires_grad=True)
    op(same, **VECTOR, backward=doubled, name="stopped")(x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize("answer", [lambda kept, g: kept, lambda kept, g: kept + g])
def test_rules_cannot_use_tensors_of_other_rules(answer):
    kept = []

    def rule(g):
        kept.append(g * 2 * 2)
        return answer(kept[0], g)

    with pytest.raises(TypeError, match="a tensor of another rule"):
        op(same, **VECTOR, backward=rule, name="keeping")


def test_backwards_that_do_not_fit():
    with pytest.raises(TypeError, match=r"has the inputs a, b; pass backward=\{'a': function"):
        op(of_two, **PAIR, backward=lambda g: g)
    with pytest.raises(TypeError, match="but not both"):
        op(of_two, **PAIR, backward={"a": lambda g: g, "b": {"out": lambda g: g}})
    with pytest.raises(TypeError, match=r"has a backward by its first output .* 'out' has a fixed one"):
        op(same, inputs=("(n)",), outputs=("int64 (n)",), backward=lambda g: g)
    with pytest.raises(TypeError, match="but no input is of such a dtype"):
        op(same, inputs=("int64 (n)",), outputs=("int64 (n)",), dtypes=(fg.int64,), backward=lambda g: g)

    def gradient(g, x, dx):
        dx[0] = g[0]

    shapes = {"inputs": ("(n)", "(n)"), "outputs": ("(n)",)}
    wrong = [
        ({"inputs": ("(n)", "(k)")}, r"its input 'x' must be \(n\) as in the op"),
        ({"inputs": ("(n)", "int64 (n)")}, r"its input 'x' must be \(n\) as in the op"),
        ({"outputs": ("int64 (n)",)}, r"its outputs must be the gradients of x: \(n\)"),
        ({"dtypes": (fg.float32,)}, "it must exist for all dtypes of the op"),
    ]
    for k, (change, message) in enumerate(wrong):
        by = op(gradient, **(shapes | change), name=f"gradient{k}")
        with pytest.raises(TypeError, match=message):
            op(same, **VECTOR, backward=by)

    def with_constant(g, dx, factor: float):
        dx[0] = factor

    with pytest.raises(TypeError, match="its constants must be among those of the op"):
        op(same, **VECTOR, backward=op(with_constant, **VECTOR))
    with pytest.raises(TypeError, match="its input 'z' is neither g nor an input or output of the op"):
        op(same, **VECTOR, backward=op(lambda g, z, dx: None, **shapes, name="of_z"))
    with pytest.raises(TypeError, match="its own backward must be given for each of its outputs"):
        op(of_two, **PAIR, backward=first_alone)


def test_calls():
    @op(inputs=("(m, k)", "(k, n)", "int64 (n)"), outputs=("(m, n)",))
    def f(a, b, index, out, scale: float = 1.0, flag: bool = False, count: int = 1):
        out[:] = 0

    a, b, index = fg.ones(2, 3), fg.ones(3, 4), fg.arange(4)
    assert f(a, b, index).shape == (2, 4)
    assert (
        f(a, index=index, b=b, count=np.int64(3), flag=np.bool_(True), scale=fg.tensor(1.0).item()).sum() == 0
    )
    for arguments, named, error, message in (
        ((), {}, TypeError, r"f\(\): missing a required argument: 'a'; it takes \(a, b, index, scale="),
        ((a, b, index, 1.0, False, 1, 2), {}, TypeError, "too many positional arguments"),
        ((a, b, index), {"z": 1}, TypeError, "unexpected keyword argument 'z'"),
        ((a, b, index), {"a": 1}, TypeError, "multiple values for argument 'a'"),
        ((None, b, index), {}, TypeError, r"argument 'a' \(position 1\) must be Tensor, not NoneType"),
        ((np.ones((2, 3)), b, index), {}, TypeError, "must be Tensor, not ndarray"),
        ((a, 3.0, index), {}, TypeError, "argument 'b'"),
        ((a[0], b, index), {}, RuntimeError, r"must have 2 dimensions, \(m, k\), but has the shape \[3\]"),
        (
            (a, b.T, index),
            {},
            RuntimeError,
            r"has the shape \[4, 3\], but \(k, n\) needs k = 3, which argument 'a' has",
        ),
        ((a, b, fg.arange(3)), {}, RuntimeError, "needs n = 4, which argument 'b' has"),
        ((a, b.double(), index), {}, RuntimeError, "expected operands of the same dtype"),
        ((a, b, index.int()), {}, RuntimeError, r"must be of fastgrad.int64, but is of fastgrad.int32"),
        (
            (a.long(), b.long(), index),
            {},
            NotImplementedError,
            "not implemented for 'Long', but for fastgrad.float32",
        ),
        ((a.to(fg.complex64), b, index), {}, NotImplementedError, "not implemented for 'ComplexFloat'"),
        ((a, b, index, "1"), {}, TypeError, "constant 'scale' must be float, not str"),
        ((a, b, index, b"1"), {}, TypeError, "constant 'scale' must be float, not bytes"),
        ((a, b, index, None), {}, TypeError, "constant 'scale' must be float, not NoneType"),
        ((a, b, index, a.sum()), {}, TypeError, "must be float, not Tensor; make it an input"),
        ((a, b, index, 1j), {}, TypeError, "constant 'scale' must be float, not complex"),
        ((a, b, index, 1.0, 1), {}, TypeError, "constant 'flag' must be bool, not int"),
        ((a, b, index, 1.0, type("bool", (int,), {})(1)), {}, TypeError, "constant 'flag' must be bool"),
        ((a, b, index, 1.0, True, 1.0), {}, TypeError, "constant 'count' must be int, not float"),
        ((a, b, index, 1.0, True, 1 << 80), {}, OverflowError, "too large for int64"),
    ):
        for _ in range(3):
            with pytest.raises(error, match=message):
                f(*arguments, **named)


def test_rules_fit_their_input():
    x = fg.ones(3, requires_grad=True)
    for k, rule in enumerate((lambda g: g.sum(), lambda g: g.unsqueeze(0).expand(2, 3).reshape(6))):
        wrong = op(same, **VECTOR, backward=rule, name=f"wrong{k}")
        with pytest.raises(RuntimeError, match="returned an invalid gradient at index 0"):
            wrong(x).sum().backward()
    rows = op(same, **VECTOR, backward=lambda g: g.unsqueeze(0).expand(2, 3), name="rows")
    rows(x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]  # as of a broadcast operand


def test_full_tables(monkeypatch):
    from fastgrad.ops import formulas

    monkeypatch.setattr(formulas, "MAX_OPS", len(OPS) + 1)
    with pytest.raises(RuntimeError, match=r"the table of ops has .* rows, which are taken"):
        op(of_two, **PAIR, backward={"a": lambda g: g, "b": of_one}, name="too_many")


@njit
def of_one(g, db):
    db[:] = 0


class Lying(fg.Tensor):
    """A tensor that is not what it says."""

    shape = (3, 2)
    dtype = fg.float32


class Pretending:
    """No tensor, though it says so."""

    __class__ = fg.Tensor


def test_there_is_no_kernel_for_gpus():
    with pytest.raises(NotImplementedError, match=r"no CUDA kernel for library_another.*\.cpu\(\)"):
        built(another.declared.op.kernel, FLOAT32, FLAT, "sm_90")


def test_what_lies_crashes_nothing():
    @op(
        inputs=("(m, k)", "(k)"), outputs=("(m)",), backward={"a": lambda g, x: g.unsqueeze(1) * x, "x": None}
    )
    def times(a, x, out):
        for i in range(a.shape[0]):
            out[i] = a[i, 0] + x[a.shape[1] - 1]

    lying = fg.ones(2, 3, dtype=fg.float64)
    lying.__class__ = Lying
    assert times(lying, fg.ones(3, dtype=fg.float64)).shape == (2,)
    with pytest.raises(RuntimeError, match="same dtype"):
        times(lying, fg.ones(3))
    with pytest.raises(TypeError):
        times(Pretending(), fg.ones(3))
    a, x = fg.ones(2, 3, requires_grad=True), fg.ones(3)
    y = times(a, x)
    x.data = fg.ones(1000)
    with pytest.raises(RuntimeError):
        y.sum().backward()

    @op(inputs=("(n)",), outputs=("(n, k)",))
    def spread(x, out, k: int):
        out[:] = 0

    for k in (1 << 62, (1 << 63) - 1, 1 << 45):
        with pytest.raises((RuntimeError, MemoryError)):
            spread(fg.ones(4), k)


def test_saved_tensor_hooks_that_bring_something_else():
    @njit
    def back(g, x, dx):
        for i in range(x.shape[0]):
            dx[i] = g[i] * x[i]

    squared = op(same, **VECTOR, backward=back, name="squared")
    x = fg.ones(3, requires_grad=True)
    for other in (fg.ones(2), fg.ones(3, dtype=fg.float64), fg.ones(3, dtype=fg.int64), fg.ones(0)):
        with fg.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t, other=other: other):
            y = squared(x)
        with pytest.raises(RuntimeError):
            y.sum().backward()
    with fg.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: fg.ones(3, 1)):
        y = squared(x)
    y.sum().backward()  # as many elements
    assert x.grad.tolist() == [1, 1, 1]
