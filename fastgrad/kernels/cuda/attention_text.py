"""What the loops over tiles of attention have in common, with tensor cores and without: see `attention`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

OPERANDS = {
    "forward": ("q", "k v"), "query_gradient": ("q grad_out", "k v"), "key_gradient": ("k v", "q grad_out"),
}  # fmt: skip
"""Those whose rows a block owns, and goes through, of each pass."""
MANY = 1 << 20  # rows; more than any tile has


def few(n):
    """A number of rows as 32 bits; of many some that are as good."""
    return np.int32(min(max(n, -MANY), MANY))


def rows_of(operand, batch, head):
    """Where the rows of a head begin."""
    return batch * operand.batch + head * operand.head


def indented(lines: Iterable[str], depth: int = 1) -> Iterator[str]:
    """Lines that stand deeper."""
    return ("    " * depth + line for line in lines)


class Pass(NamedTuple):
    """What a block does: to how many rows, with how many elements of its memory, and the function of `Text.made`."""

    rows: int
    room: int
    run: Any


class Text:
    """The text of one pass, in which each element of a thread has a name.

    `owned` and `streamed` are the operands whose rows a block has, and goes through. Scores are products of rows of the
    first ones of both, the gradients of weights those of the second ones.

    Attributes
    ----------
    rows, stream : int
        That a block owns, and that a tile of the others has.
    by_keys : bool
        Whether owned rows are keys.
    """

    rows: int
    stream: int

    def __init__(self, owned: str, streamed: str) -> None:
        self.owned, self.streamed = owned.split(), streamed.split()
        self.by_keys = "k" in self.owned
        # Of rows: those that blocks own, and those that each goes through.
        self.total, self.count = ("f.keys", "f.queries") if self.by_keys else ("f.queries", "f.keys")

    def head(self, name: str) -> str:
        """The head of an operand."""
        return "h" if name in ("q", "grad_out", "grad_q", "out") else "group"

    def last_key(self) -> str:
        """Where the keys end that owned queries see."""
        return f"min(f.keys, first + {self.rows}) if causal else f.keys"

    def first_query(self) -> str:
        """The first query of a tile that sees owned keys."""
        return f"np.int64(first // {self.stream} * {self.stream} if causal else 0)"

    def pieces(self) -> Iterator[str]:
        """The functions that a pass calls."""
        raise NotImplementedError

    def made(self, what: str, scope: dict[str, Any]) -> Any:
        """The function of a pass: ``f(frame, room, batch, head, first)``, a tile from its first row on."""
        lines = [*self.pieces(), f"def run(f, room, b, {'group' if self.by_keys else 'h'}, first):"]
        lines += indented(getattr(self, what)())
        names = dict(scope)
        exec("\n".join(lines) + "\n", names)
        return names["run"]
