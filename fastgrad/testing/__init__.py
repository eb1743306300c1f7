"""What tests of programs need: comparing results, and making tensors to begin with."""

from __future__ import annotations

from fastgrad.testing.comparison import assert_close
from fastgrad.testing.creation import make_tensor

__all__ = ["assert_close", "make_tensor"]
