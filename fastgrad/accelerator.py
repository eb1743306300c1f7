"""The accelerator, whichever there is: here, NVIDIA's GPUs. The functions are those of `fastgrad.cuda`.

Examples
--------
>>> import fastgrad as fg
>>> where = fg.accelerator.current_accelerator() if fg.accelerator.is_available() else "cpu"
>>> fg.ones(2, device=where).sum().item()
2.0
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from fastgrad import cuda, dtypes
from fastgrad.cuda import properties
from fastgrad.cuda.selection import index_of
from fastgrad.places import ACCELERATOR, as_device
from fastgrad.places import device as Device  # noqa: N812

__all__ = [
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "empty_host_cache",
    "get_device_capability",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "set_stream",
    "synchronize",
]

Function = TypeVar("Function", bound=Callable[..., Any])

is_available = cuda.is_available
device_count = cuda.device_count
empty_cache = cuda.empty_cache
memory_stats = cuda.memory_stats
memory_allocated = cuda.memory_allocated
max_memory_allocated = cuda.max_memory_allocated
memory_reserved = cuda.memory_reserved
max_memory_reserved = cuda.max_memory_reserved
device_index = cuda.device


def _needs_one(function: Function) -> Function:
    """A function that says first that there is no accelerator, if there is none."""

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if not device_count():
            try:
                cuda.init()
            except RuntimeError as error:
                raise RuntimeError(
                    f"Cannot access accelerator device when none is available. {error}"
                ) from error
        return function(*args, **kwargs)

    return checked  # type: ignore[return-value]


def current_accelerator(check_available: bool = False) -> Device | None:
    """The kind of accelerator that fastgrad knows.

    Parameters
    ----------
    check_available : bool
        Give None where there is none.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.accelerator.current_accelerator()
    device(type='cuda')
    """
    return None if check_available and not is_available() else as_device(ACCELERATOR)


@_needs_one
def current_device_index() -> int:
    """The number of the current GPU.

    Raises
    ------
    RuntimeError
        If there is none; so do the functions below.
    """
    return cuda.current_device()


def set_device_index(device: Any, /) -> None:
    """Let a GPU be the current one, on this thread; a negative number changes nothing."""
    if not isinstance(device, int) or device >= 0:
        _set_device_index(device)


@_needs_one
def _set_device_index(device: Any) -> None:
    cuda.set_device(device if isinstance(device, int) else index_of(device))


@_needs_one
def current_stream(device: Any = None, /) -> cuda.Stream:
    """The current stream of a GPU, by default of the current one."""
    return cuda.current_stream(device)


@_needs_one
def set_stream(stream: cuda.Stream) -> None:
    """Let a stream be the current one of its GPU, and that the current GPU, on this thread."""
    cuda.set_stream(stream)


@_needs_one
def synchronize(device: Any = None, /) -> None:
    """Wait until a GPU, by default the current one, has done all that it was given."""
    cuda.synchronize(device)


@_needs_one
def get_memory_info(device: Any = None, /) -> tuple[int, int]:
    """Bytes of a GPU's memory that are free for all processes, and all of them."""
    return cuda.mem_get_info(device)


@_needs_one
def reset_peak_memory_stats(device: Any = None, /) -> None:
    """Let peaks begin at what is in use now."""
    cuda.reset_peak_memory_stats(device)


@_needs_one
def reset_accumulated_memory_stats(device: Any = None, /) -> None:
    """Let counts of what was allocated and freed begin anew."""
    cuda.reset_accumulated_memory_stats(device)


@_needs_one
def get_device_capability(device: Any = None, /) -> dict[str, Any]:
    """The dtypes that a GPU computes with, as a set with the key ``supported_dtypes``."""
    properties.get_device_properties(device)
    return {"supported_dtypes": {dtypes.of_code(code) for code in properties.COMPUTED}}


def empty_host_cache() -> None:
    """Give locked memory of the host's that no tensor has back to the system.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.accelerator.empty_host_cache()
    """
    from fastgrad.cuda import pinned

    pinned.empty_cache()


current_device_idx = current_device_index
set_device_idx = set_device_index
