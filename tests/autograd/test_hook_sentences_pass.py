"""The sentences of docs/hooks.md, one test for each number: nodes, captures, what changes in a pass, handles."""

from __future__ import annotations

import gc
import pickle
from typing import Any

import pytest

import fastgrad as fg


def raising(error: BaseException) -> Any:
    def hook(*a: Any) -> None:
        raise error

    return hook


# --- node hooks --------------------------------------------------------------------------------------------------


def test_h41_prehook(ones):
    seen: list[Any] = []
    a, b = ones().unbind()
    a.grad_fn.register_prehook(lambda go: seen.append([g if g is None else g.item() for g in go]))
    (b * 2).backward()
    assert seen == [[None, 2.0]]


def test_h42_posthook(lib, ones):
    seen: list[Any] = []
    y = ones() * lib.full((2,), 3.0)
    y.grad_fn.register_prehook(lambda go: (go[0] * 10,))
    y.grad_fn.register_hook(lambda gi, go: seen.append((gi[0].tolist(), gi[1], go[0].tolist())))
    y.sum().backward()
    assert len(y.grad_fn.next_functions) == 2
    assert seen == [([30.0, 30.0], None, [10.0, 10.0])]


def test_h43_posthook_flows(ones):
    x = ones()
    y = x * 3
    y.grad_fn.register_hook(lambda gi, go: (gi[0] * 2, None))
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_h44_posthook_failed(ones):
    log: list[Any] = []
    y = ones().exp()
    y.grad_fn.register_prehook(lambda go: log.append("pre"))
    y.grad_fn.register_hook(lambda gi, go: log.append("post"))
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    assert log == ["pre"]


def test_h45_node_identity(ones):
    log: list[Any] = []
    x = ones()
    y = x * 2
    assert y.grad_fn is y.grad_fn
    y.grad_fn.register_prehook(lambda go: log.append("pre"))
    z = y.sum()
    del y
    gc.collect()
    z.backward()
    assert log == ["pre"]


def test_h46_node_call(lib, ones):
    log: list[Any] = []
    y = ones() * lib.full((2,), 3.0)
    y.grad_fn.register_prehook(lambda go: log.append("pre"))
    result, nothing = y.grad_fn(lib.ones(2))
    assert result.tolist() == [3.0, 3.0]
    assert nothing is None
    assert log == []


# --- what is captured --------------------------------------------------------------------------------------------


def test_h47_capture_hooks(lib, ones):
    log: list[str] = []
    x = ones()
    y = x * 2
    z = y * 3
    for name, t in (("y", y), ("z", z)):
        t.register_hook(lambda g, name=name: log.append(name))
        t.grad_fn.register_prehook(lambda go, name=name: log.append(f"{name}.pre"))
        t.grad_fn.register_hook(lambda gi, go, name=name: log.append(f"{name}.post"))
    s = z.sum()
    lib.autograd.grad(s, y, retain_graph=True)
    assert log == ["z", "z.pre", "z.post", "y"]
    log.clear()
    lib.autograd.grad(s, [y, x])
    assert log == ["z", "z.pre", "z.post", "y", "y.pre", "y.post"]


def test_h48_capture_value():
    x = fg.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    z = y.sum()
    for wanted in ([y], [y, x], [x, y]):
        got = fg.autograd.grad(z, wanted, retain_graph=True)
        assert {id(w): g[0].item() for w, g in zip(wanted, got, strict=True)}[id(y)] == 10.0


def test_h49_capture_producers(lib, ones):
    y = ones() * 2
    z = y * 3
    z.grad_fn.register_hook(lambda gi, go: (gi[0] * 5, None))
    assert lib.autograd.grad(z.sum(), y)[0].tolist() == [15.0, 15.0]


def test_h50_capture_backward(ones):
    log: list[str] = []
    x = ones()
    y = x * 2
    y.register_hook(lambda g: log.append("tensor"))
    y.grad_fn.register_prehook(lambda go: log.append("pre"))
    y.grad_fn.register_hook(lambda gi, go: log.append("post"))
    y.sum().backward(inputs=[y])
    assert log == ["tensor", "pre", "post"]
    assert x.grad is None


def test_h51_capture_other(lib, ones):
    log: list[str] = []
    x, w = ones(), ones()
    a, b = x * 2, w * 2
    b.register_hook(lambda g: log.append("b"))
    b.grad_fn.register_prehook(lambda go: log.append("b.pre"))
    w.register_hook(lambda g: log.append("w"))
    lib.autograd.grad((a * b).sum(), x)
    assert log == []


def test_h52_capture_leaf(lib, ones):
    log: list[str] = []
    x = ones()
    y = x * 2
    node = y.grad_fn.next_functions[0][0]
    node.register_prehook(lambda go: log.append("pre"))
    node.register_hook(lambda gi, go: log.append("post"))
    x.register_hook(lambda g: g * 10)
    assert lib.autograd.grad(y.sum(), x)[0].tolist() == [20.0, 20.0]
    assert log == []
    assert x.grad is None


# --- adding, removing and raising in a pass ----------------------------------------------------------------------


def test_h53_change_snapshot(ones):
    log: list[str] = []
    x = ones()

    def first(g):
        log.append("first")
        second.remove()
        held[0].register_hook(lambda g: log.append("added"))

    held = [x]
    handle = x.register_hook(first)
    second = x.register_hook(lambda g: log.append("second"))
    x.sum().backward()
    assert log == ["first", "second"]
    handle.remove()
    x.sum().backward()
    assert log == ["first", "second", "added"]
    held.clear()


def test_h54_change_later_place(ones):
    log: list[str] = []
    x = ones()
    y = x * 1
    y.register_hook(lambda g: x.register_hook(lambda g: log.append("x")) and None)
    y.sum().backward()
    assert log == ["x"]


def test_h55_raise_unchanged(ones):
    log: list[Any] = []
    error = KeyError("mine")
    y = ones() * 2
    y.register_hook(raising(error))
    y.register_hook(log.append)
    y.grad_fn.register_prehook(log.append)
    with pytest.raises(KeyError) as caught:
        y.sum().backward()
    assert caught.value is error
    assert log == []
    error.__traceback__ = None


def test_h56_raise_again(ones):
    x = ones()
    z = (x * 2).exp().sum()
    handle = z.register_hook(raising(KeyError()))
    with pytest.raises(KeyError):
        z.backward()
    handle.remove()
    z.backward()
    assert x.grad is not None


def test_h57_raise_keeps(ones):
    x, w = ones(), ones()
    y = x * 1
    y.register_hook(raising(KeyError()))
    with pytest.raises(KeyError):
        (y * w).sum().backward()
    assert w.grad.tolist() == [1.0, 1.0]
    assert x.grad is None


# --- grad mode ---------------------------------------------------------------------------------------------------


def test_h58_mode(lib, ones):
    seen = []
    for outside in (False, True):
        for create in (False, True):
            x = ones()
            z = (x * x).sum()
            x.register_hook(lambda g: seen.append(lib.is_grad_enabled()))
            with lib.set_grad_enabled(outside):
                lib.autograd.grad(z, x, create_graph=create)
                assert lib.is_grad_enabled() is outside
    assert seen == [False, True, False, True]


def test_h59_mode_create(lib):
    x = lib.tensor([2.0], requires_grad=True)
    had = []
    handle = x.register_hook(lambda g: (had.append(g.requires_grad), g * x)[1])
    (g,) = lib.autograd.grad(x**3, x, create_graph=True)
    handle.remove()
    assert had == [True]
    assert g.item() == 24.0
    assert lib.autograd.grad(g, x)[0].item() == 36.0


def test_h60_mode_retain(ones):
    log: list[Any] = []
    x = ones()
    y = x * 1
    y.register_hook(lambda g: log.append("tensor"))
    y.grad_fn.register_prehook(lambda go: log.append("pre"))
    z = y.sum()
    z.backward(retain_graph=True)
    z.backward()
    assert log == ["tensor", "pre"] * 2


# --- handles -----------------------------------------------------------------------------------------------------


def test_h61_handle_id(ones):
    x = ones()
    y = x * 1
    handles = [
        x.register_hook(print),
        y.grad_fn.register_prehook(print),
        x.register_post_accumulate_grad_hook(print),
        y.grad_fn.register_hook(print),
        y.register_hook(print),
    ]
    ids = [h.id for h in handles]
    assert ids == sorted(set(ids))


def test_h62_handle_remove(ones):
    log: list[Any] = []
    x = ones()
    handle = x.register_hook(log.append)
    handle.remove()
    handle.remove()
    x.sum().backward()
    assert log == []
    other = x.register_hook(log.append)
    del x
    gc.collect()
    other.remove()


def test_h63_handle_context(ones):
    x = ones()
    with x.register_hook(lambda g: g * 5):
        x.sum().backward()
    x.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]
    with pytest.raises(KeyError), x.register_hook(lambda g: g * 5):
        raise KeyError
    assert not x._backward_hooks


def test_h64_handle_pickle(ones):
    x = ones()
    handle = x.register_hook(print)
    del x
    gc.collect()
    copy = pickle.loads(pickle.dumps(handle))
    assert copy.id == handle.id
    copy.remove()
