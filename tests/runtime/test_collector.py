"""What Python's garbage collector sees of the graph: cycles go, and nothing that is in use."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fastgrad as fg
from tests.autograd.random_programs.draw import draw
from tests.autograd.random_programs.features import available
from tests.autograd.random_programs.run import Run


class Box:
    """Something that can hold tensors and be weakly referred to."""


def leaf() -> Any:
    return fg.ones(2, requires_grad=True)


# Each builds a graph over `box.y`, which gets a hook that holds the box.
GRAPHS: dict[str, Callable[[Any], None]] = {}


def graph(build: Callable[[Any], None]) -> Callable[[Any], None]:
    GRAPHS[build.__name__] = build
    return build


@graph
def nothing_else(box: Any) -> None:
    pass


@graph
def saved_by_a_node(box: Any) -> None:
    box.z = box.y.pow(2)


@graph
def saved_by_two_nodes(box: Any) -> None:
    box.z = box.y.pow(2)
    box.w = box.y.pow(3)


@graph
def saved_twice_by_one(box: Any) -> None:
    box.z = box.y * box.y


@graph
def loss(box: Any) -> None:
    box.z = (box.y * 2).pow(2).sum()


@graph
def saved_by_a_function(box: Any) -> None:
    class Square(fg.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * a

        @staticmethod
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0]

    box.z = Square.apply(box.y).sum()


@graph
def views(box: Any) -> None:
    box.view = box.y[0:1]
    box.more = box.y.view(2, 1)


@graph
def views_alone(box: Any) -> None:
    box.view = box.y[0:1]
    box.more = box.y.view(2, 1).pow(2)
    del box.y


@graph
def saved_view(box: Any) -> None:
    box.view = box.y[0:1]
    box.z = box.view.pow(2)


@graph
def changed_through_a_view(box: Any) -> None:
    z = box.y.pow(2)
    box.view = box.y.view(1, 2)[0]
    box.view.mul_(z.sum())
    box.y.register_hook(lambda g, box=box: None)


@graph
def a_shared_node(box: Any) -> None:
    box.middle = box.y.exp()
    box.z = box.middle * 2
    box.w = box.middle.pow(2)
    box.n = box.z.grad_fn


@graph
def a_chain_of_shared_nodes(box: Any) -> None:
    box.steps = [box.y]
    for _ in range(20):
        box.steps.append((box.steps[-1] * 2).tanh() + box.y)


@graph
def a_saved_tensor_without_object(box: Any) -> None:
    middle = box.y * 3
    box.z = middle.pow(2)
    box.w = middle.pow(3)
    middle.register_hook(lambda g, box=box: None)


@graph
def many_inputs(box: Any) -> None:
    box.z = fg.cat([box.y * k for k in range(100)])


@graph
def several_hooks(box: Any) -> None:
    box.z = box.y.cos()
    box.w = leaf() / (box.z * box.z + 1)
    fg.autograd.graph.register_multi_grad_hook((box.w, box.z, box.y), lambda gs: box)


@graph
def retained(box: Any) -> None:
    box.z = box.y.pow(2)
    box.z.retain_grad()
    box.z.sum().backward(retain_graph=True)


@graph
def packed(box: Any) -> None:
    with fg.autograd.graph.saved_tensors_hooks(lambda t: (t, box), lambda p: p[0]):
        box.z = box.y.pow(2)


def cycle(build: Callable[[Any], None], ran: list[int]) -> Any:
    box: Any = Box()
    box.y = leaf() * 1
    box.y.register_hook(lambda g, box=box: ran.append(1))
    build(box)
    return box


def tensors_of(box: Any) -> list[str]:
    return [name for name, value in vars(box).items() if isinstance(value, fg.Tensor)]


@pytest.mark.parametrize("build", GRAPHS.values(), ids=GRAPHS)
def test_a_cycle_goes(build: Callable[[Any], None]):
    box = cycle(build, [])
    alive = weakref.ref(box)
    del box
    for _ in range(3):  # nodes that are shared are noted the first time
        gc.collect()
    assert alive() is None


@pytest.mark.parametrize("build", GRAPHS.values(), ids=GRAPHS)
def test_what_is_in_use_stays(build: Callable[[Any], None]):
    """Each tensor of the graph in turn is held from outside: the whole cycle stays, and its hooks run."""
    for kept in tensors_of(cycle(build, [])):
        ran: list[int] = []
        box = cycle(build, ran)
        held = getattr(box, kept)
        alive = weakref.ref(box)
        del box
        for _ in range(3):
            gc.collect()
        assert alive() is not None
        if build is not changed_through_a_view:  # its derivative reads what has changed
            held.sum().backward(retain_graph=True)
            assert ran
        held = None
        for _ in range(3):
            gc.collect()
        assert alive() is None


@pytest.fixture
def restless() -> Iterator[None]:
    """A full collection at nearly every object that is made."""
    before = gc.get_threshold()
    gc.set_threshold(5, 1, 1)
    yield
    gc.set_threshold(*before)


def events(seed: int) -> list[str]:
    return [repr(event) for event in Run(fg, draw(seed, available(fg))).log]


def test_programs_do_the_same_while_the_collector_runs(restless: None):
    seeds = range(60)
    with_collector = [events(seed) for seed in seeds]
    gc.disable()
    try:
        assert [events(seed) for seed in seeds] == with_collector
    finally:
        gc.enable()
        gc.collect()
