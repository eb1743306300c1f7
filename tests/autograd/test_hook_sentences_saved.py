"""The sentences of docs/hooks.md, one test for each number: what nodes save, in which order, and what they are."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.filterwarnings("ignore:Using backward.. with create_graph")


class Log:
    """Hooks that note what is packed and unpacked."""

    def __init__(self, lib: ModuleType) -> None:
        self.events: list[tuple[str, Any]] = []
        self.hooks = lib.autograd.graph.saved_tensors_hooks(self.pack, self.unpack)

    def pack(self, tensor: Any) -> Any:
        self.events.append(("pack", tensor.tolist()))
        return tensor.detach()

    def unpack(self, tensor: Any) -> Any:
        self.events.append(("unpack", tensor.tolist()))
        return tensor

    def taken(self, kind: str) -> list[Any]:
        """What happened of one kind, in order."""
        return [value for event, value in self.events if event == kind]


def leaves(lib: ModuleType) -> tuple[Any, Any]:
    return lib.tensor([2.0], requires_grad=True), lib.tensor([3.0], requires_grad=True)


PRODUCTS: dict[str, tuple[Callable[[ModuleType, Any, Any], Any], list[Any]]] = {
    "a * b": (lambda lib, a, b: a * b, [[3.0], [2.0]]),
    "a ** b": (lambda lib, a, b: a**b, [[3.0], [2.0], [8.0]]),
    "where": (lambda lib, a, b: lib.where(a > b, a, b), [[False]]),
    "gather": (lambda lib, a, b: (a * 1).gather(0, lib.tensor([0])), [[0], [2.0]]),
    "amax": (lambda lib, a, b: a.amax(0, keepdim=True), [[2.0], [2.0]]),
    "dot": (lambda lib, a, b: lib.dot(a, b), [[2.0], [3.0]]),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_h126_order_of_packing(lib: ModuleType, name: str) -> None:
    call, order = PRODUCTS[name]
    a, b = leaves(lib)
    log = Log(lib)
    with log.hooks:
        call(lib, a, b)
    assert log.taken("pack") == order


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("wanted", ["a", "b", "ab", "none"])
def test_h127_order_of_unpacking(lib: ModuleType, wanted: str, create: bool) -> None:
    a, b = leaves(lib)
    log = Log(lib)
    with log.hooks:
        y = a * b
    if wanted == "none":
        y.grad_fn.register_prehook(lambda grads: (None,))
    inputs = [tensor for name, tensor in (("a", a), ("b", b)) if name in wanted or wanted == "none"]
    lib.autograd.grad(y.sum(), inputs, create_graph=create, allow_unused=True)
    assert log.taken("unpack") == [[3.0], [2.0]]


def test_h128_order_of_derivatives(lib: ModuleType) -> None:
    a, b = leaves(lib)
    ga, gb = lib.autograd.grad((a * b).sum(), (a, b), create_graph=True)
    seen: list[str] = []
    ga.register_hook(lambda g: seen.append("a"))
    gb.register_hook(lambda g: seen.append("b"))
    (ga * ga + gb * gb).sum().backward()
    assert seen == ["a", "b"]


@pytest.mark.parametrize(
    ("function", "packed", "second"),
    [
        (lambda lib, x: x**3, 2, 72.0),
        (lambda lib, x: 2.0**x, 2, 2 * 8 * 0.480453),
        (lambda lib, x: lib.nn.functional.softplus(x, beta=2.0), 1, None),
        (lambda lib, x: lib.nn.functional.elu(x, alpha=2.0), 0, None),
    ],
)
def test_h129_numbers_under_create_graph(
    lib: ModuleType, function: Any, packed: int, second: float | None
) -> None:
    shapes: list[Any] = []

    def pack(tensor: Any) -> Any:
        shapes.append(tuple(tensor.shape))
        return 2 * tensor

    x = lib.full((1,), 3.0, requires_grad=True)
    y = function(lib, x).sum()
    with lib.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        (g,) = lib.autograd.grad(y, x, create_graph=True)
    assert set(shapes) <= {(1,)}
    (again,) = lib.autograd.grad(g.sum(), x)
    if second is not None:
        assert again.item() == pytest.approx(second, rel=1e-5)


# --- what hooks of nodes see ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("join", ["cat", "stack"])
@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("wanted", [None, 0, 2])
def test_h130_gradients_that_nobody_needs(
    lib: ModuleType, join: str, create: bool, wanted: int | None
) -> None:
    a, b = leaves(lib)
    parts = [a, lib.ones(1), b]
    y = getattr(lib, join)(parts)
    seen: list[Any] = []

    def doubled(inputs: Any, outputs: Any) -> Any:
        seen.extend(None if g is None else g.tolist() for g in inputs)
        return tuple(g * 2 for g in inputs)

    y.grad_fn.register_hook(doubled)
    weight = lib.tensor([1.0, 2.0, 3.0]).reshape(tuple(y.shape))
    if wanted is None:
        lib.autograd.backward(y, weight, create_graph=create)
        assert (a.grad.tolist(), b.grad.tolist()) == ([2.0], [6.0])
    else:
        (g,) = lib.autograd.grad(y, parts[wanted], weight, create_graph=create)
        assert g.tolist() == [2.0 * (1 + wanted)]
    assert seen == [[1.0], [2.0], [3.0]]
    a.grad = b.grad = None


def test_h131_var_mean_is_one_node(lib: ModuleType) -> None:
    x = lib.tensor([1.0, 2.0, 6.0], requires_grad=True)
    var, mean = lib.var_mean(x)
    assert (var.grad_fn is mean.grad_fn, var.output_nr, mean.output_nr) == (True, 0, 1)
    seen: list[Any] = []
    var.grad_fn.register_prehook(lambda grads: seen.append([None if g is None else g.item() for g in grads]))
    mean.backward(retain_graph=True)
    (var * 2 + mean * 3).backward()
    assert seen == [[None, 1.0], [2.0, 3.0]]
    assert x.grad.tolist() == pytest.approx([4 / 3 + 2 * (v - 3) for v in (1, 2, 6)])


# --- classes of nodes ---------------------------------------------------------------------------------------------


def test_h132_classes_of_nodes(lib: ModuleType) -> None:
    class Twice(lib.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    a, b = leaves(lib)
    y = a * b
    leaf = y.grad_fn.next_functions[0][0]
    base = a * 1
    base[0] = b[0]
    nodes = [y.grad_fn, leaf, y.exp().grad_fn, Twice.apply(a).grad_fn, base.grad_fn]
    names = ["MulBackward0", "AccumulateGrad", "ExpBackward0", "TwiceBackward", "CopySlices"]
    assert [type(node).__name__ for node in nodes] == names
    assert all(isinstance(node, lib.autograd.graph.Node) for node in nodes)
    assert all(issubclass(type(node), lib.autograd.graph.Node) for node in nodes)
    assert type((a * a).grad_fn) is type(y.grad_fn) is not type(y.exp().grad_fn)
    assert repr(y.grad_fn).startswith("<MulBackward0 object at 0x")
    assert repr(leaf).startswith("<AccumulateGrad object at 0x")
    assert leaf.name() == "torch::autograd::AccumulateGrad"
    assert "grad_fn=<CopySlices>" in repr(base)
    with pytest.raises((TypeError, AttributeError)):
        type(y.grad_fn)()


def test_h133_saved_attributes_are_listed(lib: ModuleType) -> None:
    a, b = leaves(lib)
    nodes = {
        (a * b).grad_fn: ["self", "other"], (a**b).grad_fn: ["self", "exponent", "result"],
        a.exp().grad_fn: ["result"], lib.dot(a, b).grad_fn: ["self", "tensor"],
        lib.nn.functional.mse_loss(a, b).grad_fn: ["self", "target"], a.max(0)[0].grad_fn: ["indices"],
    }  # fmt: skip
    for node, names in nodes.items():
        for name in names:
            assert {f"_saved_{name}", f"_raw_saved_{name}"} <= set(dir(node))
            assert getattr(node, f"_saved_{name}") is not None
    assert (a * b).grad_fn._saved_self is a
    assert not hasattr(a.exp().grad_fn, "_saved_other")
