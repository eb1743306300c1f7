"""Optimizers."""

from fastgrad.optim.sgd import SGD

__all__ = ["SGD"]
