"""Where what a call makes lies: memory that is used again as soon as nobody reads what lies there."""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Sequence
from typing import NamedTuple

ALIGNMENT = 64


class Life(NamedTuple):
    """Memory that launches use: from the first one to the last one, by their numbers."""

    number: int
    nbytes: int
    first: int
    last: int


def places(lives: Sequence[Life]) -> tuple[dict[int, int], int]:
    """Where in one piece of memory each lies, apart from all that live at the same time; and the bytes of the piece.

    They are placed in the order in which they begin, each in the smallest gap that holds it.
    """
    found: dict[int, int] = {}
    gaps: list[tuple[int, int]] = []  # begin and end, in order
    alive: list[tuple[int, int, int]] = []  # last launch, begin, end
    total = 0
    for life in sorted(lives, key=lambda life: (life.first, -life.nbytes)):
        while alive and alive[0][0] < life.first:
            _, low, high = heapq.heappop(alive)
            _free(gaps, low, high)
        size = -(-max(life.nbytes, 1) // ALIGNMENT) * ALIGNMENT
        fitting = [gap for gap in gaps if gap[1] - gap[0] >= size]
        if fitting:
            low, high = min(fitting, key=lambda gap: gap[1] - gap[0])
            gaps.remove((low, high))
            if low + size < high:
                bisect.insort(gaps, (low + size, high))
        else:
            low = total
            if gaps and gaps[-1][1] == total:  # the last gap grows
                low, _ = gaps.pop()
            total = low + size
        found[life.number] = low
        heapq.heappush(alive, (life.last, low, low + size))
    return found, total


def _free(gaps: list[tuple[int, int]], low: int, high: int) -> None:
    """Add a gap, and join it with those beside it."""
    k = bisect.bisect(gaps, (low, high))
    if k < len(gaps) and gaps[k][0] == high:
        high = gaps.pop(k)[1]
    if k > 0 and gaps[k - 1][1] == low:
        low = gaps.pop(k - 1)[0]
        k -= 1
    gaps.insert(k, (low, high))
