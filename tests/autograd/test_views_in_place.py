"""Views changed in place: bases of any strides, several views, hooks, gradients of any order; nothing stays behind."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import fastgrad as fg

BASES: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda a: a.view(4, 6).detach(),
    "transposed": lambda a: a.view(4, 6).t().detach(),
    "with gaps": lambda a: a.view(4, 6)[:, ::2].detach(),
    "permuted": lambda a: a.view(2, 3, 4).permute(2, 0, 1).detach(),
    "inside of memory": lambda a: a.view(4, 6)[1:, 1:4].t().detach(),
    "a column": lambda a: a.view(4, 6)[:, 1:2].detach(),
    "four dimensions": lambda a: a.view(2, 3, 2, 2).permute(3, 1, 0, 2).detach(),
}

VIEWS: dict[str, Callable[[Any], Any]] = {
    "select": lambda b: b[1],
    "select of select": lambda b: b[1][0:1],
    "transpose": lambda b: b.transpose(0, 1),
    "diagonal": lambda b: b.diagonal(),
    "every other": lambda b: b.transpose(0, 1)[0:3:2],
    "one dimension more": lambda b: b.unsqueeze(1),
    "nothing": lambda b: b[0:0],
}


def numbers(lib: ModuleType) -> Any:
    return lib.arange(24).to(lib.float64) / 16 - 0.5


def program(lib: ModuleType, base: str, view: str, w: Any, k: Any) -> tuple[Any, Any, Any]:
    """A base, a view of it and a value that depends on both, on `w` and on `k`."""
    b = BASES[base](numbers(lib))
    b.mul_(k * 2)
    v = VIEWS[view](b)
    v.mul_(w * 3)
    other = b.select(0, 0)
    other.add_(w)
    v.mul_(2).add_(k)
    return b, v, (b * b).sum() + (v * v * v).sum() + (other * w).sum()


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("base", BASES)
def test_gradients_are_right(base: str, view: str):
    w = fg.tensor([1.25], dtype=fg.float64, requires_grad=True)
    k = fg.tensor([0.75], dtype=fg.float64, requires_grad=True)
    assert fg.autograd.gradcheck(lambda w, k: program(fg, base, view, w, k)[2], (w, k))
    assert fg.autograd.gradgradcheck(lambda w, k: program(fg, base, view, w, k)[2], (w, k))


def observed(lib: ModuleType, base: str, view: str) -> list[Any]:
    """What a program shows: gradients up to the third order, what hooks saw, strides."""
    log: list[Any] = []
    w = lib.tensor([1.25], dtype=lib.float64, requires_grad=True)
    k = lib.tensor([0.75], dtype=lib.float64, requires_grad=True)
    b, v, r = program(lib, base, view, w, k)
    for name, t in (("base", b), ("view", v)):
        t.grad_fn.name()  # PyTorch's process ends without it
        t.register_hook(lambda g, name=name: log.append((name, g.tolist())))
        t.retain_grad()
    log.append([n.name() for n in (b.grad_fn, v.grad_fn)])
    first = lib.autograd.grad(r, [w, k], create_graph=True)
    second = lib.autograd.grad((first[0] * first[1]).sum(), [w, k], create_graph=True)
    third = lib.autograd.grad((second[0] * second[1]).sum(), [w, k], retain_graph=True)
    log.extend(g.tolist() for g in (*first, *second, *third))
    r.backward(retain_graph=True)
    log.extend([b.grad.tolist(), b.grad.stride(), v.grad.tolist(), w.grad.tolist(), k.grad.tolist()])
    b.neg_()
    log.append(lib.autograd.grad(v.sum() + (b * b).sum(), [w, k])[0].tolist())
    return log


def close(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b, strict=True))
    return a == b if isinstance(a, str) else abs(a - b) <= 1e-9 * max(1.0, abs(a))


@pytest.mark.parity
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("base", BASES)
def test_all_that_shows_is_the_same_in_torch(base: str, view: str):
    torch = pytest.importorskip("torch")
    # PyTorch forgets in passes of higher order that an empty view was used: its derivative of as_strided is a constant.
    ours, theirs = ([x for x in observed(lib, base, view) if x != ("view", [])] for lib in (fg, torch))
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert close(mine, other), (mine, other)


def test_a_base_whose_elements_share_memory(lib):
    """As in PyTorch the change itself is possible, and its derivative is not."""
    base = lib.ones(1).expand(3).detach()
    v = base[0:1]
    w = lib.ones(1, requires_grad=True)
    v.mul_(w * 2)
    assert base.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        base.sum().backward()
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        v.mul_(w * 2).sum().backward()


# --- what stays behind: the check after each test finds it -------------------------------------------------------


def start() -> tuple[Any, Any]:
    x = fg.ones(2, 2, requires_grad=True)
    return x, x * 1


@pytest.mark.parametrize("keep", [False, True])
def test_nothing_leaks_after_a_change_through_a_view_of_a_view(keep: bool):
    _x, y = start()
    z = y.pow(2)  # saves the tensor that is about to depend on it
    between = y.view(4)
    v = between[1:]
    if not keep:
        del between
    v.mul_(z.sum())
    y.sum().detach()
    assert y.tolist() == [[1.0, 4.0], [4.0, 4.0]]


def test_nothing_leaks_after_a_view_changes_with_what_saved_it():
    _x, y = start()
    v = y[0]
    v.mul_(v.pow(2).sum())
    assert y.tolist() == [[2.0, 2.0], [1.0, 1.0]]


def test_nothing_leaks_after_a_base_changes_with_what_saved_its_view():
    _x, y = start()
    v = y.view(4)
    y.mul_(v.pow(2).sum())
    y.mul_(y.view(4).pow(2).sum())
    assert v.tolist() == [256.0] * 4


def test_nothing_leaks_without_the_object_of_the_base():
    x = fg.ones(4, requires_grad=True)
    y = x * 1
    z = y.pow(2)
    v = y[1:]
    del y
    v.mul_(z.sum())
    assert v.tolist() == [4.0, 4.0, 4.0]


def test_nothing_leaks_after_a_function_changes_what_was_saved():
    class Double(fg.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.mark_dirty(a)
            with fg.no_grad():
                a.mul_(2)
            return a

        @staticmethod
        def backward(ctx, g):
            return g * 2

    _x, y = start()
    z = y.exp()
    z = z.pow(2) + y.pow(2)
    y.add_(z)
    assert Double.apply(y) is y
    v = y[0]
    w = v.pow(2)
    v.add_(w)
    assert y.grad_fn.name() == "torch::autograd::CopySlices"


def test_views_go_on_with_their_base(lib):
    """All views that somebody can see follow the base, saved or not, and keep what they are."""
    x = lib.ones(4, requires_grad=True)
    y = x * 1
    a, b = y[0:2], y.view(2, 2)
    saved = b.pow(2)
    y.mul_((a * 3).sum())
    assert [t.grad_fn.name() for t in (a, b)] == ["AsStridedBackward0"] * 2
    assert a._base is y
    assert b._base is y
    b[1].mul_(5)
    assert y.tolist() == [6.0, 6.0, 30.0, 30.0]
    (a.sum() + y.sum()).backward()
    assert x.grad.tolist() == [54.0, 54.0, 30.0, 30.0]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.sum().backward()


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_function_that_changed_a_view_is_not_asked_for_no_gradient(lib: Any, create_graph: bool):
    """As the derivative of an op that did."""
    called: list[Any] = []

    class Doubled(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            called.append(g)
            return g * 2

    class Lost(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return None

    x = lib.ones(2, requires_grad=True)
    y = x * 1
    Doubled.apply(y[:1])
    z = Lost.apply(y)
    lib.autograd.grad(z.sum(), x, create_graph=create_graph, allow_unused=True, retain_graph=True)
    assert not called
    assert lib.autograd.grad(y.sum(), x, create_graph=create_graph)[0].tolist() == [2, 1]
    assert len(called) == 1
