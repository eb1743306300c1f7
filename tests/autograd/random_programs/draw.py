"""Draws a program from a seed."""

from __future__ import annotations

import random
from collections.abc import Collection

from tests.autograd.random_programs import ops
from tests.autograd.random_programs.ops import Drawn, Scope, Value
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

SHAPES = ((), (2,), (3,), (2, 2), (2, 2), (2, 3), (3, 2), (1, 3), (2, 1, 2), (2, 2, 2), (1,), (0,), (2, 0))
FACTORS = ("0.5", "2.0", "-3.0")


def draw(source: int | random.Random, features: Collection[str] = ()) -> Program:
    """The program of a seed, or of a source of random numbers; it uses no more than the features."""
    rng = source if isinstance(source, random.Random) else random.Random(f"program {source}")
    return Drawing(rng, frozenset(features)).program()


class Drawing(Scope):
    def __init__(self, rng: random.Random, features: frozenset[str]) -> None:
        super().__init__(rng)
        self.features = features
        self.statements: list[Statement] = []
        self.nests = False  # a hook may start a pass of one root
        self.gathering = False  # a hook that waits for all of several tensors is there
        self.tensors = self.hooks = 0
        self.frozen: set[str] = set()  # leaves that require grad
        # How often this program does what stops a pass; most programs should get to their end.
        self.wild = rng.choice([0.0, 0.0, 0.05, 0.2])
        self.modes = rng.random() < 0.3  # draws operands that need no gradient, no_grad, packed tensors
        self.changing = rng.random() < 0.35  # in-place ops
        self.mixed = rng.random() < 0.2  # dtypes
        self.second = rng.random() < 0.6  # passes with create_graph
        self.nesting = rng.random() < 0.5  # passes within hooks
        self.positions = False  # something was indexed: nothing is packed from there on
        self.vectors = "products of vectors" in features
        if "function" not in features:
            self.without += ("F.",)
        if self.second and "derivative of relu" not in features:
            self.without += ("relu",)
        if self.second and "zeros of what is overwritten" not in features:
            self.without += ("{a}.fill_", "zero_", "copy_", "] =")
        if self.second and "zeros that cannot be written" not in features:
            self.without += ("abs",)
        if self.changing and "gradients with an offset" not in features:
            self.without += ("cat",)
        self.hooking = rng.choice([0.3, 0.7, 1.0])

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def program(self) -> Program:
        for _ in range(self.rng.randint(1, 4)):
            self.leaf()
        for _ in range(self.rng.randint(1, 12)):
            self.op()
            if self.chance(self.hooking):
                self.register()
        for _ in range(self.rng.randint(1, 5)):
            self.sweep()
            while self.chance(0.35):
                self.between()
        return Program(tuple(self.statements))

    def between(self) -> None:
        self.rng.choice([self.op, self.op, self.register, self.register, self.remove, self.forget])()

    def name(self) -> str:
        self.tensors += 1
        return f"t{self.tensors - 1}"

    def leaf(self) -> None:
        shape = self.rng.choice(SHAPES[: None if self.chance(0.1) else -2])
        dtype = "float32" if self.mixed and self.chance(0.5) else "float64"
        grad = not (self.modes and self.chance(0.25))
        value = Value(self.name(), shape, dtype, grad=grad, leaf=True)
        value.base = value.family = value.name
        value.reach = frozenset([value.name])
        numbers = tuple(self.rng.randint(-3, 3) for _ in range(value.size))
        if grad:
            self.frozen.add(value.name)
        self.statements.append(Leaf(value.name, shape, numbers, dtype, grad))
        self.values.append(value)

    # --- ops --------------------------------------------------------------------------------------------------

    def op(self) -> None:
        family = self.rng.choices(list(ops.FAMILIES), list(ops.FAMILIES.values()))[0]
        if self.changing and self.chance(0.3):
            drawn = ops.inplace(self, self.may_change, "in place with itself" in self.features)
            if drawn is not None and not self.may_change_through(drawn):
                return
        elif "function" in self.features and self.chance(0.15):
            drawn = ops.function(self)
        else:
            drawn = family(self)
        if drawn is not None:
            self.add(drawn)

    def may_change(self, value: Value) -> bool:
        if value.dtype == "int64" or (value.leaf and value.grad and not self.chance(self.wild)):
            return False
        if value.expanded and "expanded tensors in place" not in self.features:
            return False
        others = [v for v in self.values if v.base == value.base and v is not value]
        if (
            any(v.output_nr and v.retained for v in [*others, value])
            and "retained outputs" not in self.features
        ):
            return False
        if any(v.maybe for v in [*others, value]) and "results that are no views" not in self.features:
            return False
        if any(v.reshaped for v in [*others, value]) and "strides of results" not in self.features:
            return False
        if "views of several outputs after a change" not in self.features and any(
            v.multi for v in [*others, value]
        ):
            return False
        return "hooks of views" in self.features or not any(
            v.hooked for v in [*others, value] if v.base != v.name
        )

    def may_change_through(self, drawn: Drawn) -> bool:
        """Whether a change goes to the whole tensor, or hooks do not mind."""
        target = drawn.ins[0]
        if "freed after a change" not in self.features:
            made_from = {name.split(" ")[0] for v in drawn.ins[1:] for name in v.reach}
            if made_from & {v.name for v in [*self.values, target] if v.base == target.base}:
                return False
        drawn.view = "[" in drawn.code or target.base != target.name
        if "hooks of the base of a changed view" in self.features or not drawn.view:
            return True
        return not any(v.hooked for v in self.values if v.base == target.base)

    def add(self, drawn: Drawn) -> None:
        within = ""
        views = any(out.base for out in drawn.outs)
        if self.modes and self.chance(0.1) and (not views or "views without grad" in self.features):
            within = "no_grad"
        else:
            positions = "lib.tensor(" in drawn.code and ".gather(" not in drawn.code
            self.positions |= positions and "what indexing saves" not in self.features
            within = self.packing()
        outs = []
        for out in drawn.outs:
            out.name = self.name()
            out.base, out.family = out.base or out.name, out.family or out.name
            out.reach = frozenset([out.name])
            if within != "no_grad" and not drawn.code.endswith(".detach()"):
                out.reach = out.reach.union(*(v.reach for v in drawn.ins))
            out.grad = out.grad and within != "no_grad" and out.dtype != "int64"
            outs.append(out.name)
            if out.dtype != "int64":
                self.values.append(out)
        self.statements.append(Apply(tuple(outs), drawn.code, tuple(v.name for v in drawn.ins), within))
        refused = within != "no_grad" and drawn.ins[0].family in self.frozen
        if drawn.changes is not None and not refused and not drawn.ins[0].multi:
            self.changed(drawn, drawn.changes, within)

    def changed(self, drawn: Drawn, after: Value, within: str) -> None:
        reach = frozenset().union(*(v.reach for v in drawn.ins))
        alone = within == "no_grad" or not drawn.ins[0].grad
        if alone and "hooks of views" not in self.features:
            # A view's history is made anew after such a change too, and leads past the tensors that were made from it.
            self.values = [
                v for v in self.values if v.base != after.base or v.name in (after.base, after.name)
            ]
        for v in self.values:
            if v.base == after.base:
                v.bound, v.exact = max(v.bound, after.bound), v.exact and after.exact
            if v.family == after.family:
                if within != "no_grad":
                    v.reach |= reach | {f"{v.name} after {len(self.statements)}"}
                    v.leaf, v.output_nr = v.leaf and not after.grad, 0
                v.grad = v.grad or (after.grad and within != "no_grad")
                v.edges = False
                v.through = v.through or drawn.view
                v.renewed = within == "no_grad" and v.name != v.base and "hooks of views" not in self.features

    # --- hooks ------------------------------------------------------------------------------------------------

    def register(self) -> None:
        hook = self.hook(nested=False)
        if hook is not None:
            self.statements.append(Register(hook))

    def waits(self, value: Value) -> bool:
        """Whether the gradients of what was made from a tensor arrive where its hooks are from now on."""
        return value.grad and not value.renewed

    def hook(self, nested: bool) -> Hook | None:
        target = self.pick(lambda v: self.waits(v) or self.chance(self.wild * 0.2))
        if target is None or target.renewed:
            return None
        if nested and (target.multi or target.sibling) and "hooks added to a sibling" not in self.features:
            return None
        if target.through and "hooks of the base of a changed view" not in self.features:
            return None
        if target.leaf:
            kinds = ["tensor"] * 4 + ["post accumulate"] * 3 + ["leaf pre"]
            if not self.nesting or "gradients that become grad" in self.features:
                kinds += ["leaf post"]
            if self.chance(self.wild):
                kinds = ["retain"]
        else:
            kinds = ["tensor"] * 4 + ["retain", "node pre", "node pre", "node post", "node post"]
            if self.chance(self.wild * 0.3):
                kinds = ["post accumulate"]
        if target.indexed and "gradients of indices" not in self.features:
            kinds = [kind for kind in kinds if not kind.startswith("node")]
        if "multi grad hook" in self.features:
            kinds += ["multi all", "multi any"]
        kind = self.rng.choice(kinds)
        if kind.startswith("multi") and "multi hook and grad" not in self.features:
            kind = "multi any" if target.leaf or target.zeros else kind
        if kind == "multi all" and self.nests and "multi hook on the only root" not in self.features:
            kind = "multi any"
        targets = [target]
        if kind.startswith("multi"):
            for _ in range(self.rng.randint(0, 3)):
                more = self.pick(
                    lambda v: (
                        self.waits(v) and (kind == "multi any" or not (v.leaf or v.zeros) or target.leaf)
                    )
                )
                targets += [more] if more else []
        for v in targets:
            v.hooked = True
            v.retained = v.retained or kind == "retain"
        self.gathering = self.gathering or kind == "multi all"
        self.hooks += 1
        number = self.hooks - 1
        steps = () if nested else tuple(self.step(number) for _ in range(self.rng.choice([0, 0, 1, 1, 2])))
        if kind == "post accumulate" and (target.last or nested):
            kind = "tensor"
        result = self.result(kind, target)
        if result == "wrong" and "hooks after one that returns something else" not in self.features:
            target.last = True
        if not target.edges and kind == "node post":
            result = self.rng.choice(["None", "same"])
        late = nested and kind.endswith("post") and "late post hooks" not in self.features
        return Hook(number, kind, tuple(v.name for v in targets), steps, result, target.edges, late)

    def step(self, own: int) -> Step:
        verbs = ["remove", "remove", "add", "add", "clear", "look", "retain", "forget"]
        verbs += ["stop", "stop"]
        if not self.nesting or "gradients that become grad" in self.features:
            verbs += ["keep", "keep"]
        if self.nesting and not self.gathering:
            self.nests = True
            verbs += ["nested", "nested", "nested grad", "rejoin"]
        if "callback" in self.features:
            verbs += ["callback", "callback"]
        match self.rng.choice(verbs):
            case "remove":
                return Step("remove", own if self.chance(0.4) else self.rng.randint(0, own + 2))
            case "add":
                hook = self.hook(nested=True)
                return Step("look") if hook is None else Step("add", hook)
            case "stop":
                kind = "" if self.chance(self.wild * 2) else "once "
                return Step(f"{kind}stop" if self.chance(max(self.wild * 3, 0.1)) else "look")
            case "callback":
                return Step(
                    "callback",
                    "stop"
                    if self.chance(self.wild)
                    else self.rng.choice(
                        ["log", "again", *["nested"] * (self.nesting and not self.gathering)]
                    ),
                )
            case "clear" | "retain" | "forget" | "nested" | "nested grad" | "rejoin" as verb:
                value = self.pick(lambda v: v.grad and (v.leaf or verb not in ("clear", "nested")))
                if value is None or (verb == "retain" and value.renewed):
                    return Step("look")
                value.retained = value.retained or verb == "retain"
                return Step(verb, value.name)
            case verb:
                return Step(verb)

    def result(self, kind: str, target: Value) -> str:
        wild = self.chance(self.wild)
        match kind:
            case "tensor":
                if wild:
                    return self.rng.choice(["5", "(g,)", "g.sum()", "g[None]", "g.to(other)", "[g]"])
                choices = ["None", "None", "same", "g + 1", "g.clone()", "0"]
                choices += ["g.detach()"] if "gradients that become grad" in self.features else []
                choices += [f"g * {self.rng.choice(FACTORS)}"] * 4
                other = self.pick(lambda v: v.shape == target.shape and v.dtype == target.dtype)
                if other is not None and self.chance(0.4):
                    choices = [f"g * {other.name}"]
                return self.rng.choice(choices)
            case "node pre" | "node post" | "leaf pre":
                if wild:
                    return self.rng.choice(
                        ["5", "list", "short", "long", "g.sum()", "g.to(other)", "fill", "first"]
                    )
                scale = f"g * {self.rng.choice(FACTORS)}"
                return self.rng.choice(["None", "None", "same", scale, scale, scale, "all None", "equal"])
            case "leaf post":
                return "first" if wild else self.rng.choice(["None", "same"])
            case "post accumulate":
                return "wrong" if wild else self.rng.choice(["None", "None", "same"])
            case "multi all" | "multi any":
                return self.rng.choice(["None", "None", "5"])
        return "None"

    def remove(self) -> None:
        if self.hooks:
            self.statements.append(Remove(self.rng.randrange(self.hooks)))

    def forget(self) -> None:
        value = self.pick()
        if value is None:
            return
        grad = value.leaf and self.chance(0.7)
        self.statements.append(Forget(value.name, grad))
        if not grad and len(self.values) > 2:
            self.values.remove(value)

    # --- passes -----------------------------------------------------------------------------------------------

    def root(self) -> Root | None:
        value = self.pick(lambda v: v.grad or self.chance(self.wild * 0.2))
        if value is None:
            return None
        seed = None
        if value.shape or self.chance(0.2):
            seed = tuple(self.rng.randint(-2, 3) for _ in range(value.size))
            if self.chance(self.wild * 0.3):
                seed = None
        return Root(value.name, seed, self.edge())

    def edge(self) -> bool:
        return "gradient edge" in self.features and self.chance(0.2)

    def sweep(self) -> None:
        roots = tuple(
            r for r in (self.root() for _ in range(self.rng.choice([1, 1, 1, 2, 3]))) if r is not None
        )
        if not roots:
            return
        if len(roots) == 1 and self.gathering and "multi hook on the only root" not in self.features:
            roots += roots
        grad = self.chance(0.35)
        inputs = self.inputs() if grad or self.chance(0.25) else []
        if grad and not inputs:
            return
        if inputs and len(roots) > 1 and "roots that lead to no input" not in self.features:
            wanted = [self.latest(v) for v in inputs]
            reach = {v.name: v.reach for v in self.values}
            roots = tuple(r for r in roots if reach[r.name].intersection(wanted)) or roots[:1]
        # Whether a third derivative that is zero has a history depends on how the second one was written.
        order = max(v.order for v in self.values if v.name in {r.name for r in roots})
        create = self.second and not order and self.chance(0.6 if grad else 0.15)
        retain = self.rng.choice([None, True, True, True, False])
        outs = []
        if grad:
            outs = [self.name() for _ in inputs]
        for v in inputs:
            v.retained = v.retained or not grad
        self.statements.append(
            Sweep(
                roots,
                tuple(Root(v.name, None, self.edge()) for v in inputs),
                tuple(outs),
                retain,
                create,
                grad,
                unused=self.chance(0.9),
                materialize=grad
                and self.chance(0.1)
                and (not create or "zeros with history" in self.features),
                within=self.packing(),
            )
        )
        if create:
            for name, v in zip(outs, inputs, strict=False):
                new = Value(
                    name,
                    v.shape,
                    v.dtype,
                    50.0,
                    False,
                    base=name,
                    family=name,
                    edges=False,
                    expanded=True,
                    strided=True,
                    order=1,
                    zeros=self.statements[-1].materialize,
                )
                self.values.append(new)

    def packing(self) -> str:
        """A pair of saved-tensor hooks for a pass: what it creates goes through it."""
        if "saved tensors hooks" in self.features and self.modes and self.chance(0.3) and not self.positions:
            return self.rng.choice(["kept", "packed", "packed"])
        return ""

    def latest(self, value: Value) -> str:
        """How `reach` calls a tensor as it is now."""
        changes = [name for name in value.reach if name.startswith(f"{value.name} after ")]
        return max(changes, key=lambda name: int(name.rsplit(" ", 1)[1]), default=value.name)

    def inputs(self) -> list[Value]:
        leaves = self.rng.random() < 0.6
        found = [
            self.pick(lambda v: self.waits(v) and v.leaf is leaves) for _ in range(self.rng.randint(1, 3))
        ]
        values = list({v.name: v for v in found if v is not None}.values())
        if leaves or "capture before hooks" in self.features:
            if self.chance(0.5) and "capture before hooks" in self.features:
                values += [v for v in [self.pick(self.waits)] if v and v not in values]
            return values
        return values[:1]
