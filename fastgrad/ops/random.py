"""Kernels that fill a tensor: random numbers and sequences. `fastgrad.random` launches them."""

from __future__ import annotations

from fastgrad.native.contracts.element_types import FLOATS, NUMBERS
from fastgrad.native.contracts.frames import filling
from fastgrad.ops.kernel_table import Kernel

RANDOM_KERNELS = {
    filling.UNIFORM: Kernel("uniform", "random:uniform", frame=filling.RANDOM, dtypes=FLOATS),
    filling.NORMAL: Kernel("normal", "random:normal", frame=filling.RANDOM, dtypes=FLOATS),
    filling.INTEGERS: Kernel("integers", "random:integers", frame=filling.RANDOM),
}
"""Those that draw from a generator, by what they draw."""

SEQUENCE = Kernel("sequence", "random:sequence", frame=filling.SEQUENCE, dtypes=NUMBERS)
