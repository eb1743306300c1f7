"""Runs a program with a library and writes down what happens."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

from tests.autograd.random_programs.features import queue_callback
from tests.autograd.random_programs.functions import functions
from tests.autograd.random_programs.program import (
    Apply,
    Forget,
    Hook,
    Leaf,
    Program,
    Register,
    Remove,
    Root,
    Statement,
    Step,
    Sweep,
)

DEPTH = 2  # of passes within passes
EVENTS = 3000  # after which hooks no longer start passes
WORDS = 5  # of a message

# Messages that both libraries have, in one form or another: fastgrad's begin with the op and end with what to do.
SAID = {
    "modified by an inplace operation": "modified in place",
    "backward through the graph a second time": "a second time",
    "appears to not have been used in the graph": "not used",
    "does not require grad": "no such root or input",
    "can't retain_grad on Tensor that has requires_grad=False": "no such root or input",
    "grad can be implicitly created only for": "no such root or input",
}


class StopError(Exception):
    """Raised by hooks."""


class Seen(NamedTuple):
    """A tensor as a log has it."""

    dtype: str
    shape: tuple[int, ...]
    requires_grad: bool
    values: tuple[float, ...]


def seen(value: Any) -> Any:
    """Tensors, also within tuples and lists, as they are now."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)):
        return tuple(seen(v) for v in value)
    values = value.detach().clone().reshape(-1).tolist()  # a clone: torch has zeros without memory
    return Seen(str(value.dtype).split(".")[-1], tuple(value.shape), value.requires_grad, tuple(values))


def told(error: BaseException, words: int) -> str:
    """An exception's class and the gist of its message, or the message's first words."""
    text = re.sub(r"\bfastgrad\.", "torch.", str(error))
    for part, gist in SAID.items():
        if part in text and words:
            return f"{type(error).__name__}: {gist}"
    return f"{type(error).__name__}: {' '.join(re.findall(r'[^ ,:;]+', text)[:words])}"


class Run:
    """One program in one library; `log` is what can be compared."""

    def __init__(self, lib: ModuleType, program: Program) -> None:
        self.lib = lib
        self.log: list[tuple[Any, ...]] = []
        self.tensors: dict[str, Any] = {}
        self.leaves: list[str] = []
        self.handles: dict[int, Any] = {}
        self.nodes: list[Any] = []  # a leaf's node and its hooks live as long as somebody holds it
        self.kept: list[Any] = []
        self.grads: dict[str, Any] = {}
        self.depth = 0
        self.filtered: list[bool] = []
        self.stopped: set[int] = set()
        self.functions = functions(self) if hasattr(lib.autograd, "Function") else SimpleNamespace()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for k, statement in enumerate(program.statements):
                words = (
                    0 if isinstance(statement, Apply) else WORDS
                )  # ops word their errors each in its own way
                self.guarded(f"{k}: {type(statement).__name__}", lambda s=statement: self.perform(s), words)
        self.clear()

    def clear(self) -> None:
        """Drop everything; hooks reach tensors through this object, so no cycle outlives the run."""
        for tensor in self.tensors.values():
            tensor.grad = None
        self.tensors.clear()
        self.handles.clear()
        self.nodes.clear()
        self.kept.clear()
        self.grads.clear()
        self.functions = SimpleNamespace()

    def guarded(self, name: str, function: Callable[[], None], words: int = WORDS) -> None:
        try:
            function()
        except Exception as error:
            self.log.append((name, told(error, words)))

    # --- statements -------------------------------------------------------------------------------------------

    def perform(self, statement: Statement) -> None:
        match statement:
            case Leaf():
                self.leaf(statement)
            case Apply():
                self.apply(statement)
            case Register(hook):
                self.register(hook)
            case Remove(number):
                if number in self.handles:
                    self.handles[number].remove()
            case Forget(name, grad):
                if grad and name in self.tensors:
                    self.tensors[name].grad = None
                elif name not in self.leaves:
                    self.forget(name)
            case Sweep():
                self.sweep(statement)
                self.report(statement)

    def forget(self, name: str) -> None:
        if name in self.tensors:
            self.tensors[name].grad = None  # with create_graph it may hold the tensor
            del self.tensors[name]

    def leaf(self, leaf: Leaf) -> None:
        dtype = getattr(self.lib, leaf.dtype)
        tensor = self.lib.tensor([float(v) for v in leaf.values], dtype=dtype).reshape(leaf.shape)
        self.tensors[leaf.name] = tensor.detach().clone().requires_grad_(leaf.requires_grad)
        self.leaves.append(leaf.name)

    def apply(self, op: Apply) -> None:
        if any(name not in self.tensors for name in op.ins):
            return
        scope = {name: self.tensors[name] for name in op.ins} | {"lib": self.lib, "F": self.functions}
        with self.context(op.within):
            if not op.outs:
                version = scope[op.ins[0]]._version
                exec(op.code, scope)
                result = scope[op.ins[0]]
                self.log.append((op.code, result._version - version, result.is_leaf, seen(result)))
                return
            result = eval(op.code, scope)
        results = result if isinstance(result, (tuple, list)) else (result,)
        for name, tensor in zip(op.outs, results, strict=True):
            self.tensors[name] = tensor
            self.log.append((name, tensor.is_leaf, tensor.output_nr, seen(tensor)))

    def context(self, name: str) -> AbstractContextManager[Any]:
        if name == "no_grad":
            return self.lib.no_grad()
        if name == "kept":
            return self.lib.autograd.graph.saved_tensors_hooks(lambda t: t.detach(), lambda p: p)
        if name == "packed":
            return self.lib.autograd.graph.saved_tensors_hooks(self.pack, self.unpack)
        return nullcontext()

    def pack(self, tensor: Any) -> Any:
        self.log.append(("pack", seen(tensor)))
        return tensor.detach().reshape(-1).tolist(), tuple(tensor.shape), tensor.dtype

    def unpack(self, packed: Any) -> Any:
        values, shape, dtype = packed
        self.log.append(("unpack", Seen(str(dtype).split(".")[-1], shape, False, tuple(values))))
        return self.lib.tensor(values, dtype=dtype).reshape(shape)

    # --- hooks ------------------------------------------------------------------------------------------------

    def node(self, tensor: Any) -> Any:
        node = tensor.grad_fn
        if node is None:
            with self.lib.enable_grad():
                node = tensor.expand_as(tensor).grad_fn.next_functions[0][0]
        self.nodes.append(node)
        return node

    def register(self, hook: Hook) -> None:
        if any(name not in self.tensors for name in hook.targets):
            return
        targets = [self.tensors[name] for name in hook.targets]
        for t in targets:
            t.grad_fn  # a view's node may be out of date until it is read
        handle = None
        match hook.kind:
            case "tensor":
                handle = targets[0].register_hook(lambda g: self.fire(hook, g, g))
            case "retain":
                targets[0].retain_grad()
            case "post accumulate":
                handle = targets[0].register_post_accumulate_grad_hook(
                    lambda t: self.fire(hook, t, t.grad, t is self.tensors.get(hook.targets[0]))
                )
            case "node pre" | "leaf pre":
                handle = self.node(targets[0]).register_prehook(lambda go: self.fire(hook, go, go))
            case "node post" | "leaf post":
                node = self.node(targets[0])
                edges = tuple(follows is not None for follows, _ in node.next_functions)
                handle = node.register_hook(lambda gi, go: self.post(hook, gi, go, edges))
            case "multi all" | "multi any":
                handle = self.lib.autograd.graph.register_multi_grad_hook(
                    targets, lambda grads: self.fire(hook, None, grads), mode=hook.kind.split()[1]
                )
        if handle is not None:
            self.handles[hook.id] = handle

    def post(self, hook: Hook, inputs: Any, outputs: Any, edges: tuple[bool, ...]) -> Any:
        # Which gradients that nobody asked for a node computes all the same is its own affair.
        if hook.late:
            return self.fire(hook, inputs)
        shown = "-"
        if hook.edges and not self.filtered[-1]:
            shown = tuple(g for g, edge in zip(inputs, edges, strict=True) if edge)
        return self.fire(hook, inputs, shown, outputs)

    def fire(self, hook: Hook, replaceable: Any, *shown: Any) -> Any:
        self.log.append((f"h{hook.id} {hook.kind}", self.lib.is_grad_enabled(), *map(seen, shown)))
        if len(self.log) < EVENTS:
            for step in hook.steps:
                self.step(hook, step, replaceable)
        return self.returned(hook.result, replaceable)

    def step(self, hook: Hook, step: Step, value: Any) -> None:
        tensor = self.tensors.get(step.argument) if isinstance(step.argument, str) else None
        match step.verb:
            case "remove":
                if step.argument in self.handles:
                    self.handles[step.argument].remove()
            case "add":
                if hook.id not in self.stopped:
                    self.stopped.add(hook.id)
                    self.guarded(f"h{hook.id} add", lambda: self.register(step.argument))
            case "stop":
                raise StopError("from a hook")
            case "once stop":
                if hook.id not in self.stopped:
                    self.stopped.add(hook.id)
                    raise StopError("from a hook, once")
            case "keep":
                if value is not None and hook.kind != "node post":
                    self.kept.append(value)
            case "look":
                self.log.append(("look", self.gradients()))
            case "callback":
                queue_callback(self.lib)(lambda: self.callback(hook, step.argument))
            case "clear" | "retain" | "forget" | "nested" | "nested grad" | "rejoin" if tensor is not None:
                self.on_tensor(hook, step, tensor)

    def on_tensor(self, hook: Hook, step: Step, tensor: Any) -> None:
        match step.verb:
            case "clear":
                tensor.grad = None
            case "retain":
                tensor.grad_fn
                tensor.retain_grad()
            case "forget":
                if step.argument not in self.leaves:
                    self.forget(step.argument)
            case "nested" | "nested grad" | "rejoin":
                self.guarded(f"h{hook.id} {step.verb}", lambda: self.nested(step.verb, tensor))

    def nested(self, kind: str, tensor: Any) -> None:
        """A pass from within a hook: over a graph of its own, or over the program's."""
        if self.depth > DEPTH:
            return
        ones = self.lib.ones_like(tensor).detach()
        if kind == "rejoin":
            self.started(False, lambda: tensor.backward(ones, retain_graph=True))
            return
        with self.lib.enable_grad():
            loss = (tensor * 2).sum()
        if kind == "nested":
            self.started(False, loss.backward)
        else:
            (grad,) = self.started(True, lambda: self.lib.autograd.grad(loss, [tensor]))
            self.log.append(("nested grad", seen(grad)))

    def callback(self, hook: Hook, kind: object) -> None:
        self.log.append((f"h{hook.id} callback", self.lib.is_grad_enabled(), self.gradients()))
        if kind == "stop":
            raise StopError("from a callback")
        if kind == "again":
            queue_callback(self.lib)(lambda: self.callback(hook, "log"))
        if kind == "nested":
            self.nested("nested", self.tensors[self.leaves[0]])

    def returned(self, kind: str, value: Any) -> Any:
        """What a hook gives back: `value` is its gradient, or the tuple of them, or the leaf."""
        if kind == "None":
            return None
        if kind == "same":
            return value
        if kind == "wrong":
            return value * 1
        if kind == "5":
            return 5
        if isinstance(value, tuple):
            return self.returned_tuple(kind, value)
        return None if value is None else self.replaced(kind, value)

    def returned_tuple(self, kind: str, value: tuple[Any, ...]) -> Any:
        match kind:
            case "list":
                return list(value)
            case "short":
                return value[:-1]
            case "long":
                return (*value, None)
            case "all None":
                return tuple(None for _ in value)
            case "equal":
                return (*value,)  # equal, not identical
            case "fill":
                return tuple(self.lib.ones(2) if v is None else v for v in value)
            case "first":
                return value[0] if value else self.lib.ones(2)
        return tuple(None if v is None else self.replaced(kind, v) for v in value)

    def replaced(self, kind: str, g: Any) -> Any:
        if kind == "0":
            return g * 0
        other = self.lib.float32 if g.dtype is self.lib.float64 else self.lib.float64
        names = set(re.findall(r"t\d+", kind))
        if not names <= set(self.tensors):
            return None
        return eval(kind, {"g": g, "other": other, **{name: self.tensors[name] for name in names}})

    # --- passes -----------------------------------------------------------------------------------------------

    def started(self, filtered: bool, function: Callable[[], Any]) -> Any:
        self.filtered.append(filtered)
        self.depth += 1
        try:
            return function()
        finally:
            self.depth -= 1
            self.filtered.pop()

    def handed(self, root: Root) -> Any:
        tensor = self.tensors[root.name]
        return self.lib.autograd.graph.get_gradient_edge(tensor) if root.edge else tensor

    def seed(self, root: Root) -> Any:
        if root.seed is None:
            return None
        tensor = self.tensors[root.name]
        values = [float(v) for v in root.seed]
        return self.lib.tensor(values, dtype=tensor.dtype).reshape(tuple(tensor.shape))

    def sweep(self, one: Sweep) -> None:
        if any(r.name not in self.tensors for r in one.roots + one.inputs):
            return
        roots = [self.handed(r) for r in one.roots]
        seeds = [self.seed(r) for r in one.roots]
        inputs = [self.handed(r) for r in one.inputs]
        options = {"retain_graph": one.retain, "create_graph": one.create}
        filtered = bool(one.inputs)
        if not one.grad:
            options["inputs"] = inputs or None
            with self.context(one.within):
                self.started(filtered, lambda: self.lib.autograd.backward(roots, seeds, **options))
            return
        options |= {"allow_unused": one.unused or one.materialize, "materialize_grads": one.materialize}
        with self.context(one.within):
            grads = self.started(filtered, lambda: self.lib.autograd.grad(roots, inputs, seeds, **options))
        self.log.append(("grad", seen(grads)))
        self.tensors |= {name: g for name, g in zip(one.outs, grads, strict=True) if g is not None}

    def gradients(self) -> tuple[Any, ...]:
        """Each tensor's `grad`."""
        found = []
        for name, tensor in self.tensors.items():
            if tensor.is_leaf or tensor.retains_grad:
                grad = tensor.grad
                if grad is not None:
                    found.append((name, tensor.retains_grad, seen(grad)))
        return tuple(found)

    def report(self, one: Sweep) -> None:
        self.log.append(("grads", self.lib.is_grad_enabled(), self.gradients()))
        for name in self.leaves:
            grad = self.tensors[name].grad
            if grad is not None and self.grads.get(name) is not None:
                self.log.append((name, "same grad", grad is self.grads[name]))
            self.grads[name] = grad
        if self.kept:
            self.log.append(("kept", *map(seen, self.kept)))
        self.kept.clear()  # torch's next accumulation may write to them
