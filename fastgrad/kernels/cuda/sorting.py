"""The k first elements of each row in order, with their places, on the CUDA device.

Keys are those of the CPU (Note [Words to sort] in `kernels.cpu.sorting`): integers in the order of the elements, equal
ones in the order of their places. There are three ways, which the shape rule chooses from the sizes:

- what a block has room for it sorts there, several rows at a time (Batcher, 1968);
- of a longer row a block seeks the k first ones, if these are few: it narrows down the last key that is among them, one
  digit after the other, and sorts what it then has collected;
- other rows are sorted by digits, all blocks at a time: see Note [Digits] in `contracts.frames.sorting`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fastgrad.kernels.cuda import sorting_digits, sorting_search
from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import Target, barrier, block, thread, where
from fastgrad.kernels.cuda.places import split
from fastgrad.native.contracts.cuda import STEPPED
from fastgrad.native.contracts.element_types import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    ITEMSIZES,
    UINT8,
)
from fastgrad.native.contracts.frames.sorting import FITS

THREADS = 512

# As what elements move, so that their bits stay; and the key of infinity.
_BITS = {FLOAT32: INT32, FLOAT64: INT64, BOOL: UINT8}
_INFINITY = {FLOAT32: 0x7F80 << 16, FLOAT64: 0x7FF0 << 48}


class Keys(NamedTuple):
    """The keys of a dtype.

    ``key_at(f, at)`` is that of an element of x, in the order that the frame asks for. They are of the integer type of
    `code`, which `cast` makes; `sign` is what makes them numbers without sign, of so many `digits` of eight bits.
    ``move(f, to, i, at)`` writes the element of x and its place i in the row to a place in the results.
    """

    code: int
    cast: Any
    sign: Any
    digits: int
    key_at: Any
    move: Any


def keys_of(target: Target, dtype: int) -> Keys:
    """The keys of a dtype for a target."""
    bits = target.elements[_BITS.get(dtype, dtype)]
    digits = ITEMSIZES[dtype]
    code = INT64 if digits == 8 else INT32
    cast, load, store = target.elements[code].constant, bits.load, bits.store
    store_place = target.elements[INT64].store
    info = np.iinfo(np.int64 if code == INT64 else np.int32)
    sign = cast(0 if digits == 1 else info.min)
    flips, largest = cast(255 if digits == 1 else -1), cast(info.max)
    floating, infinity = dtype in _INFINITY, cast(_INFINITY.get(dtype, 0))

    def key_of(value):
        if not floating:
            return value
        magnitude = cast(value & largest)
        magnitude = where(magnitude > infinity, largest, magnitude)  # NaN of either sign
        return where(value < 0 and magnitude != largest, cast(-magnitude), magnitude)

    def key_at(f, at):
        key = key_of(cast(load(f.x, at)))
        return where(f.largest != 0, cast(key ^ flips), key)

    def move(f, to, i, at):
        store(f.values, to, load(f.x, at))
        store_place(f.places, to, i)

    return Keys(code, cast, sign, digits, key_at, move)


def row_begins(f, row):
    """Where a row begins in x, and where its results do."""
    blocks, beside = split(row, f.columns)
    return blocks * f.length * f.after + beside, blocks * f.k * f.after + beside


def select(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The first elements of each row, and their places in it."""
    keys = keys_of(target, dtype)
    rooms = target.elements[keys.code].shared(FITS), target.elements[INT32].shared(FITS)
    sort = _sorting(target, keys, threads)
    room, room_of_places = rooms
    rows = _rows(target, keys, sort, threads)
    seek = sorting_search.seeking(target, keys, sort, row_begins, FITS, threads)
    deal = sorting_digits.dealing(target, keys, row_begins, threads)
    most = FITS

    def run(f):
        if f.launches > 1:
            deal(f)
            return
        firsts, seconds = room(), room_of_places()
        if f.length > most:
            seek(f, firsts, seconds)
        else:
            rows(f, firsts, seconds)

    return Body(run, ("steps",), 1, threads, STEPPED, resident=2 * THREADS, steps="launches")


def _sorting(target: Target, keys: Keys, threads: int) -> Any:
    """``sort(firsts, seconds, count, width)``: sort each `width` of so many keys and places in the block's memory.

    The width is a power of two. Before and behind it all threads have waited for each other.
    """
    get, put = target.elements[keys.code].get, target.elements[keys.code].put
    get_place, put_place = target.elements[INT32].get, target.elements[INT32].put

    def exchange(firsts, seconds, i, j, rising):
        a, b = get(firsts, i), get(firsts, j)
        p, q = get_place(seconds, i), get_place(seconds, j)
        if (a > b or (a == b and p > q)) == rising:
            put(firsts, i, b)
            put(firsts, j, a)
            put_place(seconds, i, q)
            put_place(seconds, j, p)

    def sort(firsts, seconds, count, width):
        barrier()
        size = np.int32(2)
        while size <= width:
            step = np.int32(size >> 1)
            while step > 0:
                pair = np.int32(thread())
                while pair < count >> 1:
                    i = np.int32(2 * pair - (pair & (step - 1)))
                    exchange(firsts, seconds, i, np.int32(i + step), (i & (width - 1) & size) == 0)
                    pair = np.int32(pair + threads)
                barrier()
                step = np.int32(step >> 1)
            size = np.int32(size << 1)

    return sort


def _rows(target: Target, keys: Keys, sort: Any, threads: int) -> Any:
    """A block sorts as many rows as it has room for, each at a multiple of the next power of two."""
    put, put_place = target.elements[keys.code].put, target.elements[INT32].put
    get_place, key_at, move = target.elements[INT32].get, keys.key_at, keys.move
    greatest = keys.cast(np.iinfo(np.int64 if keys.code == INT64 else np.int32).max)
    most, bits, last = np.int32(FITS), FITS.bit_length() - 1, sorting_search.LAST

    def place_of(f, e, shift):
        """The row and the place in it that a thread takes: neighbours in memory go to neighbours."""
        if f.after > 1:
            beside = np.int32((1 << (bits - shift)) - 1)
            return np.int32(e & beside), np.int32(e >> (bits - shift))
        return np.int32(e >> shift), np.int32(e & ((1 << shift) - 1))

    def fill(f, firsts, seconds, first, here, count, shift):
        e = np.int32(thread())
        while e < count:
            r, i = place_of(f, e, shift)
            if r < here:
                key, place = greatest, last
                if i < f.length:
                    at, _ = row_begins(f, first + r)
                    key, place = key_at(f, at + i * f.after), i
                put(firsts, (r << shift) + i, key)
                put_place(seconds, (r << shift) + i, place)
            e = np.int32(e + threads)

    def write(f, seconds, first, here, count, shift):
        e = np.int32(thread())
        while e < count:
            r, i = place_of(f, e, shift)
            if r < here and i < f.k:
                at, to = row_begins(f, first + r)
                place = get_place(seconds, (r << shift) + i)
                move(f, to + i * f.after, place, at + place * f.after)
            e = np.int32(e + threads)

    def rows(f, firsts, seconds):
        shift = np.int32(0)
        while (1 << shift) < f.length:
            shift = np.int32(shift + 1)
        first = np.int64(block()) << (bits - shift)
        here = np.int32(min(f.before * f.columns - first, np.int64(most >> shift)))
        held = np.int32(here << shift)
        count = most if f.after > 1 else held
        fill(f, firsts, seconds, first, here, count, shift)
        sort(firsts, seconds, held, np.int32(1 << shift))
        write(f, seconds, first, here, count, shift)

    return rows
