"""Profiles: one timeline of ops, kernels, hooks, modules and passes."""

from typing import TYPE_CHECKING

from fastgrad.module_names import getattr_of as _getattr_of

if TYPE_CHECKING:
    from fastgrad.profiler.events import EventList, FunctionEvent, FunctionEventAvg, Interval
    from fastgrad.profiler.ranges import record_function
    from fastgrad.profiler.recorded import (
        ProfilerAction,
        ProfilerActivity,
        profile,
        schedule,
        supported_activities,
        tensorboard_trace_handler,
    )

__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

_PLACES = (
    dict.fromkeys(__all__[:4], "events")
    | dict.fromkeys(__all__[4:], "recorded")
    | {"record_function": "ranges"}
)

__getattr__ = _getattr_of(__name__, _PLACES)
