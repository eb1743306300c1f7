"""Rows for reading and writing by index: ``x[...]``, ``x[...] = v``, gather, index_select, masked_fill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .common import (
    DTYPES,
    ErrorCase,
    GradPoint,
    OpCase,
    Sample,
    b8,
    bracketed,
    f64,
    function,
    i64,
    method,
    normal,
    number,
    ones,
)

ALL = slice(None)


# --- reading --------------------------------------------------------------------------------------------


def as_index(lib: Any, index: Any) -> Any:
    """Arrays inside an index become tensors; lists, slices and numbers stay."""
    if isinstance(index, tuple):
        return tuple(as_index(lib, part) for part in index)
    return lib.tensor(index) if isinstance(index, np.ndarray) else index


def read(lib: Any, x: Any, index: Any) -> Any:
    return x[as_index(lib, index)]


def consumed(part: Any) -> int:
    """How many dimensions of the tensor one entry of an index stands for."""
    if part is None or isinstance(part, bool):
        return 0
    if isinstance(part, (list, np.ndarray)):
        array = np.asarray(part)
        return array.ndim if array.dtype == bool else 1
    return 1


def read_ref(x: np.ndarray, index: Any) -> np.ndarray:
    """NumPy's indexing, except that integers are taken out before arrays are broadcast with one another."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if any(part is Ellipsis for part in parts):
        at = next(i for i, part in enumerate(parts) if part is Ellipsis)
        missing = x.ndim - sum(consumed(p) for p in parts if p is not Ellipsis)
        parts[at : at + 1] = [ALL] * missing
    dim, rest = 0, []
    for part in parts:
        integer = np.ndim(part) == 0 and not isinstance(part, (slice, bool, type(None)))
        if integer and np.asarray(part).dtype != bool:
            x = np.take(x, int(part), axis=dim)
        else:
            rest.append(np.asarray(part, dtype=np.int64) if isinstance(part, list) and not part else part)
            dim += consumed(part)
    return x[tuple(rest)]


BASIC: list[Any] = [
    1, -1, (1, 2), (0, -1, 1),
    ALL, slice(1, None), slice(None, 2), slice(None, None, 2), slice(1, 10, 3), slice(-2, -1), slice(2, 1),
    ..., (..., 0), (1, ...), (0, ..., 1), None, (None, 1), (ALL, None), (..., None), (),
    (ALL, slice(1, 3)), (slice(0, 2), 1, ALL), (ALL, ALL, slice(None, None, 2)), (1, slice(1, None), None, 0),
]  # fmt: skip

ADVANCED: list[Any] = [
    [0, 2], [2, 0, 2], [-1], i64([1, 1]), i64([[0, 1], [2, 0]]), np.array([2, 0], np.int32), i64(1),
    ([0, 1], [1, 3]), ([0, 2], [3]), (i64([[0], [1]]), i64([1, 2])), (ALL, [1, 1, 3]), (..., [0, 1]),
    (slice(None, None, 2), i64([3, 0])), (None, [0, 1]), ([0, 1], None), (0, [1, 2]), (0, ALL, i64([1, 0])),
    ([0, 1], ALL, [0, 1]), ([0, 1], ALL, 1), (i64([0, 1]), slice(1, 3)), [],
]  # fmt: skip

MASKS: list[Any] = [
    b8([True, False, True]), [True, False, True], b8([False] * 3), (ALL, b8([True, False, False, True])),
    (..., b8([True, False])), (b8([True, False, True]), 1), (b8([True, False, True]), [0, 3]),
    b8(np.eye(3, 4)),
    (b8([True, True, False]), slice(1, 3)), b8(np.ones((3, 4, 2))), True, False,
]  # fmt: skip


# Shape of the tensor, and an index of more tensors than dimensions of the tensors above.
MANY: list[tuple[tuple[int, ...], Any]] = [
    ((2, 3, 2, 2), ([0, 1, 1], [2, 0, 2], [1, 1, 0], [0, 1, 0])),
    ((2, 3, 2, 2), (i64([[0], [1]]), i64([2, 0, 2]), [1], i64([[0], [-1]]))),
    ((2, 3, 2, 2), b8(np.arange(24).reshape(2, 3, 2, 2) % 5 == 0)),
    ((2, 2, 3, 1, 2), ([1, 0], [0, 0], ALL, [0, 0], [-1, 1])),
    ((2, 2, 3, 1, 2), ([1, 0], [0, 0], [2, 1], None, [0, 0], ALL)),
    ((2, 2, 3, 1, 2), (ALL, b8(np.arange(12).reshape(2, 3, 1, 2) % 3 == 0))),
    ((2, 1, 2, 1, 1, 2, 1, 1), ([1, 0], [0], [1, 1], [0], [0], [0, 1], [-1], [0])),
    ((4, 2), (i64(np.arange(4).reshape(2, 1, 2, 1, 1, 1, 1, 1)), [1])),  # a result of eight dimensions
    ((4,), i64(np.arange(4).reshape(2, 1, 2, 1, 1, 1, 1, 1))),
]  # fmt: skip


def each(indices: list[Any]) -> Callable[..., list[Sample]]:
    return lambda rng, dtype: [Sample((normal(rng, (3, 4, 2), dtype), index)) for index in indices]


def many(rng: np.random.Generator, dtype: str) -> list[Sample]:
    return [Sample((normal(rng, shape, dtype), inside(index))) for shape, index in MANY]


def inside(index: Any) -> Any:
    """Inside a tuple, an array keeps its values in every memory layout that the tests try."""
    return (index,) if isinstance(index, np.ndarray) else index


def masked_by_values(rng: np.random.Generator, dtype: str) -> list[Sample]:
    return [Sample((normal(rng, (3, 4), dtype),)), Sample((normal(rng, (), dtype),))]


def bad_index(
    label: str, raises: type[Exception], index: Any, *mentions: str, shape: tuple[int, ...] = (2, 3)
) -> ErrorCase:
    return ErrorCase(label, raises, lambda lib, x: read(lib, x, index), (ones(*shape),), ("index", *mentions))


READING = [
    OpCase(
        "getitem",
        read,
        each(BASIC),
        read_ref,
        dtypes=DTYPES,
        differentiable=True,
        view=True,
        empty=lambda d: [Sample((np.zeros((0, 3), d), i)) for i in ((ALL, 1), slice(1, 5), None, (..., 0))],
        errors=[
            bad_index("range", IndexError, 2, number(2), number(0)),
            bad_index("negative range", IndexError, (0, -4), "-4", number(1), number(3)),
            bad_index("too many", IndexError, (0, 0, 0), "too many", number(2)),
            bad_index("no dims", IndexError, 0, "0-dim|no dim|item", shape=()),
            bad_index("float", IndexError, 1.0, "integer", "float"),
            ErrorCase("negative step", ValueError, lambda lib, x: x[::-1], (ones(2, 3),), ("step",)),
            ErrorCase("zero step", ValueError, lambda lib, x: x[::0], (ones(2, 3),), ("step",)),
        ],
    ),
    OpCase(
        "getitem.advanced",
        read,
        each(ADVANCED),
        read_ref,
        dtypes=DTYPES,
        differentiable=True,
        view=None,
        empty=lambda d: [Sample((np.zeros((0, 3), d), (ALL, [0, 2]))), Sample((np.zeros((2, 0), d), [1, 1]))],
        errors=[
            bad_index("range", IndexError, [0, 5], number(5), number(0)),
            bad_index("broadcast", IndexError, ([0, 1, 1], [0, 1]), bracketed(3), bracketed(2)),
            bad_index("dtype", IndexError, ones(1), "float32|long|int"),
        ],
    ),
    OpCase(
        "getitem.mask",
        read,
        each(MASKS),
        read_ref,
        dtypes=DTYPES,
        differentiable=True,
        empty=lambda d: [
            Sample((np.zeros((0, 3), d), np.zeros(0, bool))),
            Sample((np.zeros((0, 3), d), np.zeros((0, 3), bool))),
        ],
        errors=[
            bad_index(
                "mask size", IndexError, b8([True, False, True]), "mask", bracketed(3), bracketed(2, 3)
            ),
            bad_index(
                "mask shape", IndexError, b8(np.ones((2, 2))), "mask", bracketed(2, 2), bracketed(2, 3)
            ),
        ],
    ),
    OpCase(
        "getitem.many",
        read,
        many,
        read_ref,
        dtypes=DTYPES,
        differentiable=True,
        empty=lambda d: [
            Sample((np.zeros((2, 0, 2, 2), d), ([0, 1], ALL, [0, 1], [1, 1]))),
            Sample((np.zeros((0, 1, 2, 2), d), ([], [], [], []))),
            Sample((np.zeros((2, 3, 2, 2), d), b8(np.zeros((2, 3, 2, 2))))),
        ],
        errors=[
            bad_index(
                "range", IndexError, ([0], [1], [0], [2]), number(2), number(0), number(3), shape=(2,) * 4
            ),
        ],
    ),
    OpCase(
        "getitem.condition",
        lambda lib, x: x[x > 0],
        masked_by_values,
        lambda x: x[x > 0],
        dtypes=("float32", "float64", "int64"),
        differentiable=True,
        strided=True,
    ),
    OpCase(
        "nonzero",
        function("nonzero"),
        lambda rng, d: [Sample((rng.integers(0, 2, n).astype(d),)) for n in ((), (7,), (3, 4), (2, 3, 2))],
        np.argwhere,
        dtypes=DTYPES,
        strided=True,
        special=lambda d: (
            [Sample((np.array([0.0, -0.0, np.nan, np.inf, -1e-45], d),))] if "float" in d else []
        ),
        empty=lambda d: [
            Sample((np.zeros(0, d),)),
            Sample((np.zeros((0, 3), d),)),
            Sample((np.zeros((2, 0), d),)),
        ],
    ),
]


# --- writing --------------------------------------------------------------------------------------------


def write(lib: Any, x: Any, value: Any, index: Any) -> Any:
    x[as_index(lib, index)] = value
    return x


def write_copy(lib: Any, x: Any, value: Any, index: Any) -> Any:
    return write(lib, x.clone(), value, index)


def write_ref(x: np.ndarray, value: Any, index: Any) -> np.ndarray:
    """Numbers the elements, reads their numbers by the index, and writes to those."""
    places = read_ref(np.arange(x.size).reshape(x.shape), index)
    value = np.asarray(value)
    while value.ndim > places.ndim:
        value = value[0]
    result = x.copy()
    result.reshape(-1)[places] = np.broadcast_to(value, places.shape).astype(x.dtype)
    return result


# Index, and shape of what is written there; None for a Python number.
WRITES: list[tuple[Any, Any]] = [
    (0, (4, 2)), (0, ()), (-1, None), (1, (2,)), (1, (4, 1)), (0, (1, 4, 2)), ((1, 2), (2,)),
    (ALL, (3, 4, 2)), ((..., 0), (3, 4)), (slice(None, None, 2), (2, 4, 2)), ((ALL, slice(1, 3)), (2, 2)),
    ((0, 0, 0), ()), ((0, 1, 1), None), (..., None), (None, (4, 2)), (slice(2, 2), (4, 2)),
]  # fmt: skip

ADVANCED_WRITES: list[tuple[Any, Any]] = [
    ([0, 2], (2, 4, 2)), ([2, 0], (2,)), ([1], ()), (i64([2, 1]), None),
    ((ALL, [0, 3]), (3, 2, 2)), (([0, 1], [1, 3]), (2, 2)),
    (([0, 1], ALL, [0, 1]), (2, 4)), ((0, [1, 2]), (2, 2)), ((..., i64([1])), (3, 4, 1)), ([], None),
]  # fmt: skip

MASK_WRITES: list[tuple[Any, Any]] = [
    (b8([True, False, True]), (2, 4, 2)), (b8([True, False, True]), None), (b8([False, True, False]), ()),
    (b8(np.eye(3, 4)), (3, 2)), (b8(np.eye(3, 4)), (2,)), (b8([False] * 3), None),
    ((ALL, b8([True, False, False, True])), (3, 2, 2)), (b8(np.ones((3, 4, 2))), None),
]  # fmt: skip


def writes(rows: list[tuple[Any, Any]]) -> Callable[..., list[Sample]]:
    def samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
        result = []
        for index, shape in rows:
            value = (True if dtype == "bool" else 3) if shape is None else normal(rng, shape, dtype)
            result.append(Sample((normal(rng, (3, 4, 2), dtype), value, inside(index))))
        return result

    return samples


def many_writes(rng: np.random.Generator, dtype: str) -> list[Sample]:
    """Values of the shape of what is read there, or of as much of it as broadcasting needs."""
    result = []
    for shape, index in MANY[2:]:  # of places that are named twice, either value may remain
        x = normal(rng, shape, dtype)
        wanted = read_ref(x, index).shape
        for kept in (wanted, wanted[-1:], ()):
            result.append(Sample((x, normal(rng, kept, dtype), inside(index))))
    return result


def bad_write(
    label: str,
    raises: type[Exception],
    index: Any,
    value: Any,
    *mentions: str,
    dtype: str = "float32",
    shape: tuple[int, ...] = (2, 3),
) -> ErrorCase:
    arrays = (ones(*shape, dtype=dtype), value)
    return ErrorCase(
        label, raises, lambda lib, x, v: write(lib, x, v, index), arrays, ("index|setitem|assign", *mentions)
    )


def leaf_written(lib: Any, x: Any) -> None:
    x.requires_grad_()[0] = 1.0


WRITING = [
    OpCase(
        "setitem",
        write_copy,
        writes(WRITES),
        write_ref,
        dtypes=DTYPES,
        differentiable=True,
        inplace=write,
        empty=lambda d: [
            Sample((np.zeros((0, 3), d), 1, ALL)),
            Sample((np.ones((2, 3), d), np.zeros((0, 3), d), slice(2, None))),
        ],
        errors=[
            bad_write("size", RuntimeError, 0, ones(4), bracketed(3), bracketed(4)),
            bad_write("dims", RuntimeError, 0, ones(2, 3), bracketed(3), bracketed(2, 3)),
            bad_write("range", IndexError, 5, 1.0, number(5)),
            bad_write("list", TypeError, 0, [1.0, 2.0, 3.0], "list"),
            bad_write("text", TypeError, 0, "text", "str"),
            ErrorCase("leaf", RuntimeError, leaf_written, (ones(2, 3),), ("leaf", "grad")),
        ],
    ),
    OpCase(
        "setitem.advanced",
        write_copy,
        writes(ADVANCED_WRITES),
        write_ref,
        dtypes=DTYPES,
        differentiable=True,
        inplace=write,
        errors=[
            bad_write("size", RuntimeError, [0, 1], ones(3, 3), bracketed(3, 3), bracketed(2, 3)),
            bad_write(
                "dtype",
                RuntimeError,
                [0],
                ones(3, dtype="int64"),
                "dtype",
                "float32|[Ff]loat",
                "int64|[Ll]ong",
            ),
            bad_write("range", IndexError, [0, 5], 1.0, number(5)),
        ],
    ),
    OpCase(
        "setitem.many",
        write_copy,
        many_writes,
        write_ref,
        dtypes=DTYPES,
        differentiable=True,
        inplace=write,
        errors=[
            bad_write(
                "size",
                RuntimeError,
                np.ones((1, 1, 1, 1), bool),
                ones(2),
                bracketed(2),
                bracketed(1),
                shape=(1, 1, 1, 1),
            ),
            bad_write("range", IndexError, ([0], [0], [0], [1]), 1.0, number(1), shape=(1, 1, 1, 1)),
        ],
    ),
    OpCase(
        "setitem.mask",
        write_copy,
        writes(MASK_WRITES),
        write_ref,
        dtypes=DTYPES,
        differentiable=True,
        inplace=write,
        errors=[
            bad_write("size", RuntimeError, np.ones((2, 3), bool), ones(2), bracketed(2), bracketed(6)),
            bad_write(
                "dtype",
                RuntimeError,
                np.ones((2, 3), bool),
                np.ones(6),
                "dtype",
                "float32|[Ff]loat",
                "float64|[Dd]ouble",
            ),
            bad_write(
                "mask", IndexError, b8([True, False, True]), 1.0, "mask", bracketed(3), bracketed(2, 3)
            ),
        ],
    ),
    OpCase(
        "setitem.cast",
        write_copy,
        lambda rng, d: [
            Sample((normal(rng, (2, 3), d), f64([1.5, -2.5, 0]), 0)),
            Sample((normal(rng, (2, 3), d), i64([7, 0, 1]), 1)),
            Sample((normal(rng, (2, 3), d), 2.5, (ALL, 1))),
            Sample((normal(rng, (2, 3), d), 2.5, [1])),
            Sample((normal(rng, (2, 3), d), 2.5, np.ones((2, 3), bool))),
        ],
        write_ref,
        dtypes=("float32", "int64", "int32"),
        differentiable=True,
        inplace=write,
    ),
]


# --- gather, scatter_add, index_select, masked_fill -----------------------------------------------------


def gathered(x: np.ndarray, dim: int, index: np.ndarray) -> np.ndarray:
    if x.ndim == 0:
        return x.reshape(1)[index]
    dim %= x.ndim
    part = tuple(ALL if d == dim else slice(0, index.shape[d]) for d in range(x.ndim))
    return np.take_along_axis(x[part], index.astype(np.int64), axis=dim)


def gather_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    rows = [
        ((3, 4), 0, (2, 4)),
        ((3, 4), 1, (3, 6)),
        ((3, 4), -1, (2, 2)),
        ((5,), 0, (7,)),
        ((2, 3, 2), 1, (2, 1, 2)),
        ((), 0, ()),
    ]
    samples = []
    for shape, dim, index_shape in rows:
        index = np.asarray(rng.integers(0, shape[dim] if shape else 1, index_shape))
        samples.append(Sample((normal(rng, shape, dtype), dim, index)))
    return [*samples, Sample((normal(rng, (3, 2), dtype), 0, np.array([[2, 0]], np.int32)))]


def scattered(x: np.ndarray, dim: int, index: np.ndarray, src: np.ndarray) -> np.ndarray:
    out = np.atleast_1d(x).copy()
    places = np.indices(np.atleast_1d(index).shape)
    values = np.atleast_1d(src)[tuple(slice(0, n) for n in np.atleast_1d(index).shape)]
    places[dim] = index
    (np.logical_or if out.dtype == bool else np.add).at(out, tuple(places), values)
    return out.reshape(x.shape)


def scatter_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    rows = [
        ((3, 4), 0, (2, 4), (2, 4)),
        ((3, 4), 1, (3, 6), (3, 6)),
        ((3, 4), -1, (2, 2), (2, 2)),
        ((5,), 0, (7,), (7,)),
        ((2, 3, 2), 1, (2, 1, 2), (2, 1, 2)),
        ((), 0, (), ()),
    ]
    return _scatter_plan(rng, dtype, rows)


def wider_source_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    return _scatter_plan(rng, dtype, [((3, 4), -1, (2, 2), (3, 5)), ((2, 3, 2), 1, (2, 1, 2), (2, 4, 2))])


def _scatter_plan(rng: np.random.Generator, dtype: str, rows: Any) -> list[Sample]:
    samples = []
    for shape, dim, index_shape, src_shape in rows:
        index = np.asarray(rng.integers(0, shape[dim] if shape else 1, index_shape))
        samples.append(Sample((normal(rng, shape, dtype), dim, index, normal(rng, src_shape, dtype))))
    return samples


def selected(x: np.ndarray, dim: int, index: np.ndarray) -> np.ndarray:
    return np.take(x, np.atleast_1d(index), axis=dim)


def select_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    rows = [
        ((3, 4), 0, i64([2, 0, 2])),
        ((3, 4), -1, i64([1])),
        ((5,), 0, i64(3)),
        ((2, 3, 2), 1, np.array([0, 2], np.int32)),
    ]
    return [Sample((normal(rng, shape, dtype), dim, index)) for shape, dim, index in rows]


def filled(x: np.ndarray, mask: np.ndarray, value: Any) -> np.ndarray:
    return np.where(mask, np.asarray(value).astype(x.dtype), x)


def fill_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    shapes = (((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 3), (2, 1)), ((3,), (2, 3)), ((), ()))
    number_ = dtype not in ("bool",) and 2
    samples = [Sample((normal(rng, s, dtype), normal(rng, m, "bool"), number_)) for s, m in shapes]
    tensor_value = Sample((normal(rng, (2, 3), dtype), normal(rng, (2, 3), "bool"), normal(rng, (), dtype)))
    return [*samples, tensor_value, Sample((normal(rng, (4,), dtype), normal(rng, (4,), "bool"), 2.5))]


def fails(
    name: str, label: str, raises: type[Exception], *args: Any, mentions: tuple[str, ...] = ()
) -> ErrorCase:
    return ErrorCase(label, raises, function(name), args, (name, *mentions))


X = ones(2, 3)

PICKING = [
    OpCase(
        "gather",
        function("gather"),
        gather_samples,
        gathered,
        dtypes=DTYPES,
        differentiable=True,
        view=False,
        forms={
            "method": method("gather"),
            "keywords": lambda lib, x, dim, index: lib.gather(x, dim=dim, index=index),
        },
        empty=lambda d: [
            Sample((np.zeros((3, 2), d), 0, np.zeros((0, 2), np.int64))),
            Sample((np.zeros((0, 2), d), 0, np.zeros((0, 2), np.int64))),
        ],
        errors=[
            fails(
                "gather", "range", RuntimeError, X, 0, i64([[5]]), mentions=("index", number(5), number(2))
            ),
            fails("gather", "negative", RuntimeError, X, 0, i64([[-1]]), mentions=("index", "-1")),
            fails("gather", "dims", RuntimeError, X, 0, i64([1]), mentions=("index", "dim")),
            fails(
                "gather",
                "size",
                RuntimeError,
                X,
                0,
                i64([[0, 0, 0, 0]]),
                mentions=("index", bracketed(1, 4), bracketed(2, 3)),
            ),
            fails("gather", "dtype", RuntimeError, X, 0, ones(1, 1), mentions=("index", "int64")),
            fails("gather", "dim", IndexError, X, 2, i64([[0]]), mentions=("dim", number(2))),
        ],
    ),
    OpCase(
        "scatter_add",
        function("scatter_add"),
        scatter_samples,
        scattered,
        dtypes=DTYPES,
        differentiable=True,
        forms={
            "method": method("scatter_add"),
            "keywords": lambda lib, x, d, i, s: lib.scatter_add(x, dim=d, index=i, src=s),
        },
        view=False,
        empty=lambda d: [Sample((np.zeros((3, 2), d), 0, np.zeros((0, 2), np.int64), np.zeros((0, 2), d)))],
        errors=[
            fails("scatter_add", "range", RuntimeError, X, 0, i64([[2]]), X, mentions=("index", number(2))),
            fails("scatter_add", "negative", RuntimeError, X, 0, i64([[-1]]), X, mentions=("index", "-1")),
            fails("scatter_add", "dims", RuntimeError, X, 0, i64([1]), X, mentions=("index", "dim")),
            fails("scatter_add", "source", RuntimeError, X, 0, i64([[0] * 4]), X, mentions=("index", "size")),
            fails("scatter_add", "dtype", RuntimeError, X, 0, ones(1, 1), X, mentions=("index", "int64")),
            fails(
                "scatter_add",
                "values",
                RuntimeError,
                X,
                0,
                i64([[0]]),
                ones(2, 3, dtype="float64"),
                mentions=("dtype",),
            ),
            fails("scatter_add", "dim", IndexError, X, 2, i64([[0]]), X, mentions=("dim", number(2))),
        ],
    ),
    # Its gradient is undefined, as in PyTorch: the source has elements that no index stands for.
    OpCase(
        "scatter_add.wider_source", function("scatter_add"), wider_source_samples, scattered, dtypes=DTYPES
    ),
    OpCase(
        "index_select",
        function("index_select"),
        select_samples,
        selected,
        dtypes=DTYPES,
        differentiable=True,
        forms={"method": method("index_select")},
        view=False,
        empty=lambda d: [
            Sample((np.zeros((3, 2), d), 0, np.zeros(0, np.int64))),
            Sample((np.zeros((3, 0), d), 0, i64([1]))),
        ],
        errors=[
            fails("index_select", "range", IndexError, X, 0, i64([2]), mentions=("index", number(2))),
            fails("index_select", "negative", IndexError, X, 0, i64([-1]), mentions=("index", "-1")),
            fails("index_select", "dims", IndexError, X, 0, i64([[0]]), mentions=("index", "vector|1-D|dim")),
            fails("index_select", "dtype", RuntimeError, X, 0, ones(1), mentions=("index", "int64")),
            fails("index_select", "dim", IndexError, X, 2, i64([0]), mentions=("dim", number(2))),
        ],
    ),
    OpCase(
        "masked_fill",
        function("masked_fill"),
        fill_samples,
        filled,
        dtypes=DTYPES,
        differentiable=True,
        forms={"method": method("masked_fill")},
        view=False,
        special=lambda d: (
            [
                Sample((np.array([np.nan, np.inf, 1, -0.0], d), b8([True, True, False, False]), v))
                for v in (0.0, -np.inf)
            ]
            if d.startswith("f")
            else []
        ),
        empty=lambda d: [
            Sample((np.zeros((0, 3), d), np.zeros((0, 3), bool), 1)),
            Sample((np.zeros((1, 3), d), np.zeros((0, 1), bool), 1)),
        ],
        grad_points=[GradPoint((f64([np.nan, 1]), b8([True, False]), f64(5)), (f64([0, 1]), f64(1)))],
        errors=[
            fails(
                "masked_fill",
                "mask dtype",
                RuntimeError,
                X,
                ones(2, 3, dtype="int64"),
                0.0,
                mentions=("mask", "bool", "int64|long"),
            ),
            fails(
                "masked_fill",
                "shapes",
                RuntimeError,
                X,
                b8([True] * 4),
                0.0,
                mentions=(bracketed(2, 3), bracketed(4)),
            ),
            fails(
                "masked_fill",
                "value",
                RuntimeError,
                X,
                np.ones((2, 3), bool),
                ones(3),
                mentions=("value", "0-dim|dimension"),
            ),
        ],
    ),
]

CASES = [*READING, *WRITING, *PICKING]
