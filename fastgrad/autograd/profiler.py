"""`fastgrad.profiler` under the names of PyTorch's older interface."""

from __future__ import annotations

import os
from typing import Any

from fastgrad.profiler import EventList, FunctionEvent, FunctionEventAvg, record_function
from fastgrad.profiler import profile as _profile

__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "emit_itt",
    "emit_nvtx",
    "profile",
    "record_function",
]


class profile:  # noqa: N801 - a context manager
    """Record what happens in the block: `fastgrad.profiler.profile` without a schedule, whose events it has itself.

    Parameters
    ----------
    enabled : bool
        Whether anything is recorded.
    record_shapes, profile_memory, with_stack, with_modules : bool
        As there.

    Examples
    --------
    >>> import fastgrad as fg
    >>> with fg.autograd.profiler.profile() as prof:
    ...     _ = fg.ones(2) * 2
    >>> "mul" in prof.table()
    True
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
    ) -> None:
        self.enabled = bool(enabled)
        self._profile = _profile(
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_modules=with_modules,
        )

    def __enter__(self) -> profile:
        if self.enabled:
            self._profile.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self.enabled:
            self._profile.__exit__(*error)

    @property
    def function_events(self) -> EventList:
        """The events."""
        return self._profile.events()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events, each counted once."""
        return self.function_events.self_cpu_time_total

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """The events of each name, added up."""
        return self._profile.key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> FunctionEventAvg:
        """All events, added up."""
        return self._profile.total_average()

    def table(self, *args: Any, **kwargs: Any) -> str:
        """A table of the events; see `EventList.table`."""
        return self.function_events.table(*args, **kwargs)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events in Chrome's format."""
        self._profile.export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write stacks with times."""
        self._profile.export_stacks(path, metric)


def emit_nvtx(*_: Any, **__: Any) -> Any:
    """Refuse: there are no ranges of NVTX.

    Raises
    ------
    NotImplementedError
        Always.
    """
    raise NotImplementedError(
        "emit_nvtx() is not supported: ranges are in the trace of fastgrad.profiler.profile"
    )


def emit_itt(*_: Any, **__: Any) -> Any:
    """Refuse: there are no ranges of ITT.

    Raises
    ------
    NotImplementedError
        Always.
    """
    raise NotImplementedError(
        "emit_itt() is not supported: ranges are in the trace of fastgrad.profiler.profile"
    )
