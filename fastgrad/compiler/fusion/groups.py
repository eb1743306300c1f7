"""Which launches become one: groups over one space of elements, in an order that every dependence allows.

Launches are taken in their order on the tape. Each one joins a group that it depends on, or that reads what it reads,
if it runs over the same elements and nothing between forbids it; else it begins a group. Groups that a launch joins
together become one.

Note [Order]: a group runs at one point of the new tape. So no launch outside may have to stand behind one of its
members and before another one. Each group knows all groups that have to stand before it (`before`, a bit for each), and
takes in no launch that has to stand behind one of those that have to stand behind the group.

Note [Alignment]: within a group each element is computed on its own. So where members touch the same memory and one
writes it, they have to touch it alike: the same address, dtype and mapping. Sums of columns are like
nothing else: they are known when the last row was read. Nor are masks of dropouts, which are drawn before all.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Sequence

from fastgrad.compiler.fusion.accesses import Operand
from fastgrad.compiler.fusion.dependence import Memory
from fastgrad.compiler.fusion.launches import (
    COLUMNS,
    ELEMENTWISE,
    FILL,
    FUSIBLE,
    LITERALS,
    REDUCTION,
    Entry,
    cast_of,
    literal_of,
    over_rows,
)
from fastgrad.native.contracts.frames.fused import MAX_OUTER

MAX_MEMBERS = 48
"""Launches of a group. Compiling takes time by as many, and registers run out."""
MAX_READ = 16
"""Operands that a group reads, each from a place of its own."""
WINDOW = 192
"""Groups that are looked at: older ones take in no more."""
SHORT, SHORT_OF_EXPENSIVE, SMALL = 16, 128, 1 << 14
"""Rows shorter than this, or than the second where formulas are long, are not worth a loop each, unless there are at
most so many elements: LLVM computes what is left of a row behind its vectors element by element."""


class Group:
    """Launches that become one, or a single launch of any sort."""

    def __init__(self, number: int, entry: Entry) -> None:
        self.bits = 1 << number
        self.before = 0
        self.members = [entry]
        self.after: set[int] = set()  # launches that members have to stand behind
        self.numel = entry.numel
        self.length = entry.length
        self.grain = entry.grain
        self.sizes: set[int] = set()  # of the dimensions: how many elements lie below each border
        self.touched: list[tuple[Operand, bool]] = []
        self.read: set[int] = set()  # addresses
        self.written: set[int] = set()
        self.what = entry.what
        self.device = entry.device
        self.is_expensive = entry.is_expensive
        self.by_rows = entry.what == REDUCTION  # whether some values are one for a row

    def row_level(self, entry: Entry) -> bool:
        """Whether a launch runs over the rows of the group."""
        return bool(self.length) and entry.numel * self.length == self.numel and entry.what == ELEMENTWISE

    def as_touched(self, entry: Entry) -> list[tuple[Operand, bool]]:
        """The operands of a launch over the elements of the group, and whether each is written."""
        if entry.mask:  # drawn before all members, so none may touch its memory before or behind
            return [(unfinished(entry.mask), True), *self._as_computed(entry)]
        return self._as_computed(entry)

    def _as_computed(self, entry: Entry) -> list[tuple[Operand, bool]]:
        length = entry.length or self.length
        ins = [o for k, o in enumerate(entry.ins) if k not in entry.literals]
        if entry.what == REDUCTION:
            return [(over_rows(entry.out, length), True), *((o, False) for o in ins)]
        if entry.what == COLUMNS:
            return [(unfinished(entry.out), True), *((o, False) for o in ins)]
        if self.row_level(entry):
            return [(over_rows(o, length), o is entry.out) for o in (entry.out, *ins)]
        return [(entry.out, True), *((o, False) for o in ins)]

    def take(self, entry: Entry) -> None:
        """Note what a member touches."""
        self.length = self.length or entry.length
        self.grain = self.grain or entry.grain
        touched = self.as_touched(entry)
        self.touched += touched
        self.sizes |= borders(touched)
        self.read |= {o.address for o, writes in touched if not writes}
        self.written |= {o.address for o, writes in touched if writes}


def unfinished(operand: Operand) -> Operand:
    """The sums of columns, which stand in memory when all rows were read: no other member may touch them."""
    return operand._replace(mapping=(*operand.mapping, (1, 0)))


def borders(touched: Iterable[tuple[Operand, bool]]) -> set[int]:
    """The borders between dimensions, as how many elements lie below, that these operands need."""
    found: set[int] = set()
    for operand, writes in touched:
        if writes and any(stride == 0 for _, stride in operand.mapping):
            continue  # what is reduced has no dimensions of its own
        below = 1
        for size, _ in operand.mapping[:-1]:
            below *= size
            found.add(below)
    return found


def nested(sizes: set[int], length: int, numel: int, expensive: bool) -> str:
    """Why dimensions with these borders are no rows of a length, or empty."""
    chain = sorted(sizes | ({length} if length and length != numel else set()))
    if any(b % a for a, b in itertools.pairwise(chain)) or (chain and numel % chain[-1]):
        return "their dimensions do not fit together"
    if length and chain and chain[0] < length:
        return "a row of operands falls into parts"
    if len(chain) > MAX_OUTER:
        return "operands have too many dimensions"
    if chain and chain[0] < (SHORT_OF_EXPENSIVE if expensive else SHORT) and numel > SMALL:
        return "rows are short"
    return ""


class Grouping:
    """Finds the groups of a tape."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = entries
        self.memory = Memory()
        self.groups: dict[int, Group] = {}  # of each launch
        self.recent: list[Group] = []
        self.barrier = -1
        self.sharing: dict[int, Group] = {}  # the last group that reads at an address
        self.broken: dict[int, str] = {}  # launches that could not join, and why
        self.columns: list[Entry] = []  # sums of columns on GPUs: what reduces rows comes first there
        for entry in entries:
            self._add(entry)
        self._join_columns()

    def _add(self, entry: Entry) -> None:
        number = entry.number
        group = Group(number, entry)
        if entry.is_barrier or entry.ranges is None:
            group.after = set(range(max(self.barrier, 0), number))
            group.before = group.bits - 1
            self._join_columns()
            self.barrier = number
            self.recent.clear()
            self.sharing.clear()
            self.groups[number] = group
            return
        before = self.memory.before(entry.ranges) | ({self.barrier} if self.barrier >= 0 else set())
        if entry.what in FUSIBLE:
            self._find_literals(entry)
        group.what = entry.what
        self.memory.note(number, entry.ranges)
        group.after = before
        found = self._of(before)
        for other in found:
            group.before |= other.before | other.bits
        self.groups[number] = group
        self.recent.append(group)
        if len(self.recent) > WINDOW:
            self._forget()
        if entry.what in FUSIBLE:
            group.take(entry)
            if entry.what == COLUMNS and entry.device:
                self.columns.append(entry)
            else:
                self._join(entry, group, found)

    def _forget(self) -> None:
        """Let the oldest groups be, and those that have to stand before them.

        What stands before a group that is not looked at any more never changes, so what the others know stays right.
        """
        self._join_columns()
        before = 0
        for g in self.recent[: WINDOW // 4]:
            before |= g.before
        self.recent = [g for g in self.recent[WINDOW // 4 :] if not before & g.bits]

    def _of(self, numbers: Iterable[int]) -> list[Group]:
        """The groups of launches."""
        return list({id(group): group for group in map(self.groups.__getitem__, sorted(numbers))}.values())

    def _find_literals(self, entry: Entry) -> None:
        for k, operand in enumerate(entry.ins):
            writer = self.memory.writer_of(operand.low, operand.high) if operand.dtype in LITERALS else -1
            is_fill = writer >= 0 and self.entries[writer].what == FILL
            if is_fill and literal_of(self.entries[writer], operand):
                entry.literals[k] = writer
        if entry.kernel.builder == "copies:build" and entry.literals:
            value = cast_of(entry, self.entries[entry.literals[0]])
            if value is not None:
                entry.what, entry.value = FILL, value

    def _join(self, entry: Entry, group: Group, found: list[Group]) -> None:
        """Let a launch, which is a group of its own so far, become a part of others."""
        shared = [self.sharing[o.address] for o in entry.ins if o.address in self.sharing]
        candidates = {id(g): g for g in (*reversed(found), *shared)}
        why = ""
        for other in candidates.values():
            if other is group or other.what not in FUSIBLE:
                continue
            reason = self._why_not(other, group)
            if reason:
                why = why or reason
            else:
                group = self._merge(other, group)
                why = ""
        if why and len(group.members) == 1:
            self.broken[entry.number] = why
        for operand in entry.ins:
            self.sharing[operand.address] = group

    def _join_columns(self) -> None:
        """Let sums of columns that wait join what reduces no rows."""
        for entry in self.columns:
            group = self.groups[entry.number]
            self._join(entry, group, self._of(group.after))
        self.columns.clear()

    def _why_not(self, a: Group, b: Group) -> str:
        """Why two groups cannot become one, or empty."""
        if not any(g is a for g in self.recent):
            return "it is too far away"
        if a.device != b.device:
            return "it runs on another device"
        members = len(a.members) + len(b.members)
        if members > MAX_MEMBERS:
            return f"a group has at most {MAX_MEMBERS} launches"
        if len((a.read | b.read) - (a.written | b.written)) > MAX_READ:
            return f"a group reads at most {MAX_READ} operands"
        (entry,) = b.members[:1]
        rows = len(b.members) == 1 and a.row_level(entry) and b.before & a.bits
        if not rows and (a.numel != b.numel or (a.length and b.length and a.length != b.length)):
            return "it runs over other elements"
        if a.grain and b.grain and a.grain != b.grain:
            return "it adds up other rows"
        if a.device and (a.grain or b.grain) and (a.by_rows or b.by_rows or rows):
            return "kernels of GPUs that add up columns reduce no rows"
        touched = a.as_touched(entry) if rows else b.touched
        reason = nested(
            a.sizes | borders(touched),
            a.length or b.length,
            a.numel,
            a.is_expensive or (b.is_expensive and not rows),
        )
        if reason:
            return reason
        if (b.before & a.bits or a.before & b.bits) and not aligned(a.touched, touched):
            return "it touches the same memory in another way"
        if self._between(a, b) or self._between(b, a):
            return "a launch has to stand between them"
        return ""

    def _between(self, first: Group, last: Group) -> bool:
        """Whether a group has to stand behind one and before another."""
        if not last.before & first.bits:
            return False
        return any(
            last.before & g.bits and g.before & first.bits
            for g in self.recent
            if g is not first and g is not last
        )

    def _merge(self, a: Group, b: Group) -> Group:
        """The group of the members of both."""
        (entry,) = b.members[:1]
        if len(b.members) == 1 and a.row_level(entry):
            a.take(entry)
            a.by_rows = True
        else:
            a.touched += b.touched
            a.sizes |= b.sizes
            a.read |= b.read
            a.written |= b.written
            a.length = a.length or b.length
            a.grain = a.grain or b.grain
            a.is_expensive |= b.is_expensive
            a.by_rows |= b.by_rows
        a.members = sorted([*a.members, *b.members], key=lambda e: e.number)
        a.bits |= b.bits
        a.after |= b.after
        a.before = (a.before | b.before) & ~a.bits
        for member in b.members:
            self.groups[member.number] = a
        self.recent = [g for g in self.recent if g is not a and g is not b]
        self.recent.append(a)
        for g in self.recent:
            if g.before & a.bits:
                g.before |= a.before | a.bits
        for address, g in self.sharing.items():
            if g is b:
                self.sharing[address] = a
        return a

    # --- order -----------------------------------------------------------------------------------------------

    def ordered(self) -> list[Group]:
        """The groups in an order that every dependence allows, as near to that of the tape as it goes."""
        groups = self._of(self.groups)
        waiting = {id(g): {id(h) for h in self._of(g.after) if h is not g} for g in groups}
        behind: dict[int, list[Group]] = {id(g): [] for g in groups}
        for g in groups:
            for other in waiting[id(g)]:
                behind[other].append(g)
        ready = [g.members[-1].number for g in groups if not waiting[id(g)]]
        heapq.heapify(ready)
        order = []
        while ready:
            done = self.groups[heapq.heappop(ready)]
            order.append(done)
            for g in behind[id(done)]:
                waiting[id(g)].discard(id(done))
                if not waiting[id(g)]:
                    heapq.heappush(ready, g.members[-1].number)
        if len(order) != len(groups):
            raise RuntimeError("the groups of a tape depend on each other in a circle")
        return order


def aligned(some: Sequence[tuple[Operand, bool]], others: Sequence[tuple[Operand, bool]]) -> bool:
    """Whether operands touch what others do alike, wherever one of them writes: see Note [Alignment]."""
    for a, a_writes in some:
        for b, b_writes in others:
            if (a_writes or b_writes) and a.low < b.high and b.low < a.high and a != b:
                return False
    return True
