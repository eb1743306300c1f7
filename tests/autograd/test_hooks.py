"""Hooks of tensors and nodes: when they fire, in which order, what they may return, how long they live."""

from __future__ import annotations

import copy
import functools
import gc
import pickle
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest

import fastgrad as fg


def ones(n: int = 2) -> Any:
    return fg.ones(n, requires_grad=True)


class Box:
    """Something that can be weakly referred to."""


# --- the order of everything at one node -------------------------------------------------------------------


def test_order_of_all_kinds_of_hooks():
    log: list[str] = []

    def note(name: str) -> Callable[..., None]:
        return lambda *a: log.append(name)

    x = ones()
    y = x * 3
    z = y.sum()
    y.register_hook(note("y.hook"))
    y.retain_grad()
    y.grad_fn.register_hook(note("Mul.post"))
    look = weakref.ref(y)  # a node's hook that holds the node's own tensor is another test's subject
    y.grad_fn.register_prehook(lambda g: log.append(f"Mul.pre y.grad set={look().grad is not None}"))
    y.register_hook(lambda g: log.append(f"y.hook2 y.grad set={y.grad is not None}"))
    acc = y.grad_fn.next_functions[0][0]
    acc.register_hook(note("Acc.post"))
    acc.register_prehook(note("Acc.pre"))
    x.register_post_accumulate_grad_hook(note("x.postacc"))
    x.register_hook(note("x.hook"))
    z.backward()
    assert log == [
        "y.hook", "y.hook2 y.grad set=False", "Mul.pre y.grad set=True", "Mul.post",
        "x.hook", "Acc.pre", "x.postacc", "Acc.post",
    ]  # fmt: skip


def test_values_along_the_chain_of_hooks():
    x = ones()
    y = x * 3
    seen: dict[str, Any] = {}

    def scale(name: str, factor: float) -> Callable[[Any], Any]:
        def hook(g: Any) -> Any:
            seen[name] = g.tolist()
            return g * factor

        return hook

    y.register_hook(scale("tensor", 2))
    y.retain_grad()
    node = y.grad_fn
    node.register_prehook(lambda go: (seen.setdefault("pre", go[0].tolist()), (go[0] * 5,))[1])
    node.register_hook(
        lambda gi, go: (seen.setdefault("post", (gi[0].tolist(), gi[1], go[0].tolist())), (gi[0] * 7, None))[
            1
        ]
    )
    x.register_hook(scale("leaf", 11))
    acc = node.next_functions[0][0]
    acc.register_prehook(lambda go: (seen.setdefault("acc pre", go[0].tolist()), (go[0] * 13,))[1])
    acc.register_hook(lambda gi, go: seen.setdefault("acc post", (gi, go[0].tolist())) and None)
    y.sum().backward()
    assert seen == {
        "tensor": [1.0, 1.0],
        "pre": [2.0, 2.0],
        "post": ([30.0, 30.0], None, [10.0, 10.0]),
        "leaf": [210.0, 210.0],
        "acc pre": [2310.0, 2310.0],
        "acc post": ((), [30030.0, 30030.0]),
    }
    assert y.grad.tolist() == [2.0, 2.0]
    assert x.grad.tolist() == [30030.0, 30030.0]


# --- tensor hooks ------------------------------------------------------------------------------------------


def test_tensor_hook_sees_the_sum_over_all_uses():
    v = fg.zeros(3, requires_grad=True)
    seen = []
    first = v.register_hook(lambda g: g * 2)
    v.register_hook(lambda g: seen.append(g.tolist()))
    v.register_hook(lambda g: g + 1)
    (v * 1 + v * 2).sum().backward()
    assert v.grad.tolist() == [7.0, 7.0, 7.0]
    assert seen == [[6.0, 6.0, 6.0]]
    first.remove()
    v.grad = None
    (v * 1).sum().backward()
    assert v.grad.tolist() == [2.0, 2.0, 2.0]


def test_tensor_hook_sees_this_pass_and_not_the_running_grad():
    x = ones()
    seen = []
    x.register_hook(lambda g: seen.append(g.tolist()))
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    assert seen == [[2.0, 2.0], [3.0, 3.0]]
    assert x.grad.tolist() == [5.0, 5.0]


def test_same_function_may_be_registered_many_times():
    x = ones()

    def double(g: Any) -> Any:
        return g * 2

    handles = [x.register_hook(double) for _ in range(3)]
    handles[1].remove()
    x.sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]


def test_hook_may_be_passed_by_keyword():
    x = ones()
    x.register_hook(hook=lambda g: g * 2)
    x.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    "make", [lambda: fg.ones(2), lambda: ones().detach(), lambda: fg.no_grad()(lambda: ones() * 2)()]
)
def test_tensor_hook_needs_requires_grad(make: Callable[[], Any]):
    with pytest.raises(
        RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"
    ):
        make().register_hook(print)
    with pytest.raises(
        RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"
    ):
        make().register_post_accumulate_grad_hook(print)
    with pytest.raises(RuntimeError, match="can't retain_grad on Tensor that has requires_grad=False"):
        make().retain_grad()


class Shorten:
    def __call__(self, g: Any) -> Any:
        return g[:1]


WRONG_TENSOR_RETURNS: list[tuple[Any, type[Exception], str]] = [
    (lambda g: 5, TypeError, "expected Variable, but hook returned 'int'"),
    (lambda g: (g,), TypeError, "expected Variable, but hook returned 'tuple'"),
    (lambda g: g[:1], RuntimeError, "hook '<lambda>' has changed the size of value"),
    (lambda g: g.sum(), RuntimeError, "hook '<lambda>' has changed the size of value"),
    (lambda g: g.double(), RuntimeError, "hook '<lambda>' has changed the type of value"),
    (Shorten(), RuntimeError, "hook '<unknown>' has changed the size of value"),
    (
        functools.partial(lambda k, g: g[:k], 1),
        RuntimeError,
        "hook '<unknown>' has changed the size of value",
    ),
    (lambda: None, TypeError, "takes 0 positional arguments but 1 was given"),
    ("str", TypeError, "'str' object is not callable"),
]


@pytest.mark.parametrize("is_leaf", [True, False])
@pytest.mark.parametrize(("hook", "error", "match"), WRONG_TENSOR_RETURNS)
def test_wrong_returns_of_tensor_hooks(hook: Any, error: type[Exception], match: str, is_leaf: bool):
    x = ones()
    y = x if is_leaf else x * 1
    handle = y.register_hook(hook)
    z = (y * 2).sum()
    with pytest.raises(error) as info:
        z.backward(retain_graph=True)
    assert match in str(info.value)
    assert x.grad is None
    handle.remove()
    z.backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_returned_tensor_may_have_other_strides_or_require_grad():
    x = fg.ones(2, 3, requires_grad=True)
    w = fg.full((3, 2), 5.0, requires_grad=True)
    x.register_hook(lambda g: w.t())
    (x * 1).sum().backward()
    assert x.grad.tolist() == [[5.0] * 3] * 2
    assert not x.grad.requires_grad


def test_undefined_gradients_reach_hooks_as_none():
    log: list[Any] = []
    x = ones()
    u, v = x.unbind()
    u.retain_grad()
    u.register_hook(lambda g: log.append(("u", g)))
    v.register_hook(lambda g: log.append(("v", g.item())))
    u.grad_fn.register_prehook(lambda go: log.append((go[0], go[1].item())))
    (v * 2).backward()
    assert log == [("u", None), ("v", 2.0), (None, 2.0)]
    assert u.grad is None
    assert x.grad.tolist() == [0.0, 2.0]


def test_undefined_gradient_of_a_leaf():
    log: list[Any] = []
    x = ones()
    y = x * 1
    y.grad_fn.register_prehook(lambda go: (None,))
    x.register_hook(lambda g: log.append(("hook", g)))
    x.register_post_accumulate_grad_hook(lambda t: log.append(("post", t.grad)))
    y.sum().backward()
    assert log == [("hook", None), ("post", None)]
    assert x.grad is None


def test_undefined_gradient_cannot_be_replaced():
    x = ones()
    u, v = x.unbind()
    u.register_hook(lambda g: fg.ones(()))
    with pytest.raises(RuntimeError, match="can't replace a None gradient with a non-None value"):
        v.backward()


def test_undefined_terms_are_skipped_in_sums():
    x = ones()
    y = x * 1
    y.grad_fn.register_prehook(lambda go: (None,))
    seen = []
    x.register_hook(lambda g: seen.append(g.tolist()))
    (y + x * 4).sum().backward()
    assert seen == [[4.0, 4.0]]
    assert x.grad.tolist() == [4.0, 4.0]


def test_tensors_of_one_node_fire_in_the_order_of_their_first_hooks():
    log: list[str] = []
    a, b, c = ones(3).unbind()
    c.register_hook(lambda g: log.append("c1"))
    a.register_hook(lambda g: log.append("a1"))
    c.register_hook(lambda g: log.append("c2"))
    (a + b + c).backward()
    assert log == ["c1", "c2", "a1"]


# --- post-accumulate hooks ---------------------------------------------------------------------------------


def test_post_accumulate_hook_gets_the_leaf_itself():
    p = ones()
    log = []
    handle = p.register_post_accumulate_grad_hook(
        lambda t: log.append((t is p, t.grad.tolist(), fg.is_grad_enabled()))
    )
    (p * 2).sum().backward()
    (p * 2).sum().backward()
    fg.autograd.grad((p * 2).sum(), p)
    assert log == [(True, [2.0, 2.0], False), (True, [4.0, 4.0], False)]
    (p * 2).sum().backward(inputs=[p])
    assert len(log) == 3
    handle.remove()
    (p * 2).sum().backward()
    assert len(log) == 3


def test_post_accumulate_hooks_are_for_leaves():
    with pytest.raises(
        RuntimeError, match="post accumulate grad hooks cannot be registered on non-leaf tensors"
    ):
        (ones() * 1).register_post_accumulate_grad_hook(print)


@pytest.mark.parametrize(
    ("hook", "error", "match"),
    [
        (lambda t: t.grad.zero_(), RuntimeError, "Tensor post accumulate grad hooks should return None."),
        (lambda t: fg.ones(2), RuntimeError, "Tensor post accumulate grad hooks should return None."),
        (lambda t: 5, TypeError, "expected Variable, but hook returned 'int'"),
    ],
)
def test_wrong_returns_of_post_accumulate_hooks(hook: Any, error: type[Exception], match: str):
    p = ones()
    p.register_post_accumulate_grad_hook(hook)
    with pytest.raises(error, match=match):
        (p * 2).sum().backward()


def test_post_accumulate_hook_may_return_the_leaf():
    p = ones()
    p.register_post_accumulate_grad_hook(lambda t: t)
    p.sum().backward()
    assert p.grad.tolist() == [1.0, 1.0]


def test_post_accumulate_hook_may_drop_grad_and_change_the_leaf():
    p = ones()

    def step(t: Any) -> None:
        t.sub_(t.grad * 0.5)
        t.grad = None

    p.register_post_accumulate_grad_hook(step)
    version = p._version
    for _ in range(2):
        (p * 1).sum().backward()
        assert p.grad is None
    assert p.tolist() == [0.0, 0.0]
    assert p._version == version + 2


def test_an_exception_keeps_what_was_accumulated_before():
    a, b = ones(), ones()

    def stop(t: Any) -> None:
        raise KeyError("stop")

    y = a * 2
    z = y * b
    b.register_post_accumulate_grad_hook(stop)
    with pytest.raises(KeyError, match="stop"):
        z.sum().backward()
    assert b.grad.tolist() == [2.0, 2.0]
    assert a.grad is None


# --- retain_grad -------------------------------------------------------------------------------------------


def test_retain_grad_comes_after_tensor_hooks_and_before_node_hooks():
    x = ones()
    y = x * 3
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.grad_fn.register_prehook(lambda gs: (gs[0] * 100,))
    s = (y * 1).sum()
    s.backward(retain_graph=True)
    first = y.grad
    s.backward()
    assert first.tolist() == [10.0, 10.0]
    assert y.grad.tolist() == [20.0, 20.0]
    assert first is not y.grad
    assert x.grad.tolist() == [6000.0, 6000.0]


def test_retain_grad_on_a_leaf_does_nothing():
    x = ones()
    assert x.retain_grad() is None
    assert not x.retains_grad


def test_retain_grad_twice_writes_once():
    y = ones() * 2
    y.retain_grad()
    y.retain_grad()
    assert y.retains_grad
    (y * 3).sum().backward()
    assert y.grad.tolist() == [3.0, 3.0]


def test_retains_grad_is_read_only():
    y = ones() * 2
    with pytest.raises(AttributeError):
        y.retains_grad = True


def test_retained_gradient_is_a_contiguous_copy():
    x = fg.ones(2, 3, requires_grad=True)
    y = x * 1
    y.retain_grad()
    y.sum().backward()
    assert y.grad.is_contiguous()
    y.grad[0, 0] = 100.0
    assert x.grad.tolist() == [[1.0] * 3] * 2
    assert y.grad.tolist()[1] == [1.0] * 3


def test_retain_grad_follows_the_tensor_over_an_in_place_op():
    x = ones()
    y = x * 2
    y.retain_grad()
    y.mul_(5)
    (y * 1).sum().backward()
    assert y.retains_grad
    assert y.grad.tolist() == [1.0, 1.0]
    assert x.grad.tolist() == [10.0, 10.0]


def test_retain_grad_of_several_outputs_of_one_node():
    x = ones(3)
    parts = x.unbind()
    for p in parts:
        p.retain_grad()
    (parts[0] * 2 + parts[2] * 3).backward()
    assert [None if p.grad is None else p.grad.item() for p in parts] == [2.0, None, 3.0]


def test_tensor_with_retain_grad_may_die_before_the_graph():
    x = ones()
    y = x * 2
    z = (y * 3).sum()
    y.retain_grad()
    del y
    z.backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_grad_of_a_plain_non_leaf_is_none():
    y = ones() * 2
    y.sum().backward()
    with pytest.warns(UserWarning, match="not a leaf"):
        assert y.grad is None


# --- node hooks --------------------------------------------------------------------------------------------


def node_hook_outcome(hook: Callable[..., Any], pre: bool) -> Any:
    x = ones()
    y = x * fg.ones(2)
    node = y.grad_fn
    (node.register_prehook if pre else node.register_hook)(hook)
    y.sum().backward()
    return None if x.grad is None else x.grad.tolist()


@pytest.mark.parametrize(
    ("hook", "pre", "expected"),
    [
        (lambda gi, go: None, False, [1.0, 1.0]),
        (lambda gi, go: gi, False, [1.0, 1.0]),
        (lambda gi, go: (gi[0] * 2, None), False, [2.0, 2.0]),
        (lambda gi, go: (None, None), False, None),
        (lambda go: None, True, [1.0, 1.0]),
        (lambda go: (go[0] * 3,), True, [3.0, 3.0]),
        (lambda go: (None,), True, None),
    ],
)
def test_returns_of_node_hooks(hook: Callable[..., Any], pre: bool, expected: Any):
    assert node_hook_outcome(hook, pre) == expected


@pytest.mark.parametrize(
    ("hook", "pre", "error", "match"),
    [
        (lambda gi, go: gi[0], False, TypeError, "expected tuple, but hook returned 'Tensor'"),
        (lambda gi, go: (gi[0],), False, RuntimeError,
         "hook '<lambda>' has returned an incorrect number of values (got 1, but expected 2)"),
        (lambda gi, go: [gi[0], None], False, TypeError, "expected tuple, but hook returned 'list'"),
        (lambda gi, go: (gi[0], fg.ones(2)), False, RuntimeError, "can't replace a None gradient"),
        (lambda gi, go: (3, None), False, TypeError, "expected Variable, but hook returned 'int'"),
        (lambda gi: None, False, TypeError, "takes 1 positional argument but 2 were given"),
        (lambda go: go[0], True, TypeError, "expected tuple, but hook returned 'Tensor'"),
        (lambda go: (go[0], None), True, RuntimeError,
         "hook '<lambda>' has returned an incorrect number of values (got 2, but expected 1)"),
        (lambda go: (go[0].double(),), True, RuntimeError, "hook '<lambda>' has changed the type of value"),
        (lambda go: (go[0].expand(2, 2),), True, RuntimeError, "'<lambda>' has changed the size of value"),
        (None, True, TypeError, "'NoneType' object is not callable"),
    ],
)  # fmt: skip
def test_wrong_returns_of_node_hooks(hook: Any, pre: bool, error: type[Exception], match: str):
    with pytest.raises(error) as info:
        node_hook_outcome(hook, pre)
    assert match in str(info.value)


def test_node_hooks_of_a_leaf_node_may_return_an_empty_tuple():
    x = ones()
    y = x * 2
    y.grad_fn.next_functions[0][0].register_hook(lambda gi, go: ())
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_hooks_of_one_kind_see_what_the_one_before_returned():
    x = ones()
    y = x * 1
    seen = []
    for factor in (2, 3):
        y.grad_fn.register_prehook(
            lambda go, f=factor: (seen.append(("pre", go[0].tolist())), (go[0] * f,))[1]
        )
        y.grad_fn.register_hook(
            lambda gi, go, f=factor: (seen.append(("post", gi[0].tolist())), (gi[0] * f, None))[1]
        )
    y.sum().backward()
    assert seen == [("pre", [1.0, 1.0]), ("pre", [2.0, 2.0]), ("post", [6.0, 6.0]), ("post", [12.0, 12.0])]
    assert x.grad.tolist() == [36.0, 36.0]


def test_nodes_of_a_chain():
    log: list[str] = []
    x = ones()
    y = x * 2
    z = y * 3
    for t, name in ((y, "y"), (z, "z")):
        t.grad_fn.register_hook(lambda a, b, n=name: log.append(n + ".post"))
        t.grad_fn.register_prehook(lambda a, n=name: log.append(n + ".pre"))
        t.register_hook(lambda g, n=name: log.append(n + ".tensor"))
    fg.autograd.grad(z.sum(), y, retain_graph=True)
    assert log == ["z.tensor", "z.pre", "z.post", "y.tensor"]


def test_prehook_of_a_node_with_several_outputs():
    x = fg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    a, b, c = x.unbind()
    a.grad_fn.register_prehook(lambda go: (go[0] * 10, None, go[2]))
    (a + b + c).backward()
    assert x.grad.tolist() == [10.0, 0.0, 1.0]


def test_post_hooks_do_not_fire_if_the_formula_failed():
    x = ones()
    y = x.exp()
    z = y.sum()
    log = []
    node = y.grad_fn
    node.register_hook(lambda gi, go: log.append("post"))
    node.register_prehook(lambda go: log.append("pre"))
    z.backward()
    with pytest.raises(RuntimeError, match="second time"):
        z.backward()
    assert log == ["pre", "post", "pre"]


def test_hooks_fire_in_every_pass_over_a_kept_graph():
    n = []
    w = ones()
    e = w.exp()
    e.register_hook(lambda g: n.append(1))
    s = e.sum()
    s.backward(retain_graph=True)
    s.backward()
    with pytest.raises(RuntimeError, match="second time"):
        s.backward()
    assert len(n) == 3


# --- nodes -------------------------------------------------------------------------------------------------


def test_grad_fn_is_one_object_while_it_is_held():
    x = ones()
    y = x * 2
    assert y.grad_fn is y.grad_fn
    node = y.grad_fn
    z = y.sum()
    assert z.grad_fn.next_functions[0][0] is node
    assert isinstance(node, fg.autograd.graph.Node)
    leaf_node = node.next_functions[0][0]
    assert leaf_node.variable is x
    assert (x * 5).grad_fn.next_functions[0][0] is leaf_node


def test_names_and_next_functions():
    x = ones()
    y = x * fg.full((2,), 3.0)
    z = y.exp().sum()
    assert z.grad_fn.name() == "SumBackward0"
    ((exp, nr),) = z.grad_fn.next_functions
    assert (exp.name(), nr) == ("ExpBackward0", 0)
    assert exp.next_functions[0][0].name() == "MulBackward0"
    (acc, nr), other = y.grad_fn.next_functions
    assert acc.name().endswith("AccumulateGrad")
    assert nr == 0
    assert other == (None, 0)
    assert acc.next_functions == ()
    assert acc._sequence_nr() == 2**64 - 1
    assert x.grad_fn is None


def test_next_functions_know_the_number_of_the_output():
    a, b, c = ones(3).unbind()
    y = c * b
    assert [nr for _, nr in y.grad_fn.next_functions] == [2, 1]
    assert y.grad_fn.next_functions[0][0] is y.grad_fn.next_functions[1][0] is a.grad_fn
    assert [t.output_nr for t in (a, b, c)] == [0, 1, 2]


def test_metadata_lives_with_the_node():
    y = ones() * 2
    y.grad_fn.metadata["k"] = 1
    gc.collect()
    assert y.grad_fn.metadata == {"k": 1}


def test_variable_exists_on_leaf_nodes_only():
    y = ones() * 2
    assert y.grad_fn.next_functions[0][0].variable.tolist() == [1.0, 1.0]
    with pytest.raises(AttributeError, match="variable"):
        y.grad_fn.variable


def test_node_objects_are_not_made_by_users():
    with pytest.raises(TypeError):
        fg.autograd.graph.Node()


def test_a_held_node_keeps_the_graph_behind_it():
    x = ones()
    node = (x * 2).exp().grad_fn
    gc.collect()
    names = []
    while node is not None:
        names.append(node.name())
        node = node.next_functions[0][0] if node.next_functions else None
    assert [n.rpartition("::")[2] for n in names] == ["ExpBackward0", "MulBackward0", "AccumulateGrad"]


# --- handles -----------------------------------------------------------------------------------------------


def test_handle_ids_and_removal():
    x = ones()
    h, h2 = x.register_hook(lambda g: g), x.register_hook(lambda g: g)
    assert h2.id == h.id + 1
    assert list(x._backward_hooks) == [h.id, h2.id]
    h.remove()
    h.remove()
    assert list(x._backward_hooks) == [h2.id]


def test_ids_increase_over_all_kinds_of_hooks():
    x = ones()
    y = x * 1
    handles = [
        x.register_hook(print), y.register_hook(print), y.grad_fn.register_hook(print),
        y.grad_fn.register_prehook(print), x.register_post_accumulate_grad_hook(print),
    ]  # fmt: skip
    ids = [h.id for h in handles]
    assert ids == list(range(ids[0], ids[0] + 5))


def test_handle_as_context_manager():
    x = ones()
    with x.register_hook(lambda g: g * 5) as c:
        (x * 1).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]
    assert c.id not in x._backward_hooks
    with pytest.raises(KeyError, match="mine"), x.register_hook(lambda g: g) as c:
        raise KeyError("mine")
    assert c.id not in x._backward_hooks


@pytest.mark.parametrize(
    "register",
    [
        lambda x, y: y.grad_fn.register_hook,
        lambda x, y: y.grad_fn.register_prehook,
        lambda x, y: y.register_hook,
        lambda x, y: x.register_hook,
        lambda x, y: x.register_post_accumulate_grad_hook,
    ],
)
def test_a_removed_hook_does_not_fire(register: Callable[..., Any]):
    x = ones()
    y = x * 2
    log = []
    handle = register(x, y)(lambda *a: log.append(1))
    y.sum().backward(retain_graph=True)
    handle.remove()
    y.sum().backward()
    assert log == [1]


def test_handle_outlives_its_tensor():
    x = ones()
    h = x.register_hook(lambda g: g)
    del x
    gc.collect()
    assert h.hooks_dict_ref() is None
    h.remove()


def test_handle_can_be_pickled():
    x = ones()
    h = x.register_hook(print)
    revived = pickle.loads(pickle.dumps(h))
    assert revived.id == h.id
    revived.remove()
    assert h.id in x._backward_hooks


PLACES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "tensor": (lambda y: y.register_hook, lambda y: y._backward_hooks),
    "pre": (lambda y: y.grad_fn.register_prehook, lambda y: y.grad_fn._pres),
    "post": (lambda y: y.grad_fn.register_hook, lambda y: y.grad_fn._posts),
}


@pytest.mark.parametrize("place", PLACES)
def test_the_dict_of_the_first_hook_of_a_node_is_the_one_of_all(place: str):
    register, held = PLACES[place]
    y = ones() * 2
    log: list[int] = []
    assert held(y) is None
    first = register(y)(lambda *_: log.append(1))
    hooks = first.hooks_dict_ref()
    assert type(hooks) is OrderedDict
    assert list(hooks) == [first.id]
    assert held(y) is hooks
    second = register(y)(lambda *_: log.append(2))
    assert second.hooks_dict_ref() is hooks
    y.sum().backward(retain_graph=True)
    assert log == [1, 2]
    first.remove()
    assert list(hooks) == [second.id]
    hooks.clear()
    second.remove()
    y.sum().backward()
    assert log == [1, 2]


@pytest.mark.parametrize("place", PLACES)
def test_the_first_hook_of_a_node_goes_by_its_own_handle_alone(place: str):
    register, held = PLACES[place]
    y = ones() * 2
    log: list[int] = []
    gone = register(y)(lambda *_: log.append(1))
    gone.remove()
    assert held(y) is None
    first = register(y)(lambda *_: log.append(2))
    gone.remove()
    y.sum().backward(retain_graph=True)
    assert log == [2]
    second = register(y)(lambda *_: log.append(3))
    gone.remove()
    first.remove()
    y.sum().backward()
    assert log == [2, 3]
    assert list(held(y)) == [second.id]
    assert gone.hooks_dict_ref() is held(y)


@pytest.mark.parametrize("place", PLACES)
def test_a_handle_knows_that_its_node_is_gone_though_another_lies_in_its_memory(place: str):
    register, held = PLACES[place]
    old = register(ones() * 2)(print)
    later = [ones() * 2 for _ in range(200)]
    handles = [register(y)(lambda *_: None) for y in later]
    old.remove()
    assert old.hooks_dict_ref() is None
    assert [list(held(y)) for y in later] == [[h.id] for h in handles]


@pytest.mark.parametrize("place", PLACES)
def test_a_handle_keeps_neither_the_hook_of_a_node_nor_the_node(place: str):
    class Hook:
        def __call__(self, *_: Any) -> None:
            self.called = True

    register, _ = PLACES[place]
    y, hook = ones() * 2, Hook()
    hook.mine = y  # type: ignore[attr-defined]
    found = weakref.ref(hook)
    handle = register(y)(hook)
    del y, hook
    gc.collect()
    assert found() is None
    handle.remove()


@pytest.mark.parametrize("place", PLACES)
def test_a_hook_that_registers_another_while_it_runs_alone(place: str):
    register, held = PLACES[place]
    y = ones() * 2
    log: list[int] = []

    def hook(*_: Any) -> None:
        log.append(1)
        register(y)(lambda *_: log.append(2))

    handle = register(y)(hook)
    y.sum().backward(retain_graph=True)
    assert log == [1]
    handle.remove()
    y.sum().backward()
    assert log == [1, 2]
    assert len(held(y)) == 1


def test_a_tuple_in_the_place_of_a_hook_is_no_hooks_of_several_outputs():
    y = ones() * 2
    y.register_hook((0, {}))  # type: ignore[arg-type]
    assert list(y._backward_hooks.values()) == [(0, {})]
    z = ones() * 2
    z.register_hook((0, {}))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not callable"):
        z.sum().backward()


def test_handles_are_asked_while_their_node_is_cleared():
    asked: list[Any] = []

    class Plain:  # the collector does not know it, so it dies when the node is cleared
        __slots__ = ()

        def __call__(self, *_: Any) -> None:
            pass

        def __del__(self) -> None:
            for handle in handles:
                handle.remove()
                asked.append(handle.hooks_dict_ref())

    y = ones() * 2
    node = y.grad_fn
    handles = [y.register_hook(Plain()), node.register_prehook(Plain()), node.register_hook(Plain())]
    node.metadata["itself"] = node
    del y, node
    gc.collect()
    assert len(asked) == 9
    assert all(not hooks for hooks in asked)


def test_a_removed_hook_whose_place_a_plain_dict_has_taken():
    x = ones()
    y = x * 2
    handle = y.register_hook(print)
    handle.remove()
    mine = {handle.id: lambda g: g * 3}
    x.__dict__["_backward_hooks"] = mine
    y.grad_fn._register_hook_dict(x)
    handle.remove()
    assert handle.hooks_dict_ref() is None
    assert len(mine) == 1


def test_what_a_handle_is_told_to_be_about_replaces_its_node():
    y = ones() * 2
    handle = y.register_hook(lambda g: g * 0)
    mine = OrderedDict([(handle.id, print)])
    handle.hooks_dict_ref = weakref.ref(mine)
    handle.remove()
    assert not mine
    assert list(y._backward_hooks) == [handle.id]
    for half_made in (object.__new__(type(handle)), type(handle).__new__(type(handle))):
        assert half_made.hooks_dict_ref is None


# --- changing hooks while a pass runs ----------------------------------------------------------------------


def test_removed_hooks_still_fire_this_time_and_added_ones_from_the_next_pass():
    log: list[str] = []
    handles: dict[int, Any] = {}
    x = ones()

    def first(g: Any) -> None:
        log.append("h1")
        handles[2].remove()
        x.register_hook(lambda g: log.append("late"))

    handles[1] = x.register_hook(first)
    handles[2] = x.register_hook(lambda g: log.append("h2"))
    (x * 1).sum().backward()
    assert log == ["h1", "h2"]
    log.clear()
    handles[1].remove()
    (x * 1).sum().backward()
    assert log == ["late"]


def test_hook_added_to_a_tensor_not_reached_yet_fires():
    log: list[str] = []
    x = ones()
    y = x * 1
    y.register_hook(lambda g: x.register_hook(lambda g: log.append("leaf")) and None)
    z = y * 2
    z.register_hook(lambda g: y.register_hook(lambda g: log.append("non-leaf")) and None)
    z.sum().backward()
    assert log == ["non-leaf", "leaf"]


def test_hook_added_to_a_tensor_without_hooks_fires_in_the_same_pass():
    log: list[str] = []
    x = ones()
    y = x * 1
    z = y * 2
    z.register_hook(lambda g: (y.register_hook(lambda g: log.append("y")), y.retain_grad(), None)[-1])
    z.sum().backward()
    assert log == ["y"]
    assert y.grad.tolist() == [2.0, 2.0]


def test_post_accumulate_hook_added_by_a_hook_of_the_leaf():
    log: list[str] = []
    x = ones()
    x.register_hook(lambda g: x.register_post_accumulate_grad_hook(lambda t: log.append("post")) and None)
    x.sum().backward()
    assert log == ["post"]


def test_node_hooks_registered_while_the_node_is_running():
    log: list[Any] = []
    x = ones()
    y = x * 1
    y.register_hook(lambda g: (y.grad_fn.register_prehook(lambda go: log.append("pre")), None)[1])
    look = weakref.ref(y)
    y.grad_fn.register_prehook(
        lambda go: (look().grad_fn.register_hook(lambda gi, go: log.append(("post", len(go)))), None)[1]
    )
    y.sum().backward()
    assert log == ["pre", ("post", 1)]


def test_hook_that_removes_itself():
    x = ones()
    log = []
    handle: Any = None

    def once(g: Any) -> None:
        log.append(1)
        handle.remove()

    handle = x.register_hook(once)
    for _ in range(3):
        x.sum().backward()
    assert log == [1]


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt, SystemExit, RuntimeError])
def test_exceptions_pass_unchanged_and_the_pass_can_be_tried_again(error: type[BaseException]):
    x = ones()
    z = (x * 2).exp().sum()
    exception = error("mine")

    def bad(g: Any) -> None:
        raise exception

    handle = z.register_hook(bad)
    with pytest.raises(error) as info:
        z.backward()
    assert info.value is exception
    assert any(entry.name == "bad" for entry in info.traceback)
    handle.remove()
    z.backward()
    assert x.grad is not None
    exception.__traceback__ = None


def test_hooks_after_a_raising_hook_do_not_run():
    x = ones()
    log = []
    x.register_hook(lambda g: log.append("before"))
    x.register_hook(lambda g: 1 / 0)
    x.register_hook(lambda g: log.append("after"))
    with pytest.raises(ZeroDivisionError):
        x.sum().backward()
    assert log == ["before"]


# --- grad mode ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outside", [True, False])
def test_grad_mode_in_hooks_is_that_of_the_pass(outside: bool):
    x = ones()
    y = (x * x).sum()
    seen: list[tuple[bool, bool]] = []
    x.register_hook(lambda g: seen.append((g.requires_grad, fg.is_grad_enabled())))
    with fg.set_grad_enabled(outside):
        fg.autograd.grad(y, x, retain_graph=True)
        fg.autograd.grad(y, x, create_graph=True)
        assert fg.is_grad_enabled() is outside
    assert seen == [(False, False), (True, True)]


def test_what_hooks_return_is_differentiated():
    x = fg.tensor([2.0], requires_grad=True)
    log = []
    x.register_hook(lambda g: (log.append((g.requires_grad, fg.is_grad_enabled())), g * x)[1])
    (g,) = fg.autograd.grad(x**3, x, create_graph=True)
    assert g.item() == 24.0
    assert log == [(True, True)]
    assert fg.autograd.grad(g, x)[0].item() == 72.0
    assert len(log) == 2


def test_node_hooks_are_differentiated_through():
    x = fg.tensor([2.0], requires_grad=True)
    y = x * x
    y.grad_fn.register_prehook(lambda go: (go[0] * x,))
    (g,) = fg.autograd.grad(y, x, create_graph=True)
    assert g.item() == 8.0  # x * 2x
    assert fg.autograd.grad(g, x)[0].item() == pytest.approx(8.0)


# --- in place ----------------------------------------------------------------------------------------------


def test_hooks_stay_with_the_old_value():
    log: list[Any] = []
    x = ones()
    y = x * 2
    old = y.register_hook(lambda g: log.append(("old", g.tolist())))
    y.mul_(5)
    assert y._backward_hooks is None
    y.register_hook(lambda g: log.append(("new", g.tolist())))
    (y * 1).sum().backward(retain_graph=True)
    assert log == [("new", [1.0, 1.0]), ("old", [5.0, 5.0])]
    log.clear()
    old.remove()
    (y * 1).sum().backward()
    assert log == [("new", [1.0, 1.0])]


# --- copies and lifetimes ----------------------------------------------------------------------------------


def test_copies_have_no_hooks():
    p = ones()
    p.register_hook(lambda g: g * 3)
    p.register_post_accumulate_grad_hook(lambda t: None)
    copies = [copy.deepcopy(p), p.clone(), p.detach(), p.view(2, 1)]
    assert all(c._backward_hooks is None for c in copies)
    twin = copies[0]
    twin.sum().backward()
    assert twin.grad.tolist() == [1.0, 1.0]


def module_level_hook(g: Any) -> Any:
    return g * 3


def test_pickling_a_tensor_with_hooks_warns():
    x = ones()
    x.register_hook(module_level_hook)
    with pytest.warns(UserWarning, match="module_level_hook.*will not be serialized"):
        data = pickle.dumps(x)
    y = pickle.loads(data)
    assert y._backward_hooks is None
    assert y.requires_grad
    assert y.tolist() == [1.0, 1.0]


def test_hooks_of_a_non_leaf_outlive_its_object():
    log = []
    x = ones()
    y = x * 2
    handle = y.register_hook(lambda g: log.append(g.tolist()))
    z = y.sum()
    del y
    gc.collect()
    z.backward(retain_graph=True)
    assert log == [[1.0, 1.0]]
    handle.remove()
    z.backward()
    assert len(log) == 1


def test_hooks_of_a_dead_output_do_not_disturb_its_siblings():
    log: list[str] = []
    x = fg.ones(2, 3, requires_grad=True)
    a, b = x.unbind()
    a.register_hook(lambda g: log.append("a"))
    b.register_hook(lambda g: log.append("b"))
    z = (a * 2 + b * 3).sum()
    del a
    gc.collect()
    z.backward(retain_graph=True)
    assert log == ["a", "b"]
    log.clear()
    del b
    gc.collect()
    z.backward()
    assert log == ["a", "b"]
    assert x.grad.tolist() == [[4.0] * 3, [6.0] * 3]


def test_live_sibling_with_equal_values_keeps_its_own_hooks():
    log: list[str] = []
    x = ones()
    a, b = x.unbind()
    a.register_hook(lambda g: log.append("a"))
    b.register_hook(lambda g: log.append("b"))
    z = a + b
    del a
    gc.collect()
    b.register_hook(lambda g: log.append("b2"))
    z.backward()
    assert log == ["a", "b", "b2"]


def test_hooks_of_a_leaf_whose_object_died():
    log: list[str] = []
    x = ones()
    x.register_hook(lambda g: log.append("hook"))
    x.register_post_accumulate_grad_hook(lambda t: log.append(f"post {t.grad.tolist()}"))
    z = (x * 2).sum()
    del x
    gc.collect()
    z.backward()
    assert log == ["hook", "post [2.0, 2.0]"]


def test_leaf_found_again_through_the_graph_still_has_its_hooks():
    log: list[str] = []
    x = ones()
    x.register_hook(lambda g: log.append("first"))
    z = (x * 2).sum()
    del x
    gc.collect()
    again = z.grad_fn.next_functions[0][0].next_functions[0][0].variable
    again.register_hook(lambda g: log.append("second"))
    z.backward()
    assert log == ["first", "second"]
    assert again.grad.tolist() == [2.0, 2.0]


def test_attributes_and_identity_of_a_leaf_while_it_is_held():
    x = ones()
    x.tag = "mine"
    z = (x * 2).sum()
    assert z.grad_fn.next_functions[0][0].next_functions[0][0].variable is x
    assert x.tag == "mine"


def collected(make: Callable[[Box], None]) -> bool:
    box = Box()
    reference = weakref.ref(box)
    make(box)
    del box
    gc.collect()
    return reference() is None


def holds_its_leaf(box: Box) -> None:
    x = ones()
    x.register_hook(lambda g, x=x, box=box: None)


def holds_its_non_leaf(box: Box) -> None:
    y = ones() * 1
    y.register_hook(lambda g, y=y, box=box: None)


def post_holds_its_leaf(box: Box) -> None:
    x = ones()
    x.register_post_accumulate_grad_hook(lambda t, x=x, box=box: None)


def holds_its_leaf_which_was_used(box: Box) -> None:
    x = ones()
    x.register_hook(lambda g, x=x, box=box: None)
    (x * 2).sum().backward()


def holds_its_non_leaf_which_was_used(box: Box) -> None:
    y = ones() * 1
    y.register_hook(lambda g, y=y, box=box: None)
    (y * 2).sum().backward()


def attribute_cycle(box: Box) -> None:
    x = ones()
    x.box = box
    x.myself = x


def grad_cycle(box: Box) -> None:
    x = ones()
    x.box = box
    x.sum().backward()
    x.grad.owner = x


def node_hook_holds_its_node(box: Box) -> None:
    n = (ones() * 1).grad_fn
    n.register_hook(lambda gi, go, n=n, box=box: None)


def node_hook_holds_its_tensor(box: Box) -> None:
    y = ones() * 1
    y.grad_fn.register_hook(lambda gi, go, y=y, box=box: None)


def prehook_holds_node_and_tensor(box: Box) -> None:
    y = ones() * 1
    y.grad_fn.register_prehook(lambda go, y=y, n=y.grad_fn, box=box: None)


def holds_what_was_made_of_it(box: Box) -> None:
    y = ones() * 1
    z = ((y + 1).exp() * 2).sum()
    y.register_hook(lambda g, z=z, box=box: None)


def holds_both_ends(box: Box) -> None:
    y = ones() * 1
    z = (y * 3 + y).sum()
    y.register_hook(lambda g, y=y, z=z, box=box: None)
    z.register_hook(lambda g, y=y, z=z, box=box: None)


def two_nodes_hold_each_other(box: Box) -> None:
    y = ones() * 1
    z = y * 2
    y.grad_fn.register_hook(lambda gi, go, n=z.grad_fn, box=box: None)
    z.grad_fn.register_hook(lambda gi, go, n=y.grad_fn, box=box: None)


def metadata_holds_its_node(box: Box) -> None:
    n = (ones() * 1).grad_fn
    n.metadata["self"] = (n, box)


def accumulator_holds_itself(box: Box) -> None:
    x = ones()
    accumulator = x.expand_as(x).grad_fn.next_functions[0][0]
    accumulator.register_hook(lambda gi, go, a=accumulator, x=x, box=box: None)


def leaf_kept_by_its_graph(box: Box) -> None:
    x = ones()
    z = (x * 2).sum()
    x.register_hook(lambda g, x=x, z=z, box=box: None)


@pytest.mark.parametrize(
    "make",
    [
        holds_its_leaf, holds_its_non_leaf, post_holds_its_leaf, holds_its_leaf_which_was_used,
        holds_its_non_leaf_which_was_used, attribute_cycle, grad_cycle, node_hook_holds_its_node,
        node_hook_holds_its_tensor, prehook_holds_node_and_tensor, holds_what_was_made_of_it, holds_both_ends,
        two_nodes_hold_each_other, metadata_holds_its_node, accumulator_holds_itself, leaf_kept_by_its_graph,
    ],
)  # fmt: skip
def test_cycles_through_hooks_are_collected(make: Callable[[Box], None]):
    before = fg.debug.live()
    assert collected(make)
    assert fg.debug.live() == before


def test_hooks_go_with_the_graph():
    box = Box()
    reference = weakref.ref(box)
    y = ones() * 2
    y.register_hook(lambda g, box=box: None)
    y.grad_fn.register_hook(lambda gi, go, box=box: None)
    z = y.sum()
    del y, box
    assert reference() is not None
    z.backward()
    del z
    gc.collect()
    assert reference() is None


# --- nested passes and threads -----------------------------------------------------------------------------


def test_backward_inside_a_hook():
    log: list[str] = []
    x, w = ones(), ones()
    a, b = x * 1, x * 2

    def nested(g: Any) -> None:
        with fg.enable_grad():
            loss = (w * 2).sum()
        log.append("b in")
        loss.backward()
        log.append("b out")

    b.register_hook(nested)
    a.register_hook(lambda g: log.append("a"))
    w.register_hook(lambda g: log.append("w"))
    (a + b).sum().backward()
    assert log == ["b in", "w", "b out", "a"]
    assert x.grad.tolist() == [3.0, 3.0]
    assert w.grad.tolist() == [2.0, 2.0]


def test_hooks_run_on_the_calling_thread():
    names = []
    x = ones()
    x.register_hook(lambda g: names.append(threading.current_thread().name))
    thread = threading.Thread(target=lambda: (x * 1).sum().backward(), name="T1")
    thread.start()
    thread.join()
    assert names == ["T1"]


@pytest.mark.parametrize(
    "register",
    [
        lambda x, y, hook: y.register_hook(hook),
        lambda x, y, hook: y.grad_fn.register_prehook(hook),
        lambda x, y, hook: y.grad_fn.register_hook(hook),
        lambda x, y, hook: x.register_post_accumulate_grad_hook(hook),
    ],
)
def test_what_a_measured_hook_raises_comes_out(register: Callable[..., Any]):
    def fails(*_: Any) -> None:
        raise KeyError("mine")

    x = ones()
    y = x * 1
    register(x, y, fails)
    with fg.autograd.graph.measure_hooks(), pytest.raises(KeyError, match="mine"):
        y.sum().backward()
