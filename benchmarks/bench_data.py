"""Batches that worker processes make: how long one takes to arrive, and what making and reading it together take."""

from __future__ import annotations

from typing import Any

import numpy as np

import fastgrad as fg
from fastgrad.utils.data import DataLoader


class Samples:
    """Samples of so many float32 numbers."""

    def __init__(self, count: int, numbers: int) -> None:
        self.rows = np.random.default_rng(0).random((64, numbers), dtype=np.float32)
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return fg.from_numpy(self.rows[index % len(self.rows)]), index


SIZES = {"digits": (3840, 784, 64), "64 KiB": (640, 1 << 14, 32), "single": (640, 16, 1)}
"""How many samples, how many numbers in one, how many samples in a batch."""


class Workers:
    """One pass over a data set by workers that stay."""

    params = (list(SIZES), [0, 2])
    param_names = ("samples", "workers")

    def setup(self, name: str, workers: int) -> None:
        count, numbers, batch_size = SIZES[name]
        self.loader = DataLoader(
            Samples(count, numbers), batch_size, num_workers=workers, persistent_workers=workers > 0
        )
        self.time_pass(name, workers)

    def teardown(self, name: str, workers: int) -> None:
        del self.loader

    def time_pass(self, name: str, workers: int) -> None:
        for batch, _ in self.loader:
            batch.sum()
