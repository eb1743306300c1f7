"""Which launches of a tape have to stay behind which others, by the memory that they read and write."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator

from fastgrad.compiler.fusion.accesses import Range


class _Segment:
    """Neighbouring addresses with the same history: who wrote them last, and who has read them since."""

    __slots__ = ("readers", "writer")

    def __init__(self, writer: int = -1, readers: frozenset[int] = frozenset()) -> None:
        self.writer = writer
        self.readers = readers


class Memory:
    """What launches did to memory so far.

    Addresses fall into segments, which are divided where a range begins or ends within one. Segments that nobody
    touched exist, too, so that all of them lie side by side from the first one on.
    """

    def __init__(self) -> None:
        self._starts: list[int] = [0]
        self._segments: list[_Segment] = [_Segment()]

    def _divide(self, address: int) -> int:
        """The index of the segment that begins at an address."""
        k = bisect.bisect_right(self._starts, address) - 1
        if self._starts[k] != address:
            old = self._segments[k]
            k += 1
            self._starts.insert(k, address)
            self._segments.insert(k, _Segment(old.writer, old.readers))
        return k

    def _within(self, low: int, high: int) -> range:
        first = self._divide(low)
        return range(first, self._divide(high))

    def before(self, ranges: Iterable[Range]) -> set[int]:
        """The launches that one with these ranges has to stay behind."""
        found: set[int] = set()
        for low, high, _, writes in ranges:
            for k in self._within(low, high):
                segment = self._segments[k]
                found.add(segment.writer)
                if writes:
                    found |= segment.readers
        found.discard(-1)
        return found

    def writer_of(self, low: int, high: int) -> int:
        """The launch that wrote all of these addresses last; -1 if there is no such one."""
        writers = {self._segments[k].writer for k in self._within(low, high)}
        return writers.pop() if len(writers) == 1 else -1

    def note(self, number: int, ranges: Iterable[Range]) -> None:
        """A launch did this. What it writes counts after what it reads."""
        ranges = list(ranges)
        for low, high, reads, writes in ranges:
            if reads and not writes:
                for k in self._within(low, high):
                    self._segments[k].readers |= {number}
        for low, high, _, writes in ranges:
            if writes:
                for k in self._within(low, high):
                    self._segments[k].writer = number
                    self._segments[k].readers = frozenset()


class Readers:
    """Who reads which memory, at any time: replays begin again, so what is read first may have been written last."""

    def __init__(self, reads: Iterable[tuple[int, int, int]]) -> None:
        """`reads`: from where to before where, and by whom."""
        reads = [read for read in reads if read[0] < read[1]]
        self._starts = sorted({address for low, high, _ in reads for address in (low, high)})
        self._readers: list[set[int]] = [set() for _ in self._starts]
        for low, high, reader in reads:
            first = bisect.bisect_left(self._starts, low)
            for k in range(first, bisect.bisect_left(self._starts, high)):
                self._readers[k].add(reader)

    def of(self, low: int, high: int) -> Iterator[int]:
        """The readers of some of these addresses, perhaps several times."""
        first = max(bisect.bisect_right(self._starts, low) - 1, 0)
        for k in range(first, bisect.bisect_left(self._starts, high)):
            if k + 1 < len(self._starts) and self._starts[k + 1] > low:
                yield from self._readers[k]
