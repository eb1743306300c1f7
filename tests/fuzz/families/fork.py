"""Processes that fork, also in hooks and while other threads run, and whose children go on."""

from __future__ import annotations

import random

from tests.fuzz.scene import START, Scene

KINDS = {
    "op": 30,
    "register": 14,
    "in place": 8,
    "pass": 20,
    "look": 5,
    "drop": 8,
    "keep": 4,
    "call": 6,
    "module": 6,
}


def draw(rng: random.Random) -> list[str]:
    scene = Scene(rng, KINDS)
    steps = [*START, *scene.ops(2, 5), *scene.module(), scene.callback(), scene.callback()]
    inside = scene.fresh("f")
    steps.append(f"def {inside}(*args, **kwargs):\n    tick()\n    in_child({rng.choice(scene.functions)})")
    scene.functions += [inside] * 3
    for _ in range(rng.randint(4, 12)):
        steps.append(scene.statement())
    children = [
        f"in_child({rng.choice(scene.functions)}, {rng.choice(scene.functions)})"
        for _ in range(rng.randint(1, 2))
    ]
    if rng.random() < 0.3:
        children.append(f"in_threads({inside}, {', '.join(rng.choices(scene.functions, k=2))})")
    steps += [*children, f"{scene.tensor()}.sum().backward()"]
    return [
        f"{step[:-1]}, retain_graph=True)" if step.endswith("backward(create_graph=True)") else step
        for step in steps
    ]
