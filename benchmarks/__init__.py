"""Benchmarks for asv. They run in one thread, which has to be said before NumPy is imported."""

import os

for _name in ("FASTGRAD_NUM_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
