"""Tables of events as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastgrad.profiler.events import format_memory, format_time

SORT_KEYS = (
    "cpu_time", "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage", "self_cpu_memory_usage", "allocations",
    "count",
)  # fmt: skip


def cut(text: str, width: int | None) -> str:
    """A text, or its beginning if it is longer than that."""
    return text if width is None or len(text) <= width else text[: max(width - 3, 0)] + "..."


def line_of(cells: Sequence[str], widths: Sequence[int], left: int) -> str:
    """A line of a table, whose first `left` cells begin at the left; the others end at the right."""
    return "  ".join(
        cell.ljust(width) if k < left else cell.rjust(width)
        for k, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )


def as_table(
    rows: Sequence[Any],
    sort_by: str | None,
    row_limit: int,
    widths: tuple[int | None, int | None, int | None],
    header: str | None,
    memory: bool,
) -> str:
    """What `EventList.table` gives."""
    if sort_by is not None and sort_by not in SORT_KEYS:
        raise ValueError(f"table(): sort_by must be one of {', '.join(SORT_KEYS)}, but got {sort_by!r}")
    if isinstance(row_limit, bool) or not isinstance(row_limit, int):
        raise TypeError(f"table(): row_limit must be an int, but got {type(row_limit).__name__}")
    if not rows:
        return ""
    total = sum(row.self_cpu_time_total for row in rows)
    if sort_by is not None:
        rows = sorted(rows, key=lambda row: getattr(row, sort_by), reverse=True)
    shown = rows[:row_limit] if row_limit >= 0 else rows
    columns = _columns(shown, total, widths, memory)
    lengths = [max(map(len, column)) + 2 for column in columns]
    rule = "  ".join("-" * length for length in lengths)
    lines = []
    if header is not None:
        lines += ["-" * len(rule), header]
    for k in range(len(columns[0])):
        line = line_of([column[k] for column in columns], lengths, 1)
        lines += [rule, line, rule] if k == 0 else [line]
    lines += [rule, f"Self CPU time total: {format_time(total)}", ""]
    return "\n".join(lines)


def _columns(
    rows: Sequence[Any], total: float, widths: tuple[int | None, int | None, int | None], memory: bool
) -> list[list[str]]:
    """The columns, each with its head."""
    by_name, by_shapes, by_source = widths

    def share(value: float) -> str:
        return f"{100 * value / total:.2f}%" if total > 0 else "NaN"

    columns = [
        ["Name", *(cut(row.key, by_name) for row in rows)],
        ["Self CPU %", *(share(row.self_cpu_time_total) for row in rows)],
        ["Self CPU", *(row.self_cpu_time_total_str for row in rows)],
        ["CPU total %", *(share(row.cpu_time_total) for row in rows)],
        ["CPU total", *(row.cpu_time_total_str for row in rows)],
        ["CPU time avg", *(row.cpu_time_str for row in rows)],
    ]
    if memory:
        columns += [
            ["CPU Mem", *(format_memory(row.cpu_memory_usage) for row in rows)],
            ["Self CPU Mem", *(format_memory(row.self_cpu_memory_usage) for row in rows)],
            ["Allocations", *(str(row.allocations) for row in rows)],
        ]
    columns.append(["# of Calls", *(str(row.count) for row in rows)])
    if any(row.input_shapes for row in rows):
        columns.append(["Input Shapes", *(cut(str(row.input_shapes), by_shapes) for row in rows)])
    if any(row.stack for row in rows):
        columns.append(["Source Location", *(cut(" <- ".join(row.stack), by_source) for row in rows)])
    return columns
