"""Samples of a data set shared out between ranks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized
from typing import Any

from fastgrad.distributed.groups import get_rank, get_world_size
from fastgrad.functions.arguments import as_index
from fastgrad.functions.sampling import randperm
from fastgrad.random import Generator
from fastgrad.utils.data.sampler import Sampler


class DistributedSampler(Sampler):
    """The numbers of those samples that this rank uses: every rank gets others, and equally many.

    Parameters
    ----------
    dataset : Dataset
        With a length that does not change.
    num_replicas : int, optional
        Of how many ranks; by default those of the process group.
    rank : int, optional
        Whose samples; by default those of this process.
    shuffle : bool
        Take samples in random order, which follows from `seed` and `set_epoch`.
    seed : int
        Equal on all ranks.
    drop_last : bool
        Leave out what does not divide by the number of ranks; by default some samples are used twice instead.

    Raises
    ------
    ValueError
        If there is no such rank.

    Examples
    --------
    >>> list(DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]
    >>> sampler = DistributedSampler(range(5), num_replicas=2, rank=1)
    >>> sampler.set_epoch(3)  # before each epoch, for another order
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        name = "DistributedSampler"
        self.dataset = dataset
        self.num_replicas = (
            get_world_size() if num_replicas is None else as_index(name, "num_replicas", num_replicas)
        )
        self.rank = get_rank() if rank is None else as_index(name, "rank", rank)
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(
                f"Invalid rank {self.rank}, rank should be in the interval [0, {self.num_replicas - 1}]"
            )
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        self.epoch = 0
        n = len(dataset)
        each = n / self.num_replicas
        self.num_samples = math.floor(each) if drop_last else math.ceil(each)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[Any]:
        n = len(self.dataset)
        if self.shuffle:
            generator = Generator().manual_seed(self.seed + self.epoch)
            order = randperm(n, generator=generator).tolist()
        else:
            order = list(range(n))
        if order and len(order) < self.total_size:
            order *= math.ceil(self.total_size / len(order))
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration have the random order of an epoch; without it all epochs have the same one.

        Parameters
        ----------
        epoch : int
        """
        self.epoch = as_index("set_epoch", "epoch", epoch)
