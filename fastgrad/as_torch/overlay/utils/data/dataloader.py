"""Names of types that programs annotate what they hand to loaders with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

__all__: list[str] = []

_collate_fn_t: TypeAlias = Callable[[list[Any]], Any]
