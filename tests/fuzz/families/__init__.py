"""The kinds of cases, each in a module with a function ``draw(rng)`` that gives statements."""

from __future__ import annotations

import importlib
import random

from tests.fuzz.case import Case, valid

FAMILIES = (
    "arguments",
    "names",
    "calls",
    "hooks",
    "lifetimes",
    "subclasses",
    "threads",
    "fork",
    "signals",
    "files",
    "cache",
)


def draw(family: str, seed: int) -> Case:
    """The case of a family and a seed."""
    module = importlib.import_module(f"tests.fuzz.families.{family}")
    steps = tuple(
        module.numbered(seed)
        if hasattr(module, "numbered")
        else module.draw(random.Random(f"{family}:{seed}"))
    )
    if wrong := [step for step in steps if not valid(step)]:
        raise ValueError(f"{family}:{seed} has statements that are no Python: {wrong}")
    return Case(family, seed, steps)
