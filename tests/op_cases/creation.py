"""Rows for tensors made from sizes, ranges and other tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .common import (
    DTYPES,
    ErrorCase,
    OpCase,
    Sample,
    empty_unary,
    function,
    normal,
    number,
)


def calls(*rows: Any) -> Callable[..., list[Sample]]:
    """Samples without tensors; a last dict of a row holds keyword arguments."""

    def sample(row: tuple[Any, ...]) -> Sample:
        *args, last = row if row and isinstance(row[-1], dict) else (*row, {})
        return Sample(tuple(args), last)

    return lambda rng, dtype: [sample(row) for row in rows]


def every_dtype(*args: Any) -> list[Any]:
    return [(*args, {"dtype": dtype}) for dtype in DTYPES]


def default_dtype(*values: Any) -> str:
    return "float32" if any(isinstance(v, float) for v in values) else "int64"


def of_sizes(value: int) -> Callable[..., np.ndarray]:
    def ref(*sizes: Any, dtype: str = "float32", requires_grad: bool = False) -> np.ndarray:
        return np.full(sizes[0] if sizes and isinstance(sizes[0], (tuple, list)) else sizes, value, dtype)

    return ref


def full(size: Any, fill_value: Any, dtype: str | None = None) -> np.ndarray:
    own = "bool" if isinstance(fill_value, bool) else default_dtype(fill_value)
    return np.full(size, fill_value).astype(dtype or own)


def arange(*bounds: Any, dtype: str | None = None, **keywords: Any) -> np.ndarray:
    start, end, step = {1: (0, *bounds, 1), 2: (*bounds, 1), 3: bounds}[len(bounds)]
    step = keywords.get("step", step)
    count = math.ceil((end - start) / step)
    return (start + np.arange(count) * step).astype(dtype or default_dtype(start, end, step))


def eye(n: int, m: int | None = None, dtype: str = "float32") -> np.ndarray:
    return np.eye(n, m, dtype=dtype)


def linspace(start: float, end: float, steps: int, dtype: str = "float32") -> np.ndarray:
    return np.linspace(start, end, steps).astype(dtype)


def fails(name: str, label: str, raises: type[Exception], *args: Any, mentions: tuple[str, ...]) -> ErrorCase:
    return ErrorCase(label, raises, function(name), args, (name, *mentions))


def size_errors(name: str) -> list[ErrorCase]:
    return [
        fails(name, "negative", RuntimeError, -1, mentions=("negative|size", "-1|dimension|Dimension")),
        fails(name, "float", TypeError, 2.5, mentions=("size", "float")),
    ]


SIZES = (
    ((2, 3),),
    (2, 3),
    ([2, 3],),
    (4,),
    ((),),
    (0,),
    ((2, 0),),
    (2, {"requires_grad": True}),
    *every_dtype((2, 2)),
)

FILLED = [
    OpCase("zeros", function("zeros"), calls(*SIZES), of_sizes(0), ("mixed",), errors=size_errors("zeros")),
    OpCase("ones", function("ones"), calls(*SIZES), of_sizes(1), ("mixed",), errors=size_errors("ones")),
    OpCase(
        "full",
        function("full"),
        calls(
            ((2,), 3),
            ((2, 2), 1.5),
            ((), True),
            ((0,), 2),
            ([3], 2, {"dtype": "float64"}),
            ((2,), 2.7, {"dtype": "int32"}),
        ),
        full,
        ("mixed",),
        errors=[fails("full", "negative", RuntimeError, (-1,), 1, mentions=("-1",))],
    ),
    OpCase(
        "empty",
        lambda lib, *args, **k: function("empty")(lib, *args, **k).zero_(),
        calls(*SIZES[:7], *every_dtype((2, 2))),
        of_sizes(0),
        ("mixed",),
    ),
]


def like(name: str, ref: Any) -> OpCase:
    extra = (2.7,) if name == "full_like" else ()

    def samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
        plain = [Sample((normal(rng, shape, dtype), *extra)) for shape in ((2, 3), ())]
        return plain + [Sample((normal(rng, (2,), dtype), *extra), {"dtype": d}) for d in DTYPES]

    def empty(dtype: str) -> list[Sample]:
        return [Sample((*s.args, *extra)) for s in empty_unary(dtype)]

    return OpCase(name, function(name), samples, ref, DTYPES, empty=empty)


def like_ref(value: int) -> Callable[..., np.ndarray]:
    return lambda x, dtype=None: np.full(x.shape, value, dtype or x.dtype)


LIKE = [
    like("zeros_like", like_ref(0)),
    like("ones_like", like_ref(1)),
    like("full_like", lambda x, v, dtype=None: np.full(x.shape, v).astype(dtype or x.dtype)),
]

RANGES = [
    OpCase(
        "arange",
        function("arange"),
        calls(
            (5,),
            (2, 7),
            (1, 10, 3),
            (5, 0, -2),
            (0,),
            (3.0,),
            (0, 1, 0.25),
            (0.5, 3),
            (1, -1, -0.5),
            (4, {"dtype": "float64"}),
            (4, {"dtype": "uint8"}),
            (0, 5, 2, {"dtype": "int32"}),
            (1, 2, 0.3, {"dtype": "float64"}),
            (0, 4, {"step": 2}),
        ),
        arange,
        ("mixed",),
        errors=[
            fails("arange", "zero step", RuntimeError, 0, 1, 0, mentions=("step",)),
            fails("arange", "sign", RuntimeError, 3, 1, mentions=("step", number(3) + "|bound")),
            fails("arange", "infinite", RuntimeError, math.inf, mentions=("inf",)),
            fails("arange", "nothing", TypeError, mentions=("arange", "end|argument")),
        ],
    ),
    OpCase(
        "eye",
        function("eye"),
        calls((3,), (2, 3), (3, 2), (0,), *every_dtype(2)),
        eye,
        ("mixed",),
        errors=[fails("eye", "negative", RuntimeError, -1, mentions=("-1",))],
    ),
    OpCase(
        "linspace",
        function("linspace"),
        calls((0, 1, 5), (2.0, -3.0, 4), (2, 3, 1), (0, 1, 0), (0, 10, 4, {"dtype": "float64"})),
        linspace,
        ("mixed",),
        errors=[fails("linspace", "negative", RuntimeError, 0, 1, -1, mentions=("steps", "-1|negative"))],
    ),
]


def plain_tensor(value: Any, dtype: str | None = None) -> np.ndarray:
    array = np.asarray(value)
    own = {"f": "float32", "i": "int64", "b": "bool"}[array.dtype.kind]
    return array.astype(dtype or own)


FROM_VALUES = [
    OpCase(
        "tensor",
        function("tensor"),
        calls(
            (1,),
            (1.5,),
            (True,),
            ([1, 2],),
            ([1, 2.5],),
            ([True, False],),
            ([[1, 2], [3, 4]],),
            ((1, 2),),
            ([],),
            ([[], []],),
            ([1, 0, 3], {"dtype": "bool"}),
            ([1.7, -1.7], {"dtype": "int64"}),
            (3, {"dtype": "float64"}),
        ),
        plain_tensor,
        ("mixed",),
        errors=[
            fails(
                "tensor",
                "ragged",
                ValueError,
                [[1, 2], [3]],
                mentions=("length|shape|ragged", number(2), number(1)),
            ),
            fails("tensor", "text", TypeError, "text", mentions=("str",)),
            fails("tensor", "None", RuntimeError, None, mentions=("None",)),
        ],
    ),
    OpCase(
        "tensor.array",
        lambda lib, x: lib.tensor(x.numpy()),
        lambda rng, d: [Sample((normal(rng, s, d),)) for s in ((2, 3), (), (0, 2))],
        np.copy,
        DTYPES,
    ),
    OpCase(
        "from_numpy",
        lambda lib, x: lib.from_numpy(x.numpy()),
        lambda rng, d: [Sample((normal(rng, s, d),)) for s in ((2, 3), (), (0, 2))],
        np.copy,
        DTYPES,
        view=True,
        forms={"as_tensor": lambda lib, x: lib.as_tensor(x.numpy())},
        errors=[
            ErrorCase(
                "list",
                TypeError,
                lambda lib: lib.from_numpy([1, 2]),
                (),
                ("from_numpy|expected", "ndarray", "list"),
            )
        ],
    ),
]

CASES = [*FILLED, *LIKE, *RANGES, *FROM_VALUES]
