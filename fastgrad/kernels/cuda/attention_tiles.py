"""Attention without tensor cores: the text of the loops over tiles, forward and backward, for all floating dtypes.

A block owns some rows of one operand and goes through those of another one, a tile at a time. Each of its threads has a
few rows and columns of the tile's scores, and of the sums, in registers. The operands of scores stand in the block's
memory some elements of each row at a time; weights stand there as factors of the second product, with a few rows of the
other one. Rows wider than `columns` are summed in slices, for each of which scores are computed anew.

Which block owns what is as in `attention_cores`, where the halves of GPUs with tensor cores are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from fastgrad.kernels.cuda.attention_text import OPERANDS, Pass, Text, few, indented, rows_of
from fastgrad.kernels.cuda.device import Target, barrier, float_of, opaque, shuffle_xor, thread, where
from fastgrad.kernels.cuda.places import split
from fastgrad.native.contracts.element_types import computed_in

ACROSS = 16  # threads that share a row: half a warp
DEPTH = 16  # elements of a row, or rows of the second product, that stand in the block's memory
UNROLLED = 4
WIDEST = 16  # bytes that a thread reads at once


class Shape(NamedTuple):
    """How a block computes a tile.

    Attributes
    ----------
    threads, size : int
        Of a block; bytes of an element in its memory.
    columns : int
        Of the sums.
    """

    threads: int
    size: int
    columns: int

    @property
    def at_once(self) -> int:
        """Elements that a thread reads at once; so many rows and columns of the scores it has."""
        return WIDEST // self.size

    @property
    def down(self) -> int:
        return self.threads // ACROSS

    @property
    def rows(self) -> int:
        """That a block owns."""
        return self.down * self.at_once

    @property
    def stream(self) -> int:
        """Rows of a tile."""
        return ACROSS * self.at_once

    @property
    def room(self) -> int:
        """Elements of what is multiplied at a time."""
        pad = self.at_once
        return DEPTH * max(self.rows + self.stream + 2 * pad, self.columns + pad)

    @property
    def weights(self) -> int:
        """Elements of the weights of a tile."""
        return self.stream * (self.rows + self.at_once)


class _Text(Text):
    """The text of one pass."""

    def __init__(self, shape: Shape, owned: str, streamed: str) -> None:
        super().__init__(owned, streamed)
        self.shape, self.rows, self.stream, self.w = shape, shape.rows, shape.stream, shape.at_once
        self.pitch_x, self.pitch_y, self.pitch_v = (
            k + self.w for k in (self.rows, self.stream, shape.columns)
        )
        self.each, self.held = range(self.w), range(shape.columns // ACROSS)

    def pieces(self) -> Iterator[str]:
        for rows in sorted({self.rows, self.stream}):
            yield from self.bring_across(rows)
        yield from self.bring_along()

    # --- what is brought to the block's memory ---

    def bring_across(self, rows: int) -> Iterator[str]:
        """``across_ROWS(room, at, address, step, count, c, width)``: elements from c on, those of a column together."""
        yield f"def across_{rows}(room, at, data, first, step, count, c, width):"
        yield "    own, step = np.int32(opaque(np.int64(thread()))), opaque(step)"
        yield f"    r, k = np.int32(own >> 4), np.int32(own & {ACROSS - 1})"
        yield "    there, first = c + k < width, first + r * step + c + k"
        yield f"    at = np.int32(at + k * {rows + self.w} + r)"
        for i in range(rows // self.shape.down):
            r = i * self.shape.down
            yield f"    put(room, np.int32(at + {r}), load(data, first, there and r + {r} < count))"
            yield f"    first += {self.shape.down} * step"

    def bring_along(self) -> Iterator[str]:
        """``along(room, data, first, step, count, c, width)``: columns from c on of a few rows."""
        columns, threads = self.shape.columns, self.shape.threads
        apart = max(threads // columns, 1)
        yield "def along(room, data, first, step, count, c, width):"
        yield "    own, step = np.int32(opaque(np.int64(thread()))), opaque(step)"
        yield f"    r, k = np.int32(own // {columns}), np.int32(own & {columns - 1})"
        yield "    first += r * step + c + k"
        yield f"    at = np.int32(r * {self.pitch_v} + k)"
        for i in range(0, DEPTH, apart):
            for j in range(0, columns, threads):
                there = f"r + {i} < count and c + k + {j} < width"
                yield f"    put(room, np.int32(at + {i * self.pitch_v + j}), load(data, first + {j}, {there}))"
            yield f"    first += {apart} * step"

    # --- pieces of the body ---

    def begin(self) -> Iterator[str]:
        yield "own = np.int32(opaque(np.int64(thread())))"
        yield f"down, over = np.int32((own >> 4) * {self.w}), np.int32((own & {ACROSS - 1}) * {self.w})"
        yield "scale, causal, masked = cast(float_of(f.scale)), f.causal != 0, f.mask.data != 0"
        yield f"owned = few({self.total} - first)"

    def places(self, names: tuple[str, ...], letter: str, first: str) -> Iterator[str]:
        for k, name in enumerate(names):
            yield f"{letter}{k} = rows_of(f.{name}, b, {self.head(name)}) + {first} * f.{name}.row"

    def read(self, letter: str, room: str, at: str, place: str, groups: int, apart: int) -> Iterator[str]:
        """Read groups of elements: rows or columns of this thread."""
        for g in range(groups):
            names = ", ".join(f"{letter}{g * self.w + i}" for i in self.each)
            yield f"{names} = get_some({room}, np.int32({at} + {g * apart} + {place}))"

    def scores(self, name: str, which: int) -> Iterator[str]:
        """The products of owned rows with those of a tile."""
        x, y = self.owned[which], self.streamed[which]
        yield from (f"{name}{i}_{j} = zero" for i in self.each for j in self.each)
        yield "c = np.int64(0)"
        yield "while c < f.width:"
        yield "    barrier()"
        yield f"    across_{self.rows}(room, np.int32(0), f.{x}.data, x{which}, f.{x}.row, owned, c, f.width)"
        at = f"y{which} + j * f.{y}.row, f.{y}.row, left"
        yield f"    across_{self.stream}(room, np.int32({DEPTH * self.pitch_x}), f.{y}.data, {at}, c, f.width)"
        yield "    barrier()"
        yield f"    d, deep = np.int32(0), np.int32(min(f.width - c, {DEPTH}))"
        yield "    while d < deep:"
        for u in range(UNROLLED):
            at = f"(d + {u}) * {self.pitch_x}"
            yield from indented(self.read("p", "room", at, "down", 1, 0), 2)
            at = f"(d + {u}) * {self.pitch_y} + {DEPTH * self.pitch_x}"
            yield from indented(self.read("r", "room", at, "over", 1, 0), 2)
            yield from (f"        {name}{i}_{j} += p{i} * r{j}" for i in self.each for j in self.each)
        yield f"        d = np.int32(d + {UNROLLED})"
        yield f"    c += {DEPTH}"

    def put_weights(self, name: str) -> Iterator[str]:
        """Put what the scores became where they are factors; all threads have read what was there before."""
        for j in self.each:
            for i in self.each:
                at = f"{self.shape.room} + (over + {j}) * {self.pitch_x} + down + {i}"
                yield f"put(room, np.int32({at}), {name}{i}_{j})"

    def add(self, into: str, which: int) -> Iterator[str]:
        """Add the products of the weights with a slice of a tile's rows."""
        name = self.streamed[which]
        yield "k = np.int32(0)"
        yield f"while k < {self.stream} and k < left:"
        yield "    barrier()"
        at = f"y{which} + (j + k) * f.{name}.row, f.{name}.row, np.int32(left - k)"
        yield f"    along(room, f.{name}.data, {at}, c0, f.width)"
        yield "    barrier()"
        yield "    d = np.int32(0)"
        yield f"    while d < {DEPTH}:"
        groups, apart = len(self.held) // self.w, ACROSS * self.w
        for u in range(UNROLLED):
            at = f"{self.shape.room} + (k + d + {u}) * {self.pitch_x}"
            yield from indented(self.read("p", "room", at, "down", 1, 0), 2)
            yield from indented(
                self.read("r", "room", f"(d + {u}) * {self.pitch_v}", "over", groups, apart), 2
            )
            yield from (f"        {into}{i}_{j} += p{i} * r{j}" for i in self.each for j in self.held)
        yield f"        d = np.int32(d + {UNROLLED})"
        yield f"    k = np.int32(k + {DEPTH})"

    def sums(self, name: str) -> Iterator[str]:
        yield from (f"{name}{i}_{j} = zero" for i in self.each for j in self.held)

    def store(self, into: str, operand: str, factor: str) -> Iterator[str]:
        """Write a slice of the sums, multiplied by a number of the row."""
        head = "group" if self.by_keys else "h"
        yield f"step = opaque(f.{operand}.row)"
        yield f"to = rows_of(f.{operand}, b, {head}) + (first + down) * step + c0 + over"
        for i in self.each:
            yield f"if down + {i} < owned:"
            for j in self.held:
                at = j // self.w * ACROSS * self.w + j % self.w
                yield f"    if c0 + over + {at} < f.width:"
                yield (
                    f"        store(f.{operand}.data, to + {i} * step + {at}, "
                    f"{into}{i}_{j} * {factor.format(i=i)})"
                )

    def masked(self) -> Iterator[str]:
        """Scores, with what the mask adds, and nothing beyond the ends."""
        row, column = ("over", "down") if self.by_keys else ("down", "over")
        i, j = ("j", "first") if self.by_keys else ("first", "j")
        yield f"row, column = {i} + {row}, {j} + {column}"
        yield "step = opaque(f.mask.row)"
        yield "at = rows_of(f.mask, b, h) + row * step + column"
        for a in self.each:
            for k in self.each:
                i, j = (k, a) if self.by_keys else (a, k)
                yield f"s{a}_{k} *= scale"
                yield f"counts = row + {i} < f.queries and column + {j} < f.keys"
                yield f"counts = counts and (column + {j} <= row + {i} or not causal)"
                yield "if masked:"
                yield f"    s{a}_{k} += load(f.mask.data, at + {i} * step + {j}, counts)"
                yield f"s{a}_{k} = where(counts, s{a}_{k}, least)"

    def tiles(self, start: str, last: str, body: Iterable[str]) -> Iterator[str]:
        yield f"j, last = {start}, {last}"
        yield "while j < last:"
        yield f"    left = few({self.count} - j)"
        yield from indented(body)
        yield f"    j += {self.stream}"

    def slices(self, body: Iterable[str]) -> Iterator[str]:
        yield "c0 = np.int64(0)"
        yield "while c0 < f.width:"
        yield from indented(body)
        yield f"    c0 += {self.shape.columns}"

    def softmax(self) -> Iterator[str]:
        """Weights of a tile, and what they change of what came before."""
        for i in self.each:
            yield f"top = s{i}_0"
            yield from (f"top = maximum(top, s{i}_{j})" for j in self.each[1:])
            yield from (f"top = maximum(top, shuffle_xor(top, {k}))" for k in (1, 2, 4, 8))
            yield f"top = maximum(best{i}, top)"
            yield "shift = where(top == least, zero, top)"
            yield f"fade = where(best{i} == least, zero, exp(best{i} - shift))"
            yield f"best{i} = top"
            yield from (f"s{i}_{j} = exp(s{i}_{j} - shift)" for j in self.each)
            yield f"total{i} = total{i} * fade + ({' + '.join(f's{i}_{j}' for j in self.each)})"
            yield from (f"a{i}_{j} *= fade" for j in self.held)

    # --- the passes ---

    def forward(self) -> Iterator[str]:
        yield from self.begin()
        yield "group, _ = split(h, f.group)"
        yield from self.places(self.owned, "x", "first")
        yield from self.places(self.streamed, "y", "np.int64(0)")
        body = [
            *self.scores("s", 0),
            *self.masked(),
            *self.softmax(),
            *self.put_weights("s"),
            *self.add("a", 1),
        ]
        lines = [f"best{i}, total{i} = least, zero" for i in self.each]
        lines += [*self.sums("a"), *self.tiles("np.int64(0)", self.last_key(), body)]
        for i in self.each:
            lines += [f"total{i} += shuffle_xor(total{i}, {k})" for k in (1, 2, 4, 8)]
            lines.append(f"of{i} = where(total{i} == zero, zero, one / total{i})")
        lines += self.store("a", "out", "of{i}")
        for i in self.each:
            lines += [
                f"if c0 == 0 and over == 0 and down + {i} < owned:",
                f"    kept = where(total{i} == zero, infinite, best{i} + log(total{i}))",
                f"    store_fact(f.lse, (b * f.heads + h) * f.queries + first + down + {i}, kept)",
            ]
        yield from self.slices(lines)

    def query_gradient(self) -> Iterator[str]:
        yield from self.begin()
        yield "group, _ = split(h, f.group)"
        yield from self.places(self.owned, "x", "first")
        yield from self.places(self.streamed, "y", "np.int64(0)")
        yield "at = (b * f.heads + h) * f.queries + first + down"
        for i in self.each:
            yield f"lse{i} = load_fact(f.lse, at + {i}, down + {i} < owned)"
            yield f"delta{i} = load_fact(f.scratch.data, at + {i}, down + {i} < owned)"
        body = [*self.scores("s", 0), *self.masked(), *self.scores("d", 1)]
        for i in self.each:
            body += [f"s{i}_{j} = exp(s{i}_{j} - lse{i}) * (d{i}_{j} - delta{i})" for j in self.each]
        body += [*self.put_weights("s"), *self.add("a", 0)]
        lines = [
            *self.sums("a"),
            *self.tiles("np.int64(0)", self.last_key(), body),
            *self.store("a", "grad_q", "scale"),
        ]
        yield from self.slices(lines)

    def key_gradient(self) -> Iterator[str]:
        yield from self.begin()
        yield from self.places(self.owned, "x", "first")
        body = [*self.scores("s", 0), *self.masked(), "at = (b * f.heads + h) * f.queries + j + over"]
        for j in self.each:
            body.append(f"lse = load_fact(f.lse, at + {j}, over + {j} < left)")
            body += [f"s{i}_{j} = exp(s{i}_{j} - lse)" for i in self.each]
        body += [*self.put_weights("s"), *self.add("dv", 1), *self.scores("d", 1)]
        for j in self.each:
            body.append(f"delta = load_fact(f.scratch.data, at + {j}, over + {j} < left)")
            body += [f"s{i}_{j} *= d{i}_{j} - delta" for i in self.each]
        body += [*self.put_weights("s"), *self.add("dk", 0)]
        lines = [
            *self.sums("dk"),
            *self.sums("dv"),
            "h = group * f.group",
            "while h < (group + 1) * f.group:",
        ]
        lines += indented(self.places(self.streamed, "y", "np.int64(0)"))
        lines += indented(self.tiles(self.first_query(), "f.queries", body))
        lines += ["    h += 1", *self.store("dk", "grad_k", "scale"), *self.store("dv", "grad_v", "one")]
        yield from self.slices(lines)


def passes(target: Target, dtype: int, threads: int, columns: int) -> dict[str, Pass]:
    """The passes by a block of so many threads, which sums so many columns at once."""
    e, sums = target.elements[dtype], target.elements[computed_in(dtype)]
    shape = Shape(threads, sums.size, columns)
    scope: dict[str, Any] = {
        "np": np, "thread": thread, "barrier": barrier, "float_of": float_of, "shuffle_xor": shuffle_xor,
        "where": where, "opaque": opaque, "split": split, "few": few, "rows_of": rows_of, "load": e.load_where,
        "store": e.store,
        "put": sums.put, "get_some": sums.get_some(shape.at_once), "load_fact": sums.load_where,
        "store_fact": sums.store, "cast": e.constant, "zero": e.constant(0), "one": e.constant(1),
        "least": e.constant(-np.inf), "infinite": e.constant(np.inf), "exp": e.math.exp, "log": e.math.log,
        "maximum": e.math.maximum,
    }  # fmt: skip
    return {
        what: Pass(shape.rows, shape.room + shape.weights, _Text(shape, *operands).made(what, scope))
        for what, operands in OPERANDS.items()
    }
