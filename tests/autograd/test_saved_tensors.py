"""Saved-tensor hooks. Tests with the argument `lib` run on fastgrad and, marked parity, on torch: same expectations."""

from __future__ import annotations

import gc
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


def hooks(lib: ModuleType, pack: Any, unpack: Any) -> Any:
    return lib.autograd.graph.saved_tensors_hooks(pack, unpack)


def observed(lib: ModuleType, log: list[Any], tag: str = "") -> Any:
    """Hooks that keep a copy and note what they see."""

    def pack(t: Any) -> Any:
        log.append((tag + "pack", tuple(t.shape), t.requires_grad, lib.is_grad_enabled()))
        return t.detach().clone()

    def unpack(p: Any) -> Any:
        log.append((tag + "unpack", lib.is_grad_enabled()))
        return p

    return hooks(lib, pack, unpack)


def fails(call: Callable[[], Any]) -> tuple[str, str]:
    """The class and the start of the message of the exception that a call raises."""
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error)
    return "", ""


def keeping(lib: ModuleType, log: list[Any] | None = None) -> Any:
    """A function that saves its input, a number of intermediates and its output."""

    class Keep(lib.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            y = a.exp()
            if log is not None:
                log.append("forward")
            ctx.save_for_backward(a, None, y, a + 1)
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            a, nothing, y, b = ctx.saved_tensors
            assert nothing is None
            assert b.tolist() == [v + 1 for v in a.tolist()]
            return g * y

    return Keep


# --- what is packed, when, in which order ------------------------------------------------------------------

OPS: dict[str, tuple[Callable[[ModuleType, Any], Any], int]] = {
    "exp": (lambda lib, x: x.exp(), 1),
    "x * x": (lambda lib, x: x * x, 2),
    "square": (lambda lib, x: x**2, 1),
    "times a number": (lambda lib, x: x * 3, 0),
    "divided by a number": (lambda lib, x: x / 2, 0),
    "add": (lambda lib, x: x + x, 0),
    "view": (lambda lib, x: x.view(1, 2), 0),
    "select": (lambda lib, x: x[0], 0),
    "times a constant": (lambda lib, x: x * lib.ones(2), 1),
    "exp_": (lambda lib, x: (x * 1).exp_(), 1),
    "mul_": (lambda lib, x: (x * 1).mul_(x), 2),
    "softmax": (lambda lib, x: x.softmax(0), 1),
    "tanh": (lambda lib, x: x.tanh(), 1),
    "sigmoid": (lambda lib, x: x.sigmoid(), 1),
    "relu": (lambda lib, x: x.relu(), 1),
    "log": (lambda lib, x: x.log(), 1),
    "sqrt": (lambda lib, x: x.sqrt(), 1),
    "pow": (lambda lib, x: x**x, 3),
    "mm": (lambda lib, x: lib.ones(2, 2, requires_grad=True) @ x.view(2, 1), 2),
    "sum": (lambda lib, x: x.sum(), 0),
    "mean": (lambda lib, x: x.mean(), 0),
    "cat": (lambda lib, x: lib.cat([x, x]), 0),
    "amax": (lambda lib, x: x.amax(0), 2),
    "function": (lambda lib, x: keeping(lib).apply(x), 3),
}


@pytest.mark.parametrize("name", OPS)
def test_what_ops_pack(lib: ModuleType, name: str):
    op, count = OPS[name]
    plain, x = ones(lib), ones(lib)
    op(lib, plain).sum().backward()
    log: list[Any] = []
    with observed(lib, log):
        y = op(lib, x)
    assert [entry[0] for entry in log] == ["pack"] * count
    assert not any(entry[3] for entry in log)
    y.sum().backward()
    assert log[count:] == [("unpack", False)] * count
    assert x.grad.tolist() == plain.grad.tolist()


def test_order_of_packing(lib: ModuleType):
    log: list[Any] = []

    def kept(call: Callable[[], Any]) -> Any:
        with hooks(lib, lambda t: (log.append(("pack", t.item())), t.detach())[1], note):
            return call()

    def note(t: Any) -> Any:
        log.append(("unpack", t.item()))
        return t

    a, b = (lib.tensor([[v]], requires_grad=True) for v in (2.0, 3.0))
    for call, order in (
        (lambda: a * b, [3.0, 2.0]), (lambda: a / b, [3.0, 2.0]), (lambda: a @ b, [3.0, 2.0]),
        (lambda: a**b, [3.0, 2.0, 8.0]), (lambda: lib.maximum(a, b), [3.0, 2.0]),
        (lambda: lib.addmm(a, a, b), [2.0, 3.0]), (lambda: lib.nn.functional.mse_loss(a, b), [2.0, 3.0]),
    ):  # fmt: skip
        for wanted in ([a, b], [a], [b]):
            log.clear()
            y = kept(call)
            assert log == [("pack", value) for value in order]
            log.clear()
            lib.autograd.grad(y, wanted)
            assert log == [("unpack", value) for value in order]


def test_pack_runs_once_and_unpack_at_each_reading(lib: ModuleType):
    log: list[Any] = []
    x = ones(lib)
    with observed(lib, log):
        y = x.exp()
    assert log == [("pack", (2,), True, False)]
    for _ in range(2):
        y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert log[1:] == [("unpack", False)] * 3
    assert x.grad.tolist() == pytest.approx([3 * 2.7182818] * 2)


def test_pack_gets_the_tensor_itself(lib: ModuleType):
    a, b = ones(lib), ones(lib)
    y = a * 1
    log: list[Any] = []
    seen: list[Any] = []
    with hooks(lib, lambda t: (seen.append(t), t.detach())[1], lambda p: p):
        z = (a * b, y**2)
    for given, expected in zip(seen, (b, a, y), strict=True):
        log.append(given is expected)
    assert log == [True, True, True]
    del seen[:], given, expected
    (z[0] + z[1]).sum().backward()
    assert a.grad.tolist() == [3.0, 3.0]


def test_an_output_that_is_packed_has_its_history(lib: ModuleType):
    x = ones(lib)
    names = []
    with hooks(lib, lambda t: (names.append(t.grad_fn.name()), t.detach())[1], lambda p: p):
        y = x.exp()
    assert names == ["ExpBackward0"]
    y.sum().backward()


def test_an_in_place_op_packs_its_result(lib: ModuleType):
    x = ones(lib)
    names = []

    def pack(t: Any) -> Any:
        names.append((t.grad_fn and t.grad_fn.name(), t.tolist()[0] > 2))
        return t.detach().clone()

    with hooks(lib, pack, lambda p: p):
        y = x * 1
        y.exp_()
    assert names == [("ExpBackward0", True)]
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx([2.7182818] * 2)


def test_only_the_innermost_pair_applies(lib: ModuleType):
    log: list[Any] = []
    x = ones(lib)
    with observed(lib, log, "outer "):
        with observed(lib, log, "inner "):
            y = x.exp()
        z = y.exp()
    w = z.exp()
    w.sum().backward()
    assert [entry[0] for entry in log] == ["inner pack", "outer pack", "outer unpack", "inner unpack"]


def test_hooks_hold_where_they_were_in_force_at_saving(lib: ModuleType):
    log: list[Any] = []
    x = ones(lib)
    y = x.exp()
    with observed(lib, log):
        y.sum().backward()
    assert log == []


def test_nothing_is_packed_where_nothing_is_recorded(lib: ModuleType):
    log: list[Any] = []
    with observed(lib, log):
        lib.ones(2).exp()
        with lib.no_grad():
            ones(lib).exp()
            keeping(lib).apply(ones(lib))
    assert log == []


def test_nothing_is_packed_inside_of_pack(lib: ModuleType):
    calls = []

    def pack(t: Any) -> Any:
        calls.append(1)
        return (t * t).detach()

    x = lib.full((2,), 2.0, requires_grad=True)
    with hooks(lib, pack, lambda p: p.sqrt()):
        y = x**2
    y.sum().backward()
    assert calls == [1]
    assert x.grad.tolist() == [4.0, 4.0]


def test_recording_inside_of_pack_recurses(lib: ModuleType):
    def pack(t: Any) -> Any:
        with lib.enable_grad():
            return t * t

    x = ones(lib)
    with hooks(lib, pack, lambda p: p), pytest.raises(RecursionError):
        x.exp()
    assert lib.is_grad_enabled()
    x.exp().sum().backward()


def test_packed_values_may_be_anything(lib: ModuleType):
    x = ones(lib)
    with hooks(lib, lambda t: t.tolist(), lib.tensor):
        y = x.exp() * x.exp()
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx([2 * 7.389056] * 2, rel=1e-5)


def test_sizes_and_dtype_of_what_is_unpacked_are_not_checked(lib: ModuleType):
    x = ones(lib)
    with hooks(lib, lambda t: t.detach(), lambda p: lib.tensor(5.0)):
        y = x.exp()
    y.sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]


def test_unpacked_values_that_do_not_fit_make_the_derivative_fail():
    x = fg.ones(2, 3, requires_grad=True)
    index = fg.tensor([[0], [1]])
    for wrong in (fg.ones(4, 4), fg.full((1,), 99, dtype=fg.int64), fg.ones(())):
        with hooks(fg, lambda t: t.detach(), lambda p, wrong=wrong: wrong):
            ys = (x @ fg.ones(3, 2), x.softmax(0), x.amax(0), x[fg.tensor([0, 1])], x.gather(1, index), x**2)
        for y in ys:
            assert fails(y.sum().backward)[0] in ("", "RuntimeError", "IndexError")


def test_versions_are_not_compared_where_hooks_hold_the_value(lib: ModuleType):
    x = ones(lib)
    y = x * 1
    with hooks(lib, lambda t: t.detach().clone(), lambda p: p):
        z = y**2
    y.add_(1)
    z.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_numbers_are_not_packed(lib: ModuleType):
    log: list[Any] = []
    x = ones(lib)
    with observed(lib, log):
        y = (2.5 * x + 1 - x / 4) * 3
    assert log == []
    y.sum().backward()
    assert x.grad.tolist() == [6.75, 6.75]


def test_views_are_packed_as_views(lib: ModuleType):
    x = lib.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    log: list[Any] = []
    with observed(lib, log):
        y = x.view(2, 2).t() ** 2
    assert log == [("pack", (2, 2), True, False)]
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0, 6.0, 8.0]


# --- passes ------------------------------------------------------------------------------------------------


def test_double_backward(lib: ModuleType):
    log: list[Any] = []
    x = lib.tensor([2.0], requires_grad=True)

    def unpack(p: Any) -> Any:
        log.append(lib.is_grad_enabled())
        return p

    with hooks(lib, lambda t: t, unpack):
        y = x * x * x
    (first,) = lib.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = lib.autograd.grad(first.sum(), x, create_graph=True)
    (third,) = lib.autograd.grad(second.sum(), x)
    assert (first.tolist(), second.tolist(), third.tolist()) == ([12.0], [12.0], [6.0])
    assert len(log) >= 4


def test_double_backward_with_detached_values(lib: ModuleType):
    """What is unpacked has the history of what was packed, whatever `unpack` returns."""
    x = lib.tensor([2.0], requires_grad=True)
    with hooks(lib, lambda t: t.detach().clone(), lambda p: p):
        y = (x**2).exp()
    (first,) = lib.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = lib.autograd.grad(first.sum(), x)
    e4 = 54.598150
    assert first.tolist() == pytest.approx([4 * e4])
    assert second.tolist() == pytest.approx([18 * e4])


def test_hooks_in_force_during_a_pass_that_creates_a_graph(lib: ModuleType):
    log: list[Any] = []
    x = lib.tensor([2.0], requires_grad=True)
    y = x**3
    with observed(lib, log):
        (first,) = lib.autograd.grad(y.sum(), x, create_graph=True)
    assert log
    assert all(entry[0] == "pack" for entry in log)
    (second,) = lib.autograd.grad(first.sum(), x)
    assert second.tolist() == [12.0]


def test_unpack_may_run_ops_and_passes(lib: ModuleType):
    x = ones(lib)

    def unpack(p: Any) -> Any:
        with lib.enable_grad():
            t = lib.tensor(p, requires_grad=True)
            (t * 2).sum().backward()
        return t.detach() * (t.grad / 2)

    with hooks(lib, lambda t: t.tolist(), unpack):
        y = x.exp() * x
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx([2 * 2.7182818] * 2)


def test_unpack_may_run_the_same_node():
    """What it unpacks in there is its own. (PyTorch waits for itself.)"""
    lib: Any = fg
    a, b = (lib.tensor([v], requires_grad=True) for v in (2.0, 3.0))
    depth: list[int] = []

    def unpack(p: Any) -> Any:
        if not depth:
            depth.append(1)
            y.backward(retain_graph=True)
        return p.clone()

    with hooks(lib, lambda t: t.detach(), unpack):
        y = a * b
    y.sum().backward()
    assert depth == [1]
    assert (a.grad.tolist(), b.grad.tolist()) == ([6.0], [4.0])


@pytest.mark.parametrize("create", [False, True])
def test_unpack_may_free_the_graph(create: bool):
    """What is left to be unpacked is missed then, as in a second pass. (PyTorch ends with a segmentation fault.)"""
    lib: Any = fg
    a, b = (lib.tensor([v], requires_grad=True) for v in (2.0, 3.0))
    depth: list[int] = []

    def unpack(p: Any) -> Any:
        if not depth:
            depth.append(1)
            y.backward()
        return p

    with hooks(lib, lambda t: t.detach(), unpack):
        y = a * b
    with pytest.raises(RuntimeError, match="second time"):
        lib.autograd.grad(y.sum(), (a, b), create_graph=create)
    assert (a.grad.tolist(), b.grad.tolist()) == ([3.0], [2.0])
    depth.clear()
    with hooks(lib, lambda t: t.detach(), unpack):
        y = a.exp()
    (g,) = lib.autograd.grad(y.sum(), a, create_graph=create)
    assert g.tolist() == pytest.approx([7.389056])


def test_places_that_were_packed_are_forgotten():
    """A node may take the memory of one that had packed tensors in other places."""
    x, index = fg.ones(3, 2, requires_grad=True), fg.tensor([0, 1])
    for _ in range(3):
        with hooks(fg, lambda t: t.detach(), lambda p: p):
            fg.nn.functional.nll_loss(x, fg.tensor([0, 1, 0]), fg.ones(2)).backward()
            fg.nn.functional.nll_loss(x, fg.tensor([0, 1, 0])).backward()
            fg.nn.functional.embedding(index, x).sum().backward()
    assert x.grad is not None


def test_second_pass_without_retain_graph(lib: ModuleType):
    x = ones(lib)
    with hooks(lib, lambda t: t.detach(), lambda p: p):
        y, z = x.exp(), keeping(lib).apply(x)
    for t in (y, z):
        t.sum().backward()
        kind, message = fails(t.sum().backward)
        assert kind == "RuntimeError"
        assert "Trying to backward through the graph a second time" in message


HISTORIES = {
    "detached": lambda t: t.detach(),
    "a leaf of its own": lambda t: t.detach().requires_grad_(),
    "itself": lambda t: t,
    "another op's result": lambda t: t.detach() * 1,
}


@pytest.mark.parametrize("how", HISTORIES)
@pytest.mark.parametrize("is_leaf", [True, False])
def test_what_a_function_packed_has_the_history_that_it_had(lib: ModuleType, how: str, is_leaf: bool):
    seen: list[Any] = []

    class Keep(lib.autograd.Function):  # type: ignore[misc,name-defined]
        """exp(a) * b, which saves its output, an input, what has a history of its own and what has none."""

        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            with lib.enable_grad():
                c = b * 1
            y = a.exp() * b
            ctx.save_for_backward(y, a, c, lib.ones(2))
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            y, a, c, one = ctx.saved_tensors
            for t in (y, a, c, one):
                seen.append((t.is_leaf, t.requires_grad, t.grad_fn and t.grad_fn.name(), t.output_nr))
            return g * y, g * y / c * one

    x, w = lib.zeros(2, requires_grad=True), ones(lib)
    with hooks(lib, HISTORIES[how], lambda p: p):
        y = Keep.apply(x if is_leaf else x * 1, w)
    (dx,) = lib.autograd.grad(y.sum(), x, create_graph=True)
    assert seen == [
        (False, True, "KeepBackward", 0),
        (is_leaf, True, None if is_leaf else "MulBackward0", 0),
        (False, True, "MulBackward0", 0),
        (True, False, None, 0),
    ]
    assert [g.tolist() for g in lib.autograd.grad(dx.sum(), [x, w])] == [[1.0, 1.0]] * 2
    del y, dx  # what was packed may hold the node


def test_what_stands_for_a_packed_leaf_is_a_leaf_of_the_same_gradient(lib: ModuleType):
    x = ones(lib)
    with hooks(lib, lambda t: t.tolist(), lib.tensor):
        nodes = [(x * x).grad_fn, keeping(lib).apply(x).grad_fn]
    for a in (nodes[0]._saved_self, nodes[1].saved_tensors[0]):
        assert (a.is_leaf, a.grad_fn, a.requires_grad, a.retain_grad(), a.retains_grad) == (
            True,
            None,
            True,
            None,
            False,
        )
        assert "leaf Variable that requires grad" in fails(lambda a=a: a.mul_(2))[1]
        assert "leaf Variable that requires grad" in fails(lambda a=a: a[0:1].mul_(2))[1]
        a.register_hook(lambda g: 1 / 0)  # it is not the leaf's
        x.grad = None
        (a * 5).sum().backward()
        assert (x.grad.tolist(), a.grad) == ([5.0, 5.0], None)


def test_a_change_of_a_view_runs_once_without_retain_graph(lib: ModuleType):
    """Whatever its op saved: for the second pass the node of the base has been freed."""
    changes: list[Callable[[Any], Any]] = [
        lambda y: y[0].zero_(),
        lambda y: y[0].add_(1),
        lambda y: y.__setitem__(0, lib.ones(2, requires_grad=True)),
    ]
    for change in changes:
        for create in (False, True):
            x = lib.ones(2, 2, requires_grad=True)
            y = -x
            change(y)
            lib.autograd.grad(y.sum(), x, retain_graph=True)
            lib.autograd.grad(y.sum(), x)
            kind, message = fails(lambda x=x, y=y: lib.autograd.grad(y.sum(), x, create_graph=create))  # noqa: B023
            assert kind == "RuntimeError"
            assert "Trying to backward through the graph a second time" in message
    y = -x
    (y * 2).sum().backward()
    (y.add_(1) * 2).sum().backward()  # a change of the whole frees what it saved, and no more


def test_what_is_packed_is_freed_after_backward(lib: ModuleType):
    class Box:
        def __init__(self, value: Any) -> None:
            self.value = value

    boxes: list[Any] = []

    def pack(t: Any) -> Any:
        box = Box(t.detach())
        boxes.append(weakref.ref(box))
        return box

    x = ones(lib)
    with hooks(lib, pack, lambda p: p.value):
        y, z, unused = x.exp(), keeping(lib).apply(x), x**2
    assert len(boxes) == 5
    assert all(box() is not None for box in boxes)
    (y + z).sum().backward()
    assert [box() is None for box in boxes] == [True] * 4 + [False]
    del unused
    assert boxes[4]() is None


def test_unpacked_values_do_not_stay(lib: ModuleType):
    made: list[Any] = []

    def unpack(p: Any) -> Any:
        value = lib.tensor(p)
        made.append(weakref.ref(value))
        return value

    x = ones(lib)
    with hooks(lib, lambda t: t.tolist(), unpack):
        y = x.exp()
    y.sum().backward(retain_graph=True)
    assert made[0]() is None
    y.sum().backward()


# --- functions ---------------------------------------------------------------------------------------------


def test_functions_pack_when_forward_ends(lib: ModuleType):
    log: list[Any] = []
    x = ones(lib)
    with observed(lib, log):
        y = keeping(lib, log).apply(x)
    assert log == [
        "forward",
        ("pack", (2,), True, False),
        ("pack", (2,), True, False),
        ("pack", (2,), False, False),
    ]
    log.clear()
    y.sum().backward()
    assert log == [("unpack", False)] * 3
    assert x.grad.tolist() == pytest.approx([2.7182818] * 2)


def test_functions_unpack_at_each_reading(lib: ModuleType):
    log: list[Any] = []
    with observed(lib, log):
        y = keeping(lib).apply(ones(lib))
    node = y.grad_fn
    del log[:]
    assert node.saved_tensors[1] is None
    assert len(node.saved_tensors) == 4
    assert [entry[0] for entry in log] == ["unpack"] * 6


def test_intermediates_of_functions(lib: ModuleType):
    class Two(lib.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            middle = x * 3
            ctx.save_for_backward(x, middle)
            return middle * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            _, middle = ctx.saved_tensors
            return g * middle

    x = ones(lib)
    with hooks(lib, lambda t: t.detach() * 10, lambda p: p / 10):
        y = Two.apply(x)
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx([3.0, 3.0])


# --- wrong uses and exceptions -----------------------------------------------------------------------------


def test_pack_must_not_change_its_argument(lib: ModuleType):
    def run(op: Callable[[Any], Any]) -> tuple[str, str]:
        with hooks(lib, lambda t: t.mul_(2), lambda p: p):
            return fails(lambda: op(ones(lib) * 1))

    for op in (lambda x: x.exp(), lambda x: x**2, keeping(lib).apply):
        kind, message = run(op)
        assert kind == "RuntimeError"
        assert message.startswith("A saved tensor pack hook is modifying its input in place.")


def test_pack_may_return_its_argument(lib: ModuleType):
    x = ones(lib)
    with hooks(lib, lambda t: t, lambda p: p):
        y = x.exp() * x
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx([2 * 2.7182818] * 2)


@pytest.mark.parametrize("wrong", [5, None, [1.0], "text"])
def test_unpack_must_return_a_tensor(lib: ModuleType, wrong: Any):
    x = ones(lib)
    with hooks(lib, lambda t: 0, lambda p: wrong):
        y, z = x.exp(), keeping(lib).apply(x)
    for t in (y, z):
        kind, message = fails(t.sum().backward)
        assert kind == "TypeError"
        assert message.startswith(
            f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(wrong).__name__}"
        )
    assert x.grad is None


def test_hooks_must_be_callable(lib: ModuleType):
    for pair in ((5, abs), (abs, 5), (None, None)):
        context = hooks(lib, *pair)
        assert fails(context.__enter__)[0] == "TypeError"
    log: list[Any] = []
    with observed(lib, log):
        ones(lib).exp()
    assert len(log) == 1


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
def test_exceptions_in_pack_come_out_of_the_op(lib: ModuleType, error: type[BaseException]):
    raised = error("stop")
    calls = []

    def pack(t: Any) -> Any:
        calls.append(1)
        raise raised

    x = ones(lib)
    y = x * 1
    ops: list[Callable[[], Any]] = [
        lambda: x.exp(), lambda: x * x, lambda: x**2, lambda: lib.exp(x), lambda: x.softmax(0),
        lambda: y.exp_(), lambda: y.mul_(x), lambda: keeping(lib).apply(x), lambda: y.__imul__(x),
    ]  # fmt: skip
    for op in ops:
        calls.clear()
        with hooks(lib, pack, lambda p: p), pytest.raises(error) as info:
            op()
        assert info.value is raised
        assert calls == [1]
        assert lib.is_grad_enabled()
        raised.__traceback__ = None
    del info
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_an_op_in_place_whose_pack_raises_changes_nothing(lib: ModuleType):
    def stop(t: Any) -> Any:
        raise KeyError("stop")

    x = ones(lib)
    y = x * 2
    version = y._version
    with hooks(lib, stop, lambda p: p), pytest.raises(KeyError):
        y.mul_(lib.full((2,), 3.0, requires_grad=True))
    assert y.tolist() == [2.0, 2.0]
    assert y._version == version
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_an_op_in_place_on_a_tensor_and_itself():
    """PyTorch refuses in backward; fastgrad saves a copy of what is overwritten."""
    for change, expected in (("mul_", 8.0), ("div_", 0.0), ("add_", 4.0)):
        x = ones(fg)
        y = x * 2
        getattr(y, change)(y)
        y.sum().backward()
        assert x.grad.tolist() == [expected] * 2
        y = x * 2
        getattr(y, change)(y)  # and nothing stays if no pass runs


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
def test_exceptions_in_unpack_come_out_of_backward(lib: ModuleType, error: type[BaseException]):
    raised = error("stop")
    stop = [True]

    def unpack(p: Any) -> Any:
        if stop:
            raise raised
        return p

    for op in (lambda x: x.exp(), lambda x: x * x, keeping(lib).apply):
        x = ones(lib)
        stop[:] = [True]
        with hooks(lib, lambda t: t.detach(), unpack):
            y = op(x)
        with pytest.raises(error) as info:
            y.sum().backward(retain_graph=True)
        assert info.value is raised
        assert x.grad is None
        assert lib.is_grad_enabled()
        raised.__traceback__ = None
        stop.clear()
        y.sum().backward()
        assert x.grad is not None


def test_exception_in_the_second_of_two_unpackings(lib: ModuleType):
    calls = []

    def unpack(p: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyError("second")
        return p

    x = ones(lib)
    with hooks(lib, lambda t: t.detach(), unpack):
        y = x * x
    with pytest.raises(KeyError):
        y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert len(calls) == 4
    assert x.grad.tolist() == [2.0, 2.0]


# --- attributes of nodes -----------------------------------------------------------------------------------


def test_saved_attributes(lib: ModuleType):
    a, b = ones(lib), lib.full((2,), 3.0)
    node = (a * b).grad_fn
    assert node._saved_self is None
    assert node._saved_other.tolist() == [3.0, 3.0]
    assert node._saved_other is b
    node = (a**2).grad_fn
    assert node._saved_self is a
    y = a.exp()
    result = y.grad_fn._saved_result
    assert result.tolist() == y.tolist()
    assert result.grad_fn is y.grad_fn
    assert result.requires_grad
    with pytest.raises(AttributeError):
        _ = node._saved_nothing
    with pytest.raises(AttributeError):
        _ = node._raw_saved_nothing


def test_saved_attributes_after_freeing_and_changes(lib: ModuleType):
    y = ones(lib).exp()
    y.sum().backward()
    kind, message = fails(lambda: y.grad_fn._saved_result)
    assert kind == "RuntimeError"
    assert "Trying to backward through the graph a second time" in message
    a = ones(lib) * 1
    node = (a**2).grad_fn
    a.add_(1)
    kind, message = fails(lambda: node._saved_self)
    assert kind == "RuntimeError"
    assert "one of the variables needed for gradient computation has been modified by an inplace" in message


def test_saved_attributes_in_post_hooks(lib: ModuleType):
    seen = []
    y = ones(lib).exp()
    node = y.grad_fn
    node.register_hook(lambda gi, go: seen.append(node._saved_result is not None))
    y.sum().backward()
    assert seen == [True]


def test_saved_attributes_unpack(lib: ModuleType):
    log: list[Any] = []
    x = ones(lib)
    with observed(lib, log):
        y = x * x
    log.clear()
    assert y.grad_fn._saved_self.tolist() == [1.0, 1.0]
    assert y.grad_fn._saved_other.requires_grad
    assert [entry[0] for entry in log] == ["unpack"] * 2


# --- hooks of one saved tensor -----------------------------------------------------------------------------


def test_register_hooks(lib: ModuleType):
    log: list[Any] = []
    x = ones(lib)
    y = x.pow(2)
    raw = y.grad_fn._raw_saved_self
    assert raw.register_hooks(
        lambda t: (log.append(("pack", lib.is_grad_enabled())), t.detach())[1],
        lambda p: (log.append("unpack"), p * 10)[1],
    ) is None  # fmt: skip
    assert log == [("pack", False)]
    assert y.grad_fn._saved_self.tolist() == [10.0, 10.0]
    assert y.grad_fn._saved_self.requires_grad
    log.clear()
    y.sum().backward()
    assert log == ["unpack"]
    assert x.grad.tolist() == [20.0, 20.0]


def test_register_hooks_on_a_result(lib: ModuleType):
    x = ones(lib)
    y = x.exp()
    y.grad_fn._raw_saved_result.register_hooks(lambda t: t.tolist(), lambda p: lib.tensor(p) * 2)
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx([2 * 2.7182818] * 2)


def test_register_hooks_on_what_a_function_saved(lib: ModuleType):
    x = ones(lib)
    y = keeping(lib).apply(x)
    raws = y.grad_fn._raw_saved_tensors
    assert len(raws) == 4
    raws[2].register_hooks(lambda t: t.tolist(), lambda p: lib.tensor(p) * 2)
    kind, message = fails(lambda: raws[1].register_hooks(abs, abs))
    assert (kind, message) == (
        "RuntimeError",
        "Calling register_hooks on a saved tensor with value None is forbidden",
    )
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx([2 * 2.7182818] * 2)
    assert fails(lambda: y.grad_fn._raw_saved_tensors)[0] == "RuntimeError"
    if lib is fg:  # torch packs a copy of its own in vain
        kind, message = fails(lambda: raws[0].register_hooks(abs, abs))
        assert message.startswith("Calling register_hooks on a saved tensor after it has been freed.")


def test_errors_of_register_hooks(lib: ModuleType):
    y = ones(lib).pow(2)
    raw = y.grad_fn._raw_saved_self
    kind, message = fails(lambda: raw.register_hooks(lambda t: t.add_(1), lambda p: p))
    assert kind == "RuntimeError"
    y = ones(lib).pow(2)
    y.grad_fn._raw_saved_self.register_hooks(lambda t: t.detach(), lambda p: p)
    kind, message = fails(lambda: y.grad_fn._raw_saved_self.register_hooks(abs, abs))
    assert kind == "RuntimeError"
    assert message.startswith(
        "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only"
    )
    with hooks(lib, lambda t: t.detach(), lambda p: p):
        z = ones(lib).pow(2)
    kind, message = fails(lambda: z.grad_fn._raw_saved_self.register_hooks(abs, abs))
    assert message.startswith("Calling register_hooks on a saved tensor whose hooks have already been set.")
    z = ones(lib).pow(2)
    raw = z.grad_fn._raw_saved_self
    z.sum().backward()
    kind, message = fails(lambda: raw.register_hooks(abs, abs))
    assert kind == "RuntimeError"
    assert message.startswith("Calling register_hooks on a saved tensor after it has been freed.")
    w = lib.ones(2) * ones(lib)
    kind, message = fails(lambda: w.grad_fn._raw_saved_other.register_hooks(abs, abs))
    assert (kind, message) == (
        "RuntimeError",
        "Calling register_hooks on a saved tensor with value None is forbidden",
    )
    kind, _ = fails(lambda: ones(lib).pow(2).grad_fn._raw_saved_self.register_hooks(5, 5))
    assert kind == "TypeError"


def test_exception_in_the_pack_of_one_saved_tensor(lib: ModuleType):
    def stop(t: Any) -> Any:
        raise KeyError("stop")

    x = ones(lib)
    y = x.pow(2)
    with pytest.raises(KeyError):
        y.grad_fn._raw_saved_self.register_hooks(stop, abs)
    assert lib.is_grad_enabled()


def test_pack_of_one_saved_tensor_gets_the_tensor(lib: ModuleType):
    x = ones(lib)
    seen = []
    y = x.pow(2)
    y.grad_fn._raw_saved_self.register_hooks(lambda t: (seen.append(t.tolist()), t.detach())[1], lambda p: p)
    assert seen == [[1.0, 1.0]]


# --- ready-made contexts -----------------------------------------------------------------------------------


def test_save_on_cpu(lib: ModuleType):
    plain, x = ones(lib), ones(lib)
    (plain.exp() * plain).sum().backward()
    with lib.autograd.graph.save_on_cpu():
        y = x.exp() * x
    y.sum().backward()
    assert x.grad.tolist() == plain.grad.tolist()
    device, packed = lib.autograd.graph.save_on_cpu().pack_hook(lib.ones(1))
    assert (str(device), packed.tolist()) == ("cpu", [1.0])


def test_disable(lib: ModuleType):
    graph = lib.autograd.graph
    with graph.disable_saved_tensors_hooks("no hooks here"):
        assert fails(graph.save_on_cpu().__enter__) == ("RuntimeError", "no hooks here")
        assert fails(hooks(lib, abs, abs).__enter__) == ("RuntimeError", "no hooks here")
        y = ones(lib).pow(2)
        y.grad_fn._raw_saved_self.register_hooks(lambda t: t.detach(), lambda p: p)
        with graph.disable_saved_tensors_hooks("inner"):
            assert fails(hooks(lib, abs, abs).__enter__) == ("RuntimeError", "inner")
        assert fails(hooks(lib, abs, abs).__enter__) == ("RuntimeError", "no hooks here")
    with hooks(lib, abs, abs):
        assert fails(graph.disable_saved_tensors_hooks("m2").__enter__) == ("RuntimeError", "m2")
    log: list[Any] = []
    with observed(lib, log):
        ones(lib).exp()
    assert len(log) == 1


def test_disable_as_decorator(lib: ModuleType):
    @lib.autograd.graph.disable_saved_tensors_hooks("not here")  # type: ignore[untyped-decorator]
    def run() -> None:
        with hooks(lib, abs, abs):
            pass

    assert fails(run) == ("RuntimeError", "not here")
    with hooks(lib, abs, abs):
        pass


def test_leaving_too_often(lib: ModuleType):
    context = observed(lib, [])
    context.__enter__()
    x = ones(lib)
    y = x * 1
    y.register_hook(lambda g: context.__exit__(None, None, None))
    y.exp().sum().backward()
    z = x.exp()
    fails(lambda: context.__exit__(None, None, None))
    z.sum().backward()
    assert x.grad.tolist() == pytest.approx([2 * 2.7182818] * 2)
    x.exp().sum().backward()


@pytest.mark.parametrize("mode", ["no_grad", "enable_grad"])
def test_entering_inside_of_a_mode_and_leaving_outside(lib: ModuleType, mode: str):
    log: list[Any] = []
    context = observed(lib, log)
    with getattr(lib, mode)():
        context.__enter__()
    ones(lib).exp()
    assert len(log) == 1
    with getattr(lib, mode)():
        context.__exit__(None, None, None)
    ones(lib).exp()
    assert len(log) == 1


def test_entering_in_forward_of_a_function(lib: ModuleType):
    log: list[Any] = []
    context = observed(lib, log)

    class Enter(lib.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            context.__enter__()
            return a * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    Enter.apply(ones(lib))
    ones(lib).exp()
    assert len(log) == 1
    context.__exit__(None, None, None)
    ones(lib).exp()
    assert len(log) == 1


# --- threads, modes ----------------------------------------------------------------------------------------


def test_hooks_belong_to_one_thread(lib: ModuleType):
    log: list[Any] = []
    with observed(lib, log):
        thread = threading.Thread(target=lambda: ones(lib).exp())
        thread.start()
        thread.join()
        assert log == []
        ones(lib).exp()
        assert len(log) == 1


def test_many_threads_with_hooks_of_their_own(lib: ModuleType):
    def run(k: int) -> None:
        log: list[Any] = []
        for _ in range(30):
            x = ones(lib)
            if k % 2:
                with hooks(lib, lambda t: (log.append(k), t.tolist())[1], lib.tensor):
                    y = x.exp() * x
                y.sum().backward()
            else:
                (x.exp() * x).sum().backward()
            assert x.grad.tolist() == pytest.approx([2 * 2.7182818] * 2)
        assert log == [k] * (90 if k % 2 else 0)

    in_threads(4, run)


def test_hooks_stay_in_force_under_other_modes(lib: ModuleType):
    log: list[Any] = []
    with observed(lib, log):
        with lib.no_grad():
            ones(lib).exp()
            with lib.enable_grad():
                ones(lib).exp()
        ones(lib).exp()
    assert len(log) == 2


def test_leaving_inner_hooks_inside_no_grad(lib: ModuleType):
    log: list[Any] = []
    with lib.no_grad(), observed(lib, log), lib.enable_grad():
        ones(lib).exp()
    ones(lib).exp()
    assert len(log) == 1
    assert lib.is_grad_enabled()


# --- lifetime ----------------------------------------------------------------------------------------------


class Box:
    """Something that can be weakly referred to."""


def keeps_its_argument(box: Box) -> None:
    x = ones(fg)
    with hooks(fg, lambda t: (t, box), lambda p: p[0]):
        x.exp()


def keeps_its_argument_of_many_ops(box: Box) -> None:
    x = ones(fg)
    with hooks(fg, lambda t: (t, box), lambda p: p[0]):
        (x.exp().tanh() * x).softmax(0).sum()


def keeps_its_argument_in_a_function(box: Box) -> None:
    with hooks(fg, lambda t: (t, box), lambda p: p[0]):
        keeping(fg).apply(ones(fg))


def unpack_holds_the_result(box: Box) -> None:
    x = ones(fg)
    found: list[Any] = []
    with hooks(fg, lambda t: t.detach(), lambda p: (p, found, box)[0]):
        y = x.exp()
    found.append(y)


def per_tensor_hooks_hold_the_node(box: Box) -> None:
    y = ones(fg).exp()
    y.grad_fn._raw_saved_result.register_hooks(lambda t: (y, box), lambda p: p)


def keeps_the_argument_of_an_in_place_op(box: Box) -> None:
    x = ones(fg)
    with hooks(fg, lambda t: (t, box), lambda p: p[0]):
        y = x * 1
        y.exp_()


@pytest.mark.parametrize(
    "make",
    [
        keeps_its_argument, keeps_its_argument_of_many_ops, keeps_its_argument_in_a_function, unpack_holds_the_result,
        per_tensor_hooks_hold_the_node, keeps_the_argument_of_an_in_place_op,
    ],
)  # fmt: skip
def test_cycles_through_packed_values_are_collected(make: Callable[[Box], None]):
    before = fg.debug.live()
    box = Box()
    reference = weakref.ref(box)
    make(box)
    del box
    gc.collect()
    assert reference() is None
    assert fg.debug.live() == before


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_the_masks_of_a_recorded_extremum_are_packed_in_one_order(lib: ModuleType, name: str):
    """First where the operands are equal, then where the other one is taken."""
    a = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    b = lib.tensor([2.0, 2.0, 2.0])
    g = lib.ones(3, requires_grad=True)
    out = getattr(lib, name)(a, b)
    log: list[Any] = []
    with lib.autograd.graph.saved_tensors_hooks(lambda t: (log.append(t.tolist()), t)[1], lambda t: t):
        lib.autograd.grad(out, a, g, create_graph=True)
    masks = [value for value in log if isinstance(value[0], bool)]
    lost = [True, False, False] if name == "maximum" else [False, False, True]
    assert masks == [[False, True, False], lost]


RECORDED: dict[str, Callable[[ModuleType, Any], Any]] = {
    "relu": lambda lib, x: x.relu(),
    "leaky_relu": lambda lib, x: lib.nn.functional.leaky_relu(x),
    "hardtanh": lambda lib, x: lib.nn.functional.hardtanh(x),
    "elu": lambda lib, x: lib.nn.functional.elu(x),
    "sigmoid": lambda lib, x: x.sigmoid(),
}


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_derivative_packs_what_its_derivatives_read(lib: ModuleType, name: str):
    """Also where the gradient that it is given needs none."""
    x = lib.tensor([0.5, -2.0], requires_grad=True) * 1
    out = RECORDED[name](lib, x)
    log: list[Any] = []
    with lib.autograd.graph.saved_tensors_hooks(lambda t: (log.append(t.tolist()), t)[1], lambda t: t):
        lib.autograd.grad(out, x, lib.ones(2), create_graph=True)
    kept = (out if name in ("relu", "sigmoid") else x).tolist()
    assert log == ([kept] if name in ("relu", "leaky_relu", "hardtanh") else [[1.0, 1.0], kept])


def test_a_recorded_product_of_a_matrix_and_a_batch(lib: ModuleType):
    """It is the product of a tall matrix and the transposed matrix, and so is its derivative."""
    a, b = lib.ones(2, 3, requires_grad=True), lib.ones(4, 3, 5, requires_grad=True)
    out = a @ b
    log: list[Any] = []
    with lib.autograd.graph.saved_tensors_hooks(lambda t: (log.append(tuple(t.shape)), t)[1], lambda t: t):
        lib.autograd.grad(out, (a, b), lib.ones(4, 2, 5, requires_grad=True), create_graph=True)
    assert log == [(20, 3), (2, 20), (2, 3), (20, 2)]


SMALLER: dict[str, Callable[[ModuleType, Any], Any]] = {
    "embedding": lambda lib, w: lib.nn.functional.embedding(lib.tensor([[1, 3], [3, 2]]), w),
    "padding": lambda lib, w: lib.nn.functional.embedding(lib.tensor([1, 3]), w, padding_idx=3),
    "index_select": lambda lib, w: w.index_select(0, lib.tensor([1, 3])),
    "gather": lambda lib, w: w.gather(0, lib.tensor([[1, 3]])),
    "linear": lambda lib, w: lib.nn.functional.linear(lib.ones(2, 64), w),
    "layer_norm": lambda lib, w: lib.nn.functional.layer_norm(w, (64,)),
    "sort": lambda lib, w: w.sort(1)[0],
    "cumsum": lambda lib, w: w.cumsum(0),
    "max_pool": lambda lib, w: lib.nn.functional.max_pool1d(w, 2),
}


@pytest.mark.parametrize("sizes", [(1, 64), (2, 3), (0,), (8, 64)], ids=str)
@pytest.mark.parametrize("name", SMALLER)
def test_a_leaf_of_other_sizes_since_the_call(name: str, sizes: tuple[int, ...]):
    """Its derivative writes to nothing but its own memory: an error, or a gradient of the sizes that the call saw."""
    w = fg.ones(4, 64, requires_grad=True)
    out = SMALLER[name](fg, w)
    w.data = fg.zeros(*sizes)
    for create_graph in (False, True):
        try:
            found = fg.autograd.grad(out.sum(), w, create_graph=create_graph, retain_graph=True)[0]
        except (RuntimeError, IndexError):
            continue
        assert tuple(found.shape) in ((4, 64), sizes)
    watched = [fg.zeros(4, 64) for _ in range(8)]
    assert all((x == 0).all() for x in watched)


def test_a_gradient_of_other_sizes_since_an_embedding_was_differentiated():
    w = fg.ones(4, 64, requires_grad=True)
    out = fg.nn.functional.embedding(fg.tensor([1, 3]), w)
    g = fg.ones(2, 64, requires_grad=True)
    first = fg.autograd.grad(out, w, g, create_graph=True)[0]
    g.data = fg.zeros(1, 2)
    try:
        found = fg.autograd.grad(first.sum(), g)[0]
    except RuntimeError:
        return
    assert tuple(found.shape) in ((2, 64), (1, 2))


UNPACKED: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "a fused derivative": (lambda a, b: a * b, r"MulBackward0.* \[2, 3\] and \[4, 5\] do not broadcast"),
    "a program": (lambda a, b: a.var(1), r"VarBackward0.* \[2, 1\] and \[4, 5\] do not broadcast"),
    "all inputs at once": (lambda a, b: a.softmax(1), r"SoftmaxBackward0.* \[2, 3\] and \[4, 5\] do not fit"),
    "sizes of a view": (lambda a, b: a.max(1).values, r"MaxBackward0.* shape '\[2, 1\]' is invalid for .* size 20"),
}  # fmt: skip


@pytest.mark.parametrize("what", UNPACKED)
def test_sizes_that_do_not_fit_stand_in_the_message(what: str):
    call, message = UNPACKED[what]
    a, b = fg.ones(2, 3, requires_grad=True), fg.ones(2, 3)
    with hooks(fg, lambda t: t, lambda t: fg.ones(4, 5, dtype=t.dtype)):
        out = call(a, b)
    with pytest.raises((RuntimeError, IndexError), match=message):
        out.sum().backward()


def _nll(lib: ModuleType, x: Any, **kwargs: Any) -> Any:
    return lib.nn.functional.nll_loss(x.log_softmax(1), lib.tensor([1, 2, 3, 0]), **kwargs)


READING: dict[str, Callable[[ModuleType, Any], Any]] = {
    "nll_loss": _nll,
    "nll_loss of rows": lambda lib, x: _nll(lib, x, reduction="none"),
    "nll_loss with weights": lambda lib, x: _nll(lib, x, weight=lib.ones(6, dtype=x.dtype)),
    "embedding": lambda lib, x: lib.nn.functional.embedding(lib.tensor([1, 3]), x),
    "dropout": lambda lib, x: lib.nn.functional.dropout(x, 0.5, True),
    "layer_norm": lambda lib, x: lib.nn.functional.layer_norm(x, (6,)),
    "max_pool": lambda lib, x: lib.nn.functional.max_pool1d(x, 2),
    "max": lambda lib, x: x.max(1)[0],
    "sort": lambda lib, x: x.sort(1)[0],
    "gather": lambda lib, x: x.gather(1, lib.zeros(4, 1, dtype=lib.int64)),
    "one index": lambda lib, x: x[lib.tensor([1, 2])],
    "two indices": lambda lib, x: x[lib.tensor([1, 2]), lib.tensor([1, 2])],
    "mask": lambda lib, x: x[x > -10],
}  # fmt: skip
"""Ops whose derivatives read memory that indices, a mask or integers of the call lead to."""


@pytest.mark.parametrize("name", READING)
def test_a_derivative_reads_elements_of_the_dtype_of_the_call(name: str):
    """In release, too: a kernel that would read another number of bytes does not run, or the one for them does."""

    def narrower(t: Any) -> Any:
        return t.float() if t.is_floating_point() else t.int()

    def gradient(unpack: Callable[[Any], Any]) -> Any:
        x = fg.ones(4, 6, dtype=fg.float64, requires_grad=True)
        fg.manual_seed(0)
        with hooks(fg, lambda t: t, unpack):
            out = READING[name](fg, x)
        out.sum().backward()
        return x.grad

    expected, found = gradient(lambda t: t).tolist(), []
    kind, message = fails(lambda: found.append(gradient(narrower).tolist()))
    assert kind in ("", "RuntimeError")
    assert "no address" not in message  # what debug mode says of a launch that others would make
    assert kind or found == [expected]


@pytest.mark.parametrize("sizes", [(1, 1), (1,), (0,), (2, 30)], ids=str)
@pytest.mark.parametrize("name", READING)
def test_a_derivative_reads_within_what_is_unpacked(name: str, sizes: tuple[int, ...]):
    x = fg.ones(4, 6, requires_grad=True)
    with hooks(fg, lambda t: t, lambda t: fg.zeros(sizes, dtype=t.dtype)):
        out = READING[name](fg, x)
    found = fails(lambda: out.sum().backward())
    assert found[0] in ("", "RuntimeError", "IndexError", "ValueError")
    assert "no address" not in found[1]
    assert "out of bounds" not in found[1]  # zeros are indices of any tensor: this was read elsewhere
    assert found[0] or x.grad.shape == (4, 6)


def test_targets_that_have_other_memory_since_the_loss():
    x, target = fg.ones(4, 6, requires_grad=True), fg.tensor([1, 2, 3, 0])
    for other in (fg.zeros(1, dtype=fg.int64), fg.zeros(4, dtype=fg.int32), fg.zeros(4)):
        out = fg.nn.functional.nll_loss(x, target)
        before, target.data = target.data, other
        with pytest.raises((RuntimeError, ValueError), match=r"NllLossBackward0.*(batch_size|type Long)"):
            out.backward()
        target.data = before


def test_a_gradient_that_cannot_be_added_is_told_by_its_sizes():
    a = fg.ones(2, requires_grad=True)
    (a * 2).sum().backward()
    a.data = fg.ones(5)
    with pytest.raises(RuntimeError, match=r"AccumulateGrad.* operands \[2\] and \[5\] do not broadcast"):
        (a * 2).sum().backward()


def test_a_packed_view_without_history_is_a_leaf_that_requires_grad(lib: ModuleType):
    x = ones(lib)
    with lib.no_grad():
        view = x.view(2)
    product = x * 2
    with hooks(lib, lambda t: t.tolist(), lib.tensor):
        y = product * view
    saved = y.grad_fn._saved_other
    assert saved.requires_grad
    assert saved.is_leaf
    assert not saved._is_view()
    (g,) = lib.autograd.grad(y, x, lib.ones(2), create_graph=True)
    assert g.requires_grad
    g.sum().backward()
    assert x.grad is None
    assert view.grad is None


def test_a_function_that_packs_a_view_without_history(lib: ModuleType):
    class Product(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            _, b = ctx.saved_tensors
            assert b.requires_grad
            assert b.is_leaf
            return g * b, None

    x = ones(lib)
    with lib.no_grad():
        view = x.view(2)
    with hooks(lib, lambda t: t.tolist(), lib.tensor):
        y = Product.apply(x * 2, view)
    (g,) = lib.autograd.grad(y, x, lib.ones(2), create_graph=True)
    g.sum().backward()
    assert x.grad is None
    assert view.grad is None


def test_what_is_unpacked_for_a_tensor_without_history_is_the_object(lib: ModuleType):
    x, kept = ones(lib), lib.ones(2)
    with hooks(lib, lambda t: t, lambda p: kept):
        y = x * lib.ones(2)
    assert y.grad_fn._saved_other is kept
    kept.requires_grad_()
    assert y.grad_fn._saved_other is not kept
    assert not y.grad_fn._saved_other.requires_grad


def test_other_places_can_be_read_after_a_change_of_one(lib: ModuleType):
    x = lib.ones(1, 2, requires_grad=True)
    a = x * 1
    y = a.amax(0)
    a.mul_(2)
    assert y.grad_fn._saved_result.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.grad_fn._saved_self


@pytest.mark.parametrize("other", [0, 1])
def test_a_saved_view_that_its_base_has_left_behind(lib: ModuleType, other: int):
    x = lib.ones(1, 2, requires_grad=True)
    views = x.split(1, 1)
    y = x * views[other]
    with lib.no_grad():
        views[0].fill_(3.0)
    with pytest.raises(RuntimeError, match=f"Output {other} of Split is a view"):
        y.backward(lib.ones(1, 2))
    with pytest.raises(RuntimeError, match=f"Output {other} of Split is a view"):
        y.grad_fn._saved_other


IN_PLACE: dict[str, Callable[[Any], Any]] = {
    "relu_": lambda t: t.relu_(), "exp_": lambda t: t.exp_(), "sigmoid_": lambda t: t.sigmoid_(),
    "of a view": lambda t: t[0].exp_(), "of a view of it": lambda t: t.view(4)[1:].tanh_(),
}  # fmt: skip


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("what", IN_PLACE)
def test_a_result_that_a_hook_refused_to_keep(lib: ModuleType, what: str, create_graph: bool):
    """What changed in place has its history, which cannot be followed."""

    def pack(t: Any) -> Any:
        raise ZeroDivisionError("kept by nobody")

    x = lib.ones(2, 2, requires_grad=True)
    t = x * 1
    with pytest.raises(ZeroDivisionError), hooks(lib, pack, lambda t: t):
        IN_PLACE[what](t)
    assert t._version == 1
    assert t.requires_grad
    with pytest.raises(RuntimeError):
        lib.autograd.grad(t, x, lib.ones(2, 2), create_graph=create_graph)
    assert x.grad is None


def test_index_tensors_are_saved_as_they_are(lib: ModuleType):
    x = lib.ones(3, 4, requires_grad=True)
    rows, columns = lib.tensor([[0], [2]]), lib.tensor([1, 1, 3], dtype=lib.int32)
    kept: list[Any] = []
    with hooks(lib, lambda t: (kept.append(t), t)[1], lambda t: t):
        out = x[rows, columns]
    assert [t is i for t, i in zip(kept, (rows, columns), strict=True)] == [True, True]
    out.sum().backward()
    assert x.grad.tolist() == [[0, 2, 0, 1], [0, 0, 0, 0], [0, 2, 0, 1]]
    out = x[rows]
    rows.add_(0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@pytest.mark.parametrize("sizes", [(1,), (5,), (2, 2), (0,)], ids=str)
@pytest.mark.parametrize("count", [1, 2])
def test_index_tensors_of_other_sizes_from_a_hook(count: int, sizes: tuple[int, ...]):
    x = fg.ones(3, 4, 5, requires_grad=True)
    with hooks(fg, lambda t: None, lambda p: fg.zeros(*sizes, dtype=fg.int64)):
        out = x[(fg.tensor([0, 1, 2]),) * count]
    with pytest.raises(RuntimeError, match="another number of elements"):
        out.sum().backward()


def test_other_sizes_of_a_bias_by_its_data():
    x, c = fg.ones(2, 3), fg.ones(3, requires_grad=True)
    y = fg.nn.functional.batch_norm(x, None, None, c, c, training=True)
    c.data = fg.ones(2, 3)
    with pytest.raises(RuntimeError, match="do not fit each other"):
        y.sum().backward()


def test_index_tensors_of_another_dtype_from_a_hook():
    x = fg.ones(3, 4, requires_grad=True)
    with hooks(fg, lambda t: None, lambda p: fg.zeros(2)):
        out = x[fg.tensor([0, 1])]
    with pytest.raises(RuntimeError, match="int64"):
        out.sum().backward()


OF_A_LOSS: dict[str, Callable[[], Any]] = {
    "targets": lambda: fg.zeros(2, dtype=fg.int64),
    "weights": lambda: fg.ones(2),
    "weights of another dtype": lambda: fg.ones(3, dtype=fg.float64),
    "the total": lambda: fg.ones(2),
}


@pytest.mark.parametrize("which", OF_A_LOSS)
@pytest.mark.parametrize("sizes", [(4, 3), (4, 3, 2), (4, 3, 2, 2)], ids=str)
def test_what_a_loss_of_classes_gets_from_a_hook(which: str, sizes: tuple[int, ...]):
    """Its derivative reads no more than there is."""
    x = fg.ones(*sizes, requires_grad=True)
    place = {"targets": 1, "the total": 3}.get(which, 2)  # among what the loss packs
    kept: list[Any] = []

    def pack(t: Any) -> int:
        kept.append(t.detach())
        return len(kept) - 1

    with hooks(fg, pack, lambda k: OF_A_LOSS[which]() if k == place else kept[k]):
        target = fg.zeros(sizes[0], *sizes[2:], dtype=fg.int64)
        loss = fg.nn.functional.nll_loss(x * 1, target, fg.ones(3))
    with pytest.raises((RuntimeError, ValueError)):
        loss.backward()
