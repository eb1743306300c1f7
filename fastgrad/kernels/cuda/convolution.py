"""Convolutions on the CUDA device: products of matrices, the one gathered from images while they are multiplied.

Images are ``weights x windows``: rows of the result are channels of a group, columns its places, and terms what a
window meets. Gradients of weights are ``gradients x windows``: columns are what a window meets, terms the places. So
both gather by the same rule, `windows.meeting`; a transpose differs from a convolution by its `windows.Axis` alone.

Groups of few rows (`FEW`), depthwise ones among them, would leave tiles empty. There a thread computes all rows of a
place, or a warp all rows of what a window meets.

Note [Parts of sums]: where there are few tiles for many terms, the shape rule divides the terms into parts. Stage 0
then writes the sums of each part into the scratch, stage 1 adds them, always in the same order. How many parts there
are follows from the sizes alone, so a result never depends on the GPU.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import WARP, Element, Target, barrier, block, thread
from fastgrad.kernels.cuda.fragments import STEP, Warps, fragmented
from fastgrad.kernels.cuda.teams import WARPS, folding_one, plain_sum
from fastgrad.kernels.cuda.tiles import (
    DEPTH,
    ENTRY,
    WIDEST,
    Operands,
    Shape,
    at_once,
    keeping,
    sharing,
    summing,
    tiled,
)
from fastgrad.kernels.cuda.windows import (
    NOWHERE,
    backwards,
    classes_of,
    first_of,
    forwards,
    meeting,
    parted,
    place_at,
    placed,
    places_of,
    reaching,
    rounded_up,
    term_at,
)
from fastgrad.native.contracts.element_types import (
    FLOAT32,
    FLOATS,
    HALVES,
    INT32,
    INT64,
    ITEMSIZES,
    computed_in,
)
from fastgrad.native.contracts.frames.convolution import FEW, NARROW, THREADS

ABSENT = np.int32(-1)
"""Where a term that is not there has its weight."""
DEEPEST = 32
"""Of the numbers of terms that tiles read at once, the one that is a multiple of the others."""


def build(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The kernel of one of the three that a convolution ties together.

    Blocks of fewer threads have smaller tiles, so there are more of them.
    """
    computes, e = kernel.options["computes"], target.elements[dtype]
    wide_size = ITEMSIZES[computed_in(dtype)]

    def role_over(e: Element) -> _Role:
        return _sums(e, wide_size) if computes == "w" else _images(e, wide_size, back=computes == "x")

    role = role_over(e)
    as_it_lies = e._replace(load_where=target.words["half_where"]) if dtype in HALVES else e
    gathered = role_over(as_it_lies).operands
    items, resident = ("steps", THREADS // threads), 512 if computed_in(dtype) == FLOAT32 else 256
    return Body(_kernel(target, dtype, role, gathered, threads), items, 1, threads, resident=resident)


class _Tile(NamedTuple):
    """What is multiplied for one group, and one class of its places.

    Attributes
    ----------
    left
        Where the left operand begins: weights, or the gradient of the result.
    row, step
        How far apart its elements are from row to row, and from channel to channel or from image to image.
    source, plane, image
        Where the planes that are gathered from begin, and how far apart these and the images are.
    down, across
        The axes.
    kernel_w
        Taps of the weight across.
    rows, columns, terms
        How many there are.
    target, apart, result, width
        Where the result begins, and how far apart its rows, its images and the lines of these are.
    bias
        The address of that of the first row, or 0.
    whole
        Whether as many columns as a thread stores at once are neighbours in the result.
    of_part
        Whether the result is that of a part, in the dtype that is computed in.
    dense
        Whether neighbouring terms of the left operand are neighbours in memory, from multiples of 16 bytes on.
    """

    left: Any
    row: Any
    step: Any
    source: Any
    plane: Any
    image: Any
    down: Any
    across: Any
    kernel_w: Any
    rows: Any
    columns: Any
    terms: Any
    target: Any
    apart: Any
    result: Any
    width: Any
    bias: Any
    whole: Any
    of_part: Any
    dense: Any


class _Role(NamedTuple):
    """One of the two ways to see a convolution as a product.

    Attributes
    ----------
    operands : Operands
    extent : callable
        ``extent(f)``: rows of a group, the most columns of a class, the classes down and across.
    tile : callable
        ``tile(f, group, rest_h, rest_w, out, bias, of_part)``: the `_Tile` of a group and class, for a result at an
        address, that of its bias, or 0, and whether it is that of a part.
    target : callable
        ``target(f)``: the address of the result.
    channel : callable
        ``channel(f, number)``: whose bias the element of the result with a number gets.
    images : bool
    """

    operands: Operands
    extent: Any
    tile: Any
    target: Any
    channel: Any
    images: bool


def _aligned(size: int) -> Any:
    """``aligned(address, row)``: whether rows of so many elements begin at multiples of 16 bytes."""
    most = np.int32(WIDEST // size - 1)

    def aligned(address, row):
        return address & (WIDEST - 1) == 0 and np.int32(row) & most == 0

    return aligned


# --- images: weights x windows ---------------------------------------------------------------------------------


def _weights_and_windows(e: Element) -> Operands:
    """The operands: of terms the entries are channels and taps, in what is gathered from and in the weights."""
    load_where, meet, size = e.load_where, meeting(e), e.size

    def entry(s, term, last):
        c, k, l = term_at(term, s.down, s.across)
        at = np.int32(np.int32(s.down.first + np.int32(k * s.down.every)) * s.kernel_w + s.across.first)
        at = np.int32(at + np.int32(l * s.across.every) + np.int32(c * s.step))
        further, down, across = reaching(s, c, k, l, term < last)
        return further, down, across, at if term < last else ABSENT

    def column(s, number):
        n, i, j = place_at(number, s.down, s.across)
        row, across = first_of(s, i, j, number < s.columns)
        return placed(s, s.source + np.int64(n) * s.image * size, row, across)

    def left(s, found, row):
        return load_where(s.left, np.int32(row * s.row + found[3]), (found[3] >= 0) & (row < s.rows))

    def chunk_at(s, found, row):
        there = (found[3] >= 0) & (row < s.rows)
        return s.left + np.int64(np.int32(row * s.row + found[3])) * size if there else np.int64(0)

    def right(s, found, place):
        return meet(s, place, found)

    def result(s, number):
        n, i, j = place_at(number, s.down, s.across)
        row = np.int32(s.down.shift + np.int32(i * s.down.spread))
        at = np.int32(row * s.width + s.across.shift + np.int32(j * s.across.spread))
        return np.int64(n) * s.result + at if number < s.columns else np.int64(-1)

    return Operands(entry, column, chunk_at, left, right, result, True)


def _images(e: Element, wide_size: int, back: bool) -> _Role:
    """y of x, or `back`, x of y; sums of parts have elements of so many bytes."""
    size, per_vector, aligned = e.size, at_once(e.size), _aligned(e.size)

    def extent(f):
        rows, _ = parted(f.c if back else f.o, f.groups)
        if not back:
            return rows, np.int32(f.n * f.oh * f.ow), np.int32(1), np.int32(1)
        down, across = classes_of(f.h, f.sh), classes_of(f.w, f.sw)
        most = np.int32(f.n * rounded_up(f.h, f.sh) * rounded_up(f.w, f.sw))
        return rows, most, down, across

    def tile(f, group, rest_h, rest_w, out, bias, of_part):
        inputs, _ = parted(f.c, f.groups)
        outputs, _ = parted(f.o, f.groups)
        taps = np.int32(f.kh * f.kw)
        weights = np.int32(inputs * taps)
        x_plane, y_plane = np.int32(f.h * f.w), np.int32(f.oh * f.ow)
        of_group = f.weight + np.int64(group) * outputs * weights * size
        x = f.x + np.int64(group) * inputs * x_plane * size
        y = f.y + np.int64(group) * outputs * y_plane * size
        x_image, y_image = np.int64(f.c) * x_plane, np.int64(f.o) * y_plane
        if back:
            down = backwards(f.h, f.oh, f.kh, f.sh, f.ph, f.dh, rest_h)
            across = backwards(f.w, f.ow, f.kw, f.sw, f.pw, f.dw, rest_w)
            row, step, source, plane, image, rows, terms = taps, weights, y, y_plane, y_image, inputs, outputs
            apart, result, width = x_plane, x_image, np.int32(f.w)
        else:
            down = forwards(f.h, f.oh, f.kh, f.sh, f.ph, f.dh)
            across = forwards(f.w, f.ow, f.kw, f.sw, f.pw, f.dw)
            row, step, source, plane, image, rows, terms = weights, taps, x, x_plane, x_image, outputs, inputs
            apart, result, width = y_plane, y_image, np.int32(f.ow)
        whole = (apart & (per_vector - 1)) == 0 and down.spread == 1 and across.spread == 1
        first_row, stored = np.int64(group) * rows, np.int64(wide_size if of_part else size)
        return _Tile(
            of_group, row, step, source, plane, image, down, across, np.int32(f.kw), rows,
            np.int32(f.n * places_of(down, across)), np.int32(np.int32(terms * down.taps) * across.taps),
            out + first_row * apart * stored, apart, result, width, bias + first_row * size if bias != 0 else bias,
            whole and out & (WIDEST - 1) == 0, of_part, not back and aligned(of_group, weights),
        )  # fmt: skip

    def target(f):
        return f.x if back else f.y

    def channel(f, number):
        plane, _ = parted(number, np.int32(f.h * f.w if back else f.oh * f.ow))
        _, found = parted(plane, np.int32(f.c if back else f.o))
        return found

    return _Role(_weights_and_windows(e), extent, tile, target, channel, True)


# --- sums over places: gradients x windows ---------------------------------------------------------------------


def _sums(e: Element, wide_size: int) -> _Role:
    """The weights of x and y."""
    load_where, meet, size, per_vector = e.load_where, meeting(e), e.size, at_once(e.size)
    aligned = _aligned(size)

    def entry(s, place, last):
        n, i, j = place_at(place, s.down, s.across)
        row, across = first_of(s, i, j, place < last)
        return n, row, across, np.int32(np.int32(i * s.across.places) + j)

    def column(s, number):
        c, k, l = term_at(number, s.down, s.across)
        further, down, across = reaching(s, c, k, l, number < s.columns)
        return further, down, across, np.int32(0)

    def left(s, found, row):
        at = np.int64(found[0]) * s.step + np.int32(row * s.row + found[3])
        return load_where(s.left, at, (found[1] != NOWHERE) & (row < s.rows))

    def chunk_at(s, found, row):
        at = np.int64(found[0]) * s.step + np.int32(row * s.row + found[3])
        return s.left + at * size if (found[1] != NOWHERE) & (row < s.rows) else np.int64(0)

    def right(s, found, tap):
        start = s.source + np.int64(found[0]) * s.image * size
        return meet(s, placed(s, start, found[1], found[2]), tap)

    def result(s, number):
        return np.int64(number) if number < s.columns else np.int64(-1)

    def extent(f):
        rows, _ = parted(f.o, f.groups)
        inputs, _ = parted(f.c, f.groups)
        return rows, np.int32(inputs * np.int32(f.kh * f.kw)), np.int32(1), np.int32(1)

    def tile(f, group, rest_h, rest_w, out, bias, of_part):
        rows, columns, _, _ = extent(f)
        inputs, _ = parted(f.c, f.groups)
        down = forwards(f.h, f.oh, f.kh, f.sh, f.ph, f.dh)
        across = forwards(f.w, f.ow, f.kw, f.sw, f.pw, f.dw)
        x_plane, y_plane = np.int32(f.h * f.w), np.int32(f.oh * f.ow)
        y = f.y + np.int64(group) * rows * y_plane * size
        return _Tile(
            y, y_plane, np.int64(f.o) * y_plane,
            f.x + np.int64(group) * inputs * x_plane * size, x_plane, np.int64(f.c) * x_plane, down, across,
            np.int32(f.kw), rows, columns, np.int32(f.n * y_plane),
            out + np.int64(group) * rows * columns * np.int64(wide_size if of_part else size), columns, np.int64(0),
            np.int32(0), bias, (columns & (per_vector - 1)) == 0 and out & (WIDEST - 1) == 0, of_part,
            aligned(y, y_plane),
        )  # fmt: skip

    def target(f):
        return f.weight

    def channel(f, number):
        return np.int32(0)

    return _Role(
        Operands(entry, column, chunk_at, left, right, result, False), extent, tile, target, channel, False
    )


# --- groups of few rows ----------------------------------------------------------------------------------------


def _keeping(target: Target, dtype: int, wide: Any, result: Any) -> Any:
    """``keep(s, number, values)``: write a column of at most `FEW` rows."""
    load, (store, _) = target.elements[dtype].load, keeping(target, dtype, 1)

    def one(s, to, row, value):
        if row < s.rows:
            bias = wide(load(s.bias, row)) if s.bias != 0 else wide(0)
            store(s, to + np.int32(row * s.apart), value + bias)

    def keep(s, number, values):
        to = result(s, number)
        if to >= 0:
            one(s, to, np.int32(0), values[0])
            one(s, to, np.int32(1), values[1])
            one(s, to, np.int32(2), values[2])
            one(s, to, np.int32(3), values[3])

    return keep


def _adding(left: Any, wide: Any) -> Any:
    """``add(s, sums, found, x)``: the sums of a column with the product of a term, by its entry."""

    def add(s, sums, found, x):
        a, b, c, d = sums
        a += wide(left(s, found, np.int32(0))) * x
        if s.rows > 1:
            b += wide(left(s, found, np.int32(1))) * x
        if s.rows > 2:
            c += wide(left(s, found, np.int32(2))) * x
            d += wide(left(s, found, np.int32(3))) * x
        return a, b, c, d

    return add


def _few_of_images(target: Target, dtype: int, operands: Operands) -> Any:
    """``few(s, table, begin, first, last)``: a thread computes a column; the terms are those of no part."""
    wide = summing(target, dtype)
    right, column, zero = operands.right, operands.column, wide(0)
    add, keep = _adding(operands.left, wide), _keeping(target, dtype, wide, operands.result)

    def few(s, table, begin, first, last):
        number = np.int32(begin + thread())
        place, sums, c = column(s, number), (zero, zero, zero, zero), np.int32(0)
        channels, _ = parted(last, np.int32(max(np.int32(s.down.taps * s.across.taps), 1)))
        top = np.int32(np.int32(s.down.first * s.kernel_w) + s.across.first)
        while c < channels:
            k = np.int32(0)
            while k < s.down.taps:
                l = np.int32(0)
                at = np.int32(top + np.int32(np.int32(k * s.down.every) * s.kernel_w) + np.int32(c * s.step))
                while l < s.across.taps:
                    further, down, across = reaching(s, c, k, l, True)
                    found = further, down, across, at
                    sums = add(s, sums, found, wide(right(s, found, place)))
                    l, at = np.int32(l + 1), np.int32(at + s.across.every)
                k = np.int32(k + 1)
            c = np.int32(c + 1)
        keep(s, number, sums)

    return few


def _few_of_sums(target: Target, dtype: int, operands: Operands, threads: int) -> Any:
    """``few(s, table, begin, first, last)``: a warp computes a column."""
    table_of = target.elements[INT32]
    wide, of_sums = summing(target, dtype), computed_in(dtype) if dtype in FLOATS else INT64
    entry, right, column, zero = operands.entry, operands.right, operands.column, wide(0)
    get, share, fold = (
        table_of.get_some(ENTRY),
        sharing(target),
        folding_one(target, plain_sum, of_sums, threads),
    )
    add, keep = _adding(operands.left, wide), _keeping(target, dtype, wide, operands.result)

    def few(s, table, begin, first, last):
        number = np.int32(begin + thread() // WARP)
        term, sums, k = column(s, number), (zero, zero, zero, zero), first
        while k < last:
            share(table, thread(), entry(s, np.int32(k + thread()), last))
            barrier()
            i = np.int32(thread() % WARP)
            while i < threads and np.int32(k + i) < last:
                found = get(table, np.int32(i * ENTRY))
                sums = add(s, sums, found, wide(right(s, found, term)))
                i = np.int32(i + WARP)
            barrier()
            k = np.int32(k + threads)
        a, b, c, d = sums
        whole = fold(a, WARPS), fold(b, WARPS), fold(c, WARPS), fold(d, WARPS)
        if thread() % WARP == 0:
            keep(s, number, whole)

    return few


# --- the kernel ------------------------------------------------------------------------------------------------


def shapes(dtype: int, threads: int) -> tuple[Shape, Shape]:
    """How tiles of few and of many rows are computed: with `THREADS`, those of `contracts.frames.convolution`."""
    down = min(16, threads // 4)
    return Shape(8, threads // 8, DEPTH // 2), Shape(
        down, threads // down, DEPTH // 2 if ITEMSIZES[dtype] > 4 else DEPTH
    )


def warps(threads: int) -> tuple[Warps, Warps]:
    """The same tiles by tensor cores."""
    count = threads // WARP
    down = min(2, count)
    return Warps(1, count, STEP), Warps(down, count // down, 2 * STEP)


def _either(functions: Any) -> Any:
    """``multiply(s, broad, room, table, top, begin, first, last)``: a tile of few rows or of many, see `tiles`."""
    of_narrow, of_broad = functions

    def multiply(s, broad, room, table, top, begin, first, last):
        if broad:
            of_broad(s, room, table, top, begin, first, last)
        else:
            of_narrow(s, room, table, top, begin, first, last)

    return multiply


def _multiplying(
    target: Target, dtype: int, role: _Role, gathered: Operands, threads: int
) -> tuple[Any, Any]:
    """``multiply(tf32, s, broad, room, table, top, begin, first, last)``: by tensor cores if the target has some and
    may use them; these gather what is `gathered`. And the function that gives the room.
    """
    has_cores, is_half = dtype in target.cores, dtype in HALVES
    plain, by_warps = shapes(dtype, threads), warps(threads)
    rooms = [shape.room(ITEMSIZES[dtype]) for shape in plain] if not (has_cores and is_half) else []
    rooms += [w.room for w in by_warps] if has_cores else []
    room_of = target.elements[INT32 if has_cores else dtype].shared(max(rooms))  # float32 are words as well

    def scalars():
        return _either([tiled(target, dtype, shape, role.operands) for shape in plain])

    def cores():
        return _either([fragmented(target, dtype, w, gathered) for w in by_warps])

    if not has_cores or is_half:
        only = cores() if has_cores else scalars()
        return lambda tf32, *tile: only(*tile), room_of
    exact, rounding = scalars(), cores()

    def multiply(tf32, *tile):
        if tf32 != 0:
            rounding(*tile)
        else:
            exact(*tile)

    return multiply, room_of


def _kernel(target: Target, dtype: int, role: _Role, gathered: Operands, threads: int) -> Any:
    """The kernel of a role: stage 0 multiplies, stage 1 adds parts of sums. A block has one tile, or none."""
    operands, extent, tile, result = role[:4]
    narrow, broad = shapes(dtype, threads)
    table_of = target.elements[INT32].shared(2 * ENTRY * threads)
    of_tile, room_of = _multiplying(target, dtype, role, gathered, threads)
    if role.images:
        few = _few_of_images(target, dtype, operands)
    else:
        few = _few_of_sums(target, dtype, operands, threads)
    small, large = (narrow.rows, narrow.columns), (broad.rows, broad.columns)
    columns_of_few, join = threads if role.images else threads // WARP, _joining(target, dtype, role, threads)

    def tile_of(rows):
        """The rows and columns of a tile."""
        if rows <= FEW:
            return np.int32(FEW), np.int32(columns_of_few)
        if rows <= NARROW:
            return np.int32(small[0]), np.int32(small[1])
        return np.int32(large[0]), np.int32(large[1])

    def multiply(f):
        rows, most, classes_h, classes_w = extent(f)
        height, width = tile_of(rows)
        # Neighbouring blocks read the same columns.
        rest, row = parted(block(), rounded_up(rows, height))
        rest, line = parted(rest, rounded_up(most, width))
        rest, which = parted(rest, np.int32(classes_h * classes_w))
        part, group = parted(rest, np.int32(f.groups))
        rest_h, rest_w = parted(which, classes_w)
        parts = np.int32(f.scratch.count)
        if part < parts:
            out, bias = result(f), f.bias
            if parts > 1:
                out, bias = f.scratch.data + part * f.scratch.nbytes, np.int64(0)
            s = tile(f, group, rest_h, rest_w, out, bias, parts > 1)
            each = np.int32((rounded_up(s.terms, parts) + (DEEPEST - 1)) & -DEEPEST)
            first = np.int32(min(np.int32(part * each), s.terms))
            last = np.int32(min(np.int32(first + each), s.terms))
            begin, top = np.int32(line * width), np.int32(row * height)
            if begin >= s.columns:  # of a class that has fewer than others
                return
            if rows <= FEW:
                few(s, table_of(), begin, first, last)
            else:
                of_tile(f.tf32, s, rows > NARROW, room_of(), table_of(), top, begin, first, last)

    def run(f):
        if f.stage == 0:
            multiply(f)
        else:
            join(f)

    return run


def _joining(target: Target, dtype: int, role: _Role, threads: int) -> Any:
    """``join(f)``: the sums of what all parts have come to, always in the same order."""
    e, of_parts, wide = target.elements[dtype], target.elements[computed_in(dtype)], summing(target, dtype)
    load, store, result, channel = e.load, e.store, role.target, role.channel
    load_part, size = of_parts.load, of_parts.size

    def join(f):
        at, to = np.int32(np.int32(block() * threads) + thread()), result(f)
        if at < f.scratch.nbytes // size:
            total, source, part = wide(load_part(f.scratch.data, at)), f.scratch.data, np.int64(1)
            while part < f.scratch.count:
                source += f.scratch.nbytes
                total += wide(load_part(source, at))
                part += 1
            if f.bias != 0:
                total += wide(load(f.bias, channel(f, at)))
            store(to, at, total)

    return join
