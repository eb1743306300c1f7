"""Random small graphs with random hooks, the same program in fastgrad and torch: same events and results."""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fastgrad as fg

pytestmark = pytest.mark.parity

LEAVES = 3


class StopError(Exception):
    """Raised by hooks."""


class Op(NamedTuple):
    kind: str
    first: int
    second: int


class Hook(NamedTuple):
    target: int
    kind: str
    action: str
    other: int  # the tensor or hook that the action is about
    factor: float


class Pass(NamedTuple):
    roots: tuple[int, ...]
    inputs: tuple[int, ...] | None  # for `autograd.grad`
    through: bool  # `inputs` are those of `backward` instead
    retain: bool
    create: bool


class Program(NamedTuple):
    ops: tuple[Op, ...]
    hooks: tuple[Hook, ...]
    passes: tuple[Pass, ...]


OPS = (
    "mul", "add", "exp", "tanh", "matmul", "sum", "sum0", "mean", "unbind", "t", "flat", "first",
    "unsqueeze", "cat", "stack",
    "square", "scale",
)  # fmt: skip
KINDS = ("tensor", "tensor", "retain", "pre", "post", "accumulate")
ACTIONS = ("observe", "observe", "scale", "remove", "add", "add node", "none", "raise", "wrong", "identical")
place = st.integers(0, 11)

programs = st.builds(
    Program,
    st.lists(st.builds(Op, st.sampled_from(OPS), place, place), min_size=1, max_size=9).map(tuple),
    st.lists(
        st.builds(
            Hook,
            place,
            st.sampled_from(KINDS),
            st.sampled_from(ACTIONS),
            place,
            st.sampled_from([0.5, 2.0, -3.0]),
        ),
        max_size=8,
    ).map(tuple),
    st.lists(
        st.builds(
            Pass,
            st.lists(place, min_size=1, max_size=3).map(tuple),
            st.none() | st.lists(st.integers(0, LEAVES - 1), min_size=1, max_size=2, unique=True).map(tuple),
            st.booleans(),
            st.booleans(),
            st.booleans(),
        ),
        min_size=1,
        max_size=2,
    ).map(tuple),
)


# --- running a program -------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Tensors as nested lists, within tuples as well."""
    if isinstance(value, tuple):
        return tuple(plain(v) for v in value)
    return None if value is None else value.detach().tolist()


def new_tensors(lib: ModuleType, op: Op, tensors: list[Any]) -> list[Any]:
    """What an instruction adds; nothing where shapes do not allow it."""
    a, b = tensors[op.first % len(tensors)], tensors[op.second % len(tensors)]
    n, m = len(a.shape), len(b.shape)
    match op.kind:
        case "mul" | "add":
            try:
                np.broadcast_shapes(tuple(a.shape), tuple(b.shape))
            except ValueError:
                return []
            return [a * b if op.kind == "mul" else a + b]
        case "exp":
            return [(a * 0.1).exp()]
        case "tanh":
            return [a.tanh()]
        case "matmul":
            fits = n == m == 2 and a.shape[1] == b.shape[0]
            return [a @ b] if fits else []
        case "sum":
            return [a.sum()]
        case "sum0":
            return [a.sum(0)] if n else []
        case "mean":
            return [a.mean()]
        case "unbind":
            return list(a.unbind(0)) if n and a.shape[0] <= 4 else []
        case "t":
            return [a.t()] if n == 2 else []
        case "flat":
            return [a.reshape(-1)]
        case "first":
            return [a[0]] if n else []
        case "unsqueeze":
            return [a.unsqueeze(0)] if n < 3 else []
        case "cat":
            return [lib.cat([a, b], 0)] if n and n == m and a.shape[1:] == b.shape[1:] else []
        case "stack":
            return [lib.stack([a, b], 0)] if a.shape == b.shape and n < 3 else []
        case "square":
            return [a * a]
        case "scale":
            return [a * 2]
    raise AssertionError(op.kind)


class Run:
    """One program in one library; `log` is what can be compared."""

    def __init__(self, lib: ModuleType, program: Program) -> None:
        self.lib = lib
        self.log: list[Any] = []
        self.filtered = False
        self.handles: list[Any] = []
        self.nodes: list[Any] = []  # a leaf's node and its hooks live as long as somebody holds it
        rng = np.random.default_rng(0)
        self.tensors = [
            lib.tensor(rng.normal(size=shape), requires_grad=True) for shape in ((2, 2), (2, 2), (2,))
        ]
        for op in program.ops:
            self.tensors += new_tensors(lib, op, self.tensors)
        for k, hook in enumerate(program.hooks):
            self.guarded(f"register {k}", lambda k=k, hook=hook: self.register(k, hook))
        for k, one in enumerate(program.passes):
            self.guarded(f"pass {k}", lambda k=k, one=one: self.sweep(k, one))
            self.log.append((f"mode after {k}", lib.is_grad_enabled()))
            self.log.append((f"grads after {k}", tuple(plain(t.grad) for t in self.readable())))
        self.tensors.clear()  # hooks reach tensors through this object: no cycle outlives the run
        self.handles.clear()
        self.nodes.clear()

    def readable(self) -> list[Any]:
        return [t for t in self.tensors if t.is_leaf or t.retains_grad]

    def guarded(self, name: str, function: Callable[[], None]) -> None:
        try:
            function()
        except Exception as error:
            self.log.append((name, type(error).__name__))

    def at(self, index: int) -> Any:
        return self.tensors[index % len(self.tensors)]

    def node(self, tensor: Any) -> Any:
        node = tensor.grad_fn
        if node is None:
            with self.lib.enable_grad():
                node = tensor.view(tuple(tensor.shape)).grad_fn.next_functions[0][0]
        self.nodes.append(node)
        return node

    def register(self, k: int, hook: Hook) -> None:
        tensor = self.at(hook.target)
        match hook.kind:
            case "retain":
                tensor.retain_grad()
                handle = None
            case "tensor":
                handle = tensor.register_hook(lambda g: self.act(k, hook, g, g))
            case "pre":
                handle = self.node(tensor).register_prehook(lambda go: self.act(k, hook, go, go))
            case "post":
                handle = self.node(tensor).register_hook(lambda gi, go: self.act(k, hook, gi, gi, go))
            case "accumulate":
                handle = tensor.register_post_accumulate_grad_hook(
                    lambda t: self.act(k, hook, None, t, t.grad)
                )
        self.handles.append(handle)

    def act(self, k: int, hook: Hook, replace: Any, *seen: Any) -> Any:
        if self.filtered and hook.kind == "post":
            seen = seen[
                1:
            ]  # which gradients that nobody asked for a node computes all the same is its own affair
        self.log.append(
            (k, hook.kind, hook.action, tuple(plain(v) for v in seen), self.lib.is_grad_enabled())
        )
        match hook.action:
            case "scale":
                if isinstance(replace, tuple):
                    return tuple(None if v is None else v * hook.factor for v in replace)
                return None if replace is None else replace * hook.factor
            case "remove":
                handle = self.handles[hook.other % len(self.handles)]
                if handle is not None:
                    handle.remove()
            case "add":
                self.at(hook.other).register_hook(lambda g: self.log.append((k, "added", plain(g))))
            case "add node":
                self.node(self.at(hook.other)).register_prehook(
                    lambda go: self.log.append((k, "added node", plain(go)))
                )
            case "none":
                return tuple(None for _ in replace) if isinstance(replace, tuple) else None
            case "raise":
                raise StopError
            case "wrong":
                return 5
            case "identical":
                return replace
        return None

    def sweep(self, k: int, one: Pass) -> None:
        loss = sum(self.at(r).sum() for r in one.roots)
        self.filtered = one.inputs is not None
        if one.inputs is None:
            loss.backward(retain_graph=one.retain)
            return
        inputs = [self.tensors[i] for i in one.inputs]
        if one.through:
            loss.backward(retain_graph=one.retain, inputs=inputs)
            return
        grads = self.lib.autograd.grad(
            loss, inputs, retain_graph=one.retain, create_graph=one.create, allow_unused=True
        )
        self.log.append((f"result {k}", tuple(plain(g) for g in grads)))
        if one.create and any(g is not None and g.requires_grad for g in grads):
            second = sum((g * g).sum() for g in grads if g is not None and g.requires_grad)
            more = self.lib.autograd.grad(second, inputs, retain_graph=one.retain, allow_unused=True)
            self.log.append((f"second {k}", tuple(plain(g) for g in more)))


# --- comparison --------------------------------------------------------------------------------------------


def same(a: Any, b: Any) -> bool:
    """Equal structure, numbers up to rounding."""
    if isinstance(a, float) and isinstance(b, float):
        return bool(np.isclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True))
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and a == b


@pytest.fixture(scope="module")
def torch():
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    gc.freeze()
    return torch


@settings(
    max_examples=200, deadline=None, derandomize=True, print_blob=False,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(program=programs)
def test_same_events_gradients_and_errors(torch: ModuleType, program: Program):
    ours, theirs = Run(fg, program).log, Run(torch, program).log
    for k, (mine, other) in enumerate(zip(ours, theirs, strict=False)):
        assert same(mine, other), f"event {k}: fastgrad {mine}, torch {other}"
    assert len(ours) == len(theirs), (ours[len(theirs) :], theirs[len(ours) :])


NODES: dict[str, Callable[[ModuleType, Any], Any]] = {
    "add": lambda lib, x: x + x,
    "add a number": lambda lib, x: x + 2,
    "multiply by a number": lambda lib, x: x * 2,
    "divide": lambda lib, x: x / (x + 2),
    "exp": lambda lib, x: x.exp(),
    "maximum": lambda lib, x: lib.maximum(x, x * 2),
    "sum": lambda lib, x: x.sum(),
    "mean": lambda lib, x: x.mean(),
    "amax": lambda lib, x: x.amax(1),
    "softmax": lambda lib, x: lib.softmax(x, 1),
    "log_softmax": lambda lib, x: lib.log_softmax(x, 1),
    "mm": lambda lib, x: x @ x,
    "view": lambda lib, x: x.view(4),
    "transpose": lambda lib, x: x.transpose(0, 1),
    "unsqueeze": lambda lib, x: x.unsqueeze(0),
    "expand": lambda lib, x: x.expand(3, 2, 2),
    "select": lambda lib, x: x[0],
    "slice": lambda lib, x: x[:1],
    "unbind": lambda lib, x: x.unbind(0)[1],
    "cat": lambda lib, x: lib.cat([x, x * 2, x]),
    "stack": lambda lib, x: lib.stack([x, x]),
    "clone": lambda lib, x: x.clone(),
    "to float32": lambda lib, x: x.to(lib.float32),
}


@pytest.mark.parametrize("name", NODES)
def test_nodes_have_the_same_names_and_edges(torch: ModuleType, name: str):
    found = []
    for lib in (fg, torch):
        x = lib.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=lib.float64, requires_grad=True)
        node = NODES[name](lib, x).grad_fn
        found.append((node.name(), [(n and n.name(), k) for n, k in node.next_functions]))
    assert found[0] == found[1]
