"""Random programs of operations that can and cannot be fused, over views that overlap, in place and not."""

from __future__ import annotations

import random

import pytest
from fusion_testing import Recorded, same

import fastgrad as fg

ROWS, COLUMNS = 12, 48
UNARY = ("tanh", "exp", "neg", "abs", "sigmoid", "square", "relu")
BINARY = ("add", "sub", "mul", "maximum", "minimum", "div")
IN_PLACE = ("add_", "mul_", "sub_")
REDUCTIONS = ("sum", "mean", "amax", "amin")


class Program:
    """Steps over a pool of values, drawn from a seed: the same each time it is called."""

    def __init__(self, seed: int, exact: bool) -> None:
        self.seed, self.exact = seed, exact

    def __call__(self, x, y, rows, columns, mask):
        draw = random.Random(self.seed)
        pool = [x, y, rows, columns, x[:, :COLUMNS], y[:, 1:], x * 0.5]
        for _ in range(draw.randint(3, 24)):
            self._step(draw, pool, mask)
        kept = [t for t in pool[6:] if draw.random() < 0.3]
        return tuple(kept) or (pool[-1],)

    def _step(self, draw: random.Random, pool: list, mask) -> None:
        kind = draw.choice(
            ("unary", "binary", "binary", "in place", "rows", "where", "number", "view", "product")
        )
        a, b = draw.choice(pool), draw.choice(pool)
        if kind == "unary":
            pool.append(tame(getattr(fg, draw.choice(UNARY))(a)))
        elif kind in ("binary", "in place"):
            names = BINARY if kind == "binary" else IN_PLACE
            if fits(a.shape, b.shape):
                name = draw.choice(names)
                if kind == "binary":
                    pool.append(tame(getattr(fg, name)(a, b)))
                elif tuple(broadcast(a.shape, b.shape)) == tuple(a.shape):
                    getattr(a, name)(b * 0.25)
        elif kind == "rows" and not self.exact and a.dim() == 2 and a.shape[1] > 1:
            pool.append(getattr(a, draw.choice(REDUCTIONS))(-1, keepdim=True) * 0.1)
        elif kind == "where" and fits(a.shape, mask.shape) and fits(b.shape, mask.shape):
            pool.append(fg.where(mask, a, b))
        elif kind == "number":
            pool.append(a * draw.choice((0.5, -1, 2)) + draw.choice((1, 0.25)))
        elif kind == "view" and a.dim() == 2:
            views = (
                lambda t: t[1:],
                lambda t: t[:-1],
                lambda t: t[:, ::2],
                lambda t: t.t(),
                lambda t: t[:, 1:],
            )
            pool.append(draw.choice(views)(a))
        elif kind == "product" and a.dim() == 2:
            pool.append((a @ a.t())[:, :1].tanh())


def tame(t):
    """What stays within numbers that programs can go on with."""
    return t.clamp(-4, 4)


def broadcast(a, b):
    longest = max(len(a), len(b))
    a, b = ([1] * (longest - len(s)) + list(s) for s in (a, b))
    return [m if n == 1 else n for m, n in zip(a, b, strict=True)]


def fits(a, b) -> bool:
    longest = max(len(a), len(b))
    a, b = ([1] * (longest - len(s)) + list(s) for s in (a, b))
    return all(m == n or 1 in (m, n) for m, n in zip(a, b, strict=True))


def inputs(dtype=None):
    mask = fg.rand(ROWS, COLUMNS) > 0.5
    tensors = [fg.randn(ROWS, COLUMNS), fg.randn(ROWS, COLUMNS), fg.randn(ROWS, 1), fg.randn(COLUMNS)]
    return [*(t.to(dtype or fg.float32) for t in tensors), mask]


def compare(program: Program, given, close: float) -> int:
    recorded = Recorded(program, given)
    expected = recorded.replay()
    recorded.replay(recorded.others)
    fused = recorded.fuse()
    for _ in range(2):
        for found, value in zip(recorded.replay(), expected, strict=True):
            same(found, value, close)
    return len(fused.report.fused)


@pytest.mark.parametrize("seed", range(40))
def test_elementwise_programs_give_the_same_bits(seed):
    fg.manual_seed(seed)
    compare(Program(seed, exact=True), inputs(), 0.0)


@pytest.mark.parametrize("seed", range(40, 80))
def test_programs_with_rows(seed):
    fg.manual_seed(seed)
    compare(Program(seed, exact=False), inputs(), 2e-4)


@pytest.mark.parametrize("seed", range(80, 92))
@pytest.mark.parametrize("dtype", [fg.float64, fg.bfloat16, fg.float16])
def test_programs_of_other_dtypes(seed, dtype):
    fg.manual_seed(seed)
    compare(Program(seed, exact=True), inputs(dtype), 0.0)
