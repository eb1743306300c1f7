"""Patterns for names of modules and files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

GlobPattern = str | Iterable[str]


class GlobGroup:
    """Patterns that a name is matched against: one of those to include, and none of those to exclude.

    Names and patterns consist of parts between separators. ``*`` in a pattern stands for any characters within a part,
    ``**``, as a whole part, for any number of parts.

    Parameters
    ----------
    include : str or iterable of str
    exclude : str or iterable of str
    separator : str
        ``"."`` for modules, ``"/"`` for files.

    Raises
    ------
    ValueError
        If ``**`` is not a whole part.
    TypeError
        If a pattern is no str.

    Examples
    --------
    >>> from fastgrad.package import GlobGroup
    >>> group = GlobGroup("model.**", exclude="model.tests")
    >>> [group.matches(name) for name in ("model", "model.layers.conv", "model.tests", "models")]
    [True, True, False, False]
    """

    def __init__(self, include: GlobPattern, *, exclude: GlobPattern = (), separator: str = ".") -> None:
        self._shown = f"GlobGroup(include={include}, exclude={exclude})"
        self.separator = separator
        self.include = self._all_compiled(include)
        self.exclude = self._all_compiled(exclude)

    def matches(self, candidate: str) -> bool:
        """Whether a name matches."""
        whole = self.separator + candidate  # every part begins with a separator
        return any(p.fullmatch(whole) for p in self.include) and not any(
            p.fullmatch(whole) for p in self.exclude
        )

    def _all_compiled(self, patterns: GlobPattern) -> list[re.Pattern[str]]:
        several = isinstance(patterns, Iterable) and not isinstance(patterns, str)
        return [self._compiled(p) for p in (patterns if several else (patterns,))]

    def _compiled(self, pattern: Any) -> re.Pattern[str]:
        if not isinstance(pattern, str):
            raise TypeError(
                f"GlobGroup(): expected a pattern to be a str, or several of them, but got {type(pattern).__name__}"
            )
        mark = re.escape(self.separator)
        inside = f"[^{mark}]"
        made = ""
        for part in pattern.split(self.separator):
            if part == "**":
                made += f"({mark}{inside}+)*"
            elif "**" in part:
                raise ValueError(
                    f"GlobGroup(): ** can only appear as an entire path segment, but got {pattern!r}"
                )
            else:
                made += mark + f"{inside}*".join(map(re.escape, part.split("*")))
        return re.compile(made)

    def __repr__(self) -> str:
        return self._shown
