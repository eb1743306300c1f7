"""Sorting long rows by digits, from the lowest on: see Note [Digits] in `contracts.frames.sorting`.

Words are the upper or the lower 32 bits of a key above a place, in the frame's scratch: those that a digit is read
from, and behind all of them those that it goes to, by turns. The first digit is read from x itself, the last one goes
to the results. Behind the words is counted how many elements of which row, digit and piece there are, and of which row
and digit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.device import (
    WARP,
    Target,
    add_to,
    ballot,
    barrier,
    block,
    blocks,
    popcount,
    shuffle_from,
    shuffle_xor,
    thread,
    warp_barrier,
    where,
)
from fastgrad.kernels.cuda.places import split
from fastgrad.kernels.cuda.sorting_search import EACH, running
from fastgrad.native.contracts.element_types import INT32, INT64
from fastgrad.native.contracts.frames.sorting import DIGIT_PIECE, DIGITS, PASSES

HALF, PLACE = 32, 0xFFFFFFFF
PER_HALF = 4  # digits of half a word
COUNT, BEGIN = 0, 1  # launches of a digit; the third one deals
FEW_PIECES, TOGETHER = 8, 256
"""Pieces of a row up to which a thread adds up how many elements stand before each, and beyond which a block does."""


def alike(digit, inside):
    """The threads of this warp that have the same digit, among those that have one."""
    found = ballot(inside)
    for k in range(8):
        one = ballot((digit >> k) & 1 != 0)
        found = np.uint32(found & where((digit >> k) & 1 != 0, one, np.uint32(~one)))
    return found


def dealing(target: Target, keys: Any, row_begins: Any, threads: int) -> Any:
    """The function of a frame that does what is to be done in a launch."""
    piece_size = DIGIT_PIECE
    word_at, move_word = _words(target, keys, row_begins)
    begin = _begin(target, threads)
    deal = _deal(target, word_at, move_word, piece_size, threads)
    counters = target.elements[INT32].shared(DIGITS)
    get, put, store = target.elements[INT32].get, target.elements[INT32].put, target.elements[INT32].store

    def count(f, digit, row, piece, pieces):
        number, k = counters(), np.int32(thread())
        while k < DIGITS:
            put(number, k, np.int32(0))
            k = np.int32(k + threads)
        barrier()
        i = piece * piece_size + thread()
        end = min((piece + 1) * piece_size, f.length)
        while i < end:
            word = word_at(f, digit, row, i)
            add_to(number, digit_of(word, digit), np.int32(1))
            i += threads
        barrier()
        k = np.int32(thread())
        while k < DIGITS:
            store(counts_of(f), (row * DIGITS + k) * pieces + piece, get(number, k))
            k = np.int32(k + threads)

    def run(f):
        digit, stage = np.int32(f.step // PASSES), np.int32(f.step % PASSES)
        pieces = (f.length + piece_size - 1) // piece_size
        row, piece = split(np.int64(block()), pieces)
        if stage == COUNT:
            count(f, digit, row, piece, pieces)
        elif stage == BEGIN:
            begin(f, pieces)
        else:
            deal(f, digit, row, piece, pieces)

    return run


def numel_of(f):
    """How many elements there are."""
    return f.before * f.columns * f.length


def counts_of(f):
    """Where it is counted."""
    return f.scratch.data + 16 * numel_of(f)


def digit_of(word, digit):
    """A digit of a key, of which the word has the half where that is."""
    return np.int32((word >> (HALF + 8 * (digit % PER_HALF))) & 255)


def _words(target: Target, keys: Any, row_begins: Any) -> tuple[Any, Any]:
    """``word_at(f, digit, row, i)``: the word that a digit is read from; ``move(f, digit, row, to, word)``."""
    load, store = target.elements[INT64].load, target.elements[INT64].store
    key_at, move_element, cast, sign = keys.key_at, keys.move, keys.cast, keys.sign
    halves, last = keys.code == INT64, keys.digits - 1

    def of_element(f, row, i, upper):
        begin, _ = row_begins(f, row)
        key = np.int64(cast(key_at(f, begin + i * f.after) ^ sign))
        return np.int64((key >> HALF if upper else key) << HALF) | i

    def word_at(f, digit, row, i):
        if digit == 0:
            return of_element(f, row, i, False)
        from_second = np.int64(where(digit % 2 == 0, np.int64(1), np.int64(0)))
        word = load(f.scratch.data + 8 * from_second * numel_of(f), row * f.length + i)
        if halves and digit == PER_HALF:
            return of_element(f, row, word & PLACE, True)
        return word

    def move(f, digit, row, to, word):
        if digit == last:
            if to < f.k:
                begin, result = row_begins(f, row)
                place = word & PLACE
                move_element(f, result + to * f.after, place, begin + place * f.after)
        else:
            to_second = np.int64(where(digit % 2 != 0, np.int64(1), np.int64(0)))
            store(f.scratch.data + 8 * to_second * numel_of(f), row * f.length + to, word)

    return word_at, move


def _begin(target: Target, threads: int) -> Any:
    """How many elements of a row and digit stand in the pieces before each, and in all.

    Each row and digit has a thread where there are few pieces, a block where there are many, or else a warp.
    """
    load, store, warps = target.elements[INT32].load, target.elements[INT32].store, threads // WARP
    before_run, few, many = _before_run(target, warps), FEW_PIECES, TOGETHER

    def alone(counts, units, pieces):
        unit = np.int32(block() * threads + thread())
        while unit < units:
            at, total, k = counts + 4 * np.int64(unit) * pieces, np.int32(0), np.int32(0)
            while k < pieces:
                here = load(at, k)
                store(at, k, total)
                total = np.int32(total + here)
                k = np.int32(k + 1)
            store(counts + 4 * units * pieces, unit, total)
            unit = np.int32(unit + blocks() * threads)

    def run_on(at, start, end, total):
        """Write what stands before each piece of a run; what stands before its end."""
        while start < end:
            i = np.int32(start + thread() % WARP)
            here = np.int32(0)
            if i < end:
                here = load(at, i)
            with_it = running(here)
            if i < end:
                store(at, i, total + with_it - here)
            total = np.int32(total + shuffle_from(with_it, np.int32(WARP - 1)))
            start = np.int32(start + WARP)
        return total

    def begin(f, pieces):
        units, counts, warp = f.before * f.columns * DIGITS, counts_of(f), thread() // WARP
        if pieces <= few:
            alone(counts, units, np.int32(pieces))
            return
        together, pieces = pieces > many, np.int32(pieces)
        unit = np.int64(block()) if together else np.int64(block()) * warps + warp
        run = np.int32((pieces + warps - 1) // warps if together else pieces)
        first = np.int32(min(warp * run, pieces) if together else 0)
        end = np.int32(min(first + run, pieces))
        while unit < units:
            at, total = counts + 4 * unit * pieces, np.int32(0)
            if together:
                total = before_run(at, first, end)
            total = run_on(at, first, end, total)
            if thread() % WARP == 0 and (warp == warps - 1 or not together):
                store(counts + 4 * units * pieces, unit, total)
            unit += np.int64(blocks()) if together else np.int64(blocks()) * warps

    return begin


def _before_run(target: Target, warps: int) -> Any:
    """What the warps before this one find in their runs of pieces."""
    load, get, put = target.elements[INT32].load, target.elements[INT32].get, target.elements[INT32].put
    sums = target.elements[INT32].shared(warps)

    def before_run(at, first, end):
        total, i = np.int32(0), np.int32(first + thread() % WARP)
        while i < end:
            total = np.int32(total + load(at, i))
            i = np.int32(i + WARP)
        step = np.int32(WARP // 2)
        while step > 0:
            total = np.int32(total + shuffle_xor(total, step))
            step = np.int32(step >> 1)
        found = sums()
        put(found, thread() // WARP, total)
        barrier()
        lane, of_lane = thread() % WARP, np.int32(0)
        if lane < warps:
            of_lane = get(found, lane)
        before = np.int32(running(of_lane) - of_lane)
        barrier()
        return shuffle_from(before, thread() // WARP)

    return before_run


def _starts(target: Target, warps: int, threads: int) -> tuple[Any, Any]:
    """Where the elements of each digit begin in the row, and where those of each warp do; in the block's memory."""
    load, get, put = target.elements[INT32].load, target.elements[INT32].get, target.elements[INT32].put

    def begin_digits(f, first, row, pieces):
        if thread() < WARP:
            totals, k = counts_of(f) + 4 * f.before * f.columns * DIGITS * pieces, thread() * EACH
            total = np.int32(0)
            for j in range(EACH):
                total = np.int32(total + load(totals, row * DIGITS + k + j))
            before = np.int32(running(total) - total)
            for j in range(EACH):
                put(first, k + j, before)
                before = np.int32(before + load(totals, row * DIGITS + k + j))

    def begin_warps(f, number, first, row, piece, pieces):
        k = np.int32(thread())
        while k < DIGITS:
            at = np.int32(get(first, k) + load(counts_of(f), (row * DIGITS + k) * pieces + piece))
            place = k
            while place < warps * DIGITS:
                count = get(number, place)
                put(number, place, at)
                at = np.int32(at + count)
                place = np.int32(place + DIGITS)
            k = np.int32(k + threads)

    return begin_digits, begin_warps


def _deal(target: Target, word_at: Any, move: Any, piece_size: int, threads: int) -> Any:
    """Each element of a piece goes behind those that precede it: those with smaller digits, those of earlier pieces, of
    earlier warps, and of the warp.
    """
    warps = threads // WARP
    counters, starts = target.elements[INT32].shared(warps * DIGITS), target.elements[INT32].shared(DIGITS)
    get, put = target.elements[INT32].get, target.elements[INT32].put
    begin_digits, begin_warps = _starts(target, warps, threads)

    def count(f, digit, row, number, i, end):
        while i < end:
            value = digit_of(word_at(f, digit, row, i), digit)
            add_to(number, thread() // WARP * DIGITS + value, np.int32(1))
            i += WARP

    def go(f, digit, row, number, start, end):
        lane, own = thread() % WARP, thread() // WARP * DIGITS
        below = np.uint32((np.uint32(1) << np.uint32(lane)) - np.uint32(1))
        while start < end:
            i, word, value, to = start + lane, np.int64(0), np.int32(0), np.int32(0)
            inside = i < end
            if inside:
                word = word_at(f, digit, row, i)
                value = digit_of(word, digit)
            same = alike(value, inside)
            rank = popcount(same & below)
            if inside:
                to = get(number, own + value)
            warp_barrier()
            if inside and rank == 0:
                put(number, own + value, to + popcount(same))
            warp_barrier()
            if inside:
                move(f, digit, row, np.int64(to + rank), word)
            start += WARP

    def deal(f, digit, row, piece, pieces):
        number, first, run = counters(), starts(), piece_size // warps
        start = piece * piece_size + thread() // WARP * run
        end = min(start + run, f.length)
        k = np.int32(thread())
        while k < warps * DIGITS:
            put(number, k, np.int32(0))
            k = np.int32(k + threads)
        begin_digits(f, first, row, pieces)
        barrier()
        count(f, digit, row, number, start + thread() % WARP, end)
        barrier()
        begin_warps(f, number, first, row, piece, pieces)
        barrier()
        go(f, digit, row, number, start, end)

    return deal
