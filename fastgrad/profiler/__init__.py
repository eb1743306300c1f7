"""Profiles: one timeline of ops, kernels, hooks, modules and passes."""

from fastgrad.profiler.events import EventList, FunctionEvent, FunctionEventAvg, Interval
from fastgrad.profiler.profile import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)
from fastgrad.profiler.ranges import record_function

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
