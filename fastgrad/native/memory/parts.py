"""Dividing a launch into parts that do not depend on each other, as the declaration of its frame says.

A part is a launch with a frame of its own (`contracts.split`), and so are several neighbours together. Into how many
parts a launch falls depends on its work alone, so that no result depends on the number of threads.
"""

from __future__ import annotations

from fastgrad.native.base.intrinsics import (
    address_of,
    caster,
    native,
    native_inline,
    native_once,
    nth,
    runtime,
    runtime_address,
    words,
    words_of,
)
from fastgrad.native.contracts.element_types import (
    COMPLEX64,
    COMPLEX128,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT64,
    ITEMSIZES,
)
from fastgrad.native.contracts.frame import (
    COMPLEX_ELEMENT,
    COMPUTED_ELEMENT,
    OWN_ELEMENT,
    REAL_ELEMENT,
    ROOM,
    SUMMED_ELEMENT,
)
from fastgrad.native.contracts.limits import MAX_PARTS, MAX_THREADS, N_DEVICES, N_DTYPES, N_LAYOUTS
from fastgrad.native.contracts.records import RUNTIME
from fastgrad.native.contracts.split import (
    A_FIELD,
    A_LAST,
    A_NUMBER,
    CONDITION,
    ENCODED,
    FACTOR,
    MOVE,
    OWN_FIELD,
    PER_STEP,
)

CELLS = N_DEVICES * N_DTYPES * N_LAYOUTS  # of a kernel
NO_SPLIT = 0
PARTS_A_HAND = 4
SPLITS_OFFSET = RUNTIME.offset("split_words") - 8  # places count from one

encoded_split = caster(ENCODED)
condition, move, factor, room = map(caster, (CONDITION, MOVE, FACTOR, ROOM))


@native
def row_of(cell):
    """The row of a cell in tables that have one for each kernel and layout class."""
    return cell // CELLS * N_LAYOUTS + cell % N_LAYOUTS


@native
def device_of(cell):
    """The number of the device of the kernel in a cell."""
    return cell // (N_DTYPES * N_LAYOUTS) % N_DEVICES


@native
def dtype_of(cell):
    """The dtype code of the kernel in a cell."""
    return cell // N_LAYOUTS % N_DTYPES


@native_inline
def real_dtype(dtype):
    """The dtype of the real parts of elements; `element_types.real_of` for compiled code."""
    return dtype - (COMPLEX64 - FLOAT32) if dtype == COMPLEX64 or dtype == COMPLEX128 else dtype


@native_inline
def complex_dtype(dtype):
    """The complex dtype of such parts; `element_types.complex_of` for compiled code."""
    return COMPLEX128 if dtype == FLOAT64 or dtype == COMPLEX128 else COMPLEX64


@native
def dtype_behind(element, dtype):
    """The dtype code of an element behind an address, by the code in its declaration, for a kernel of this dtype."""
    if element == SUMMED_ELEMENT and (dtype < FLOAT16 or dtype > COMPLEX128):
        return INT64
    if element == OWN_ELEMENT:
        return dtype
    if element < COMPUTED_ELEMENT:
        return element
    if element == REAL_ELEMENT:
        return real_dtype(dtype)
    if element == COMPLEX_ELEMENT:
        return complex_dtype(dtype)
    return FLOAT32 if dtype < FLOAT32 and dtype >= FLOAT16 else dtype


@native
def itemsize_behind(element, dtype):
    """Bytes of an element behind an address, by the code in its declaration, for a kernel of this dtype."""
    return ITEMSIZES[dtype_behind(element, dtype)]


@native
def after_head(split):
    """The address behind the head of an encoded split."""
    return address_of(split) + words_of(split) * 8


@native
def split_of(cell, frame):
    """The way to divide a launch with this frame, as an address, or `NO_SPLIT`."""
    place = runtime().splits[row_of(cell)]
    if place == 0:
        return NO_SPLIT
    at = runtime_address() + SPLITS_OFFSET + place * 8
    left = words(at)[0]
    at += 8
    while left > 0:
        s = encoded_split(at)
        holds = True
        for k in range(s.n_conditions):
            c = nth(condition(after_head(s)), k)
            holds = holds and (words(frame)[c.place] == c.value) == (c.equal != 0)
        if holds:
            return at
        at += s.length * 8
        left -= 1
    return NO_SPLIT


@native
def over_place(s, frame):
    """The place of the field that counts the steps."""
    return s.over if s.count < 0 else s.over + words(frame)[s.count] - 1


@native
def grain_of(s, frame):
    """Of how many steps the parts of a launch have a multiple."""
    return words(frame)[s.grain] if s.own_grain != 0 else s.grain


@native
def count_hands(work):
    """How many threads so much work is worth waking."""
    return work // runtime().part_work


@native
def count_parts(split, frame, work):
    """Into how many parts a launch falls: as its work says, and as its steps allow.

    Several for each thread that it is worth, so that threads end together whatever their number is.
    """
    if split == NO_SPLIT:
        return 1
    s = encoded_split(split)
    if s.room >= 0 and words(frame)[s.room] == 0:  # it only asks for scratch
        return 1
    grains = words(frame)[over_place(s, frame)] // grain_of(s, frame)
    hands = count_hands(work)
    return max(1, min(grains, hands * PARTS_A_HAND if hands > 1 else 1, MAX_PARTS))


@native
def count_seats(split, frame):
    """How many threads may take parts of a launch: as many as there are pieces of scratch."""
    place = encoded_split(split).room
    return min(room(frame + place * 8).count, MAX_THREADS) if place >= 0 else MAX_THREADS


@native
def value_of(f, place, frame, steps):
    """What a factor of the operand whose address is at `place` stands for."""
    kind = f.kind
    if kind == A_FIELD:
        return words(frame)[f.place]
    if kind == A_LAST:
        return words(frame)[f.place + words(frame)[f.count] - 1]
    if kind == PER_STEP:
        return words(frame)[f.place] // steps
    if kind == OWN_FIELD:
        return words(frame)[place + f.place]
    if kind == A_NUMBER:
        return f.place
    return words(frame)[place + f.place + words(frame)[f.count] - 1]


@native_once
def write_part(split, frame, n_words, dtype, seat, first, after, count, part):
    """Write the frame of the parts from `first` to before `after`, of `count`, to `part`, for the thread at a seat."""
    s = encoded_split(split)
    over = over_place(s, frame)
    total = words(frame)[over]
    steps = max(total, 1)
    grain = grain_of(s, frame)
    grains = total // grain
    begin = first * grains // count * grain
    end = after * grains // count * grain if after < count else total
    for j in range(n_words):
        words(part)[j] = words(frame)[j]
    words(part)[over] = end - begin
    if s.room >= 0:
        r = room(part + s.room * 8)
        r.data += seat * r.nbytes
    at = address_of(nth(condition(after_head(s)), s.n_conditions))
    for _ in range(s.n_scales):
        place = words(at)[0]
        words(part)[place] = words(frame)[place] // steps * (end - begin)
        at += 8
    for _ in range(s.n_moves):
        m = move(at)
        at += words_of(m) * 8
        if m.n_factors < 0:
            each = -m.n_factors * (words(frame)[m.element] if m.element >= 0 else 1)
            words(part)[m.place] += begin // each
            continue
        distance = begin * itemsize_behind(m.element, dtype)
        for j in range(m.n_factors):
            if m.place < n_words:
                distance *= value_of(nth(factor(at), j), m.place, frame, steps)
        at = address_of(nth(factor(at), m.n_factors))
        if m.place < n_words and words(frame)[m.place] != 0:
            words(part)[m.place] += distance
