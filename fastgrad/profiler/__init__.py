"""Profiles: one timeline of ops, kernels, hooks, modules and passes."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fastgrad.absent import AbsentNameError

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


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AbsentNameError(__name__, name)
    for each, place in _PLACES.items():
        globals()[each] = getattr(import_module(f"{__name__}.{place}"), each)
    return globals()[name]
