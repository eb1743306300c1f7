"""Calls of ops as the library's own functions make them, with operands and integers that no function would give."""

from __future__ import annotations

import random

from fastgrad.native.host.tables import OPS

SMALL = (0, 1, 2, 3, 4, 5, 8, -1)
WILD = (
    *SMALL,
    15,
    63,
    64,
    255,
    1 << 20,
    1 << 31,
    -(1 << 31),
    1 << 40,
    -(1 << 40),
    1 << 62,
    (1 << 63) - 1,
    -(1 << 63),
)
SIZES = (
    "()",
    "(0,)",
    "(3,)",
    "(2, 3)",
    "(3, 3)",
    "(3, 2)",
    "(0, 3)",
    "(2, 3, 4)",
    "(2, 2, 3, 3)",
    "(4, 0, 2, 1)",
)
TENSORS = (
    "fg.ones({0}, requires_grad=True)", "fg.ones({0})", "fg.ones({0}, dtype=fg.float64)", "fg.ones({0}, dtype=fg.int64)",
    "fg.zeros({0}, dtype=fg.int64)", "fg.ones({0}, dtype=fg.bool)", "fg.ones({0}).mT.mT", "fg.ones(1).expand({0})", "None",
)  # fmt: skip
FEW, MANY = (1, 2, 3, 6), (8, 16, 24)


def draw(rng: random.Random) -> list[str]:
    """Calls of one op."""
    op = rng.choice(OPS)
    return ["from fastgrad.native.build.loader import rt", *(_call(rng, op) for _ in range(6))]


def _call(rng: random.Random, op: object) -> str:
    """A call of an op, and a pass through what it gives."""
    some = rng.choice(FEW if rng.random() < 0.7 else MANY)
    n = some if op.inputs and op.inputs[-1].startswith("*") else len(op.inputs)
    alike = rng.choice(SIZES)
    operands = [
        rng.choice(TENSORS).format(alike if rng.random() < 0.8 else rng.choice(SIZES)) for _ in range(n)
    ]
    declared = sum(not name.startswith("*") for name in op.attrs)
    more = rng.choice((0, 1, 3, 5, 9, 14)) if declared < len(op.attrs) else 0
    choices = SMALL if rng.random() < 0.5 else WILD
    integers = [str(rng.choice(choices)) for _ in range(declared + more)]
    outputs = rng.choice((0, 0, 0, -1, 1, 2, declared + more - 1))
    given = ", ".join([str(op.id), str(n), str(outputs), *operands, *integers])
    return f"r = rt.apply({given})\nfor y in r if isinstance(r, tuple) else (r,):\n    y.requires_grad and y.numel() < 9999 and y.sum().backward()"
