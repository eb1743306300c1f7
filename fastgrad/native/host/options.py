"""Options of optimizers in the frames of launches: which float of a frame is an item of which dict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


class Option(NamedTuple):
    """An option of a group of parameters.

    Attributes
    ----------
    owner : Optimizer
    group : dict
    key : str
    item : int
        Which item of a tuple, -1 where the option is a number.
    branches : bool
        Whether its sign decides what a step does.
    """

    owner: Any
    group: dict[str, Any]
    key: str
    item: int
    branches: bool

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Option) and self._place() == other._place()

    def __hash__(self) -> int:
        return hash(self._place())

    def _place(self) -> tuple[int, str, int]:
        return id(self.group), self.key, self.item

    def now(self) -> Any:
        """What stands there."""
        value = self.group[self.key]
        return value if self.item < 0 else value[self.item]


class Settings(NamedTuple):
    """Where the settings of a kernel come from.

    Attributes
    ----------
    kernel : Kernel
    owner, group
        As `Option` has them.
    places : mapping
        For each field of the frame that is an option: the key, the item, and whether its sign decides anything.
    """

    kernel: Any
    owner: Any
    group: dict[str, Any]
    places: Mapping[str, tuple[str, int, bool]]

    def options(self) -> Iterator[tuple[str, Option]]:
        """The fields of the frame, and what stands in them."""
        for field, (key, item, branches) in self.places.items():
            yield field, Option(self.owner, self.group, key, item, branches)
