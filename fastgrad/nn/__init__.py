"""Neural networks: for now the functions and initial values; see `fastgrad.nn.functional` and `fastgrad.nn.init`."""

from fastgrad.nn import functional, init

__all__ = ["functional", "init"]
