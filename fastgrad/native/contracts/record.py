"""What a record is: a fixed layout of 8-byte words with names.

Compiled code sees a record as ``tensor(handle).ndim`` (see `base.intrinsics`), Python by the offset of a field (see
`build.loader`).
"""

from __future__ import annotations


class Record:
    """A fixed layout of words with names.

    Parameters
    ----------
    name : str
        Name of the record; compiled code casts a handle with a function of the same name.
    **fields : int
        Number of words of each field, in order.
    """

    unit = 8  # words that a record's size is a multiple of

    def __init__(self, name: str, /, **fields: int) -> None:
        self.name = name
        self.fields: dict[str, tuple[int, int]] = {}
        self.parts: dict[str, Part] = {}  # fields that have fields of their own
        words = 0
        for field, length in fields.items():
            self.fields[field] = (words, length)
            words += length
        self._close(words)

    def _close(self, words: int) -> None:
        self.words = (words + self.unit - 1) // self.unit * self.unit

    def offset(self, field: str) -> int:
        """Offset of `field` in bytes."""
        return self.fields[field][0] * 8


class Part(Record):
    """What stands several times in frames: a record without padding."""

    unit = 1
