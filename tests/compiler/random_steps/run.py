"""Runs a program eagerly and compiled, and compares."""

from __future__ import annotations

import contextlib
import itertools
import random
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import fastgrad as fg
from fastgrad import nn
from fastgrad.compiler import recordings
from fastgrad.compiler.fusion.fusing import FusedTape, Report
from tests.compiler.random_steps.draw import Program
from tests.compiler.random_steps.world import HOOKS, WIDTH, World, seen


def _left_as_it_is(tape: Any, is_wanted: Any) -> FusedTape:
    n = tape.n_entries
    return FusedTape(list(range(n)), Report(n, n, (), (), ()), None)


@contextlib.contextmanager
def without_fusion() -> Iterator[None]:
    """Let what is recorded stay as it is: no kernels have to be compiled."""
    before = recordings.fuse_tape
    recordings.fuse_tape = _left_as_it_is
    try:
        yield
    finally:
        recordings.fuse_tape = before


class Arguments:
    """What a program is called with; changes between calls are the same in both worlds."""

    def __init__(self) -> None:
        self.n, self.number, self.mode, self.extra_number = 3, 2.0, "a", 1.5
        self.wants, self.how, self.grad, self.autocast = False, "", True, False
        self.dtype = fg.float32
        self.handles: list[Any] = []

    def make(self, world: World, k: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Those of a call."""
        fg.manual_seed(1000 + k)
        x, y = fg.randn(self.n, WIDTH), fg.randn(self.n, WIDTH)
        if self.how == "strides":
            x = fg.randn(WIDTH, self.n).t()
        elif self.how == "alias":
            y = x
        elif self.how == "overlap":
            base = fg.randn(self.n + 1, WIDTH)
            x, y = base[:-1], base[1:]
        elif self.how == "view of a parameter":
            y = world.leaves[0].detach()[: self.n]
        if self.wants and x.is_leaf and not x._is_view():
            x.requires_grad_()
        extra = {"k": self.extra_number, "t": (fg.ones(WIDTH), "text")}
        return (x, y), {"number": self.number, "mode": self.mode, "extra": extra}

    def change(self, what: str, number: int, world: World) -> None:
        """Change what a program sees."""
        rng = random.Random(number)
        if what in ("strides", "alias", "view of a parameter", "overlap"):
            self.how = what if self.how != what else ""
            self.n = min(self.n, WIDTH) if what == "view of a parameter" else self.n
        elif what == "size":
            self.n = rng.randrange(1, 6) if self.how != "view of a parameter" else self.n
        elif what == "empty":
            self.n = 0
        elif what == "mode":
            self.mode = rng.choice(["a", None, "b", True])
        elif what == "extra":
            self.extra_number = rng.choice([1, 1.0, True, 0.0, -0.0])
        elif what == "argument wants":
            self.wants = not self.wants
        elif what == "no grad":
            self.grad = not self.grad
        elif what == "autocast":
            self.autocast = not self.autocast
        elif what == "number":
            self.number = world.number = rng.choice([2.0, 2, -0.0, 0.0, 7.25, True])
        else:
            self.change_world(what, rng, world)

    def change_world(self, what: str, rng: random.Random, world: World) -> None:
        """Change what a program reaches otherwise than by its arguments."""
        module = rng.choice([*world.model.modules(), world.block])
        leaf = rng.choice(world.leaves)
        if what == "flag":
            world.flag = not world.flag
        elif what == "table":
            world.table["a"] = rng.choice([2.0, 2, 0.5])
        elif what == "train":
            module.train(not module.training)
        elif what == "add hook":
            self.handles.append(world.add_hook(module, rng.choice(list(HOOKS)), rng.random() < 0.5))
        elif what == "remove hook" and self.handles:
            self.handles.pop().remove()
        elif what == "leaf hook" and leaf.requires_grad:
            leaf.register_hook(world.noted("late", rng.choice(["look", "scale"])))
        elif what == "parameter":
            fg.manual_seed(rng.randrange(100))
            world.block.linear.weight = nn.Parameter(fg.randn(WIDTH, WIDTH))
            world.tensors.append(world.block.linear.weight)
        elif what == "freeze":
            world.block.w.requires_grad_(not world.block.w.requires_grad)
        elif what == "in place":
            with fg.no_grad():
                leaf.mul_(-1)
        elif what in ("no grads", "zero grads"):
            for t in world.tensors:
                if t.grad is not None:
                    t.grad = None if what == "no grads" else t.grad * 0
        elif what == "dtype":
            world.table["b"][1] = rng.choice([0.5, 1])


def outcome(call: Any, program: Program, arguments: Arguments, world: World, k: int) -> Any:
    """All that can be seen of a call."""
    args, keywords = arguments.make(world, k)
    tensors = [*world.tensors, *args]
    fg.manual_seed(k)
    modes = fg.autocast("cpu", dtype=fg.bfloat16) if arguments.autocast else contextlib.nullcontext()
    try:
        with fg.set_grad_enabled(arguments.grad), modes:
            result = call(*args, **keywords)
        found = [result] if not isinstance(result, dict) else list(result.values())
        flat = [t for v in found for t in (v if isinstance(v, (tuple, list)) else [v])]
        wants = [isinstance(t, fg.Tensor) and t.requires_grad for t in flat]
        if program.form == "forward" and any(wants):  # all of it: hooks see zeros behind what is not used
            sum(t.sum() for t, w in zip(flat, wants, strict=True) if w).backward()
        keep = [t for t in flat if isinstance(t, fg.Tensor) and t.retains_grad]
        result = seen(flat), wants, seen([t.grad for t in keep])
    except Exception as error:
        result = type(error).__name__, str(error).split("\n")[0][:60]
    log, leaves = list(world.log), []
    world.log.clear()
    if program.form == "forward":  # hooks of leaves come behind the node of a compiled computation
        leaves = [e for e in log if e[0].startswith(("leaf", "late"))]
        log = [e for e in log if e not in leaves]
    grads = [seen(t.grad) for t in tensors]
    for t in args:
        t.grad = None  # gradients with a history hold what they are gradients of
    return {
        "result": result, "log": log, "leaves": leaves, "grads": grads, "values": seen(tensors),
        "drawn": seen(fg.rand(1)), "versions": [t._version for t in tensors],
    }  # fmt: skip


class Difference(NamedTuple):
    """Where the two part."""

    call: int
    what: str
    eager: Any
    compiled: Any

    def __str__(self) -> str:
        sides = self.eager, self.compiled
        if all(isinstance(side, (list, tuple)) for side in sides):  # the first item that is not the same
            pairs = itertools.zip_longest(*sides, fillvalue="nothing")
            sides = next(pair for pair in pairs if pair[0] != pair[1])
        return f"call {self.call}: {self.what}\n  eager    {sides[0]}\n  compiled {sides[1]}"


def numbers_of(value: Any) -> Any:
    """What was written down, with numbers in place of their texts."""
    if isinstance(value, (tuple, list)):
        return [numbers_of(v) for v in value]
    if isinstance(value, str) and value.startswith(("[", "-", *"0123456789")):
        with contextlib.suppress(Exception):
            return eval(value, {"nan": float("nan"), "inf": float("inf")})
    return value


def near(a: Any, b: Any) -> bool:
    """Equal but for rounding."""
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or abs(a - b) <= 1e-3 * max(1.0, abs(a)) or (a != a and b != b)
    return type(a) is type(b) and a == b


def check(program: Program, fused: bool = False) -> tuple[Difference | None, int]:
    """Run a program eagerly and compiled; where they part, and how many calls were replayed."""
    worlds = [World(program.seed), World(program.seed)]
    calls: list[Any] = []
    for world in worlds:
        scope = dict(world.scope)
        exec(compile(program.source, "<program>", "exec"), scope)
        calls.append(scope["step"])
    compiled = calls[1] = fg.compile(calls[1])
    arguments = [Arguments(), Arguments()]
    of_strides = ".t()" in program.source or any(what == "strides" for what, _ in program.changes)
    strided = program.form == "forward" and of_strides
    # gradients with a history are summed in another order, and those of outputs are laid as these are
    rounded = fused or strided or "create_graph" in program.source
    found = None
    with warnings.catch_warnings(), contextlib.nullcontext() if fused else without_fusion():
        warnings.simplefilter("ignore")
        for k, (what, number) in enumerate(program.changes):
            for side in range(2):
                arguments[side].change(what, number, worlds[side])
            sides = [outcome(calls[s], program, arguments[s], worlds[s], k) for s in range(2)]
            for name in sides[0] if found is None else ():
                a, b = (side[name] for side in sides)
                if a != b and not (rounded and near(numbers_of(a), numbers_of(b))):
                    found = Difference(k, f"{name} after {what}", a, b)
                    break
    for t in (t for world in worlds for t in world.tensors):
        t.grad = None
    return found, sum(s.n_replayed for s in fg.compile.explain(compiled).signatures)
