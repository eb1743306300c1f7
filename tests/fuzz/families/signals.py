"""Ctrl-C and the recursion limit at any moment of a pass."""

from __future__ import annotations

import random

from tests.fuzz.scene import START, Scene

KINDS = {"op": 40, "register": 10, "in place": 4, "pass": 25, "look": 4, "call": 8}

MEANWHILE = (
    "{t}.sum().backward(retain_graph=True)", "fg.autograd.grad({t}.sum(), a, retain_graph=True, allow_unused=True)",
    "fg.autograd.grad(({t} * a).sum(), a, create_graph=True)", "(a * b).exp().sum().backward()", "a.grad = None",
    "with fg.no_grad():\n    {t} * 2", "with fg.no_grad():\n    a.add_(1)", "m(d).sum().backward()", "fg.rand(3).tolist()",
    "with graph.saved_tensors_hooks(lambda x: x, lambda x: x):\n    (a * b).sum().backward()", "gc.collect()",
    "fg.utils.checkpoint.checkpoint(m, d, use_reentrant=False).sum().backward()", "repr({t})", "copy.deepcopy({t})",
    "Twice.apply(a).sum().backward()", "o.step()", "pickle.loads(pickle.dumps({t}.detach()))", "fg.cat([{t}, {t}])",
)  # fmt: skip


def draw(rng: random.Random) -> list[str]:
    scene = Scene(rng, KINDS)
    steps = [
        *START,
        "m = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))",
        "o = fg.optim.SGD([a, b], lr=0.1)",
    ]
    if rng.random() < 0.5:
        steps += [scene.callback(("None", "args[0]", "args[0] * 2"))]
    steps += [scene.statement() for _ in range(rng.randint(2, 6))]
    loop = [scene.filled(rng.choice(MEANWHILE)) for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.3:
        depth = rng.randint(2, 60)
        return [*steps, *(f"at_depth({depth}, lambda: {text})" for text in loop if not text.startswith("with")
                          and " = " not in text)]  # fmt: skip
    body = "\n".join(loop)
    name = scene.fresh("f")
    steps.append(f"def {name}():\n" + "\n".join(f"    {line}" for line in body.splitlines()))
    return [
        *steps,
        *(
            f"interrupted({name}, {rng.choice((1, 3, 10, 30, 100, 300))}e-5)"
            for _ in range(rng.randint(5, 40))
        ),
    ]
