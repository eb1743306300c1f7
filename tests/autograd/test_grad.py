"""`autograd.grad`: its arguments, gradients of gradients, captures, and what it refuses."""

from __future__ import annotations

import math
import sys
from collections import OrderedDict
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fastgrad as fg

grad = fg.autograd.grad


def leaf(*values: float, dtype: Any = None) -> Any:
    return fg.tensor(list(values), dtype=dtype, requires_grad=True)


# --- arguments ---------------------------------------------------------------------------------------------


def test_returns_a_tuple_and_touches_no_grad():
    x = leaf(1.0, 2.0)
    log = []
    x.register_post_accumulate_grad_hook(lambda t: log.append("post"))
    result = grad((x * x).sum(), x)
    assert isinstance(result, tuple)
    assert result[0].tolist() == [2.0, 4.0]
    assert x.grad is None
    assert log == []


def test_results_do_not_require_grad():
    x = leaf(1.0)
    (g,) = grad(x * x, x)
    assert not g.requires_grad
    assert g.grad_fn is None


def test_several_inputs_in_the_callers_order():
    a, b, c = leaf(2.0), leaf(3.0), leaf(5.0)
    assert [g.tolist() for g in grad(a * b * c, [c, a, b])] == [[6.0], [15.0], [10.0]]


def test_same_input_twice():
    a = leaf(2.0)
    assert [g.tolist() for g in grad(a * a, [a, a])] == [[4.0], [4.0]]


def test_input_is_the_output():
    x = leaf(2.0)
    y = x * 3
    assert grad(y, y)[0].tolist() == [1.0]
    assert grad(x, x)[0].tolist() == [1.0]


def test_outputs_of_a_multi_output_node_as_inputs():
    x = leaf(1.0, 2.0, 3.0)
    a, b, c = x.unbind()
    ga, gc = grad(a * 2 + b * 3 + c * 4, [a, c])
    assert (ga.item(), gc.item()) == (2.0, 4.0)


def test_several_outputs_with_grad_outputs():
    x = leaf(1.0, 2.0)
    (g,) = grad([x * 2, (x * x).sum()], x, [fg.tensor([1.0, 10.0]), None])
    assert g.tolist() == [4.0, 24.0]


def test_grad_outputs_of_wrong_shape():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        grad(x * 2, x, fg.ones(3))


def test_non_scalar_output():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        grad(x * 2, x)


def test_unused_input():
    x, other = leaf(1.0), leaf(1.0)
    y = x * 2
    with pytest.raises(
        RuntimeError, match=r"Tensor at index 1 appears to not have been used in the graph.*allow_unused"
    ):
        grad(y, [x, other], retain_graph=True)
    g, unused = grad(y, [x, other], allow_unused=True)
    assert g.tolist() == [2.0]
    assert unused is None


def test_unused_output_of_a_node_that_is_reached():
    x = leaf(1.0, 2.0)
    a, b = x.unbind()
    with pytest.raises(RuntimeError, match="not have been used"):
        grad(a * 2, [b], retain_graph=True)
    assert grad(a * 2, [b], retain_graph=True, allow_unused=True) == (None,)
    assert grad(a * 2, [b], materialize_grads=True)[0].item() == 0.0


def test_materialize_grads_gives_zeros():
    x, other = leaf(1.0), fg.ones(2, 3, dtype=fg.float64, requires_grad=True)
    g, zeros = grad(x * 2, [x, other], materialize_grads=True)
    assert g.tolist() == [2.0]
    assert zeros.tolist() == [[0.0] * 3] * 2
    assert zeros.dtype is fg.float64
    assert not zeros.requires_grad
    with pytest.raises(ValueError, match="allow_unused to be True"):
        grad(x * 2, other, materialize_grads=True, allow_unused=False)


def test_input_that_does_not_require_grad():
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="does not require grad"):
        grad(x * 2, [fg.ones(1)])


def test_no_inputs_and_wrong_types():
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="empty"):
        grad(x * 2, [])
    with pytest.raises((TypeError, RuntimeError)):
        grad(x * 2, [3.0])
    with pytest.raises(TypeError):
        grad(3.0, x)


def test_inputs_as_a_dict(lib: ModuleType):
    x, y, z = (lib.ones(2, requires_grad=True) for _ in range(3))
    found = lib.autograd.grad((x * y * 3).sum(), {"y": y, 1: x})
    assert list(found) == ["y", 1]
    assert [g.tolist() for g in found.values()] == [[3.0, 3.0]] * 2
    assert lib.autograd.grad(x.sum(), {"z": z}, allow_unused=True) == {"z": None}
    assert lib.autograd.grad(x.sum(), {"z": z}, materialize_grads=True)["z"].tolist() == [0.0, 0.0]
    with pytest.raises(RuntimeError, match="at index 0 appears to not have been used"):
        lib.autograd.grad(x.sum(), {"z": z})
    (x * 2).sum().backward(inputs={"x": x})
    assert x.grad.tolist() == [2.0, 2.0]


def test_wrong_inputs(lib: ModuleType):
    x = lib.ones(2, requires_grad=True)
    for name, call in (
        ("grad", lambda inputs: lib.autograd.grad(x.sum(), inputs)),
        ("backward", lambda inputs: x.sum().backward(inputs=inputs)),
    ):
        for inputs, error, message in (
            (
                OrderedDict(x=x),
                TypeError,
                f"`inputs` argument to `{name}\\(\\)` must be a dict, not OrderedDict",
            ),
            ({}, RuntimeError, f"`inputs` argument to `{name}\\(\\)` cannot be empty"),
            ([], RuntimeError, f"`inputs` argument to `{name}\\(\\)` cannot be empty"),
            ({"x": 1}, RuntimeError, "all inputs have to be Tensors or GradientEdges, but got int"),
            ({"x": lib.ones(2)}, RuntimeError, "does not require grad|has requires_grad=False"),
            (5, TypeError, "'int' object is not iterable"),
        ):
            with pytest.raises(error, match=message):
                call(inputs)


def test_which_of_several_errors_is_raised(lib: ModuleType):
    x, plain = lib.ones(2, 2, requires_grad=True), lib.ones(2)
    base = x * 1
    _, left = base.unbind(1)
    base.mul_(2)  # leaves the view behind
    ones = lib.ones(2)
    grad = lib.autograd.grad
    with pytest.raises(
        RuntimeError, match="implicitly created"
    ):  # gradients first, also those of later roots
        grad([left], [left], [None])
    with pytest.raises(RuntimeError, match="implicitly created"):
        grad([left, x], [plain], [ones, None])
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        grad([left, plain], [plain], [lib.ones(3), ones])
    with pytest.raises(RuntimeError, match="Output 1 of Unbind is a view"):  # then roots
        grad([left], [plain], [ones])
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad"):
        grad([plain, left], [plain], [None, ones])
    with pytest.raises(RuntimeError, match="One of the differentiated Tensors does not require grad"):
        grad([base.sum()], [plain, left])
    with pytest.raises(RuntimeError, match="Output 1 of Unbind is a view"):
        grad([base.sum()], [left, plain])


def test_deprecated_arguments(lib: ModuleType):
    x = lib.ones(2, requires_grad=True)
    with pytest.warns(FutureWarning, match="only_inputs argument is deprecated"):
        lib.autograd.grad(x.sum(), x, None, None, False, False)
    with pytest.warns(FutureWarning, match="`grad_variables` is deprecated. Use `grad_tensors` instead"):
        lib.autograd.backward(x * 2, grad_variables=lib.ones(2))
    assert x.grad.tolist() == [2.0, 2.0]
    with (
        pytest.warns(FutureWarning, match="grad_variables"),
        pytest.raises(RuntimeError, match="both passed to `backward"),
    ):
        lib.autograd.backward(x * 2, lib.ones(2), grad_variables=lib.ones(2))


def test_freed_graph():
    x = leaf(1.0)
    y = x.exp()
    grad(y, x)
    with pytest.raises(RuntimeError, match="second time"):
        grad(y, x)


def test_nodes_off_the_path_are_not_run_and_not_freed():
    a, b = leaf(1.0), leaf(2.0)
    ea, eb = a.exp(), b.exp()
    log = []
    eb.register_hook(lambda g: log.append("eb"))
    grad(ea + eb, a)
    assert log == []
    eb.backward()
    assert b.grad.tolist() == pytest.approx([math.exp(2.0)])


def test_inputs_that_lie_on_each_others_path():
    x = leaf(2.0)
    y = x * x
    z = y * y
    gx, gy = grad(z, [x, y])
    assert gx.tolist() == [32.0]
    assert gy.tolist() == [8.0]


def test_captured_gradients_do_not_alias_each_other():
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    ga, gb = grad((a + b).sum(), [a, b])
    out = ga * 2
    ga = ga.clone()
    ga.zero_()
    assert gb.tolist() == [1.0, 1.0]
    assert out.tolist() == [2.0, 2.0]


# --- captures and hooks ------------------------------------------------------------------------------------


def test_captures_come_after_the_tensor_hooks():
    x = leaf(1.0, 1.0)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    z = y.sum()

    def values(inputs: list[Any]) -> list[float]:
        return [t.tolist()[0] for t in grad(z, inputs, retain_graph=True)]

    assert values([y]) == [10.0]
    assert values([x]) == [20.0]
    assert values([y, x]) == [10.0, 20.0]
    assert values([x, y]) == [20.0, 10.0]


def test_node_hooks_run_only_where_the_node_runs():
    x = leaf(1.0, 1.0)
    y = x * 2
    z = y.sum()
    log: list[str] = []
    y.register_hook(lambda g: log.append("tensor"))
    y.grad_fn.register_prehook(lambda g: log.append("pre"))
    y.grad_fn.register_hook(lambda a, b: log.append("post"))
    grad(z, y, retain_graph=True)
    assert log == ["tensor"]
    log.clear()
    z.backward(inputs=[y], retain_graph=True)
    assert log == ["tensor", "pre", "post"]
    log.clear()
    grad(z, x)
    assert log == ["tensor", "pre", "post"]


def test_captures_include_what_post_hooks_of_the_producer_changed():
    x = leaf(1.0, 1.0)
    y = x * 2
    z = y * 3
    z.grad_fn.register_hook(lambda gi, go: (gi[0] * 5, None))
    assert grad(z.sum(), y)[0].tolist() == [15.0, 15.0]


def test_leaf_hooks_act_on_captures():
    x = leaf(1.0)
    x.register_hook(lambda g: g * 7)
    assert grad(x * 2, x)[0].tolist() == [14.0]


def test_leaf_node_hooks_do_not_run_for_grad():
    x = leaf(1.0)
    y = x * 2
    log: list[str] = []
    node = y.grad_fn.next_functions[0][0]
    node.register_hook(lambda gi, go: log.append("post"))
    node.register_prehook(lambda go: log.append("pre"))
    grad(y, x)
    assert log == []


# --- higher order ------------------------------------------------------------------------------------------

CLOSED_FORMS: dict[str, tuple[Callable[[Any], Any], list[Callable[[float], float]]]] = {
    "cube": (lambda x: x * x * x, [lambda v: 3 * v**2, lambda v: 6 * v, lambda v: 6.0]),
    "power": (lambda x: x**4, [lambda v: 4 * v**3, lambda v: 12 * v**2, lambda v: 24 * v]),
    "exp": (
        lambda x: (x * 2).exp(),
        [lambda v: 2 * math.exp(2 * v), lambda v: 4 * math.exp(2 * v), lambda v: 8 * math.exp(2 * v)],
    ),
    "log": (lambda x: x.log(), [lambda v: 1 / v, lambda v: -1 / v**2, lambda v: 2 / v**3]),
    "sin": (lambda x: x.sin(), [math.cos, lambda v: -math.sin(v), lambda v: -math.cos(v)]),
    "sqrt": (
        lambda x: x.sqrt(),
        [lambda v: 0.5 * v**-0.5, lambda v: -0.25 * v**-1.5, lambda v: 0.375 * v**-2.5],
    ),
    "reciprocal": (lambda x: 1 / x, [lambda v: -1 / v**2, lambda v: 2 / v**3, lambda v: -6 / v**4]),
    "tanh": (
        lambda x: x.tanh(),
        [
            lambda v: 1 - math.tanh(v) ** 2,
            lambda v: -2 * math.tanh(v) * (1 - math.tanh(v) ** 2),
            lambda v: (1 - math.tanh(v) ** 2) * (6 * math.tanh(v) ** 2 - 2),
        ],
    ),
}


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_first_second_and_third_derivative(name: str):
    function, derivatives = CLOSED_FORMS[name]
    points = [0.5, 0.9, 1.7]
    x = leaf(*points, dtype=fg.float64)
    value = function(x)
    for derivative in derivatives:
        (value,) = grad(value.sum(), x, create_graph=True)
        assert value.tolist() == pytest.approx([derivative(v) for v in points], rel=1e-12)


def test_third_order_of_a_linear_function_is_unused():
    x = leaf(1.0)
    (g,) = grad(x * 2, x, create_graph=True)
    if g.requires_grad:
        with pytest.raises(RuntimeError, match="not have been used"):
            grad(g, x)
    assert g.tolist() == [2.0]


def test_mixed_second_derivatives():
    x, y = leaf(2.0), leaf(3.0)
    gx, gy = grad(x * x * y, [x, y], create_graph=True)
    (gxy,) = grad(gx, y, retain_graph=True)
    (gyx,) = grad(gy, x)
    assert gxy.tolist() == gyx.tolist() == [4.0]


def test_gradient_penalty():
    w = leaf(1.0, 2.0, 3.0, dtype=fg.float64)
    x = leaf(0.1, 0.2, 0.3, dtype=fg.float64)
    y = ((w * x).tanh()).sum()
    (gx,) = grad(y, x, create_graph=True)
    (gx * gx).sum().backward()
    wv, xv = np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.2, 0.3])
    t = np.tanh(wv * xv)
    s = 1 - t * t
    np.testing.assert_allclose(w.grad.numpy(), 2 * (wv * s) * (s + wv * (-2 * t * s) * xv), rtol=1e-12)


def test_hessian_of_a_quadratic_form():
    a = np.array([[2.0, 1.0], [0.5, 3.0]])
    x = leaf(1.0, -1.0, dtype=fg.float64)
    y = (x.view(1, 2) @ fg.tensor(a) @ x.view(2, 1)).sum()
    (g,) = grad(y, x, create_graph=True)
    rows = [grad(g[k], x, retain_graph=True)[0].tolist() for k in range(2)]
    np.testing.assert_allclose(rows, a + a.T)


def test_grad_outputs_can_be_differentiated():
    x, v = leaf(2.0, 3.0), leaf(1.0, 1.0)
    (g,) = grad(x * x, x, v, create_graph=True)
    gv, gx = grad(g.sum(), [v, x])
    assert gv.tolist() == [4.0, 6.0]
    assert gx.tolist() == [2.0, 2.0]


def test_forward_mode_by_double_backward():
    x, v = leaf(0.3, 0.7, dtype=fg.float64), fg.zeros(2, dtype=fg.float64, requires_grad=True)
    (g,) = grad(x.exp(), x, v, create_graph=True)
    (jvp,) = grad(g, v, fg.tensor([1.0, 10.0], dtype=fg.float64))
    assert jvp.tolist() == pytest.approx([math.exp(0.3), 10 * math.exp(0.7)])


def test_create_graph_without_use_leaves_nothing_behind():
    x = leaf(1.0, 2.0)
    before = fg.debug.live()
    for _ in range(3):
        y = (x.exp() * x.tanh()).sum()
        (g,) = grad(y, x, create_graph=True)
        (h,) = grad(g.sum(), x, create_graph=True)
        del y, g, h
    assert fg.debug.live() == before


def test_node_hooks_see_what_is_wanted_with_create_graph_too():
    seen = []
    x, w = leaf(1.0), leaf(2.0)
    for create_graph in (False, True):
        y = x * w
        y.grad_fn.register_hook(lambda gi, go: seen.append([g is not None for g in gi]))
        grad(y, x, create_graph=create_graph)
    assert seen == [[True, False]] * 2


def test_create_graph_under_no_grad_still_records():
    x = leaf(3.0)
    y = x * x
    with fg.no_grad():
        (g,) = grad(y, x, create_graph=True)
        assert not fg.is_grad_enabled()
    assert g.requires_grad
    assert grad(g, x)[0].tolist() == [2.0]


# --- against torch -----------------------------------------------------------------------------------------

PROGRAMS: dict[str, Callable[[ModuleType, Any, Any], Any]] = {
    "matmul": lambda lib, a, b: (a @ b).tanh(),
    "softmax": lambda lib, a, b: lib.softmax(a, 1) * b.t(),
    "log_softmax": lambda lib, a, b: lib.log_softmax(a @ b, 1).exp(),
    "logsumexp": lambda lib, a, b: lib.logsumexp(a * b.t(), 0),
    "division": lambda lib, a, b: a / (b.t() * b.t() + 1),
    "power": lambda lib, a, b: (a * a + 1) ** 1.5 * b.t(),
    "sigmoid": lambda lib, a, b: (a * b.t()).sigmoid(),
    "broadcast": lambda lib, a, b: (a[:, :1] * b[:1]).exp().mean(0),
    "views": lambda lib, a, b: a.t().reshape(-1)[1:5].view(2, 2) ** 2 * b.t()[:, :2].permute(1, 0),
    "cat": lambda lib, a, b: lib.cat([a, b.t() * a], 1).exp(),
    "stack": lambda lib, a, b: lib.stack([a, b.t() * a]).tanh(),
    "unbind": lambda lib, a, b: lib.stack(
        [u * v for u, v in zip(a.unbind(0), b.unbind(1), strict=True)]
    ).exp(),
    "where": lambda lib, a, b: lib.where(a > 0, a * a * b.t(), b.t().exp()),
    "clamp": lambda lib, a, b: (a.clamp(-0.5, 0.5) * b.t()) ** 2,
    "maximum": lambda lib, a, b: lib.maximum(a, b.t()) ** 3,
    "reductions": lambda lib, a, b: a.exp().sum(1) * b.mean(0).sum() + a.amax(1) ** 2,
    "index": lambda lib, a, b: a[[0, 1, 0]] ** 2 * b.t()[0],
    "gather": lambda lib, a, b: lib.gather(a * b.t(), 1, lib.tensor([[0, 2], [1, 1]])).exp(),
    "cross_entropy": lambda lib, a, b: lib.nn.functional.cross_entropy(a @ b, lib.tensor([1, 0])),
    "mse": lambda lib, a, b: lib.nn.functional.mse_loss(a.tanh(), b.t()),
    "cumsum": lambda lib, a, b: a.cumsum(1).exp() * b.t(),
}


def derivatives(
    lib: ModuleType, program: Callable[..., Any], first: np.ndarray, second: np.ndarray
) -> list[list[np.ndarray]]:
    """First-, second- and third-order gradients of a program, with random weights between the orders."""
    a, b = (lib.tensor(v, requires_grad=True) for v in (first, second))
    rng = np.random.default_rng(1)
    value = program(lib, a, b)
    found = []
    for order in range(3):
        weights = lib.tensor(rng.normal(size=tuple(value.shape)))
        got = lib.autograd.grad((value * weights).sum(), [a, b], create_graph=True, materialize_grads=True)
        found.append([g.detach().numpy().copy() for g in got])
        if order == 2 or not any(g.requires_grad for g in got):
            break
        value = sum((g * lib.tensor(rng.normal(size=tuple(g.shape)))).sum() for g in got if g.requires_grad)
    return found


@pytest.mark.parity
@pytest.mark.parametrize("name", PROGRAMS)
def test_three_orders_as_torch(name: str):
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 3)), rng.normal(size=(3, 2))
    ours = derivatives(fg, PROGRAMS[name], first, second)
    theirs = derivatives(torch, PROGRAMS[name], first, second)
    for order, (mine, other) in enumerate(zip(ours, theirs, strict=False)):
        for k in range(2):
            np.testing.assert_allclose(
                mine[k], other[k], rtol=1e-9, atol=1e-9, err_msg=f"order {order + 1}, input {k}"
            )
    longer = ours if len(ours) > len(theirs) else theirs
    for extra in longer[
        min(len(ours), len(theirs)) :
    ]:  # one side knew that nothing depends on the inputs any more
        assert all(not g.any() for g in extra)


def calls(function) -> int:
    """How many functions, Python's and others, are called."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("join", [False, True])
def test_recorded_derivatives_of_many_pieces_take_time_in_proportion(join: bool):
    def recorded(n: int):
        x = fg.ones(n, 2, requires_grad=True)
        pieces = x.split(1)
        y = fg.cat(pieces) if join else pieces[0]
        return lambda: grad(y.sum(), x, create_graph=True)

    calls(recorded(10))
    assert calls(recorded(400)) < 3 * calls(recorded(200)) + 100  # what the collector calls may fall into it
