"""Python's `multiprocessing`, whose queues, pipes and processes take tensors as memory that both sides have.

Importing this module is enough: tensors that go through `multiprocessing` itself are sent so, too.

Examples
--------
>>> import fastgrad as fg
>>> t = fg.zeros(3).share_memory_()
>>> queue = fg.multiprocessing.SimpleQueue()
>>> queue.put(t)
>>> queue.get().add_(1)
tensor([1., 1., 1.])
>>> t
tensor([1., 1., 1.])
"""

import multiprocessing as _standard
from multiprocessing import *  # noqa: F403

from fastgrad.module_names import getattr_of as _getattr_of
from fastgrad.multiprocessing import reductions
from fastgrad.multiprocessing.reductions import init_reductions
from fastgrad.multiprocessing.spawn import (
    ProcessContext,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [
    *_standard.__all__,
    "ProcessContext",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "init_reductions",
    "reductions",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]

_STRATEGY = "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """How memory can be shared: by descriptors alone. Names would outlive a process that is killed."""
    return {_STRATEGY}


def get_sharing_strategy() -> str:
    """How memory is shared."""
    return _STRATEGY


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose how memory is shared.

    Parameters
    ----------
    new_strategy : str
        "file_descriptor".

    Raises
    ------
    AssertionError
        If it is another one.
    """
    if new_strategy not in get_all_sharing_strategies():
        raise AssertionError(
            f"invalid sharing strategy {new_strategy!r}, expected one of {get_all_sharing_strategies()}"
        )


init_reductions()

__getattr__ = _getattr_of(__name__)
