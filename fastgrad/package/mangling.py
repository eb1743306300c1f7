"""Names of modules that were imported from a package: ``<fastgrad_package_0>.model`` is none that Python has."""

from __future__ import annotations

import itertools
import re

_numbers = itertools.count()
_PREFIX = re.compile(r"<fastgrad_package_\d+>")


class Mangler:
    """The names of one importer's modules.

    Attributes
    ----------
    prefix : str
        Unique in the process.
    """

    def __init__(self) -> None:
        self.prefix = f"<fastgrad_package_{next(_numbers)}>"

    def mangle(self, name: str) -> str:
        """The name with the prefix before it."""
        return f"{self.prefix}.{name}"

    def demangle(self, name: str) -> str:
        """The name without the prefix of this importer; others stay."""
        return name.removeprefix(self.prefix + ".")


def is_mangled(name: str) -> bool:
    """Whether a name is of a module from a package."""
    return bool(_PREFIX.match(name))


def demangle(name: str) -> str:
    """The name without the prefix of whatever importer."""
    return name.partition(".")[2] if is_mangled(name) else name


def prefix_of(name: str) -> str:
    """The prefix of a mangled name; other names as they are."""
    return name.partition(".")[0] if is_mangled(name) else name
