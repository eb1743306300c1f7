"""The sentences of docs/hooks.md, one test for each number: tensors and what hooks return."""

from __future__ import annotations

from typing import Any

import pytest

import fastgrad as fg

# --- the order at one node ---------------------------------------------------------------------------------------


def test_h1_order(ones):
    log: list[str] = []
    y = ones() * 3
    node = y.grad_fn
    node.register_hook(lambda gi, go: log.append("post"))
    node.register_prehook(lambda go: log.append(f"pre {held[0].grad is not None}"))
    y.retain_grad()
    held = [y]
    y.register_hook(lambda g: log.append(f"tensor {held[0].grad is not None}"))
    y.sum().backward()
    held.clear()
    assert log == ["tensor False", "pre True", "post"]


def test_h2_order_leaf(ones):
    log: list[Any] = []
    x = ones()
    y = x * 3
    node = y.grad_fn.next_functions[0][0]
    has = lambda: node.variable.grad is not None  # noqa: E731
    node.register_hook(lambda gi, go: log.append(("post", has())))
    x.register_post_accumulate_grad_hook(lambda t: log.append(("post-accumulate", has())))
    node.register_prehook(lambda go: log.append(("pre", has())))
    x.register_hook(lambda g: log.append(("tensor", has())))
    y.sum().backward()
    node = None
    assert log == [("tensor", False), ("pre", False), ("post-accumulate", True), ("post", True)]


def test_h3_order_of_registration(ones):
    x = ones()
    x.register_hook(lambda g: g + 1)
    x.register_hook(lambda g: g * 10)
    x.sum().backward()
    assert x.grad.tolist() == [20.0, 20.0]


def test_h4_order_of_outputs(ones):
    log: list[str] = []
    a, b, c = ones(3).unbind()
    for name, t in (("c1", c), ("a1", a), ("c2", c)):
        t.register_hook(lambda g, name=name: log.append(name))
    (a + b + c).backward()
    assert log == ["c1", "c2", "a1"]


def test_h5_order_of_nodes(ones):
    log: list[str] = []
    x, w = ones(), ones()
    a, b, d = x * 1, x * 2, w * 1
    for name, t in {"a": a, "b": b, "d": d, "x": x, "w": w}.items():
        t.register_hook(lambda g, name=name: log.append(name))
    (b + a + d).sum().backward()
    assert log == ["d", "w", "b", "a", "x"]


def test_h6_saved_in_post_hooks(ones):
    seen = []
    y = ones().exp()
    node = [y.grad_fn]
    y.grad_fn.register_hook(lambda gi, go: seen.append(node[0]._saved_result.tolist()))
    y.sum().backward()
    node.clear()
    assert seen == [y.tolist()]
    with pytest.raises(RuntimeError, match="second time"):
        y.grad_fn._saved_result


# --- what hooks may return ---------------------------------------------------------------------------------------


def test_h7_return_none(ones):
    x = ones()
    y = x * 3
    y.register_hook(lambda g: None)
    y.register_hook(lambda g: g)
    y.grad_fn.register_prehook(lambda go: go)
    y.grad_fn.register_hook(lambda gi, go: gi)
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_h8_return_tensor(lib, ones):
    x = ones()
    x.register_hook(lambda g: lib.ones(2) * 5)
    x.sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]
    for wrong, match in ((lib.ones(3), "size of value"), (lib.ones(2).double(), "type of value")):
        z = ones()
        z.register_hook(lambda g, wrong=wrong: wrong)
        with pytest.raises(RuntimeError, match=f"hook '<lambda>' has changed the {match}"):
            z.sum().backward()


@pytest.mark.parametrize("wrong", [3, "g", [1.0, 1.0], ()])
def test_h9_return_other(ones, wrong):
    x = ones()
    x.register_hook(lambda g: wrong)
    with pytest.raises(TypeError, match=f"hook returned '{type(wrong).__name__}'"):
        x.sum().backward()


def test_h10_return_tuple(ones):
    for pre, hook, error in (
        (True, lambda go: go[0], TypeError),
        (True, lambda go: (go[0], go[0]), RuntimeError),
        (False, lambda gi, go: [gi[0], None], TypeError),
        (False, lambda gi, go: (gi[0],), RuntimeError),
    ):
        y = ones() * 3
        (y.grad_fn.register_prehook if pre else y.grad_fn.register_hook)(hook)
        with pytest.raises(error, match=r"tuple|incorrect number of values"):
            y.sum().backward()


def test_h11_return_undefined(ones):
    x = ones()
    y = x * 3
    y.grad_fn.register_hook(lambda gi, go: (None, None))
    seen: list[Any] = []
    x.register_hook(seen.append)
    y.sum().backward()
    assert seen == [None]
    assert x.grad is None


def test_h12_return_for_undefined(lib, ones):
    y = ones() * 3
    y.grad_fn.register_hook(lambda gi, go: (gi[0], lib.ones(2)))
    with pytest.raises(RuntimeError, match="can't replace a None gradient"):
        y.sum().backward()


def test_h13_return_unchecked(lib, ones):
    x = ones(2, 3)
    x.register_hook(lambda g: lib.ones(3, 2).t())
    (x * 2).sum().backward()
    assert x.grad.tolist() == [[1.0] * 3] * 2
    y = ones()
    y.register_hook(lambda g: lib.ones(2, requires_grad=True))
    (y * 2).sum().backward()
    assert y.grad.tolist() == [1.0, 1.0]


def test_h14_return_names(lib, ones):
    class Callable:
        def __call__(self, g):
            return lib.ones(3)

    def with_name(g):
        return lib.ones(3)

    for hook, name in ((with_name, "with_name"), (Callable(), "<unknown>")):
        x = ones()
        x.register_hook(hook)
        with pytest.raises(RuntimeError, match=f"hook '{name}'"):
            x.sum().backward()


def test_h15_return_checked_at_once(ones):
    seen: list[Any] = []
    x = ones()
    x.register_hook(lambda g: 5)
    x.register_hook(seen.append)
    with pytest.raises(TypeError):
        x.sum().backward()
    assert seen == []


# --- tensor hooks ------------------------------------------------------------------------------------------------


def test_h16_tensor_hook(ones):
    seen = []
    x = ones()
    x.register_hook(lambda g: seen.append(g.tolist()))
    (x * 1 + x * 2).sum().backward()
    assert seen == [[3.0, 3.0]]


def test_h17_tensor_hook_of_pass(ones):
    seen = []
    x = ones()
    x.register_hook(lambda g: seen.append(g.tolist()))
    for factor in (2, 3):
        (x * factor).sum().backward()
    assert seen == [[2.0, 2.0], [3.0, 3.0]]
    assert x.grad.tolist() == [5.0, 5.0]


def test_h18_tensor_hook_needs_grad(lib, ones):
    for t in (lib.ones(2), ones().detach()):
        with pytest.raises(RuntimeError, match="doesn't require gradient"):
            t.register_hook(print)


def test_h19_tensor_hook_callable(ones):
    x = ones()
    x.register_hook("no function")
    with pytest.raises(TypeError, match="not callable"):
        x.sum().backward()


def test_h20_tensor_hook_none(ones):
    seen: list[Any] = []
    a, b = ones().unbind()
    a.register_hook(seen.append)
    (b * 2).backward()
    assert seen == [None]


def test_h21_tensor_hook_repeated(ones):
    def double(g):
        return g * 2

    x = ones()
    for _ in range(3):
        x.register_hook(double)
    x.sum().backward()
    assert x.grad.tolist() == [8.0, 8.0]


def test_h22_tensor_hook_in_place():
    a, b = (fg.ones(2, requires_grad=True) for _ in range(2))
    a.register_hook(lambda g: (g.mul_(7), None)[1])
    seed = fg.ones(2)
    (a + b).backward(seed)
    assert b.grad.tolist() == seed.tolist() == [1.0, 1.0]


# --- leaves ------------------------------------------------------------------------------------------------------


def test_h23_post_accumulate(ones):
    seen = []
    x = ones()
    held = [x]
    x.register_post_accumulate_grad_hook(lambda t: seen.append((t is held[0], t.grad.tolist())))
    for _ in range(2):
        (x * 2).sum().backward()
    held.clear()
    assert seen == [(True, [2.0, 2.0]), (True, [4.0, 4.0])]


def test_h24_post_accumulate_when(lib, ones):
    log: list[str] = []
    x, w = ones(), ones()
    x.register_post_accumulate_grad_hook(lambda t: log.append("x"))
    w.register_post_accumulate_grad_hook(lambda t: log.append("w"))
    z = (x * w).sum()
    z.backward(inputs=[x], retain_graph=True)
    assert log == ["x"]
    lib.autograd.grad(z, [x, w], retain_graph=True)
    assert log == ["x"]
    z.backward()
    assert sorted(log) == ["w", "x", "x"]


def test_h25_post_accumulate_leaves(lib, ones):
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        lib.ones(2).register_post_accumulate_grad_hook(print)
    with pytest.raises(RuntimeError, match="cannot be registered on non-leaf tensors"):
        (ones() * 2).register_post_accumulate_grad_hook(print)


def test_h26_post_accumulate_return(lib, ones):
    x = ones()
    x.register_post_accumulate_grad_hook(lambda t: t)
    x.sum().backward()
    for wrong, error in ((lib.ones(2), RuntimeError), (5, TypeError)):
        y = ones()
        y.register_post_accumulate_grad_hook(lambda t, wrong=wrong: wrong)
        with pytest.raises(error):
            y.sum().backward()


def test_h27_post_accumulate_step(lib, ones):
    def step(leaf):
        with lib.no_grad():
            leaf.sub_(leaf.grad)
        leaf.grad = None

    x = ones()
    x.register_post_accumulate_grad_hook(step)
    (x * 3).sum().backward()
    assert x.tolist() == [-2.0, -2.0]
    assert x.grad is None


def test_h28_leaf_undefined(ones):
    log: list[Any] = []
    x = ones()
    y = x * 1
    y.grad_fn.register_hook(lambda gi, go: (None, None))
    x.register_hook(lambda g: log.append(g))
    x.register_post_accumulate_grad_hook(lambda t: log.append(("post", t.grad)))
    y.sum().backward()
    assert log == [None, ("post", None)]


def test_h29_leaf_node(ones):
    seen = []
    x = ones()
    node = x.expand_as(x).grad_fn.next_functions[0][0]
    node.register_hook(lambda gi, go: (seen.append((gi, go[0].tolist(), x.grad.tolist())), ())[1])
    for _ in range(2):
        (x * 2).sum().backward()
    del node
    assert seen == [((), [2.0, 2.0], [2.0, 2.0]), ((), [2.0, 2.0], [4.0, 4.0])]


def test_h30_leaf_node_held(ones):
    log: list[str] = []
    x = ones()
    x.expand_as(x).grad_fn.next_functions[0][0].register_hook(lambda gi, go: log.append("lost"))
    x.sum().backward()
    y = x * 2
    y.grad_fn.next_functions[0][0].register_hook(lambda gi, go: log.append("held by the graph"))
    y.sum().backward()
    assert log == ["held by the graph"]


# --- retain_grad -------------------------------------------------------------------------------------------------


def test_h31_retain_grad(ones):
    y = ones() * 3
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.grad_fn.register_prehook(lambda go: (go[0] * 100,))
    y.sum().backward()
    assert y.grad.tolist() == [10.0, 10.0]


def test_h32_retain_grad_leaf(lib, ones):
    x = ones()
    assert x.retain_grad() is None
    assert not x.retains_grad
    with pytest.raises(RuntimeError, match="can't retain_grad"):
        lib.ones(2).retain_grad()
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    y.sum().backward()
    assert y.grad.tolist() == [1.0, 1.0]


def test_h33_retain_grad_sum(ones):
    y = ones() * 3
    y.retain_grad()
    z = y.sum()
    z.backward(retain_graph=True)
    first = y.grad
    z.backward()
    assert first.tolist() == [1.0, 1.0]
    assert y.grad.tolist() == [2.0, 2.0]


def test_h34_retain_grad_in_place(ones):
    seen = []
    y = ones() * 2
    y.retain_grad()
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.mul_(5)
    (y * 3).sum().backward()
    assert y.retains_grad
    assert y.grad.tolist() == [3.0, 3.0]
    assert seen == [[15.0, 15.0]]


def test_h35_retain_grad_inputs(ones):
    x = ones()
    y = x * 2
    (y * 3).sum().backward(inputs=[y])
    assert y.retains_grad
    assert y.grad.tolist() == [3.0, 3.0]
    assert x.grad is None


# --- changes in place and views ----------------------------------------------------------------------------------


def test_h36_in_place(ones):
    log: list[Any] = []
    y = ones() * 2
    y.register_hook(lambda g: log.append(("old", g.tolist())))
    y.mul_(5)
    y.register_hook(lambda g: log.append(("new", g.tolist())))
    (y * 1).sum().backward()
    assert log == [("new", [1.0, 1.0]), ("old", [5.0, 5.0])]


def test_h37_in_place_handle(ones):
    log: list[Any] = []
    y = ones() * 2
    handle = y.register_hook(log.append)
    y.mul_(5)
    handle.remove()
    y.sum().backward()
    assert log == []


def test_h38_in_place_leaf(lib, ones):
    log: list[Any] = []
    x = ones()
    x.register_hook(lambda g: log.append("tensor"))
    x.register_post_accumulate_grad_hook(lambda t: log.append("post"))
    with lib.no_grad():
        x.mul_(2)
    x.data = lib.zeros(3)
    x.sum().backward()
    assert log == ["tensor", "post"]
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


def test_h39_in_place_base():
    seen = []
    y = fg.ones(2, requires_grad=True) * 1
    v = y[0]
    y.mul_(2)
    v.register_hook(lambda g: seen.append(g.item()))
    (v * 3 + y.sum()).backward()
    assert seen == [3.0]


def test_h40_in_place_view(ones):
    seen = []
    x = ones()
    y = x * 1
    y.register_hook(lambda g: seen.append(g.tolist()))
    y[0].mul_(5)
    y.sum().backward()
    assert seen == [[5.0, 1.0]]
    assert x.grad.tolist() == [5.0, 1.0]
