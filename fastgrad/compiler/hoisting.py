"""Values that are compared before anything is changed that others see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastgrad.compiler.programs import Before, Regions
from fastgrad.compiler.structure import GivenBack
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.frame import READ
from fastgrad.native.contracts.records import REGION_GIVEN, REGION_OWN
from fastgrad.native.host.tape import ReadValue, Tape


def values_first(tape: Tape, given: Sequence[Before], held: Sequence[Before], outputs: Sequence[Any]) -> None:
    """Let values that replays compare, and what they are computed by, stand before what changes memory of others.

    A replay that finds another value ends there. Where a value depends on such a change, all stays as it is: who binds
    the tape refuses it.
    """
    given_back = {value.number for value in outputs if isinstance(value, GivenBack)}
    entries = list(tape.entries())
    compared = {k for k, e in enumerate(entries) if isinstance(e, ReadValue) and e.number not in given_back}
    last = max(compared, default=-1)
    if last < 0 or None in entries[:last]:
        return
    regions = Regions()
    for before in (*given, *held):
        regions.add(REGION_GIVEN, before.tensor)
        if before.gradient is not None:
            regions.add(REGION_GIVEN, before.gradient.memory)
    by_calls = (lying.tensor for call in tape._calls for lying in call.lying())
    for memory in (*rt.tape_memory(tape), *by_calls):
        regions.add(REGION_OWN, memory)
    regions.link(tape)
    reads: list[set[int]] = [set() for _ in entries]
    writes: list[set[int]] = [set() for _ in entries]
    for place, region in enumerate(regions.all):
        for number, role in region.uses:
            (reads if role == READ else writes)[number].add(place)
            if role != READ:
                reads[number].add(place)
    others = {place for place, region in enumerate(regions.all) if region.kind == REGION_GIVEN}
    first = next((k for k in range(last) if writes[k] & others), last)
    moved = _needed(range(first, last + 1), compared, reads, writes)
    if first == last or any(writes[k] & others for k in moved):
        return
    rest = [k for k in range(first, len(entries)) if k not in moved]
    tape.edit([*range(first), *sorted(moved), *rest])


def _needed(span: range, wanted: set[int], reads: Sequence[set[int]], writes: Sequence[set[int]]) -> set[int]:
    """Of some entries, those that have to come before the others if some come before them: what they depend on, and
    what reads memory that they write.
    """
    found: set[int] = set()
    read: set[int] = set()
    written: set[int] = set()
    for k in reversed(span):
        if k in wanted or writes[k] & (read | written) or reads[k] & written:
            found.add(k)
            read |= reads[k]
            written |= writes[k]
    return found
