"""Threads that use the same tensors, graphs, hooks and modules; large ops let others run in their middle."""

from __future__ import annotations

import random

from tests.fuzz.scene import START, Scene

KINDS = {
    "op": 30,
    "register": 6,
    "in place": 14,
    "pass": 20,
    "look": 3,
    "drop": 6,
    "keep": 4,
    "call": 4,
    "module": 5,
}

# With so many rows an op lets other threads run. The second dimension is as in all scenes, so that their ops fit.
ROWS = 60_000

# Statements over a tensor `{s}` that may be changed in place, another one, and leaves with a graph: those that work
# on its memory, those that take it away from under them, and those that notice.
WORKS = (
    "{s}.add_(1)", "{s}.mul_({s})", "{s}.copy_({r})", "{s} + {r}", "{s}.sum().item()", "{s}.exp()", "{s}.uniform_()",
    "{s}.softmax(-1)", "{s}.sort()", "{s}.numpy()[:] = 1", "{s}[0] = 1.0", "{s}.view(-1).add_(1)", "fg.cat([{s}, {r}])",
    "{s}.zero_()", "F.layer_norm({s}, (3,), c, c)", "F.linear({s}, m.weight)", "{s}.sum(0)", "{s}.clone().add_({r})",
    "{s}.t() @ {r}", "{s}.cumsum(0)", "m({s}).sum().backward()", "fg.autograd.grad((a * {s}).sum(), a)",
    "z.backward(retain_graph=True)", "fg.autograd.grad(z, [a, b], retain_graph=True)", "(a * b).sum().backward()",
    "o.step()", "a.grad.zero_()",
)  # fmt: skip
TAKES_AWAY = (
    "{s}.data = fg.ones(2, 3)", "{s}.data = fg.ones(2, 3)", "{s}.data = fg.ones(5)", "{s}.set_(fg.ones(4))",
    "{s}.data = {r}", "c.data = fg.ones(3)", "m.weight.data = fg.ones(3, 3)", "a.grad = None", "a.data = fg.ones(2, 3)",
    "h = a.register_hook(print); h.remove()", "kept.append({s}[1:]); kept.clear()", "y.register_hook(lambda g: g * 1)",
    "y.detach_()", "global {s}; {s} = fg.ones(2, 3)", "fg.debug.empty_cache()", "gc.collect()",
)  # fmt: skip
NOTICES = ("untouched(2, 3)", "untouched(7)")
ROLES = (WORKS, TAKES_AWAY, NOTICES)


def race(scene: Scene, victim: str, role: tuple[str, ...]) -> str:
    """The definition of a function of one or two statements of a role."""
    name = scene.fresh("f")
    texts = [
        scene.rng.choice(role).format(s=victim, r=scene.rng.choice("deg"))
        for _ in range(scene.rng.choice((1, 1, 2)))
    ]
    lines = sorted(
        (line for text in texts for line in text.split("; ")), key=lambda line: not line.startswith("global")
    )
    scene.functions.append(name)
    return f"def {name}():\n" + "\n".join(f"    {line}" for line in lines)


def draw(rng: random.Random) -> list[str]:
    scene = Scene(rng, KINDS, given=())
    steps = [*START, *scene.ops(1, 3), "m = nn.Linear(3, 3)", "o = fg.optim.SGD([a, b], lr=0.1)"]
    steps += ["e = fg.ones(2, 3)", "g = d.view(-1)", "y = a * b", "z = y.exp().sum()"]
    if rng.random() < 0.7:
        victim = rng.choice("ddeg")
        steps += [race(scene, victim, role) for role in ROLES]
    else:
        steps += [scene.callback(("None",), least=1, most=5) for _ in range(rng.randint(1, 3))]
    functions = [*scene.functions, *rng.choices(scene.functions, k=rng.randint(0, 2))]
    if rng.random() < 0.2:
        functions.append(f"lambda: in_child({functions[0]})")
    steps.append(f"in_threads({', '.join(functions)})")
    if rng.random() < 0.7:
        steps = [s.replace("(2, 3", f"({ROWS}, 3").replace("(7)", f"({ROWS * 3})") for s in steps]
    return [*steps, "use(a)", "use(b)", "use(d)"]
