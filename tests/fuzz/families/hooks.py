"""Hooks of every kind that raise, return wrong things, change what they look at, add and remove hooks, run passes."""

from __future__ import annotations

import random

from tests.fuzz.scene import START, Scene

KINDS = {"op": 30, "register": 25, "in place": 8, "pass": 10, "look": 6, "drop": 8, "keep": 4, "call": 6, "module": 8,
         "wrong member": 3}  # fmt: skip


def draw(rng: random.Random) -> list[str]:
    scene = Scene(rng, KINDS)
    steps = [*START, *scene.ops(2, 5), *scene.module()]
    if rng.random() < 0.3:
        steps.append("o = fg.optim.Adam([a, b], lr=0.1)")
    for _ in range(rng.randint(1, 3)):
        steps.append(scene.callback())
    if rng.random() < 0.4:
        steps.append(scene.custom_function())
    for _ in range(rng.randint(4, 14)):
        steps.append(scene.statement())
    return [
        *steps,
        f"{scene.tensor()}.sum().backward(retain_graph=True)",
        f"{scene.tensor()}.sum().backward()",
    ]
