"""Neural networks: for now the functions; see `fastgrad.nn.functional`."""

from fastgrad.nn import functional, utils

__all__ = ["functional", "utils"]
