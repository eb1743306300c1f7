"""Ops whose shape rule is written by hand: each checks, allocates, launches.

They take handles and integers, return the handle of a result or a negative status, and record nothing. The
frames that they fill are described at the kernels.
"""

from fastgrad.native.shapes.reductions import reduction
from fastgrad.native.shapes.rows import rowwise
from fastgrad.native.shapes.table import run_forward

__all__ = ["reduction", "rowwise", "run_forward"]
