"""Rows for operands of different dtypes: which dtype the result has."""

from __future__ import annotations

import operator as op
from itertools import product
from typing import Any

import numpy as np

from .arithmetic import POW_TOLERANCES, floor_quotient, power
from .common import (
    DTYPES,
    INTS,
    NUMBERS,
    OpCase,
    Sample,
    b8,
    elementwise,
    function,
    operator,
    positive,
)
from .elementwise import where_ref


def mixed_samples(dtypes: tuple[str, ...]) -> Any:
    """Every ordered pair of dtypes, with dimensions on both sides or on one, and Python numbers."""

    def samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
        rows = []
        for a, b in product(dtypes, repeat=2):
            for shape_a, shape_b in (((3,), (3,)), ((3,), ()), ((), (3,))):
                rows.append(Sample((positive(rng, shape_a, a), positive(rng, shape_b, b))))
        for a in dtypes:
            for shape in ((3,), ()):
                rows += [Sample((positive(rng, shape, a), value)) for value in (True, 2, 1.5)]
        return rows

    return samples


def tensors_only(samples: Any) -> Any:
    return lambda rng, dtype: [s for s in samples(rng, dtype) if len(s.arrays()) == 2]


def alternate(*arrays: Any) -> np.ndarray:
    return where_ref(b8([True, False, True]), *arrays)


CASES = [
    OpCase(
        "add.mixed",
        function("add"),
        mixed_samples(DTYPES),
        elementwise(np.add),
        ("mixed",),
        differentiable=True,
    ),
    OpCase(
        "sub.mixed",
        function("sub"),
        tensors_only(mixed_samples(NUMBERS)),
        elementwise(np.subtract),
        ("mixed",),
        differentiable=True,
    ),
    OpCase(
        "mul.mixed",
        operator(op.mul),
        mixed_samples(DTYPES),
        elementwise(np.multiply),
        ("mixed",),
        differentiable=True,
    ),
    OpCase(
        "div.mixed",
        operator(op.truediv),
        mixed_samples(DTYPES),
        elementwise(np.true_divide, result="float"),
        ("mixed",),
        differentiable=True,
    ),
    OpCase(
        "pow.mixed",
        operator(op.pow),
        mixed_samples(NUMBERS),
        power,
        ("mixed",),
        differentiable=True,
        # torch takes the logarithm of a float32 base in float32 where the power is float64.
        tolerances=POW_TOLERANCES | {"float64": (1e-7, 1e-8)},
    ),
    OpCase(
        "floor_divide.mixed",
        operator(op.floordiv),
        mixed_samples(NUMBERS),
        elementwise(floor_quotient, wide=False),
        ("mixed",),
    ),
    OpCase(
        "remainder.mixed",
        operator(op.mod),
        mixed_samples(NUMBERS),
        elementwise(np.remainder, wide=False),
        ("mixed",),
        tolerances={"float32": (1e-5, 1e-6)},
    ),
    OpCase(
        "lt.mixed", operator(op.lt), mixed_samples(DTYPES), elementwise(np.less, result="bool"), ("mixed",)
    ),
    OpCase(
        "eq.mixed", operator(op.eq), mixed_samples(DTYPES), elementwise(np.equal, result="bool"), ("mixed",)
    ),
    OpCase(
        "bitwise_and.mixed",
        operator(op.and_),
        tensors_only(mixed_samples((*INTS, "bool"))),
        elementwise(np.bitwise_and),
        ("mixed",),
    ),
    OpCase(
        "maximum.mixed",
        function("maximum"),
        tensors_only(mixed_samples(DTYPES)),
        elementwise(np.maximum),
        ("mixed",),
        differentiable=True,
    ),
    OpCase(
        "where.mixed",
        lambda lib, a, b: lib.where(lib.tensor([True, False, True]), a, b),
        mixed_samples(DTYPES),
        alternate,
        ("mixed",),
        differentiable=True,
    ),
]
