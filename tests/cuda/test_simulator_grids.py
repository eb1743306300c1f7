"""Sampling at a grid on the CUDA device, in the simulator, compared with the CPU's kernels."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from cuda_comparing import agree, both

from fastgrad.native.contracts.element_types import DTYPES, FLOAT32, FLOAT64
from fastgrad.native.contracts.frame import INDEX_OUTSIDE
from fastgrad.native.contracts.frames.elementwise import FLAT
from fastgrad.native.contracts.frames.layers import (
    BORDER,
    CUBIC,
    LINEAR,
    NEAREST,
    REFLECTION,
    ZEROS,
)

pytestmark = pytest.mark.cudasim

FLAT_ONE, DEEP = (
    {"d": 1, "h": 4, "w": 5, "rank": 2, "places": 9},
    {"d": 2, "h": 3, "w": 4, "rank": 3, "places": 7},
)
IMAGES, CHANNELS = 2, 5
MODES = {"linear": LINEAR, "nearest": NEAREST, "cubic": CUBIC}
PADDINGS = {"zeros": ZEROS, "border": BORDER, "reflection": REFLECTION}
CASES = [
    (extents, mode, padding, corners)
    for extents, mode, padding, corners in itertools.product((FLAT_ONE, DEEP), MODES, PADDINGS, (0, 1))
    if extents["rank"] == 2 or mode != "cubic"
]


def frame_of(extents: dict, mode: int, padding: int, corners: int) -> dict[str, int]:
    steps = {"first": 0, "count": IMAGES * extents["places"]}
    return {
        **extents,
        "n": IMAGES,
        "c": CHANNELS,
        "mode": mode,
        "padding": padding,
        "corners": corners,
        **steps,
    }


def operands(f: dict, dtype: int, moves: bool) -> dict[str, np.ndarray]:
    """Images, a grid that goes beyond them, what comes back, and a direction."""
    rng = np.random.default_rng(0)
    samples, grids = f["n"] * f["c"] * f["places"], f["n"] * f["places"] * f["rank"]
    found = {
        "x__data": rng.standard_normal(f["n"] * f["c"] * f["d"] * f["h"] * f["w"]),
        "grid__data": rng.uniform(-2.3, 2.3, grids), "grad__data": rng.standard_normal(samples),
    }  # fmt: skip
    if moves:
        found["direction__data"] = rng.standard_normal(grids)
    return {name: value.astype(DTYPES[dtype]) for name, value in found.items()}


def every(f: dict, dtype: int, given: dict, ulps: float = 60, threads: int = 64) -> None:
    """All three kernels."""
    kind = DTYPES[dtype]
    sizes = {
        "grid_sample": f["n"] * f["c"] * f["places"],
        "grid_images": f["n"] * f["c"] * f["d"] * f["h"] * f["w"],
        "grid_places": f["n"] * f["places"] * f["rank"],
    }
    for name, size in sizes.items():
        without = {"grid_sample": "grad__data", "grid_images": "x__data"}.get(name)
        values = {key: value for key, value in given.items() if key != without}
        agree(name, dtype, FLAT, {"out": np.full(size, 7, kind)}, ulps, threads, of_largest=1, **values, **f)


@pytest.mark.parametrize(("extents", "mode", "padding", "corners"), CASES)
def test_grids(extents, mode, padding, corners):
    f = frame_of(extents, MODES[mode], PADDINGS[padding], corners)
    for moves in (False, True):
        every(f, FLOAT32, operands(f, FLOAT32, moves), threads=32)


@pytest.mark.parametrize("mode", MODES)
def test_grids_of_doubles(mode):
    f = frame_of(FLAT_ONE, MODES[mode], BORDER, 0)
    every(f, FLOAT64, operands(f, FLOAT64, True))


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("corners", [0, 1])
def test_places_between_elements_beyond_all_numbers_and_of_images_of_one_element(padding, corners):
    f = frame_of({**FLAT_ONE, "h": 1}, NEAREST, PADDINGS[padding], corners)
    special = np.array(
        [-1, 1, 0, 0.4, -0.4, 0.2, 1e30, -1e30, np.inf, -np.inf, np.nan, 0.6, -0.6, 0.8, -0.8, 1.2, -1.2, 2]
    )
    given = operands(f, FLOAT32, False)
    given["grid__data"] = np.tile(special.astype(np.float32), IMAGES)
    for mode in (NEAREST, LINEAR):
        every({**f, "mode": mode}, FLOAT32, given)


def test_few_places_of_many_channels():
    f = frame_of({**FLAT_ONE, "places": 1}, LINEAR, ZEROS, 0) | {"c": 70}
    given = operands(f, FLOAT32, False)
    given["grid__data"] /= 3
    every(f, FLOAT32, given)


@pytest.mark.parametrize("name", ["grid_sample", "grid_images", "grid_places"])
def test_frames_that_cannot_be_are_reported(name):
    f = frame_of(FLAT_ONE, LINEAR, ZEROS, 0)
    outs = {"out": np.zeros(1000, np.float32), "status": np.zeros(3, np.int64)}
    given = operands(f, FLOAT32, False)
    given.pop({"grid_sample": "grad__data", "grid_images": "x__data"}.get(name), None)
    mine, theirs = both(name, FLOAT32, FLAT, outs, 64, **given, **{**f, "mode": 3})
    assert mine["status"][0] == INDEX_OUTSIDE
    np.testing.assert_array_equal(mine["status"], theirs["status"])
    assert not mine["out"].any()
