"""From what compiled code wrote to events: names, who is within whom, the backward of modules."""

from __future__ import annotations

import struct
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

from fastgrad import dtypes
from fastgrad.native.build.loader import ModuleBase
from fastgrad.native.contracts.frames import FLAT, INPLACE, STRIDED
from fastgrad.native.contracts.profiles import (
    CUSTOM_EVENT,
    EVENT,
    FUNCTION_EVENT,
    HOOK_EVENT,
    HOOK_KINDS,
    KERNEL_EVENT,
    MODULE_EVENT,
    NODE_EVENT,
    OP_EVENT,
    PASS_EVENT,
    RANGE_EVENT,
    REPLAY_EVENT,
    RESOLVE_EVENT,
)
from fastgrad.native.host import devices
from fastgrad.native.host.tables import OPS
from fastgrad.profiler.events import FunctionEvent, Interval

CATEGORIES = {
    OP_EVENT: "cpu_op", FUNCTION_EVENT: "function", NODE_EVENT: "cpu_op", PASS_EVENT: "backward",
    KERNEL_EVENT: "kernel", RESOLVE_EVENT: "compile", HOOK_EVENT: "hook", MODULE_EVENT: "module",
    RANGE_EVENT: "user_annotation", CUSTOM_EVENT: "cpu_op", REPLAY_EVENT: "replay",
}  # fmt: skip
LAYOUTS = {FLAT: "flat", INPLACE: "inplace", STRIDED: "strided"}
FORWARD = (OP_EVENT, CUSTOM_EVENT)


class Written:
    """What one profile wrote, with names in place of objects.

    Parameters
    ----------
    events, details : bytes
        What compiled code wrote: `EVENT` one behind the other, and words.
    objects : list
        What events name.
    """

    def __init__(self, events: bytes, details: bytes, objects: list[Any]) -> None:
        self.ended = time.monotonic_ns()
        self.epoch = time.time_ns() - self.ended
        self._events = events
        self._details = details
        self._objects = named(objects)
        self.threads = {t.ident: t.name for t in threading.enumerate() if t.ident is not None}

    def read(self) -> list[FunctionEvent]:
        """The events in the order in which they began, each within its parent."""
        words = memoryview(self._details).cast("q").tolist() if self._details else []
        found = []
        for k, values in enumerate(struct.iter_unpack(f"<{EVENT.words}q", self._events)):
            found.append(self._event(k, dict(zip(EVENT.fields, values, strict=True)), words))
        nest(found)
        return with_modules(found)

    def _event(self, k: int, e: dict[str, int], words: list[int]) -> FunctionEvent:
        kind = e["kind"]
        what = self._objects[e["object"]] if e["object"] >= 0 else None
        event = FunctionEvent(
            k, _NAMES[kind](e["what"], what), CATEGORIES[kind], e["thread"],
            Interval(e["start"], e["end"] or self.ended),
        )  # fmt: skip
        event.kind = kind
        if kind == KERNEL_EVENT:
            event.args = kernel_facts(e["what"], e["number"], e["parts"])
        elif kind == MODULE_EVENT and what and what[1]:
            event.args = {"path": what[1]}
        elif kind == HOOK_EVENT:
            event.args = {"hook": HOOK_KINDS[e["what"]]} | (
                {"defined at": what[1]} if what and what[1] else {}
            )
        elif kind == RANGE_EVENT and what and what[1]:
            event.args = {"args": what[1]}
        elif e["number"] and kind in (*FORWARD, NODE_EVENT):
            event.sequence_nr = e["number"] - 1
        if e["end"]:
            event.cpu_memory_usage = e["live_end"] - e["live"]
            event.allocations = e["allocations_end"] - e["allocations"]
            event.live = (e["live"], e["live_end"])
        first, middle = e["detail"], e["detail"] + e["n_shapes"]
        event.input_shapes, event.input_dtypes = shapes_in(words[first:middle])
        frames = words[middle : first + e["n_detail"]]
        pairs = zip(frames[::2], frames[1::2], strict=True)
        event.stack = [f"{self._objects[c][2]}({line}): {self._objects[c][0]}" for c, line in pairs if c >= 0]
        event.is_user_annotation = kind == RANGE_EVENT
        return event


def op_name(number: int, _: Any) -> str:
    """The name of an op."""
    return OPS[number].name  # type: ignore[no-any-return]


def node_name(number: int, what: Any) -> str:
    """The name of the call of a node's derivative, as PyTorch has it."""
    return f"autograd::engine::evaluate_function: {what[0] if what else OPS[number].node}"


def kernel_name(cell: int, _: Any) -> str:
    """The name of a kernel with the dtype and the layout class that it was compiled for."""
    facts = kernel_facts(cell, 0, 0)
    return f"kernel {facts['kernel']} ({facts['dtype']}, {facts['layout']})"


def kernel_facts(cell: int, work: int, parts: int) -> dict[str, Any]:
    """What is known of a launch."""
    kernel, device, dtype, layout = devices.place(cell)
    return {
        "kernel": kernel.name, "device": devices.name_of(device), "dtype": dtypes.of_code(dtype).name,
        "layout": LAYOUTS.get(layout, str(layout)), "work": work, "parts": parts,
    }  # fmt: skip


_NAMES: dict[int, Callable[[int, Any], str]] = {
    OP_EVENT: op_name,
    FUNCTION_EVENT: lambda _, what: what[0] if what else "function",
    NODE_EVENT: node_name,
    PASS_EVENT: lambda _, what: "autograd::engine::run_pass",
    KERNEL_EVENT: kernel_name,
    RESOLVE_EVENT: lambda cell, what: "load or compile " + kernel_name(cell, what),
    HOOK_EVENT: lambda kind, what: f"{HOOK_KINDS[kind]}: {what[0] if what else '?'}",
    MODULE_EVENT: lambda _, what: what[0] if what else "nn.Module",
    RANGE_EVENT: lambda _, what: what[0] if what else "range",
    CUSTOM_EVENT: lambda _, what: what[0].removesuffix("Backward") if what else "Function",
    REPLAY_EVENT: lambda _, what: "replay of a tape",
}


# --- what objects are called -----------------------------------------------------------------------------------


def named(objects: list[Any]) -> list[tuple[str, str, str]]:
    """For each object its name, something about it, and the file that it comes from."""
    modules = modules_by_name([o for o in objects if isinstance(o, ModuleBase)])
    known: dict[int, tuple[str, str, str]] = {}
    names = []
    for o in objects:
        if id(o) not in known:
            known[id(o)] = modules[id(o)] if id(o) in modules else name_of(o)
        names.append(known[id(o)])
    return names


def name_of(o: Any) -> tuple[str, str, str]:
    """The name of an object that an event has."""
    if isinstance(o, types.CodeType):
        return o.co_qualname, f"{o.co_filename}:{o.co_firstlineno}", o.co_filename
    if isinstance(o, str):
        return o, "", ""
    if isinstance(o, tuple):
        return o[0], o[1], ""
    if isinstance(o, type):
        return o.__qualname__, "", ""
    return getattr(o, "__qualname__", type(o).__qualname__), "", ""


def modules_by_name(modules: list[Any]) -> dict[int, tuple[str, str, str]]:
    """For the ``id`` of each module its name, as PyTorch's profiler has it, and its path from the outermost one."""
    counts: dict[str, int] = {}
    found: dict[int, tuple[str, str, str]] = {}
    paths: dict[int, str] = {}
    for module in modules:
        if id(module) in found:
            continue
        if id(module) not in paths:
            for path, part in module.named_modules():
                paths.setdefault(id(part), path)
        kind = type(module).__name__
        number = counts.setdefault(kind, 0)
        counts[kind] += 1
        found[id(module)] = f"nn.Module: {kind}_{number}", paths.get(id(module), ""), ""
    return found


def shapes_in(words: list[int]) -> tuple[list[list[int]], list[str]]:
    """The sizes and dtypes of operands."""
    shapes: list[list[int]] = []
    kinds: list[str] = []
    at = 0
    while at < len(words):
        if words[at] < 0:
            shapes.append([])
            kinds.append("")
            at += 1
            continue
        ndim = words[at + 1]
        shapes.append(words[at + 2 : at + 2 + ndim])
        kinds.append(dtypes.of_code(words[at]).name)
        at += 2 + ndim
    return shapes, kinds


# --- what is within what ---------------------------------------------------------------------------------------


def nest(events: list[FunctionEvent]) -> None:
    """Let each event know its parent, the innermost event of its thread that had begun and not ended."""
    under_way: dict[int, list[FunctionEvent]] = {}
    forward: dict[int, int] = {}
    for event in events:
        stack = under_way.setdefault(event.thread, [])
        while stack and stack[-1].time_range.end_ns <= event.time_range.start_ns:
            stack.pop()
        if stack:
            event.time_range.end_ns = min(event.time_range.end_ns, stack[-1].time_range.end_ns)
            stack[-1].append_cpu_child(event)
        stack.append(event)
        if event.sequence_nr >= 0:
            if event.kind in FORWARD:
                forward[event.sequence_nr] = event.thread
            else:
                event.fwd_thread = forward.get(event.sequence_nr)


def module_of(event: FunctionEvent) -> tuple[FunctionEvent, ...]:
    """The calls of modules within which an event is, outermost first."""
    found = []
    parent = event.cpu_parent
    while parent is not None:
        if parent.kind == MODULE_EVENT:
            found.append(parent)
        parent = parent.cpu_parent
    return tuple(reversed(found))


def with_modules(events: list[FunctionEvent]) -> list[FunctionEvent]:
    """Add an event for the backward of each call of a module: nodes one after the other that its forward made."""
    calls = {e.sequence_nr: module_of(e) for e in events if e.kind in FORWARD and e.sequence_nr >= 0}
    if not any(calls.values()):
        return events
    made: list[FunctionEvent] = []
    for event in events:
        nodes = [child for child in event.cpu_children if child.kind == NODE_EVENT]
        if nodes:
            made += list(_module_runs(event, nodes, calls, len(events) + len(made)))
    together = events + made
    together.sort(key=lambda e: (e.time_range.start_ns, -e.time_range.end_ns, -e.id if e.kind < 0 else 0))
    for event in together:
        event.cpu_parent = None
        event.cpu_children = []
    nest(together)
    return together


def _module_runs(
    parent: FunctionEvent,
    nodes: list[FunctionEvent],
    calls: dict[int, tuple[FunctionEvent, ...]],
    first: int,
) -> Iterator[FunctionEvent]:
    """The events of modules over the nodes of one pass; those of one leaf count to the node before it."""
    open_: list[tuple[FunctionEvent, int]] = []  # calls, and when their backward began
    last = parent.time_range.start_ns
    number = first
    for node in (*nodes, None):
        within = calls.get(node.sequence_nr, ()) if node is not None else ()
        if node is not None and node.sequence_nr < 0:
            last = node.time_range.end_ns
            continue
        same = 0
        while same < min(len(open_), len(within)) and open_[same][0] is within[same]:
            same += 1
        for call, start in reversed(open_[same:]):
            made = FunctionEvent(
                number, call.name + " (backward)", "module", parent.thread, Interval(start, last)
            )
            made.args = dict(call.args)
            made.kind = -1
            number += 1
            yield made
        del open_[same:]
        if node is not None:
            open_ += [(call, node.time_range.start_ns) for call in within[same:]]
            last = node.time_range.end_ns
