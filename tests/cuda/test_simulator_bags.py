"""Bags of rows on the CUDA device, in the simulator, compared with the CPU's kernels."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_comparing import agree, both

from fastgrad.native.contracts.element_types import DTYPES, FLOAT32, FLOAT64
from fastgrad.native.contracts.frame import INDEX_OUTSIDE
from fastgrad.native.contracts.frames.elementwise import FLAT

pytestmark = pytest.mark.cudasim

ROWS, WIDTH, BAGS, PADDING = 21, 5, 6, 2
OFFSETS = np.array([0, 3, 3, 7, 40, 44, 69])  # an empty bag, one that is longer than a warp
NUMBER = 71  # the last two indices are in no bag


def bounds() -> np.ndarray:
    return np.stack([OFFSETS[:-1], OFFSETS[1:]], 1).ravel()


def operands(dtype: int, factors: bool, scales: bool) -> dict:
    rng = np.random.default_rng(0)
    kind = DTYPES[dtype]
    found = {
        "indices__data": rng.integers(0, ROWS, NUMBER), "bounds__data": bounds(), "indices__numel": NUMBER,
        "table__data": rng.standard_normal(ROWS * WIDTH).astype(kind),
        "grad__data": rng.standard_normal(BAGS * WIDTH).astype(kind), "rows": ROWS, "width": WIDTH, "bags": BAGS,
    }  # fmt: skip
    found["indices__data"][::5] = PADDING
    if factors:
        found["factors__data"] = rng.uniform(0.5, 2, NUMBER).astype(kind)
    if scales:
        found["scales__data"] = rng.uniform(0.5, 2, NUMBER).astype(kind)
    return found


def of(names: str, given: dict) -> dict:
    """Those of the operands that a frame has."""
    return {key: value for key, value in given.items() if key.partition("__")[0] in names.split()}


LOOKUP, COLLECT = (
    "table factors indices bounds scales rows width bags",
    "grad factors indices bounds scales rows width bags",
)


@pytest.mark.parametrize("mean", [0, 1], ids=["sum", "mean"])
@pytest.mark.parametrize("padding", [-1, PADDING])
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=DTYPES.__getitem__)
def test_bags_and_the_ways_back_to_tables(dtype, padding, mean):
    for factors, scales in ((False, False), (True, False), (True, True), (False, True)):
        given, more = operands(dtype, factors, scales), {"padding": padding, "mean": mean, "first": 0}
        out = {"out": np.full(BAGS * WIDTH, 7, DTYPES[dtype])}
        for scaled in (0, 1):
            agree(
                "embedding_bag", dtype, FLAT, out, 4, 64, of_largest=1, **of(LOOKUP, given), scaled=scaled, count=BAGS,
                **more,
            )  # fmt: skip
        out = {"out": np.full(ROWS * WIDTH, 7, DTYPES[dtype])}
        agree(
            "embedding_bag_backward", dtype, FLAT, out, 4, 64, of_largest=1, **of(COLLECT, given), count=WIDTH, **more
        )  # fmt: skip


@pytest.mark.parametrize("scales", [False, True])
@pytest.mark.parametrize("padding", [-1, PADDING])
def test_factors_of_bags(padding, scales):
    given = of("grad table indices bounds scales rows width bags", operands(FLOAT32, False, scales))
    out = {"out": np.full(NUMBER, 7, np.float32)}
    agree("embedding_bag_factors", FLOAT32, FLAT, out, 4, 64, of_largest=1, padding=padding, **given)


@pytest.mark.parametrize("padding", [-1, PADDING])
def test_maxima_of_bags(padding):
    given = of("table indices bounds rows width bags", operands(FLOAT32, False, False))
    table = np.round(given["table__data"])  # many that are equal
    table[7:40:9] = np.nan
    out = {"out": np.full(BAGS * WIDTH, 7)}
    given |= {"table__data": table, "padding": padding, "first": 0, "count": BAGS}
    agree("embedding_bag_maxima", FLOAT32, FLAT, out, 0, 64, **given)


KERNELS = {
    "embedding_bag": (LOOKUP, BAGS * WIDTH, {"count": BAGS}),
    "embedding_bag_backward": (COLLECT, ROWS * WIDTH, {"count": WIDTH}),
    "embedding_bag_factors": ("grad table indices bounds scales rows width bags", NUMBER, {}),
    "embedding_bag_maxima": ("table indices bounds rows width bags", BAGS * WIDTH, {"count": BAGS}),
}


def reported(name: str, at: str, where: int, what: int) -> tuple[np.ndarray, np.ndarray]:
    """What the simulator and the CPU report of a number that cannot be."""
    names, size, more = KERNELS[name]
    given = of(names, operands(FLOAT32, False, False))
    wrong = given[at].copy()
    wrong[where] = what
    kind = np.int64 if name.endswith("maxima") else np.float32
    outs = {"out": np.zeros(size, kind), "status": np.zeros(3, np.int64)}
    mine, theirs = both(name, FLOAT32, FLAT, outs, 64, **{**given, at: wrong}, padding=-1, **more)
    return mine["status"], theirs["status"]


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_out_of_range_is_reported_and_not_read(name):
    for at, where, what in (
        ("indices__data", 5, ROWS), ("indices__data", 41, -1), ("bounds__data", 0, -1),
        ("bounds__data", 11, NUMBER + 1), ("bounds__data", 6, 50),
    ):  # fmt: skip
        mine, theirs = reported(name, at, where, what)
        assert mine[0] == INDEX_OUTSIDE
        np.testing.assert_array_equal(mine, theirs, err_msg=f"{at} {where}")
    mine, theirs = reported(name, "indices__data", NUMBER - 1, ROWS)  # of no bag
    np.testing.assert_array_equal(mine, theirs)
    assert mine[0] != INDEX_OUTSIDE
