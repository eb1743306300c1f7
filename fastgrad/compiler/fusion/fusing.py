"""From the launches of a tape to fewer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from fastgrad.compiler.fusion.accesses import Operand
from fastgrad.compiler.fusion.codes import code_of
from fastgrad.compiler.fusion.dependence import Readers
from fastgrad.compiler.fusion.groups import Group, Grouping
from fastgrad.compiler.fusion.launches import FILL, FUSIBLE, NOTHING, OTHER, Entry, entries_of
from fastgrad.compiler.fusion.plans import Plan, TooLargeError, plan
from fastgrad.dtypes import uint8
from fastgrad.functions.creation import empty
from fastgrad.native.contracts.frames.fused import FUSED_ROWS
from fastgrad.native.host.tape import FusedLaunch, Launch, MaskLaunch, ReadValue, Tape
from fastgrad.native.host.threads import get_num_threads

IsWanted = Callable[[int, int], bool]


class Fused(NamedTuple):
    """Launches that became one.

    Attributes
    ----------
    numbers : tuple of int
        Their places on the tape.
    names : tuple of str
        What their kernels are called.
    reads, writes, intermediates : int
        Operands that are read and written, and those that do not reach memory any more.
    """

    numbers: tuple[int, ...]
    names: tuple[str, ...]
    reads: int
    writes: int
    intermediates: int


class Report(NamedTuple):
    """What became of the launches of a tape.

    Attributes
    ----------
    before, after : int
        Launches of the tape, and of what takes its place.
    fused : tuple of Fused
    left : tuple of (int, str, str)
        Launches that stand alone: place on the tape, name of the kernel, and what kept it from being fused.
    dropped : tuple of int
        Launches that nobody needs: they write what nobody reads, or a number that stands in fused kernels.
    """

    before: int
    after: int
    fused: tuple[Fused, ...]
    left: tuple[tuple[int, str, str], ...]
    dropped: tuple[int, ...]

    def __str__(self) -> str:
        lines = [f"{self.before} launches became {self.after}"]
        for group in self.fused:
            names = ", ".join(group.names)
            lines.append(
                f"  one of {len(group.names)}: {names} (reads {group.reads}, writes {group.writes}; "
                f"{group.intermediates} results stay in registers)"
            )
        lines += [f"  {name} stands alone: {why}" for _, name, why in self.left]
        return "\n".join(lines)


class FusedTape:
    """What stands in place of the launches of a tape.

    Attributes
    ----------
    order : list of int, MaskLaunch or FusedLaunch
        Launches of the tape by number, masks of its dropouts, and fused ones: an edition for `Tape.edit`.
    report : Report
    room : Tensor or None
        Memory that fused launches use while they run. It has to live as long as they do.
    """

    def __init__(self, order: list[int | MaskLaunch | FusedLaunch], report: Report, room: Any) -> None:
        self.order = order
        self.report = report
        self.room = room


def fuse(launches: Iterable[Launch | ReadValue | None], is_wanted: IsWanted) -> FusedTape:
    """Let launches become one where that changes nothing that is wanted.

    Parameters
    ----------
    launches : iterable of Launch, ReadValue or None
        All that a tape does, as `Tape.entries` gives it.
    is_wanted : callable
        ``is_wanted(address, nbytes)``: whether somebody else reads this memory after a replay, or the next replay does.
        What is not wanted and only read within fused launches is not written.

    Returns
    -------
    FusedTape

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.compiler.fusion import fuse
    >>> from fastgrad.native.host.tape import record
    >>> x = fg.ones(1000)
    >>> with record() as tape:
    ...     y = (x * x).tanh()
    >>> fused = fuse(tape.entries(), lambda address, nbytes: address == y.data_ptr())
    >>> tape.edit(fused.order)
    >>> tape.launches
    1
    """
    fusing = _Fusing(entries_of(list(launches)), is_wanted)
    return fusing.fused()


def fuse_tape(tape: Tape, is_wanted: IsWanted) -> FusedTape:
    """The same for a tape, which is edited."""
    found = fuse(tape.entries(), is_wanted)
    tape.edit(found.order)
    return found


class _Part(NamedTuple):
    """Members of a group that become one launch; without a plan they stay as they are."""

    members: list[Entry]
    plan: Plan | None = None
    code: int = 0
    why: str = ""


class _Fusing:
    def __init__(self, entries: list[Entry], is_wanted: IsWanted) -> None:
        self.entries = entries
        self.is_wanted = is_wanted
        self.grouping = Grouping(entries)
        self.readers = Readers((r.low, r.high, e.number) for e in entries for r in e.ranges or () if r.reads)
        self.idle: set[int] = set()  # launches that write nothing that anybody reads
        self.everything_read = [e.number for e in entries if e.ranges is None]

    def fused(self) -> FusedTape:
        parts = [part for group in self.grouping.ordered() for part in self._parts(group)]
        fused = {e.number for part in parts if part.plan for e in part.members}
        dropped = set(self.idle)
        for e in reversed(self.entries):
            if e.what == FILL and self._is_idle(e, fused | dropped):
                dropped.add(e.number)
        if len(dropped) == len(self.entries):
            dropped = set()  # a tape without launches could not be replayed
        room = self._room(parts)
        order: list[int | MaskLaunch | FusedLaunch] = []
        for part in parts:
            if part.plan:
                order += [MaskLaunch(e.number) for e in part.members if e.mask]
                order.append(self._launch(part, part.plan, room))
            else:
                order += [e.number for e in part.members if e.number not in dropped]
        return FusedTape(order, self._report(parts, dropped, len(order)), room)

    # --- parts -----------------------------------------------------------------------------------------------

    def _parts(self, group: Group) -> list[_Part]:
        """What of a group becomes one launch: all, or half of it where all does not fit into a frame."""
        done, waiting = [], [group.members]
        while waiting:
            members = waiting.pop(0)
            if len(members) < 2:
                done.append(_Part(members))
                continue
            is_written = self._is_written(members)
            try:
                found = plan(group, members, self.entries, is_written)
            except TooLargeError:
                half = len(members) // 2
                waiting[:0] = [members[:half], members[half:]]
                continue
            if not found.written:
                self.idle.update(e.number for e in members if not (e.mask and is_written(e.mask)))
                done += [_Part([e]) for e in members if e.number not in self.idle]
                continue
            code = code_of(found.program, found.kernels, group.device)
            done.append(
                _Part(members, found, code) if code else _Part(members, why="there are too many codes")
            )
        return done

    def _is_written(self, members: Sequence[Entry]) -> Callable[[Operand], bool]:
        """Whether memory that members of a group write has to be written."""
        own = {e.number for e in members}

        def is_written(operand: Operand) -> bool:
            low, high = operand.low, operand.high
            others = any(reader not in own for reader in self.readers.of(low, high))
            return others or bool(self.everything_read) or bool(self.is_wanted(low, high - low))

        return is_written

    def _is_idle(self, fill: Entry, gone: set[int]) -> bool:
        """Whether nobody reads what a fill writes."""
        low, high = fill.out.low, fill.out.high
        if self.everything_read or self.is_wanted(low, high - low):
            return False
        return all(
            number in gone and self._knows(self.entries[number], fill)
            for number in set(self.readers.of(low, high))
        )

    def _knows(self, entry: Entry, fill: Entry) -> bool:
        """Whether a launch takes the number of a fill for all that it reads of its memory."""
        return all(
            entry.literals.get(k) == fill.number
            for k, o in enumerate(entry.ins)
            if o.low < fill.out.high and fill.out.low < o.high
        )

    # --- launches --------------------------------------------------------------------------------------------

    def _room(self, parts: list[_Part]) -> Any:
        nbytes = max((part.plan.room for part in parts if part.plan), default=0)
        self.seats = max(get_num_threads(), 1)
        return empty(self.seats * nbytes, dtype=uint8) if nbytes else None

    def _launch(self, part: _Part, found: Plan, room: Any) -> FusedLaunch:
        words = list(found.words)
        if found.room:
            at = FUSED_ROWS.place("room")
            words[at : at + 3] = [room.data_ptr(), found.room, self.seats]
        return FusedLaunch(part.code, bool(found.room), found.work, tuple(words))

    def _report(self, parts: list[_Part], dropped: set[int], after: int) -> Report:
        fused, left = [], []
        for part in parts:
            if part.plan:
                members = part.members
                fused.append(
                    Fused(
                        tuple(e.number for e in members), tuple(e.name for e in members), len(part.plan.program.ins),
                        len(part.plan.written), len(part.plan.kept),
                    )
                )  # fmt: skip
                continue
            for e in part.members:
                if e.number not in dropped and e.what != NOTHING:
                    left.append((e.number, e.name, part.why or self._why(e)))
        return Report(len(self.entries), after, tuple(fused), tuple(left), tuple(sorted(dropped)))

    def _why(self, entry: Entry) -> str:
        if entry.what == OTHER:
            return entry.why
        if entry.what in FUSIBLE:
            return self.grouping.broken.get(entry.number, "nothing next to it runs over the same elements")
        return "its memory is read"
