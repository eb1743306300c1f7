"""Rows for pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .common import (
    FLOATS,
    INTS,
    ErrorCase,
    GradPoint,
    OpCase,
    Sample,
    bracketed,
    distinct,
    f64,
    functional,
    normal,
    number,
    ones,
    quiet,
    special_values,
)
from .convolution import each

# --- oracles --------------------------------------------------------------------------------------------


def windows(
    size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool
) -> list[list[int]]:
    """Where in a dimension with its padding the elements of each window are."""
    span = size + 2 * padding - dilation * (kernel - 1) - 1
    count = span // stride + 1
    if ceil_mode:
        count = -(-span // stride) + 1
        count -= (count - 1) * stride >= size + padding
    return [[i * stride - padding + k * dilation for k in range(kernel)] for i in range(count)]


def grids(
    x: np.ndarray, rank: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Any:
    settings = (each(v, rank) for v in (kernel, kernel if stride is None else stride, padding, dilation))
    return [windows(n, *values, ceil_mode) for n, *values in zip(x.shape[-rank:], *settings, strict=True)]


def greatest(values: Sequence[Any]) -> int:
    """The first of the greatest; the last nan."""
    best = 0
    for k, value in enumerate(values):
        if value > values[best] or value != value:
            best = k
    return best


def max_pool(rank: int) -> Any:
    def ref(
        x: np.ndarray, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ) -> Any:  # fmt: skip
        grid = grids(x, rank, kernel_size, stride, padding, dilation, ceil_mode)
        image = x.shape[-rank:]
        out = np.zeros((*x.shape[:-rank], *map(len, grid)), x.dtype)
        indices = np.zeros(out.shape, np.int64)
        for plane in np.ndindex(*x.shape[:-rank]):
            for at in np.ndindex(*out.shape[-rank:]):
                rows = [[i for i in grid[d][at[d]] if 0 <= i < image[d]] for d in range(rank)]
                places = [np.ravel_multi_index([r[i] for r, i in zip(rows, k, strict=True)], image)
                          for k in np.ndindex(*map(len, rows))]  # fmt: skip
                values = x[plane].reshape(-1)[places]
                which = greatest(values)
                out[plane + at], indices[plane + at] = values[which], places[which]
        return (out, indices) if return_indices else out

    return ref


def avg_pool(rank: int) -> Any:
    @quiet
    def ref(
        x: np.ndarray, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: Any = None,
    ) -> np.ndarray:  # fmt: skip
        grid = grids(x, rank, kernel_size, stride, padding, 1, ceil_mode)
        image, pads = x.shape[-rank:], each(padding, rank)
        out = np.zeros((*x.shape[:-rank], *map(len, grid)), np.float64)
        for at in np.ndindex(*out.shape[-rank:]):
            parts = [grid[d][at[d]] for d in range(rank)]
            inside = [[i for i in part if 0 <= i < n] for part, n in zip(parts, image, strict=True)]
            counted = [[i for i in part if i < n + p] for part, n, p in zip(parts, image, pads, strict=True)]
            block = x[(..., *np.ix_(*inside))].astype(np.float64)
            total = block.sum(axis=tuple(range(-rank, 0)))
            count = np.prod([len(c) for c in (counted if count_include_pad else inside)])
            out[(..., *at)] = total / (divisor_override or count)
        return (np.trunc(out) if x.dtype.kind in "iu" else out).astype(x.dtype)

    return ref


def adaptive(rank: int) -> Any:
    def ref(x: np.ndarray, output_size: Any) -> np.ndarray:
        sizes = output_size if isinstance(output_size, tuple) else (output_size,) * rank
        sizes = tuple(n if s is None else s for s, n in zip(sizes, x.shape[-rank:], strict=True))
        out = np.zeros((*x.shape[:-rank], *sizes), np.float64)
        for at in np.ndindex(*sizes):
            parts = [
                slice(i * n // s, -(-(i + 1) * n // s))
                for i, s, n in zip(at, sizes, x.shape[-rank:], strict=True)
            ]
            out[(..., *at)] = x[(..., *parts)].astype(np.float64).mean(axis=tuple(range(-rank, 0)))
        return out.astype(x.dtype)

    return ref


# --- rows -----------------------------------------------------------------------------------------------

Calls = Sequence[tuple[tuple[int, ...], Any, dict[str, Any]]]

MAX1D: Calls = (
    ((2, 2, 5), 2, {}),
    ((2, 6), 3, {"stride": 2, "padding": 1, "return_indices": True}),
    ((1, 1, 7), (2,), {"dilation": 3, "stride": (1,)}),
    ((1, 1, 5), 2, {"ceil_mode": True}),
)
MAX2D: Calls = (
    ((2, 1, 4, 6), 2, {}),
    ((2, 1, 3, 4), 2, {"return_indices": True}),
    ((1, 5, 4), 3, {"stride": 1, "padding": 1}),
    ((1, 1, 7, 5), (2, 3), {"stride": (2, 1), "dilation": (3, 1), "padding": (0, 1), "return_indices": True}),
    ((1, 1, 5, 4), 3, {"stride": 2, "ceil_mode": True, "return_indices": True}),
    ((1, 1, 5, 5), 2, {"stride": 3, "padding": 1, "ceil_mode": True}),
    ((1, 1, 6, 6), 3, {"padding": 1, "dilation": 2, "stride": 2}),
)
AVG1D: Calls = (
    ((2, 2, 5), 2, {}),
    ((2, 6), 3, {"stride": 2, "padding": 1, "count_include_pad": False}),
    ((1, 1, 5), 2, {"ceil_mode": True}),
)
AVG2D: Calls = (
    ((2, 1, 4, 6), 2, {}),
    ((1, 4, 3), 3, {"stride": 1, "padding": 1}),
    ((1, 1, 4, 5), (2, 3), {"stride": (1, 2), "padding": (1, 1), "count_include_pad": False}),
    ((1, 1, 5, 4), 3, {"stride": 2, "padding": 1, "ceil_mode": True}),
    ((1, 1, 5, 4), 2, {"stride": 3, "padding": 1, "ceil_mode": True, "count_include_pad": False}),
    ((1, 2, 3, 4), 2, {"divisor_override": 3}),
)
ADAPTIVE1D: Calls = (((2, 2, 5), 3, {}), ((2, 4), 1, {}), ((1, 1, 2), (3,), {}))
ADAPTIVE2D: Calls = (
    ((2, 1, 5, 4), (3, 2), {}),
    ((2, 3, 4), 1, {}),
    ((1, 1, 3, 2), (None, 4), {}),
    ((1, 2, 4, 3), 2, {}),
)


def samples_from(calls: Calls, domain: Any) -> Any:
    return lambda rng, dtype: [
        Sample((domain(rng, shape, dtype), size), settings) for shape, size, settings in calls
    ]


def planes_of_specials(dtype: str) -> np.ndarray:
    """Special values next to each other, in several orders."""
    values = special_values(dtype)
    return np.stack([np.resize(np.roll(values, k), (4, 6)) for k in range(5)])


def refused(name: str, label: str, shape: Any, size: Any, settings: Any, *mentions: str) -> ErrorCase:
    call = functional(name)
    return ErrorCase(
        label, RuntimeError, lambda lib, x: call(lib, x, size, **settings), (ones(*shape),), (name, *mentions)
    )


def window_errors(name: str, rank: int) -> list[ErrorCase]:
    shape = (1, 1, *(4,) * rank)
    return [
        refused(name, "room", shape, 5, {}, "size"),
        refused(name, "padding", shape, 2, {"padding": 2}, "pad", number(2)),
        refused(name, "less padding", shape, 2, {"padding": -1}, "pad", number(-1)),
        refused(name, "stride", shape, 2, {"stride": 0}, "stride"),
        refused(name, "no kernel", shape, 0, {}, "kernel_size", number(0)),
        refused(name, "settings", shape, (2, 2, 2), {}, "kernel_size", bracketed(2, 2, 2)),
        refused(name, "no channels", (1, 0, *shape[2:]), 2, {}, bracketed(1, 0, *shape[2:])),
    ]


def max_row(rank: int) -> OpCase:
    name = f"max_pool{rank}d"
    call = functional(name)
    tie = [GradPoint((f64([[[1, 1], [1, 1]]]), 2), (f64([[[1, 0], [0, 0]]]),), {})]
    with_indices = functional(f"{name}_with_indices")

    def special(dtype: str) -> list[Sample]:
        return [Sample((planes_of_specials(dtype), 2), {"return_indices": True, "stride": 1})]

    return OpCase(
        "max_pool2d" if rank == 2 else "max_pool2d.1d",
        call,
        samples_from(MAX1D if rank == 1 else MAX2D, distinct),
        max_pool(rank),
        dtypes=FLOATS if rank == 1 else FLOATS + INTS,
        differentiable=True,
        forms={
            "with_indices": lambda lib, *a, **k: with_indices(lib, *a, **k)[
                slice(None) if k.get("return_indices") else 0
            ],
        },
        special=special if rank == 2 else None,
        special_grads=False,
        empty=lambda d: [Sample((np.zeros((0, 1, *(4,) * rank), d), 2))],
        grad_points=tie if rank == 2 else (),
        errors=[
            *window_errors(name, rank),
            refused(name, "dims", (4,) * rank, 2, {}, r"D"),
            refused(name, "dilation", (1, 1, *(4,) * rank), 2, {"dilation": 0}, "dilation"),
        ],
    )  # fmt: skip


def avg_row(rank: int) -> OpCase:
    name = f"avg_pool{rank}d"
    errors = window_errors(name, rank)
    if rank == 2:
        errors.append(refused(name, "divisor", (1, 1, 4, 4), 2, {"divisor_override": 0}, "divisor"))
    return OpCase(
        "avg_pool2d" if rank == 2 else "avg_pool2d.1d",
        functional(name),
        samples_from(AVG1D if rank == 1 else AVG2D, normal),
        avg_pool(rank),
        dtypes=(*FLOATS, "int64"),
        differentiable=True,
        special=lambda d: [] if d not in FLOATS else [Sample((planes_of_specials(d), 2), {})],
        special_grads=False,
        empty=lambda d: [Sample((np.zeros((0, 1, *(4,) * rank), d), 2))],
        errors=errors,
    )


def adaptive_row(rank: int) -> OpCase:
    name = f"adaptive_avg_pool{rank}d"
    return OpCase(
        "adaptive_avg_pool2d" if rank == 2 else "adaptive_avg_pool2d.1d",
        functional(name),
        samples_from(ADAPTIVE1D if rank == 1 else ADAPTIVE2D, normal),
        adaptive(rank),
        differentiable=True,
        empty=lambda d: [Sample((np.zeros((0, 1, *(4,) * rank), d), 2))],
        errors=[
            refused(name, "dims", (4,) * rank, 2, {}, bracketed(*(4,) * rank)),
            refused(name, "size", (1, 1, *(4,) * rank), -1, {}, "output_size", number(-1)),
            refused(name, "sizes", (1, 1, *(4,) * rank), (2, 2, 2), {}, "output_size"),
            refused(name, "empty", (1, 1, *(0,) * rank), 2, {}, bracketed(1, 1, *(0,) * rank)),
        ],
    )


CASES = [row(rank) for row in (max_row, avg_row, adaptive_row) for rank in (1, 2)]
