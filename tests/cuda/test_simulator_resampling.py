"""Other sizes along a dimension on the CUDA device, in the simulator, compared with the CPU's kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_comparing import agree, both
from cuda_halves import kind_of

from fastgrad.native.contracts.element_types import DTYPES, FLOAT32, FLOAT64
from fastgrad.native.contracts.frame import INDEX_OUTSIDE
from fastgrad.native.contracts.frames.elementwise import FLAT

pytestmark = pytest.mark.cudasim

EXTENTS = [(3, 5, 1, 9, 2), (2, 6, 4, 3, 4), (1, 4, 70, 5, 1), (2, 3, 2, 4, 0), (0, 3, 2, 4, 2)]
NAMES = ("blocks", "length", "columns", "places", "taps")


def operands(extents: tuple[int, ...], dtype: int) -> dict[str, Any]:
    blocks, length, columns, places, taps = extents
    rng = np.random.default_rng(0)
    sources = np.sort(rng.integers(-1, length, (taps, places)), 0)[::-1]  # what is no element comes last
    return {
        "x__data": rng.standard_normal(blocks * length * columns).astype(kind_of(dtype)),
        "sources__data": np.ascontiguousarray(sources).ravel(),
        "weights__data": rng.standard_normal(taps * places).astype(kind_of(dtype)),
        **dict(zip(NAMES, extents, strict=True)),
    }


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=DTYPES.__getitem__)
@pytest.mark.parametrize("extents", EXTENTS, ids=str)
def test_sums_of_sources(extents, dtype):
    blocks, _, columns, places, _ = extents
    out = {"out": np.zeros(blocks * columns * places, kind_of(dtype))}
    agree("resample", dtype, FLAT, out, 8, 64, of_largest=1, **operands(extents, dtype))


def test_a_source_that_is_out_of_range_is_reported_and_not_read():
    for where, what in ((3, 5), (0, -2)):
        given = operands(EXTENTS[0], FLOAT32)
        given["sources__data"][where] = what
        outs = {"out": np.zeros(27, np.float32), "status": np.zeros(3, np.int64)}
        mine, theirs = both("resample", FLOAT32, FLAT, outs, 64, **given)
        assert mine["status"][0] == INDEX_OUTSIDE
        np.testing.assert_array_equal(mine["status"], theirs["status"])
