"""Random numbers: the generator's known answers, what an element depends on, distributions, and generators.

Expected words come from a generator in plain Python (`stream`). Statistics are of fixed seeds, so a test that
passes once always does; bounds are five standard deviations, or the 1 % point of a distribution.
"""

from __future__ import annotations

import copy
import ctypes
import functools
import itertools
import math
import pickle
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import fastgrad
from fastgrad import random
from fastgrad.func import vmap
from fastgrad.kernels.compile import compile_kernel
from fastgrad.kernels.cpu import random as kernels
from fastgrad.native.base.intrinsics import words
from fastgrad.native.build import processors
from fastgrad.native.build.compiler import compile_unit, optimised
from fastgrad.native.build.loader import load_object, rt
from fastgrad.native.contracts.element_types import (
    BOOL,
    DTYPES,
    FLOAT32,
    FLOAT64,
    HALVES,
    INT32,
    INT64,
    UINT8,
    WIDE_NUMBERS,
)
from fastgrad.native.contracts.entries import Export
from fastgrad.native.contracts.frames import FLAT
from fastgrad.native.contracts.frames.filling import INTEGERS, PERMUTATION
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.nn.functional import dropout
from fastgrad.ops.call import apply
from fastgrad.ops.random import RANDOM_KERNELS, SEQUENCE

ROWS = {row.name: row for row in (*RANDOM_KERNELS.values(), SEQUENCE)}
FLOATS = pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=lambda code: DTYPES[code])
EVERY_KERNEL = [
    *((name, dtype) for name in ("uniform", "normal") for dtype in (FLOAT32, FLOAT64)),
    *((name, dtype) for name in ("integers", "sequence") for dtype in WIDE_NUMBERS),
    ("integers", BOOL),
]  # fmt: skip
TAKES_BITS = {
    "uniform": (FLOAT32, FLOAT64),
    "normal": (FLOAT32, FLOAT64),
    "integers": (),
    "sequence": (FLOAT32, FLOAT64),
    "permutation": (),
}
OUTSIDE = 3  # elements after the last, which a kernel must leave alone

# Counter, key and result, from the file kat_vectors of Random123.
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]  # fmt: skip


def philox(counter, key):
    """Philox4x32-10 in integers of any size."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & 0xFFFFFFFF, (p0 >> 32) ^ c3 ^ k1, p0 & 0xFFFFFFFF
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


def stream(seed, offset, blocks):
    """The words of so many blocks."""
    key = seed & 0xFFFFFFFF, seed >> 32
    counters = [(offset + k) % 2**64 for k in range(blocks)]
    return [word for c in counters for word in philox((c & 0xFFFFFFFF, c >> 32, 0, 0), key)]


def wide_stream(seed, offset, blocks):
    """The same, as integers of 64 bits."""
    narrow = stream(seed, offset, blocks)
    return [high << 32 | low for high, low in zip(narrow[::2], narrow[1::2], strict=True)]


def numpy_dtype(dtype):
    return np.dtype(DTYPES[dtype])


def bits(value):
    return int(np.float64(value).view(np.int64))


def call(address, frame):
    frame = np.array(frame, np.uint64)
    ctypes.CFUNCTYPE(None, ctypes.c_int64)(address)(frame.ctypes.data)


@functools.cache
def address_of(name, dtype):
    return compile_kernel(ROWS[name], dtype, FLAT)


def run(name, dtype, n, *, seed=0, offset=0, a=0, b=0):
    """What a kernel writes. Words a and b, or start and step, are numbers."""
    convert = bits if dtype in TAKES_BITS[name] else int
    a, b = convert(a), convert(b)
    arguments = (a, b, n, 0) if name == "sequence" else (seed, offset, a, b)
    out = np.full((n + OUTSIDE) * numpy_dtype(dtype).itemsize, 77, np.uint8)
    call(address_of(name, dtype), [n, out.ctypes.data, *(word % 2**64 for word in arguments)])
    out = out.view(numpy_dtype(dtype))
    assert (out[n:].view(np.uint8) == 77).all()
    return out[:n]


def chi_square(observed):
    """How many standard deviations chi-square lies from its mean, for counts that should be equal."""
    expected = observed.sum() / observed.size
    freedom = observed.size - 1
    return (((observed - expected) ** 2 / expected).sum() - freedom) / math.sqrt(2 * freedom)


# --- the generator ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compiled_philox():
    def kernel(frame):
        f = words(frame)
        u = np.uint64
        x0, x1, x2, x3 = kernels.philox(u(f[0]), u(f[1]), u(f[2]), u(f[3]), u(f[4]), u(f[5]))
        f[6], f[7], f[8], f[9] = x0, x1, x2, x3

    code = compile_unit("philox", [Export("philox", kernel)], options=kernels.KERNEL)
    entry = ctypes.CFUNCTYPE(None, ctypes.c_int64)(load_object(code)("fastgrad_philox"))

    def result(counter, key):
        frame = np.array([*counter, *key, 0, 0, 0, 0], np.int64)
        entry(frame.ctypes.data)
        return tuple(frame[6:].tolist())

    return result


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_known_answers(compiled_philox, counter, key, expected):
    assert philox(counter, key) == expected
    assert compiled_philox(counter, key) == expected


@pytest.mark.parametrize("offset", [0, 5, 2**32 - 3, 2**63 - 2, 2**64 - 4])
@pytest.mark.parametrize("seed", [0, 1, 0x299F31D0A4093822, 2**64 - 1])
def test_an_element_is_a_function_of_seed_offset_and_index(seed, offset):
    narrow = np.array(stream(seed, offset, 25), np.uint32)
    wide = np.array(wide_stream(seed, offset, 50), np.uint64)
    u = run("uniform", FLOAT32, 100, seed=seed, offset=offset, a=0, b=1)
    np.testing.assert_array_equal(u, (narrow >> 8).astype(np.float32) * np.float32(2.0**-24))
    u = run("uniform", FLOAT64, 100, seed=seed, offset=offset, a=0, b=1)
    np.testing.assert_array_equal(u, (wide >> 11).astype(np.float64) * 2.0**-53)


@pytest.mark.parametrize(("name", "dtype"), EVERY_KERNEL)
def test_elements_do_not_depend_on_their_number(name, dtype):
    bounds = {"a": 0, "b": 2 if dtype == BOOL else 1}
    whole = run(name, dtype, 200, seed=9, offset=4, **bounds)
    for n in (*range(20), 63, 64, 65, 127, 199):
        np.testing.assert_array_equal(run(name, dtype, n, seed=9, offset=4, **bounds), whole[:n])


@pytest.mark.parametrize(("name", "dtype"), [("uniform", FLOAT32), ("normal", FLOAT64), ("integers", INT64)])
def test_a_later_offset_continues_the_stream(name, dtype):
    width = 4 if dtype == FLOAT32 else 2
    whole = run(name, dtype, 100, seed=3, offset=10, a=0, b=1000)
    later = run(name, dtype, 100 - 8 * width, seed=3, offset=18, a=0, b=1000)
    np.testing.assert_array_equal(later, whole[8 * width :])


@pytest.mark.parametrize(("name", "dtype"), [("uniform", FLOAT32), ("normal", FLOAT32), ("integers", INT64)])
def test_loops_multiply_vectors(name, dtype):
    function, options = getattr(kernels, name)(ROWS[name], dtype, FLAT)
    module = optimised(name, [Export(name, function)], processors.host(), options=options)
    assert re.search(r"mul [a-z ]*<\d+ x i64>", str(module))


# --- distributions ------------------------------------------------------------------------------------------


@FLOATS
def test_uniform_is_uniform(dtype):
    n = 1 << 19
    u = run("uniform", dtype, n, seed=123, offset=2**40, a=0, b=1).astype(np.float64)
    assert u.min() >= 0
    assert u.max() < 1
    assert abs(u.mean() - 0.5) < 5 * math.sqrt(1 / 12 / n)
    assert abs(u.var() - 1 / 12) < 5 * math.sqrt(1 / 180 / n)
    assert abs(chi_square(np.bincount((u * 256).astype(int), minlength=256))) < 5
    pairs = (u[::2] * 16).astype(int) * 16 + (u[1::2] * 16).astype(int)
    assert abs(chi_square(np.bincount(pairs, minlength=256))) < 5
    for lag in (1, 2, 4, 64):
        assert abs(np.corrcoef(u[:-lag], u[lag:])[0, 1]) < 5 / math.sqrt(n)


@FLOATS
def test_every_bit_of_uniform_is_balanced(dtype):
    n, width = 1 << 16, 24 if dtype == FLOAT32 else 53
    u = run("uniform", dtype, n, seed=5, a=0, b=1).astype(np.float64) * 2.0**width
    assert (u == np.floor(u)).all()
    for bit in range(width):
        ones = (u.astype(np.int64) >> bit & 1).sum()
        assert abs(ones - n / 2) < 5 * math.sqrt(n) / 2


@FLOATS
@pytest.mark.parametrize(("low", "high"), [(-3, 5), (100, 100.5), (-1e-30, 1e-30), (0, 1e30)])
def test_uniform_between_bounds(dtype, low, high):
    low, high = (float(numpy_dtype(dtype).type(bound)) for bound in (low, high))
    n = 1 << 16
    u = run("uniform", dtype, n, seed=8, a=low, b=high).astype(np.float64)
    assert u.min() >= low
    assert u.max() < high
    assert abs((u.mean() - low) / (high - low) - 0.5) < 5 * math.sqrt(1 / 12 / n)


@FLOATS
def test_the_upper_bound_is_excluded_even_between_neighbours(dtype):
    step = np.finfo(numpy_dtype(dtype)).eps
    u = run("uniform", dtype, 1 << 16, seed=1, a=1, b=1 + 8 * step)
    counts = np.bincount(((u - 1) / step).astype(int))
    assert counts.size == 8
    assert abs(chi_square(counts)) < 5
    assert (run("uniform", dtype, 100, seed=1, a=2.5, b=2.5) == 2.5).all()


@FLOATS
def test_normal_is_normal(dtype):
    n = 1 << 17
    z = run("normal", dtype, n, seed=77, offset=3, a=0, b=1).astype(np.float64)
    for power, variance in ((1, 1), (2, 2), (3, 15), (4, 96)):
        expected = 0 if power % 2 else (1, 3)[power // 2 - 1]
        assert abs((z**power).mean() - expected) < 5 * math.sqrt(variance / n)
    z.sort()
    cdf = np.array([math.erfc(-x / math.sqrt(2)) / 2 for x in z.tolist()])
    steps = np.arange(n + 1) / n
    distance = max((steps[1:] - cdf).max(), (cdf - steps[:-1]).max())  # Kolmogorov and Smirnov's
    assert distance * math.sqrt(n) < 1.63
    beyond = (abs(z) > 3).sum()
    expected = n * math.erfc(3 / math.sqrt(2))
    assert abs(beyond - expected) < 5 * math.sqrt(expected)


@FLOATS
def test_normal_numbers_of_a_pair_are_independent(dtype):
    n = 1 << 17
    z = run("normal", dtype, n, seed=4, a=0, b=1).astype(np.float64)
    for lag in (1, 2, 3, 4):
        for f in (np.positive, np.square, np.abs):
            assert abs(np.corrcoef(f(z[:-lag]), f(z[lag:]))[0, 1]) < 5 / math.sqrt(n)
    assert abs(np.corrcoef(z[::2], z[1::2])[0, 1]) < 5 / math.sqrt(n // 2)


@FLOATS
def test_normal_follows_box_and_muller(dtype):
    pairs = 100
    if dtype == FLOAT32:
        x = np.array(stream(6, 0, pairs // 2), np.float64)
        u, turn = (x[::2] + 0.5) * 2.0**-32, np.floor(x[1::2] / 2**8) * 2.0**-24
    else:
        x = np.array(wide_stream(6, 0, pairs), np.uint64) >> np.uint64(11)
        u, turn = 1 - x[::2] * 2.0**-53, x[1::2] * 2.0**-53
    radius, angle = np.sqrt(-2 * np.log(u)), 2 * np.pi * turn
    expected = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).ravel()
    z = run("normal", dtype, 2 * pairs, seed=6, a=0, b=1)
    tolerance = 4 * np.finfo(numpy_dtype(dtype)).eps
    np.testing.assert_allclose(z, expected, rtol=0, atol=8 * tolerance)
    scaled = run("normal", dtype, 2 * pairs, seed=6, a=-2, b=10)
    np.testing.assert_allclose(scaled, 10 * expected - 2, rtol=0, atol=80 * tolerance)


@FLOATS
def test_normal_without_deviation_is_the_mean(dtype):
    assert (run("normal", dtype, 1000, seed=1, a=1.5, b=0) == 1.5).all()


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (0, 1),
        (0, 10),
        (-5, 5),
        (0, 2**32),
        (-(2**40), 2**41 + 7),
        (0, 2**63),
        (-(2**63), 2**63 - 1),
        (-(2**63), 2**63),
    ],
)
def test_integers_are_the_upper_half_of_a_product(low, high):
    expected = [low + (x * (high - low) >> 64) for x in wide_stream(11, 6, 50)]
    assert run("integers", INT64, 100, seed=11, offset=6, a=low, b=high).tolist() == expected


@pytest.mark.parametrize("span", [2, 7, 100, 1000])
def test_integers_are_uniform(span):
    x = run("integers", INT64, 1 << 18, seed=21, a=-3, b=span - 3)
    counts = np.bincount(x + 3)
    assert counts.size == span
    assert abs(chi_square(counts)) < 5


@pytest.mark.parametrize("dtype", [UINT8, INT32, FLOAT32, FLOAT64])
def test_integers_are_the_same_in_every_dtype(dtype):
    expected = run("integers", INT64, 1000, seed=2, a=0, b=256)
    assert expected.min() == 0
    assert expected.max() == 255
    np.testing.assert_array_equal(run("integers", dtype, 1000, seed=2, a=0, b=256), expected)


def test_integers_of_bool():
    x = run("integers", BOOL, 10000, seed=2, a=0, b=2)
    assert set(x.view(np.uint8).tolist()) == {0, 1}
    assert abs(x.sum() - 5000) < 250


@pytest.mark.parametrize("name", ["uniform", "normal"])
def test_floats_only(name):
    assert ROWS[name].dtypes == (*HALVES, FLOAT32, FLOAT64)
    with pytest.raises(NotImplementedError, match=r"\.to\(fastgrad\.float32\)"):
        ROWS[name].need(INT64, FLAT)


@pytest.mark.parametrize("dtype", [INT32, INT64])
def test_sequences_of_integers(dtype):
    for start, step in ((0, 1), (5, -3), (-7, 1000)):
        expected = [start + k * step for k in range(100)]
        assert run("sequence", dtype, 100, a=start, b=step).tolist() == expected


def test_a_sequence_wraps_around():
    assert run("sequence", UINT8, 300, a=250, b=1).tolist() == [(250 + k) % 256 for k in range(300)]


@FLOATS
def test_sequences_of_floats_are_rounded_once(dtype):
    start, step = 0.3, 0.7
    exact = np.longdouble(start) + np.arange(1000) * np.longdouble(step)
    expected = exact.astype(np.float64).astype(numpy_dtype(dtype))
    np.testing.assert_array_equal(run("sequence", dtype, 1000, a=start, b=step), expected)


@pytest.mark.parametrize("n", [1, 2, 3, 16, 1001])
@pytest.mark.parametrize("ends", [(0.0, 1.0), (0.1, 0.7), (3.0, -7.0), (1e30, -1e30), (2.5, 2.5)])
def test_numbers_between_two_ends_are_counted_from_the_nearer_one(n, ends):
    torch = pytest.importorskip("torch")
    x = fastgrad.linspace(*ends, n, dtype=fastgrad.float64).numpy()
    np.testing.assert_array_equal(x, torch.linspace(*ends, n, dtype=torch.float64).numpy())
    np.testing.assert_array_equal(fastgrad.linspace(*ends, n).numpy(), np.float32(x))


# --- permutations -------------------------------------------------------------------------------------------


def shuffled(words, length):
    """Permutations by the words, in plain Python."""
    out = []
    for first in range(0, len(words), length):
        order = []
        for i, word in enumerate(words[first : first + length]):
            place = word * (i + 1) >> 64
            order.append(i)
            order[i], order[place] = order[place], i
        out += order
    return out


@pytest.mark.parametrize("length", [1, 2, 7, 255, 1000, 2000])
@pytest.mark.parametrize(("seed", "offset"), [(0, 0), (2**63 + 5, 2**32 - 3), (9, 2**64 - 4)])
def test_a_permutation_is_made_of_the_words_of_its_stream(length, seed, offset):
    words = wide_stream(seed, offset, 1000)
    found = run("permutation", INT64, 2000, seed=seed, offset=offset, a=length)
    assert found.tolist() == shuffled(words, length)


@pytest.mark.parametrize("length", [0, -5, 10**12])
def test_lengths_that_make_no_sense_write_nothing_outside(length):
    found = run("permutation", INT64, 100, a=length)
    assert sorted(found.tolist()) == list(range(100))


def test_all_permutations_are_as_likely():
    orders = run("permutation", INT64, 4 * 24_000, seed=3, a=4).reshape(-1, 4)
    number = {order: k for k, order in enumerate(itertools.permutations(range(4)))}
    counts = np.bincount([number[tuple(order)] for order in orders.tolist()], minlength=24)
    assert abs(chi_square(counts)) < 4


def test_every_number_stands_everywhere():
    """Means and correlation of a long permutation, within five standard deviations."""
    n = 200_000
    found = run("permutation", INT64, n, seed=11, a=n)
    assert sorted(found.tolist()) == list(range(n))
    assert abs(np.corrcoef(found, np.arange(n))[0, 1]) < 5 / math.sqrt(n)
    assert abs(np.corrcoef(found[1:], found[:-1])[0, 1]) < 5 / math.sqrt(n)


@pytest.mark.parametrize("n", [0, 1, 2, 511, 512, 513, 100_001])
def test_permutations_are_those_of_the_generator_for_any_number_of_threads(n):
    generator, before, found = fastgrad.Generator(), fastgrad.get_num_threads(), []
    for threads in (1, 2):
        fastgrad.set_num_threads(threads)
        found.append(fastgrad.randperm(n, generator=generator.manual_seed(5)))
    fastgrad.set_num_threads(before)
    fastgrad.manual_seed(5)
    found.append(fastgrad.randperm(n))
    assert found[0].dtype == fastgrad.int64
    assert sorted(found[0].tolist()) == list(range(n))
    assert found[0].tolist() == found[1].tolist() == found[2].tolist()
    assert (
        fastgrad.randperm(n, generator=generator.manual_seed(5), dtype=fastgrad.int32).tolist()
        == found[0].tolist()
    )


def test_the_next_permutation_takes_further_words():
    generator = fastgrad.Generator().manual_seed(5)
    fastgrad.randperm(31, generator=generator)
    rest = fastgrad.empty(10, dtype=fastgrad.int64).random_(generator=generator)
    once = fastgrad.Generator().manual_seed(5)
    fastgrad.empty(32, dtype=fastgrad.int64).random_(generator=once)
    assert rest.tolist() == fastgrad.empty(10, dtype=fastgrad.int64).random_(generator=once).tolist()


def test_each_element_of_a_batch_is_a_permutation():
    found = vmap(lambda x: fastgrad.randperm(7) + x, randomness="different")(
        fastgrad.zeros(40, dtype=fastgrad.int64)
    )
    assert [sorted(order) for order in found.tolist()] == [list(range(7))] * 40
    assert len({tuple(order) for order in found.tolist()}) > 30
    nested = vmap(vmap(lambda x: fastgrad.randperm(5) + x, randomness="different"), randomness="different")
    assert (
        nested(fastgrad.zeros(3, 4, dtype=fastgrad.int64)).sort().values.tolist()
        == [[list(range(5))] * 4] * 3
    )


@pytest.mark.parametrize("n", [2.5, None, True])
def test_lengths_are_ints(n):
    with pytest.raises(TypeError, match="must be int"):
        fastgrad.randperm(n)


def test_a_permutation_without_memory():
    assert fastgrad.randperm(5, device="meta").shape == (5,)
    assert fastgrad.randperm(5, device="meta", dtype=fastgrad.int32).dtype == fastgrad.int32


@pytest.mark.parametrize("sizes", [(0,), (1,), (7,), (513,), (3, 40), (2, 0)])
def test_words_that_were_drawn_before_make_the_same_permutation(sizes):
    """As devices do that draw first."""
    generator, again = (fastgrad.Generator().manual_seed(8) for _ in range(2))
    drawn = random.fill(INTEGERS, fastgrad.empty(sizes, dtype=fastgrad.int64), generator, 0, 0)
    found, _ = apply(BY_NAME["shuffle"].id, 1, 0, drawn, sizes[-1], 0, 1, -1, 1, 0)
    out = random.fill(PERMUTATION, fastgrad.empty(sizes, dtype=fastgrad.int64), again, sizes[-1], 0)
    assert found.tolist() == out.tolist()
    assert generator.get_state().tolist() == again.get_state().tolist()


# --- generators ---------------------------------------------------------------------------------------------

SEEDS = [0, 1, -1, 2**63, -(2**63), 2**64 - 1, 2**64, -(2**63) - 1, 1.5, "a", None, True]


def new_tensor(dtype, *sizes):
    return rt.new(dtype, 0, tuple(sizes))


def values(tensor):
    code, numel, data = (rt.field(tensor, TENSOR.fields[f][0]) for f in ("dtype", "numel", "data"))
    dtype = numpy_dtype(code)
    return np.frombuffer(ctypes.string_at(data, numel * dtype.itemsize), dtype)


def filled(fill, dtype, n, *bounds):
    tensor = new_tensor(dtype, n)
    fill(tensor, *bounds)
    return values(tensor)


@pytest.fixture
def generator():
    return random.Generator().manual_seed(42)


@pytest.fixture(autouse=True)
def default_state():
    _, seed, offset = random.default_generator.__reduce__()[1]
    yield
    random.default_generator._restart(seed, offset)


def test_a_new_generator_has_a_fixed_seed():
    assert random.Generator().initial_seed() == random.Generator("cpu").initial_seed() == 67280421310721
    assert str(random.Generator().device) == "cpu"


def test_a_generator_needs_a_known_device():
    with pytest.raises(RuntimeError, match=r"Expected one of cpu, cuda, .*: toaster"):
        random.Generator("toaster")


@pytest.mark.parametrize(
    ("seed", "expected"), [(0, 0), (7, 7), (-1, 2**64 - 1), (-(2**63), 2**63), (2**64 - 1,) * 2]
)
def test_seeds_are_unsigned_words(generator, seed, expected):
    assert generator.manual_seed(seed) is generator
    assert generator.initial_seed() == expected
    assert random.manual_seed(seed) is random.default_generator
    assert random.initial_seed() == expected


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_seeds_out_of_range(generator, seed):
    with pytest.raises(ValueError, match=f"manual_seed.*but got {seed}"):
        generator.manual_seed(seed)
    assert generator.initial_seed() == 42


@pytest.mark.parametrize("seed", [1.5, "a", None, True])
def test_seeds_of_other_types(generator, seed):
    with pytest.raises(
        RuntimeError, match=f"manual_seed: expected seed to be an int, but got {type(seed).__name__}"
    ):
        generator.manual_seed(seed)


@pytest.mark.parity
@pytest.mark.parametrize("seed", SEEDS)
def test_seeds_are_taken_as_in_pytorch(seed):
    torch = pytest.importorskip("torch")

    def outcome(function):
        try:
            return function(seed).initial_seed()
        except Exception as error:
            return type(error)

    assert outcome(random.Generator().manual_seed) == outcome(torch.Generator().manual_seed)
    assert outcome(random.manual_seed) == outcome(torch.manual_seed)


def test_seeds_of_the_operating_system_differ(generator):
    assert generator.seed() == generator.initial_seed()
    assert len({generator.seed() for _ in range(10)} | {random.seed()}) == 11
    assert random.initial_seed() == random.default_generator.initial_seed()


def test_the_same_seed_gives_the_same_numbers(generator):
    first = filled(random.fill_normal, FLOAT32, 1001, 0.0, 1.0, generator)
    assert not np.array_equal(filled(random.fill_normal, FLOAT32, 1001, 0.0, 1.0, generator), first)
    generator.manual_seed(42)
    np.testing.assert_array_equal(filled(random.fill_normal, FLOAT32, 1001, 0.0, 1.0, generator), first)
    generator.manual_seed(43)
    assert not np.array_equal(filled(random.fill_normal, FLOAT32, 1001, 0.0, 1.0, generator), first)


@pytest.mark.parametrize(("dtype", "n"), [(FLOAT32, 60), (FLOAT64, 62)])
def test_fills_of_whole_blocks_continue_each_other(generator, dtype, n):
    parts = [filled(random.fill_uniform, dtype, size, 0.0, 1.0, generator) for size in (n, 100)]
    generator.manual_seed(42)
    whole = filled(random.fill_uniform, dtype, n + 100, 0.0, 1.0, generator)
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_a_fill_takes_whole_blocks(generator):
    for fill, dtype, n, blocks in (
        (random.fill_uniform, FLOAT32, 5, 2), (random.fill_normal, FLOAT64, 5, 3),
        (random.fill_integers, UINT8, 3, 2), (random.fill_integers, FLOAT32, 4, 2),
        (random.fill_uniform, FLOAT32, 0, 0),
    ):  # fmt: skip
        _, before = generator._words()
        filled(fill, dtype, n, 0, 1, generator)
        assert generator._words() == (42, before + blocks)


def test_offsets_wrap_around(generator):
    generator._restart(42, 2**64 - 1)
    filled(random.fill_uniform, FLOAT32, 12, 0.0, 1.0, generator)
    assert generator._words() == (42, 2)


def test_the_default_generator_fills_where_none_is_named():
    random.manual_seed(5)
    first = filled(random.fill_integers, INT64, 20, 0, 1000)
    random.manual_seed(5)
    np.testing.assert_array_equal(filled(random.fill_integers, INT64, 20, 0, 1000, None), first)


def test_threads_never_share_blocks(generator):
    def draw(_):
        return tuple(filled(random.fill_integers, INT64, 2, -(2**63), 2**63, generator))

    def draw_default(_):
        return tuple(fastgrad.randint(-(2**63), 2**63 - 1, (2,)).tolist())

    random.manual_seed(7)
    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(draw, range(2000)))
        assert len(set(taken)) == 2000
        assert len(set(pool.map(draw_default, range(2000)))) == 2000
    assert generator._words() == (42, 2000)
    assert random.default_generator._words() == (7, 2000)


def test_ops_draw_the_stream_that_fills_draw():
    """Functions draw by ops where they can, and by fills of what they made; from plans, too."""
    generator = random.Generator().manual_seed(3)
    random.manual_seed(3)
    draws = (
        lambda **given: fastgrad.rand(5, **given),
        lambda **given: fastgrad.randn(3, **given),
        lambda **given: fastgrad.bernoulli(fastgrad.full((6,), 0.5), **given),
        lambda **given: fastgrad.randn(3, dtype=fastgrad.float64, **given),
    )
    for _ in range(5):
        for draw in draws:
            assert draw().tolist() == draw(generator=generator).tolist()
            assert random.default_generator._words() == generator._words()


def test_states_bring_back_seed_and_position(generator):
    generator._restart(42, 11)
    state = generator.get_state()
    assert values(state).dtype == np.uint8
    generator.manual_seed(0)
    other = random.Generator()
    other.set_state(state)
    assert other._words() == (42, 11)
    random.set_rng_state(state)
    np.testing.assert_array_equal(values(random.get_rng_state()), values(state))
    assert random.default_generator._words() == (42, 11)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: b"0" * 16,
            TypeError,
            "set_state: expected new_state to be a tensor of uint8, but got bytes",
        ),
        (lambda: new_tensor(FLOAT32, 16), TypeError, "set_state.*but got a tensor of float32"),
        (lambda: new_tensor(UINT8, 5), RuntimeError, "set_state.*16 elements.*but got one with 5"),
    ],
)
def test_states_of_other_kinds(generator, make, error, message):
    with pytest.raises(error, match=message):
        generator.set_state(make())


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))])
def test_generators_can_be_copied(generator, duplicate):
    generator._restart(42, 9)
    other = duplicate(generator)
    assert other is not generator
    generator.manual_seed(0)
    assert repr(other) == "<Generator device=cpu seed=42 offset=9>"


@pytest.mark.parametrize(
    ("fill", "dtype", "bounds", "message"),
    [
        (random.fill_uniform, FLOAT32, (1, 0), "uniform_: expected low <= high, but got low=1 and high=0"),
        (random.fill_uniform, FLOAT32, (math.nan, 0), "uniform_.*low=nan"),
        (random.fill_uniform, FLOAT32, (-3e38, 3e38), "uniform_.*finite"),
        (random.fill_uniform, FLOAT64, (-1e308, 1e308), "uniform_.*finite"),
        (random.fill_uniform, FLOAT64, (0, math.inf), "uniform_.*finite"),
        (random.fill_normal, FLOAT64, (0, -1), "normal_: expected std >= 0, but got std=-1"),
        (random.fill_normal, FLOAT64, (0, math.nan), "normal_: .*std=nan"),
        (random.fill_integers, INT64, (5, 5), "random_: expected low < high, but got low=5 and high=5"),
        (random.fill_integers, UINT8, (0, 257), "random_: expected 0 <= low and high <= 256 for dtype uint8"),
        (random.fill_integers, INT32, (-(2**31) - 1, 0), "random_.*int32.*low=-2147483649"),
        (random.fill_integers, INT64, (0, 2**63 + 1), "random_.*int64"),
        (random.fill_integers, FLOAT32, (0, 2**24 + 2), "random_.*float32"),
    ],
)
def test_bounds_that_make_no_sense(generator, fill, dtype, bounds, message):
    with pytest.raises(RuntimeError, match=message):
        fill(new_tensor(dtype, 3), *bounds, generator)
    assert generator._words() == (42, 0)


def test_a_generator_is_not_a_number():
    with pytest.raises(TypeError, match="uniform_: expected generator to be a Generator, but got int"):
        random.fill_uniform(new_tensor(FLOAT32, 3), 0, 1, 5)


@pytest.mark.parametrize(
    ("fill", "name"), [(random.fill_uniform, "uniform_"), (random.fill_normal, "normal_")]
)
def test_fills_of_dtypes_without_a_kernel(fill, name):
    with pytest.raises(NotImplementedError, match=f"{name}.*Long"):
        fill(new_tensor(INT64, 3), 0, 1)


def test_the_widest_range_of_integers(generator):
    x = filled(random.fill_integers, INT64, 1000, -(2**63), 2**63, generator)
    assert (x < 0).any()
    assert (x > 0).any()
    x = filled(random.fill_integers, INT64, 1000, 0, 2**63, generator)
    assert (x >= 0).all()


@pytest.mark.parametrize("length", [0, 8, 1000])
def test_default_state_of_another_length(length: int):
    state = random.default_generator._state
    before = bytes(state)
    try:
        state[:] = bytes(length)
        for draw in (
            fastgrad.randn,
            lambda n: fastgrad.empty(n).normal_(),
            lambda n: dropout(fastgrad.ones(n)),
        ):
            with pytest.raises(RuntimeError, match=r"invalid argument|do not fit"):
                draw(3)
    finally:
        state[:] = before
    assert fastgrad.rand(3).shape == (3,)
