"""The layout of the Python object of a tensor and the slots of its type; read by the compiler and the loader."""

from __future__ import annotations

# Behind the header of every object: handle, generation, dict, weak references.
OBJECT_HANDLE, OBJECT_GENERATION, OBJECT_DICT, OBJECT_WEAKLIST, BASE_SIZE = 16, 24, 32, 40, 48

T_PYSSIZET = 19
MEMBERS = (
    ("__dictoffset__", T_PYSSIZET, OBJECT_DICT),
    ("__weaklistoffset__", T_PYSSIZET, OBJECT_WEAKLIST),
)

SLOTS = {
    "dealloc": 52, "finalize": 80, "traverse": 71, "clear": 51, "hash": 59, "richcompare": 67,
    "negative": 30, "absolute": 6, "invert": 27,
    "add": 7, "subtract": 36, "multiply": 29, "true_divide": 37, "floor_divide": 12, "remainder": 34,
    "and": 8, "or": 31, "xor": 38,
    "inplace_add": 14, "inplace_subtract": 23, "inplace_multiply": 18, "inplace_true_divide": 24,
}  # fmt: skip
"""Numbers of the type slots in CPython's stable ABI (``Include/typeslots.h``)."""
