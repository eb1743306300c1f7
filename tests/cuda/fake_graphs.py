"""Captures and graphs of the driver without a GPU, by the real one's rules.

What is launched on a stream that captures becomes a node of a graph. What cannot be captured says so, and the capture
is worth nothing from then on: launches say so as well, and its end gives no graph.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

GLOBAL, THREAD_LOCAL, RELAXED = range(3)
INVALID_VALUE, ILLEGAL_STATE = 1, 401
UNSUPPORTED, INVALIDATED, ISOLATION, WRONG_THREAD, CAPTURED_EVENT = 900, 901, 905, 908, 907
LEGACY = (0, 1)
NONE, ACTIVE, BROKEN = range(3)
"""What cuStreamIsCapturing says."""

UNSAFE = frozenset(
    ("cuMemAlloc", "cuMemFree", "cuMemHostAlloc", "cuMemFreeHost", "cuModuleLoadData", "cuEventQuery")
)
"""What a thread may not call while it captures, unless the capture is relaxed."""


class _Capture:
    def __init__(self, mode: int) -> None:
        self.mode, self.thread, self.valid = mode, threading.get_ident(), True
        self.dependencies: Any = None
        self.nodes: list[Callable[[], None]] = []


class KernelNode:
    """A launch of a kernel: its number, copied parameters, how many of them it declares, and its blocks."""

    def __init__(self, driver: Any, function: int, parameters: Any, count: int, blocks: int) -> None:
        self.driver, self.function, self.parameters = driver, function, parameters
        self.count, self.blocks = count, blocks

    def __call__(self) -> None:
        self.driver._run(self.function, self.parameters, self.blocks)


class _Executable:
    """What a graph became: the nodes of the driver's handles, and what runs in their place."""

    def __init__(self, graph: int, nodes: list[Callable[[], None]]) -> None:
        self.graph, self.origins, self.nodes = graph, nodes, list(nodes)


class Captures:
    """What a fake driver knows of captures; it is one of these as well."""

    _new: Callable[[int], None]
    _queue: Callable[[int, Callable[[], None]], None]

    def __init__(self) -> None:
        self.captures: dict[int, _Capture] = {}  # by stream
        self.graphs: dict[int, list[Callable[[], None]]] = {}
        self.executables: dict[int, _Executable] = {}
        self.handles: dict[int, Callable[[], None]] = {}  # nodes that somebody asked for
        self.running: dict[int, int] = {}  # launches of an executable that wait

    def refusal(self, name: str, args: tuple[Any, ...]) -> int:
        """What a function answers because a stream captures; 0 if that is nothing to it."""
        if not self.captures:
            return 0
        if name in UNSAFE:
            return self._break(c for c in self.captures.values() if self._forbids(c))
        if name == "cuCtxSynchronize":
            return self._break(self.captures.values())
        stream = {"cuStreamSynchronize": 0, "cuStreamQuery": 0, "cuStreamDestroy": 0}.get(name)
        if stream is not None and args[stream] in self.captures:
            return self._break([self.captures[args[stream]]])
        return 0

    @staticmethod
    def _forbids(capture: _Capture) -> bool:
        own = capture.thread == threading.get_ident()
        return capture.mode == GLOBAL or (capture.mode == THREAD_LOCAL and own)

    @staticmethod
    def _break(captures: Any) -> int:
        code = 0
        for capture in captures:
            capture.valid, code = False, UNSUPPORTED
        return code

    def put(self, stream: int, do: Callable[[], None]) -> int:
        """Give a stream something to do; what the driver answers."""
        capture = self.captures.get(stream)
        if capture is None:
            self._queue(stream, do)
            return 0
        if not capture.valid:
            return INVALIDATED
        capture.nodes.append(do)
        return 0

    def pageable(self, stream: int) -> int:
        """What a copy from or to memory that may move answers."""
        return self._break([self.captures[stream]]) if stream in self.captures else 0

    def _cuStreamBeginCapture(self, stream: int, mode: int) -> int:
        if stream in LEGACY:
            return UNSUPPORTED
        if stream in self.captures or mode not in (GLOBAL, THREAD_LOCAL, RELAXED):
            return ILLEGAL_STATE if stream in self.captures else INVALID_VALUE
        self.captures[stream] = _Capture(mode)
        return 0

    def _cuStreamEndCapture(self, stream: int, out: int) -> int:
        capture = self.captures.get(stream)
        ctypes.c_int64.from_address(out).value = 0
        if capture is None:
            return ILLEGAL_STATE
        if capture.mode != RELAXED and capture.thread != threading.get_ident():
            return WRONG_THREAD
        del self.captures[stream]
        if not capture.valid:
            return INVALIDATED
        self._new(out)
        self.graphs[ctypes.c_int64.from_address(out).value] = capture.nodes
        return 0

    def _cuStreamIsCapturing(self, stream: int, out: int) -> int:
        capture = self.captures.get(stream)
        ctypes.c_int.from_address(out).value = (
            NONE if capture is None else ACTIVE if capture.valid else BROKEN
        )
        return 0

    def _cuStreamGetCaptureInfo(
        self, stream: int, status: int, number: int, graph: int, nodes: int, count: int
    ) -> None:
        capture = self.captures.get(stream)
        self._cuStreamIsCapturing(stream, status)
        if capture is not None and capture.valid:
            last = (ctypes.c_int64 * 1)()
            if capture.nodes:
                self._new(ctypes.addressof(last))
                self.handles[last[0]] = capture.nodes[-1]
            capture.dependencies = last  # the driver's own, until the stream is used again
            ctypes.c_int64.from_address(nodes).value = ctypes.addressof(last)
            ctypes.c_int64.from_address(count).value = len(capture.nodes[-1:])

    def _cuGraphExecKernelNodeSetParams(self, executable: int, node: int, parameters: int) -> int:
        found, origin = self.executables.get(executable), self.handles.get(node)
        if found is None or not isinstance(origin, KernelNode) or found.graph not in self.graphs:
            return INVALID_VALUE
        function, xy, zx, yz, shared, places, extra, kernel, context = (ctypes.c_int64 * 9).from_address(
            parameters
        )
        low = 0xFFFF_FFFF
        if function != origin.function or extra or kernel or context or shared & low or not xy & low:
            return INVALID_VALUE
        if (xy >> 32, zx & low, yz & low, yz >> 32) != (1, 1, 1, 1) or not zx >> 32:
            return INVALID_VALUE
        copied = type(origin.parameters)()
        for k in range(origin.count):
            address = ctypes.c_int64.from_address(places + 8 * k).value
            copied[k] = ctypes.c_int64.from_address(address).value
        place = found.origins.index(origin)
        found.nodes[place] = KernelNode(self, function, copied, origin.count, xy & low)
        return 0

    def _cuGraphInstantiateWithFlags(self, out: int, graph: int, flags: int) -> int:
        if graph not in self.graphs or flags:
            return INVALID_VALUE
        self._new(out)
        self.executables[ctypes.c_int64.from_address(out).value] = _Executable(graph, self.graphs[graph])
        return 0

    def _cuGraphDestroy(self, graph: int) -> int:
        nodes = self.graphs.pop(graph, None)
        if nodes is None:
            return INVALID_VALUE
        self.handles = {handle: node for handle, node in self.handles.items() if node not in nodes}
        return 0

    def _cuGraphLaunch(self, executable: int, stream: int) -> int:
        found = self.executables.get(executable)
        if found is None:
            return INVALID_VALUE
        nodes = list(found.nodes)  # what is changed later is not for this launch
        self.running[executable] = self.running.get(executable, 0) + 1

        def run() -> None:
            for node in nodes:
                node()
            self.running[executable] -= 1

        return self.put(stream, run)

    def _cuGraphExecDestroy(self, executable: int) -> int:
        if self.running.get(executable):
            raise AssertionError("a graph is destroyed while it waits in a queue")
        return 0 if self.executables.pop(executable, None) is not None else INVALID_VALUE
