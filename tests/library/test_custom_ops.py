"""`fastgrad.library`: ops that are functions of Python, with PyTorch's interface."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import fastgrad as fg
from fastgrad import Tensor, library
from fastgrad.autograd import gradcheck, gradgradcheck
from fastgrad.library import custom_op, infer_schema, opcheck
from fastgrad.library.checking import OpCheckError

CPU = fg.device("cpu")


@pytest.fixture(autouse=True)
def no_ops_stay():
    yield
    for name in ("tests_op", "tests_lib"):
        for op in dir(getattr(fg.ops, name, None)) if hasattr(fg.ops, name) else ():
            delattr(getattr(fg.ops, name), op)
    library.libraries._kept.clear()


def sine() -> Any:
    @custom_op("tests_op::sine", mutates_args=())
    def sine(x: Tensor, scale: float = 1.0) -> Tensor:
        """The sine of each element."""
        return fg.from_numpy(np.sin(x.numpy()) * x.numpy().dtype.type(scale))

    def setup_context(ctx, inputs, output):
        x, ctx.scale = inputs
        ctx.save_for_backward(x)

    def backward(ctx, grad):
        assert ctx.needs_input_grad == (True, False)
        [x] = ctx.saved_tensors
        return grad * x.cos() * ctx.scale, None

    sine.register_autograd(backward, setup_context=setup_context)
    sine.register_fake(lambda x, scale=1.0: fg.empty_like(x))
    return sine


def split() -> Any:
    """An op on lists, with an int among its results."""

    @custom_op("tests_op::split", mutates_args=())
    def split(xs: list[Tensor], factor: float, y: Tensor | None = None) -> tuple[list[Tensor], Tensor, int]:
        total = fg.zeros(()) if y is None else y.sum()
        return [x * factor for x in xs], total * 1, len(xs)

    def setup_context(ctx, inputs, output):
        ctx.factor, ctx.has = inputs[1], inputs[2] is not None
        if ctx.has:
            ctx.save_for_backward(inputs[2])

    def backward(ctx, grads, of_total, of_count):
        assert of_count is None
        gradients = [None if g is None else g * ctx.factor for g in grads]
        return gradients, None, of_total.expand(ctx.saved_tensors[0].shape) if ctx.has else None

    split.register_autograd(backward, setup_context=setup_context)
    return split


def numbers(*sizes: int) -> Any:
    fg.manual_seed(5)
    return fg.randn(*sizes, dtype=fg.float64, requires_grad=True)


def test_values_derivatives_and_access():
    op, x = sine(), numbers(3, 4)
    assert fg.ops.tests_op.sine is op is fg.ops.tests_op.sine.default
    fg.testing.assert_close(op(x), x.sin())
    fg.testing.assert_close(op(scale=2, x=x), x.sin() * 2)
    assert gradcheck(op, (x,))
    assert gradgradcheck(op, (x.T, 0.5))
    assert op(x).grad_fn.name() == "GeneratedBackwardFor_tests_op_sine_defaultBackward"
    assert not op(x.detach()).requires_grad
    assert (op.__doc__, op._qualname) == ("The sine of each element.", "tests_op::sine")
    assert opcheck(op, (x,), {"scale": 2.0}) == dict.fromkeys(
        ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"),
        "SUCCESS",
    )
    assert opcheck(op, (x.detach(),), test_utils="test_faketensor") == {"test_faketensor": "SUCCESS"}


def test_lists_and_several_results():
    op, x, y = split(), numbers(2), numbers(3)
    (a, b), total, n = op((x, y), 3.0, y)
    assert (n, a.requires_grad, total.requires_grad) == (2, True, True)
    (a.sum() + 2 * b.sum() + total).backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([3, 3], [7, 7, 7])
    parts, total, n = op([], 3.0)
    assert (parts, n) == ([], 0)
    op.register_autograd(lambda ctx, *grads: (grads[0][:1], None, None))
    with pytest.raises(RuntimeError, match="a list of 2 gradients"):
        op([x, y], 1.0)[0][0].sum().backward()
    op.register_autograd(lambda ctx, *grads: grads[0])
    with pytest.raises(RuntimeError, match=r"expected 3 gradients.*got 1"):
        op([x, y], 1.0)[0][0].sum().backward()


def test_keyword_only_arguments():
    @custom_op("tests_op::times", mutates_args=())
    def times(x: Tensor, *, by: float = 2.0, dtype: fg.dtype = fg.float32) -> Tensor:
        return x * by

    def setup_context(ctx, inputs, keyword_only_inputs, output):
        assert len(inputs) == 1
        ctx.by = keyword_only_inputs["by"]

    times.register_autograd(lambda ctx, g: g * ctx.by, setup_context=setup_context)
    x = numbers(2)
    assert fg.autograd.grad(times(x, by=4.0).sum(), x)[0].tolist() == [4, 4]
    assert fg.autograd.grad(times(x).sum(), x)[0].tolist() == [2, 2]


def test_hooks():
    op, x, seen = sine(), numbers(3), []
    with fg.autograd.graph.saved_tensors_hooks(
        lambda t: seen.append("pack") or t, lambda t: seen.append("unpack") or t
    ):
        y = op(x)
    y.register_hook(lambda g: seen.append("tensor") or g * 2)
    y.grad_fn.register_prehook(lambda grads: seen.append("pre"))
    y.grad_fn.register_hook(lambda ins, outs: seen.append("post"))
    x.register_post_accumulate_grad_hook(lambda t: seen.append("leaf"))
    y.sum().backward()
    assert seen == ["pack", "tensor", "pre", "unpack", "post", "leaf"]
    fg.testing.assert_close(x.grad, 2 * x.detach().cos())


def test_compiled():
    op, x = sine(), numbers(4)
    compiled = fg.compile(lambda x: op(x * 2) + 1)
    for k in range(4):
        given = (x.detach() + k).requires_grad_()
        y = compiled(given)
        fg.testing.assert_close(y.detach(), (given.detach() * 2).sin() + 1)
        y.sum().backward()
        fg.testing.assert_close(given.grad, 2 * (given.detach() * 2).cos())
        with fg.no_grad():
            fg.testing.assert_close(compiled(given), (given * 2).sin() + 1)


def by_name(x):
    return fg.ops.tests_op.thrice(x)


def test_compiled_calls_see_what_is_registered_anew():
    def make(factor):
        op = custom_op(
            "tests_op::thrice", lambda x: x * factor, mutates_args=(), schema="(Tensor x) -> Tensor"
        )
        op.register_autograd(lambda ctx, g: g * factor)
        return op

    held = [make(3.0)]
    for function in (by_name, lambda x: held[0](x)):
        compiled, x = fg.compile(function), fg.ones(2, requires_grad=True)
        held[0] = make(3.0)
        for factor in (3.0, 3.0, 3.0, 4.0, 4.0, 4.0):
            if factor != held[0](fg.ones(1)).item():
                held[0] = make(factor)
            y = compiled(x)
            assert y.tolist() == [factor] * 2
            assert fg.autograd.grad(y.sum(), x)[0].tolist() == [factor] * 2
        held[0].register_kernel("cpu", lambda x: x * 5)
        held[0].register_autograd(lambda ctx, g: g * 7)
        y = compiled(x)
        assert (y.tolist(), fg.autograd.grad(y.sum(), x)[0].tolist()) == ([5, 5], [7, 7])


def test_numbers_that_a_compiled_call_gets():
    custom_op("tests_op::total", lambda x: int(x.sum().item()), mutates_args=(), schema="(Tensor x) -> int")
    compiled = fg.compile(lambda x: x * fg.ops.tests_op.total(x))
    for k in range(5):
        assert compiled(fg.full((2,), float(k))).tolist() == [2 * k * k] * 2


def test_changes_in_place():
    @custom_op("tests_op::fill", mutates_args=("x",))
    def fill(x: Tensor, value: float) -> None:
        x.numpy()[:] = value

    @custom_op("tests_op::fill_both", mutates_args="unknown")
    def fill_both(x: Tensor, y: Tensor) -> None:
        x.fill_(1)
        y.fill_(2)

    x = fg.zeros(3)
    saved = numbers(3).float()
    y = saved * x
    assert fill(x, 2.0) is None
    assert (x.tolist(), x._version) == ([2, 2, 2], 1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    z = fg.zeros(2)
    fill_both(x, z)
    assert (x._version, z._version, z.tolist()) == (2, 1, [2, 2])
    assert str(fill._schema) == "tests_op::fill(Tensor(a0!) x, float value) -> ()"
    assert opcheck(fill, (x, 1.0))["test_schema"] == "SUCCESS"
    with pytest.raises(RuntimeError, match="non-functional operator"):
        fill.register_autograd(lambda ctx, g: g)


def test_no_derivative():
    op = custom_op("tests_op::twice", mutates_args=())(twice)
    x = numbers(2)
    y = op(x)
    assert y.requires_grad
    with pytest.raises(RuntimeError, match="register_autograd"):
        y.sum().backward()
    with pytest.raises(OpCheckError, match="register_autograd"):
        opcheck(op, (x,), test_utils="test_autograd_registration")


def twice(x: Tensor) -> Tensor:
    return x * 2


def test_redefinition_deletion_copies_and_threads():
    first = sine()
    y = first(numbers(2))
    second = custom_op("tests_op::sine", twice, mutates_args=())
    assert fg.ops.tests_op.sine is second
    y.sum().backward()
    assert pickle.loads(pickle.dumps(second)) is second
    assert copy.deepcopy(second) is copy.copy(second) is second
    stored = pickle.dumps(second)
    results: list[Any] = []
    threads = [
        threading.Thread(target=lambda: results.append(second(fg.ones(2)).sum().item())) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [4.0] * 4
    gone = weakref.ref(second)
    del fg.ops.tests_op.sine, y, first, threads
    second = None
    gc.collect()
    assert gone() is None
    assert not hasattr(fg.ops, "tests_op")
    with pytest.raises(AttributeError, match="before unpickling"):
        pickle.loads(stored)


def test_kernels_by_device():
    @custom_op("tests_op::where", mutates_args=(), device_types="cuda")
    def where(x: Tensor) -> Tensor:
        return x * 3

    with pytest.raises(NotImplementedError, match=r"'CPU' backend.*register_kernel\('cpu'\)"):
        where(fg.ones(1))
    where.register_kernel("cpu")(twice)
    assert where(fg.ones(1)).item() == 2
    with where.set_kernel_enabled("cpu", False):
        assert where(fg.ones(1)).item() == 3
    assert where(fg.ones(1)).item() == 2
    with pytest.raises(RuntimeError, match="Expected one of cpu, cuda"):
        where.register_kernel("tpu", twice)
    with pytest.raises(TypeError, match="callable"):
        where.register_kernel("cpu", 3)

    @custom_op("tests_op::made", mutates_args=())
    def made(n: int, device: fg.device = CPU) -> Tensor:
        return fg.ones(n, device=device)

    assert made(2, "cpu").shape == (2,)


def unannotated(x):
    return x


def no_result(x: Tensor):
    return x


def a_dict(x: dict) -> Tensor:
    return x


def a_tuple(x: tuple[int, int]) -> Tensor:
    return x


def starred(*x: Tensor) -> Tensor:
    return x


def returns_dict(x: Tensor) -> dict:
    return {}


def keyword_tensor(*, x: Tensor) -> Tensor:
    return x


def list_default(x: Tensor, n: list[int] = [1]) -> Tensor:  # noqa: B006
    return x


def unknown_name(x: "Nowhere") -> Tensor:  # noqa: F821, UP037
    return x


def test_wrong_declarations():
    name = "tests_op::wrong"
    for function, options, kind, text in (
        (unannotated, {}, ValueError, "Parameter x must have a type annotation"),
        (no_result, {}, ValueError, "No return type annotation"),
        (a_dict, {}, ValueError, "unsupported type.*valid types are: Tensor, int"),
        (a_tuple, {}, ValueError, "unsupported type"),
        (starred, {}, ValueError, "varargs"),
        (returns_dict, {}, ValueError, "Return has unsupported type"),
        (keyword_tensor, {}, NotImplementedError, "not kwarg-only"),
        (list_default, {}, ValueError, "default value type"),
        (unknown_name, {}, ValueError, "not a type"),
        (twice, {"mutates_args": ("y",)}, ValueError, "not found in the custom op's signature"),
        (twice, {"mutates_args": "x"}, ValueError, "or the string 'unknown'"),
        (twice, {"device_types": "tpu"}, RuntimeError, "Expected one of cpu, cuda"),
        (twice, {"schema": "(Tensor x"}, RuntimeError, "expected a schema such as"),
        (twice, {"schema": "(Tensor(a!) x) -> Tensor"}, ValueError, "make these consistent"),
        (3, {}, TypeError, "fn is required to be a callable"),
    ):
        with pytest.raises(kind, match=text):
            custom_op(name, function, **({"mutates_args": ()} | options))
    for wrong, kind, text in (
        ("sine", ValueError, "namespace::name"),
        ("a::b::c", ValueError, "namespace::name"),
        ("aten::sine", ValueError, "reserved namespace"),
        ("registry::sine", ValueError, "reserved namespace"),
        ("a b::sine", ValueError, "identifier"),
        ("tests_op::a.b", ValueError, "overload"),
        ("tests_op::__class__", ValueError, "identifier"),
        (3, TypeError, "must be a str"),
    ):
        with pytest.raises(kind, match=text):
            custom_op(wrong, twice, mutates_args=())
    assert not hasattr(fg.ops, "tests_op")


def test_wrong_calls_and_results():
    def f(x: Tensor, n: int, s: float = 1.0, on: bool = False, k: Sequence[int] | None = None) -> Tensor:
        return x * n

    op, x = custom_op("tests_op::f", f, mutates_args=()), fg.ones(2)
    assert op(x, True).tolist() == [1, 1]
    for call, text in (
        (lambda: op(x), "missing value for argument 'n'"),
        (lambda: op(x, 1, 1.0, True, (1,), 3), "takes 5 positional argument"),
        (lambda: op(x, 2.0), "type 'int' for argument 'n' but instead found type 'float'"),
        (lambda: op(2.0, 2), "type 'Tensor' for argument 'x'"),
        (lambda: op(None, 2), "type 'Tensor' for argument 'x'"),
        (lambda: op(x, 2, None), "type 'float' for argument 's'"),
        (lambda: op(x, 2, on=1), "type 'bool' for argument 'on'"),
        (lambda: op(x, 2, k=(1, "a")), "argument 'k'"),
        (lambda: op(x, 2, z=1), "Unknown keyword argument 'z'"),
        (lambda: op(x, 2, x=x), "both as positional and keyword"),
    ):
        with pytest.raises(RuntimeError, match=text):
            call()

    for returned, text in (
        (lambda x: x, "may not alias any inputs"),
        (lambda x: x[:1], "may not alias any inputs"),
        (lambda x: 3, "expected the implementation to return Tensor as result 0"),
        (lambda x: None, "returned a NoneType"),
        (lambda x: (x.clone(), x.clone()), "Tensor as result 0"),
    ):
        op = custom_op("tests_op::g", returned, mutates_args=(), schema="(Tensor x) -> Tensor")
        for given in (fg.ones(2), fg.ones(2, requires_grad=True)):
            with pytest.raises(RuntimeError, match=text):
                op(given)
    op = custom_op("tests_op::g", lambda x: [x.clone()] * 2, mutates_args=(), schema="(Tensor x) -> Tensor[]")
    with pytest.raises(RuntimeError, match="or other returns"):
        op(x)

    def raises(x: Tensor) -> Tensor:
        raise KeyError("of the user")

    for given in (x, fg.ones(2, requires_grad=True)):
        with pytest.raises(KeyError, match="of the user"):
            custom_op("tests_op::g", raises, mutates_args=())(given)
    assert fg.is_grad_enabled()


def test_opcheck_finds_what_is_wrong():
    op = sine()
    op.register_fake(lambda x, scale=1.0: fg.empty(1))
    with pytest.raises(OpCheckError, match=r"test_faketensor failed with .*shape"):
        opcheck(op, (fg.ones(2),))
    found = opcheck(op, (fg.ones(2),), raise_exception=False)
    assert isinstance(found["test_faketensor"], RuntimeError)
    assert found["test_schema"] == "SUCCESS"
    hidden = custom_op("tests_op::h", lambda x: x.add_(1) * 1, mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(OpCheckError, match="does not mutate the argument"):
        opcheck(hidden, (fg.ones(2),))
    with pytest.raises(OpCheckError, match="no fake impl"):
        opcheck(custom_op("tests_op::t", twice, mutates_args=()), (fg.ones(2),))
    for arguments, text in (
        (((3, (1,)), {}), "got <class 'int'>"),
        (((op, (1,)), {"test_utils": "foo"}), "subset"),
        (((op, (1,)), {"atol": 1.0}), "both"),
    ):
        with pytest.raises(ValueError, match=text):
            opcheck(*arguments[0], **arguments[1])


def test_libraries():
    lib: Any = library.Library("tests_lib", "DEF")
    assert (
        lib.define("double(Tensor x, int n=2, *, float? f=None, ScalarType d=float32) -> Tensor") == "double"
    )
    op = fg.ops.tests_lib.double
    with pytest.raises(NotImplementedError, match="no device"):
        op(fg.ones(1))
    lib.impl("double", lambda x, n, *, f, d: x * n, "CPU")
    x = fg.ones(2, requires_grad=True)
    assert op(x, 3).grad_fn.name() == "MulBackward0"  # an implementation is differentiated through
    library.register_autograd("tests_lib::double", lambda ctx, g: (g * 7, None))
    assert fg.autograd.grad(op(x, 3).sum(), x)[0].tolist() == [7, 7]
    for call, kind, text in (
        (lambda: lib.define("double(Tensor x) -> Tensor"), RuntimeError, "multiple times"),
        (lambda: lib.define("(Tensor x) -> Tensor"), RuntimeError, "name of an op"),
        (lambda: lib.define("f(Tensor x, Tensor x) -> Tensor"), RuntimeError, "two arguments"),
        (lambda: lib.define("f(Foo x) -> Tensor"), RuntimeError, "no type of an argument"),
        (lambda: lib.define("f(Tensor x) -> Foo"), RuntimeError, "no type of a result"),
        (lambda: lib.define("f(Tensor x, int n=a) -> Tensor"), RuntimeError, "no value for n"),
        (lambda: lib.define("f(Tensor x, int n=1.5) -> Tensor"), RuntimeError, "the type of n"),
        (lambda: lib.define("f(Tensor) -> Tensor"), RuntimeError, "no argument"),
        (lambda: lib.define("f(Tensor(a) x) -> Tensor(a)"), NotImplementedError, "shares memory"),
        (lambda: lib.define(3), RuntimeError, "expected a schema"),
        (lambda: lib.define("f(Tensor x) -> Tensor", "BAD"), RuntimeError, "alias_analysis"),
        (lambda: lib.impl("double", 3), TypeError, "callable"),
        (lambda: lib.impl("double", twice, "CPU"), RuntimeError, "already a kernel"),
        (lambda: lib.impl("double", twice, "Autograd"), NotImplementedError, "register_autograd"),
        (lambda: lib.impl("double", twice, "Meta"), NotImplementedError, "register_fake"),
        (lambda: lib.impl("double", twice, "XLA"), NotImplementedError, "no dispatch key"),
        (lambda: lib.impl("nothing", twice), RuntimeError, "no op 'tests_lib::nothing'"),
        (lambda: lib.fallback(twice), NotImplementedError, "fallback"),
        (lambda: library.Library("tests_lib", "DEF"), RuntimeError, "FRAGMENT"),
        (lambda: library.Library("tests_lib", "BAD"), ValueError, "Unsupported kind"),
        (lambda: library.Library("aten", "DEF"), ValueError, "reserved"),
        (lambda: library.Library("tests_lib", "IMPL").define("f() -> ()"), RuntimeError, "defines nothing"),
    ):
        with pytest.raises(kind, match=text):
            call()
    lib = None
    gc.collect()
    assert not hasattr(fg.ops, "tests_lib")
    lib = library.Library("tests_lib", "DEF")
    lib._destroy()
    with pytest.raises(AssertionError, match="destroyed"):
        lib.define("f() -> ()")
    library.Library("tests_lib", "DEF")._destroy()


def test_functions_that_define_and_register():
    library.define("tests_lib::f", "(Tensor x) -> Tensor")
    library.impl("tests_lib::f", "default")(twice)
    assert fg.ops.tests_lib.f(fg.ones(1)).item() == 2
    library.register_fake("tests_lib::f")(fg.empty_like)
    library.register_vmap("tests_lib::f", lambda info, in_dims, x: (x, in_dims[0]))
    library.register_kernel("tests_lib::f", "cuda", twice)
    assert (
        opcheck(fg.ops.tests_lib.f, (fg.ones(2, requires_grad=True),))["test_aot_dispatch_dynamic"]
        == "SUCCESS"
    )
    for call, kind, text in (
        (lambda: library.define("tests_lib::g", "Tensor x"), ValueError, "look like"),
        (lambda: library.define("g", "() -> ()"), ValueError, "namespace::name"),
        (lambda: library.define(3, "() -> ()"), ValueError, "instance of str"),
        (lambda: library.impl("tests_lib::f", "tpu", twice), ValueError, "no type"),
        (lambda: library.impl("tests_lib::nope", "cpu", twice), RuntimeError, "no op"),
        (lambda: library.register_autograd("tests_lib::nope", twice), RuntimeError, "no op"),
        (lambda: library.register_autograd("tests_lib::f", 3), TypeError, "callable"),
        (lambda: library.register_fake(3, twice), ValueError, "unexpected type"),
        (
            lambda: library.register_autocast("tests_lib::f", "cpu", fg.float16),
            NotImplementedError,
            "autocast",
        ),
        (lambda: library.CustomOpDef("a::b"), TypeError, "is made by"),
        (lambda: library.get_ctx(), NotImplementedError, "symbolic"),
        (lambda: library.triton_op("tests_lib::t", twice), NotImplementedError, "Triton"),
        (lambda: library.wrap_triton(twice), NotImplementedError, "Triton"),
        (lambda: fg.ops.tests_lib.f.register_torch_dispatch(int), NotImplementedError, "torch_dispatch"),
        (lambda: fg.ops.tests_lib.nope, AttributeError, "no op of this name"),
        (lambda: fg.ops.nope, AttributeError, "custom_op"),
    ):
        with pytest.raises(kind, match=text):
            call()


@pytest.mark.parity
def test_schemas_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    texts = (
        "def f(x: lib.Tensor) -> lib.Tensor: ...",
        "def f(x: lib.Tensor, y: t.Optional[lib.Tensor], *, n: int = 3, k: t.List[int]) -> None: ...",
        "def f(xs: t.Sequence[lib.Tensor], e: t.Optional[lib.device] = None) -> t.List[lib.Tensor]: ...",
        "def f(a: float = 1.5, c: str = 'z', d: t.Union[int, float, bool] = 2) -> t.Tuple[int, float]: ...",
        "def f(a: t.Optional[t.List[float]], b: t.List[t.Optional[lib.Tensor]]) -> lib.Tensor: ...",
        "def f(a: list[bool], b: lib.dtype = lib.float32) -> tuple[lib.Tensor, int]: ...",
    )
    for text in texts:
        made = []
        for lib in (fg, torch):
            names: dict[str, Any] = {"lib": lib}
            exec(f"import typing as t\n{text}", names)
            schema = lib.library.infer_schema
            made.append(
                (schema(names["f"], mutates_args=()), schema(names["f"], mutates_args="unknown", op_name="f"))
            )
        assert made[0] == made[1]
    assert infer_schema(twice, mutates_args=()) == "(Tensor x) -> Tensor"


def test_a_namespace_may_begin_with_one_underscore():
    @custom_op("_kernels_of_tests::twice", mutates_args=())
    def twice(x: Tensor) -> Tensor:
        return x * 2

    @custom_op("_kernels_of_tests::thrice", mutates_args=())
    def thrice(x: Tensor) -> Tensor:
        return x * 3

    assert thrice(twice(fg.ones(1))).item() == 6
    with pytest.raises(ValueError, match="reserved"):
        custom_op("__kernels::twice", lambda x: x, mutates_args=())
