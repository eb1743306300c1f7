"""How many threads large kernels run on."""

from __future__ import annotations

import atexit
import math
import os
from pathlib import Path

from fastgrad import flags
from fastgrad.native.build.loader import rt, runtime_get, runtime_set
from fastgrad.native.contracts.limits import MAX_THREADS

PART_WORK = 1 << 15
"""Elements, or as much work, of the smallest part of a launch: some ten microseconds."""


def usable_processors() -> set[int]:
    """The logical processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def usable_cores() -> int:
    """How many physical cores this process may use: its affinity and the limits of its control group count."""
    cores = {_core(cpu) for cpu in usable_processors()}
    return max(1, math.ceil(min(len(cores), _quota())))


def _core(cpu: int) -> tuple[str, ...]:
    """Which core a logical processor belongs to; itself, where the system does not say."""
    folder = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
    try:
        return tuple((folder / name).read_text() for name in ("physical_package_id", "core_id"))
    except OSError:
        return (str(cpu),)


def _quota() -> float:
    """How many processors' time the control group allows."""
    group = Path("/sys/fs/cgroup")
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota = (group / "cpu/cpu.cfs_quota_us").read_text()
            period = (group / "cpu/cpu.cfs_period_us").read_text()
        return int(quota) / int(period) if int(quota) > 0 else math.inf
    except (OSError, ValueError):  # there is no group, or no limit
        return math.inf


def set_num_threads(num_threads: int) -> None:
    """Let kernels over many elements run on so many threads, the calling thread among them.

    Results do not depend on this number.

    Parameters
    ----------
    num_threads : int
        At least 1; more than 256 are as many as 256.

    Raises
    ------
    RuntimeError
        If it is no int, or not positive.

    Examples
    --------
    >>> import fastgrad as fg
    >>> before = fg.get_num_threads()
    >>> fg.set_num_threads(1)
    >>> fg.get_num_threads()
    1
    >>> fg.set_num_threads(before)
    """
    # PyTorch's class of error for both.
    if not isinstance(num_threads, int) or isinstance(num_threads, bool):
        raise RuntimeError(f"set_num_threads expects an int, but got {type(num_threads).__name__}")
    if num_threads <= 0:
        raise RuntimeError(f"set_num_threads expects a positive integer, but got {num_threads}")
    rt.use_threads(min(num_threads, MAX_THREADS))


def get_num_threads() -> int:
    """How many threads kernels over many elements run on.

    By default as many as there are physical cores that the process may use, or ``FASTGRAD_NUM_THREADS``.

    Returns
    -------
    int

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.get_num_threads() >= 1
    True
    """
    return runtime_get("n_threads")


def install() -> None:
    """Set up the pool of this process; its threads come when they are first needed, and end with it."""
    runtime_set("part_work", PART_WORK)
    set_num_threads(flags.NUM_THREADS or usable_cores())
    os.register_at_fork(after_in_child=rt.forget_workers)
    atexit.register(rt.use_threads, 1)
