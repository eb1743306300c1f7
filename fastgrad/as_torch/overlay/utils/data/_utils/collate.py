"""What libraries that collate arrays themselves ask."""

from __future__ import annotations

import re

__all__: list[str] = []

np_str_obj_array_pattern = re.compile(r"[SaUO]")
"""Kinds of NumPy's dtypes that no tensor has: texts and objects."""
