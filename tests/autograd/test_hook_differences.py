"""The differences from PyTorch in docs/hooks.md, one test for each number; in PyTorch where that does not crash."""

from __future__ import annotations

import gc
import re
import threading
import weakref
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastgrad as fg

NAN = float("nan")


def leaf(n: int = 2) -> Any:
    return fg.ones(n, requires_grad=True)


def here(lib: Any) -> bool:
    return lib is fg


class Box:
    """Something that can be weakly referred to."""


def is_collected(make: Any) -> bool:
    box = Box()
    alive = weakref.ref(box)
    make(box)
    del box
    gc.collect()
    gc.collect()
    return alive() is None


def test_d1_capture(lib, ones):
    x = ones()
    y = x * 2
    y.register_hook(lambda g: g * 10)
    assert lib.autograd.grad(y.sum(), [y, x])[0].tolist() == ([10.0, 10.0] if here(lib) else [1.0, 1.0])


def test_d2_in_place(lib, ones):
    a, b, seed = ones(), ones(), lib.ones(2)
    a.register_hook(lambda g: (g.mul_(7), None)[1])
    (a + b).backward(seed)
    assert a.grad.tolist() == [7.0, 7.0]
    assert b.grad.tolist() == seed.tolist() == ([1.0, 1.0] if here(lib) else [7.0, 7.0])
    y = ones() * 1
    y.register_hook(lambda g: (g.mul_(7), None)[1])
    if here(lib):
        y.sum().backward()
    else:
        with pytest.raises(RuntimeError, match="more than one element"):
            y.sum().backward()


def test_d3_grad_memory(lib, ones):
    kept: list[Any] = []
    x = ones()
    x.register_hook(lambda g: (kept.append(g), g.detach())[1])
    for _ in range(2):
        (x * 1).backward(lib.ones(2))
    assert kept[0].tolist() == ([1.0, 1.0] if here(lib) else [2.0, 2.0])


def test_d4_cycles(lib, ones):
    def make(box):
        y = ones() * 1
        y.register_hook(lambda g, y=y, box=box: None)

    assert is_collected(make) == here(lib)


def test_d5_pack(lib, ones):
    def make(box):
        with lib.autograd.graph.saved_tensors_hooks(lambda t: (t, box), lambda packed: packed[0]):
            ones().exp()

    assert is_collected(make) == here(lib)


def test_d6_edge():
    with pytest.raises(IndexError):
        fg.autograd.backward(fg.autograd.graph.GradientEdge(leaf().exp().grad_fn, 3), fg.ones(2))


def test_d7_multi_root(lib, ones):
    seen: list[Any] = []
    y = ones() * 2
    lib.autograd.graph.register_multi_grad_hook((y,), seen.append)
    y.backward(lib.ones(2))
    assert len(seen) == here(lib)


def test_d8_multi_leaf(lib, ones):
    seen: list[Any] = []
    x = ones()
    lib.autograd.graph.register_multi_grad_hook((x,), seen.append)
    z = (x * 2).sum()
    if here(lib):
        lib.autograd.grad(z, x)
        assert len(seen) == 1
    else:
        with pytest.raises(RuntimeError, match="_will_engine_execute_node"):
            lib.autograd.grad(z, x)


def test_d9_multi_inner(lib, ones):
    seen: list[Any] = []
    x, w = ones(), ones()

    def hook(g):
        with lib.enable_grad():
            inner = (w * 5).sum()
        inner.backward()

    lib.autograd.graph.register_multi_grad_hook(
        (x, w), lambda grads: seen.append([g is not None for g in grads])
    )
    y = x * 1
    y.register_hook(hook)
    (y * w).sum().backward()
    assert seen == [[False, True], [True, True]][: 1 + here(lib)]


def test_d10_sibling():
    log: list[str] = []
    a, b = leaf().unbind()
    held = [b]
    handle = a.register_hook(lambda g: (held[0].register_hook(lambda g: log.append("b")), None)[1])
    z = a + b
    z.backward(retain_graph=True)
    assert log == []
    handle.remove()
    held.clear()
    z.backward()
    assert log == ["b"]


def test_d11_stale_view():
    seen = []
    y = leaf() * 1
    v = y[0]
    y.mul_(2)
    v.register_hook(lambda g: seen.append(g.item()))
    v.backward()
    assert seen == [1.0]


@pytest.mark.parametrize("change", ["view", "base"])
def test_d12_view_hooks(lib, ones, change):
    seen = []
    y = ones() * 1
    v = y[0]
    v.register_hook(lambda g: seen.append(g.item()))
    (v if change == "view" else y).mul_(2)
    (v * 3 + y.sum()).backward()
    assert seen == ([8.0] if here(lib) and change == "view" else [])


def test_d13_post_return(lib, ones):
    seen: list[Any] = []
    x = ones()
    x.register_post_accumulate_grad_hook(lambda t: lib.zeros(2))
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.tolist()))
    with pytest.raises(RuntimeError, match="should return None"):
        x.sum().backward()
    assert seen == ([] if here(lib) else [[0.0, 0.0]])


class Named(tuple):
    __slots__ = ()


def test_d14_named_tuple(lib, ones):
    x = ones()
    y = x * 1
    y.grad_fn.register_prehook(lambda go: Named((go[0] * 2,)))
    y.grad_fn.register_prehook(lambda go: (go[0] * 3,))
    if here(lib):
        y.sum().backward()
        assert x.grad.tolist() == [6.0, 6.0]
    else:
        with pytest.raises(TypeError):
            y.sum().backward()


def test_d15_data(lib, ones):
    log: list[str] = []
    x = ones()
    node = (x * 1).grad_fn.next_functions[0][0]
    node.register_hook(lambda gi, go: log.append("hook"))
    x.data = lib.zeros(3).double()
    x.sum().backward()
    assert len(log) == here(lib)


@pytest.mark.filterwarnings("ignore")
def test_d16_anomaly_leaf(lib, ones):
    x = ones()
    x.register_hook(lambda g: g * NAN)
    with lib.autograd.detect_anomaly():
        if here(lib):
            with pytest.raises(RuntimeError, match="returned nan values"):
                x.sum().backward()
        else:
            x.sum().backward()


@pytest.mark.filterwarnings("ignore")
def test_d17_anomaly_thread(lib, ones):
    noted = []
    with lib.autograd.detect_anomaly():
        thread = threading.Thread(target=lambda: noted.append("traceback_" in (ones() * 1).grad_fn.metadata))
        thread.start()
        thread.join()
    assert noted == [not here(lib)]


def test_d18_mutation(lib, ones):
    x = ones()
    with lib.autograd.graph.allow_mutation_on_saved_tensors():
        y = x * 3
        z = y.pow(2)
        y.zero_()
    if here(lib):
        z.sum().backward()
        assert x.grad.tolist() == [18.0, 18.0]
    else:
        with pytest.raises(Exception, match="outside of the 'allow_mutation_on_saved_tensors' context"):
            z.sum().backward()


def test_d19_messages(lib, ones):
    y = ones().exp()
    y.mul_(2)
    with pytest.raises(RuntimeError) as caught:
        y.sum().backward()
    assert ("ExpBackward0" in str(caught.value)) == here(lib)


def test_d20_pin_memory():
    x = fg.ones(2, requires_grad=True)
    with fg.autograd.graph.save_on_cpu(pin_memory=True):
        y = x.exp()
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()


@pytest.mark.parametrize("change", [lambda y: y.mul_(2), lambda y: y[:].mul_(2)])
def test_d21_second_output(change):
    class Pair(fg.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a * 2, b * 3

        @staticmethod
        def backward(ctx, g, h):
            return g * 2, h * 3

    x = leaf()
    y = Pair.apply(x, x)[1]
    y.retain_grad()
    for _ in range(2):
        change(y)
    (y * 5).sum().backward()
    assert y.grad.tolist() == [5.0, 5.0]
    assert x.grad.tolist() == [60.0, 60.0]


def test_d22_execution_order(lib, ones):
    seen: list[Any] = []
    order_of = (lib.autograd.graph if here(lib) else lib._C)._current_graph_task_execution_order
    x = ones()
    x.register_hook(lambda g: seen.append(len(order_of())))
    if here(lib):
        (x * 2).sum().backward()
        assert seen == [3]
    else:
        with (
            lib.autograd.set_multithreading_enabled(False),
            pytest.raises(RuntimeError, match="INTERNAL ASSERT"),
        ):
            (x * 2).sum().backward()


def test_d23_overlapping_base(lib, ones):
    memory = np.arange(5, dtype=np.float32)
    base = lib.from_numpy(np.lib.stride_tricks.as_strided(memory, (4, 2), (4, 4)))
    base[0].mul_(ones())
    if here(lib):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            base.sum().backward()
    else:
        base.sum().backward()


def test_d24_blame(lib, ones):
    y = ones() * 3
    y.register_hook(lambda g: g[:1])
    with pytest.raises(RuntimeError, match="hook '<lambda>' has changed the size of value") as caught:
        y.sum().backward()
    assert str(caught.value).endswith("(hook '<lambda>' of MulBackward0)") == here(lib)


def test_d25_additions(lib):
    graph = lib.autograd.graph
    names = [
        "queue_callback",
        "node_creation_hook",
        "register_multi_post_accumulate_grad_hook",
        "measure_hooks",
    ]
    names += ["FunctionPreHook", "FunctionPostHook", "PostAccumulateGradHook"]
    assert [hasattr(graph, name) for name in names] == [here(lib)] * len(names)
    assert (
        hasattr(graph.Node, "add_pre_hook")
        == hasattr(lib, "hooks")
        == hasattr(lib, "native_hook")
        == here(lib)
    )


def test_a_tensor_multiplied_in_place_with_itself():
    x = fg.tensor([2.0], requires_grad=True)
    y = x * 3
    y.mul_(y)
    y.sum().backward()
    assert x.grad.tolist() == [36.0]


@pytest.mark.parametrize("other", [lambda y: y.view(1), lambda y: y.detach()])
def test_a_tensor_multiplied_in_place_with_its_own_memory(other):
    x = fg.tensor([2.0], requires_grad=True)
    y = x * 3
    y.mul_(other(y))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_every_difference_has_one_test():
    root = Path(__file__).parents[2]
    numbers = [int(n) for n in re.findall(r"^\*\*D(\d+)\*\*", (root / "docs" / "hooks.md").read_text(), re.M)]
    assert numbers == list(range(1, len(numbers) + 1))
    tests = [int(n) for n in re.findall(r"^def test_d(\d+)_", Path(__file__).read_text(), re.M)]
    assert sorted(tests) == numbers


def test_d26_hooks_put_into_a_non_leaf(lib, ones):
    x = ones()
    y = x * 1
    y._backward_hooks = OrderedDict({1: lambda g: g * 3})
    y.register_hook(lambda g: g + 1)
    y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == ([4.0, 4.0] if here(lib) else [1.0, 1.0])
    if here(lib):
        y._backward_hooks = {1: lambda g: g * 5}
        assert list(y._backward_hooks) == [1]
        (y * 1).sum().backward()
        assert x.grad.tolist() == [9.0, 9.0]
