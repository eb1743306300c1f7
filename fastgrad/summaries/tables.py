"""A summary as text and as HTML."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

from fastgrad import markup
from fastgrad.profiler.events import format_memory
from fastgrad.profiler.tables import line_of
from fastgrad.summaries.rows import Row, nbytes_of, parameters_of

HEAD = ("Layer", "Input", "Output", "Parameters", "Mult-adds", "Memory", "Hooks")
LEFT = 3
"""Columns that begin at the left."""
MOST_ROWS = 1000
"""Lines that are shown at most."""
WIDEST = 48
"""Letters of a cell, at most."""


class Summary:
    """What `fastgrad.summary` found. ``str`` gives a table of text, notebooks show one of HTML.

    Attributes
    ----------
    root : Row
        The line of the model; it has the others.
    depth : int
        How far into modules in modules tables go.
    input_nbytes, output_nbytes : int
        Bytes of the inputs, and of what layers give, each piece of memory counted once.
    parameter_nbytes, buffer_nbytes : int
        Bytes of the parameters and of the buffers.
    """

    def __init__(self, root: Row, depth: int, called: bool, input_nbytes: int, output_nbytes: int) -> None:
        self.root = root
        self.depth = depth
        self.input_nbytes = input_nbytes
        self.output_nbytes = output_nbytes
        self._called = called
        self.parameter_nbytes = nbytes_of(parameters_of(root.module))
        buffers = {id(b): b for m in root.module.modules() for b in m._buffers.values() if b is not None}
        self.buffer_nbytes = nbytes_of(buffers.values())

    @property
    def rows(self) -> list[Row]:
        """All lines, those beyond `depth` too."""
        return list(self.root)

    @property
    def parameters(self) -> int:
        """How many numbers the parameters hold."""
        return self.root.parameters

    @property
    def trainable(self) -> int:
        """How many of them require gradients."""
        return self.root.trainable

    @property
    def multiply_adds(self) -> int:
        """Of products of matrices, convolutions, attention and recurrent layers."""
        return self.root.multiply_adds

    def _cells(self) -> Iterator[tuple[str, ...]]:
        """The lines of the table as texts."""
        rows = [row for row in self.root if row.depth <= self.depth]
        for row in rows[:MOST_ROWS]:
            label = f"{row.name}: {row.kind}" if row.name else row.kind
            times = f" ×{row.calls}" if row.calls > 1 else ""
            yield (
                "  " * row.depth + markup.shortened(label, WIDEST) + times,
                markup.shortened(row.input or "-", WIDEST),
                markup.shortened(row.output or "-", WIDEST),
                "(shared)" if row.shared else f"{row.parameters:,}" if row.parameters else "-",
                f"{row.multiply_adds:,}" if row.multiply_adds else "-",
                format_memory(row.output_nbytes) if row.output_nbytes else "-",
                str(row.hooks or "-"),
            )
        if len(rows) > MOST_ROWS:
            yield (f"… {len(rows) - MOST_ROWS:,} more", *[""] * (len(HEAD) - 1))

    def _totals(self) -> list[str]:
        """The lines below the table."""
        frozen = self.parameters - self.trainable
        memory = [f"parameters {format_memory(self.parameter_nbytes)}"]
        memory.append(f"buffers {format_memory(self.buffer_nbytes)}")
        lines = [f"{self.parameters:,} parameters: {self.trainable:,} trainable, {frozen:,} frozen"]
        if self._called:
            lines.append(f"{self.multiply_adds:,} multiply-adds")
            memory[:0] = [
                f"inputs {format_memory(self.input_nbytes)}",
                f"outputs of layers {format_memory(self.output_nbytes)}",
            ]
        return [*lines, "Memory: " + ", ".join(memory)]

    def __str__(self) -> str:
        cells = [HEAD, *self._cells()]
        widths = [max(len(row[k]) for row in cells) for k in range(len(HEAD))]
        lines = [line_of(row, widths, LEFT).rstrip() for row in cells]
        rule = "─" * max(map(len, lines))
        return "\n".join([lines[0], rule, *lines[1:], rule, *self._totals()])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return markup.piece(
            markup.table(HEAD, self._cells(), LEFT)
            + "".join(f"<div>{markup.escaped(line)}</div>" for line in self._totals())
        )

    def __rich__(self) -> Any:
        """What rich prints: a table whose sizes wrap where a terminal is narrow."""
        from rich import box
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(header_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
        for k, name in enumerate(HEAD):
            sizes = 0 < k < LEFT
            table.add_column(name, justify="left" if k < LEFT else "right", no_wrap=not sizes)
        for row in self._cells():
            table.add_row(*map(Text, row))
        return Group(table, *map(Text, self._totals()))

    def show(self) -> None:
        """Print the table, by rich where it is installed."""
        if importlib.util.find_spec("rich") is None:
            print(self)
            return
        from rich.console import Console

        Console().print(self)
