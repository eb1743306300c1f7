"""Random trees of modules with random hooks, run in one library: what happens, event by event."""

from __future__ import annotations

import importlib
import math
import random
import warnings
from types import ModuleType
from typing import Any

KINDS = (
    "forward_pre_hook", "forward_hook", "full_backward_pre_hook", "full_backward_hook", "backward_hook",
)  # fmt: skip


def leaf_modules(lib: ModuleType) -> dict[str, Any]:
    """The kinds of modules, by name."""
    nn = lib.nn

    class Scale(nn.Module):
        def __init__(self, weight, trained):
            super().__init__()
            self.weight = nn.Parameter(lib.tensor(weight, dtype=lib.float64), requires_grad=trained)

        def forward(self, x, *, factor=1.0):
            return x * self.weight * factor

    class Split(nn.Module):
        def forward(self, x):
            return x * 2, x.exp() * 0.1, "not a tensor"

    class Merge(nn.Module):
        def forward(self, a, n, b):
            return (a * n + b).tanh()

    class Residual(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return x + self.inner(x)

    class Branch(nn.Module):
        def __init__(self, left, right):
            super().__init__()
            self.left, self.right = left, right

        def forward(self, x):
            return self.left(x) * self.right(x)

    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            self.split, self.merge = Split(), Merge()

        def forward(self, x):
            a, b, _ = self.split(x)
            return self.merge(a, 3, b)

    class Factor(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x, factor=0.5)

    class Within(nn.Module):
        """Its module within gets and gives tensors in containers as well."""

        def __init__(self, inner):
            super().__init__()
            self.inner, self.nested = inner, Nested()

        def forward(self, x):
            y = self.inner(x)
            a, (b, c), d, _ = self.nested(y, [x * 2, y], lib.ones(2, dtype=lib.float64), x)
            return a + b * 0.5 + c["c"] + d

    class Nested(nn.Module):
        def forward(self, x, pair, constant, unused):
            return x * pair[0], (pair[1].exp() * 0.1, {"c": x * constant}), constant, unused * 3

    class Constant(nn.Module):
        """Its module within gets nothing that requires grad."""

        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return x + self.inner(lib.ones(2, dtype=lib.float64))

    made = (Scale, Split, Merge, Residual, Branch, Parts, Factor, Within, Constant)
    return {kind.__name__: kind for kind in made} | {"Sequential": nn.Sequential}


class Run:
    """One program: a tree, hooks, and passes; all that is random comes from the seed."""

    def __init__(self, lib: ModuleType, seed: int) -> None:
        self.lib = lib
        self.rng = random.Random(seed)
        self.global_hooks = importlib.import_module(f"{lib.__name__}.nn.modules.module")
        self.kinds = leaf_modules(lib)
        self.log: list[Any] = []
        self.handles: list[Any] = []

    # --- drawing ------------------------------------------------------------------------------------------------

    def tree(self, depth: int) -> Any:
        """A module that maps two numbers to two."""
        r, make = self.rng, self.kinds
        kind = r.choice(("Scale", "Parts") if depth == 0 else tuple(make)[3:])
        if kind == "Scale":
            return make[kind]([r.uniform(0.5, 1.5), r.uniform(0.5, 1.5)], r.random() < 0.8)
        if kind == "Parts":
            return make[kind]()
        if kind == "Sequential":
            return make[kind](*(self.tree(depth - 1) for _ in range(r.randint(1, 3))))
        if kind == "Branch":
            left = self.tree(depth - 1)
            return make[kind](left, left if r.random() < 0.3 else self.tree(depth - 1))
        if kind == "Factor":
            return make[kind](make["Scale"]([r.uniform(0.5, 1.5)] * 2, True))
        return make[kind](self.tree(depth - 1))

    def hook(self, kind: str, name: str, owner: Any, options: dict[str, Any]) -> Any:
        """A hook that tells what it gets, and does something or nothing."""
        r = self.rng
        does = r.choice(
            ("nothing", "nothing", "replace", "replace", "same", "wrong", "remove", "register", "raise")
        )
        if does in ("raise", "wrong") and r.random() < 0.7:
            does = "nothing"
        if does in ("register", "remove") and options.get("always_call"):
            does = "nothing"  # PyTorch cannot while an exception leaves the call (see MD7)
        late = r.choice(KINDS[:4])

        def call(module, *args):
            self.log.append((name, kind, does, [self.plain(a) for a in args]))
            if does == "raise":
                raise ValueError(f"{name} {kind}")
            if does == "remove":
                handle.remove()
            elif does == "register" and owner is not None and len(self.handles) < 40:
                self.handles.append(getattr(owner, f"register_{late}")(self.teller(f"{name} late", late)))
            elif does in ("replace", "same", "wrong"):
                return self.answer(kind, options, does, args)
            return None

        where, prefix = (self.global_hooks, "register_module_") if owner is None else (owner, "register_")
        handle = getattr(where, prefix + kind)(call, **options)
        self.handles.append(handle)

    def teller(self, name: str, kind: str) -> Any:
        """A hook that only tells."""
        return lambda module, *args: self.log.append((name, kind, [self.plain(a) for a in args]))

    def answer(self, kind: str, options: dict[str, Any], does: str, args: Any) -> Any:
        """What a hook returns that replaces something, or returns the same."""
        scale = 1.5 if does == "replace" else None
        if does == "wrong":  # in number, or of one of them; also where there is no gradient
            grads = args[0] if "backward" in kind else ()
            wrong = self.lib.ones(3, dtype=self.lib.float64)
            return self.wrong_answers[len(self.log) % 3](grads, wrong) if kind in KINDS[2:4] else None

        def scaled(value):
            if isinstance(value, self.lib.Tensor):
                return value if scale is None else value * scale
            if isinstance(value, dict):
                return {k: scaled(v) for k, v in value.items()}
            return type(value)(map(scaled, value)) if isinstance(value, (tuple, list)) else value

        if kind == "forward_pre_hook":
            if options.get("with_kwargs"):
                return scaled(args[0]), {k: v * 2 for k, v in args[1].items()}
            return scaled(args[0])
        return scaled(args[-1] if kind == "forward_hook" else args[0])

    wrong_answers = (
        lambda grads, wrong: [*grads, wrong],
        lambda grads, wrong: (*grads[:-1], wrong),
        lambda grads, wrong: [wrong * 0 + 5 if g is None else g for g in grads],
    )

    def draw_hooks(self, model: Any) -> None:
        """Hooks on some modules, and a few global ones."""
        r = self.rng
        owners = [(name or "root", m) for name, m in model.named_modules()]
        for name, module in owners:
            deprecated = r.random() < 0.08
            for _ in range(r.choice((0, 0, 1, 1, 2, 3))):
                kind = r.choice(KINDS[:4])
                if deprecated and kind == "full_backward_hook":
                    kind = "backward_hook"
                options = {}
                if kind != "backward_hook" and r.random() < 0.3:
                    options["prepend"] = True
                if kind.startswith("forward") and r.random() < 0.3:
                    options["with_kwargs"] = True
                if kind == "forward_hook" and r.random() < 0.3:
                    options["always_call"] = True
                self.hook(kind, name, module, options)
        for _ in range(r.choice((0, 0, 0, 1, 2))):
            self.hook(r.choice(KINDS[:4]), "everywhere", None, {})

    # --- running ------------------------------------------------------------------------------------------------

    def plain(self, value: Any) -> Any:
        """A value as numbers."""
        if isinstance(value, self.lib.Tensor):
            return value.detach().tolist()
        if isinstance(value, (tuple, list)):
            return [self.plain(v) for v in value]
        return {k: self.plain(v) for k, v in value.items()} if isinstance(value, dict) else value

    def run(self) -> list[Any]:
        """The events."""
        model = self.tree(self.rng.randint(1, 3))
        self.draw_hooks(model)
        passes = [
            self.rng.choice(("backward", "inputs", "parameter", "grad", "twice", "second")) for _ in range(3)
        ]
        needs_grad = self.rng.random() < 0.8
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for kind in passes:
                    try:
                        self.one_pass(model, kind, needs_grad)
                    except Exception as error:
                        self.log.append(
                            (kind, type(error).__name__, str(error) if isinstance(error, ValueError) else "")
                        )
        finally:
            for handle in self.handles:
                handle.remove()
        self.log.append([(n, self.plain(p), self.plain(p.grad)) for n, p in model.named_parameters()])
        return self.log

    def one_pass(self, model: Any, kind: str, needs_grad: bool) -> None:
        """A call and what its pass leaves."""
        lib = self.lib
        x = lib.tensor([0.3, -0.7], dtype=lib.float64, requires_grad=needs_grad)
        x_used = x * 1.0
        out = model(x_used)
        self.log.append((kind, self.plain(out), out.requires_grad))
        parameters = [p for p in model.parameters() if p.requires_grad]
        if kind == "inputs" and parameters:
            out.sum().backward(inputs=parameters[:1])
        elif kind == "parameter" and parameters:
            self.log.append(self.plain(lib.autograd.grad(out.sum(), parameters[-1:], allow_unused=True)))
        elif kind == "grad" and needs_grad:
            self.log.append(self.plain(lib.autograd.grad(out.sum(), x)))
        elif kind == "second" and needs_grad:
            (g,) = lib.autograd.grad(out.sum(), x, create_graph=True)
            self.log.append("second")
            (g.sum() + out.sum()).backward()
        else:
            out.sum().backward(retain_graph=kind == "twice")
            if kind == "twice":
                out.sum().backward()
        self.log.append(self.plain(x.grad))


def alike(a: Any, b: Any) -> bool:
    """Whether two events are the same, up to rounding."""
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-12) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(alike(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(alike, a, b))
    return bool(a == b)
