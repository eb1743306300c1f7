"""In which order the samples of a data set are taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from fastgrad import dtypes
from fastgrad.functions.creation import as_tensor, empty
from fastgrad.functions.sampling import multinomial, randperm
from fastgrad.random import Generator, fill_integers

_T_co = TypeVar("_T_co", covariant=True)


def drawn_seed(generator: Generator | None = None) -> int:
    """A seed for another generator, from 0 to ``2**63 - 1``, drawn from a generator, by default the default one."""
    seed = empty((), dtype=dtypes.int64, device="cpu")
    fill_integers(seed, 0, 1 << 63, generator)
    return int(seed.item())


class Sampler(Generic[_T_co]):
    """The numbers of samples, in the order in which a loader takes them; subclasses define ``__iter__``."""

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError("Subclasses of Sampler should implement __iter__.")


class SequentialSampler(Sampler[int]):
    """All samples in their order.

    Parameters
    ----------
    data_source : Dataset
    """

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Samples in random order.

    Parameters
    ----------
    data_source : Dataset
    replacement : bool
        Whether a sample may come twice.
    num_samples : int, optional
        How many to take; by default as many as there are.
    generator : Generator, optional
        By default one whose seed comes from the default generator, a new one each time.

    Raises
    ------
    TypeError
        If `replacement` is no bool.
    ValueError
        If `num_samples` is not positive.

    Examples
    --------
    >>> sorted(RandomSampler(range(4)))
    [0, 1, 2, 3]
    """

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(
                f"num_samples should be a positive integer value, but got num_samples={self.num_samples}"
            )

    @property
    def num_samples(self) -> int:
        """How many samples it takes."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, generator = len(self.data_source), self.generator
        if generator is None:
            generator = Generator().manual_seed(drawn_seed())
        if self.replacement:
            numbers = empty(self.num_samples, dtype=dtypes.int64, device="cpu")
            fill_integers(numbers, 0, n, generator)
            yield from numbers.tolist()
            return
        for start in range(0, self.num_samples, n):
            yield from randperm(n, generator=generator, device="cpu").tolist()[: self.num_samples - start]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Some samples, in random order.

    Parameters
    ----------
    indices : sequence of int
    generator : Generator, optional
        By default the default one.
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        return (
            self.indices[k]
            for k in randperm(len(self.indices), generator=self.generator, device="cpu").tolist()
        )

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Samples at random, each with a probability of its own.

    Parameters
    ----------
    weights : sequence of float
        Of all samples; they need not add up to 1.
    num_samples : int
        How many to take.
    replacement : bool, default True
        Whether a sample may come twice.
    generator : Generator, optional
        By default the default one.

    Raises
    ------
    ValueError
        If `num_samples` is no positive integer, `replacement` no bool, or `weights` have not one dimension.
    RuntimeError
        When it is iterated over, if weights are negative or fewer than the samples without `replacement`.

    Examples
    --------
    >>> list(WeightedRandomSampler([0.0, 1.0], 3))
    [1, 1, 1]
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(
                f"num_samples should be a positive integer value, but got num_samples={num_samples}"
            )
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = as_tensor(weights, dtype=dtypes.float64)
        if self.weights.dim() != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[Any]]):
    """Lists of the numbers that another sampler gives.

    Parameters
    ----------
    sampler : Sampler or iterable
    batch_size : int
    drop_last : bool
        Whether a last batch that is not full is left out.

    Raises
    ------
    ValueError
        If `batch_size` is no positive integer, or `drop_last` no bool.

    Examples
    --------
    >>> list(BatchSampler(SequentialSampler(range(5)), 2, False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(
                f"batch_size should be a positive integer value, but got batch_size={batch_size}"
            )
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        batch: list[Any] = []
        for number in self.sampler:
            batch.append(number)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        n: int = len(self.sampler)  # type: ignore[arg-type]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
