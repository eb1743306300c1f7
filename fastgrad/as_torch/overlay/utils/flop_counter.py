"""Counting floating-point operations; `fastgrad.profiler` and `fastgrad.summary` count those of launches."""
