"""What has to wait until streams are done with it: memory of the host's or of another library's."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Iterable

from fastgrad.cuda.gpus import Gpu, is_attached
from fastgrad.native.contracts.cuda import NO_TIMES, NOT_READY

_waiting: deque[tuple[list[tuple[Gpu, int]], Callable[[], None]]] = (
    deque()
)  # no lock: destructors come at any time


def after(streams: Iterable[tuple[Gpu, int]], action: Callable[[], None]) -> None:
    """Call a function once streams have done what they have been given by now; at once if they have.

    Parameters
    ----------
    streams : iterable of GPU and handle
    action : callable
        Called by whoever comes by later (`settle`), on any thread. It must not raise.
    """
    events = []
    if is_attached():
        for gpu, stream in streams:
            if not gpu.read("failed"):
                events.append((gpu, _event_in(gpu, stream)))
    if not _are_done(events):
        _waiting.append((events, action))
    else:
        action()


def _event_in(gpu: Gpu, stream: int) -> int:
    """An event behind what a stream was given, 0 if the host had to wait instead."""
    gpu.make_current()
    made = ctypes.c_void_p()
    if gpu.driver.ask("cuEventCreate", ctypes.addressof(made), NO_TIMES) == 0:
        if gpu.driver.ask("cuEventRecord", made, stream) == 0:
            return made.value or 0
        gpu.driver.ask("cuEventDestroy", made)
    gpu.driver.ask("cuStreamSynchronize", stream)
    return 0


def _are_done(events: list[tuple[Gpu, int]]) -> bool:
    """Whether events are over; those that are leave the list. What went wrong before one is over as well."""
    while events:
        gpu, event = events[-1]
        if event and is_attached():
            gpu.driver.ask("cuCtxSetCurrent", gpu.context)
            if gpu.driver.ask("cuEventQuery", event) == NOT_READY:
                return False
            gpu.driver.ask("cuEventDestroy", event)
        events.pop()
    return True


def settle() -> None:
    """Call what has waited long enough."""
    for _ in range(len(_waiting)):
        try:
            events, action = _waiting.popleft()
        except IndexError:  # another thread was faster
            return
        if _are_done(events):
            action()
        else:
            _waiting.append((events, action))
