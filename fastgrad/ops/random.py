"""Kernels that fill a tensor: random numbers and sequences. `fastgrad.random` launches them."""

from __future__ import annotations

from fastgrad.native.contracts.element_types import FLOATS, NUMBERS
from fastgrad.native.contracts.frames import filling
from fastgrad.ops.kernel_table import Kernel

UNIFORM = Kernel("uniform", "random:uniform", frame=filling.RANDOM, dtypes=FLOATS)
NORMAL = Kernel("normal", "random:normal", frame=filling.RANDOM, dtypes=FLOATS)
INTEGERS = Kernel("integers", "random:integers", frame=filling.RANDOM)
SEQUENCE = Kernel("sequence", "random:sequence", frame=filling.SEQUENCE, dtypes=NUMBERS)

RANDOM_KERNELS = (UNIFORM, NORMAL, INTEGERS)
"""Those that draw from a generator, in the order in which the runtime knows them."""
