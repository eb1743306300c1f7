"""The ops that are declared: by number, as the runtime knows them, and by name.

`ops.registry` fills the tables. Who meets a number (an error, a rule that is traced) finds the op here
without knowing of declarations.
"""

from __future__ import annotations

from typing import Any

OPS: list[Any] = []
"""Each op at the index that is its number."""
BY_NAME: dict[str, Any] = {}

NUMBERS = frozenset((float, int, bool))
"""Classes of numbers that calls of elementwise ops take among their operands; see `native.python.apply`."""
