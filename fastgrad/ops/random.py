"""Kernels that fill a tensor: random numbers and sequences. `fastgrad.random` launches them."""

from __future__ import annotations

from fastgrad.native.contracts.frames import filling
from fastgrad.ops.registry import Kernel

UNIFORM = Kernel("uniform", "random:uniform", frame=filling.RANDOM)
NORMAL = Kernel("normal", "random:normal", frame=filling.RANDOM)
INTEGERS = Kernel("integers", "random:integers", frame=filling.RANDOM)
SEQUENCE = Kernel("sequence", "random:sequence", frame=filling.SEQUENCE)
