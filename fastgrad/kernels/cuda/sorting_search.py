"""The few first elements of a long row: a block narrows down which is the last of them, and sorts what it collects."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.device import (
    WARP,
    Target,
    add_to,
    barrier,
    block,
    shuffle_up,
    thread,
    where,
)
from fastgrad.native.contracts.element_types import INT32, INT64
from fastgrad.native.contracts.frames.sorting import DIGITS

OF_PLACES = 4  # digits of a place in the row
EACH = DIGITS // WARP  # digits of a thread that adds up how many elements have which
DIGIT, BELOW, INSIDE, COLLECTED = range(4)
LAST = np.int32(np.iinfo(np.int32).max)
"""In the place of a place: behind all others."""


def running(value):
    """What the threads of a warp up to this one have, added up: integers of 32 bits."""
    lane, distance = thread() % WARP, np.int32(1)
    while distance < WARP:
        before = shuffle_up(value, distance)
        value = np.int32(value + where(lane >= distance, before, np.int32(0)))
        distance = np.int32(distance << 1)
    return value


def seeking(target: Target, keys: Any, sort: Any, row_begins: Any, fits: int, threads: int) -> Any:
    """The function of a frame and of the block's room for keys and places: a block takes each row."""
    counters, facts = target.elements[INT32].shared(DIGITS), target.elements[INT32].shared(4)
    get, put, put_key = target.elements[INT32].get, target.elements[INT32].put, target.elements[keys.code].put
    key_at, move, bounds = keys.key_at, keys.move, _bounding(target, keys, threads)
    greatest = keys.cast(np.iinfo(np.int64 if keys.code == INT64 else np.int32).max)

    def fill(f, firsts, seconds):
        """The next power of two, and what comes behind all others in the places up to that."""
        width = np.int32(1)
        while width < f.k:
            width = np.int32(width << 1)
        slot = np.int32(f.k + thread())
        while slot < width:
            put_key(firsts, slot, greatest)
            put(seconds, slot, LAST)
            slot = np.int32(slot + threads)
        return width

    def collect(f, firsts, seconds, said, begin, bound, place):
        """Bring the first ones to the block's memory, in any order."""
        i = np.int32(thread())
        while i < f.length:
            key = key_at(f, begin + i * f.after)
            if key < bound or (key == bound and i <= place):
                slot = add_to(said, COLLECTED, np.int32(1))
                if slot < fits:
                    put_key(firsts, slot, key)
                    put(seconds, slot, i)
            i = np.int32(i + threads)

    def seek(f, firsts, seconds):
        said = facts()
        begin, to = row_begins(f, np.int64(block()))
        bound, place = bounds(f, counters(), said, begin)
        width = fill(f, firsts, seconds)
        if thread() == 0:
            put(said, COLLECTED, np.int32(0))
        barrier()
        collect(f, firsts, seconds, said, begin, bound, place)
        sort(firsts, seconds, width, width)
        slot = np.int32(thread())
        while slot < f.k:
            i = get(seconds, slot)
            move(f, to + slot * f.after, i, begin + i * f.after)
            slot = np.int32(slot + threads)

    return seek


def _bounding(target: Target, keys: Any, threads: int) -> Any:
    """``bounds(f, number, said, begin)``: key and place of the k-th element.

    What need not be known of them is as great as can be.
    Elements have numbers of digits: those of their keys above those of their places, so that no two are equal. The
    elements that agree with the k-th one in all digits so far are counted by the next one.
    """
    get, put = target.elements[INT32].get, target.elements[INT32].put
    cast, sign, top = keys.cast, keys.sign, keys.digits + OF_PLACES - 1
    walk = _walking(keys, top, threads)

    def find(number, said, left):
        """Which digit the k-th element has, if `left` of those that are counted are among the first."""
        if thread() < WARP:
            total, k = np.int32(0), thread() * EACH
            for j in range(EACH):
                total = np.int32(total + get(number, k + j))
            before = np.int32(running(total) - total)
            if before < left and left <= before + total:
                j = np.int32(0)
                while before + get(number, k + j) < left:
                    before = np.int32(before + get(number, k + j))
                    j = np.int32(j + 1)
                put(said, DIGIT, k + j)
                put(said, BELOW, before)
                put(said, INSIDE, get(number, k + j))

    def bounds(f, number, said, begin):
        bound, place, left, d = cast(0), np.int32(0), np.int32(f.k), np.int32(top)
        while d >= 0:
            k = np.int32(thread())
            while k < DIGITS:
                put(number, k, np.int32(0))
                k = np.int32(k + threads)
            barrier()
            walk(f, number, begin, d, bound, place)
            barrier()
            find(number, said, left)
            barrier()
            digit, inside = get(said, DIGIT), get(said, INSIDE)
            left = np.int32(left - get(said, BELOW))
            if d >= OF_PLACES:
                bound = cast(bound | cast(digit) << (8 * (d - OF_PLACES)))
            else:
                place = np.int32(place | digit << (8 * d))
            if inside == left:
                break
            d = np.int32(d - 1)
        if d >= OF_PLACES:
            return cast((bound | ((cast(1) << (8 * (d - OF_PLACES))) - 1)) ^ sign), LAST
        return cast(bound ^ sign), np.int32(place | ((np.int32(1) << (8 * d)) - 1))

    return bounds


def _walking(keys: Any, top: int, threads: int) -> Any:
    """``walk(f, number, begin, d, bound, place)``: count by digit `d` those that agree in all digits above."""
    cast, sign, key_at = keys.cast, keys.sign, keys.key_at

    def agrees(key, i, d, bound, place):
        if d == top:
            return True
        if d >= OF_PLACES - 1:
            return (cast(key ^ sign) ^ bound) >> (8 * (d + 1 - OF_PLACES)) == 0
        return cast(key ^ sign) == bound and (i ^ place) >> (8 * (d + 1)) == 0

    def count(f, number, at, i, d, bound, place):
        key = key_at(f, at)
        if agrees(key, i, d, bound, place):
            digit = cast(key ^ sign) >> (8 * (d - OF_PLACES)) if d >= OF_PLACES else i >> (8 * d)
            add_to(number, np.int32(digit & 255), np.int32(1))

    def walk(f, number, begin, d, bound, place):
        i, step = np.int32(thread()), threads * f.after
        at = begin + i * f.after
        while i < f.length:
            for j in range(4):
                if i + j * threads < f.length:
                    count(f, number, at + j * step, np.int32(i + j * threads), d, bound, place)
            i = np.int32(i + 4 * threads)
            at += 4 * step

    return walk
