"""Names of types and numbers that libraries annotate and call their own `save` and `load` with."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import IO, TypeAlias

import fastgrad as fg
from fastgrad.functions.storage import Storage

__all__: list[str] = []

DEFAULT_PROTOCOL = 2
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
MAP_LOCATION: TypeAlias = Callable[[Storage, str], Storage] | fg.device | str | dict[str, str] | None
