"""Random numbers of calls on tapes: in a replay each call draws what it would draw in an eager call.

A replay takes all the numbers of a capture at its beginning, those that calls of Python drew among them. So before a
call that drew some, the default generator of the host is put back to where it stood then, and on again behind it. That
no call draws others is compared at the end.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.limits import HOST
from fastgrad.native.contracts.records import TAPE

_FIRSTS = TAPE.fields["firsts"][0] + HOST
_WORD = 1 << 64
_STATE = struct.Struct("<QQ")
states: list[bytearray] = []
"""Where seed and offset of each default generator stand: of that of the host first, then of those of devices in use."""


def numbers_now() -> tuple[bytes, ...]:
    """The seeds and offsets of the default generators."""
    return tuple(map(bytes, states))


class Drawn(NamedTuple):
    """What a call drew: from the default generator, from an offset on, so many blocks."""

    first: int
    n: int

    def pass_by(self) -> None:
        """Let the default generator stand behind what was drawn."""
        seed, _ = _STATE.unpack(states[HOST])
        states[HOST][:] = _STATE.pack(seed, self.first + self.n)

    @property
    def is_next(self) -> bool:
        """Whether the default generator stands where it was drawn."""
        return bool(_STATE.unpack(states[HOST])[1] == self.first)


def drawn_since(before: tuple[bytes, ...]) -> Drawn | None:
    """What was drawn from the generator of the host since all stood somewhere.

    Raises
    ------
    ValueError
        If it was seeded since.
    """
    (seed, first), (seed_now, last) = _STATE.unpack(before[0]), _STATE.unpack(states[HOST])
    if seed != seed_now or last < first:
        raise ValueError("the default generator was seeded")
    return Drawn(first, last - first) if last > first else None


def with_numbers(
    tape: Any, drawn: Drawn, run: Callable[[], None], diverged: Callable[[str], Exception]
) -> Callable[[], None]:
    """What makes a call in replays where the default generator stands as during the capture."""

    def run_there() -> None:
        _, seed, first = rt.tape_numbers(tape, HOST)
        place = drawn.first + first - rt.tape_field(tape, _FIRSTS)
        state = states[HOST]
        behind = bytes(state)
        state[:] = _STATE.pack(seed % _WORD, place)
        try:
            run()
            if _STATE.unpack(state) != (seed % _WORD, place + drawn.n):
                raise diverged("draws other random numbers")
        finally:
            state[:] = behind

    return run_there
