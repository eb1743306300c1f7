"""Memory that compiled code and the driver read."""

from __future__ import annotations

import ctypes
from typing import Any


def words(count: int) -> Any:
    """So many words of zero, as an array of `ctypes`."""
    return (ctypes.c_int64 * count)()


def lasting_words(count: int) -> Any:
    """The same, as long as the process lives: tensors of a GPU may be the last objects to go, behind all modules."""
    made = words(count)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    return made
