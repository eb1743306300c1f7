"""Compiled code reads what Python can write: attributes, dicts and containers of any kind, which may change."""

from __future__ import annotations

import contextlib
import copy
import gc
import sys
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import Any

import pytest

import fastgrad as fg
from fastgrad.native.host.tape import Tape, record


def leaf(n: int = 2) -> Any:
    return fg.ones(n, requires_grad=True)


class Double(fg.autograd.Function):
    """Keeps its context, for what tests do with it."""

    seen: Any = None

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        Double.seen = ctx
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


@pytest.fixture(autouse=True)
def forget_context() -> Any:
    yield
    Double.seen = None


# --- attributes ------------------------------------------------------------------------------------------------

WRONG: list[Any] = [5, 0, "text", [1], (1,), {1: 2}, object(), lambda: 0, int]
KINDS = {
    "_metadata": dict, "_packed": dict, "_to_save": tuple, "_dirty": tuple, "_non_differentiable": tuple,
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_an_attribute_takes_what_compiled_code_expects(name: str):
    node = (leaf() * 2).grad_fn
    for value in WRONG:
        if isinstance(value, KINDS[name]):
            setattr(node, name, value)
            assert getattr(node, name) is value
            continue
        before = getattr(node, name)
        kind, got = KINDS[name].__name__, type(value).__name__
        with pytest.raises(TypeError, match=f"^{name} must be a {kind} or None, but got {got}$"):
            setattr(node, name, value)
        assert getattr(node, name) is before
    setattr(node, name, None)
    assert getattr(node, name) is None
    delattr(node, name)
    assert getattr(node, name) is None


@pytest.mark.parametrize("name", ["_tensor_hooks", "_pres", "_posts", "_function", "_handle"])
def test_attributes_of_the_runtime_stay(name: str):
    y = leaf() * 2
    y.register_hook(lambda g: g)
    y.grad_fn.register_hook(lambda gi, go: None)
    y.grad_fn.register_prehook(lambda go: None)
    for value in WRONG:
        with pytest.raises(AttributeError):
            setattr(y.grad_fn, name, value)
    with pytest.raises((AttributeError, TypeError)):
        delattr(y.grad_fn, name)
    y.sum().backward()


def test_hooks_of_several_outputs_stand_in_a_tuple():
    parts = fg.ones(3, requires_grad=True).unbind()
    seen: list[int] = []
    for k in (1, 0, 2):
        parts[k].register_hook(lambda g, k=k: seen.append(k))
    held = parts[0].grad_fn._tensor_hooks
    assert type(held) is tuple
    assert [number for number, _ in held] == [1, 0, 2]
    sum(parts).backward()
    assert seen == [1, 0, 2]


def test_a_dict_of_hooks_may_be_any_dict():
    class Mine(dict):
        pass

    y = leaf() * 2
    y.grad_fn._register_hook_dict(y)  # there are none yet
    seen: list[Any] = []
    for kind in (dict, Mine, OrderedDict):
        hooks = kind({7: lambda g, kind=kind: seen.append(kind)})
        leaf_ = leaf()
        leaf_.register_hook(lambda g: None)
        leaf_.__dict__["_backward_hooks"] = hooks
        y.grad_fn._register_hook_dict(leaf_)
        (leaf_ * 2).sum().backward()
    assert seen == [dict, Mine, OrderedDict]
    y.sum().backward()
    assert seen[3:] == [dict, Mine, OrderedDict]


LEAF_USES: dict[str, Callable[[Any], Any]] = {
    "backward": lambda x: (x * 2).sum().backward(), "grad": lambda x: fg.autograd.grad((x * 2).sum(), x),
    "register_hook": lambda x: x.register_hook(lambda g: g),
}  # fmt: skip


@pytest.mark.parametrize("use", LEAF_USES)
@pytest.mark.parametrize("wrong", WRONG, ids=lambda value: type(value).__name__)
def test_hooks_of_a_leaf_are_a_dict(use: str, wrong: Any):
    if isinstance(wrong, dict):
        wrong = (wrong,)
    x = leaf()
    x.register_hook(lambda g: g)
    x.__dict__["_backward_hooks"] = wrong
    got = type(wrong).__name__
    with pytest.raises(TypeError, match=f"^_backward_hooks must be a dict or None, but got {got}$"):
        LEAF_USES[use](x)
    for look in (copy.copy, lambda x: x._backward_hooks):
        with pytest.raises(TypeError, match=f"^_backward_hooks of a tensor must be a dict .*, not {got}$"):
            look(x)
    x.__dict__["_backward_hooks"] = None
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    x.register_hook(lambda g: g * 10)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [22.0, 22.0]


@pytest.mark.parametrize("wrong", [5, 0, "text", [1], (1,)], ids=str)
def test_post_accumulate_hooks_of_a_leaf_are_a_dict(wrong: Any):
    x = leaf()
    x.register_post_accumulate_grad_hook(lambda t: None)
    x.__dict__["_post_accumulate_grad_hooks"] = wrong
    message = f"^_post_accumulate_grad_hooks must be a dict or None, but got {type(wrong).__name__}$"
    with pytest.raises(TypeError, match=message):
        (x * 2).sum().backward()
    with pytest.raises(TypeError, match=message):
        x.register_post_accumulate_grad_hook(lambda t: None)
    x.__dict__["_post_accumulate_grad_hooks"] = None
    (x * 2).sum().backward()


def test_what_a_context_is_to_save_is_looked_at_when_it_is_set():
    class Wrong(Double):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            with pytest.raises(TypeError, match="_to_save must be a tuple"):
                ctx._to_save = 5
            with pytest.raises(TypeError, match="_dirty must be a tuple"):
                ctx._dirty = x
            return x * 2

    x = leaf()
    Wrong.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_tape_records_once_whatever_its_class_says():
    class Careless(Tape):
        def _entering(self) -> None:
            pass

    tape = Careless()
    with tape:
        fg.ones(2)
        with pytest.raises(SystemError, match="a tape records once"), tape:
            pass
    with pytest.raises(SystemError, match="a tape records once"), tape:
        pass
    with record(), pytest.raises(SystemError, match="one tape at a time"), Careless():
        pass


# --- tuples that lie -------------------------------------------------------------------------------------------


class Lies(tuple):
    """A tuple that says of itself whatever it was told to."""

    length = 1

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Any:
        return iter([None] * self.length)

    def __getitem__(self, k: Any) -> Any:
        return None


def lying(*items: Any, length: int = 1) -> Any:
    made = Lies(items)
    made.length = length
    return made


Pair = namedtuple("Pair", "first second")


def test_a_function_that_returns_a_lying_tuple():
    class Many(Double):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return lying(*[x * float(k) for k in range(200)])

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return sum(g * float(k) for k, g in enumerate(grads))

    x = leaf()
    outputs = Many.apply(x)
    assert type(outputs) is tuple
    assert len(outputs) == 200
    outputs[3].sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_a_function_that_returns_a_named_tuple():
    class Two(Double):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return Pair(x * 1, x * 2)

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any) -> Any:
            return (a + 2 * b,)

    outputs = Two.apply(leaf())
    assert type(outputs) is tuple
    assert [t.tolist() for t in outputs] == [[1.0, 1.0], [2.0, 2.0]]


@pytest.mark.parametrize("length", [0, 1, 2, 50])
def test_a_backward_that_returns_a_lying_tuple(length: int):
    class Returns(Double):
        result: Any = None

        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return x * y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return Returns.result

    x, y = leaf(), leaf()
    Returns.result = lying(x.detach(), y.detach(), length=length)
    Returns.apply(x, y).sum().backward()
    assert x.grad.tolist() == y.grad.tolist() == [1.0, 1.0]
    Returns.result = lying(x.detach(), length=length)
    with pytest.raises(RuntimeError, match=r"incorrect number of gradients \(expected 2, got 1\)"):
        Returns.apply(x, y).sum().backward()
    Returns.result = None


@pytest.mark.parametrize("length", [0, 1, 2, 50])
@pytest.mark.parametrize("before", [True, False])
def test_a_node_hook_that_returns_a_lying_tuple(before: bool, length: int):
    x, y = leaf(), leaf()
    z = x * y
    register = z.grad_fn.register_prehook if before else z.grad_fn.register_hook
    n = 1 if before else 2
    answer: list[Any] = [lying(*[fg.full((2,), 3.0)] * n, length=length)]
    register(lambda *_: answer[0])
    z.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [3.0, 3.0]
    answer[0] = lying(*[fg.full((2,), 3.0)] * 9, length=n)
    with pytest.raises(RuntimeError, match=f"got 9, but expected {n}"):
        z.sum().backward()


def test_lying_arguments_of_a_pass():
    x = leaf()
    y = (x * 2).sum()
    for call in (
        lambda: fg.autograd.backward(lying(y, y, length=3)), lambda: fg.autograd.grad(y, lying(x, length=4)),
        lambda: fg.autograd.grad(lying(y, length=5), x), lambda: fg.autograd.grad(y, x, lying(fg.ones(()), length=2)),
    ):  # fmt: skip
        with pytest.raises((TypeError, RuntimeError)):
            call()
    assert fg.autograd.grad(y, x)[0].tolist() == [2.0, 2.0]


def test_lying_arguments_of_functions():
    class First(Double):
        @staticmethod
        def forward(ctx: Any, x: Any, other: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2, None

    x = leaf()
    First.apply(x, lying(x, x, length=7)).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


# --- containers that change while compiled code goes through them ----------------------------------------------


class Slippery(OrderedDict):
    """A dict that gives other values than it has."""

    given: Any = ()

    def values(self) -> Any:
        return self.given

    def keys(self) -> Any:
        return self.given


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7])
def test_a_dict_of_hooks_that_gives_other_values_than_it_has(count: int):
    calls: list[Any] = []
    x = leaf()
    x.register_hook(lambda g: None)
    x.register_post_accumulate_grad_hook(lambda t: None)
    hooks = Slippery({1: calls.append, 2: calls.append, 3: calls.append})
    hooks.given = [calls.append] * count
    for name in ("_backward_hooks", "_post_accumulate_grad_hooks"):
        x.__dict__[name] = hooks
    (x * 2).sum().backward()
    assert len(calls) == 2 * count
    with fg.autograd.graph.measure_hooks():
        (x * 2).sum().backward()
    assert len(calls) == 4 * count
    calls.clear()


def test_hooks_that_remove_each_other():
    x = leaf()
    seen: list[int] = []
    handles: list[Any] = []

    def hook(k: int) -> Any:
        def run(g: Any) -> None:
            seen.append(k)
            for handle in handles:
                handle.remove()
            gc.collect()

        return run

    handles += [x.register_hook(hook(k)) for k in range(3)]
    (x * 2).sum().backward()
    assert seen == [0, 1, 2]
    (x * 2).sum().backward()
    assert seen == [0, 1, 2]


def test_a_dict_of_hooks_that_goes_while_it_is_read():
    class Parting(OrderedDict):
        def values(self) -> Any:
            x.__dict__["_backward_hooks"] = None
            gc.collect()
            return [lambda g: g * 10, lambda g: g]

    x = leaf()
    x.register_hook(lambda g: None)
    x.__dict__["_backward_hooks"] = Parting({1: 1, 2: 2})
    (x * 2).sum().backward()
    assert x.grad.tolist() == [20.0, 20.0]


def test_a_list_that_becomes_shorter_while_a_pass_begins():
    """Views find their history when they are asked for it, and whoever watches nodes may run any code then."""
    base = leaf(4) * 1
    views = [base[k : k + 1] for k in range(4)]
    base.mul_(2)

    def shorten(node: Any) -> None:
        views.clear()
        gc.collect()

    refused = (RuntimeError, TypeError, ValueError, IndexError)
    with fg.autograd.graph.node_creation_hook(shorten), contextlib.suppress(*refused):
        fg.autograd.grad(views, base, [fg.ones(1) for _ in range(4)], allow_unused=True)
    assert not views


def test_a_pack_hook_that_saves_more():
    class Again(Double):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            Double.seen = ctx
            ctx.save_for_backward(x, x)
            return x * 2

    def pack(t: Any) -> Any:
        from fastgrad.native.build.loader import rt

        Double.seen.save_for_backward(*[t] * 50)
        rt.function_save(Double.seen)
        return t.detach()

    x = leaf()
    with (
        fg.autograd.graph.saved_tensors_hooks(pack, lambda t: t),
        pytest.raises(RuntimeError, match="saved once"),
    ):
        Again.apply(x)


# --- nothing is left behind ------------------------------------------------------------------------------------


def test_no_exception_is_pending_afterwards():
    x = leaf()
    x.register_hook(lambda g: g)
    x.__dict__["_backward_hooks"] = 5
    for _ in range(3):
        with pytest.raises(TypeError) as raised:
            (x * 2).sum().backward()
        assert raised.value.__context__ is None
        assert sys.exc_info()[0] is None
        assert int("3") == 3
