"""Products of matrices whose operands are gathered while they are multiplied, by tensor cores: see `tiles`.

A warp computes 32 rows and columns of a block's tile, the sums in registers. In the block's memory rows of the left
operand and columns of the right one stand one after the other, each with some words of the next terms (see `cores` for
words), and a gap of four, so that eight rows of a matrix lie in different banks.

Halves are brought there as they lie. Terms of the left operand that are neighbours in memory come 16 bytes at a time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fastgrad.kernels.cuda.cores import COLUMNS, ROWS, get_matrices
from fastgrad.kernels.cuda.device import WARP, Target, barrier, thread
from fastgrad.kernels.cuda.tiles import ENTRY, WIDEST, Operands, Text, keeping, sharing
from fastgrad.native.contracts.element_types import FLOAT32, INT32

EACH = 32  # rows and columns of a warp
WORD = 4  # bytes
AT_ONCE = WIDEST // WORD  # words
STEP = 8  # words that are multiplied at once
PAIR = 2  # neighbouring columns of the result that a thread has


class Warps(NamedTuple):
    """How a block computes a tile: warps down and across, and words of terms that are read at once."""

    down: int
    across: int
    deep: int

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.down * self.across * WARP

    @property
    def rows(self) -> int:
        """Of a tile."""
        return self.down * EACH

    @property
    def columns(self) -> int:
        """Of a tile."""
        return self.across * EACH

    @property
    def pitch(self) -> int:
        """Words from a row or column to the next one in the block's memory."""
        return self.deep + AT_ONCE

    @property
    def room(self) -> int:
        """Words that both halves have."""
        return 2 * (self.rows + self.columns) * self.pitch


def fragmented(target: Target, dtype: int, warps: Warps, operands: Operands) -> Any:
    """A function ``multiply(s, room, table, top, begin, first, last)`` as `tiles.tiled`, by the cores of a dtype.

    Halves among the operands are words, by `cores.half_where`. `s.dense` says whether a row of the left operand has 16
    bytes of neighbouring terms side by side, at a multiple of 16 bytes.
    """
    core, e, words = target.cores[dtype], target.elements[dtype], target.elements[INT32]
    keep, keep_some = keeping(target, dtype, PAIR)
    halves = dtype != FLOAT32
    scope: dict[str, Any] = {
        "np": np, "thread": thread, "barrier": barrier, "zero": np.float32(0), "load": e.load, "wide": np.float32,
        "keep": keep, "keep_some": keep_some, "get_matrices": get_matrices, "multiply": core.multiply,
        "as_word": joined if halves else core.packed, "nothing": np.int32(0) if halves else np.float32(0),
        "put": words.put, "put_some": words.put_some(AT_ONCE),
        "load_some": (words if halves else e).load_some(AT_ONCE), "get_entry": words.get_some(ENTRY),
        "share": sharing(target), **operands._asdict(),
    }  # fmt: skip
    exec(_FragmentText(warps, core.terms // STEP, operands.side_by_side).multiply(), scope)
    return scope["multiply_tile"]


def joined(low, high):
    """The word of two halves."""
    return np.int32(low | np.int32(high << np.int32(16)))


class _FragmentText(Text):
    """The text of the function, in which each element and each matrix of a thread has a name."""

    def __init__(self, warps: Warps, per_word: int, side_by_side: bool) -> None:
        super().__init__(warps.threads, warps.columns, warps.deep * per_word, side_by_side)
        self.warps, self.per_word, self.pitch, self.deep = warps, per_word, warps.pitch, warps.deep
        self.half_a = warps.rows * self.pitch
        self.half = warps.room // 2
        self.chunks = self.deep // AT_ONCE  # of a row or column, 16 bytes each
        self.n_left = warps.rows * self.chunks
        self.n_right = warps.columns * self.deep // self.threads  # words of a thread
        self.tiles = [(i, n) for i in range(EACH // ROWS) for n in range(EACH // COLUMNS)]

    # --- where a thread is ---

    def place(self) -> list[str]:
        across = self.warps.across
        lines = [
            f"warp, lane = thread() // {WARP}, thread() % {WARP}",
            f"down, across = np.int32(warp // {across} * {EACH}), np.int32(warp % {across} * {EACH})",
            # What of the matrices a thread says where it is: rows, then words, and of the right ones in other order.
            f"of_left = np.int32((down + lane % 16) * {self.pitch} + lane // 16 * {AT_ONCE})",
            f"of_right = np.int32((across + lane // 16 * 8 + lane % 8) * {self.pitch} + lane // 8 % 2 * {AT_ONCE})",
            f"word, line = np.int32(thread() % {self.deep}), np.int32(thread() // {self.deep})",
        ]
        names = [f"a{r}_{k}" for r in range(self._lefts()) for k in range(AT_ONCE * self.per_word)]
        lines += [f"s{i}_{n} = zero, zero, zero, zero" for i, n in self.tiles]
        return ["    " + line for line in [*lines, f"{' = '.join(names)} = nothing"]]

    def _lefts(self) -> int:
        return max(1, self.n_left // self.threads)

    # --- gathering ---

    def load(self, indent: str, first: str) -> list[str]:
        lines = [f"at = np.int32({first} & {self.threads - 1})"]
        for r in range(self._lefts()):
            lines += self._load_left(r)
        for r in range(self.n_right):
            lines += self._load_right(r)
        return [indent + line for line in lines]

    def _of_left(self, r: int, lines: list[str]) -> list[str]:
        """What a thread does about a chunk of a row, if there are so many."""
        number = f"thread() + {r * self.threads}"
        found = [f"row, chunk = np.int32(({number}) // {self.chunks}), np.int32(({number}) % {self.chunks})"]
        if self.n_left >= self.threads:
            return found + lines
        return [*found, f"if thread() < {self.n_left}:", *("    " + line for line in lines)]

    def _load_left(self, r: int) -> list[str]:
        terms = AT_ONCE * self.per_word
        names = [f"a{r}_{k}" for k in range(terms)]
        lines = [
            f"found = get_entry(table, np.int32((at + chunk * {terms}) * {ENTRY}))",
            "if s.dense:",
            "    address = chunk_at(s, found, np.int32(top + row))",
            "    if address != 0:",
            f"        {', '.join(names[:AT_ONCE])} = load_some(address)",
            "    else:",
            f"        {' = '.join(names[:AT_ONCE])} = nothing",
            "else:",
        ]
        for k, name in enumerate(names):
            lines += [
                f"    found = get_entry(table, np.int32((at + chunk * {terms} + {k}) * {ENTRY}))",
                f"    {name} = left(s, found, np.int32(top + row))",
            ]
        return self._of_left(r, lines)

    def _load_right(self, r: int) -> list[str]:
        lines = []
        if self.side_by_side:
            group = f"thread() // {self.columns} * {self.n_right * self.per_word}"
            for j in range(self.per_word):
                lines += [
                    f"found = get_entry(table, np.int32((at + {group} + {r * self.per_word + j}) * {ENTRY}))",
                    f"b{r}_{j} = right(s, found, mine)",
                ]
            return lines
        lines.append(
            f"mine = get_entry(table, np.int32(({self.threads + r * (self.threads // self.deep)} + line) * {ENTRY}))"
        )
        for j in range(self.per_word):
            if r == 0:
                lines.append(
                    f"found{j} = get_entry(table, np.int32((at + word * {self.per_word} + {j}) * {ENTRY}))"
                )
            lines.append(f"b{r}_{j} = right(s, found{j}, mine)")
        return lines

    # --- the block's memory ---

    def _words(self, names: list[str]) -> list[str]:
        """The words that elements make."""
        per = self.per_word
        return [f"as_word({', '.join(names[k : k + per])})" for k in range(0, len(names), per)]

    def put(self, indent: str, half: str) -> list[str]:
        lines = []
        for r in range(self._lefts()):
            names = [f"a{r}_{k}" for k in range(AT_ONCE * self.per_word)]
            to = f"{half} + row * {self.pitch} + chunk * {AT_ONCE}"
            made = [f"put_some(room, {to}, ({', '.join(self._words(names))}))"]
            if self.per_word > 1:
                dense = f"    put_some(room, {to}, ({', '.join(names[:AT_ONCE])}))"
                made = ["if s.dense:", dense, "else:", "    " + made[0]]
            lines += self._of_left(r, made)
        words = self._words([f"b{r}_{j}" for r in range(self.n_right) for j in range(self.per_word)])
        start = f"{half} + {self.half_a}"
        if self.side_by_side:
            own = f"thread() % {self.columns} * {self.pitch} + thread() // {self.columns} * {self.n_right}"
            for r in range(0, self.n_right, AT_ONCE):
                lines.append(f"put_some(room, {start} + {own} + {r}, ({', '.join(words[r : r + AT_ONCE])}))")
        else:
            step = self.threads // self.deep
            for r, made in enumerate(words):
                lines.append(f"put(room, {start} + (line + {r * step}) * {self.pitch} + word, {made})")
        return [indent + line for line in lines]

    # --- products ---

    def sum(self, indent: str) -> list[str]:
        lines = []
        for first in range(0, self.deep, STEP):
            for i in range(EACH // ROWS):
                lines.append(f"x{i} = get_matrices(room, half + of_left + {i * ROWS * self.pitch + first})")
            for n in range(0, EACH // COLUMNS, 2):
                at = self.half_a + n * COLUMNS * self.pitch + first
                lines.append(f"y0, y1, y2, y3 = get_matrices(room, half + of_right + {at})")
                lines += [f"z{n}, z{n + 1} = (y0, y1), (y2, y3)"]
            lines += [f"s{i}_{n} = multiply(s{i}_{n}, x{i}, z{n})" for i, n in self.tiles]
        return [indent + line for line in lines]

    # --- results ---

    def store(self) -> list[str]:
        lines = []
        for i in range(EACH // ROWS):
            for k in range(2):
                r = f"{i}{k}"
                lines += [
                    f"r{r} = np.int32(top + down + lane // 4 + {i * ROWS + 8 * k})",
                    f"bias{r} = zero",
                    f"if s.bias != 0 and r{r} < s.rows:",
                    f"    bias{r} = wide(load(s.bias, r{r}))",
                ]
        for n in range(EACH // COLUMNS):
            lines.append(f"number = np.int32(begin + across + lane % 4 * {PAIR} + {n * COLUMNS})")
            lines += ["if s.whole:", "    to = result(s, number)"]
            for i, k, r in self._mine():
                pair = f"s{i}_{n}[{2 * k}] + bias{r}, s{i}_{n}[{2 * k + 1}] + bias{r}"
                lines += [
                    f"    if to >= 0 and r{r} < s.rows:",
                    f"        keep_some(s, to + r{r} * s.apart, ({pair}))",
                ]
            lines.append("else:")
            for j in range(PAIR):
                lines.append(f"    to = result(s, np.int32(number + {j}))")
                for i, k, r in self._mine():
                    lines += [
                        f"    if to >= 0 and r{r} < s.rows:",
                        f"        keep(s, to + r{r} * s.apart, s{i}_{n}[{2 * k + j}] + bias{r})",
                    ]
        return ["    " + line for line in lines]

    def _mine(self) -> list[tuple[int, int, str]]:
        """The rows that a thread has of its matrices: which matrix, which of its two rows, and how that is named."""
        return [(i, k, f"{i}{k}") for i in range(EACH // ROWS) for k in range(2)]
