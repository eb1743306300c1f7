"""Distances of order p between all rows of two matrices."""

from __future__ import annotations

import math

from fastgrad.native.contracts.element_types import WIDE
from fastgrad.native.contracts.frames.framed import CDIST, CDIST_BACKWARD
from fastgrad.native.contracts.ops import (
    CUBIC,
    FLOAT_ONLY,
    NOT_DIFFERENTIABLE,
    SHAPE_FRAMED,
    STRUCTURED,
)
from fastgrad.ops.call import float_of_bits, invoke, is_traced
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.registry import Op
from fastgrad.ops.shape import transpose
from fastgrad.ops.vocabulary import m

cdist = Op(
    "cdist", STRUCTURED, ("x1", "x2"), (*CDIST.names_of("integers"), "*outputs"),
    kernel=Kernel("cdist", "distances:build", frame=CDIST, dtypes=WIDE), forward=SHAPE_FRAMED, flags=FLOAT_ONLY | CUBIC,
    node="CdistBackward0", saved_as="x1 x2 -> result",
)  # fmt: skip
cdist_backward = Op(
    "cdist_backward", STRUCTURED, ("g", "x1", "x2", "y"), (*CDIST_BACKWARD.names_of("integers"), "*outputs"),
    kernel=Kernel("cdist_backward", "distances:backward", frame=CDIST_BACKWARD, dtypes=WIDE), forward=SHAPE_FRAMED,
    flags=FLOAT_ONLY | CUBIC | NOT_DIFFERENTIABLE,
)  # fmt: skip


def _slope(p, difference, y):
    """What a distance grows by with each difference; zero where the rows are equal."""
    sign, size = difference.sign(), difference.abs()
    if p == 0:
        return sign * 0.0
    if p == 1:
        return sign
    if p == math.inf:
        return m.where(size == y, sign, 0.0)
    apart = y != 0
    if p == 2:
        return m.where(apart, difference / m.where(apart, y, 1.0), 0.0)
    differs = difference != 0
    power = sign * m.where(differs, size, 1.0) ** (p - 1)
    return m.where(apart & differs, power / m.where(apart, y, 1.0) ** (p - 1), 0.0)


def _gradient(g, x1, x2, y, batch, n, k, m, order, count):
    """By the rows of the first side: one kernel, or what can be differentiated again."""
    if is_traced(g):
        return invoke(cdist_backward, (g, x1, x2, y), batch, n, k, m, order, 0, count, -2)
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    return (g.unsqueeze(-1) * _slope(float_of_bits(order), difference, y.unsqueeze(-1))).sum(-2)


@cdist.vjp("x1")
def _(g, x1, x2, y, batch, n, k, m, order, count):
    return _gradient(g, x1, x2, y, batch, n, k, m, order, count)


@cdist.vjp("x2")
def _(g, x1, x2, y, batch, n, k, m, order, others):
    turned = [invoke(transpose, (t,), -2, -1) for t in (g, y)]
    return _gradient(turned[0], x2, x1, turned[1], batch, k, n, m, order, others)
