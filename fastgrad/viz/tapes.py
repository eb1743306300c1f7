"""Diagrams of recorded tapes: launches, and which reads what another one wrote."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fastgrad import dtypes
from fastgrad.native.contracts.element_types import ITEMSIZES
from fastgrad.native.contracts.frame import READ, SCRATCH, UPDATE, WRITE
from fastgrad.native.contracts.frames import FLAT, INPLACE, STRIDED
from fastgrad.native.host.tape import Launch, Tape
from fastgrad.profiler.events import format_memory
from fastgrad.profiler.products import multiply_adds
from fastgrad.viz.drawing import Diagram, Vertex

LAYOUTS = {FLAT: "flat", INPLACE: "inplace", STRIDED: "strided"}


class Access(NamedTuple):
    """Memory that a launch reads or writes: where it begins, and how many bytes; 0 if the frame does not tell."""

    name: str
    role: str
    address: int
    nbytes: int


def accesses(launch: Launch) -> Iterator[Access]:
    """What memory a launch works on, as its frame tells."""
    frame = launch.frame
    words = dict(enumerate(launch.words))
    code = dtypes.of_name(launch.dtype).code
    for place, name in frame.addresses.items():
        field = frame.roles[name]
        if field.role == SCRATCH or not words.get(place):
            continue
        nbytes = 0
        if field.extent:
            factors = [f if isinstance(f, int) else words[frame.place(f)] for f in field.extent]
            nbytes = math.prod(factors) * ITEMSIZES[frame.element(name, code)]
        yield Access(name, field.role, words[place], nbytes)


def operations(launch: Launch) -> int | None:
    """How many operations on floating-point numbers a launch makes, if that is known: two for a multiply-add."""
    found = multiply_adds(launch)
    return None if found is None else 2 * found


def format_count(value: int) -> str:
    """A large number as text."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value} "


class _Memory:
    """Who wrote last where."""

    def __init__(self) -> None:
        self.exact: dict[int, int] = {}
        self.ranges: dict[int, tuple[int, int]] = {}  # by the beginning: the end, and the vertex

    def written(self, access: Access, vertex: int) -> None:
        """Note that a vertex wrote there."""
        self.exact[access.address] = vertex
        if access.nbytes:
            self.ranges[access.address] = access.address + access.nbytes, vertex

    def writer(self, access: Access) -> int | None:
        """Who wrote there last, or into the range in which it begins."""
        if access.address in self.exact:
            return self.exact[access.address]
        within = [v for start, (end, v) in self.ranges.items() if start <= access.address < end]
        return max(within, default=None)


def diagram_of(tape: Tape, names: Mapping[int, str], max_nodes: int, show_attrs: bool) -> Diagram:
    """The diagram of a tape.

    Parameters
    ----------
    tape : Tape
    names : mapping
        Names of tensors by the addresses of their elements.
    max_nodes : int
    show_attrs : bool
        Show sizes and numbers of the frames.

    Raises
    ------
    ValueError
        If the tape holds no launches.
    """
    if not tape.launches:
        raise ValueError("graph(): the tape holds no launches")
    diagram, memory = Diagram(), _Memory()
    total, moved, computed = 0, 0, 0
    for launch in tape:
        total += 1
        found = list(accesses(launch))
        nbytes, flops = sum(a.nbytes * (2 if a.role == UPDATE else 1) for a in found), operations(launch)
        moved += nbytes
        computed += flops or 0
        if total > max_nodes:
            continue
        _add(diagram, memory, launch, found, names, show_attrs)
    shown = min(total, max_nodes)
    text = (
        f"{total:,} launches" if shown == total else f"{shown:,} of {total:,} launches: max_nodes={max_nodes}"
    )
    if moved:
        text += f"; bytes read and written, where frames tell: {format_memory(moved)}"
    if computed:
        text += f"; products: {format_count(computed)}flop"
    diagram.notes.append(text)
    return diagram


def _add(
    diagram: Diagram,
    memory: _Memory,
    launch: Launch,
    found: list[Access],
    names: Mapping[int, str],
    show_attrs: bool,
) -> None:
    """Add a launch, and arrows from those whose results it reads."""
    number = len(diagram.vertices)
    diagram.vertices.append(Vertex(launch.kernel.name, _details(launch, found, show_attrs), "kernel"))
    arrows: dict[int, list[str]] = {}
    for access in found:
        if access.role not in (READ, UPDATE):
            continue
        writer = memory.writer(access)
        if writer is None and access.address in names:
            writer = len(diagram.vertices)
            diagram.vertices.append(Vertex(names[access.address], [], "leaf"))
            memory.exact[access.address] = writer
        if writer is not None:
            arrows.setdefault(writer, []).append(access.name)
    for writer, what in arrows.items():
        diagram.edges.append((writer, number, ", ".join(dict.fromkeys(what))))
    for access in found:
        if access.role in (WRITE, UPDATE):
            memory.written(access, number)


def _details(launch: Launch, found: list[Access], show_attrs: bool) -> list[str]:
    lines = [f"{launch.dtype}, {LAYOUTS.get(launch.layout_class, str(launch.layout_class))}"]
    if launch.device != "cpu":
        lines[0] += f", {launch.device}"
    nbytes, flops = sum(a.nbytes * (2 if a.role == UPDATE else 1) for a in found), operations(launch)
    facts = [format_memory(nbytes)] if nbytes else []
    facts += [f"{format_count(flops)}flop"] if flops else []
    lines += [", ".join(facts)] if facts else [f"work {launch.work}"]
    if show_attrs:
        addresses = set(launch.frame.addresses.values())
        values: dict[str, Any] = {
            k: v for k, v in launch.read().items() if k not in addresses and type(v) is int
        }
        shown = [f"{k} {v}" for k, v in values.items() if abs(v) < 1 << 40][:6]
        lines += [", ".join(shown[k : k + 3]) for k in range(0, len(shown), 3)]
    return lines
