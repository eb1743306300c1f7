"""Views that cannot follow their base, the counting of changes, and tensors that are given other memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fastgrad as fg


def base(lib: Any) -> Any:
    return lib.ones(2, 2, requires_grad=True) * 1


def function(lib: Any, several: bool) -> Callable[[Any], Any]:
    class Part(lib.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return (a[0:1], a * 2) if several else a[0:1]

        @staticmethod
        def backward(ctx, *grads):
            return None

    return lambda a: Part.apply(a)[0] if several else Part.apply(a)


def without(mode: str, make: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def made(lib: Any, y: Any) -> Any:
        with getattr(lib, mode)():
            return make(y)

    return made


SEVERAL = "This view is the output of a function that returns multiple views"
FUNCTION = "This view was created inside a custom Function"
AMBIGUOUS = "Given that this use case is ambiguous and error-prone"
# How a view is made, what the message begins with, what it goes on with.
VIEWS: dict[str, tuple[Callable[[Any, Any], Any], str, str]] = {
    "unbind": (lambda lib, y: y.unbind(0)[1], "Output 1 of Unbind is a view and {}", SEVERAL),
    "split": (lambda lib, y: y.split(1)[0], "Output 0 of Split is a view and {}", SEVERAL),
    "split of sizes": (
        lambda lib, y: y.split([1, 1])[1],
        "Output 1 of SplitWithSizes is a view and {}",
        SEVERAL,
    ),
    "chunk": (lambda lib, y: y.chunk(2)[1], "Output 1 of Split is a view and {}", SEVERAL),
    "view of unbind": (lambda lib, y: y.unbind(0)[1].view(2), "Output 0 of View is a view and {}", SEVERAL),
    "function": (lambda lib, y: function(lib, False)(y), "Output 0 of Part is a view and {}", FUNCTION),
    "functions": (lambda lib, y: function(lib, True)(y), "Output 0 of Part is a view and {}", SEVERAL),
    "view of function": (
        lambda lib, y: function(lib, False)(y)[:, 0],
        "Output 0 of Select is a view and {}",
        FUNCTION,
    ),
    "no_grad": (without("no_grad", lambda y: y[0]), "A view was created in no_grad mode and {}", AMBIGUOUS),
    "unbind under no_grad": (
        without("no_grad", lambda y: y.unbind(0)[0]),
        "A view was created in no_grad mode and {}",
        AMBIGUOUS,
    ),
    "no_grad view of unbind": (
        lambda lib, y: without("no_grad", lambda v: v.view(2))(lib, y.unbind(0)[0]),
        "A view was created in no_grad mode and {}",
        AMBIGUOUS,
    ),
    "inference_mode": (
        without("inference_mode", lambda y: y[0]),
        "A view was created in inference mode and {}",
        AMBIGUOUS,
    ),
}
CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "base": lambda lib, y: y.mul_(2),
    "base without grad": lambda lib, y: without("no_grad", lambda t: t.mul_(2))(lib, y),
    "another view": lambda lib, y: y[1].mul_(2),
}
USES: dict[str, Callable[[Any, Any], Any]] = {
    "grad_fn": lambda lib, v: v.grad_fn,
    "is_leaf": lambda lib, v: v.is_leaf,
    "register_hook": lambda lib, v: v.register_hook(print),
    "retain_grad": lambda lib, v: v.retain_grad(),
    "an op": lambda lib, v: v * 2,
    "a view": lambda lib, v: v.view(-1),
    "a function": lambda lib, v: function(lib, False)(v),
    "backward": lambda lib, v: v.sum().backward(),
    "root": lambda lib, v: lib.autograd.backward([v], [lib.ones_like(v)]),
    "grad": lambda lib, v: lib.autograd.grad(v._base.sum(), v),
    "get_gradient_edge": lambda lib, v: lib.autograd.graph.get_gradient_edge(v),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_that_cannot_follow_is_refused_after_a_change_of_its_base(lib, view: str, change: str):
    make, start, rest = VIEWS[view]
    y = base(lib)
    v = make(lib, y)
    CHANGES[change](lib, y)
    expected = start.format("its base or another view of its base has been modified inplace")
    for name, use in USES.items():
        if name == "retain_grad" and rest == AMBIGUOUS:  # a leaf, whose history nobody asks for
            use(lib, v)
            continue
        with pytest.raises(RuntimeError) as caught:
            use(lib, v)
        assert expected in str(caught.value), name
        assert rest in str(caught.value), name
    assert v.requires_grad
    assert "grad_fn=<Invalid>" in repr(v)
    with lib.no_grad():
        assert not (v * 2).requires_grad
    assert not v.detach().requires_grad


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_that_cannot_follow_is_not_changed_in_place(lib, view: str):
    make, start, rest = VIEWS[view]
    y = base(lib)
    v = make(lib, y)
    with pytest.raises(RuntimeError) as caught:
        v.mul_(2)
    assert start.format("is being modified inplace") in str(caught.value)
    assert rest in str(caught.value)
    assert y.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    with lib.no_grad():
        v.mul_(2)
    assert y.sum().item() > 4.0


@pytest.mark.parametrize(
    ("mode", "name"), [("no_grad", "no_grad mode"), ("inference_mode", "inference mode")]
)
def test_a_view_of_a_view_made_without_gradients(lib, mode: str, name: str):
    x = lib.ones(2)
    y = without(mode, lambda t: t.view(2))(lib, x)
    y.requires_grad_()
    z = y.view(2)
    with pytest.raises(
        RuntimeError, match=f"Output 0 of View is a view of a view which was created in {name}"
    ):
        z.div_(2)


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
def test_a_view_made_without_gradients_of_a_leaf_has_no_history(lib, mode: str):
    x = lib.ones(2, 2, requires_grad=True)
    v = without(mode, lambda t: t[0])(lib, x)
    assert v.requires_grad
    assert v.is_leaf
    assert v.grad_fn is None
    assert v._base is x
    product = v * 2
    assert [n for n, _ in product.grad_fn.next_functions] == [None, None]
    seen: list[Any] = []
    v.register_hook(seen.append)
    v.retain_grad()
    product.sum().backward()
    assert (v.grad, x.grad, seen, v.retains_grad) == (None, None, [], False)
    assert lib.autograd.grad((x * 2).sum(), v, allow_unused=True) == (None,)
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad"):
        v.backward(lib.ones(2))
    v.requires_grad_()
    (v * 3).sum().backward()
    assert v.grad.tolist() == [3.0, 3.0]


def test_an_array_of_what_requires_grad(lib):
    x = lib.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad"):
        x.numpy()
    with lib.no_grad():
        assert x.numpy().tolist() == [1.0, 1.0]


def test_views_of_what_was_made_in_inference_mode_have_no_base(lib):
    with lib.inference_mode():
        x = lib.ones(2)
        v = x.view(2)
    assert not v._is_view()
    assert not x.view(2)._is_view()
    assert v.is_inference()


# --- detach_ -----------------------------------------------------------------------------------------------------


def test_a_saved_input_that_was_detached_in_place(lib):
    a = lib.ones(2, requires_grad=True) * 1
    w = lib.ones(2, requires_grad=True)
    b, c = a.sin(), a * w
    a.detach_()
    for wanted in (lambda: b.sum().backward(), lambda: lib.autograd.grad(c.sum(), w)):
        with pytest.raises(RuntimeError, match="a saved tensor that has been detached in-place"):
            wanted()
    assert b.grad_fn._saved_self.tolist() == [1.0, 1.0]


def test_other_saved_tensors_may_be_detached_in_place(lib):
    x = lib.ones(2, requires_grad=True)
    out = (x * 1).exp()
    last = out * 1
    out.detach_()
    last.sum().backward()
    leaf = lib.ones(2, requires_grad=True)
    other = leaf * x
    leaf.detach_()
    other.sum().backward()
    assert leaf.grad is None
    held = x * 1
    with lib.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        packed = held * x
    held.detach_()
    assert lib.autograd.grad(packed.sum(), x)[0].tolist() == [2.0, 2.0]


def test_a_base_that_was_detached_in_place(lib):
    y = base(lib)
    v = y[0]
    y.detach_()
    assert v.grad_fn.name() == "SelectBackward0"
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        v.mul_(2)
    y.mul_(2)
    assert not y.requires_grad
    assert v.grad_fn.name() == "AsStridedBackward0"
    assert [n for n, _ in v.grad_fn.next_functions] == [None]


# --- other memory ------------------------------------------------------------------------------------------------


def test_assigned_data_is_counted_with_the_tensor_and_its_relations(lib):
    x = lib.ones(2) * 1
    v, d, y = x.view(2), x.detach(), lib.ones(2)
    for _ in range(3):
        y.add_(1)
    x.mul_(2)
    x.data = y
    assert (x._version, v._version, d._version, y._version) == (1, 1, 1, 3)
    x.mul_(2)
    assert (x._version, v._version, d._version, y._version) == (2, 2, 2, 3)
    y.add_(1)
    assert (x._version, y._version) == (2, 4)
    assert x.tolist() == y.tolist() == [9.0, 9.0]
    assert v.tolist() == d.tolist() == [2.0, 2.0]


def test_data_has_a_count_of_its_own(lib):
    x = lib.ones(2, requires_grad=True) * 1
    x.add_(1)
    w = lib.ones(2, requires_grad=True)
    d = x.data
    product = w * d
    part = d.view(2)
    part.add_(1)
    assert (d._version, part._version, x._version) == (1, 1, 1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    e = x.data
    assert e._version == 0


def test_a_saved_tensor_that_was_given_other_memory(lib):
    x = lib.ones(2, requires_grad=True)
    y = x * x
    x.data = lib.full((2,), 5.0)
    y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [10.0, 10.0]
    with lib.no_grad():
        x.mul_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    u = x.exp()
    z = u * 1
    u.data = lib.ones(2)
    u.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_views_of_what_was_given_other_memory(lib):
    x = lib.ones(2, requires_grad=True) * 1
    v = x.view(2)
    x.data = lib.full((3,), 3.0)
    x.mul_(2)
    assert v.grad_fn.name() == "AsStridedBackward0"
    assert lib.autograd.grad(v.sum(), x)[0].tolist() == [1.0, 1.0, 0.0]


def test_set_parts_a_leaf_from_what_was_computed_of_it(lib):
    x = lib.ones(2, requires_grad=True)
    y = x.clone()
    with lib.no_grad():
        x.set_(lib.zeros(2))
    assert x._version == 1
    with pytest.raises(RuntimeError, match="appears to not have been used"):
        lib.autograd.grad(y.sum(), x)
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="Could not set tensor of type"):
        lib.ones(2).set_(lib.ones(2, dtype=lib.float64))


def test_the_old_memory_of_a_tensor_goes_with_its_last_reader():
    before = fg.debug.live()["bytes"]
    x = fg.zeros(1 << 16)
    v = x.view(-1)
    x.data = fg.zeros(1)
    with_view = fg.debug.live()["bytes"]
    del v
    without_view = fg.debug.live()["bytes"]
    assert with_view - without_view >= 4 << 16
    assert without_view - before < 4 << 16
    assert x._version == 0


# --- what a view without history is used for ---------------------------------------------------------------------

READERS: dict[str, tuple[Callable[[Any, Any], Any], list[Any]]] = {
    "exp": (lambda a, b: a.exp(), [[1.0, 1.0]]),
    "product": (lambda a, b: a * b, []),
    "quotient": (lambda a, b: b / a, [[0.0, 0.0]]),
    "power": (lambda a, b: a**b, [[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]),
    "sum": (lambda a, b: a.sum(), []),
    "minimum": (lambda a, b: a.minimum(b), [[0.0, 0.0], [0.0, 0.0]]),
}


@pytest.mark.parametrize("name", READERS)
def test_what_every_derivative_reads_is_packed_where_no_gradient_arrives(lib: Any, name: str):
    use, packed = READERS[name]
    x = lib.zeros(2, 2, requires_grad=True)
    with lib.no_grad():
        a, b = x.unbind(0)
    log: list[Any] = []
    with lib.autograd.graph.saved_tensors_hooks(lambda t: (log.append(t.tolist()), t)[1], lambda t: t):
        out = use(a, b)
    assert log == packed
    assert out.requires_grad
    out.backward(lib.ones_like(out))
    assert x.grad is None


def test_a_view_without_history_has_no_edge(lib: Any):
    x = lib.ones(2, requires_grad=True)
    with lib.no_grad():
        view = x[0]
    with pytest.raises(AssertionError, match="Expected gradient function to be set"):
        lib.autograd.graph.get_gradient_edge(view)


def test_a_root_that_its_base_has_left_behind(lib: Any):
    x = base(lib)
    root = x.unbind(0)[1]
    x.mul_(2)
    with pytest.raises(RuntimeError, match=r"^Output 1 of Unbind"):
        lib.autograd.backward([root], [lib.ones(2)])


def test_no_hook_over_several_tensors_goes_where_no_gradient_arrives(lib: Any):
    x = lib.ones(2, requires_grad=True)
    with lib.no_grad():
        view = x[0]
    with pytest.raises(AssertionError, match="Expected gradient function to be set"):
        lib.autograd.graph.register_multi_grad_hook((x, view), lambda grads: None)


def test_an_op_on_what_its_base_has_left_behind(lib: Any):
    x = base(lib)
    left = x.unbind(0)[0]
    x.mul_(2)
    with pytest.raises(RuntimeError, match=r"^Output 0 of Unbind"):
        left * 2
