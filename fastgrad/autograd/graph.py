"""The graph as users see it."""

from fastgrad.autograd.node import Node
from fastgrad.autograd.saved import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks

__all__ = ["Node", "disable_saved_tensors_hooks", "save_on_cpu", "saved_tensors_hooks"]
