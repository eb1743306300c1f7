"""Tables of what a model is made of: layers, sizes, parameters, multiply-adds, memory, hooks."""

from fastgrad.summaries.recording import summary
from fastgrad.summaries.rows import Row
from fastgrad.summaries.tables import Summary

__all__ = ["Row", "Summary", "summary"]
