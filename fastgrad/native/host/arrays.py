"""What compiled code needs of NumPy: functions of its C interface, which `native.python.data` calls."""

from __future__ import annotations

import ctypes

import numpy as np

from fastgrad.native.build.loader import runtime_set, runtime_set_object

# Places in the table of the interface, which are the same in all versions.
NEW, SET_BASE = 93, 282


def install() -> None:
    """Let the runtime know the functions that make arrays."""
    core = np._core if hasattr(np, "_core") else np.core
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = ctypes.c_void_p
    pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = pointer(core.multiarray._ARRAY_API, None)
    table = (ctypes.c_size_t * (SET_BASE + 1)).from_address(address)
    runtime_set_object("numpy_array", np.ndarray)
    runtime_set("numpy_new", table[NEW])
    runtime_set("numpy_set_base", table[SET_BASE])
