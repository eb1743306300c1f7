"""Memory of GPUs: what is in use, what is kept, and giving it back.

Numbers are those of the memory that fastgrad has from the driver. A device that is not named is the current GPU.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from typing import Any

from fastgrad import module_names
from fastgrad.cuda import gpus, later
from fastgrad.cuda.selection import gpu_of

_KEYS = {
    "allocated_bytes.all.current": "allocated", "allocated_bytes.all.peak": "allocated_peak",
    "requested_bytes.all.current": "requested", "requested_bytes.all.peak": "requested_peak",
    "reserved_bytes.all.current": "reserved", "reserved_bytes.all.peak": "reserved_peak",
    "active.all.current": "active", "active.all.peak": "active_peak",
    "allocation.all.allocated": "allocations", "allocation.all.freed": "frees",
    "segment.all.current": "segments", "segment.all.peak": "segments_peak",
    "segment.all.allocated": "segments_made", "segment.all.freed": "segments_freed",
    "num_alloc_retries": "retries", "num_ooms": "failures",
    "num_device_alloc": "segments_made", "num_device_free": "segments_freed",
}  # fmt: skip
"""PyTorch's names of what `Gpu.statistics` counts."""
_ACCUMULATED = tuple(key for key in _KEYS if not key.endswith((".current", ".peak")))


def memory_stats(device: Any = None) -> OrderedDict[str, int]:
    """What the memory of a GPU is used for, by PyTorch's names; empty before a GPU is used.

    ``allocated_bytes`` is held by tensors, ``requested_bytes`` of it was asked for, ``reserved_bytes`` are fastgrad's
    in all; ``active`` counts blocks that tensors hold or other streams still use, ``segment`` the pieces that the
    driver gave. Of these there are ``.all.current`` and ``.all.peak``; there is no division into pools.

    Parameters
    ----------
    device : device, str, int or None

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.cuda.memory_stats().get("num_ooms", 0)
    0
    """
    if not gpus.is_attached():
        return OrderedDict()
    gpu = gpu_of(device)
    found = gpu.statistics()
    stats = {key: found[name] - gpu.counted_before.get(key, 0) for key, name in _KEYS.items()}
    stats["allocation.all.current"] = found["allocations"] - found["frees"]
    return OrderedDict(sorted(stats.items()))


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors hold on a GPU; 0 before one is used.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.cuda.memory_allocated()
    0
    """
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors held on a GPU since the beginning, or since `reset_peak_memory_stats`."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: Any = None) -> int:
    """Bytes that fastgrad has from the driver: what tensors hold, and what is kept for others to come."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that fastgrad had from the driver since the beginning, or since `reset_peak_memory_stats`."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let peaks begin at what is in use now.

    Raises
    ------
    RuntimeError
        If there is no such GPU.
    """
    gpu_of(device).reset_peaks()


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Let what `memory_stats` counts since the beginning, such as ``allocation.all.allocated``, begin at 0.

    Raises
    ------
    RuntimeError
        If there is no such GPU.
    """
    gpu = gpu_of(device)
    found = gpu.statistics()
    gpu.counted_before = {key: found[_KEYS[key]] for key in _ACCUMULATED}


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """What `memory_stats` says, with a dictionary for each part of a name.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.cuda.memory_stats_as_nested_dict().get("num_ooms", 0)
    0
    """
    nested: dict[str, Any] = {}
    for name, number in memory_stats(device).items():
        *outer, last = name.split(".")
        inner = nested
        for part in outer:
            inner = inner.setdefault(part, {})
        inner[last] = number
    return nested


def get_allocator_backend() -> str:
    """``"native"``: memory comes from an allocator of fastgrad's own, and there is no other.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.cuda.get_allocator_backend()
    'native'
    """
    return "native"


def reset_max_memory_allocated(device: Any = None) -> None:
    """An older name of `reset_peak_memory_stats`, with PyTorch's warning."""
    _warn_of_peaks("reset_max_memory_allocated")
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: Any = None) -> None:
    """Another older name of `reset_peak_memory_stats`, with PyTorch's warning."""
    _warn_of_peaks("reset_max_memory_cached")
    reset_peak_memory_stats(device)


def memory_cached(device: Any = None) -> int:
    """The older name of `memory_reserved`, with PyTorch's warning."""
    _warn_of_name("memory_cached", "memory_reserved")
    return memory_reserved(device)


def max_memory_cached(device: Any = None) -> int:
    """The older name of `max_memory_reserved`, with PyTorch's warning."""
    _warn_of_name("max_memory_cached", "max_memory_reserved")
    return max_memory_reserved(device)


def _warn_of_peaks(name: str) -> None:
    package = f"{module_names.shown}.cuda"
    warnings.warn(
        f"{package}.{name} now calls {package}.reset_peak_memory_stats, which resets all peaks",
        FutureWarning,
        stacklevel=3,
    )


def _warn_of_name(old: str, new: str) -> None:
    package = f"{module_names.shown}.cuda"
    warnings.warn(f"`{package}.{old}` has been renamed to `{package}.{new}`", FutureWarning, stacklevel=3)


def empty_cache() -> None:
    """Give memory that no tensor holds back to the driver, on all GPUs; does nothing before one is used.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.cuda.empty_cache()
    """
    if gpus.is_attached():
        later.settle()
        for gpu in gpus.attached():
            gpu.empty_cache()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Bytes of a GPU's memory that are free for all processes, and all of them.

    Raises
    ------
    RuntimeError
        If there is no such GPU.
    """
    return gpu_of(device).memory()


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Let fastgrad have no more than a part of a GPU's memory; beyond it there is an `OutOfMemoryError`.

    Parameters
    ----------
    fraction : float
        From 0 to 1.
    device : device, str, int or None

    Raises
    ------
    TypeError, ValueError
        If the fraction is none.
    RuntimeError
        If there is no such GPU.
    """
    if isinstance(fraction, bool) or not isinstance(fraction, (int, float)):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    gpu = gpu_of(device)
    gpu._set("limit", 0 if fraction == 1 else max(1, int(fraction * gpu.memory()[1])))


def get_per_process_memory_fraction(device: Any = None) -> float:
    """The part of a GPU's memory that fastgrad may have."""
    gpu = gpu_of(device)
    limit = gpu.read("limit")
    return limit / gpu.memory()[1] if limit else 1.0


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """What the memory of a GPU is used for, as a table to read.

    Parameters
    ----------
    device : device, str, int or None
    abbreviated : bool
        Without the counts of blocks and segments.

    Raises
    ------
    RuntimeError
        If there is no such GPU.
    """
    gpu = gpu_of(device)
    found = gpu.statistics()
    rows = [("held by tensors", "allocated"), ("asked for", "requested"), ("reserved", "reserved")]
    lines = [
        f"{f'fastgrad on GPU {gpu.index}, {gpu.name}':^60}",
        f"out of memory: {found['failures']}, retries: {found['retries']}",
        f"{'':<20}{'now':>20}{'at most':>20}",
        *(f"{title:<20}{_size(found[key]):>20}{_size(found[f'{key}_peak']):>20}" for title, key in rows),
    ]
    if not abbreviated:
        for title, key in (("blocks in use", "active"), ("segments", "segments")):
            lines.append(f"{title:<20}{found[key]:>20}{found[f'{key}_peak']:>20}")
    return "\n".join(lines) + "\n"


def _size(count: int) -> str:
    return f"{count / (1 << 20):.2f} MiB" if count >= 1 << 20 else f"{count / 1024:.1f} KiB"
