"""The sentences of docs/hooks.md, one test for each number: views, passes as hooks see them, errors."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import fastgrad as fg


def leaf(n: int = 2) -> Any:
    return fg.ones(n, requires_grad=True)


def test_h117_strides(lib, ones):
    base = lib.ones(3, 2).t().detach()  # strides (1, 2)
    w = ones(3)
    base.mul_(w)
    seen: list[Any] = []
    base.register_hook(lambda g: seen.append(g.tolist()))
    v = base[0]
    v.mul_(w * 5)
    assert base.tolist() == [[5.0, 5.0, 5.0], [1.0, 1.0, 1.0]]
    assert v.grad_fn.name() == "AsStridedBackward0"
    (base * 2).sum().backward()
    assert seen == [[[10.0] * 3, [2.0] * 3]]
    assert w.grad.tolist() == [22.0, 22.0, 22.0]


def test_h118_stale(lib, ones):
    """Every kind of view and every use: tests/autograd/test_views_and_bases.py."""
    base = ones() * 2
    v = base.unbind(0)[1]
    base.mul_(3)
    for use in (lambda: v.grad_fn, lambda: v.register_hook(print), lambda: v * 2, lambda: v.backward()):
        with pytest.raises(
            RuntimeError, match="Output 1 of Unbind is a view and its base or another view of its"
        ):
            use()
    assert v.requires_grad
    assert not v.retains_grad
    assert v.detach().item() == 6.0


@pytest.mark.parametrize("is_leaf", [False, True])
@pytest.mark.parametrize("change", ["view", "base", "other view"])
def test_h123_change_without_gradients(lib, ones, change, is_leaf):
    seen: list[Any] = []
    x = ones()
    y = x if is_leaf else x * 1
    v, w = y.view(1, 2), y[:1]
    early = v * 3
    v.register_hook(lambda g: seen.append(("before", g.tolist())))
    with lib.no_grad():
        {"view": v, "base": y, "other view": w}[change].mul_(2)
    assert v.grad_fn.name() == "AsStridedBackward0"
    v.register_hook(lambda g: seen.append(("after", g.tolist())))
    (early + v * 5).sum().backward()
    assert sorted(seen) == [("after", [[5.0, 5.0]]), ("before", [[3.0, 3.0]])]
    assert x.grad.tolist() == [8.0, 8.0]


def test_h124_view_without_gradients(lib, ones):
    seen: list[Any] = []
    x = ones()
    with lib.no_grad():
        v = x[:1]
    assert v.requires_grad
    assert v.is_leaf
    v.register_hook(lambda g: seen.append(g.tolist()))
    (v * 3 + x).sum().backward()
    assert seen == []
    assert v.grad is None
    v.requires_grad_()
    (v * 3).sum().backward()
    assert seen == [[3.0]]


def names(nodes: Any) -> list[str]:
    return [node.name().rpartition("::")[2] for node in nodes]


def test_h119_execution_order():
    order_of = fg.autograd.graph._current_graph_task_execution_order
    seen: list[Any] = []
    ran: list[str] = []
    x, w = leaf(), leaf()
    y = (x * 3).exp()
    z = (y * w + y).sum()
    others = (w * 2).sum()
    for t in (z, y, x):
        t.register_hook(lambda g: seen.append(order_of()))

    def follow(root: Any) -> None:
        todo = [root.grad_fn]
        for node in todo:
            if node not in known:
                known.append(node)
                handles.append(node.register_prehook(lambda g, node=node: ran.append(node.name())))
                todo.extend(n for n, _ in node.next_functions if n is not None)

    handles: list[Any] = []
    known: list[Any] = []
    follow(z)
    follow(others)
    for run in (
        lambda: z.backward(retain_graph=True),
        lambda: fg.autograd.backward([others, z], retain_graph=True),
        lambda: z.backward(inputs=[x], retain_graph=True),
    ):
        seen.clear()
        ran.clear()
        run()
        assert len(seen) == 3
        assert all(names(order) == names(seen[0]) for order in seen)
        assert [node.name() for node in seen[0]] == ran
        assert seen[0][0] is z.grad_fn or seen[0][0] is others.grad_fn
    seen.clear()
    fg.autograd.grad(z, [y, w], retain_graph=True)
    assert names(seen[0]) == [
        "SumBackward0",
        "AddBackward0",
        "MulBackward0",
        "AccumulateGrad",
        "ExpBackward0",
    ]
    for handle in handles:
        handle.remove()
    with pytest.raises(RuntimeError, match="should only be called during the backward pass"):
        order_of()


@pytest.mark.parity
def test_the_execution_order_is_that_of_torch():
    torch = pytest.importorskip("torch")
    found = []
    for lib, order_of in (
        (fg, fg.autograd.graph._current_graph_task_execution_order),
        (torch, torch._C._current_graph_task_execution_order),
    ):
        x, w = (lib.ones(2, requires_grad=True) for _ in range(2))
        y = (x * 3).exp()
        z = ((y * w + y) * w).sum()
        seen: list[Any] = []
        z.register_hook(lambda g, seen=seen, order_of=order_of: seen.append(names(order_of())))
        with torch.autograd.set_multithreading_enabled(False):
            z.backward(retain_graph=True)
            lib.autograd.grad(z, [y, w], retain_graph=True)
            z.backward(inputs=[x])
        found.append(seen)
    assert found[0] == found[1]


def test_h120_saved_hooks_in_a_pass(lib, ones):
    packed: list[int] = []
    hooks = lib.autograd.graph.saved_tensors_hooks
    pair = hooks(lambda t: (packed.append(1), t)[1], lambda t: t)
    seen: list[Any] = []

    def probe(where: str) -> None:
        packed.clear()
        with lib.enable_grad():
            ones().exp()
        seen.append((where, bool(packed)))

    x = ones()
    y = x * 3
    y.register_hook(lambda g: pair.__enter__())
    y.register_hook(lambda g: probe("the same node"))
    x.register_hook(lambda g: probe("the next node"))
    y.sum().backward()
    probe("after the pass")
    assert seen == [("the same node", True), ("the next node", False), ("after the pass", False)]

    seen.clear()
    with pair:
        z = ones() * 3
        z.register_hook(lambda g: pair.__exit__(None, None, None))
        z.register_hook(lambda g: probe("the same node"))
        z.sum().backward()
        probe("after the pass")
    probe("after the context")
    assert seen == [("the same node", False), ("after the pass", True), ("after the context", False)]

    def fail(g: Any) -> None:
        pair.__enter__()
        raise KeyError

    seen.clear()
    u = ones() * 3
    u.register_hook(fail)
    with pytest.raises(KeyError):
        u.sum().backward()
    probe("after an error")

    disabled = lib.autograd.graph.disable_saved_tensors_hooks("not now")
    v = ones() * 3
    v.register_hook(lambda g: disabled.__enter__())
    v.sum().backward()
    probe("after disabling")
    with pair:
        probe("as before")
    assert seen == [("after an error", False), ("after disabling", False), ("as before", True)]


def test_h121_blame():
    class Hook:
        def __call__(self, g: Any) -> Any:
            return 5

    def shrink(g: Any) -> Any:
        return g[:1]

    y = leaf() * 3
    for hook, kind, text in (
        (Hook(), TypeError, r"hook returned 'int' \(hook 'Hook' of MulBackward0\)"),
        (
            functools.partial(shrink),
            RuntimeError,
            r"size of value \(was \[2\] got \[1\]\) \(hook 'shrink' of Mul",
        ),
        (shrink, RuntimeError, r"hook 'shrink' has changed the size of value .* of MulBackward0\)"),
    ):
        with y.register_hook(hook), pytest.raises(kind, match=text):
            y.sum().backward(retain_graph=True)
    with (
        y.grad_fn.register_prehook(lambda g: (*g, None)),
        pytest.raises(RuntimeError, match=r"\(got 2, but expected 1\) \(hook '<lambda>' of MulBackward0\)"),
    ):
        y.sum().backward(retain_graph=True)
    x = leaf()
    x.register_post_accumulate_grad_hook(shrink)
    with pytest.raises(RuntimeError, match=r"\(hook 'shrink' of torch::autograd::AccumulateGrad\)"):
        (x * 1).sum().backward()


def test_h122_note():
    x = leaf()
    y = x * 3

    def inner(g: Any) -> None:
        (x * 2).sum().backward()

    with y.register_hook(inner), pytest.raises(RuntimeError, match="does not require grad") as caught:
        y.sum().backward(retain_graph=True)
    assert "with fastgrad.enable_grad()" in caught.value.__notes__[0]
    with pytest.raises(RuntimeError, match="does not require grad") as caught:
        fg.ones(1).backward()
    assert not hasattr(caught.value, "__notes__")
