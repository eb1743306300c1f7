"""Kernels that fill a tensor: random numbers and sequences. `fastgrad.random` launches them."""

from __future__ import annotations

from fastgrad.native.contracts.element_types import FLOATS, NUMBERS
from fastgrad.ops.registry import Kernel

UNIFORM = Kernel("uniform", "random:uniform", dtypes=FLOATS)
NORMAL = Kernel("normal", "random:normal", dtypes=FLOATS)
INTEGERS = Kernel("integers", "random:integers")
SEQUENCE = Kernel("sequence", "random:sequence", dtypes=NUMBERS)
