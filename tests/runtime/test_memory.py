"""Training steps neither grow live counts nor, after the first ones, memory."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

import fastgrad as fg

functional = fg.nn.functional


def classifier(optimizer_options: dict[str, Any]) -> Callable[[], None]:
    x = fg.randn(20, 10)
    target = fg.randint(0, 4, (20,))
    w1 = fg.randn(10, 16, requires_grad=True)
    b1 = fg.zeros(16, requires_grad=True)
    w2 = fg.randn(16, 4, requires_grad=True)
    optimizer = fg.optim.SGD([w1, b1, w2], lr=0.01, **optimizer_options)

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy((x @ w1 + b1).relu() @ w2, target).backward()
        optimizer.step()

    return step


def with_hooks() -> Callable[[], None]:
    x = fg.randn(4, 6)
    w = fg.randn(6, 6, requires_grad=True)
    w.register_hook(lambda g: g * 0.5)
    w.register_post_accumulate_grad_hook(lambda t: None)

    def step() -> None:
        h = (x @ w).tanh()
        h.retain_grad()
        h.register_hook(lambda g: g + 1)
        h.grad_fn.register_hook(lambda gi, go: None)
        h.grad_fn.register_prehook(lambda go: None)
        first, *others = h.unbind(0)
        first.register_hook(lambda g: None)
        fg.stack([first, *others])[1:].sum().backward()
        w.grad = None

    return step


def second_order() -> Callable[[], None]:
    w = fg.randn(5, 5, requires_grad=True)

    def step() -> None:
        (g,) = fg.autograd.grad((w @ w).tanh().sum(), w, create_graph=True)
        (g * g).sum().backward()
        w.grad = None

    return step


def varying_shapes() -> Callable[[], None]:
    w = fg.randn(8, requires_grad=True)
    k = 0

    def step() -> None:
        nonlocal k
        k = (k + 1) % 7
        x = fg.ones(k + 1, 8)
        (fg.cat([x * w, x.exp()], 0)[::2].t() ** 2).mean().backward()
        w.grad = None

    return step


def failing() -> Callable[[], None]:
    w = fg.randn(4, requires_grad=True)

    def stop(g: Any) -> None:
        raise KeyError("stop")

    def step() -> None:
        y = w.exp()
        y.register_hook(stop)
        try:
            (y * y).sum().backward()
        except KeyError:
            pass
        else:
            raise AssertionError("the hook did not fire")
        with pytest.raises(RuntimeError):
            w.exp() + fg.ones(3)

    return step


STEPS = {
    "plain": lambda: classifier({}),
    "momentum": lambda: classifier({"momentum": 0.9, "weight_decay": 0.01}),
    "hooks": with_hooks,
    "second order": second_order,
    "varying shapes": varying_shapes,
    "failing": failing,
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_do_not_grow_memory(name: str):
    step = STEPS[name]()
    for _ in range(50):
        step()
    gc.collect()
    live, memory, python = fg.debug.live(), fg.debug.memory(), len(gc.get_objects())
    for _ in range(2000):
        step()
    gc.collect()
    assert fg.debug.live() == live
    after = fg.debug.memory()
    assert (after["live"], after["cached"]) == (memory["live"], memory["cached"])
    assert len(gc.get_objects()) < python + 100


def test_what_is_freed_is_cached_and_can_be_given_back():
    x = fg.zeros(1 << 16)
    fg.debug.empty_cache()
    live = fg.debug.memory()["live"]
    assert fg.debug.memory()["cached"] == 0
    del x
    after = fg.debug.memory()
    assert live - after["live"] == after["cached"] >= 1 << 18
    assert fg.debug.empty_cache() == after["cached"]
    assert fg.debug.memory()["cached"] == 0


def test_peak():
    fg.debug.reset_peak()
    start = fg.debug.memory()["peak"]
    x = fg.zeros(1 << 16)
    del x
    y = fg.zeros(1 << 10)
    assert (1 << 18) <= fg.debug.memory()["peak"] - start < (1 << 18) + (1 << 16)
    del y
    fg.debug.reset_peak()
    assert fg.debug.memory()["peak"] == fg.debug.memory()["live"]


def test_an_unused_graph_costs_nothing_once_it_is_gone():
    x = fg.ones(100, requires_grad=True)
    before = fg.debug.live()
    y = x.exp().tanh().sum()
    assert fg.debug.live() != before
    del y
    assert fg.debug.live() == before
