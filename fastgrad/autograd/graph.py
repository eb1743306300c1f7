"""The graph as users see it."""

from fastgrad.autograd.node import Node

__all__ = ["Node"]
