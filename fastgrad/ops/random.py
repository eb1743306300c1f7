"""Kernels that fill a tensor: random numbers and sequences. `fastgrad.random` launches them."""

from __future__ import annotations

from fastgrad.ops.registry import Kernel

UNIFORM = Kernel("uniform", "random:uniform")
NORMAL = Kernel("normal", "random:normal")
INTEGERS = Kernel("integers", "random:integers")
SEQUENCE = Kernel("sequence", "random:sequence")
