"""Looking into the runtime: live counts, memory, the environment."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from fastgrad import flags
from fastgrad._version import __version__
from fastgrad.native.build import cache, processors
from fastgrad.native.build.loader import rt, runtime_get, runtime_set
from fastgrad.native.contracts.records import KIND_NAMES
from fastgrad.native.host import devices, threads


def live() -> dict[str, int]:
    """The numbers of live native records and the bytes of their buffers.

    Returns
    -------
    dict
        ``storages``, ``tensors``, ``nodes``, ``tasks``, ``tapes`` and ``bytes``.

    Examples
    --------
    >>> import fastgrad as fg
    >>> before = fg.debug.live()["tensors"]
    >>> x = fg.zeros(3)
    >>> fg.debug.live()["tensors"] - before
    1
    """
    counts = {name: runtime_get("live", k) for k, name in enumerate(KIND_NAMES)}
    counts["bytes"] = runtime_get("live_bytes")
    return counts


def memory() -> dict[str, int]:
    """Bytes in use, bytes at the highest point since `reset_peak`, and bytes kept for reuse."""
    return {name: runtime_get(f"{name}_bytes") for name in ("live", "peak", "cached")}


def reset_peak() -> None:
    """Let the highest point start from what is in use now."""
    runtime_set("peak_bytes", runtime_get("live_bytes"))


def empty_cache() -> int:
    """Give buffers that are kept for reuse back to the system; returns their bytes."""
    return rt.empty_cache()  # type: ignore[no-any-return]


def set_memory_limit(nbytes: int | None) -> None:
    """Make allocations beyond this many live bytes fail with MemoryError; None lifts the limit."""
    rt.limit_memory(nbytes or 0)


def check() -> None:
    """Raise RuntimeError if a kernel was found to have written outside its buffer (debug mode looks)."""
    count = runtime_get("overruns")
    if count:
        runtime_set("overruns", 0)
        raise RuntimeError(f"{count} buffers were found overwritten at their ends when they were freed")


def _count(files: Sequence[Path]) -> str:
    """How many files there are, and how large."""
    return f"{len(files)} files, {sum(f.stat().st_size for f in files) / 1024:.0f} KiB"


def environment() -> dict[str, dict[str, str]]:
    """Versions, processor, libraries, cache and devices, by topic, as text."""
    import importlib.metadata

    import numpy as np

    from fastgrad.kernels.cpu.gemm import describe_blas

    processor = processors.host()
    notable = [f for f in ("sse4.2", "avx", "avx2", "fma", "avx512f", "neon", "sve") if processor.has(f)]
    folder = cache.place().folder
    files = list(folder.glob("*.o")) if folder is not None else []
    installed = list(cache.packaged().glob("*.o"))
    trouble = cache.trouble()
    return {
        "versions": {
            "fastgrad": __version__,
            "python": platform.python_version(),
            "numba": importlib.metadata.version("numba"),
            "llvmlite": importlib.metadata.version("llvmlite"),
            "numpy": np.__version__,
        },
        "processor": {
            "name": processor.name,
            "features": " ".join(notable),
            "cores": str(os.cpu_count()),
        },
        "libraries": {
            "matrix products": describe_blas(),
            "threads": f"{threads.get_num_threads()} for large kernels, of {threads.usable_cores()} usable cores",
        },
        "cache": {
            "folder": str(folder or "none"),
            "new code": f"not kept: {trouble}" if trouble else "kept",
            "compiled": _count(files),
            "with the package": _count(installed),
        },
        "devices": dict.fromkeys(devices.NAMES, "available"),
        "mode": {"debug": "on" if flags.DEBUG else "off", "platform": sys.platform},
    }
