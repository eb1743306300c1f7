"""The profile as programs ask for it: what is recorded, in which steps, and what becomes of it."""

from __future__ import annotations

import enum
import json
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from fastgrad.native.build.loader import ContextBase, rt, runtime_get, runtime_set_object
from fastgrad.native.contracts.flags import PROFILE_SETTING
from fastgrad.native.contracts.profiles import (
    PROFILE_MEMORY,
    PROFILE_MODULES,
    PROFILE_SHAPES,
    PROFILE_STACK,
)
from fastgrad.profiler.events import EventList, FunctionEventAvg
from fastgrad.profiler.reading import Written
from fastgrad.profiler.trace import as_trace, write


class ProfilerActivity(enum.Enum):
    """What can be looked at."""

    CPU = 0
    CUDA = 1


class ProfilerAction(enum.Enum):
    """What a profile does in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities() -> set[ProfilerActivity]:
    """What can be looked at here: the CPU; launches of kernels on GPUs are a part of what it does."""
    return {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Which steps are recorded: after `skip_first` steps, cycles that wait, warm up and record.

    Parameters
    ----------
    wait, warmup, active : int
        How many steps of each there are in a cycle. In steps of warm-up nothing is recorded.
    repeat : int
        How many cycles there are; 0 for no end.
    skip_first : int
        Steps before the first cycle.
    skip_first_wait : int
        If not 0, the first cycle does not wait.

    Raises
    ------
    ValueError
        If one is negative, or `active` zero.

    Examples
    --------
    >>> from fastgrad.profiler import schedule
    >>> plan = schedule(wait=1, warmup=1, active=2, repeat=1)
    >>> [plan(step).name for step in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    given = {"wait": wait, "warmup": warmup, "active": active, "repeat": repeat, "skip_first": skip_first}
    if active <= 0 or min(given.values()) < 0:
        raise ValueError(
            f"Invalid profiler schedule arguments: {', '.join(f'{k}={v}' for k, v in given.items())}; active must be "
            "positive, the others not negative"
        )
    if warmup == 0:
        warnings.warn("Profiler won't be using warmup, this can skew profiler results", stacklevel=2)

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise ValueError(f"a step is not negative, but got {step}")
        if step < skip_first:
            return ProfilerAction.NONE
        step += (wait if skip_first_wait else 0) - skip_first
        length = wait + warmup + active
        if repeat > 0 and step >= repeat * length:
            return ProfilerAction.NONE
        within = step % length
        if within < wait:
            return ProfilerAction.NONE
        if within < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if within < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """What `on_trace_ready` may be: it writes each trace to a file of its own in a folder.

    Parameters
    ----------
    dir_name : str
        The folder; it is made if it is missing.
    worker_name : str, optional
        The beginning of the name; by default host and process.
    use_gzip : bool
        Whether files are packed.
    """

    def handler(prof: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return handler


def _always(_step: int) -> ProfilerAction:
    return ProfilerAction.RECORD


class profile(ContextBase):  # noqa: N801 - a context manager
    """Record what happens in the block, on all threads, or in the steps that a schedule says.

    Parameters
    ----------
    activities : iterable of ProfilerActivity, optional
        What to look at; the CPU is always looked at. Launches of kernels on GPUs are timed on the host.
    schedule : callable, optional
        From the number of a step to a `ProfilerAction`; by default all is recorded. `step` ends a step.
    on_trace_ready : callable, optional
        Is called with the profile whenever events are ready.
    record_shapes : bool
        Note sizes and dtypes of operands.
    profile_memory : bool
        Count allocations, and show bytes in tables and traces.
    with_stack : bool
        Note the Python functions that are being called.
    with_flops : bool
        Not supported.
    with_modules : bool
        Note calls of modules, and what of a backward pass belongs to which.
    acc_events : bool
        Keep the events of earlier cycles of the schedule.

    Raises
    ------
    RuntimeError
        On entry, if a profile is on.
    NotImplementedError
        For `with_flops`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.profiler import profile
    >>> x = fg.ones(3, requires_grad=True)
    >>> with profile(record_shapes=True) as prof:
    ...     (x * 2).sum().backward()
    >>> [e.name for e in prof.events() if e.category == "cpu_op"][:2]
    ['mul', 'sum']
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        acc_events: bool = False,
    ) -> None:
        wanted = {ProfilerActivity.CPU} if activities is None else set(activities)
        if not wanted or not all(isinstance(a, ProfilerActivity) for a in wanted):
            raise ValueError("profile(): activities must be some of ProfilerActivity")
        if with_flops:
            raise NotImplementedError("profile(): with_flops is not supported")
        for name, value in (("schedule", schedule), ("on_trace_ready", on_trace_ready)):
            if value is not None and not callable(value):
                raise TypeError(f"profile(): {name} must be callable, but got {type(value).__name__}")
        if ProfilerActivity.CUDA in wanted:
            warnings.warn(
                "profile(): kernels on GPUs are timed by their launch on the host, not on the GPU",
                stacklevel=2,
            )
        self._setting = 1 + PROFILE_SETTING
        self._gives_self = 1
        self.activities = wanted
        self.on_trace_ready = on_trace_ready
        self.record_shapes = bool(record_shapes)
        self.profile_memory = bool(profile_memory)
        self.with_stack = bool(with_stack)
        self.with_modules = bool(with_modules)
        self.step_num = 0
        self.current_action = ProfilerAction.NONE
        self._schedule = schedule or _always
        self._with_steps = schedule is not None
        self._acc_events = bool(acc_events)
        self._asked = (
            PROFILE_SHAPES * self.record_shapes
            | PROFILE_STACK * self.with_stack
            | PROFILE_MEMORY * self.profile_memory
            | PROFILE_MODULES * self.with_modules
        )
        self._entered = False
        self._objects: list[Any] = []
        self._written: list[Written] = []
        self._read: EventList | None = None
        self._metadata: dict[str, Any] = {}
        self._step_token = 0

    # --- from the beginning to the end -------------------------------------------------------------------------

    def _entering(self) -> list[Any] | None:
        """What the runtime asks before it begins: the list for the objects of events, None if nothing is recorded."""
        if self._entered or runtime_get("profile"):
            raise RuntimeError("a profile is under way already: profiles cannot be nested")
        self.step_num = 0
        self.current_action = self._action(0)
        self._written.clear()
        self._read = None
        self._entered = True
        self._objects = [self._asked]
        return self._objects if self.current_action in RECORDING else None

    def _left(self) -> None:
        """What the runtime calls when it has ended."""
        self._entered = False
        before, self.current_action = self.current_action, ProfilerAction.NONE
        if before in RECORDING:
            if self._collect():
                self._ready()
        else:
            rt.profiled(self)  # nothing, unless an exception came before `step` could take it

    def _action(self, step: int) -> ProfilerAction:
        action = self._schedule(step)
        if not isinstance(action, ProfilerAction):
            raise TypeError(f"a schedule gives a ProfilerAction, but got {type(action).__name__}")
        return action

    def _collect(self) -> bool:
        """Take what was recorded, and record no further. Whether it was there: an exception within `step`, or a profile
        that began on another thread at once, may have taken it away, which those say that ask for events.
        """
        pair = rt.profiled(self)
        objects, self._objects = self._objects, []
        if pair is None:
            self._written.clear()
            self._read = None
            return False
        if not self._acc_events:
            self._written.clear()
        self._written.append(Written(pair[0], pair[1], objects))
        self._read = None
        return True

    def _ready(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def start(self) -> None:
        """Begin, as the block does."""
        self.__enter__()

    def stop(self) -> None:
        """End, as the block does."""
        if not self._entered:
            raise RuntimeError("the profile is not under way: start() comes before stop()")
        self.__exit__(None, None, None)

    def step(self) -> None:
        """End a step of the program, and begin the next one.

        Raises
        ------
        RuntimeError
            If the profile is not under way.
        """
        if not self._entered:
            raise RuntimeError("the profile is not under way: step() belongs into the block")
        before = self.current_action
        after = self._action(self.step_num + 1)
        self.step_num += 1
        self.current_action = after
        rt.end_range(self._step_token)
        if before is ProfilerAction.RECORD_AND_SAVE or (before in RECORDING and after not in RECORDING):
            if before is ProfilerAction.RECORD:
                warnings.warn("Incorrect schedule: RECORD followed by a step without recording", stacklevel=2)
            if self._collect() and before is ProfilerAction.RECORD_AND_SAVE:
                self._ready()
        if after in RECORDING and runtime_get("profile_owner") != id(self):
            self._objects = [self._asked]
            rt.profile_again(self, self._objects)
        if self._with_steps and after in RECORDING:
            self._step_token = rt.begin_range(f"ProfilerStep#{self.step_num}")

    # --- what it found -----------------------------------------------------------------------------------------

    def _known(self) -> EventList:
        if not self._written:
            raise RuntimeError(
                "the profile holds no events: it has not ended, recorded nothing, or was interrupted while it took them"
            )
        if self._read is None:
            found = [event for written in self._written for event in written.read()]
            for number, event in enumerate(found):
                event.id = number
            self._read = EventList(found, profile_memory=self.profile_memory, with_stack=self.with_stack)
        return self._read

    def events(self) -> EventList:
        """All events in the order of time.

        Raises
        ------
        RuntimeError
            If there are none, because the profile has not ended.
        """
        return self._known()

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """The events of each name, added up; see `EventList.key_averages`.

        Raises
        ------
        RuntimeError
            As `events`, and if the profile did not note what they are to be kept apart by.
        """
        if group_by_input_shape and not self.record_shapes:
            raise RuntimeError("key_averages(group_by_input_shape=True) needs profile(record_shapes=True)")
        if group_by_stack_n and not self.with_stack:
            raise RuntimeError("key_averages(group_by_stack_n=...) needs profile(with_stack=True)")
        return self._known().key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> FunctionEventAvg:
        """All events, added up."""
        return self._known().total_average()

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events in Chrome's format, which https://ui.perfetto.dev opens, packed for a path in ``.gz``."""
        events = self._known()
        threads = {ident: name for w in self._written for ident, name in w.threads.items()}
        write(as_trace(events, threads, self._written[-1].epoch, self.profile_memory, self._metadata), path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write stacks with times; see `EventList.export_stacks`."""
        self._known().export_stacks(path, metric)

    def add_metadata(self, key: str, value: str) -> None:
        """Let a text stand in the trace."""
        self._metadata[_name(key)] = str(value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """Let what a text of JSON says stand in the trace."""
        self._metadata[_name(key)] = json.loads(value)


def _name(key: str) -> str:
    if not isinstance(key, str) or key == "traceEvents":
        raise ValueError(f"metadata needs a name of its own, but got {key!r}")
    return key


runtime_set_object("left_name", "_left")
os.register_at_fork(after_in_child=rt.forget_profile)
