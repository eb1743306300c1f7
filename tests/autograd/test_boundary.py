"""Boundaries: gradients cross them unchanged, hooks of their node see just what crosses, changes in place are right."""

from __future__ import annotations

import gc

import pytest

import fastgrad as fg
from fastgrad.autograd.boundary import boundary


def ones(n: int = 2) -> fg.Tensor:
    return fg.ones(n, requires_grad=True)


def test_gradients_cross_and_hooks_see_only_what_crosses():
    x, y, seen = ones(), ones(), []
    node, (a, number, b, c) = boundary((x, "n", y, fg.ones(2)))
    node.register_prehook(lambda grads: seen.append(("in", [g if g is None else g.tolist() for g in grads])))
    node.register_hook(lambda ins, outs: seen.append(("out", [g if g is None else g.tolist() for g in ins])))
    (a * 2 + a * 3 + b * c + x * 10).sum().backward()
    assert seen == [
        ("in", [[5.0, 5.0], None, [1.0, 1.0], None]),
        ("out", [[5.0, 5.0], None, [1.0, 1.0], None]),
    ]
    assert number == "n"
    assert x.grad.tolist() == [15.0, 15.0]
    assert node.name() == "BackwardHookFunctionBackward"
    assert [f[0] is None for f in node.next_functions] == [False, True, False, True]


def test_nothing_crosses_where_nothing_requires_grad():
    values = (fg.ones(2), 3)
    assert boundary(values) == (None, values)
    assert boundary(values)[1] is values
    with fg.no_grad():
        x = ones()
        assert boundary((x,))[0] is None
    assert boundary(()) == (None, ())


def test_an_unused_output_leaves_its_gradient_undefined():
    x, y, seen = ones(), ones(), []
    node, (a, _) = boundary((x, y))
    node.register_hook(lambda ins, outs: seen.append(ins[1] is None and outs[1] is None))
    a.sum().backward()
    assert seen == [True]
    assert y.grad is None


def test_hooks_replace_gradients():
    x = ones()
    node, (a,) = boundary((x,))
    node.register_prehook(lambda grads: (grads[0] * 2,))
    node.register_hook(lambda ins, outs: (ins[0] + outs[0],))
    (a * 3).sum().backward()
    assert x.grad.tolist() == [12.0, 12.0]


def test_a_change_in_place_behind_the_boundary():
    x = ones() * 1
    seen = []
    node, (a,) = boundary((x,))
    node.register_hook(lambda ins, outs: seen.append(ins[0].tolist()))
    a.mul_(3)
    (a * 5 + x * 7).sum().backward()
    assert seen == [[36.0, 36.0]]  # x is what was changed, too
    assert x.tolist() == [3.0, 3.0]


def test_a_change_in_place_of_a_view_behind_the_boundary():
    leaf = ones(4)
    x = leaf * 1
    _, (a,) = boundary((x[:2],))
    a.mul_(3)
    (x * fg.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    assert leaf.grad.tolist() == [3.0, 6.0, 3.0, 4.0]


def test_a_leaf_behind_the_boundary_may_not_change():
    x = ones()
    _, (a,) = boundary((x,))
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        a.mul_(3)


def test_nested_boundaries():
    x, log = ones(), []
    outer, (a,) = boundary((x,))
    inner, (b,) = boundary((a,))
    for name, node in (("outer", outer), ("inner", inner)):
        node.register_hook(lambda ins, outs, name=name: log.append((name, ins[0].tolist())))
    (b * 2 + a * 3).sum().backward()
    assert log == [("inner", [2.0, 2.0]), ("outer", [5.0, 5.0])]


def test_higher_derivatives_cross():
    x = fg.tensor([2.0, 3.0], requires_grad=True)
    _, (a,) = boundary((x,))
    (g,) = fg.autograd.grad((a * a * a).sum(), x, create_graph=True)
    (h,) = fg.autograd.grad(g.sum(), x)
    assert h.tolist() == [12.0, 18.0]


def test_the_graph_may_be_used_twice():
    x = ones()
    _, (a,) = boundary((x,))
    y = a.sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_only_what_is_wanted_runs():
    x, w, seen = ones(), ones(), []
    node, (a,) = boundary((x,))
    node.register_hook(lambda ins, outs: seen.append(1))
    y = (a * w).sum()
    fg.autograd.grad(y, w, retain_graph=True)
    assert seen == []
    fg.autograd.grad(y, x)
    assert seen == [1]


def test_a_dropped_boundary_leaves_nothing():
    gc.collect()
    before = fg.debug.live()
    x = ones()
    node, (a, _) = boundary((x, x))
    node.register_hook(lambda ins, outs, keep=(node, a): None)
    del x, node, a, _
    gc.collect()
    assert fg.debug.live() == before


def test_somebody_who_wants_to_know_of_nodes_is_told():
    names = []
    with fg.autograd.graph.node_creation_hook(lambda node: names.append(node.name())):
        boundary((ones(),))
    assert names == ["BackwardHookFunctionBackward"]


def test_what_a_node_creation_hook_raises_comes_out():
    def fails(node: object) -> None:
        raise KeyError("mine")

    with fg.autograd.graph.node_creation_hook(fails), pytest.raises(KeyError, match="mine"):
        boundary((ones(),))
