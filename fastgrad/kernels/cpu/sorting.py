"""The k first elements of each row in order, with their places: sorting where k is the length of the row.

Note [Words to sort]: an element becomes a word, its key above its place in the row. Keys are integers in the order of
the elements: equal ones for equal elements, zeros of both signs among them, the largest for every NaN; from the largest
on they are complemented. So no two words of a row are equal, their order is the stable one however they are sorted, and
nothing is compared but integers. A word has room for half a key of 64 bits: the upper half is sorted, then the lower
half within each run of equal upper ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP, Element
from fastgrad.kernels.reports import Builder
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import address_of, advance, stack_scratch, words
from fastgrad.native.contracts.element_types import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT32,
    UINT64,
)
from fastgrad.native.contracts.frames.sorting import (
    BEGIN,
    BUCKETS,
    COLUMNS,
    COUNT,
    COUNTERS,
    DEAL,
    MARKS,
    PADDING,
    PIECE,
    ROWS,
)

PLACE = 0xFFFFFFFF  # the lower half of a word
HALF = 32
SIGN = -(2**63)
FEW = 96  # words that are sorted by counting how many precede each
MANY = 8192  # words from which on three digits of 11 bits are faster than four of eight
SLACK, BLOCK = 256, 64  # candidates beyond twice k; elements that are compared with the bound at a time

# As what elements move, so that their bits stay.
_BITS = {FLOAT16: INT16, BFLOAT16: INT16, FLOAT32: INT32, FLOAT64: INT64, BOOL: UINT8}


def _float_key(scalar: Any, infinity: int) -> Any:
    largest = np.iinfo(scalar).max

    @njit(**INLINE)
    def key(bits):  # type: ignore[no-untyped-def]
        wide = types.int64(bits)
        magnitude = wide & largest
        if magnitude > infinity:
            magnitude = largest  # NaN of either sign
        return -magnitude if wide < 0 and magnitude != largest else magnitude

    return key


@njit(**INLINE)
def _integer_key(value):  # type: ignore[no-untyped-def]
    return types.int64(value)


@njit(**INLINE)
def _unsigned_32_key(value):  # type: ignore[no-untyped-def]
    return types.int64(value) - (1 << 31)


@njit(**INLINE)
def _unsigned_64_key(value):  # type: ignore[no-untyped-def]
    return types.int64(value) ^ SIGN


_OTHER_KEYS = {
    UINT32: _unsigned_32_key, UINT64: _unsigned_64_key,
    FLOAT16: _float_key(np.int16, 0x7C00), BFLOAT16: _float_key(np.int16, 0x7F80),
    FLOAT32: _float_key(np.int32, 0x7F80 << 16), FLOAT64: _float_key(np.int64, 0x7FF0 << 48),
}  # fmt: skip

# --- sorting words ---------------------------------------------------------------------------------------------


@njit(**LOOP)
def _by_ranks(a, b, n):  # type: ignore[no-untyped-def]
    """Sort a few words: each goes to the place that as many precede as are smaller."""
    for i in range(n):
        word = a[i]
        rank = 0
        for j in range(n):
            rank += a[j] < word
        b[rank] = word
    for i in range(n):
        a[i] = b[i]


def _by_digits(bits: int) -> Any:
    """The function that sorts words by digits of their upper halves, from the lowest on; where one is the same in all
    words, nothing moves.
    """
    passes, size = -(-HALF // bits), 1 << bits
    mask = size - 1

    @njit(**KERNEL)
    def sort(a, b, counters, n):  # type: ignore[no-untyped-def]
        for k in range(passes * size):
            counters[k] = 0
        for i in range(n):
            word = a[i] ^ SIGN
            for p in range(passes):
                counters[p * size + (word >> (HALF + p * bits) & mask)] += 1
        source, target = a, b
        for p in range(passes):
            shift = HALF + p * bits
            starts = advance(counters, p * size)
            if starts[(source[0] ^ SIGN) >> shift & mask] == n:
                continue
            total = 0
            for k in range(size):
                count = starts[k]
                starts[k] = total
                total += count
            for i in range(n):
                word = source[i]
                digit = (word ^ SIGN) >> shift & mask
                to = starts[digit]
                starts[digit] = to + 1
                target[to] = word
            source, target = target, source
        if address_of(source) != address_of(a):
            for i in range(n):
                a[i] = b[i]

    return sort


_narrow, _wide = _by_digits(8), _by_digits(11)


@njit(**KERNEL)
def _order(a, b, counters, n):  # type: ignore[no-untyped-def]
    """Sort `n` words in `a`; `b` has room for as many."""
    if n <= FEW:
        _by_ranks(a, b, n)
    elif n < MANY:
        _narrow(a, b, counters, n)
    else:
        _wide(a, b, counters, n)


# --- rows ------------------------------------------------------------------------------------------------------


def _words(dtype: int, bits: Element) -> tuple[Any, Any, Any]:
    """The functions that make the key and the word of an element, and the one that sorts words of a row.

    `flip` is -1 where the largest come first, and 0 otherwise.
    """
    key_of = _OTHER_KEYS.get(dtype, _integer_key)
    load = bits.load
    halves = bits.scalar in (types.int64, types.uint64)

    @njit(**INLINE)
    def key(x, i, flip):  # type: ignore[no-untyped-def]
        return key_of(load(x, i)) ^ flip

    @njit(**INLINE)
    def word(x, i, flip):  # type: ignore[no-untyped-def]
        upper = key(x, i, flip) >> HALF if halves else key(x, i, flip)
        return upper << HALF | i

    @njit(**KERNEL)
    def order_runs(a, b, counters, n, x, flip):  # type: ignore[no-untyped-def]
        """Sort each run of words whose keys have the same upper half by the lower one."""
        begin = 0
        while begin < n:
            upper = a[begin] >> HALF
            end = begin + 1
            while end < n and a[end] >> HALF == upper:
                end += 1
            if end - begin > 1:
                for i in range(begin, end):
                    place = a[i] & PLACE
                    a[i] = (key(x, place, flip) << HALF ^ SIGN) | place
                _order(advance(a, begin), b, counters, end - begin)
                for i in range(begin, end):
                    a[i] = upper << HALF | a[i] & PLACE
            begin = end

    @njit(**KERNEL)
    def order(a, b, counters, n, x, flip):  # type: ignore[no-untyped-def]
        _order(a, b, counters, n)
        if halves:
            order_runs(a, b, counters, n, x, flip)

    return key, word, order


def _rows(dtype: int, bits: Element) -> Any:
    """The function that writes the words of the first `k` of a row of `n` to `a`, in order."""
    key, word, order = _words(dtype, bits)

    @njit(**LOOP)
    def fill(a, n, x, flip):  # type: ignore[no-untyped-def]
        for i in range(n):
            a[i] = word(x, i, flip)

    @njit(**LOOP)
    def count_below(x, begin, end, bound, flip):  # type: ignore[no-untyped-def]
        count = 0
        for i in range(begin, end):
            count += key(x, i, flip) < bound
        return count

    @njit(**LOOP)
    def append_below(a, n, x, begin, end, bound, flip):  # type: ignore[no-untyped-def]
        for i in range(begin, end):
            a[n] = word(x, i, flip)
            n += key(x, i, flip) < bound
        return n

    @njit(**KERNEL)
    def first(a, b, counters, n, k, x, flip):  # type: ignore[no-untyped-def]
        most = min(2 * k + SLACK, n)
        fill(a, most, x, flip)
        order(a, b, counters, most, x, flip)
        # Candidates for the first k, the first k of them in order, collect behind what is known to precede the rest.
        # A later element comes among them only if its key is below that of the last.
        count, begin = k, most
        while begin < n:
            bound = key(x, a[k - 1] & PLACE, flip)
            while begin < n and count + BLOCK <= most:
                end = min(begin + BLOCK, n)
                if count_below(x, begin, end, bound, flip) > 0:
                    count = append_below(a, count, x, begin, end, bound, flip)
                begin = end
            if count > k:
                order(a, b, counters, count, x, flip)
                count = k

    return first


# --- one long row: see Note [A long row] in `native.contracts.frames.sorting` ---------------------------------------

SAMPLES = 16  # words for each mark
CHUNK = 1024
_chunk = stack_scratch(CHUNK)
_bytes = ELEMENTS[UINT8].pointer


@njit(**LOOP)
def _count_reached(reached, a, n, mark):  # type: ignore[no-untyped-def]
    for i in range(n):
        reached[i] += a[i] >= mark


@njit(**INLINE)
def _shared(f):  # type: ignore[no-untyped-def]
    """Words in the order of the row and of buckets, marks, the counts of pieces by buckets, the bucket of each word."""
    a = words(f.shared)
    b = advance(a, f.length)
    marks = advance(b, f.length)
    counts = advance(marks, BUCKETS)
    pieces = (f.length + PIECE - 1) // PIECE
    return a, b, marks, counts, _bytes(address_of(advance(counts, pieces * BUCKETS))), pieces


@njit(**KERNEL)
def _begin(f):  # type: ignore[no-untyped-def]
    _, _, _, counts, _, pieces = _shared(f)
    total = 0
    for k in range(BUCKETS):
        for piece in range(pieces):
            at = piece * BUCKETS + k
            total, counts[at] = total + counts[at], total


@njit(**KERNEL)
def _deal(f, piece):  # type: ignore[no-untyped-def]
    a, b, _, counts, buckets, _ = _shared(f)
    starts = advance(counts, piece * BUCKETS)
    for i in range(piece * PIECE, min((piece + 1) * PIECE, f.length)):
        to = starts[buckets[i]]
        starts[buckets[i]] = to + 1
        b[to] = a[i]


def _counting(dtype: int, bits: Element) -> tuple[Any, Any]:
    """The functions that mark where buckets begin, and that count what falls into each from a piece."""
    _, word, _ = _words(dtype, bits)
    halves = bits.scalar == types.int64

    @njit(**KERNEL)
    def mark(f, x, flip):  # type: ignore[no-untyped-def]
        a, b, marks, _, _, _ = _shared(f)
        n = BUCKETS * SAMPLES
        for k in range(n):
            a[k] = word(x, f.length // n * k, flip)
        _order(a, b, words(f.scratch.data), n)
        for k in range(1, BUCKETS):
            # Words of one upper half share a bucket, where their lower halves are compared.
            marks[k] = a[k * SAMPLES] & ~PLACE if halves else a[k * SAMPLES]

    @njit(**KERNEL)
    def count(f, x, flip, piece):  # type: ignore[no-untyped-def]
        a, _, marks, counts, buckets, _ = _shared(f)
        counts, reached = advance(counts, piece * BUCKETS), words(_chunk())
        for k in range(BUCKETS):
            counts[k] = 0
        for begin in range(piece * PIECE, min((piece + 1) * PIECE, f.length), CHUNK):
            n = min(CHUNK, f.length - begin)
            for i in range(n):
                a[begin + i] = word(x, begin + i, flip)
                reached[i] = 0
            for k in range(1, BUCKETS):
                _count_reached(reached, advance(a, begin), n, marks[k])
            for i in range(n):
                buckets[begin + i] = reached[i]
                counts[reached[i]] += 1

    return mark, count


def _long(dtype: int, bits: Element) -> Any:
    """The function that does some steps of a stage."""
    (_, _, order), (mark, count) = _words(dtype, bits), _counting(dtype, bits)
    pointer, load, store = bits.pointer, bits.load, bits.store

    @njit(**KERNEL)
    def sort(f, x, flip, bucket):  # type: ignore[no-untyped-def]
        a, b, _, counts, _, pieces = _shared(f)
        # The last piece has left behind, for each bucket, where it ends.
        ends = advance(counts, (pieces - 1) * BUCKETS)
        start, end = ends[bucket - 1] if bucket > 0 else 0, ends[bucket]
        if start >= f.k or start == end:
            return
        order(advance(b, start), advance(a, start), words(f.scratch.data), end - start, x, flip)
        values, places = pointer(f.values), words(f.places)
        for i in range(start, min(end, f.k)):
            place = b[i] & PLACE
            places[i] = place
            store(values, i, load(x, place))

    @njit(**KERNEL)
    def run(f):  # type: ignore[no-untyped-def]
        x, flip = pointer(f.x), -f.largest
        for k in range(f.first, f.first + f.steps):
            if f.stage == MARKS:
                mark(f, x, flip)
            elif f.stage == COUNT:
                count(f, x, flip, k)
            elif f.stage == BEGIN:
                _begin(f)
            elif f.stage == DEAL:
                _deal(f, k)
            else:
                sort(f, x, flip, k)

    return run


def select(kernel: object, dtype: int, layout_class: int) -> Builder:
    """The first elements of each row, and their places in it."""
    bits = ELEMENTS[_BITS.get(dtype, dtype)]
    pointer, load, store, first = bits.pointer, bits.load, bits.store, _rows(dtype, bits)
    long = _long(dtype, bits)

    @njit(**LOOP)
    def stage(rows, pitch, x, n, stride, width):  # type: ignore[no-untyped-def]
        """Copy columns to rows."""
        for i in range(n):
            for j in range(width):
                store(rows, j * pitch + i, load(x, i * stride + j))

    @njit(**LOOP)
    def emit(values, places, stride, a, rows, pitch, k, width):  # type: ignore[no-untyped-def]
        """Write values and places of as many columns as there are rows."""
        for i in range(k):
            for j in range(width):
                place = a[j * pitch + i] & PLACE
                places[i * stride + j] = place
                store(values, i * stride + j, load(rows, j * pitch + place))

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.sorting(frame)
        before, n, columns, stride, k = f.before, f.length, f.columns, f.after, f.k
        if f.stage != ROWS:
            long(f)
            return
        if k == 0:
            return
        values, places, x = pointer(f.values), words(f.places), pointer(f.x)
        flip = -f.largest
        pitch = n + PADDING
        counters = words(f.scratch.data)
        b = advance(counters, COUNTERS)
        a = advance(b, pitch)
        staged = pointer(address_of(advance(a, min(columns, COLUMNS) * pitch)))
        for i in range(before):
            for j in range(0, columns, COLUMNS):
                width = min(COLUMNS, columns - j)
                rows = advance(x, i * n * stride + j)
                to = i * k * stride + j
                if stride > 1:
                    stage(staged, pitch, rows, n, stride, width)
                    rows = staged
                for r in range(width):
                    first(advance(a, r * pitch), b, counters, n, k, advance(rows, r * pitch), flip)
                emit(advance(values, to), advance(places, to), stride, a, rows, pitch, k, width)

    return run, KERNEL
