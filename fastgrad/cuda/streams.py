"""Streams: queues of work of a GPU, which of them a thread's launches go to, and events in them.

Each thread has a current stream on each GPU, at first the default one, which all threads share; fastgrad's default
stream is one of its own and does not wait for the driver's legacy stream. Each stream has memory of its own: a tensor's
comes from the stream that was current when it was made, and goes back there. A pass backward runs on the current stream
of the thread that calls it.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from typing import Any, Self

from fastgrad.cuda.gpus import NON_BLOCKING, Gpu, attached
from fastgrad.cuda.selection import gpu_of
from fastgrad.native.contracts.cuda import NO_TIMES, NOT_READY
from fastgrad.native.host import devices
from fastgrad.native.host.hook_calls import refuse_replays
from fastgrad.places import device as Device  # noqa: N812

_IN_POOL = 32
"""Streams of a priority that a GPU has at most; then they are given out again, as in PyTorch. None is destroyed."""
_PRIORITIES = (0, -5)  # of the driver's: the lowest and the highest
_BLOCKING = 1  # a flag of an event
_lock = threading.Lock()
_pools: dict[tuple[Gpu, int], list[int]] = {}
_taken: dict[tuple[Gpu, int], int] = {}


class Stream:
    """A queue of work of a GPU.

    Streams come from a pool of 32 for each priority and are given out again when all are.

    Parameters
    ----------
    device : device, str, int or None
        The current GPU by default.
    priority : int, default 0
        The lower the number, the sooner the GPU turns to the work.
    stream_ptr : int, optional
        A stream of another library's, by its address; see `ExternalStream`.

    Raises
    ------
    RuntimeError
        If there is no such GPU.
    """

    __slots__ = ("__weakref__", "_gpu", "_within", "cuda_stream", "priority")

    _gpu: Gpu
    cuda_stream: int
    priority: int
    _within: list[StreamContext]

    def __new__(cls, device: Any = None, priority: int = 0, *, stream_ptr: int | None = None) -> Self:  # noqa: D102
        gpu = gpu_of(device)
        if isinstance(priority, bool) or not isinstance(priority, int):
            raise TypeError(f"Stream(): argument 'priority' must be int, not {type(priority).__name__}")
        if stream_ptr is not None and (isinstance(stream_ptr, bool) or not isinstance(stream_ptr, int)):
            raise TypeError(f"Stream(): argument 'stream_ptr' must be int, not {type(stream_ptr).__name__}")
        if stream_ptr is not None and not 0 < stream_ptr < 1 << 63:
            raise ValueError(
                f"Stream(): expected stream_ptr to be the address of a stream, but got {stream_ptr}; the driver's "
                "legacy stream is 1"
            )
        bounded = max(_PRIORITIES[1], min(priority, _PRIORITIES[0]))
        return cls._over(gpu, _from_pool(gpu, bounded) if stream_ptr is None else stream_ptr, bounded)

    @classmethod
    def _over(cls, gpu: Gpu, handle: int, priority: int = 0) -> Self:
        self = object.__new__(cls)
        self._gpu, self.cuda_stream, self.priority = gpu, handle, priority
        self._within = []
        return self

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The lowest priority and the highest, which is the smaller number."""
        return _PRIORITIES

    @property
    def device(self) -> Device:
        """Its GPU."""
        return Device("cuda", self._gpu.index)

    @property
    def device_index(self) -> int:
        """The number of its GPU."""
        return self._gpu.index

    @property
    def stream_id(self) -> int:
        """A number that tells it from other streams of its GPU."""
        return self.cuda_stream

    def wait_event(self, event: Event) -> None:
        """Let all that the stream is given from now on wait for an event."""
        need(event, Event, "wait_event", "event").wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Let all that the stream is given from now on wait for what another one has been given."""
        self.wait_event(need(stream, Stream, "wait_stream", "stream").record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Put an event, by default a new one, behind what the stream has been given."""
        found = Event() if event is None else need(event, Event, "record_event", "event")
        found.record(self)
        return found

    def query(self) -> bool:
        """Whether all that the stream was given is done.

        Raises
        ------
        RuntimeError
            If something went wrong in it.
        """
        return _is_done(self._gpu, "cuStreamQuery", self.cuda_stream)

    def synchronize(self) -> None:
        """Wait until all that the stream was given is done.

        Raises
        ------
        RuntimeError
            If something went wrong in it.
        """
        self._gpu.refuse_in_capture("Stream.synchronize")
        self._gpu.raise_failure("synchronize")
        self._gpu.make_current()
        self._gpu.driver.call("cuStreamSynchronize", self.cuda_stream)
        self._gpu.raise_reported()

    def __enter__(self) -> Self:
        self._within.append(StreamContext(self))
        self._within[-1].__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._within:
            self._within.pop().__exit__()

    def __cuda_stream__(self) -> tuple[int, int]:
        """The version of NVIDIA's protocol for streams, and the address."""
        return 0, self.cuda_stream

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.cuda_stream)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self._gpu is other._gpu and self.cuda_stream == other.cuda_stream

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self._gpu.index))

    def __reduce__(self) -> Any:
        raise TypeError(f"a {type(self).__name__} belongs to its process and cannot be copied or pickled")

    def __repr__(self) -> str:
        return f"<fastgrad.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A stream of another library's, which must outlive its use here.

    Parameters
    ----------
    stream_ptr : int
        Its address.
    device : device, str, int or None
        Its GPU, the current one by default.
    """

    __slots__ = ()

    def __new__(cls, stream_ptr: int, device: Any = None) -> Self:  # noqa: D102 - the class says it
        return super().__new__(cls, device, stream_ptr=stream_ptr)


def get_stream_from_external(data_ptr: int, device: Any = None) -> Stream:
    """A stream of another library's, which must outlive its use here; see `ExternalStream`."""
    return ExternalStream(data_ptr, device)


def _from_pool(gpu: Gpu, priority: int) -> int:
    """The next stream of a priority; a new one as long as there are few."""
    with _lock:
        pool = _pools.setdefault((gpu, priority), [])
        place = _taken.get((gpu, priority), 0)
        _taken[gpu, priority] = (place + 1) % _IN_POOL
        if place == len(pool):
            gpu.make_current()
            pool.append(
                gpu.driver.number("cuStreamCreateWithPriority", NON_BLOCKING, priority, kind=ctypes.c_void_p)
            )
        return pool[place]


# --- the current stream ----------------------------------------------------------------------------------------


class _Here(threading.local):
    """The streams that the calling thread has chosen, by GPU."""

    def __init__(self) -> None:
        self.streams: dict[Gpu, Stream] = {}
        self.end = _End(self.streams)


class _End:
    """What is dropped when a thread ends: then nobody launches to its streams any more."""

    def __init__(self, streams: dict[Gpu, Stream]) -> None:
        self.thread, self.streams, self.process = threading.get_ident(), streams, os.getpid()

    def __del__(self, finalizing: Any = sys.is_finalizing, process: Any = os.getpid) -> None:
        if not finalizing() and process() == self.process:
            for gpu in self.streams:
                gpu.choose(self.thread, gpu.stream)


_here = _Here()


def default_stream(device: Any = None) -> Stream:
    """The stream of a GPU, by default of the current one, that all threads begin with.

    Raises
    ------
    RuntimeError
        If there is no such GPU.
    """
    gpu = gpu_of(device)
    return Stream._over(gpu, gpu.stream)


def current_stream(device: Any = None) -> Stream:
    """The stream of a GPU, by default of the current one, that launches of the calling thread go to.

    Raises
    ------
    RuntimeError
        If there is no such GPU.
    """
    return stream_on(gpu_of(device))


def stream_on(gpu: Gpu) -> Stream:
    """The current stream of a GPU."""
    return _here.streams.get(gpu) or Stream._over(gpu, gpu.stream)


def _choose(chosen: Stream) -> None:
    refuse_replays("it chooses a stream")
    gpu = chosen._gpu
    gpu.choose(threading.get_ident(), chosen.cuda_stream)
    if chosen.cuda_stream == gpu.stream:
        _here.streams.pop(gpu, None)
    else:
        _here.streams[gpu] = chosen


def set_stream(stream: Stream | None) -> None:
    """Let launches of the calling thread on the GPU of a stream go there; None changes nothing.

    `stream` in a ``with`` statement does it for a while.
    """
    if stream is not None:
        _choose(need(stream, Stream, "set_stream", "stream"))
        devices.set_current("cuda", stream._gpu.index)


class StreamContext:
    """In a ``with`` statement: make a stream the current one of its GPU, and that the current GPU, on this thread.

    Parameters
    ----------
    stream : Stream or None
        None changes nothing.
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream = None if stream is None else need(stream, Stream, "stream", "stream")
        self._before: list[tuple[Stream, int]] = []

    def __enter__(self) -> None:
        if self.stream is not None:
            before = stream_on(self.stream._gpu)
            _choose(self.stream)
            self._before.append((before, devices.set_current("cuda", self.stream._gpu.index)))

    def __exit__(self, *_: object) -> None:
        if self._before:
            before, index = self._before.pop()
            _choose(before)
            devices.set_current("cuda", index)


def stream(stream: Stream | None) -> StreamContext:
    """Make a stream the current one in a ``with`` statement; see `StreamContext`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> with fg.cuda.stream(None):
    ...     x = fg.ones(2)
    """
    return StreamContext(stream)


def carried() -> list[Stream]:
    """What the calling thread has chosen, for `carry_over`."""
    return list(_here.streams.values()) if attached() else []


def carry_over(streams: list[Stream]) -> None:
    """Let the calling thread choose what another one had."""
    for chosen in streams:
        _choose(chosen)


# --- events ----------------------------------------------------------------------------------------------------


class Event:
    """A mark in a stream: whether the work before it is done, and when it was.

    Parameters
    ----------
    enable_timing : bool
        Note the time, for `elapsed_time`.
    blocking : bool
        Let a thread that waits sleep.
    interprocess, external : bool
        Not supported.

    Raises
    ------
    NotImplementedError
        For an event of several processes.
    RuntimeError
        If there is no GPU.
    """

    __slots__ = ("__weakref__", "_capture", "_flags", "_gpu", "_handle", "_process")

    _capture: (
        int  # that it was recorded in last, or 0: launches are captured in order, so it has nothing to do
    )

    _flags: int
    _gpu: Gpu | None
    _handle: int
    _process: int

    def __new__(  # noqa: D102 - the class says it
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> Self:
        if interprocess or external:
            raise NotImplementedError(
                "Event(): events of several processes or of captured graphs are not supported; leave interprocess and "
                "external off"
            )
        gpu_of()
        self = object.__new__(cls)
        self._flags = (0 if enable_timing else NO_TIMES) | (_BLOCKING if blocking else 0)
        self._gpu, self._handle, self._process = None, 0, os.getpid()
        self._capture = 0
        return self

    @property
    def cuda_event(self) -> int:
        """The driver's handle; 0 before the event was recorded."""
        return self._handle

    @property
    def device(self) -> Device | None:
        """The GPU where it was recorded."""
        return None if self._gpu is None else Device("cuda", self._gpu.index)

    def record(self, stream: Stream | None = None) -> None:
        """Put the event behind what a stream, by default the current one, has been given.

        Raises
        ------
        RuntimeError
            If it was recorded on another GPU before.
        """
        where = stream_on(gpu_of()) if stream is None else need(stream, Stream, "record", "stream")
        gpu = where._gpu
        refuse_replays("it records an event")
        gpu.raise_failure("record")
        if self._gpu is not None and self._gpu is not gpu:
            raise RuntimeError(
                f"Event device {self._gpu.index} does not match recording stream's device {gpu.index}."
            )
        self._capture = gpu.capture_number()
        if self._capture:
            self._gpu = gpu
            return
        gpu.make_current()
        if not self._handle:
            self._handle = gpu.driver.number("cuEventCreate", self._flags, kind=ctypes.c_void_p)
            self._gpu = gpu
        gpu.driver.call("cuEventRecord", self._handle, where.cuda_stream)

    def wait(self, stream: Stream | None = None) -> None:
        """Let all that a stream, by default the current one, is given from now on wait for the event."""
        where = stream_on(gpu_of()) if stream is None else need(stream, Stream, "wait", "stream")
        refuse_replays("it lets a stream wait for an event")
        capture = where._gpu.capture_number()
        if self._gpu is not None and capture and self._capture != capture:
            raise RuntimeError(
                "CUDA error: dependency created on uncaptured work in another stream, in wait: the event was recorded "
                "outside the capture; wait for it before that begins"
            )
        self._refuse_captured("wait", capture)
        if self._handle and not capture:
            where._gpu.raise_failure("wait")
            where._gpu.make_current()
            where._gpu.driver.call("cuStreamWaitEvent", where.cuda_stream, self._handle, 0)

    def query(self) -> bool:
        """Whether the work before the event is done; an event that was never recorded has none.

        Raises
        ------
        RuntimeError
            If something went wrong in it.
        """
        self._refuse_captured("query")
        return self._gpu is None or _is_done(self._gpu, "cuEventQuery", self._handle)

    def synchronize(self) -> None:
        """Wait until the work before the event is done.

        Raises
        ------
        RuntimeError
            If something went wrong in it.
        """
        self._refuse_captured("synchronize")
        if self._gpu is not None:
            self._gpu.refuse_in_capture("Event.synchronize")
            self._gpu.raise_failure("synchronize")
            self._gpu.make_current()
            self._gpu.driver.call("cuEventSynchronize", self._handle)
            self._gpu.raise_reported()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another one.

        Raises
        ------
        ValueError
            If one of them takes no times, or was not recorded.
        RuntimeError
            If one of them is not done yet.
        """
        end = need(end_event, Event, "elapsed_time", "end_event")
        if (self._flags | end._flags) & NO_TIMES:
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        self._refuse_captured("elapsed_time")
        end._refuse_captured("elapsed_time")
        if self._gpu is None or end._gpu is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not self.query() or not end.query():
            raise RuntimeError(
                "CUDA error: device not ready: both events must be done; call synchronize() on the second one first"
            )
        found = ctypes.c_float()
        self._gpu.make_current()
        self._gpu.driver.call("cuEventElapsedTime", ctypes.addressof(found), self._handle, end._handle)
        return found.value

    def _refuse_captured(self, what: str, capture: int = 0) -> None:
        """Raise if it was recorded last in a capture, other than one that is under way."""
        if self._capture and self._capture != capture:
            raise RuntimeError(
                f"CUDA error: operation not permitted on an event last recorded in a capturing stream, in {what}; "
                "record it again"
            )

    def __del__(self, finalizing: Any = sys.is_finalizing, process: Any = os.getpid) -> None:
        gpu = getattr(self, "_gpu", None)
        if gpu is not None and self._handle and not finalizing() and process() == self._process:
            gpu.driver.ask("cuCtxSetCurrent", gpu.context)
            gpu.driver.ask("cuEventDestroy", self._handle)

    def __reduce__(self) -> Any:
        raise TypeError(f"a {type(self).__name__} belongs to its process and cannot be copied or pickled")

    def __repr__(self) -> str:
        if not self._handle:
            return "<fastgrad.cuda.Event uninitialized>"
        return f"<fastgrad.cuda.Event {self._handle:#x}>"


def _is_done(gpu: Gpu, function: str, handle: int) -> bool:
    gpu.refuse_in_capture("query")
    gpu.raise_failure("query")
    gpu.make_current()
    code = gpu.driver.ask(function, handle)
    if code not in (0, NOT_READY):
        raise gpu.driver.error(code, "query")
    return code == 0


def need(value: Any, kind: type, name: str, argument: str) -> Any:
    """The value, if it is a stream or an event, whichever is wanted; a TypeError naming the argument otherwise."""
    if not isinstance(value, kind):
        raise TypeError(
            f"{name}(): argument '{argument}' must be fastgrad.cuda.{kind.__name__}, not {type(value).__name__}"
        )
    return value
