"""The version that programs written for PyTorch read."""

from __future__ import annotations

import re
from typing import Any

from fastgrad._version import __version__

INTERFACE = "2.13.0"
"""The version of PyTorch whose interface fastgrad has."""
_NUMBER = re.compile(r"\d+")
_PARTS = re.compile(r"v?([\d.]*\d)[-_.]?(?:(a|alpha|b|beta|c|rc|pre|preview|dev)[-_.]?(\d*))?")
_RANKS = {"dev": 0, "a": 1, "alpha": 1, "b": 2, "beta": 2}
_CANDIDATE, _FINAL = 3, 4


class TorchVersion(str):
    """A version: text that compares like a version with texts, tuples of numbers and other versions.

    What stands behind a plus counts for equality of texts alone.

    Examples
    --------
    >>> from fastgrad.as_torch.versions import TorchVersion
    >>> (
    ...     TorchVersion("2.13.0") > "2.9",
    ...     TorchVersion("2.13.0+cpu") >= (2, 13),
    ...     TorchVersion("2.1.0rc1") < "2.1",
    ... )
    (True, True, True)
    """

    __slots__ = ()

    def __lt__(self, other: Any) -> bool:
        key = _key(other)
        return NotImplemented if key is None else _key(self) < key

    def __le__(self, other: Any) -> bool:
        key = _key(other)
        return NotImplemented if key is None else _key(self) <= key

    def __gt__(self, other: Any) -> bool:
        key = _key(other)
        return NotImplemented if key is None else _key(self) > key

    def __ge__(self, other: Any) -> bool:
        key = _key(other)
        return NotImplemented if key is None else _key(self) >= key

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) and str.__eq__(self, other):
            return True
        key = _key(other)
        return key is not None and _key(self) == key

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def _key(version: Any) -> Any:
    """What versions are ordered by; None for what is none."""
    if isinstance(version, (tuple, list)):
        version = ".".join(map(str, version))
    if not isinstance(version, str):
        version = (
            str(version) if type(version).__name__ == "Version" else ""
        )  # that of the package `packaging`
    found = _PARTS.match(str.__str__(version))
    if found is None:
        return None
    numbers, stage, number = found.groups()
    release = [int(n) for n in _NUMBER.findall(numbers)]
    while release and not release[-1]:
        release.pop()
    rank = _RANKS.get(stage, _CANDIDATE) if stage else _FINAL
    return release, rank, int(number or 0)


VERSION = TorchVersion(f"{INTERFACE}+fastgrad{__version__}")
