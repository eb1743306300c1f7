"""Custom functions. Tests with the argument `lib` run on fastgrad and, marked parity, on torch: same expectations."""

from __future__ import annotations

import copy
import gc
import importlib
import pickle
import threading
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from threads import in_threads

import fastgrad as fg


def ones(lib: ModuleType, n: int = 2) -> Any:
    return lib.ones(n, requires_grad=True)


def make(lib: ModuleType, forward: Any, backward: Any = None, **more: Any) -> Any:
    """A function class named F with the given static methods."""
    methods = {"forward": forward, **({} if backward is None else {"backward": backward}), **more}
    return type("F", (lib.autograd.Function,), {k: staticmethod(f) for k, f in methods.items()})


def times(lib: ModuleType) -> Any:
    """A product that saves both factors."""

    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.save_for_backward(a, b)
        return a * b

    def backward(ctx: Any, g: Any) -> Any:
        a, b = ctx.saved_tensors
        return g * b, g * a

    return make(lib, forward, backward)


def scaled(lib: ModuleType, log: list[Any] | None = None) -> Any:
    """A tensor times a number."""

    def forward(ctx: Any, a: Any, k: float) -> Any:
        ctx.k = k
        if log is not None:
            log.append(lib.is_grad_enabled())
        return a * k

    def backward(ctx: Any, g: Any) -> Any:
        if log is not None:
            log.append(lib.is_grad_enabled())
        return g * ctx.k, None

    return make(lib, forward, backward)


def fails(call: Callable[[], Any]) -> tuple[str, str]:
    """The class and the start of the message of the exception that a call raises."""
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error)
    return "", ""


# --- the call ----------------------------------------------------------------------------------------------


def test_forward_runs_with_gradients_off_and_backward_in_the_mode_of_the_pass(lib: ModuleType):
    log: list[Any] = []
    function = scaled(lib, log)
    x = ones(lib)
    y = function.apply(x, 3)
    assert lib.is_grad_enabled()
    assert y.requires_grad
    assert not y.is_leaf
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    lib.autograd.grad(function.apply(x, 3).sum(), x, create_graph=True)
    assert log == [False, False, False, True]
    assert lib.is_grad_enabled()


def test_the_node_is_the_ctx(lib: ModuleType):
    kept = []

    def forward(ctx: Any, a: Any, b: Any, k: int) -> Any:
        ctx.tag = "hi"
        kept.append(ctx)
        return a * k, b * 1

    def backward(ctx: Any, g: Any, h: Any) -> Any:
        kept.append(ctx)
        ctx.seen = True
        return g, h, None

    o, p = make(lib, forward, backward).apply(ones(lib), lib.ones(2), 3)
    node = o.grad_fn
    assert node is kept[0]
    assert node is p.grad_fn
    assert node.name() == "FBackward"
    assert type(node).__name__ == "FBackward"
    assert node.tag == "hi"
    assert (o.output_nr, p.output_nr) == (0, 1)
    assert len(node.next_functions) == 2
    assert node.next_functions[1] == (None, 0)
    log: list[Any] = []
    text = lambda values: [None if v is None else v.tolist() for v in values]  # noqa: E731
    node.register_prehook(lambda go: log.append(("pre", text(go))))
    node.register_hook(lambda gi, go: log.append(("post", text(gi), text(go))))
    o.sum().backward()
    assert log == [("pre", [[1.0, 1.0], None]), ("post", [[1.0, 1.0], [0.0, 0.0]], [[1.0, 1.0], None])]
    assert kept[1] is node
    assert node.seen
    del node.tag
    assert not hasattr(node, "tag")
    kept.clear()


def test_outputs_may_be_one_tensor_a_tuple_or_anything_beside_tensors(lib: ModuleType):
    def run(outputs: Callable[[Any], Any]) -> Any:
        seen = []

        def backward(ctx: Any, *grads: Any) -> Any:
            seen.append([g if g is None else g.tolist() for g in grads])
            return sum(g for g in grads if g is not None)

        x = ones(lib)
        result = make(lib, lambda ctx, a: outputs(a), backward).apply(x)
        values = result if isinstance(result, tuple) else (result,)
        tensors = [v for v in values if isinstance(v, lib.Tensor)]
        sum(t.sum() for t in tensors).backward()
        return type(result).__name__, len(values), [t.output_nr for t in tensors], seen[0], x.grad.tolist()

    one = [1.0, 1.0]
    assert run(lambda a: a * 2) == ("Tensor", 1, [0], [one], one)
    assert run(lambda a: (a * 2,)) == ("tuple", 1, [0], [one], one)
    assert run(lambda a: (a * 2, a * 3)) == ("tuple", 2, [0, 1], [one, one], [2.0, 2.0])
    assert run(lambda a: ("text", a * 2, None, 5)) == ("tuple", 4, [1], [None, one, None, None], one)


def test_an_output_that_is_no_tensor_is_returned_as_it_is(lib: ModuleType):
    box = object()

    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0]

    function = make(lib, lambda ctx, a: (a * 2, box, [a]), backward)
    x = ones(lib)
    y, same, inner = function.apply(x)
    assert same is box
    assert inner[0] is x
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("value", [None, (), 5, [1], {}, (None, "s")])
def test_outputs_without_a_tensor(lib: ModuleType, value: Any):
    assert make(lib, lambda ctx, a: value, lambda ctx, *g: None).apply(ones(lib)) == value


def test_arguments_of_any_kind(lib: ModuleType):
    seen = []

    def forward(ctx: Any, *args: Any) -> Any:
        seen.extend(args)
        return args[1] * 2

    args = (None, ones(lib), "s", [ones(lib)], lib.ones(2), lib.ones(2, dtype=lib.int64), 3.5)
    y = make(lib, forward, lambda ctx, g: (None, g, None, None, None, None, None)).apply(*args)
    assert all(a is b for a, b in zip(args, seen, strict=True))
    assert y.grad_fn.needs_input_grad == (False, True, False, False, False, False, False)
    assert len(y.grad_fn.next_functions) == 3
    y.sum().backward()
    assert args[1].grad.tolist() == [1.0, 1.0]
    seen.clear()


def test_no_arguments(lib: ModuleType):
    y = make(lib, lambda ctx: lib.ones(2), lambda ctx, g: None).apply()
    assert not y.requires_grad
    assert y.grad_fn is None


def test_more_than_sixty_arguments(lib: ModuleType):
    def forward(ctx: Any, *args: Any) -> Any:
        ctx.save_for_backward(*args)
        return sum(args[1:], args[0] * 1)

    def backward(ctx: Any, g: Any) -> Any:
        assert len(ctx.saved_tensors) == len(ctx.needs_input_grad)
        return tuple(g * (k + 1) for k in range(len(ctx.needs_input_grad)))

    function = make(lib, forward, backward)
    for count in (59, 60, 61, 200):
        xs = [ones(lib, 1) for _ in range(count)]
        y = function.apply(*xs)
        assert y.item() == count
        assert all(a is b for a, b in zip(y.grad_fn.saved_tensors, xs, strict=True))
        y.backward()
        assert [x.grad.item() for x in xs] == [k + 1.0 for k in range(count)]


def test_apply_when_nothing_is_recorded(lib: ModuleType):
    kept = []

    def forward(ctx: Any, a: Any) -> Any:
        kept.append(ctx)
        ctx.save_for_backward(a)
        ctx.needs = ctx.needs_input_grad
        return a * 2

    function = make(lib, forward, lambda ctx, g: g)
    with lib.no_grad():
        y = function.apply(ones(lib))
    assert not y.requires_grad
    assert y.grad_fn is None
    with lib.inference_mode():
        assert function.apply(ones(lib)).is_inference()
    assert not function.apply(lib.ones(2)).requires_grad
    assert [c.needs for c in kept] == [(True,), (True,), (False,)]
    kept.clear()


def test_needs_input_grad_is_not_narrowed_by_the_inputs_of_a_pass(lib: ModuleType):
    seen = []

    def forward(ctx: Any, a: Any, b: Any, k: int) -> Any:
        seen.append(ctx.needs_input_grad)
        return a * b

    def backward(ctx: Any, g: Any) -> Any:
        seen.append(ctx.needs_input_grad)
        return g, g, None

    a, b = ones(lib), ones(lib)
    function = make(lib, forward, backward)
    (grad,) = lib.autograd.grad(function.apply(a, b, 1).sum(), [a])
    assert grad.tolist() == [1.0, 1.0]
    assert seen == [(True, True, False)] * 2
    function.apply(a, lib.ones(2), 1)
    assert seen[2] == (True, False, False)


def test_missing_forward_and_backward(lib: ModuleType):
    class Nothing(lib.autograd.Function):  # type: ignore[misc,name-defined]
        pass

    kind, message = fails(lambda: Nothing.apply(ones(lib)))
    assert kind == "NotImplementedError"
    assert message.startswith("You must implement the forward function for custom autograd.Function.")
    y = make(lib, lambda ctx, a: a * 2).apply(ones(lib))
    kind, message = fails(y.sum().backward)
    assert kind == "NotImplementedError"
    assert message.startswith("You must implement either the backward or vjp method")


def test_vjp_stands_for_backward(lib: ModuleType):
    x = ones(lib)
    make(lib, lambda ctx, a: a * 2, None, vjp=lambda ctx, g: g * 2).apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_backward_and_vjp_exclude_each_other(lib: ModuleType):
    """In backward."""

    def run() -> None:
        both = make(lib, lambda ctx, a: a * 2, lambda ctx, g: g, vjp=lambda ctx, g: g * 2)
        both.apply(ones(lib)).sum().backward()

    kind, message = fails(run)
    assert kind == "RuntimeError"
    assert message.startswith("Implementing both 'backward' and 'vjp' for a custom Function is not allowed")


def test_instances_are_deprecated_and_cannot_be_called(lib: ModuleType):
    function = make(lib, lambda ctx, a: a, lambda ctx, g: g)
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        instance = function()
    with pytest.raises(RuntimeError, match="Legacy autograd function with non-static forward method"):
        instance(ones(lib))


def test_class_and_bound_methods(lib: ModuleType):
    class Scale(lib.autograd.Function):  # type: ignore[misc,name-defined]
        factor = 3

        @classmethod
        def forward(cls, ctx: Any, a: Any) -> Any:
            return a * cls.factor

        @classmethod
        def backward(cls, ctx: Any, g: Any) -> Any:
            return g * cls.factor

    class More(Scale):
        factor = 5

    x = ones(lib)
    (Scale.apply(x) + More.apply(x)).sum().backward()
    assert x.grad.tolist() == [8.0, 8.0]
    assert More.apply(x).grad_fn.name() == "MoreBackward"


def test_backward_is_looked_up_when_it_runs(lib: ModuleType):
    function = make(lib, lambda ctx, a: a * 1, lambda ctx, g: g)
    x = ones(lib)
    y = function.apply(x)
    function.backward = staticmethod(lambda ctx, g: g * 7)
    y.sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]


def test_apply_of_the_node_runs_backward_alone(lib: ModuleType):
    y = scaled(lib).apply(ones(lib), 3)
    y.grad_fn.register_prehook(lambda go: (go[0] * 100,))
    result = y.grad_fn.apply(lib.ones(2))
    assert result[0].tolist() == [3.0, 3.0]
    assert result[1] is None
    assert fails(lambda: y.grad_fn(lib.ones(2)))[0] == "TypeError"


# --- setup_context -----------------------------------------------------------------------------------------


def with_setup(lib: ModuleType, log: list[Any]) -> Any:
    def forward(a: Any, k: float = 2, bias: float = 0) -> Any:
        log.append(("forward", k, bias, lib.is_grad_enabled()))
        return a * k + bias

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        log.append(("setup", len(inputs), inputs[1:], output.requires_grad, lib.is_grad_enabled()))
        ctx.k = inputs[1]
        ctx.save_for_backward(inputs[0], output)

    def backward(ctx: Any, g: Any) -> Any:
        log.append(
            ("backward", len(ctx.saved_tensors), ctx.saved_tensors[1].requires_grad, ctx.needs_input_grad)
        )
        return g * ctx.k, None, None

    return make(lib, forward, backward, setup_context=setup_context)


def test_setup_context(lib: ModuleType):
    log: list[Any] = []
    x = ones(lib)
    with_setup(lib, log).apply(x, 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    assert log == [
        ("forward", 3, 0, False),
        ("setup", 3, (3, 0), False, False),
        ("backward", 2, True, (True, False, False)),
    ]


def test_defaults_are_filled_in_for_setup_context(lib: ModuleType):
    log: list[Any] = []
    x = ones(lib)
    with_setup(lib, log).apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert log[1] == ("setup", 3, (2, 0), False, False)


def test_wrong_arguments_for_forward(lib: ModuleType):
    log: list[Any] = []
    function = with_setup(lib, log)
    assert fails(lambda: function.apply())[0] == "TypeError"
    assert fails(lambda: function.apply(ones(lib), 1, 2, 3))[0] == "TypeError"
    assert fails(lambda: scaled(lib).apply(ones(lib)))[0] == "TypeError"
    assert log == []


def test_what_is_saved_and_who_needs_gradients_can_be_assigned(lib: ModuleType):
    seen = []

    class Function(lib.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            seen.append(ctx.needs_input_grad)
            ctx.needs_input_grad = (False, "mine")
            ctx.to_save = (x,)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            seen.append(ctx.needs_input_grad)
            (x,) = ctx.saved_tensors
            return grad * x

    x = lib.full((2,), 3.0, requires_grad=True)
    Function.apply(x).sum().backward()
    assert seen == [(True,), (False, "mine")]
    assert x.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("value", [5, [1]])
def test_only_a_tuple_can_be_saved(lib: ModuleType, value: Any):
    class Function(lib.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.to_save = value
            return x * 2

    with pytest.raises((TypeError, RuntimeError), match=r"to_save .*tuple"):
        Function.apply(ones(lib))


def test_keyword_arguments(lib: ModuleType):
    log: list[Any] = []
    x, b = ones(lib), ones(lib)
    with_setup(lib, log).apply(x, bias=4).sum().backward()
    assert log[:2] == [("forward", 2, 4, False), ("setup", 3, (2, 4), False, False)]
    node = with_setup(lib, log).apply(bias=b, a=x).grad_fn
    assert node.needs_input_grad == (True, False, True)
    y = scaled(lib).apply(x, k=3)
    assert y.grad_fn.needs_input_grad == (True, False)
    y.sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]
    assert fails(lambda: scaled(lib).apply(x, q=3))[0] == "TypeError"
    log.clear()


def test_keyword_only_arguments_are_refused(lib: ModuleType):
    def forward(a: Any, *, bias: float = 0) -> Any:
        return a * 1

    function = make(lib, forward, lambda ctx, g: g, setup_context=lambda ctx, inputs, output: None)
    assert fails(lambda: function.apply(ones(lib), bias=3))[0] == "TypeError"
    assert fails(lambda: function.apply(ones(lib)))[0] == "TypeError"


# --- what backward gets and returns ------------------------------------------------------------------------


def returning(lib: ModuleType, result: Callable[[Any], Any], materialize: bool = True) -> Any:
    """`backward` of a function of (tensor, tensor, number) with two outputs, which returns `result` of a gradient."""

    def forward(ctx: Any, a: Any, b: Any, n: float) -> Any:
        ctx.set_materialize_grads(materialize)
        ctx.save_for_backward(a, None)
        return a * n, b * 1

    def backward(ctx: Any, g: Any, h: Any) -> Any:
        log.append((ctx.needs_input_grad, None if h is None else h.tolist()))
        return result(g)

    log: list[Any] = []
    x = ones(lib)
    o, _ = make(lib, forward, backward).apply(x, lib.ones(2), 3)
    o.grad_fn.register_prehook(lambda go: log.append(("pre", go[1])))
    o.grad_fn.register_hook(lambda gi, go: log.append(("post", len(gi))))
    kind, message = fails(o.sum().backward)
    return log, kind, message, None if x.grad is None else x.grad.tolist()


@pytest.mark.parametrize(
    ("result", "kind", "message"),
    [
        (lambda g: g, "RuntimeError",
         "function FBackward returned an incorrect number of gradients (expected 3, got 1)"),
        (lambda g: None, "RuntimeError",
         "function FBackward returned an incorrect number of gradients (expected 3, got 1)"),
        (lambda g: (g, None), "RuntimeError",
         "function FBackward returned an incorrect number of gradients (expected 3, got 2)"),
        (lambda g: (g, None, None, g), "RuntimeError",
         "function FBackward returned an incorrect number of gradients (expected 3, got 4)"),
        (lambda g: [g, None, None], "RuntimeError",
         "function FBackward returned an incorrect number of gradients (expected 3, got 1)"),
        (lambda g: (g, None, 5), "RuntimeError",
         "function FBackward returned a gradient different than None at position 3, but the corresponding forward "
         "input was not a Variable"),
        (lambda g: (g, None, g), "RuntimeError",
         "function FBackward returned a gradient different than None at position 3, but the corresponding forward "
         "input was not a Variable"),
        (lambda g: (5, None, None), "RuntimeError", "expected Variable or None (got int)"),
        (lambda g: (g[:1], None, None), "RuntimeError",
         "Function FBackward returned an invalid gradient at index 0 - got [1] but expected shape compatible with [2]"),
    ],
)  # fmt: skip
def test_wrong_returns_of_backward(lib: ModuleType, result: Any, kind: str, message: str):
    log, found, text, grad = returning(lib, result)
    assert (found, text[: len(message)]) == (kind, message)
    assert log == [("pre", None), ((True, False, False), [0.0, 0.0])]  # no post-hook
    assert grad is None


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (lambda g: (g, None, None), [1.0, 1.0]),
        (lambda g: (g, None, None, None, None), [1.0, 1.0]),
        (lambda g: (g.expand(4, 2).double(), None, None), [4.0, 4.0]),
        (lambda g: (g.sum() * 1, None, None), None),
        (lambda g: (None, None, None), None),
        (lambda g: (g, g, None), [1.0, 1.0]),
        (lambda g: (g.long(), None, None), [1.0, 1.0]),
    ],
)  # fmt: skip
def test_right_returns_of_backward(lib: ModuleType, result: Any, expected: Any):
    log, found, text, grad = returning(lib, result)
    if found:  # whether a smaller gradient is broadcast
        assert text.startswith("Function FBackward returned an invalid gradient at index 0 - got []")
        return
    assert log[-1] == ("post", 2)
    assert grad == expected


def test_undefined_gradients_are_zeros_unless_switched_off(lib: ModuleType):
    right: Any = lambda g: (g, None, None)  # noqa: E731
    assert returning(lib, right)[0][:2] == [("pre", None), ((True, False, False), [0.0, 0.0])]
    assert returning(lib, right, materialize=False)[0][:2] == [("pre", None), ((True, False, False), None)]


def test_zeros_have_the_sizes_and_dtype_of_the_output(lib: ModuleType):
    seen = []

    def forward(ctx: Any, a: Any) -> Any:
        return a * 1, lib.ones(2, 3, dtype=lib.float64), lib.ones((), dtype=lib.int64)

    def backward(ctx: Any, *grads: Any) -> Any:
        seen.extend((list(g.shape), str(g.dtype).split(".")[1], g.sum().item()) for g in grads)
        return grads[0]

    make(lib, forward, backward).apply(ones(lib))[0].sum().backward()
    assert seen == [([2], "float32", 2.0), ([2, 3], "float64", 0.0), ([], "int64", 0)]


def test_backward_does_not_run_or_runs_where_no_gradient_arrives(lib: ModuleType):
    log: list[Any] = []

    def backward(ctx: Any, g: Any) -> Any:
        log.append(g.tolist())
        return g

    x = ones(lib)
    y = make(lib, lambda ctx, a: a * 1, backward).apply(x)
    z = y * 2
    z.grad_fn.register_hook(lambda gi, go: (None, None))
    z.sum().backward()
    assert log == [[0.0, 0.0]]
    assert x.grad.tolist() == [0.0, 0.0]


def test_the_same_tensor_twice_as_argument(lib: ModuleType):
    x = ones(lib)
    y = times(lib).apply(x, x)
    assert [k for _, k in y.grad_fn.next_functions] == [0, 0]
    assert y.grad_fn.next_functions[0][0] is y.grad_fn.next_functions[1][0]
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_post_hooks_see_gradients_of_arguments_that_need_none(lib: ModuleType):
    seen = []
    a = ones(lib)
    y = times(lib).apply(a, lib.ones(2) * 3)
    y.grad_fn.register_hook(lambda gi, go: seen.append([g.tolist() for g in gi]))
    y.sum().backward()
    assert seen == [[[3.0, 3.0], [1.0, 1.0]]]


# --- outputs that are inputs, views, marked ----------------------------------------------------------------


def test_an_input_returned_as_it_is(lib: ModuleType):
    x = ones(lib)
    y = make(lib, lambda ctx, a: a, lambda ctx, g: g * 3).apply(x)
    assert y is not x
    assert y._is_view()
    assert y.grad_fn.name() == "FBackward"
    assert y.data_ptr() == x.data_ptr()
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    c = lib.ones(2)
    out, same = make(lib, lambda ctx, a, b: (a, b), lambda ctx, g, h: (g, h)).apply(x, c)
    assert same.requires_grad
    assert not c.requires_grad
    assert out.grad_fn is same.grad_fn
    plain = make(lib, lambda ctx, a: a, lambda ctx, g: g).apply(c)
    assert not plain.requires_grad
    assert plain.data_ptr() == c.data_ptr()


def test_an_input_returned_where_nothing_is_recorded(lib: ModuleType):
    x = ones(lib)
    with lib.no_grad():
        y = make(lib, lambda ctx, a: a, lambda ctx, g: g).apply(x)
    assert y is not x
    assert not y.requires_grad
    assert x.requires_grad
    assert x.is_leaf


def test_the_same_output_twice(lib: ModuleType):
    seen = []

    def forward(ctx: Any, a: Any) -> Any:
        y = a * 2
        return y, y

    def backward(ctx: Any, g: Any, h: Any) -> Any:
        seen.append((g.tolist(), h.tolist()))
        return g * 2 + h * 2

    x = ones(lib)
    y, z = make(lib, forward, backward).apply(x)
    assert y is z
    (y * 3 + z).sum().backward()
    assert seen in ([([0.0, 0.0], [4.0, 4.0])], [([4.0, 4.0], [0.0, 0.0])])
    assert x.grad.tolist() == [8.0, 8.0]


def test_a_view_of_an_input_as_output(lib: ModuleType):
    def forward(ctx: Any, a: Any) -> Any:
        return a[:1]

    def backward(ctx: Any, g: Any) -> Any:
        return lib.cat([g * 5, lib.zeros(1)])

    x = ones(lib)
    w = x * 1
    y = make(lib, forward, backward).apply(w)
    assert y._is_view()
    assert y.grad_fn.name() == "FBackward"
    (y * 2).sum().backward(retain_graph=True)
    assert x.grad.tolist() == [10.0, 0.0]


def test_changing_a_view_that_a_function_returned(lib: ModuleType):
    function = make(lib, lambda ctx, a: a.view(-1), lambda ctx, g: g)
    y = function.apply(ones(lib) * 1)
    kind, message = fails(lambda: y.mul_(2))
    assert kind == "RuntimeError"
    assert (
        "Output 0 of F is a view and is being modified inplace. This view was created inside a custom Function"
        in (message)
    )
    two = make(lib, lambda ctx, a: (a[:1], a[1:]), lambda ctx, g, h: lib.cat([g, h]))
    z = two.apply(ones(lib) * 1)[1]
    kind, message = fails(lambda: z.mul_(2))
    assert kind == "RuntimeError"
    assert (
        "Output 1 of F is a view and is being modified inplace. This view is the output of a function"
        in message
    )


def test_changing_the_base_of_a_view_that_a_function_returned(lib: ModuleType):
    w = ones(lib) * 1
    y = make(lib, lambda ctx, a: a[:1], lambda ctx, g: lib.cat([g, g])).apply(w)
    w.mul_(3)
    for use in (lambda: y.grad_fn, lambda: y * 2):
        kind, message = fails(use)
        assert kind == "RuntimeError"
        assert (
            "Output 0 of F is a view and its base or another view of its base has been modified inplace"
            in message
        )


def test_a_view_made_of_a_fresh_tensor_as_output(lib: ModuleType):
    x = ones(lib)
    y = make(lib, lambda ctx, a: (a * 2).view(2, 1), lambda ctx, g: g.view(2) * 2).apply(x)
    (y * 3).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


def in_place(lib: ModuleType, mark: bool = True) -> Any:
    def forward(ctx: Any, a: Any) -> Any:
        a.mul_(5)
        if mark:
            ctx.mark_dirty(a)
        return a

    return make(lib, forward, lambda ctx, g: g * 5)


def test_mark_dirty(lib: ModuleType):
    x = ones(lib)
    w = x * 1
    before = w.grad_fn
    seen = []
    w.register_hook(lambda g: seen.append(("old", g.tolist())))
    version = w._version
    y = in_place(lib).apply(w)
    assert y is w
    assert w.tolist() == [5.0, 5.0]
    assert w.grad_fn.name() == "FBackward"
    assert w.grad_fn.next_functions[0][0] is before
    assert w._version == version + 2
    w.register_hook(lambda g: seen.append(("new", g.tolist())))
    (y * 2).sum().backward()
    assert seen == [("new", [2.0, 2.0]), ("old", [10.0, 10.0])]
    assert x.grad.tolist() == [10.0, 10.0]


def test_mark_dirty_keeps_retained_gradients_with_the_tensor(lib: ModuleType):
    x = ones(lib)
    w = x * 1
    w.retain_grad()
    in_place(lib).apply(w)
    (w * 2).sum().backward()
    assert w.grad.tolist() == [2.0, 2.0]
    assert x.grad.tolist() == [10.0, 10.0]
    assert in_place(lib).apply(w).grad is None
    assert w.retains_grad


def test_mark_dirty_of_a_leaf(lib: ModuleType):
    x = ones(lib)
    kind, message = fails(lambda: in_place(lib).apply(x))
    assert kind == "RuntimeError"
    assert "a leaf Variable that requires grad" in message
    assert "used in an in-place operation." in message
    assert x.is_leaf
    c = lib.ones(2)
    y = in_place(lib).apply(c)
    assert y is c
    assert not y.requires_grad
    assert c.tolist() == [5.0, 5.0]
    assert c._version == 2  # one of the op, one of the mark


def test_mark_dirty_of_a_tensor_that_requires_no_grad(lib: ModuleType):
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        a.add_(b)
        ctx.mark_dirty(a)
        return a

    a, b = lib.ones(2), ones(lib)
    y = make(lib, forward, lambda ctx, g: (g, g)).apply(a, b)
    assert y is a
    assert a.requires_grad
    (a * 3).sum().backward()
    assert b.grad.tolist() == [3.0, 3.0]


def test_mark_dirty_of_a_view(lib: ModuleType):
    x = ones(lib)
    base = x * 1
    view = base[:1]
    y = in_place(lib).apply(view)
    assert y is view
    assert base.tolist() == [5.0, 1.0]
    assert "CopySlices" in base.grad_fn.name()
    (base * lib.tensor([2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [10.0, 3.0]


def test_mark_dirty_of_what_is_not_returned(lib: ModuleType):
    def forward(ctx: Any, a: Any) -> Any:
        a.mul_(5)
        ctx.mark_dirty(a)
        return a * 1

    kind, message = fails(lambda: make(lib, forward, lambda ctx, g: g).apply(ones(lib) * 1))
    if lib is fg:
        assert kind == "RuntimeError"
        assert message.startswith("Some elements marked as dirty during the forward method were not returned")
    else:
        assert kind in ("", "RuntimeError")


def test_mark_dirty_beside_another_output(lib: ModuleType):
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        a.mul_(2)
        ctx.mark_dirty(a)
        return b * 3, a

    x, b = ones(lib), ones(lib)
    w = x * 1
    out, same = make(lib, forward, lambda ctx, g, h: (h * 2, g * 3)).apply(w, b)
    assert same is w
    assert (out.output_nr, w.output_nr) == (0, 1)
    (out + w).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert b.grad.tolist() == [3.0, 3.0]


def test_mark_non_differentiable(lib: ModuleType):
    seen = []

    def forward(ctx: Any, a: Any) -> Any:
        y, z = a * 2, a * 3
        ctx.mark_non_differentiable(z)
        return y, z

    def backward(ctx: Any, g: Any, h: Any) -> Any:
        seen.append(h.tolist())
        return g * 2

    x = ones(lib)
    y, z = make(lib, forward, backward).apply(x)
    assert y.requires_grad
    assert not z.requires_grad
    assert z.grad_fn is None
    (y + z).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert seen == [[0.0, 0.0]]


def test_integer_outputs_require_no_grad(lib: ModuleType):
    x = ones(lib)
    y, z = make(lib, lambda ctx, a: (a * 2, a.long()), lambda ctx, g, h: g * 2).apply(x)
    assert not z.requires_grad
    assert z.is_leaf
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    only = make(lib, lambda ctx, a: a.long(), lambda ctx, g: g).apply(x)
    assert not only.requires_grad


def test_marking_an_input_as_not_differentiable(lib: ModuleType):
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.mark_non_differentiable(b)
        return a * 2, b

    x, b = ones(lib), ones(lib)
    y, c = make(lib, forward, lambda ctx, g, h: (g * 2, None)).apply(x, b)
    assert not c.requires_grad
    assert b.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("method", ["save_for_backward", "mark_dirty", "mark_non_differentiable"])
def test_only_tensors_can_be_saved_and_marked(lib: ModuleType, method: str):
    def forward(ctx: Any, a: Any) -> Any:
        getattr(ctx, method)(a, 5)
        return a * 1

    kind, message = fails(lambda: make(lib, forward, lambda ctx, g: g).apply(ones(lib)))
    expected, text = {
        "save_for_backward": (
            "TypeError",
            "save_for_backward can only save variables, but argument 1 is of type int",
        ),
        "mark_dirty": ("RuntimeError", "mark_dirty can only accept variables, but argument "),
        "mark_non_differentiable": (
            "RuntimeError",
            "mark_non_differentiable only accepts variable arguments, but ",
        ),
    }[method]
    assert kind == expected
    assert message.startswith(text)


# --- saving ------------------------------------------------------------------------------------------------


def test_saved_tensors_are_the_inputs_themselves(lib: ModuleType):
    a, b = ones(lib), lib.ones(2)
    node = times(lib).apply(a, b).grad_fn
    assert node.saved_tensors[0] is a
    assert node.saved_tensors[1] is b
    assert isinstance(node.saved_tensors, tuple)


def test_saved_outputs_belong_to_the_node(lib: ModuleType):
    def forward(ctx: Any, a: Any) -> Any:
        y = a.exp()
        ctx.save_for_backward(y)
        return y

    x = ones(lib)
    y = make(lib, forward, lambda ctx, g: g * ctx.saved_tensors[0]).apply(x)
    (saved,) = y.grad_fn.saved_tensors
    assert saved.grad_fn is y.grad_fn
    assert saved.data_ptr() == y.data_ptr()
    (g,) = lib.autograd.grad(y.sum(), x, create_graph=True)
    g.sum().backward()
    assert x.grad.tolist() == pytest.approx([2.718281, 2.718281], rel=1e-5)


def test_several_saved_outputs(lib: ModuleType):
    def forward(ctx: Any, a: Any) -> Any:
        y, z = a.exp(), a * 2
        ctx.save_for_backward(z, None, y)
        return y, z

    def backward(ctx: Any, g: Any, h: Any) -> Any:
        z, nothing, y = ctx.saved_tensors
        assert nothing is None
        assert (z.output_nr, y.output_nr) == (1, 0)
        return g * y + h * 2

    x = lib.zeros(2, requires_grad=True)
    y, z = make(lib, forward, backward).apply(x)
    (y + z).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_intermediates_none_and_many_may_be_saved(lib: ModuleType):
    def forward(ctx: Any, a: Any) -> Any:
        ctx.save_for_backward(*[a + k for k in range(9)], None, a)
        return a * 1

    def backward(ctx: Any, g: Any) -> Any:
        values = ctx.saved_tensors
        assert len(values) == 11
        assert values[9] is None
        assert [v.tolist()[0] for v in values[:9]] == [float(k + 1) for k in range(9)]
        assert not values[0].requires_grad
        return g * values[8]

    x = ones(lib)
    make(lib, forward, backward).apply(x).sum().backward()
    assert x.grad.tolist() == [9.0, 9.0]


def test_nothing_but_none_saved(lib: ModuleType):
    def forward(ctx: Any, a: Any) -> Any:
        ctx.save_for_backward(None)
        return a * 1

    y = make(lib, forward, lambda ctx, g: g).apply(ones(lib))
    assert y.grad_fn.saved_tensors == (None,)
    node = make(lib, lambda ctx, a: a * 1, lambda ctx, g: g).apply(ones(lib)).grad_fn
    assert node.saved_tensors == ()


def test_save_for_backward_twice_keeps_the_last(lib: ModuleType):
    def forward(ctx: Any, a: Any) -> Any:
        ctx.save_for_backward(a, a)
        ctx.save_for_backward(a)
        return a * 1

    assert len(make(lib, forward, lambda ctx, g: g).apply(ones(lib)).grad_fn.saved_tensors) == 1


def test_saved_tensors_changed_in_place(lib: ModuleType):
    a = ones(lib) * 1
    b = lib.tensor([1.0, 1.0])
    y = times(lib).apply(a, b)
    b.add_(1)
    kind, message = fails(y.sum().backward)
    assert kind == "RuntimeError"
    assert "one of the variables needed for gradient computation has been modified by an inplace" in message
    assert "is at version 1; expected version 0 instead" in message
    assert fails(lambda: y.grad_fn.saved_tensors)[1][:60] == message[:60]


def test_saved_output_changed_in_place(lib: ModuleType):
    def forward(ctx: Any, a: Any) -> Any:
        y = a.exp()
        ctx.save_for_backward(y)
        return y

    y = make(lib, forward, lambda ctx, g: g * ctx.saved_tensors[0]).apply(ones(lib))
    y.mul_(2)
    kind, message = fails(y.sum().backward)
    assert kind == "RuntimeError"
    assert "one of the variables needed for gradient computation has been modified by an inplace" in message


def test_changes_to_what_is_not_read_do_no_harm(lib: ModuleType):
    a, b = ones(lib), lib.ones(2)

    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.save_for_backward(b)
        return a * b

    y = make(lib, forward, lambda ctx, g: (g * 4, None)).apply(a, b)
    b.add_(1)
    y.sum().backward()
    assert a.grad.tolist() == [4.0, 4.0]


def test_second_pass_without_retain_graph(lib: ModuleType):
    x = ones(lib)
    y = times(lib).apply(x, lib.ones(2))
    node = y.grad_fn
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    kind, message = fails(lambda: y.sum().backward())
    assert kind == "RuntimeError"
    assert "Trying to backward through the graph a second time" in message
    assert "Trying to backward through the graph a second time" in fails(lambda: node.saved_tensors)[1]
    assert x.grad.tolist() == [2.0, 2.0]
    y = scaled(lib).apply(x, 3)  # a function that saved nothing may run again
    y.sum().backward()
    y.sum().backward()
    assert x.grad.tolist() == [8.0, 8.0]


def test_saved_tensors_in_forward_are_empty(lib: ModuleType):
    seen = []

    def forward(ctx: Any, a: Any) -> Any:
        ctx.save_for_backward(a)
        seen.append(len(ctx.saved_tensors))
        seen.append(len(ctx.to_save))
        return a * 1

    make(lib, forward, lambda ctx, g: g).apply(ones(lib))
    assert seen == [0, 1]


def test_saving_an_inference_tensor(lib: ModuleType):
    with lib.inference_mode():
        t = lib.ones(2)
    kind, message = fails(lambda: times(lib).apply(ones(lib), t))
    assert kind == "RuntimeError"
    assert "nference tensors cannot be saved for backward" in message


# --- higher orders -----------------------------------------------------------------------------------------


def cube(lib: ModuleType) -> Any:
    def forward(ctx: Any, a: Any) -> Any:
        ctx.save_for_backward(a)
        return a * a * a

    def backward(ctx: Any, g: Any) -> Any:
        (a,) = ctx.saved_tensors
        return g * 3 * a * a

    return make(lib, forward, backward)


def test_double_and_triple_backward(lib: ModuleType):
    x = lib.tensor([2.0, 3.0], requires_grad=True)
    y = cube(lib).apply(x)
    (first,) = lib.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = lib.autograd.grad(first.sum(), x, create_graph=True)
    (third,) = lib.autograd.grad(second.sum(), x)
    assert first.tolist() == [12.0, 27.0]
    assert second.tolist() == [12.0, 18.0]
    assert third.tolist() == [6.0, 6.0]


def test_double_backward_through_functions_in_backward(lib: ModuleType):
    inner = cube(lib)

    def forward(ctx: Any, a: Any) -> Any:
        ctx.save_for_backward(a)
        return a**4 / 4

    def backward(ctx: Any, g: Any) -> Any:
        (a,) = ctx.saved_tensors
        return g * inner.apply(a)

    x = lib.tensor([2.0], requires_grad=True)
    (first,) = lib.autograd.grad(make(lib, forward, backward).apply(x).sum(), x, create_graph=True)
    assert first.grad_fn is not None
    (second,) = lib.autograd.grad(first.sum(), x)
    assert (first.tolist(), second.tolist()) == ([8.0], [12.0])


def once(lib: ModuleType, log: list[Any]) -> Any:
    @lib.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, g: Any) -> Any:
        log.append(lib.is_grad_enabled())
        (a,) = ctx.saved_tensors
        return g * 3 * a * a

    return make(lib, cube(lib).forward, backward)


def test_once_differentiable(lib: ModuleType):
    log: list[Any] = []
    x = lib.tensor([2.0], requires_grad=True)
    once(lib, log).apply(x).sum().backward()
    assert x.grad.tolist() == [12.0]
    y = once(lib, log).apply(x)
    weight = ones(lib, 1)
    (first,) = lib.autograd.grad(y, x, grad_outputs=weight, create_graph=True)
    assert first.requires_grad
    assert log == [False, False]
    kind, message = fails(first.sum().backward)
    assert kind == "RuntimeError"
    assert message.startswith(
        "trying to differentiate twice a function that was marked with @once_differentiable"
    )


def test_once_differentiable_where_the_gradient_requires_none(lib: ModuleType):
    x = lib.tensor([2.0], requires_grad=True)
    (first,) = lib.autograd.grad(once(lib, []).apply(x).sum(), x, create_graph=True)
    assert not first.requires_grad


# --- hooks -------------------------------------------------------------------------------------------------


def test_hooks_of_all_kinds_in_order(lib: ModuleType):
    log: list[Any] = []

    def note(name: str) -> Any:
        return lambda *a: log.append(name)

    def backward(ctx: Any, g: Any) -> Any:
        log.append("backward")
        ctx.register_hook(note("post in backward"))
        return g

    def forward(ctx: Any, a: Any) -> Any:
        ctx.register_prehook(note("pre in forward"))
        ctx.register_hook(note("post in forward"))
        return a * 1

    x = ones(lib)
    y = make(lib, forward, backward).apply(x)
    y.grad_fn.register_prehook(note("pre"))
    y.grad_fn.register_hook(note("post"))
    y.register_hook(note("tensor"))
    y.retain_grad()
    x.register_hook(note("leaf"))
    x.register_post_accumulate_grad_hook(note("accumulate"))
    y.sum().backward()
    assert log == [
        "tensor", "pre in forward", "pre", "backward", "post in forward", "post", "post in backward", "leaf",
        "accumulate",
    ]  # fmt: skip
    assert y.grad.tolist() == [1.0, 1.0]


def test_hook_registered_in_backward_alone_sees_no_outputs(lib: ModuleType):
    log = []

    def backward(ctx: Any, g: Any) -> Any:
        ctx.register_hook(lambda gi, go: log.append(len(go)))
        return g

    function = make(lib, lambda ctx, a: a * 1, backward)
    function.apply(ones(lib)).sum().backward()
    y = function.apply(ones(lib))
    y.grad_fn.register_hook(lambda gi, go: None)
    y.sum().backward()
    assert log == [0, 1]


def test_hooks_replace_what_backward_gets_and_returns(lib: ModuleType):
    x = ones(lib)
    y = scaled(lib).apply(x, 3)
    y.grad_fn.register_prehook(lambda go: (go[0] * 10,))
    y.grad_fn.register_hook(lambda gi, go: (gi[0] * 7,))
    y.sum().backward()
    assert x.grad.tolist() == [210.0, 210.0]


def test_metadata_and_sequence_numbers(lib: ModuleType):
    x = ones(lib)
    before = (x * 1).grad_fn._sequence_nr()
    node = scaled(lib).apply(x, 3).grad_fn
    node.metadata["k"] = 1
    assert node.metadata == {"k": 1}
    assert before < node._sequence_nr() < (x * 1).grad_fn._sequence_nr()


# --- exceptions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
def test_exceptions_in_forward_leave_no_trace(lib: ModuleType, error: type[BaseException]):
    raised = error("stop")

    def forward(ctx: Any, a: Any, stop: bool) -> Any:
        ctx.save_for_backward(a)
        ctx.a = a
        if stop:
            raise raised
        return a * 1

    function = make(lib, forward, lambda ctx, g: (g, None))
    x = ones(lib)
    with pytest.raises(error) as info:
        function.apply(x, True)
    assert info.value is raised
    assert lib.is_grad_enabled()
    function.apply(x, False).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    raised.__traceback__ = None


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
def test_exceptions_in_backward_leave_no_trace(lib: ModuleType, error: type[BaseException]):
    raised = error("stop")
    stops = [True]

    def backward(ctx: Any, g: Any) -> Any:
        if stops:
            stops.pop()
            raise raised
        return g

    x = ones(lib)
    y = make(lib, lambda ctx, a: a * 1, backward).apply(x).sum()
    with pytest.raises(error) as info:
        y.backward()
    assert info.value is raised
    assert x.grad is None
    assert lib.is_grad_enabled()
    y = make(lib, lambda ctx, a: a * 1, backward).apply(x).sum()
    y.backward()
    assert x.grad.tolist() == [1.0, 1.0]
    raised.__traceback__ = None


# --- nesting, threads --------------------------------------------------------------------------------------


def test_function_inside_function(lib: ModuleType):
    inner = scaled(lib)

    def forward(ctx: Any, a: Any) -> Any:
        with lib.enable_grad():
            b = a.detach().requires_grad_()
            y = inner.apply(b, 4)
        ctx.save_for_backward(b, y)
        return y.detach()

    def backward(ctx: Any, g: Any) -> Any:
        b, y = ctx.saved_tensors
        (result,) = lib.autograd.grad(y, b, g)
        return result

    x = ones(lib)
    make(lib, forward, backward).apply(x).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]


def test_checkpoint(lib: ModuleType):
    """A pass inside of `backward`, which reaches leaves of the outer graph too."""
    w = ones(lib)

    def forward(ctx: Any, a: Any) -> Any:
        ctx.save_for_backward(a)
        return (a * w).exp()

    def backward(ctx: Any, g: Any) -> Any:
        a = ctx.saved_tensors[0].detach().requires_grad_()
        with lib.enable_grad():
            y = (a * w).exp()
        y.backward(g)
        return a.grad

    function = make(lib, forward, backward)
    x = lib.zeros(2, requires_grad=True)
    y = x * 1
    for _ in range(5):
        y = function.apply(y) * 0
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]
    assert w.grad.tolist() == [0.0, 0.0]


def test_output_of_an_inner_function_returned_as_it_is(lib: ModuleType):
    inner = scaled(lib)
    x = ones(lib)
    outer = make(lib, lambda ctx, a: inner.apply(a, 4), lambda ctx, g: g * 100)
    y = outer.apply(x)
    y.sum().backward()
    assert x.grad.tolist() == [100.0, 100.0]


def test_a_fresh_output_that_requires_grad_gets_the_history_of_the_call(lib: ModuleType):
    def forward(ctx: Any, a: Any) -> Any:
        with lib.enable_grad():
            return a * 2

    x = ones(lib)
    y = make(lib, forward, lambda ctx, g: g * 100).apply(x)
    assert y.grad_fn.name() == "FBackward"
    y.sum().backward()
    assert x.grad.tolist() == [100.0, 100.0]
    with lib.no_grad():
        y = make(lib, forward, lambda ctx, g: g).apply(x)
    assert not y.requires_grad


def test_threads(lib: ModuleType):
    function = times(lib)
    names = []

    def run(k: int) -> None:
        x = ones(lib, 3)
        for _ in range(50):
            y = x * 1
            for _ in range(5):
                y = function.apply(y, x)
            y.sum().backward()
        assert x.grad.tolist() == [300.0] * 3
        names.append(threading.current_thread().name)

    in_threads(4, run)
    assert len(set(names)) == 4


def test_a_ctx_made_on_one_thread_runs_on_another(lib: ModuleType):
    x = ones(lib)
    y = times(lib).apply(x, x)
    thread = threading.Thread(target=lambda: y.sum().backward())
    thread.start()
    thread.join()
    assert x.grad.tolist() == [2.0, 2.0]


# --- lifetime ----------------------------------------------------------------------------------------------


def test_ctx_kept_by_its_user(lib: ModuleType):
    kept: list[Any] = []

    def forward(ctx: Any, a: Any) -> Any:
        kept.append(ctx)
        ctx.save_for_backward(a)
        return a * 1

    def run() -> Any:
        x = ones(lib)
        y = make(lib, forward, lambda ctx, g: g * 3).apply(x)
        (y * 2).sum().backward(retain_graph=True)

    run()
    leaf = kept[0].next_functions[0][0].variable
    assert kept[0].saved_tensors[0] is leaf
    assert leaf.grad.tolist() == [6.0, 6.0]
    kept.clear()


def test_ctx_goes_with_the_output(lib: ModuleType):
    reference = []

    class Box:
        pass

    def forward(ctx: Any, a: Any) -> Any:
        ctx.box = Box()
        reference.append(weakref.ref(ctx.box))
        ctx.save_for_backward(a)
        y = a * 1
        return y

    y = make(lib, forward, lambda ctx, g: g).apply(ones(lib))
    assert reference[0]() is not None
    del y
    assert reference[0]() is None


class Box:
    """Something that can be weakly referred to."""


def output_on_ctx(lib: ModuleType, box: Box) -> None:
    def forward(ctx: Any, a: Any) -> Any:
        ctx.box = box
        ctx.y = a * 1
        return ctx.y

    make(lib, forward, lambda ctx, g: g).apply(ones(lib))


def result_on_ctx(lib: ModuleType, box: Box) -> None:
    def forward(ctx: Any, a: Any) -> Any:
        ctx.box = box
        return a * 1

    y = make(lib, forward, lambda ctx, g: g).apply(ones(lib))
    y.grad_fn.later = (y * 2).sum()


def hook_holds_ctx(lib: ModuleType, box: Box) -> None:
    def forward(ctx: Any, a: Any) -> Any:
        ctx.register_hook(lambda gi, go: (ctx, box))
        return a * 1

    make(lib, forward, lambda ctx, g: g).apply(ones(lib))


def tensor_hook_holds_ctx(lib: ModuleType, box: Box) -> None:
    kept = []

    def forward(ctx: Any, a: Any) -> Any:
        kept.append(ctx)
        return a * 1

    y = make(lib, forward, lambda ctx, g: g).apply(ones(lib))
    ctx = kept.pop()
    y.register_hook(lambda g: (ctx, box, None)[2])


def ctx_holds_itself(lib: ModuleType, box: Box) -> None:
    def forward(ctx: Any, a: Any) -> Any:
        ctx.me, ctx.box = ctx, box
        return a * 1

    make(lib, forward, lambda ctx, g: g).apply(ones(lib))


def two_hold_each_other(lib: ModuleType, box: Box) -> None:
    function = scaled(lib)
    y = function.apply(ones(lib), 2)
    z = function.apply(y, 2)
    y.grad_fn.other, z.grad_fn.other, y.grad_fn.box = z, y, box


def cycle_after_backward(lib: ModuleType, box: Box) -> None:
    def forward(ctx: Any, a: Any) -> Any:
        ctx.box = box
        ctx.y = a * 1
        ctx.save_for_backward(a)
        return ctx.y

    make(lib, forward, lambda ctx, g: g).apply(ones(lib)).sum().backward()


def cycle_where_nothing_is_recorded(lib: ModuleType, box: Box) -> None:
    def forward(ctx: Any, a: Any) -> Any:
        ctx.me, ctx.box = ctx, box
        ctx.save_for_backward(a)
        return a * 1

    make(lib, forward, lambda ctx, g: g).apply(lib.ones(2))


def saved_output_by_a_hook(lib: ModuleType, box: Box) -> None:
    def forward(ctx: Any, a: Any) -> Any:
        y = a.exp()
        ctx.save_for_backward(y)
        return y

    y = make(lib, forward, lambda ctx, g: g).apply(ones(lib))
    saved = y.grad_fn.saved_tensors[0]
    y.grad_fn.register_hook(lambda gi, go: (saved, y, box))


CYCLES = [
    output_on_ctx, result_on_ctx, hook_holds_ctx, tensor_hook_holds_ctx, ctx_holds_itself, two_hold_each_other,
    cycle_after_backward, cycle_where_nothing_is_recorded, saved_output_by_a_hook,
]  # fmt: skip


@pytest.mark.parametrize("make_cycle", CYCLES)
def test_cycles_are_collected(make_cycle: Callable[[ModuleType, Box], None]):
    before = fg.debug.live()
    box = Box()
    reference = weakref.ref(box)
    make_cycle(fg, box)
    del box
    gc.collect()
    assert reference() is None
    assert fg.debug.live() == before


def test_ctx_cannot_be_copied_or_pickled(lib: ModuleType):
    node = scaled(lib).apply(ones(lib), 2).grad_fn
    assert fails(lambda: pickle.dumps(node))[0] in ("TypeError", "PicklingError", "AttributeError")
    y = scaled(lib).apply(ones(lib), 2)
    kind, message = fails(lambda: copy.deepcopy(y))
    assert kind == "RuntimeError"
    assert message.startswith("Only Tensors created explicitly by the user")


def test_nodes_of_functions_are_nodes(lib: ModuleType):
    node = scaled(lib).apply(ones(lib), 2).grad_fn
    assert isinstance(node, lib.autograd.graph.Node)
    assert isinstance(node, importlib.import_module(lib.__name__ + ".autograd.function").FunctionCtx)
    assert isinstance(node, scaled(lib)._backward_cls) is False
