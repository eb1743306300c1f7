"""Products of matrices whose operands are gathered while they are multiplied: the core of convolutions.

A block computes a tile of the result, ``sum over t of left[row, t] * right[t, column]``, each of its threads a few rows
and columns of it, in registers. What they read stands in the block's memory, `depth` terms at a time, in two halves:
while one is multiplied, the next terms are already on their way to registers, and from there to the other half.

Where an element of an operand lies follows from *entries* of its term and its column, four integers each that would
cost divisions. Threads find the entries of as many terms as there are threads, one each, and share them: they stand in
the block's memory, too. So do those of columns, but where a thread has only one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fastgrad.kernels.cuda.device import WARP, Target, barrier, thread
from fastgrad.native.contracts.element_types import FLOATS, INT32, INT64, computed_in

ROWS_EACH, COLUMNS_EACH = 4, 8  # of a thread
WIDEST = 16  # bytes that a thread reads at once
ENTRY = 4  # integers of an entry
DEPTH = 16  # terms of a shape at most
LANES_ACROSS = 8  # of the threads of a warp
UNROLLED = 4  # terms that the inner loop takes at once


class Shape(NamedTuple):
    """How a block computes a tile: threads down and across, and terms that are read at once."""

    down: int
    across: int
    depth: int

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.down * self.across

    @property
    def rows(self) -> int:
        """Of a tile."""
        return self.down * ROWS_EACH

    @property
    def columns(self) -> int:
        """Of a tile."""
        return self.across * COLUMNS_EACH

    def pitches(self, size: int) -> tuple[int, int]:
        """Elements, of so many bytes, from a term of each operand to the next one in the block's memory."""
        return self.rows + WIDEST // size, self.columns + WIDEST // size

    def room(self, size: int) -> int:
        """Elements that both halves have."""
        return 2 * self.depth * sum(self.pitches(size))


class Operands(NamedTuple):
    """What is multiplied. `s` is whatever these functions want to know of the tile.

    Attributes
    ----------
    entry : callable
        ``entry(s, term, last)``: the four integers of a term, which is not there unless it is before the last.
    column : callable
        ``column(s, number)``: what `right` wants to know of a column; an entry unless they are `side_by_side`.
    chunk_at : callable
        ``chunk_at(s, entry, row)``: the address of the left element, or 0 where that is zero.
    left, right : callable
        ``left(s, entry, row)`` and ``right(s, entry, column)``: the elements; zero beyond the last row or column, and
        where the term is not there.
    result : callable
        ``result(s, number)``: where the first row's element of this column belongs, or -1 beyond the last column.
    side_by_side : bool
        Whether neighbouring columns, not neighbouring terms, of the right operand are neighbours in memory.
    """

    entry: Any
    column: Any
    chunk_at: Any
    left: Any
    right: Any
    result: Any
    side_by_side: bool


def at_once(size: int) -> int:
    """How many elements, of so many bytes, a thread reads or writes at once."""
    return min(WIDEST // size, ROWS_EACH)


def summing(target: Target, dtype: int) -> Any:
    """The type in which elements are multiplied and added: integers of any size wrap around when they are stored."""
    return target.elements[dtype if dtype in FLOATS else INT64].constant


def keeping(target: Target, dtype: int, some: int) -> tuple[Any, Any]:
    """``keep(s, at, value)`` and ``keep_some(s, at, values)``: write results to their places behind ``s.target``.

    Halves are rounded, but not where these are sums of a part: see Note [Parts of sums] in `convolution`.
    """
    e, wide = target.elements[dtype], target.elements[computed_in(dtype)]
    size, wide_size = e.size, wide.size
    store, store_some = e.store, e.store_some(some)

    def keep(s, at, value):
        store(s.target, at, value)

    def keep_some(s, at, values):
        store_some(s.target + at * size, values)

    if e is wide:
        return keep, keep_some
    store_wide, store_some_wide = wide.store, wide.store_some(some)

    def keep_half(s, at, value):
        if s.of_part:
            store_wide(s.target, at, value)
        else:
            store(s.target, at, value)

    def keep_some_halves(s, at, values):
        if s.of_part:
            store_some_wide(s.target + at * wide_size, values)
        else:
            store_some(s.target + at * size, values)

    return keep_half, keep_some_halves


def tiled(target: Target, dtype: int, shape: Shape, operands: Operands) -> Any:
    """A function ``multiply(s, room, table, top, begin, first, last)``: the tile from row `top` and column `begin` on.

    It sums terms from `first` on, a multiple of `DEPTH`, up to `last`, and adds ``s.bias`` of each row if there is one.
    `room` and `table` are in the block's memory. Rows of the result are ``s.apart`` apart, behind the address
    ``s.target``; ``s.whole`` says whether columns that a thread stores at once are neighbours there.
    """
    e, table = target.elements[dtype], target.elements[INT32]
    some, wide = at_once(e.size), summing(target, dtype)
    keep, keep_some = keeping(target, dtype, some)
    scope: dict[str, Any] = {
        "np": np, "thread": thread, "barrier": barrier, "put": e.put, "wide": wide, "zero": wide(0), "load": e.load,
        "keep": keep, "keep_some": keep_some, "get_some": e.get_some(some),
        "get_entry": table.get_some(ENTRY), "share": sharing(target), **operands._asdict(),
    }  # fmt: skip
    exec(_Text(shape, e.size, operands.side_by_side).multiply(), scope)
    return scope["multiply_tile"]


def sharing(target: Target) -> Any:
    """``share(table, i, entry)``: put an entry where all threads find it."""
    put = target.elements[INT32].put

    def share(table, i, found):
        put(table, i * ENTRY, found[0])
        put(table, i * ENTRY + 1, found[1])
        put(table, i * ENTRY + 2, found[2])
        put(table, i * ENTRY + 3, found[3])

    return share


class Text:
    """The text of such a function, in which each element of a thread has a name; what computes adds the methods."""

    half: int
    """How far the second half of the room lies behind the first one."""

    def __init__(self, threads: int, columns: int, depth: int, side_by_side: bool) -> None:
        self.threads, self.columns, self.depth, self.side_by_side = threads, columns, depth, side_by_side

    def place(self) -> list[str]:
        """Where a thread is in the tile, and its sums."""
        raise NotImplementedError

    def load(self, indent: str, first: str) -> list[str]:
        """Bring elements of the next terms to registers, with zeros beyond the last term."""
        raise NotImplementedError

    def put(self, indent: str, half: str) -> list[str]:
        """Put what was brought into half of the room."""
        raise NotImplementedError

    def sum(self, indent: str) -> list[str]:
        """Add the products of the terms that stand in the block's memory."""
        raise NotImplementedError

    def store(self) -> list[str]:
        """Write what the sums come to."""
        raise NotImplementedError

    def multiply(self) -> str:
        lines = [
            "def multiply_tile(s, room, table, top, begin, first, last):",
            *self.place(),
            *self._columns(),
            "    k = first",
            "    if k < last:",
            *self._entries("        ", "k"),
            *self.load("        ", "k"),
            *self.put("        ", "np.int32(0)"),
            "        barrier()",
            "    half = np.int32(0)",
            "    while k < last:",
            f"        following = np.int32(k + {self.depth})",
            f"        other = np.int32({self.half} - half)",
            "        if following < last:",
            f"            if following & {self.threads - 1} == 0:",
            *self._entries("                ", "following"),
            *self.load("            ", "following"),
            *self.sum("        "),
            "        if following < last:",
            *self.put("            ", "other"),
            "        barrier()",
            "        k, half = following, other",
            *self.store(),
        ]
        return "\n".join(lines) + "\n"

    def _columns(self) -> list[str]:
        """What threads know of the columns that they bring."""
        if self.side_by_side:
            return [f"    mine = column(s, np.int32(begin + thread() % {self.columns}))"]
        return [
            f"    if thread() < {self.columns}:",
            f"        share(table, {self.threads} + thread(), column(s, np.int32(begin + thread())))",
        ]

    def _entries(self, indent: str, first: str) -> list[str]:
        """Each thread finds the entry of a term."""
        number = f"np.int32(({first} & {-self.threads}) + thread())"
        return [f"{indent}share(table, thread(), entry(s, {number}, last))", f"{indent}barrier()"]


class _Text(Text):
    """That of a thread with a few rows and columns."""

    def __init__(self, shape: Shape, size: int, side_by_side: bool) -> None:
        super().__init__(shape.threads, shape.columns, shape.depth, side_by_side)
        self.shape, self.size = shape, size
        self.wide = at_once(size)
        threads, depth = shape.threads, shape.depth
        self.pitch_a, self.pitch_b = shape.pitches(size)
        self.half_a = depth * self.pitch_a
        self.half = self.half_a + depth * self.pitch_b
        self.n_left, self.n_right = shape.rows * depth // threads, shape.columns * depth // threads
        if threads % shape.columns or shape.rows * depth % threads or depth % UNROLLED:
            raise ValueError(f"{shape} divides nothing evenly")

    def place(self) -> list[str]:
        """As above. Threads of a warp are near each other in both directions, and read less so."""
        across = min(LANES_ACROSS, self.shape.across)
        warps = self.shape.across // across
        return [
            f"    warp, lane = thread() // {WARP}, thread() % {WARP}",
            f"    down = np.int32(warp // {warps} * {WARP // across} + lane // {across})",
            f"    across = np.int32(warp % {warps} * {across} + lane % {across})",
            f"    term, line = np.int32(thread() % {self.depth}), np.int32(thread() // {self.depth})",
            *(f"    s{i}_{j} = zero" for i in range(ROWS_EACH) for j in range(COLUMNS_EACH)),
        ]

    def load(self, indent: str, first: str) -> list[str]:
        step, threads = self.threads // self.depth, self.threads
        lines = [
            f"at = np.int32({first} & {threads - 1})",
            f"found = get_entry(table, np.int32((at + term) * {ENTRY}))",
        ]
        for r in range(self.n_left):
            lines.append(f"a{r} = left(s, found, np.int32(top + line + {r * step}))")
        for r in range(self.n_right):
            if self.side_by_side:
                beyond = r * (threads // self.shape.columns)
                lines += [
                    f"own = np.int32(thread() // {self.shape.columns} + {beyond})",
                    f"found = get_entry(table, np.int32((at + own) * {ENTRY}))",
                    f"b{r} = right(s, found, mine)",
                ]
            else:
                lines += [
                    f"mine = get_entry(table, np.int32(({threads + r * step} + line) * {ENTRY}))",
                    f"b{r} = right(s, found, mine)",
                ]
        return [indent + line for line in lines]

    def put(self, indent: str, half: str) -> list[str]:
        step, lines = self.threads // self.depth, []
        for r in range(self.n_left):
            lines.append(f"put(room, {half} + term * {self.pitch_a} + line + {r * step}, a{r})")
        for r in range(self.n_right):
            to = f"line + {r * step} + term * {self.pitch_b}"
            if self.side_by_side:
                across = self.shape.columns
                to = f"thread() % {across} + (thread() // {across} + {r * (self.threads // across)}) * {self.pitch_b}"
            lines.append(f"put(room, {half} + {self.half_a} + {to}, b{r})")
        return [indent + line for line in lines]

    def _groups(self, each: int, threads: int, place: str) -> list[tuple[int, str]]:
        """The groups of rows or columns that a thread reads at once: the first of each, and where that is in a tile."""
        return [(first, f"{first * threads} + {place} * {self.wide}") for first in range(0, each, self.wide)]

    def _down(self) -> list[tuple[int, str]]:
        return self._groups(ROWS_EACH, self.shape.down, "down")

    def _across(self) -> list[tuple[int, str]]:
        return self._groups(COLUMNS_EACH, self.shape.across, "across")

    def sum(self, indent: str) -> list[str]:
        lines = ["d = np.int32(0)", f"while d < {self.depth}:"]
        for u in range(UNROLLED):
            for name, groups, half, pitch in (
                ("x", self._down(), 0, self.pitch_a), ("y", self._across(), self.half_a, self.pitch_b),
            ):  # fmt: skip
                for first, place in groups:
                    names = ", ".join(f"{name}{first + k}" for k in range(self.wide))
                    lines.append(
                        f"    {names} = get_some(room, half + {half} + (d + {u}) * {pitch} + {place})"
                    )
            lines += [
                f"    s{i}_{j} += wide(x{i}) * wide(y{j})"
                for i in range(ROWS_EACH)
                for j in range(COLUMNS_EACH)
            ]
        lines.append(f"    d = np.int32(d + {UNROLLED})")
        return [indent + line for line in lines]

    def store(self) -> list[str]:
        lines = []
        for first, place in self._down():
            for k in range(self.wide):
                i = first + k
                lines += [
                    f"    r{i} = np.int32(top + {place} + {k})",
                    f"    if s.bias != 0 and r{i} < s.rows:",
                    f"        bias = wide(load(s.bias, r{i}))",
                    *(f"        s{i}_{j} += bias" for j in range(COLUMNS_EACH)),
                ]
        for first, place in self._across():
            lines += ["    if s.whole:", f"        to = result(s, np.int32(begin + {place}))"]
            for i in range(ROWS_EACH):
                values = ", ".join(f"s{i}_{first + k}" for k in range(self.wide))
                lines += [
                    f"        if to >= 0 and r{i} < s.rows:",
                    f"            keep_some(s, to + r{i} * s.apart, ({values}))",
                ]
            lines.append("    else:")
            for k in range(self.wide):
                lines.append(f"        to = result(s, np.int32(begin + {place} + {k}))")
                for i in range(ROWS_EACH):
                    lines += [
                        f"        if to >= 0 and r{i} < s.rows:",
                        f"            keep(s, to + r{i} * s.apart, s{i}_{first + k})",
                    ]
        return lines
