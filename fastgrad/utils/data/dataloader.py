"""Batches of a data set."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fastgrad.cuda.selection import is_available
from fastgrad.random import Generator
from fastgrad.utils.data.collate import default_collate, default_convert
from fastgrad.utils.data.dataset import IterableDataset
from fastgrad.utils.data.pinning import pinned
from fastgrad.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler


class DataLoader:
    """Gives the samples of a data set in batches, once for each iteration over it.

    Parameters
    ----------
    dataset : Dataset, or anything with ``__getitem__`` and ``__len__``
    batch_size : int, optional
        None for single samples.
    shuffle : bool, optional
        Take the samples in random order, a new one each time.
    sampler : Sampler or iterable, optional
        The numbers of the samples in order.
    batch_sampler : Sampler or iterable, optional
        Lists of numbers, one for each batch.
    num_workers : int
        Only 0, the process itself, is supported.
    collate_fn : callable, optional
        Makes a batch of a list of samples, by default `default_collate`; with ``batch_size=None`` it gets
        each sample, and `default_convert` is the default.
    pin_memory : bool
        Copy batches into memory from which a GPU copies by itself; see `Tensor.pin_memory`. Without a GPU there is a
        warning, and nothing is copied.
    drop_last : bool
        Leave out a last batch that is not full.
    generator : Generator, optional
        Of the random order.

    Raises
    ------
    ValueError
        If options contradict each other.
    NotImplementedError
        If `num_workers` is set.

    Examples
    --------
    >>> [batch.tolist() for batch in DataLoader(range(5), batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        *,
        generator: Generator | None = None,
    ) -> None:
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative")
        if num_workers:
            raise NotImplementedError(f"DataLoader(): num_workers={num_workers} is not supported; use 0")
        _check_options(dataset, batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset = dataset
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.generator = generator
        self.drop_last = drop_last
        self.batch_size = None if batch_sampler is not None else batch_size
        self.iterable = isinstance(dataset, IterableDataset)
        if sampler is None:
            if self.iterable:
                sampler = itertools.repeat(None)
            else:
                sampler = (
                    RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
                )
        self.sampler = sampler
        if batch_sampler is None and batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_sampler = batch_sampler
        usual = default_convert if batch_sampler is None else default_collate
        self.collate_fn = usual if collate_fn is None else collate_fn

    def __iter__(self) -> Iterator[Any]:
        batches = self._from_stream() if self.iterable else map(self.collate_fn, self._by_number())
        return map(pinned, batches) if self.pin_memory and self._has_gpu() else batches

    def _has_gpu(self) -> bool:
        if is_available():
            return True
        warnings.warn(
            "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be "
            "used.",
            stacklevel=3,
        )
        return False

    def _by_number(self) -> Iterator[Any]:
        if self.batch_sampler is None:
            for number in self.sampler:
                yield self.dataset[number]
            return
        at_once = getattr(self.dataset, "__getitems__", None)
        for numbers in self.batch_sampler:
            yield at_once(numbers) if at_once else [self.dataset[number] for number in numbers]

    def _from_stream(self) -> Iterator[Any]:
        samples = iter(self.dataset)
        if self.batch_size is None:
            yield from map(self.collate_fn, samples)
            return
        while batch := list(itertools.islice(samples, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield self.collate_fn(batch)

    def __len__(self) -> int:
        if not self.iterable:
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)  # type: ignore[arg-type]
        n = len(self.dataset)
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


def _check_options(
    dataset: Any, batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    if isinstance(dataset, IterableDataset):
        for name, value in (
            ("shuffle", shuffle or None),
            ("sampler", sampler),
            ("batch_sampler", batch_sampler),
        ):
            if value is not None:
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
                )
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ValueError(
            "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
        )
    if batch_size is None and drop_last:
        raise ValueError(
            "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
        )
