"""What MPI calls to combine halves, beside NumPy's arithmetic: for all of them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from fastgrad.native.messages.unit import half_routines

COMBINED: dict[str, Callable[..., np.ndarray]] = {
    "sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum,
}  # fmt: skip
ALL = np.arange(1 << 16, dtype=np.uint16)


def numbers(bits: np.ndarray, kind: str) -> np.ndarray:
    return (
        bits.view(np.float16)
        if kind == "float16"
        else (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    )


def rounded(values: np.ndarray, kind: str) -> np.ndarray:
    """Of float32 numbers to bfloat16, ties to even; NaNs aside."""
    if kind == "float16":
        return values
    bits = values.view(np.uint32).astype(np.uint64)
    short = ((bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)).astype(np.uint16)
    return numbers(short, kind)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", COMBINED)
@pytest.mark.parametrize("other", ["1", "itself", "any", "infinity", "least"])
def test_all_halves(kind: str, name: str, other: str):
    fixed = {
        "1": {"float16": 0x3C00, "bfloat16": 0x3F80},
        "infinity": {"float16": 0x7C00, "bfloat16": 0x7F80},
    }
    kept = {
        "itself": ALL.copy(),
        "any": np.random.default_rng(0).permutation(ALL),
        "least": np.full_like(ALL, 0x8001),
    }.get(other)
    if kept is None:
        kept = np.full_like(ALL, fixed[other][kind])
    with np.errstate(all="ignore"):
        wanted = rounded(COMBINED[name](numbers(ALL, kind), numbers(kept, kind)), kind)
    count = np.array([ALL.size], np.int32)
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(half_routines()[f"{kind}_{name}"])
    given = ALL.copy()
    run(given.ctypes.data, kept.ctypes.data, count.ctypes.data, 0)
    found = numbers(kept, kind)
    number = ~np.isnan(wanted)
    assert (np.isnan(found) == ~number).all()
    assert (found[number] == wanted[number]).all()
    if name in ("sum", "prod"):  # of zeros either is the smaller one
        assert (np.signbit(found[number]) == np.signbit(wanted[number])).all()
    assert (given == ALL).all()
