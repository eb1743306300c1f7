"""Samples by rejection on the CUDA device, in the simulator: the CPU's, but for rounding."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_comparing import agree, both
from cuda_halves import kind_of, read, stored

from fastgrad.native.contracts.element_types import DTYPES, FLOAT32, FLOAT64, FLOATS, INT64
from fastgrad.native.contracts.frames.elementwise import FLAT
from fastgrad.native.contracts.frames.framed import SHUFFLE_PASSES

pytestmark = pytest.mark.cudasim

SPECIAL = [0.0, -1.0, np.inf, np.nan, -0.0, 1e-6]
# Of each kernel parameters that take all its ways, and how far apart samples may be.
GIVEN = {
    "_standard_gamma": (np.append(np.geomspace(1e-3, 100, 120), SPECIAL), None),
    "poisson": (np.append(np.linspace(0.1, 40, 120), SPECIAL), None),
    "binomial": (np.append(np.repeat([1, 7, 40, 300], 30), SPECIAL), np.append(np.linspace(0, 1, 120), [0.5] * 6)),
}  # fmt: skip


@np.errstate(all="ignore")
@pytest.mark.parametrize("dtype", FLOATS, ids=DTYPES.__getitem__)
@pytest.mark.parametrize("name", GIVEN)
def test_samples(name, dtype):
    x, p = (None if v is None else stored(v, dtype) for v in GIVEN[name])
    keys = np.random.default_rng(0).integers(-(1 << 63), (1 << 63) - 1, len(x))
    given = {"x__data": x, "x__numel": len(x), "keys__data": keys} | ({} if p is None else {"p__data": p})
    mine, theirs = both(name, dtype, FLAT, {"out": np.zeros(len(x), kind_of(dtype))}, 32, **given)
    got, expected = (read(found["out"], dtype) for found in (mine, theirs))
    if name == "_standard_gamma":
        digits = {FLOAT32: 1e-6, FLOAT64: 1e-13}.get(dtype, 1e-2)
        np.testing.assert_allclose(got, expected, rtol=digits)
    else:
        np.testing.assert_array_equal(got, expected)
    assert len(np.unique(expected[np.isfinite(expected)])) > 20


def test_samples_of_a_kernel_for_many_are_those_of_one_element_each():
    keys, x = np.arange(5), np.full(5, 20.0)
    found, _ = both(
        "poisson", FLOAT64, FLAT, {"out": np.zeros(5)}, 32, x__data=x, x__numel=5, keys__data=keys
    )
    for k in range(5):
        given = {"x__data": x[k:], "x__numel": 1, "keys__data": keys[k:]}
        single, _ = both("poisson", FLOAT64, FLAT, {"out": np.zeros(1)}, 32, **given)
        assert single["out"][0] == found["out"][k]


# Words that send each element to the first place, to its own, and anywhere; to two places alone.
WORDS = {
    "to the first": lambda rng, n: np.zeros(n, np.uint64),
    "nowhere": lambda rng, n: np.full(n, 2**64 - 1, np.uint64),
    "anywhere": lambda rng, n: rng.integers(0, 2**64, n, np.uint64),
    "to few places": lambda rng, n: rng.choice(np.array([0, 2**63], np.uint64), n),
}


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("words", WORDS)
def test_permutations(words, rows):
    """Those of the CPU's shuffle, whichever blocks come first."""
    for length in (1, 2, 3, 33, 100):
        n = rows * length
        drawn = WORDS[words](np.random.default_rng(length), n).view(np.int64)
        given = {
            "words__data": drawn,
            "words__numel": n,
            "length": length,
            "launches": SHUFFLE_PASSES,
            "places": 2 * n,
        }
        room = np.zeros(2 * n, np.int64)  # what stands there at last is nobody's business
        agree("shuffle", INT64, FLAT, {"out": np.zeros(n, np.int64)}, threads=32, room=room, **given)
