"""Contexts of the driver without a GPU: which one is current on a thread, and what is refused because of it."""

from __future__ import annotations

import threading
from typing import Any

INVALID_VALUE, INVALID_CONTEXT, INVALID_HANDLE = 1, 201, 400
FIRST = 100  # the primary context of the first GPU

NEED_ONE = {
    "cuCtxSynchronize", "cuMemGetInfo", "cuMemAlloc", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemsetD8Async",
    "cuModuleLoadData", "cuLaunchKernel", "cuStreamCreate", "cuStreamCreateWithPriority", "cuEventCreate",
    "cuGraphInstantiateWithFlags", "cuGraphLaunch",
}  # fmt: skip
"""Functions that work in the current context."""
STREAMS = {
    "cuLaunchKernel": -3, "cuMemsetD8Async": 3, "cuMemcpyHtoDAsync": 3, "cuMemcpyDtoHAsync": 3, "cuGraphLaunch": 1,
}  # fmt: skip
"""Those that are given a stream, which has to be one of that context; and which argument it is."""


class Contexts:
    """The primary contexts of some GPUs."""

    n_gpus: int

    def __init__(self) -> None:
        self._here = threading.local()
        self._homes: dict[int, int] = {}  # contexts of streams

    def current(self) -> int:
        """The context of the calling thread, or 0."""
        return getattr(self._here, "context", 0)

    def let_be_current(self, context: int) -> None:
        """What another library does, of which the calls are not counted; the context may be one of its own."""
        self._here.context = context

    def out_of_context(self, name: str, args: tuple[Any, ...]) -> int:
        """What a function answers because of the current context; 0 if that is the one it needs."""
        if name not in NEED_ONE:
            return 0
        here = self.current()
        if not here:
            return INVALID_CONTEXT
        return INVALID_HANDLE if name in STREAMS and self._homes.get(args[STREAMS[name]], here) != here else 0

    def _cuCtxSetCurrent(self, context: int) -> int:
        if not FIRST <= context < FIRST + self.n_gpus:
            return INVALID_VALUE
        self._here.context = context
        return 0
