"""Threads that use the same tensors, graphs, hooks and modules; large ops let others run in their middle."""

from __future__ import annotations

import random

from tests.fuzz.scene import START, Scene

KINDS = {"op": 40, "register": 6, "in place": 18, "pass": 20, "look": 3, "drop": 8, "keep": 4, "call": 4, "module": 5}

# With these sizes an op lets go of the lock. The second dimension stays, so that the ops of scenes fit.
LARGE = 60_000


def draw(rng: random.Random) -> list[str]:
    scene = Scene(rng, KINDS, given=())
    steps = [*START, *scene.ops(2, 5), "m = nn.Linear(3, 3)", "o = fg.optim.SGD([a, b], lr=0.1)"]
    for _ in range(rng.randint(2, 4)):
        steps.append(scene.callback(("None",), least=1, most=5))
    functions = [rng.choice(scene.functions) for _ in range(rng.randint(2, 4))]
    steps.append(f"in_threads({', '.join(functions)})")
    if rng.random() < 0.3:
        steps.append(f"in_threads(lambda: in_child({functions[0]}), {', '.join(functions)})")
    if rng.random() < 0.6:
        steps = [s.replace("ones(2, 3", f"ones({LARGE}, 3").replace("(2, 3)", f"({LARGE}, 3)") for s in steps]
    return [*steps, *(f"use({t})" for t in "abc")]
