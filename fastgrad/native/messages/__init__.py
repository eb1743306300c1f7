"""Calls of MPI as compiled code: who makes progress, and how halves are combined."""
