"""What runs along rows on the CUDA device, in the simulator, compared with the CPU's kernels."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_comparing import ROWS, agree, numbers
from cuda_halves import kind_of

from fastgrad.native.contracts.element_types import DTYPES, FLOAT32, FLOAT64
from fastgrad.native.contracts.frames.elementwise import FLAT
from fastgrad.native.contracts.limits import FIRST_GPU

pytestmark = pytest.mark.cudasim

EXTENTS = [(5, 37, 1), (1, 70, 1), (2, 19, 5), (3, 1, 4), (2, 0, 3)]
EXTREMES = [(n, d) for n in ("cummax", "cummin") for d in ROWS[n].dtypes_on(FIRST_GPU)]


def frame_of(extents: tuple[int, int, int]) -> dict[str, int]:
    return dict(zip(("blocks", "length", "columns"), extents, strict=True))


@pytest.mark.parametrize(("name", "dtype"), EXTREMES, ids=lambda v: v if isinstance(v, str) else DTYPES[v])
def test_extremes_so_far(name, dtype):
    for extents in EXTENTS if dtype == FLOAT32 else EXTENTS[:1]:
        count = int(np.prod(extents))
        x = numbers(np.random.default_rng(0), count, dtype)
        x = np.round(x) if x.dtype.kind == "f" else x  # many that are equal
        outs = {"values": np.zeros(count, kind_of(dtype)), "places": np.zeros(count, np.int64)}
        agree(name, dtype, FLAT, outs, 0, 64, x__data=x, **frame_of(extents))


def test_extremes_that_are_the_first_ones_or_of_nothing_but_the_last_resort():
    for name, x in (("cummax", [-np.inf] * 3 + [-2, -2]), ("cummin", [np.inf] * 3 + [2, 2])):
        outs = {"values": np.zeros(5, np.float32), "places": np.zeros(5, np.int64)}
        agree(name, FLOAT32, FLAT, outs, 0, 64, x__data=np.array(x, np.float32), **frame_of((1, 5, 1)))


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=DTYPES.__getitem__)
@pytest.mark.parametrize("extents", EXTENTS, ids=str)
def test_logarithms_of_sums(extents, dtype):
    rng, count = np.random.default_rng(1), int(np.prod(extents))
    x = (rng.standard_normal(count) * 4).astype(kind_of(dtype))
    frame, out = frame_of(extents), {"out": np.zeros(count, kind_of(dtype))}
    agree("logcumsumexp", dtype, FLAT, out, 8, 64, of_largest=1, x__data=x, **frame)
    shape = extents
    with np.errstate(all="ignore"):
        y = np.logaddexp.accumulate(x.reshape(shape), 1).astype(x.dtype).ravel() if count else x
    v = rng.uniform(0.5, 1, count).astype(x.dtype)
    for name in ("logcumsumexp_backward", "logcumsumexp_backward_backward"):
        agree(name, dtype, FLAT, out, 60, 64, v__data=v, x__data=x, y__data=y, **frame)


def test_logarithms_of_sums_of_special_numbers():
    rows = np.random.default_rng(2).standard_normal((5, 40)).astype(np.float32)
    rows[0, :3], rows[1, 7], rows[2, 9], rows[3, 4:] = -np.inf, np.inf, np.nan, -np.inf
    rows[4] = -np.inf
    out, frame = {"out": np.zeros(200, np.float32)}, frame_of((5, 40, 1))
    agree("logcumsumexp", FLOAT32, FLAT, out, 8, 64, of_largest=1, x__data=rows.ravel(), **frame)
    rows[2, 9] = 0
    y = np.logaddexp.accumulate(rows, 1).astype(np.float32)
    v = np.ones(200, np.float32)
    for name in ("logcumsumexp_backward", "logcumsumexp_backward_backward"):
        agree(name, FLOAT32, FLAT, out, 60, 64, v__data=v, x__data=rows.ravel(), y__data=y.ravel(), **frame)
