"""Running a kernel of the CUDA device in the simulator, and the CPU's with the same frame."""

from __future__ import annotations

import ctypes
import functools

import numpy as np
from cuda_halves import read, stored, unit_of_half
from cuda_simulator import run as run_simulated
from cuda_simulator import words_of

from fastgrad.kernels.compile import compile_kernel
from fastgrad.native.contracts.element_types import COMPLEX, DTYPES, FLOAT16, FLOAT32, HALVES, real_of
from fastgrad.ops.kernel_table import KERNELS

ROWS = {kernel.name: kernel for kernel in KERNELS}
GUARD = 8  # elements around results that nobody writes to
_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_int64)


def both(name: str, dtype: int, form: int, outs: dict, threads: int = 64, **values):
    """What the simulator and the CPU write: for each of `outs`, by name of a field, what it holds at first.

    Where an array stands under two names it is one for both.
    """
    kernel = ROWS[name]
    found = []
    for launch in (run_simulated, run_cpu):
        copies = {key: guarded(value) for key, value in outs.items()}
        given = {
            key: copies.get(value, value) if isinstance(value, str) else value
            for key, value in values.items()
        }
        words = words_of(kernel.frame(form), **copies, **given)
        launch(kernel, dtype, form, words, threads)
        for key, array in copies.items():
            around = np.concatenate([array.base[:GUARD].ravel(), array.base[-GUARD:].ravel()])
            assert (around.view(np.uint8) == 0x5A).all(), f"{name}: {key} is written to beyond its ends"
        found.append({key: array.copy() for key, array in copies.items()})
    return found


def guarded(value: np.ndarray) -> np.ndarray:
    """A copy of an array with elements around it that nobody may write to."""
    whole = np.frombuffer(bytearray(b"\x5a" * ((value.size + 2 * GUARD) * value.itemsize)), value.dtype)
    inner = whole[GUARD : GUARD + value.size]
    inner[:] = value.ravel()
    return inner


def run_cpu(kernel, dtype, form, words, threads):
    frame = (ctypes.c_int64 * len(words))(*words)
    _ENTRY(compile_kernel(kernel, dtype, form))(ctypes.addressof(frame))


def agree(
    name: str,
    dtype: int,
    form: int,
    outs: dict,
    ulps: float = 4,
    threads: int = 64,
    of_largest: float = 0,
    **values,
) -> None:
    """Compare both: equal, or floats so many units in the last place apart, at least of a part of the largest.

    Halves are equal where float32 has to be, and else one unit apart.
    """
    mine, theirs = both(name, dtype, form, outs, threads, **values)
    for key, expected in theirs.items():
        got = mine[key]
        if expected.dtype == np.uint16:
            got, expected = (read(array, dtype) for array in (got, expected))
            unit = functools.partial(unit_of_half, dtype=dtype)
            close(got, expected, min(ulps, 1), f"{name} {DTYPES[dtype]} {key}", of_largest, unit)
            continue
        if expected.dtype.kind == "c":
            close_complex(got, expected, ulps, f"{name} {DTYPES[dtype]} {key}")
            continue
        if expected.dtype.kind != "f":
            np.testing.assert_array_equal(got, expected, err_msg=f"{name} {DTYPES[dtype]} {key}")
            continue
        close(got, expected, ulps, f"{name} {DTYPES[dtype]} {key}", of_largest)


def close(
    got: np.ndarray, expected: np.ndarray, ulps: float, what: str, of_largest: float = 0, unit_of=np.spacing
) -> None:
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected), err_msg=what)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(got[~finite], expected[~finite], err_msg=what)
    least = np.abs(expected[finite]).max(initial=0) * expected.dtype.type(of_largest)
    unit = unit_of(np.maximum(np.abs(expected[finite]), max(least, np.finfo(expected.dtype).tiny)))
    off = np.abs(got[finite].astype(np.float64) - expected[finite]) / unit
    assert off.size == 0 or off.max() <= ulps, f"{what}: {off.max():.1f} ulp"


def close_complex(got: np.ndarray, expected: np.ndarray, ulps: float, what: str) -> None:
    """Of finite numbers the distance counts; parts of others are infinite or NaN where they should be."""
    finite = np.isfinite(expected)
    for part in (np.real, np.imag):
        with np.errstate(all="ignore"):
            mine, theirs = part(got[~finite]), part(expected[~finite])
            np.testing.assert_array_equal(np.isnan(mine), np.isnan(theirs), err_msg=what)
            infinite = np.isinf(theirs)
            np.testing.assert_array_equal(mine[infinite], theirs[infinite], err_msg=what)
    assert np.isfinite(got[finite]).all(), what
    unit = np.spacing(np.maximum(np.abs(expected[finite]), np.finfo(expected.dtype).tiny))
    off = np.abs(got[finite].astype(np.complex128) - expected[finite]) / unit
    assert off.size == 0 or off.max() <= ulps, f"{what}: {off.max():.1f} ulp"


def numbers(rng: np.random.Generator, count: int, dtype: int) -> np.ndarray:
    """Numbers of any size, among them special ones."""
    if dtype in HALVES:
        found = numbers(rng, count, FLOAT32)
        found[: count // 8] *= np.float32(2.0**-18 if dtype == FLOAT16 else 2.0**-130)
        return stored(found, dtype)
    kind = np.dtype(DTYPES[dtype])
    if dtype in COMPLEX:  # so that special numbers are beside usual and other special ones
        parts = [numbers(rng, count, real_of(dtype)) for _ in range(2)]
        return np.stack(parts, -1).view(kind)[:, 0]
    if kind == np.bool_:
        return rng.random(count) < 0.5
    if kind.kind in "iu":
        info = np.iinfo(kind)
        found = rng.integers(-9 if info.min else 0, 10, count).astype(kind)
        special = [info.min, info.max, 0, 1]
    else:
        found = (rng.standard_normal(count) * 3).astype(kind)
        special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0]
    at = rng.permutation(count)[: len(special) if count > 3 * len(special) else 0]
    found[at] = special[: len(at)]
    return found


def bits(value: float) -> int:
    """A float as it stands in a frame."""
    return int(np.float64(value).view(np.int64))


def uniform(count: int, seed: int, dtype: int = FLOAT32) -> np.ndarray:
    return stored(np.random.default_rng(seed).uniform(0.1, 1, count), dtype)
