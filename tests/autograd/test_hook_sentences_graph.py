"""The sentences of docs/hooks.md, one test for each number: the whole graph, several tensors, several passes."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from typing import Any

import pytest

import fastgrad as fg


def leaf(n: int = 2) -> Any:
    return fg.ones(n, requires_grad=True)


class Box:
    """Something that can be weakly referred to."""


def queue(lib: Any) -> Any:
    return lib.autograd.Variable._execution_engine.queue_callback


# --- lifetime and cycles -----------------------------------------------------------------------------------------


def test_h65_copies(ones):
    log: list[Any] = []
    x = ones()
    x.register_hook(log.append)
    for other in (x.clone(), x.detach(), x.view(2, 1), copy.deepcopy(x)):
        assert other._backward_hooks is None
    copy.deepcopy(x).sum().backward()
    assert log == []


def print_it(grad):
    print(grad)


def test_h66_pickle_warns(ones):
    x = ones()
    x.register_hook(print_it)
    with pytest.warns(UserWarning, match="will not be serialized"):
        data = pickle.dumps(x)
    assert not pickle.loads(data)._backward_hooks


def test_h67_outlive(ones):
    seen = []
    x = ones()
    y = x * 2
    y.register_hook(lambda g: seen.append(g.tolist()))
    z = (y * 3).sum()
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
    del x, y
    gc.collect()
    z.backward()
    assert seen == [[3.0, 3.0], [6.0, 6.0]]


def test_h68_cycles():
    def tensor(box):
        y = leaf() * 1
        y.register_hook(lambda g, y=y, box=box: None)

    def node(box):
        y = leaf() * 1
        y.grad_fn.register_hook(lambda gi, go, n=y.grad_fn, box=box: None)

    def post_accumulate(box):
        x = leaf()
        x.register_post_accumulate_grad_hook(lambda t, x=x, box=box: None)

    for make in (tensor, node, post_accumulate):
        box = Box()
        alive = weakref.ref(box)
        make(box)
        del box
        gc.collect()
        gc.collect()
        assert alive() is None


# --- hooks over several tensors ----------------------------------------------------------------------------------


def test_h69_multi_all(lib, ones):
    seen: list[list[bool]] = []
    a, b = ones(), ones()
    c, d = a * b, a * b
    lib.autograd.graph.register_multi_grad_hook(
        (a, b, c, d), lambda grads: seen.append([g is not None for g in grads])
    )
    c.sum().backward(retain_graph=True)
    c.sum().backward(inputs=(a,), retain_graph=True)
    (c + d).sum().backward()
    assert seen == [[True, True, True, False], [True, False, True, False], [True] * 4]


def test_h70_multi_any(lib, ones):
    seen = []
    a, b = ones(), ones()
    c = a * b
    lib.autograd.graph.register_multi_grad_hook((a, c), lambda g: seen.append(g.tolist()), mode="any")
    for _ in range(2):
        (c * 3).sum().backward(retain_graph=True)
    assert seen == [[3.0, 3.0]] * 2


@pytest.mark.parametrize("mode", ["all", "any"])
def test_multi_hooks_remember_a_pass_whatever_runs_inside_of_it(lib, ones, mode):
    seen = []
    a, w = ones(), ones()
    c = a * 2

    def inner(g):
        for _ in range(100):
            with lib.enable_grad():
                loss = (w * 2).sum()
            loss.backward()

    lib.autograd.graph.register_multi_grad_hook((c, a), lambda g: seen.append("outer"), mode=mode)
    lib.autograd.graph.register_multi_grad_hook((w, w * 1), lambda g: seen.append("inner"), mode="any")
    c.register_hook(inner)
    (c * 3).sum().backward()
    assert seen == ["outer"] * (mode == "any") + ["inner"] * 100 + ["outer"] * (mode == "all")


@pytest.mark.parametrize("mode", ["all", "any"])
def test_multi_hooks_do_not_hold_a_graph(mode):
    """In PyTorch they do: y saves x, so that both stay for ever."""
    before = fg.debug.live()

    def make():
        x = leaf() * 1
        y = x * x
        for tensors in ((x, y), (x, y, leaf(), y + 1)):
            fg.autograd.graph.register_multi_grad_hook(tensors, lambda grads: None, mode=mode)

    make()
    gc.collect()
    assert fg.debug.live() == before


def test_multi_hooks_outlive_tensors(lib, ones):
    seen = []
    a, b = ones(), ones()
    c, d = a * 2, b * 3
    z = c * d
    lib.autograd.graph.register_multi_grad_hook(
        (c, d, d * 2), lambda grads: seen.append([g is None for g in grads])
    )
    del c, d
    z.sum().backward()
    assert seen == [[False, False, True]]


def test_multi_hooks_keep_nothing_of_a_pass_that_failed(lib, ones):
    def stop(g):
        raise ValueError("from a hook")

    a, b = ones(), ones()
    c = a * b
    seen = []
    lib.autograd.graph.register_multi_grad_hook((c, b), seen.append)
    handle = c.register_hook(stop)
    for _ in range(3):
        with pytest.raises(ValueError, match="from a hook"):
            c.sum().backward(retain_graph=True)
    handle.remove()
    c.sum().backward()
    assert len(seen) == 1


def test_h71_multi_return(lib, ones):
    seen: list[Any] = []
    a, b = ones(), ones()
    handle = lib.autograd.graph.register_multi_grad_hook((a, b), lambda grads: seen.append(1) or grads[0] * 5)
    (a * b).sum().backward()
    assert a.grad.tolist() == b.grad.tolist() == [1.0, 1.0]
    handle.remove()
    for t in (a, b):
        t.sum().backward()
    assert seen == [1]


def test_h72_multi_sees(lib, ones):
    seen: list[Any] = []
    x = ones()
    x.register_hook(lambda g: g * 10)
    lib.autograd.graph.register_multi_grad_hook((x,), lambda grads: seen.append(grads[0].tolist()))
    (x * 2).sum().backward()
    assert seen == [[20.0, 20.0]]


def test_h73_multi_errors(lib, ones):
    register = lib.autograd.graph.register_multi_grad_hook
    with pytest.raises(ValueError, match="Expects mode to be one of"):
        register((ones(),), print, mode="some")
    with pytest.raises(AssertionError):
        register((lib.ones(1),), print)
    seen: list[Any] = []
    x = ones()
    register((x, lib.ones(1)), seen.append, mode="any")
    x.sum().backward()
    assert len(seen) == 1


def test_h74_multi_grad_leaf():
    seen: list[Any] = []
    x, y = leaf(), leaf() * 2
    fg.autograd.graph.register_multi_grad_hook((x,), seen.append)
    fg.autograd.graph.register_multi_grad_hook((y,), seen.append)
    fg.autograd.grad((x * 2).sum(), x)
    assert [[g.tolist() for g in grads] for grads in seen] == [[[2.0, 2.0]]]
    y.backward(fg.ones(2))
    assert [g.tolist() for g in seen[1]] == [[1.0, 1.0]]


def test_h75_multi_post():
    seen: list[Any] = []
    a, b, c = leaf(), leaf(), leaf()
    fg.autograd.graph.register_multi_post_accumulate_grad_hook(
        (a, b, c), lambda leaves: seen.append([t if t is None else t.grad.tolist() for t in leaves])
    )
    (a * b * 2).sum().backward()
    assert seen == [[[2.0, 2.0], [2.0, 2.0], None]]


# --- final callbacks ---------------------------------------------------------------------------------------------


def test_h76_callback(lib, ones):
    log: list[Any] = []
    q = queue(lib)
    x = ones()
    y = x * 1
    held = [x]

    def first():
        log.append(("first", held[0].grad is not None))
        q(lambda: log.append("third"))

    def hook(g):
        q(first)
        q(lambda: log.append("second"))

    y.register_hook(hook)
    y.sum().backward()
    held.clear()
    assert log == [("first", True), "second", "third"]


def test_h77_callback_outside(lib):
    with pytest.raises(RuntimeError, match="only be installed during backward pass"):
        queue(lib)(print)


def test_h78_callback_failed(lib, ones):
    log: list[str] = []

    def stop(*a):
        raise KeyError

    x = ones()
    y = x * 1
    y.register_hook(lambda g: queue(lib)(lambda: log.append("never")))
    handle = x.register_hook(stop)
    with pytest.raises(KeyError):
        y.sum().backward(retain_graph=True)
    assert log == []
    handle.remove()
    z = ones()
    for callback in (lambda: log.append("one"), stop, lambda: log.append("never")):
        z.register_hook(lambda g, callback=callback: queue(lib)(callback))
    with pytest.raises(KeyError):
        (z * 1).sum().backward()
    assert log == ["one"]
    assert z.grad is not None


def test_h79_callback_inner(lib, ones):
    log: list[str] = []
    w, x = ones(), ones()

    def hook(g):
        queue(lib)(lambda: log.append("outer"))
        with lib.enable_grad():
            inner = (w * 2).sum()
        inner.backward()
        log.append("inner done")

    w.register_hook(lambda g: queue(lib)(lambda: log.append("inner")))
    x.register_hook(hook)
    (x * 1).sum().backward()
    assert log == ["inner", "inner done", "outer"]


# --- passes inside of passes, and threads ------------------------------------------------------------------------


def test_h80_inner(lib, ones):
    log: list[str] = []
    x, w = ones(), ones()
    a, b = x * 1, x * 2

    def hook(g):
        with lib.enable_grad():
            inner = (w * 2).sum()
        log.append("begin")
        inner.backward()
        log.append("end")

    b.register_hook(hook)
    a.register_hook(lambda g: log.append("a"))
    w.register_hook(lambda g: log.append("w"))
    (a + b).sum().backward()
    assert log == ["begin", "w", "end", "a"]


def test_h81_inner_raises(lib, ones):
    def stop(g):
        raise KeyError

    def hook(g):
        with lib.enable_grad():
            inner = (w * 2).sum()
        with pytest.raises(KeyError):
            inner.backward()

    x, w = ones(), ones()
    w.register_hook(stop)
    x.register_hook(hook)
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_h82_threads(ones):
    seen = []
    x = ones()
    x.register_hook(lambda g: seen.append(threading.current_thread()))
    thread = threading.Thread(target=lambda: (x * 1).sum().backward())
    thread.start()
    thread.join()
    assert seen == [thread]


def test_h83_current():
    graph = fg.autograd.graph
    seen = []
    y = leaf() * 3
    y.register_hook(
        lambda g: seen.append((graph._current_autograd_node().name(), graph._current_graph_task_id()))
    )
    y.sum().backward()
    assert seen[0][0] == "MulBackward0"
    assert seen[0][1] >= 0
    assert graph._current_autograd_node() is None
    assert graph._current_graph_task_id() == -1


# --- gradient edges ----------------------------------------------------------------------------------------------


def test_h84_edge(lib, ones):
    edge_of = lib.autograd.graph.get_gradient_edge
    x = ones()
    a, b = x.unbind()
    assert edge_of(b).node is b.grad_fn
    assert (edge_of(a).output_nr, edge_of(b).output_nr) == (0, 1)
    assert edge_of(x).node is a.grad_fn.next_functions[0][0]


def test_h85_edge_stands(lib, ones):
    x = ones()
    y = x * 2
    y.register_hook(lambda g: g * 10)
    edge = lib.autograd.graph.get_gradient_edge(y)
    assert lib.autograd.grad((y * 3).sum(), edge, retain_graph=True)[0].tolist() == [30.0, 30.0]
    lib.autograd.backward(edge, lib.ones(2))
    assert x.grad.tolist() == [20.0, 20.0]


def test_h86_edge_no_grad(lib, ones):
    x = ones()
    y = x * 2
    y.sum().backward(inputs=[lib.autograd.graph.get_gradient_edge(y)])
    assert not y.retains_grad
    assert x.grad is None


def test_h87_edge_errors(lib, ones):
    with pytest.raises(RuntimeError, match="not possible to get the gradient edge"):
        lib.autograd.graph.get_gradient_edge(lib.ones(1))
    with pytest.raises(RuntimeError, match="implicitly created only for scalar"):
        lib.autograd.backward(lib.autograd.graph.get_gradient_edge(ones() * 2))


def test_h88_edge_range():
    x = leaf()
    y = x * 2
    edge = fg.autograd.graph.GradientEdge(y.grad_fn, 1)
    with pytest.raises(IndexError, match="output_nr 1 is out of range"):
        fg.autograd.backward(edge, fg.ones(2))
    with pytest.raises(IndexError, match="output_nr 1 is out of range"):
        fg.autograd.grad(y.sum(), edge)
