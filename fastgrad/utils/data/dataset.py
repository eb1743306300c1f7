"""Data sets: samples by number, or one after the other."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from fastgrad.functions.arguments import need_tensors
from fastgrad.functions.sampling import randperm
from fastgrad.random import Generator

_T_co = TypeVar("_T_co", covariant=True)


class Dataset(Generic[_T_co]):
    """A data set whose samples are found by number.

    Subclasses define ``__getitem__``, and ``__len__`` for samplers. One that defines ``__getitems__`` gives a loader
    the samples of a batch at once.
    """

    def __getitem__(self, index: Any) -> _T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Any) -> Dataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_T_co]):
    """A data set whose samples come one after the other; subclasses define ``__iter__``.

    With worker processes each goes through its copy: all give all samples, unless ``__iter__`` or the loader's
    `worker_init_fn` looks at `get_worker_info` and takes a part.
    """

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Any) -> ChainDataset:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Any, ...]]):
    """The rows of tensors that have the same first size.

    Parameters
    ----------
    *tensors : Tensor

    Raises
    ------
    AssertionError
        If their first sizes differ.

    Examples
    --------
    >>> import fastgrad as fg
    >>> TensorDataset(fg.arange(3), fg.arange(3.0))[1]
    (tensor(1), tensor(1.))
    """

    def __init__(self, *tensors: Any) -> None:
        need_tensors("TensorDataset", tensors)
        if any(t.size(0) != tensors[0].size(0) for t in tensors):
            raise AssertionError(f"Size mismatch between tensors: first sizes {[t.size(0) for t in tensors]}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])


class Subset(Dataset[Any]):
    """Some samples of a data set.

    Parameters
    ----------
    dataset : Dataset
    indices : sequence of int

    Raises
    ------
    NotImplementedError
        If a subclass defines ``__getitem__`` and not ``__getitems__``, which a loader calls.
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        kind = type(self)
        if kind.__getitem__ is not Subset.__getitem__ and kind.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{kind.__name__} overrides __getitem__ but not __getitems__, which a loader calls; define it as well: "
                "def __getitems__(self, indices): return [self[i] for i in indices]"
            )
        self.dataset = dataset
        self.indices = indices

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return samples_of(self.dataset, [self.indices[i] for i in indices])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


def samples_of(dataset: Any, indices: list[Any]) -> Any:
    """Some samples of a data set: at once, if it has ``__getitems__``."""
    at_once = getattr(dataset, "__getitems__", None)
    return at_once(indices) if at_once else [dataset[i] for i in indices]


class StackDataset(Dataset[Any]):
    """Samples of which each is made of one of each of several data sets.

    Parameters
    ----------
    *args : Dataset
        Samples are tuples.
    **kwargs : Dataset
        Samples are dicts.

    Raises
    ------
    ValueError
        If there is none, there are both kinds, or lengths differ.

    Examples
    --------
    >>> StackDataset(x=[1, 2], y="ab")[1]
    {'x': 2, 'y': 'b'}
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or ``dict``- (via ``kwargs``) like input/output, but "
                "both types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets: Any = args or kwargs
        if len({len(part) for part in self._parts()}) > 1:
            raise ValueError("Size mismatch between datasets")

    def _parts(self) -> list[Any]:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _joined(self, parts: Iterable[Any]) -> Any:
        return (
            dict(zip(self.datasets, parts, strict=True)) if isinstance(self.datasets, dict) else tuple(parts)
        )

    def __getitem__(self, index: Any) -> Any:
        return self._joined([part[index] for part in self._parts()])

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        columns = [samples_of(part, indices) for part in self._parts()]
        for column in columns:
            if len(column) != len(indices):
                raise ValueError(
                    f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(column)}"
                )
        return [self._joined(sample) for sample in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return len(self._parts()[0])


class ChainDataset(IterableDataset[Any]):
    """Iterable data sets one behind the other.

    Parameters
    ----------
    datasets : iterable of IterableDataset

    Raises
    ------
    AssertionError
        When it is iterated over or asked for its length, if one is none.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def _checked(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self._checked())

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._checked())


class ConcatDataset(Dataset[Any]):
    """Data sets one behind the other.

    Parameters
    ----------
    datasets : iterable of Dataset

    Raises
    ------
    AssertionError
        If there is none, or one has no numbers.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(itertools.accumulate(map(len, self.datasets)))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        if index < -len(self):
            raise ValueError(f"absolute value of index {index} should not exceed dataset length {len(self)}")
        if index >= len(self):
            raise IndexError(f"index {index} is out of range for a dataset of length {len(self)}")
        index %= len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]


def random_split(dataset: Any, lengths: Sequence[float], generator: Generator | None = None) -> list[Subset]:
    """Cut a data set at random into parts that do not overlap.

    Parameters
    ----------
    dataset : Dataset
    lengths : sequence of int or float
        The lengths, or fractions that add up to 1; what rounding leaves over goes to the first parts, one each.
    generator : Generator, optional
        By default the default one.

    Returns
    -------
    list of Subset

    Raises
    ------
    ValueError
        If the lengths do not add up to that of the data set, or a fraction is not between 0 and 1.

    Examples
    --------
    >>> [len(part) for part in random_split(range(10), [0.7, 0.3])]
    [7, 3]
    """
    parts = list(lengths)
    if math.isclose(sum(parts), 1) and sum(parts) <= 1:
        for k, fraction in enumerate(parts):
            if not 0 <= fraction <= 1:
                raise ValueError(f"Fraction at index {k} is not between 0 and 1")
        sizes = [math.floor(len(dataset) * fraction) for fraction in parts]
        for k in range(len(dataset) - sum(sizes)):
            sizes[k % len(sizes)] += 1
    else:
        sizes = [int(part) for part in parts]
    if sum(sizes) != len(dataset):
        raise ValueError(
            f"Sum of input lengths does not equal the length of the input dataset! {sum(sizes)} is not {len(dataset)}"
        )
    order = randperm(len(dataset), generator=generator, device="cpu").tolist()
    ends = itertools.accumulate(sizes)
    return [Subset(dataset, order[end - size : end]) for size, end in zip(sizes, ends, strict=True)]
