"""What worker processes know of themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What `get_worker_info` tells a worker of itself.

    Attributes
    ----------
    id : int
        Its number, from 0 on.
    num_workers : int
    seed : int
        Of its random numbers.
    dataset : Dataset
        Its copy.
    rng : None
        Generators of its own has only a worker that is a thread, and there is none.
    worker_method : str
        "multiprocessing".
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str | None = "multiprocessing"


current: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker of a `DataLoader`, its number and what else there is to know of it; None elsewhere.

    Examples
    --------
    >>> get_worker_info() is None
    True
    """
    return current
