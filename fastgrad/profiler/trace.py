"""Chrome's trace format, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fastgrad._version import __version__
from fastgrad.profiler.events import FunctionEvent


def as_trace(
    events: Sequence[FunctionEvent],
    threads: Mapping[int, str],
    epoch: int,
    memory: bool,
    metadata: Mapping[str, Any],
) -> dict[str, Any]:
    """The trace of events.

    Parameters
    ----------
    events : sequence of FunctionEvent
    threads : mapping
        Names of threads.
    epoch : int
        What to add to nanoseconds of the profile's clock to get those since 1970.
    memory : bool
        Whether the bytes in use are shown over time.
    metadata : mapping
        What users added.
    """
    pid = os.getpid()
    base = min((e.time_range.start_ns for e in events), default=0)
    numbers: dict[int, int] = {}
    for event in events:
        numbers.setdefault(event.thread, len(numbers) + 1)
    entries: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": f"fastgrad {__version__}"}}
    ]
    for ident, tid in numbers.items():
        name = threads.get(ident, "a thread that ended")
        entries.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}})
        entries.append(
            {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": tid}}
        )
    entries += (_complete(event, pid, numbers, base) for event in events)
    entries += _arrows(events, pid, numbers, base)
    if memory:
        entries += _bytes_in_use(events, pid, base)
    return {
        "schemaVersion": 1, "displayTimeUnit": "ns", "baseTimeNanoseconds": base + epoch, **metadata,
        "traceEvents": entries,
    }  # fmt: skip


def _complete(event: FunctionEvent, pid: int, numbers: Mapping[int, int], base: int) -> dict[str, Any]:
    args: dict[str, Any] = {"External id": event.id}
    if event.sequence_nr >= 0:
        args["Sequence number"] = event.sequence_nr
    if event.fwd_thread is not None:
        args["Fwd thread id"] = numbers[event.fwd_thread]
    if event.input_shapes:
        args |= {"Input Dims": event.input_shapes, "Input type": event.input_dtypes}
    if event.stack:
        args["Call stack"] = ";".join(event.stack)
    return {
        "ph": "X", "cat": event.category, "name": event.name, "pid": pid, "tid": numbers[event.thread],
        "ts": (event.time_range.start_ns - base) / 1000,
        "dur": (event.time_range.end_ns - event.time_range.start_ns) / 1000, "args": args | event.args,
    }  # fmt: skip


def _arrows(
    events: Sequence[FunctionEvent], pid: int, numbers: Mapping[int, int], base: int
) -> Iterator[dict[str, Any]]:
    """Arrows from ops to the nodes that they made, by sequence numbers."""
    # Of nested calls with one number, those of functions with plans, the innermost made the node: it began last.
    made = {e.sequence_nr: e for e in events if e.sequence_nr >= 0 and not _is_backward(e)}
    number = 0
    for event in events:
        if not _is_backward(event) or event.sequence_nr not in made:
            continue
        number += 1
        for phase, end in (("s", made[event.sequence_nr]), ("f", event)):
            yield {
                "ph": phase, "id": number, "cat": "fwdbwd", "name": "fwdbwd", "pid": pid, "tid": numbers[end.thread],
                "ts": (end.time_range.start_ns - base) / 1000, **({"bp": "e"} if phase == "f" else {}),
            }  # fmt: skip


def _is_backward(event: FunctionEvent) -> bool:
    return event.name.startswith("autograd::engine::evaluate_function")


def _bytes_in_use(events: Sequence[FunctionEvent], pid: int, base: int) -> Iterator[dict[str, Any]]:
    """The bytes in use whenever something began or ended."""
    points = []
    for event in events:
        if event.live != (0, 0):
            points.append((event.time_range.start_ns, event.live[0]))
            points.append((event.time_range.end_ns, event.live[1]))
    points.sort()
    last = None
    for when, live in points:
        if live != last:
            yield {
                "ph": "C", "cat": "memory", "name": "bytes in use", "pid": pid, "tid": 0, "ts": (when - base) / 1000,
                "args": {"bytes": live},
            }  # fmt: skip
        last = live


def write(trace: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a trace, packed where the name ends in ``.gz``."""
    name = os.fspath(path)
    text = json.dumps(trace)
    if name.endswith(".gz"):
        with gzip.open(name, "wt", encoding="utf-8") as packed:
            packed.write(text)
    else:
        with open(name, "w", encoding="utf-8") as file:
            file.write(text)
