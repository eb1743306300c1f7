"""From the numbers of samples to a batch, in whichever process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fastgrad.utils.data.dataset import samples_of


class End:
    """What stands for the batch behind the last one of an iterable data set."""


class Recipe(NamedTuple):
    """How batches are made.

    Attributes
    ----------
    dataset : Dataset
    iterable : bool
        Whether its samples come one after the other.
    batched : bool
        Whether several samples make a batch.
    collate_fn : callable
    drop_last : bool
    """

    dataset: Any
    iterable: bool
    batched: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool

    def fetcher(self) -> Callable[[Any], Any]:
        """A function from what the sampler gives to a batch, for one pass over the data set."""
        return self._from_stream() if self.iterable else self._by_number

    def _by_number(self, index: Any) -> Any:
        if not self.batched:
            return self.collate_fn(self.dataset[index])
        return self.collate_fn(samples_of(self.dataset, index))

    def _from_stream(self) -> Callable[[Any], Any]:
        samples = iter(self.dataset)
        ended = False

        def fetch(index: Any) -> Any:
            nonlocal ended
            batch = []
            for _ in index if self.batched else (None,):
                if ended:
                    break
                try:
                    batch.append(next(samples))
                except StopIteration:
                    ended = True
            if not batch or (self.batched and self.drop_last and len(batch) < len(index)):
                return End()
            return self.collate_fn(batch if self.batched else batch[0])

        return fetch
