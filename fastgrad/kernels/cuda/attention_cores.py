"""Attention over halves by tensor cores: the text of the loops over tiles, forward and backward.

A block owns 16 or 32 rows by each warp, and goes through the rows of other operands, a tile at a time, which it
brings to its memory while the tile before is multiplied; see `attention`. What a warp owns, the scores of a tile and
the sums stand in registers, as `cores` lays them out; scores become the left factor of the second product where they
are.

Scores, weights and all sums are float32; weights, and what the scores' gradients are, are rounded to halves as factors
of the second product. Each result is summed by one warp in one order, and written once. Exponentials are powers of two:
scores are multiplied by ``scale * log2(e)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from fastgrad.kernels.cuda.attention_text import MANY, OPERANDS, Pass, Text, few, indented, rows_of
from fastgrad.kernels.cuda.cores import await_copies, copy_ahead, get_matrices, get_transposed
from fastgrad.kernels.cuda.device import (
    WARP,
    Target,
    barrier,
    exp2_flushed,
    float_of,
    greater,
    log2,
    opaque,
    shuffle_xor,
    thread,
    where,
)
from fastgrad.kernels.cuda.places import split
from fastgrad.native.contracts.element_types import FLOAT32, INT16, INT32

LOG2_E = 1.4426950408889634
CHUNK = 8  # halves that are copied at once


class Shape(NamedTuple):
    """How a block takes rows of at most `width` elements.

    Attributes
    ----------
    width : int
        A multiple of 16.
    tiles : int
        Of 16 rows, that a warp owns.
    stream : int
        Rows of a tile of the other operands, a multiple of 16.
    staying : int
        Of how many operands, the last ones, what a block owns stays in its memory and is read for each tile.
    parts : int
        In how many parts of the columns the sums are found, for each of which scores are computed anew.
    """

    width: int
    tiles: int
    stream: int
    staying: int = 0
    parts: int = 1

    def rows(self, warps: int) -> int:
        """That a block of so many warps owns."""
        return warps * 16 * self.tiles

    @property
    def pitch(self) -> int:
        """Words from a row to the next one in the block's memory, so that eight rows lie in different banks."""
        return self.width // 2 + 4

    def tiles_room(self, warps: int) -> int:
        """Words of two tiles of two operands, where the owned rows of one have been before."""
        return max(4 * self.stream, self.rows(warps)) * self.pitch

    def room(self, warps: int) -> int:
        """The same, and of owned rows that stay behind them."""
        return self.tiles_room(warps) + self.staying * self.rows(warps) * self.pitch


SHAPES = {
    64: {
        "forward": Shape(64, 2, 32, staying=1),
        "query_gradient": Shape(64, 2, 16),
        "key_gradient": Shape(64, 1, 32),
    },
    128: {
        "forward": Shape(128, 1, 32),
        "query_gradient": Shape(128, 1, 16),
        "key_gradient": Shape(128, 1, 16, staying=1, parts=2),
    },
}
"""The shapes of the passes, for rows of at most so many elements."""


def is_whole(operand, width):
    """Whether 16 bytes can be read at once wherever a row of an operand of halves begins."""
    steps = (operand.batch | operand.head | operand.row | width) * 2
    return (operand.data | steps) & 15 == 0


def is_even(operand, width):
    """Whether the same holds of two halves."""
    steps = (operand.batch | operand.head | operand.row | width) * 2
    return (operand.data | steps) & 3 == 0


def rows_at(operand, batch, head, row):
    """The address of a row of an operand of halves."""
    return operand.data + 2 * (rows_of(operand, batch, head) + row * operand.row)


# --- what is done to the four numbers of a tile that a thread has ------------------------------------------------


def times(s, x):
    """All of them multiplied."""
    return s[0] * x, s[1] * x, s[2] * x, s[3] * x


def by_rows(s, x, y):
    """Those of either row multiplied by a number of it."""
    return s[0] * x, s[1] * x, s[2] * y, s[3] * y


def of_rows(x, y):
    """What either row has, for all of them."""
    return x, x, y, y


def of_columns(pair):
    """What either column has."""
    return pair[0], pair[1], pair[0], pair[1]


def weights_of(s, factor, less):
    """The weights of scores, of each less a number."""
    return (
        exp2_flushed(s[0] * factor - less[0]),
        exp2_flushed(s[1] * factor - less[1]),
        exp2_flushed(s[2] * factor - less[2]),
        exp2_flushed(s[3] * factor - less[3]),
    )


def slopes_of(p, d, less):
    """The gradients of scores: of weights and those of these, of each less a number."""
    return p[0] * (d[0] - less[0]), p[1] * (d[1] - less[1]), p[2] * (d[2] - less[2]), p[3] * (d[3] - less[3])


def within(s, column, count, reach, other):
    """`other` in place of what is in columns from `count` on, or beyond what a row reaches."""
    first, second = min(count, np.int32(reach + 1)), min(count, np.int32(reach + 9))
    following = np.int32(column + 1)
    return (
        where(column < first, s[0], other),
        where(following < first, s[1], other),
        where(column < second, s[2], other),
        where(following < second, s[3], other),
    )


def beyond(s, column, row, other):
    """`other` in place of what is in columns before that of the row."""
    following, second = np.int32(column + 1), np.int32(row + 8)
    return (
        where(column >= row, s[0], other),
        where(following >= row, s[1], other),
        where(column >= second, s[2], other),
        where(following >= second, s[3], other),
    )


class _Text(Text):
    """The text of one pass."""

    def __init__(self, shape: Shape, warps: int, owned: str, streamed: str) -> None:
        super().__init__(owned, streamed)
        self.shape, self.stream, self.pitch = shape, shape.stream, shape.pitch
        self.threads, self.rows = warps * WARP, shape.rows(warps)
        self.deep, self.tiles, self.across = (
            range(n) for n in (shape.width // 16, shape.tiles, shape.stream // 8)
        )
        self.held, self.behind = len(self.owned) - shape.staying, shape.tiles_room(warps)
        self.facts, self.summed = shape.room(warps), range(shape.width // 16 // shape.parts)

    def pieces(self) -> Iterator[str]:
        for rows in sorted({self.rows, self.stream}):
            yield from self.bring(rows)

    def bring(self, rows: int) -> list[str]:
        """``bring_ROWS(room, at, address, step, count, width, whole)``: rows of halves, and zeros beyond them."""
        chunks, words = self.shape.width // CHUNK, self.shape.width // 2
        apart = self.threads // chunks
        whole, pieces = [], rows // apart
        for k in range(pieces):
            there = f"there and r + {k * apart} < count"
            whole += [
                f"copy_ahead(room, np.int32(at + {k * apart * self.pitch}), address, {there})",
                f"address += {apart} * step",
            ]
        return [
            f"def bring_{rows}(room, at, address, step, count, width, whole):",
            "    step, own = opaque(step), np.int32(opaque(np.int64(thread())))",
            "    if whole:",
            f"        r, c = np.int32(own // {chunks}), np.int32(own & {chunks - 1})",
            f"        there, at = c * {CHUNK} < width, np.int32(at + r * {self.pitch} + c * 4)",
            "        address += r * step + c * 16",
            *indented(whole, 2),
            "    else:",
            "        k = own",
            f"        while k < {rows * words}:",
            f"            r, c = np.int32(k // {words}), np.int32(k % {words})",
            "            low = load_bits(address + r * step, 2 * c, r < count and 2 * c < width)",
            "            high = load_bits(address + r * step, 2 * c + 1, r < count and 2 * c + 1 < width)",
            f"            at_k = np.int32(at + r * {self.pitch} + c)",
            "            put(room, at_k, np.int32((np.int32(high) << 16) | (np.int32(low) & 0xFFFF)))",
            f"            k = np.int32(k + {self.threads})",
        ]

    # --- what is multiplied ---

    def begin(self) -> Iterator[str]:
        """Where a thread is, what it reads of the block's memory together with others, and its rows."""
        yield "lane = np.int32(opaque(np.int64(thread())))"
        yield "lane, warp = np.int32(lane & 31), np.int32(lane >> 5)"
        yield "g, t = np.int32(lane >> 2), np.int32((lane & 3) << 1)"
        yield f"own = np.int32(warp * {16 * self.shape.tiles})"
        yield f"straight = np.int32(((lane >> 4) * 8 + (lane & 7)) * {self.pitch} + (lane >> 3 & 1) * 4)"
        yield f"turned = np.int32((lane & 15) * {self.pitch} + (lane >> 4) * 4)"
        yield "scale, causal, masked = np.float32(float_of(f.scale) * log2_e), f.causal != 0, f.mask.data != 0"
        yield f"owned, part = few({self.total} - first), np.int32(0)"

    def take(self, x: int) -> Iterator[str]:
        """Bring what a warp owns of an operand to registers, or to where it stays."""
        name = self.owned[x]
        at = f"rows_at(f.{name}, b, {self.head(name)}, first), 2 * f.{name}.row"
        yield "barrier()"
        to = 0 if x < self.held else self.behind
        yield f"bring_{self.rows}(room, np.int32({to}), {at}, owned, f.width, is_whole(f.{name}, f.width))"
        yield "await_copies()"
        yield "barrier()"
        if x < self.held:
            yield from (self.matrix(x, m, k, 0) for m in self.tiles for k in self.deep)

    def matrix(self, x: int, m: int, k: int, first: int) -> str:
        """Read a part of what a warp owns, where its block's rows begin at a word."""
        at = f"own * {self.pitch} + turned + {first + 16 * m * self.pitch + 8 * k}"
        return f"x{x}_{m}_{k} = get_matrices(room, np.int32({at}))"

    def take_all(self) -> Iterator[str]:
        for x in range(len(self.owned)):
            yield from self.take(x)
        yield "barrier()"

    def next_tile(self, row: str, slot: str) -> Iterator[str]:
        """Bring the tile of the other operands that begins with a row."""
        for y, _ in enumerate(self.streamed):
            to = f"np.int32(({slot} * 2 + {y}) * {self.stream * self.pitch})"
            at = f"y{y} + ({row}) * step{y}, step{y}, few({self.count} - ({row}))"
            yield f"bring_{self.stream}(room, {to}, {at}, f.width, whole{y})"
        if self.by_keys:
            at = f"np.int32({self.facts} + {slot} * {2 * self.stream})"
            yield f"bring_facts(f, room, {at}, (b * f.heads + h) * f.queries, {row}, {self.stream})"

    def through(self, start: str, last: str, body: Iterable[str]) -> Iterator[str]:
        """The loop over tiles. While one is multiplied, the next one is on its way."""
        for y, name in enumerate(self.streamed):
            yield f"y{y}, step{y} = rows_at(f.{name}, b, {self.head(name)}, np.int64(0)), 2 * f.{name}.row"
            yield f"whole{y} = is_whole(f.{name}, f.width)"
        yield f"j, last, slot = {start}, {last}, np.int32(0)"
        yield "if j < last:"
        yield from indented(self.next_tile("j", "slot"))
        yield "while j < last:"
        yield "    await_copies()"
        yield "    barrier()"
        yield f"    following, other = j + {self.stream}, np.int32(1 - slot)"
        yield "    if following < last:"
        yield from indented(self.next_tile("following", "other"), 2)
        yield f"    stage = np.int32(slot * {2 * self.stream * self.pitch})"
        yield from indented(body)
        yield "    j, slot = following, other"

    def scores(self, name: str, which: int) -> Iterator[str]:
        """The products of owned rows with those of a tile."""
        for k in self.deep:
            if which >= self.held:
                yield from (self.matrix(which, m, k, self.behind) for m in self.tiles)
            for n in self.across[::2]:
                at = which * self.stream * self.pitch + 8 * n * self.pitch + 8 * k
                yield f"r = get_matrices(room, np.int32(stage + straight + {at}))"
                for m in self.tiles:
                    for j in (0, 1):
                        into, right = f"{name}{m}_{n + j}", f"(r[{2 * j}], r[{2 * j + 1}])"
                        yield f"{into} = multiply({into if k else 'nothing'}, x{which}_{m}_{k}, {right})"

    def add(self, into: str, factor: str, which: int) -> Iterator[str]:
        """Add the products of what the scores became with a tile's rows."""
        for n in self.across[::2]:
            for m in self.tiles:
                names = [(f"{factor}{m}_{n + j}", k) for j in (0, 1) for k in (0, 2)]
                yield f"l{m} = ({', '.join(f'packed({name}[{k}], {name}[{k + 1}])' for name, k in names)})"
            for k in self.summed:
                at = which * self.stream * self.pitch + 8 * n * self.pitch + 8 * k
                yield f"r = get_transposed(room, np.int32(stage + turned + part + {at}))"
                for m in self.tiles:
                    for j in (0, 1):
                        to, right = f"{into}{m}_{2 * k + j}", f"(r[{2 * j}], r[{2 * j + 1}])"
                        yield f"{to} = multiply({to}, l{m}, {right})"

    def each(self, text: str) -> Iterator[str]:
        """A line for each tile of scores: `m` and `n` are its numbers, `r` and `c` its first row and column."""
        for m in self.tiles:
            for n in self.across:
                yield text.format(m=m, n=n, r=16 * m, c=8 * n)

    def sums(self, name: str) -> Iterator[str]:
        for m in self.tiles:
            for k in range(2 * len(self.summed)):
                yield f"{name}{m}_{k} = nothing"

    def store(self, into: str, operand: str, factor: str) -> Iterator[str]:
        """Write sums as rows of a result, multiplied by a number of the row."""
        head = "group" if self.by_keys else "h"
        yield f"to, step = rows_at(f.{operand}, b, {head}, first + own + g), opaque(2 * f.{operand}.row)"
        yield f"even = is_even(f.{operand}, f.width)"
        for m in self.tiles:
            for j in (0, 1):
                r = 16 * m + 8 * j
                yield f"if own + g + {r} < owned:"
                for k in range(2 * len(self.summed)):
                    name, by = f"{into}{m}_{k}", factor.format(m=m, j=j)
                    numbers = ", ".join(f"{name}[{2 * j + i}] * {by}" for i in (0, 1))
                    yield f"    put_pair(to + {r} * step, np.int32(t + 2 * part + {8 * k}), f.width, even, {numbers})"

    # --- what scores become ---

    def scaled(self) -> Iterator[str]:
        """What the mask adds, and what lies beyond the ends; `factor` is what scores still have to be multiplied by."""
        yield f"left, factor = few({self.count} - j), scale"
        yield "row = few(first + own - j)"
        yield "reach = np.int32(row + g) if causal else np.int32(many)"
        yield f"edge = left < {self.stream} or (causal and row < {self.stream - 1})"
        yield "if masked or edge or scale < zero:  # of products that are to be negative the largest one is no help"
        yield from indented(self.each("s{m}_{n} = times(s{m}_{n}, scale)"))
        yield "    factor = one"
        yield "if masked:"
        yield "    at, step = rows_at(f.mask, b, h, first + own + g) + 2 * j, opaque(f.mask.row)"
        yield from indented(
            self.each(
                "s{m}_{n} = plus_mask(s{m}_{n}, at + {r} * 2 * step, step, np.int32(t + {c}), left, "
                "np.int32(owned - own - g - {r}))"
            )
        )
        yield "if edge:"
        yield from indented(
            self.each("s{m}_{n} = within(s{m}_{n}, np.int32(t + {c}), left, np.int32(reach + {r}), least)")
        )

    def softmax(self, m: int) -> Iterator[str]:
        """Weights of a tile, and what they change of what came before."""
        for j in (0, 1):
            names = [f"s{m}_{n}[{2 * j + i}]" for n in self.across for i in (0, 1)]
            yield f"top = {names[0]}"
            yield from (f"top = greater(top, {name})" for name in names[1:])
            yield "top = greater(top, shuffle_xor(top, 1))"
            yield "top = greater(top, shuffle_xor(top, 2))"
            yield f"top = greater(best{m}_{j}, top * factor)"
            yield f"shift{j} = where(top == least, zero, top)"
            yield f"fade{j} = exp2_flushed(best{m}_{j} - shift{j})"
            yield f"best{m}_{j} = top"
        for n in self.across:
            yield f"s{m}_{n} = weights_of(s{m}_{n}, factor, of_rows(shift0, shift1))"
        for j in (0, 1):
            terms = " + ".join(f"(s{m}_{n}[{2 * j}] + s{m}_{n}[{2 * j + 1}])" for n in self.across)
            yield f"total{m}_{j} = total{m}_{j} * fade{j} + ({terms})"
        for k in range(self.shape.width // 8):
            yield f"a{m}_{k} = by_rows(a{m}_{k}, fade0, fade1)"

    # --- the passes ---

    def forward(self) -> Iterator[str]:
        rows, last_row = [(m, j) for m in self.tiles for j in (0, 1)], 16 * self.shape.tiles - 1
        yield from self.begin()
        yield "group, _ = split(h, f.group)"
        yield from self.take_all()
        yield from (f"best{m}_{j}, total{m}_{j} = least, zero" for m, j in rows)
        yield from self.sums("a")
        body = [*self.scores("s", 0), *self.scaled()]
        for m in self.tiles:
            body += self.softmax(m)
        body += self.add("a", "s", 1)
        works = [f"if own < owned and (j <= first + own + {last_row} or not causal):", *indented(body)]
        yield from self.through("np.int64(0)", self.last_key(), works)
        for m, j in rows:
            yield f"total{m}_{j} += shuffle_xor(total{m}_{j}, 1)"
            yield f"total{m}_{j} += shuffle_xor(total{m}_{j}, 2)"
            yield f"of{m}_{j} = where(total{m}_{j} == zero, zero, one / total{m}_{j})"
        yield from self.store("a", "out", "of{m}_{j}")
        for m, j in rows:
            r = 16 * m + 8 * j
            yield f"if lane & 3 == 0 and own + g + {r} < owned:"
            yield f"    kept = where(total{m}_{j} == zero, infinite, (best{m}_{j} + log2(total{m}_{j})) * ln_2)"
            yield f"    store_fact(f.lse, (b * f.heads + h) * f.queries + first + own + g + {r}, kept)"

    def query_gradient(self) -> Iterator[str]:
        rows, last_row = [(m, j) for m in self.tiles for j in (0, 1)], 16 * self.shape.tiles - 1
        yield from self.begin()
        yield "group, _ = split(h, f.group)"
        yield from self.take_all()
        yield "at = (b * f.heads + h) * f.queries + first + own + g"
        for m, j in rows:
            r = 16 * m + 8 * j
            yield f"lse{m}_{j} = lse_of(f, at + {r}, own + g + {r} < owned)"
            yield f"delta{m}_{j} = load_fact(f.scratch.data, at + {r}, own + g + {r} < owned)"
        yield from self.sums("a")
        body = [*self.scores("s", 0), *self.scaled()]
        body += self.each("s{m}_{n} = weights_of(s{m}_{n}, factor, of_rows(lse{m}_0, lse{m}_1))")
        body += self.scores("d", 1)
        body += self.each("s{m}_{n} = slopes_of(s{m}_{n}, d{m}_{n}, of_rows(delta{m}_0, delta{m}_1))")
        body += self.add("a", "s", 0)
        works = [f"if own < owned and (j <= first + own + {last_row} or not causal):", *indented(body)]
        yield from self.through("np.int64(0)", self.last_key(), works)
        yield from self.store("a", "grad_q", "np.float32(float_of(f.scale))")

    def scaled_across(self) -> Iterator[str]:
        """As `scaled`, where owned rows are keys."""
        yield "factor, row = scale, few(first + own - j)"
        yield "if masked:"
        yield "    at, step = rows_at(f.mask, b, h, j) + 2 * (first + own + g), opaque(f.mask.row)"
        yield from indented(
            self.each(
                "s{m}_{n} = plus_mask_across(times(s{m}_{n}, scale), at + {r} * 2, step, np.int32(t + {c}), "
                "few(f.queries - j), np.int32(owned - own - g - {r}))"
            )
        )
        yield "    factor = one"

    def fact(self, first: int) -> str:
        """What is known of two queries of a tile."""
        return f"get_facts(room, np.int32({self.facts + first} + slot * {2 * self.stream} + t))"

    def key_gradient(self) -> Iterator[str]:
        last_row = 16 * self.shape.tiles - 1
        yield from self.begin()
        yield from self.take_all()
        body = [*self.scores("s", 0), *self.scaled_across()]
        body += (f"lse{n} = {self.fact(8 * n)}" for n in self.across)
        body += self.each("s{m}_{n} = weights_of(s{m}_{n}, factor, of_columns(lse{n}))")
        body.append(f"if causal and row + {last_row} > 0:")
        body += indented(
            self.each("s{m}_{n} = beyond(s{m}_{n}, np.int32(t + {c}), np.int32(row + g + {r}), zero)")
        )
        body += self.add("dv", "s", 1)
        body += self.scores("d", 1)
        body += (f"delta{n} = {self.fact(self.stream + 8 * n)}" for n in self.across)
        body += self.each("s{m}_{n} = slopes_of(s{m}_{n}, d{m}_{n}, of_columns(delta{n}))")
        body += self.add("dk", "s", 0)
        works = [
            f"if own < owned and (j + {self.stream - 1} >= first + own or not causal):", *indented(body),
        ]  # fmt: skip
        lines = [
            *self.sums("dk"),
            *self.sums("dv"),
            "h = group * f.group",
            "while h < (group + 1) * f.group:",
        ]
        lines += indented(self.through(self.first_query(), "f.queries", works))
        lines += ["    barrier()", "    h += 1", *self.store("dk", "grad_k", "np.float32(float_of(f.scale))")]
        lines += self.store("dv", "grad_v", "one")
        yield f"while part < {self.shape.width // 2}:  # words"
        yield from indented(lines)
        yield f"    part = np.int32(part + {8 * len(self.summed)})"


_WORDS = {
    "np": np, "thread": thread, "barrier": barrier, "copy_ahead": copy_ahead, "await_copies": await_copies,
    "get_matrices": get_matrices, "get_transposed": get_transposed, "float_of": float_of, "greater": greater,
    "shuffle_xor": shuffle_xor, "where": where, "exp2_flushed": exp2_flushed, "log2": log2, "split": split,
    "opaque": opaque, "few": few, "is_whole": is_whole, "is_even": is_even, "rows_at": rows_at,
    "times": times, "by_rows": by_rows, "of_rows": of_rows, "of_columns": of_columns,
    "weights_of": weights_of, "slopes_of": slopes_of, "within": within, "beyond": beyond,
    "many": MANY, "log2_e": LOG2_E,
}  # fmt: skip


def _scope(target: Target, dtype: int) -> dict[str, Any]:
    """What the text reads."""
    cores, e = target.cores[dtype], target.elements[dtype]
    floats, words, bits = (target.elements[code] for code in (FLOAT32, INT32, INT16))
    number = floats.constant
    load_mask, store_bits, load_fact = e.load_where, e.store, floats.load_where
    store_words, packed, log2_e, infinite = words.store, cores.packed, number(LOG2_E), number(np.inf)
    put_fact = floats.put

    def put_pair(address, column, width, even, x, y):
        if even:
            if column < width:
                store_words(address, column >> 1, packed(x, y))
        else:
            if column < width:
                store_bits(address, column, x)
            if column + 1 < width:
                store_bits(address, column + 1, y)

    def plus_mask(s, at, step, column, left, owned):
        """Scores and what the mask adds: `at` is the row's address, `step` elements on to the next, `owned` rows."""
        return (
            s[0] + load_mask(at, column, owned > 0 and column < left) * log2_e,
            s[1] + load_mask(at, column + 1, owned > 0 and column + 1 < left) * log2_e,
            s[2] + load_mask(at, 8 * step + column, owned > 8 and column < left) * log2_e,
            s[3] + load_mask(at, 8 * step + column + 1, owned > 8 and column + 1 < left) * log2_e,
        )

    def plus_mask_across(s, at, step, column, left, owned):
        """The same where columns are the mask's rows."""
        return (
            s[0] + load_mask(at, column * step, owned > 0 and column < left) * log2_e,
            s[1] + load_mask(at, (column + 1) * step, owned > 0 and column + 1 < left) * log2_e,
            s[2] + load_mask(at, column * step + 8, owned > 8 and column < left) * log2_e,
            s[3] + load_mask(at, (column + 1) * step + 8, owned > 8 and column + 1 < left) * log2_e,
        )

    def lse_of(f, at, there):
        """The logarithm of a query's sum, to the base of two; such that weights are zero where there is no query."""
        return where(there, load_fact(f.lse, at, there) * log2_e, infinite)

    def bring_facts(f, facts, at, first, row, rows):
        """Of a tile's queries the logarithms of sums, and what `delta` kept."""
        k = thread()
        if k < rows:
            there = row + k < f.queries
            put_fact(facts, at + k, lse_of(f, first + row + k, there))
            put_fact(facts, at + rows + k, load_fact(f.scratch.data, first + row + k, there))

    return {
        **_WORDS, "multiply": cores.multiply,
        "packed": packed, "load_bits": bits.load_where, "put": words.put, "load_fact": load_fact,
        "store_fact": floats.store, "get_facts": floats.get_some(2), "put_pair": put_pair, "plus_mask": plus_mask,
        "plus_mask_across": plus_mask_across, "lse_of": lse_of, "zero": number(0), "one": number(1),
        "least": number(-np.inf), "infinite": infinite, "nothing": (number(0),) * 4,
        "ln_2": number(1 / LOG2_E), "bring_facts": bring_facts,
    }  # fmt: skip


def passes(target: Target, dtype: int, threads: int, width: int) -> dict[str, Pass]:
    """The passes by a block of so many threads over rows of at most so many halves."""
    scope, warps, found = _scope(target, dtype), threads // WARP, {}
    for what, shape in SHAPES[width].items():
        room = shape.room(warps) + 4 * shape.stream  # and what is known of the queries of two tiles
        run = _Text(shape, warps, *OPERANDS[what]).made(what, scope)
        found[what] = Pass(shape.rows(warps), room, run)
    return found
