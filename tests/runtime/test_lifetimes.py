"""Objects that go while the graph leads to what they stood for: nobody gets hold of what is being destroyed."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fastgrad as fg
from fastgrad.tensor.subclasses import disabled_torch_function


def leaf() -> Any:
    return fg.ones(2, requires_grad=True)


def reuse_memory() -> list[Any]:
    """Records and objects that take the place of what has just gone."""
    return [fg.full((2,), 7.0) for _ in range(100)] + [object() for _ in range(100)]


class Slotted(fg.Tensor):
    """A tensor that loses what stands in a slot of its own before the runtime hears that it goes."""

    __slots__ = ("held",)
    __torch_function__ = disabled_torch_function  # results are plain tensors, without a node for their class


class Speaking:
    """Says when it goes."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call

    def __del__(self) -> None:
        self.call()


# Each makes `look` run while the object of a leaf is being destroyed, and destroys it.
WAYS: dict[str, Callable[[Any, Callable[[], Any]], Any]] = {}


def way(make: Callable[[list[Any], Callable[[], Any]], Any]) -> Callable[..., Any]:
    WAYS[make.__name__] = make
    return make


@way
def by_a_weak_reference(leaves: list[Any], look: Callable[[], Any]) -> None:
    reference = weakref.ref(leaves[0], lambda _: look())
    leaves.clear()
    assert reference() is None


@way
def by_an_attribute(leaves: list[Any], look: Callable[[], Any]) -> None:
    leaves[0].speaking = Speaking(look)
    leaves.clear()


@way
def by_a_slot_of_a_subclass(leaves: list[Any], look: Callable[[], Any]) -> None:
    leaves[0].held = Speaking(look)
    leaves.clear()


@way
def deep_inside(leaves: list[Any], look: Callable[[], Any]) -> None:
    """CPython puts off the destruction of what is nested too deep; the object waits with nobody holding it."""
    speaking = Speaking(look)
    inner: Any = leaves.pop()
    for k in range(200):
        inner = [inner, speaking if k == 150 else None]
    del speaking, inner


@way
def in_a_cycle(leaves: list[Any], look: Callable[[], Any]) -> None:
    leaves[0].myself = leaves[0]
    leaves[0].speaking = Speaking(look)
    leaves.clear()
    gc.collect()


def readers(y: Any) -> dict[str, Callable[[], Any]]:
    """What leads from a graph to its leaf."""
    node = y.grad_fn
    accumulator = node.next_functions[0][0]
    return {
        "variable": lambda: accumulator.variable,
        "saved": lambda: node._saved_self,
        "use": lambda: accumulator.variable * 2,
        "backward": lambda: (y.sum().backward(retain_graph=True), accumulator.variable.grad)[1],
        "hook": lambda: (accumulator.variable.register_hook(lambda g: None), accumulator.variable)[1],
    }


@pytest.mark.parametrize("name", ["variable", "saved", "use", "backward", "hook"])
@pytest.mark.parametrize("go", WAYS.values(), ids=WAYS)
def test_a_leaf_that_goes_is_not_brought_back(go: Callable[..., Any], name: str):
    leaves = [Slotted([1.0, 1.0]).requires_grad_()]
    y = leaves[0] * leaves[0]
    read = readers(y)[name]
    kept: list[Any] = []
    go(leaves, lambda: kept.append(read()))
    junk = reuse_memory()
    assert kept
    lives = go is in_a_cycle or (go is deep_inside and sys.version_info >= (3, 13))  # while the graph is read
    if name in ("variable", "saved", "hook") and not lives:
        assert type(kept[0]) is fg.Tensor  # another object for the same leaf
    assert kept[0].tolist() == {"backward": [2.0, 2.0], "use": [2.0, 2.0]}.get(name, [1.0, 1.0])
    x = y.grad_fn.next_functions[0][0].variable
    x.grad = None
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    del junk


@pytest.mark.parametrize("go", WAYS.values(), ids=WAYS)
def test_a_base_that_goes_is_not_brought_back(go: Callable[..., Any]):
    bases = [Slotted([1.0, 2.0])]
    view = bases[0][1:]
    kept: list[Any] = []
    go(bases, lambda: kept.append(view._base))
    junk = reuse_memory()
    assert kept[0].tolist() == [1.0, 2.0]
    view.mul_(2)
    assert kept[0].tolist() == [1.0, 4.0]
    del junk


@pytest.mark.parametrize("go", WAYS.values(), ids=WAYS)
def test_a_grad_that_goes_is_not_brought_back(go: Callable[..., Any]):
    x = leaf()
    x.grad = Slotted([1.0, 2.0])
    grads = [x.grad]
    kept: list[Any] = []
    go(grads, lambda: kept.append(x.grad))
    junk = reuse_memory()
    assert kept[0].tolist() == [1.0, 2.0]
    assert x.grad is kept[0]
    del junk


def test_a_graph_made_while_its_leaf_goes():
    x = leaf()
    y = x * 3
    made: list[Any] = []
    reference = weakref.ref(x, lambda _: made.append(y.grad_fn.next_functions[0][0].variable.exp()))
    del x
    assert reference() is None
    made[0].sum().backward()
    assert made[0].grad_fn.next_functions[0][0].variable.grad is not None


@pytest.mark.parametrize("how", ["weak reference", "metadata", "hook"])
def test_the_node_of_a_leaf_that_goes_is_not_used_again(how: str):
    """Whoever uses the leaf while its node is being destroyed gets a new node, and so a gradient."""
    x = leaf()
    y = x * 2
    node = y.grad_fn.next_functions[0][0]
    made: list[Any] = []
    use = lambda *_: made.append(x * 3)  # noqa: E731
    if how == "weak reference":
        reference = weakref.ref(node, use)
    elif how == "metadata":
        node.metadata["speaking"] = Speaking(use)
    else:
        speaking = Speaking(use)
        node.register_hook(lambda gi, go, speaking=speaking: None)
        del speaking
    del y, node
    junk = reuse_memory()
    made[0].sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    if how == "weak reference":
        assert reference() is None
    del junk


def test_a_node_put_off_by_cpython_is_not_used_again():
    x = leaf()
    node = (x * 2).grad_fn.next_functions[0][0]
    made: list[Any] = []
    speaking = Speaking(lambda: made.append(x * 3))
    inner: Any = node
    for k in range(200):
        inner = [inner, speaking if k == 150 else None]
    del node, speaking, inner
    made[0].sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_destructors_run_while_a_pass_lets_go_of_its_graph():
    """What a custom function keeps goes at its node's turn; its destructor walks the graph and starts a pass."""
    x = leaf()
    seen: list[Any] = []

    class Keeping(fg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            ctx.speaking = Speaking(lambda: seen.append(fg.autograd.grad((x * 5).sum(), x)[0].tolist()))
            ctx.save_for_backward(a)
            return a * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    y = Keeping.apply(x * 1)
    z = (y * y).sum()
    del y
    z.backward()
    del z
    assert seen == [[5.0, 5.0]]
    assert x.grad.tolist() == [8.0, 8.0]


def test_packed_tensors_go_while_their_node_is_at_work():
    """A packed value's destructor comes back to the node whose saved tensors are being dropped."""
    x = leaf()
    failed: list[str] = []

    class Packed:
        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor

        def __del__(self) -> None:
            with pytest.raises(RuntimeError, match="second time") as info, fg.enable_grad():
                z.backward()
            failed.append(type(info.value).__name__)

    with fg.autograd.graph.saved_tensors_hooks(Packed, lambda p: p.tensor):
        y = x.exp() * 1
        z = y.sum()
    z.backward()
    assert failed == ["RuntimeError"]
    assert x.grad is not None


def test_tensors_that_retain_gradients_may_go_while_they_get_them():
    """Recorded passes show each new node; the tensors whose gradients are being written may then be dropped."""
    x = leaf()
    y = x * 2
    held = [y]
    y.retain_grad()
    for _ in range(5):
        alias = y.grad_fn
        held.append(alias)
    z = (y * y).sum()
    weak = weakref.ref(y)
    del y

    def drop(node: Any) -> None:
        held.clear()
        gc.collect()

    with fg.autograd.graph.node_creation_hook(drop):
        (g,) = fg.autograd.grad(z, x, create_graph=True)
    junk = reuse_memory()
    assert weak() is None
    assert g.tolist() == [8.0, 8.0]
    del junk


# --- leaves with hooks -----------------------------------------------------------------------------------------


class Finalized(fg.Tensor):
    """A tensor with a destructor."""

    __torch_function__ = disabled_torch_function
    gone: list[str]

    def __del__(self) -> None:
        self.gone.append("gone")


class Attributed(Finalized):
    """The same with a slot of its own."""

    __slots__ = ("mark",)


@pytest.mark.parametrize("kind", [fg.Tensor, Finalized, Attributed])
@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("post", [False, True])
def test_a_leaf_with_hooks_stays_as_long_as_a_graph_leads_to_it(kind: type, before: bool, post: bool):
    x: Any = kind([1.0, 1.0])
    x.requires_grad_()
    x.tag, x.gone = "mine", []
    gone = x.gone
    ran: list[str] = []
    z = None if before else (x * 2).sum()
    if kind is Attributed:
        x.mark = "marked"
    if post:
        x.register_post_accumulate_grad_hook(lambda p: ran.append((type(p), p.tag, getattr(p, "mark", None))))
    else:
        x.register_hook(lambda g: ran.append(g.tolist()))
    z = (x * 2).sum() if z is None else z
    weak = weakref.ref(x)
    del x
    gc.collect()
    assert not gone
    z.backward()
    mark = "marked" if kind is Attributed else None
    assert ran == ([(kind, "mine", mark)] if post else [[2.0, 2.0]])
    assert type(weak()) is kind
    del z
    assert weak() is None
    assert gone == ([] if kind is fg.Tensor else ["gone"])


def test_a_leaf_with_hooks_in_a_cycle_stays_as_long_as_a_graph_leads_to_it():
    x = leaf()
    x.myself = x
    ran: list[Any] = []
    x.register_hook(ran.append)
    z = (x * 2).sum()
    weak = weakref.ref(x)
    del x
    gc.collect()
    z.backward()
    assert len(ran) == 1
    assert weak().myself is weak()
    del z
    gc.collect()
    assert weak() is None


@pytest.mark.parametrize("seen", [False, True])
@pytest.mark.parametrize("kind", [fg.Tensor, Finalized, Attributed])
def test_a_hook_that_holds_the_graph_of_its_leaf_is_collected(kind: type, seen: bool):
    x: Any = kind([1.0, 1.0])
    x.requires_grad_()
    x.gone = []
    z = (x * x.exp()).sum()
    if seen:
        assert z.grad_fn.next_functions[0][0].next_functions[0][0].variable is x
    x.register_hook(lambda g, z=z: None)
    weak = weakref.ref(x)
    del z
    gc.collect()
    assert weak() is x
    del x
    gc.collect()
    assert weak() is None


def test_a_leaf_that_became_a_result_is_given_up_by_its_old_node():
    x = leaf()
    x.register_hook(lambda g: None)
    y = x * 2
    x.requires_grad_(False)
    other = leaf()
    x.mul_(other)
    weak = weakref.ref(x)
    assert y.grad_fn.next_functions[0][0].variable is not x
    del x
    assert weak() is None
    y.sum().backward()


# --- the collector ---------------------------------------------------------------------------------------------


@pytest.fixture
def collector_off() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def test_what_the_collector_found_may_be_read_by_callbacks(collector_off: None):
    """The collector tells weak references before it takes a cycle apart: what leads there is still whole."""
    x, w = leaf(), leaf()
    x.myself = x
    y = x * w
    nodes = [y.grad_fn]
    got: list[Any] = []
    reference = weakref.ref(x, lambda _: got.append(nodes[0].next_functions[0][0].variable))
    del x, y
    gc.collect()
    assert reference() is None
    assert got[0].tolist() == [1.0, 1.0]
    (got[0] * 2).sum().backward()
    assert got[0].grad.tolist() == [2.0, 2.0]
    got.clear()
    nodes.clear()
    gc.collect()


def test_destructors_in_a_cycle_may_walk_the_graph(collector_off: None):
    x = leaf()
    y = x * 2
    nodes = [y.grad_fn]
    got: list[Any] = []
    x.cycle = [x, Speaking(lambda: got.append(nodes[0].next_functions[0][0].variable))]
    y.cycle = [y, Speaking(lambda: got.append(nodes[0].next_functions))]
    del x, y
    gc.collect()
    junk = reuse_memory()
    assert len(got) == 2
    for value in got:
        if isinstance(value, fg.Tensor):
            assert (value + 1).tolist() == [2.0, 2.0]
    got.clear()
    nodes.clear()
    del junk
    gc.collect()


@pytest.mark.parametrize("kind", ["register_hook", "register_prehook", "of a result", "of a leaf"])
def test_a_hook_that_a_destructor_registers_while_another_is_registered(kind: str):
    """The collector may run when the dict of the first hook is made, before it is in its place."""
    limits = gc.get_threshold()
    for moment in range(1, 30):
        leaf = fg.ones(2, requires_grad=True)
        y = leaf * 2
        node = y.grad_fn
        log: list[str] = []

        def register(word: str, node=node, y=y, leaf=leaf, log=log) -> None:
            owner = {"of a result": y, "of a leaf": leaf}.get(kind, node)
            method = kind if owner is node else "register_hook"
            getattr(owner, method)(lambda *_: log.append(word))

        class Last:
            def __del__(self, register=register) -> None:
                register("destructor")

        gc.collect()
        last = Last()
        last.me = last
        gc.set_threshold(moment, 10, 10)
        del last
        register("program")
        gc.set_threshold(*limits)
        gc.collect()
        y.sum().backward()
        assert sorted(log) == ["destructor", "program"], moment
