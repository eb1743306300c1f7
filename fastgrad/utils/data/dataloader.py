"""Batches of a data set."""

from __future__ import annotations

import itertools
import numbers
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from fastgrad.cuda.selection import is_available
from fastgrad.native.host.threads import usable_processors
from fastgrad.random import Generator
from fastgrad.utils.data.collate import default_collate, default_convert
from fastgrad.utils.data.dataset import IterableDataset
from fastgrad.utils.data.fetch import End, Recipe
from fastgrad.utils.data.pinning import pinned
from fastgrad.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler, drawn_seed

_T_co = TypeVar("_T_co", covariant=True)


class _Numbered(Protocol[_T_co]):
    def __getitem__(self, index: Any, /) -> _T_co: ...


_FIXED = frozenset(("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"))
"""What cannot change when samplers have been made of it."""


class DataLoader(Generic[_T_co]):
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
    num_workers : int, default 0
        How many processes make batches; with 0 this one does.
    collate_fn : callable, optional
        Makes a batch of a list of samples, by default `default_collate`; with ``batch_size=None`` it gets
        each sample, and `default_convert` is the default.
    pin_memory : bool
        Copy batches into memory from which a GPU copies by itself; see `Tensor.pin_memory`. Without a GPU there is a
        warning, and nothing is copied.
    drop_last : bool
        Leave out a last batch that is not full.
    timeout : float, default 0
        How many seconds to wait for a batch of a worker; 0 for ever.
    worker_init_fn : callable, optional
        What each worker calls with its number when it starts.
    multiprocessing_context : str or context of `multiprocessing`, optional
        How workers start: "fork", "spawn" or "forkserver"; by default as `multiprocessing` starts processes.
    generator : Generator, optional
        Of the random order, and of the seed of the workers.
    prefetch_factor : int, optional
        How many batches a worker makes ahead; 2 by default.
    persistent_workers : bool
        Whether the workers stay for the next iteration.
    pin_memory_device : str
        Deprecated, without effect.
    in_order : bool, default True
        Whether batches come in the order of the sampler, or as they get ready.

    Raises
    ------
    ValueError
        If options contradict each other.
    TypeError
        If `multiprocessing_context` is no context.

    Examples
    --------
    >>> [batch.tolist() for batch in DataLoader(range(5), batch_size=2)]
    [[0, 1], [2, 3], [4]]
    >>> [batch.tolist() for batch in DataLoader(range(5), batch_size=2, num_workers=2)]
    [[0, 1], [2, 3], [4]]
    """

    promised: int | None = None
    """What ``len`` said of an iterable data set."""
    _made = False
    _workers: Any = None

    def __init__(
        self,
        dataset: _Numbered[_T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_processes(num_workers, timeout, prefetch_factor, persistent_workers)
        _check_options(dataset, batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset: Any = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.persistent_workers = persistent_workers
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
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
        self._made = True
        self.check_worker_number_rationality()

    def __setattr__(self, name: str, value: Any) -> None:
        if self._made and name in _FIXED:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_workers"}

    @property
    def multiprocessing_context(self) -> Any:
        """The context of `multiprocessing` in which workers start, or None."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            if not self.num_workers:
                raise ValueError(
                    "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
                    f"num_workers={self.num_workers}"
                )
            import multiprocessing.context  # most loaders need none

            methods = multiprocessing.get_all_start_methods()
            if isinstance(context, str):
                if context not in methods:
                    raise ValueError(
                        "multiprocessing_context option should specify a valid start method in "
                        f"{methods!r}, but got multiprocessing_context={context!r}"
                    )
                context = multiprocessing.get_context(context)
            if not isinstance(context, multiprocessing.context.BaseContext):
                raise TypeError(
                    "multiprocessing_context option should be a valid context object or a string specifying the "
                    f"start method, but got multiprocessing_context={context}"
                )
        self._context = context

    @property
    def index_sampler(self) -> Iterable[Any]:
        """What says which samples make the next batch."""
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def recipe(self) -> Recipe:
        """How batches are made, for this process or another one."""
        batched = self.batch_sampler is not None
        return Recipe(self.dataset, self.iterable, batched, self.collate_fn, self.drop_last)

    def __iter__(self) -> Iterator[Any]:
        return Batches(self, self._source())

    def _source(self) -> Iterator[Any]:
        if not self.num_workers:
            drawn_seed(self.generator)  # as with workers, so that the order of samples is the same
            return _made_here(self)
        _check_processes(self.num_workers, self.timeout, self.prefetch_factor, self.persistent_workers)
        from fastgrad.utils.data.processes import WorkerBatches

        workers = self._workers
        if workers is not None and not workers.stopped:
            workers.restart()
            return workers  # type: ignore[no-any-return]
        workers = WorkerBatches(self)
        if self.persistent_workers:
            self._workers = workers
        return workers

    def __len__(self) -> int:
        if not self.iterable:
            return len(self.index_sampler)  # type: ignore[arg-type]
        n = len(self.dataset)
        if self.batch_size is not None:
            n = n // self.batch_size if self.drop_last else -(-n // self.batch_size)
        self.promised = n
        return n

    def check_worker_number_rationality(self) -> None:
        """Warn if there are more workers than processors."""
        there_are = len(usable_processors())
        if self.num_workers > there_are:
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our suggested max number "
                f"of worker in current system is {there_are}, which is smaller than what this DataLoader is going to "
                "create. Please be aware that excessive worker creation might get DataLoader running slow or even "
                "freeze, lower the worker number to avoid potential slowness/freeze if necessary.",
                stacklevel=3,
            )


def _made_here(loader: DataLoader[Any]) -> Iterator[Any]:
    """The batches of one pass, made by this process."""
    fetch = loader.recipe().fetcher()
    for index in loader.index_sampler:
        batch = fetch(index)
        if isinstance(batch, End):
            return
        yield batch


class Batches(Iterator[Any]):
    """One pass of a loader over its data set.

    Parameters
    ----------
    loader : DataLoader
    source : iterator
        Of its batches.
    """

    def __init__(self, loader: DataLoader[Any], source: Iterator[Any]) -> None:
        self._loader = loader
        self._source = source
        self._given = 0
        self._pins = bool(loader.pin_memory) and _has_gpu(loader)

    def __len__(self) -> int:
        return len(self._loader.index_sampler)  # type: ignore[arg-type]

    def __next__(self) -> Any:
        batch = next(self._source)
        self._given += 1
        loader = self._loader
        if loader.iterable:
            _check_length(loader, self._given)
        return pinned(batch) if self._pins else batch


def _has_gpu(loader: DataLoader[Any]) -> bool:
    if loader.pin_memory_device:
        warnings.warn(
            "pin_memory_device is deprecated, the current accelerator will be used as the device, ignore "
            f"pin_memory_device='{loader.pin_memory_device}'.",
            stacklevel=4,
        )
    if is_available():
        return True
    warnings.warn(
        "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used.",
        stacklevel=4,
    )
    return False


def _check_length(loader: DataLoader[Any], given: int) -> None:
    """Warn of a data set that gives more batches than the program was told there would be."""
    length = loader.promised
    if length is None or given <= length:
        return
    text = (
        f"Length of IterableDataset {loader.dataset} was reported to be {length} (when accessing len(dataloader)), but "
        f"{given} samples have been fetched. "
    )
    if loader.num_workers:
        text += (
            "For multiprocessing data-loading, this could be caused by not properly configuring the IterableDataset "
            "replica at each worker; see get_worker_info."
        )
    warnings.warn(text, stacklevel=4)


def _check_processes(num_workers: Any, timeout: Any, prefetch_factor: Any, persistent_workers: bool) -> None:
    for name, value in (("num_workers", num_workers), ("prefetch_factor", prefetch_factor)):
        if not hasattr(value, "__index__") and (value is not None or name == "num_workers"):
            raise TypeError(f"{name} option should be an int, but got {type(value).__name__}")
    if not isinstance(timeout, numbers.Real):
        raise TypeError(f"timeout option should be a number of seconds, but got {type(timeout).__name__}")
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing."
        )
    if not float(timeout) >= 0:
        raise ValueError(f"timeout option should be non-negative, but got {timeout}")
    if not num_workers and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing. let num_workers > 0 to enable "
            "multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 1:
        raise ValueError(f"prefetch_factor option should be positive, but got {prefetch_factor}")
    if persistent_workers and not num_workers:
        raise ValueError("persistent_workers option needs num_workers > 0")


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
