"""Rows for matrix products."""

from __future__ import annotations

import operator as op
from typing import Any

import numpy as np

from .common import (
    FLOATS,
    NUMBERS,
    ErrorCase,
    OpCase,
    Sample,
    bracketed,
    function,
    method,
    normal,
    ones,
    operator,
    quiet,
)

VECTORS = (((3,), (3,)), ((1,), (1,)))
MATRIX_VECTOR = (((2, 3), (3,)), ((4, 1), (1,)))
MATRICES = (((2, 3), (3, 4)), ((1, 3), (3, 1)), ((3, 2), (2, 3)))
BATCHES = (((2, 2, 3), (2, 3, 2)), ((1, 2, 2), (1, 2, 3)))
BROADCAST = (
    ((3,), (3, 2)),
    ((2, 2, 3), (3,)),
    ((3,), (2, 3, 2)),
    ((2, 2, 3), (3, 2)),
    ((2, 3), (2, 3, 2)),
    ((2, 1, 2, 3), (2, 3, 2)),
    ((2, 1, 2, 2), (1, 3, 2, 1)),
)
EMPTIES = (((0, 3), (3, 2)), ((2, 0), (0, 3)), ((2, 0), (0,)), ((0, 2, 3), (3, 2)), ((2, 3), (3, 0)))


def pairs(shapes: Any) -> Any:
    return lambda rng, dtype: [Sample((normal(rng, a, dtype), normal(rng, b, dtype))) for a, b in shapes]


def zeros(shapes: Any) -> Any:
    return lambda dtype: [Sample((np.zeros(a, dtype), np.zeros(b, dtype))) for a, b in shapes]


@quiet
def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    wide = np.float64 if a.dtype.kind == "f" else a.dtype
    return np.asarray(a.astype(wide) @ b.astype(wide)).astype(a.dtype)


def infinities(dtype: str) -> list[Sample]:
    if dtype not in FLOATS:
        return []
    values = np.array([[1, np.inf, 0], [np.nan, 2, 3], [1, 2, 3]], dtype)
    return [Sample((values, np.array([[1, 0], [1, 2], [0, -1]], dtype)))]


def different_dtypes(name: str, a: Any, b: Any) -> ErrorCase:
    arrays = (ones(*a), ones(*b, dtype="float64"))
    return ErrorCase(
        "dtypes",
        RuntimeError,
        function(name),
        arrays,
        (name, "dtype", "float32|[Ff]loat", "float64|[Dd]ouble"),
    )


def mismatch(name: str, a: Any, b: Any, label: str = "shapes") -> ErrorCase:
    return ErrorCase(
        label, RuntimeError, function(name), (ones(*a), ones(*b)), (name, bracketed(*a), bracketed(*b))
    )


def row(name: str, shapes: Any, errors: list[ErrorCase], **options: Any) -> OpCase:
    forms = {"method": method(name)} | options.pop("forms", {})
    return OpCase(
        name,
        function(name),
        pairs(shapes),
        product,
        dtypes=NUMBERS,
        forms=forms,
        differentiable=True,
        errors=errors,
        tolerances={"float32": (1e-5, 1e-5), "float64": (1e-12, 1e-13)},
        **options,
    )


CASES = [
    row(
        "matmul",
        VECTORS + MATRIX_VECTOR + MATRICES + BATCHES + BROADCAST,
        [
            mismatch("matmul", (2, 3), (2, 3)),
            mismatch("matmul", (3,), (2,), "vectors"),
            mismatch("matmul", (2, 2, 3), (3, 3, 2), "batches"),
            mismatch("matmul", (2, 3), (), "no dimensions"),
            different_dtypes("matmul", (2, 3), (3, 2)),
            ErrorCase("number", TypeError, operator(op.matmul), (ones(2, 3), 2), ("matmul|@", "int")),
            ErrorCase(
                "bool",
                NotImplementedError,
                function("matmul"),
                (ones(2, 2, dtype="bool"),) * 2,
                ("matmul", "[Bb]ool"),
            ),
        ],
        forms={"operator": operator(op.matmul)},
        special=infinities,
        empty=zeros(EMPTIES),
    ),
    row(
        "mm",
        MATRICES,
        [
            mismatch("mm", (2, 3), (2, 3)),
            mismatch("mm", (2, 2, 3), (3, 2), "dimensions"),
            different_dtypes("mm", (2, 3), (3, 2)),
        ],
        empty=zeros(EMPTIES[:2]),
    ),
    row(
        "bmm",
        BATCHES,
        [
            mismatch("bmm", (1, 2, 3), (2, 3, 2)),
            mismatch("bmm", (2, 3), (3, 2), "dimensions"),
            different_dtypes("bmm", (2, 2, 3), (2, 3, 2)),
        ],
        empty=zeros((((0, 2, 3), (0, 3, 2)), ((2, 2, 0), (2, 0, 3)))),
    ),
    row(
        "mv",
        MATRIX_VECTOR,
        [
            mismatch("mv", (2, 3), (2,)),
            mismatch("mv", (2, 3), (3, 1), "dimensions"),
            different_dtypes("mv", (2, 3), (3,)),
        ],
        empty=zeros((((0, 3), (3,)), ((2, 0), (0,)))),
    ),
    row(
        "dot",
        VECTORS,
        [
            mismatch("dot", (3,), (2,)),
            mismatch("dot", (2, 3), (2, 3), "dimensions"),
            different_dtypes("dot", (3,), (3,)),
        ],
        empty=zeros((((0,), (0,)),)),
    ),
]
