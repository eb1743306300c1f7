"""Captured graphs of CUDA: launches that are recorded once and then run by one call.

A capture is a tape (`native.host.tape`) of the launches of one GPU, which records and runs nothing. Its graphs for the
driver are made from the tape when it is first replayed on a stream. What is made during a capture comes from a pool,
an arena of the GPU's that no other tensor gets memory from.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import itertools
import sys
import threading
from collections.abc import Callable
from typing import Any, Self

from fastgrad.cuda import gpus, later
from fastgrad.cuda.gpus import Gpu
from fastgrad.cuda.selection import gpu_of
from fastgrad.cuda.streams import Stream, need, stream, stream_on
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.limits import FIRST_GPU
from fastgrad.native.host.hook_calls import OWN_CAPTURE
from fastgrad.native.host.tape import Tape

PoolHandle = tuple[int, int]
_ERROR_MODES = ("global", "thread_local", "relaxed")
_numbers = itertools.count(1)
_lock = threading.RLock()
_pools: dict[tuple[Gpu, PoolHandle], _Pool] = {}
_streams: dict[Gpu, Stream] = {}


class _Pool:
    """Memory that graphs share; the last one lets go of it."""

    __slots__ = ("arena", "gpu", "graphs", "handle", "there")

    def __init__(self, gpu: Gpu, handle: PoolHandle, arena: int) -> None:
        self.gpu, self.handle, self.arena = gpu, handle, arena
        self.graphs = self.there = 0  # those of which something may run, and those that may be replayed

    def join(self) -> None:
        """Called for each graph when it begins."""
        self.graphs += 1
        self.there += 1
        self.gpu.keep_pool(self.arena)

    def leave(self) -> None:
        """Called for each graph when it goes, whatever it is still at."""
        with _lock:
            self.there -= 1
            if not self.there:
                self.gpu.leave_pool(self.arena)

    def release(self, kept: list[Any]) -> None:
        """Called for each graph, with what it kept alive, once nothing of it runs any more."""
        kept.clear()
        with _lock:
            self.graphs -= 1
            if not self.graphs:
                del _pools[self.gpu, self.handle]
                self.gpu.retire_pool(self.arena)


def _pool_of(gpu: Gpu, handle: PoolHandle, on: Stream) -> _Pool:
    with _lock:
        found = _pools.get((gpu, handle))
        if found is None:
            found = _pools[gpu, handle] = _Pool(gpu, handle, gpu.new_pool(on.cuda_stream))
        found.join()
        return found


def graph_pool_handle() -> PoolHandle:
    """A new name of a pool of memory, for the graphs that are to share one.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.cuda.graph_pool_handle() != fg.cuda.graph_pool_handle()
    True
    """
    return 0, next(_numbers)


def is_current_stream_capturing() -> bool:
    """Whether what the calling thread launches on its current stream is captured; False before a GPU is used.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.cuda.is_current_stream_capturing()
    False
    """
    if not gpus.is_attached():
        return False
    gpu = gpu_of()
    if gpu.capture_number():
        return True
    gpu.make_current()
    found = ctypes.c_int()
    gpu.driver.call("cuStreamIsCapturing", stream_on(gpu).cuda_stream, ctypes.addressof(found))
    return found.value != 0


def _handle_of(pool: Any) -> PoolHandle:
    if isinstance(pool, CUDAGraph):
        return pool.pool()
    if (
        isinstance(pool, tuple)
        and len(pool) == 2
        and all(isinstance(n, int) and not isinstance(n, bool) for n in pool)
    ):
        return pool
    raise TypeError(
        "capture_begin(): argument 'pool' must be what graph_pool_handle() or another graph's pool() returned, not "
        f"{type(pool).__name__}"
    )


class CUDAGraph:
    """Launches that are captured once and replayed.

    `graph` captures what a ``with`` block launches. Nothing runs meanwhile: tensors that the block makes have their
    values after a `replay`, which reads what the tensors that were used hold by then.

    Parameters
    ----------
    keep_graph : bool
        Not supported.

    Examples
    --------
    >>> import fastgrad as fg
    >>> if fg.cuda.is_available():
    ...     x = fg.ones(3, device="cuda")
    ...     g = fg.cuda.CUDAGraph()
    ...     with fg.cuda.graph(g):
    ...         y = x * 2
    ...     x.fill_(5)
    ...     g.replay()
    ...     assert y.tolist() == [10, 10, 10]
    """

    __slots__ = ("__weakref__", "_gpu", "_kept", "_on", "_pool", "_streams", "_tape", "_thread")

    _gpu: Gpu | None
    _tape: Tape | None
    _pool: _Pool | None
    _on: Stream | None
    _kept: list[Any]
    _thread: int
    _streams: set[int]

    def __new__(cls, keep_graph: bool = False) -> Self:  # noqa: D102 - the class says it
        if keep_graph:
            raise NotImplementedError(
                "CUDAGraph(): keep_graph is not supported: graphs are made at the first replay"
            )
        self = object.__new__(cls)
        self._forget()
        return self

    def _forget(self) -> None:
        self._gpu = self._tape = self._pool = self._on = None
        self._kept = []  # memory of the host's that it copies from or to
        self._thread = 0  # that captures
        self._streams = set()  # on which it ran

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Begin to capture what this thread launches on the GPU of its current stream.

        Parameters
        ----------
        pool : optional
            What `graph_pool_handle` or the `pool` of another graph returned, to share memory.
        capture_error_mode : str
            "global", "thread_local" or "relaxed": other threads are never disturbed.

        Raises
        ------
        RuntimeError
            If a capture is under way, the current stream is the default one, or the graph was captured before.
        """
        gpu = gpu_of()
        if capture_error_mode not in _ERROR_MODES:
            raise RuntimeError(
                f"Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {capture_error_mode}"
            )
        if self._tape is not None:
            raise RuntimeError(
                "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance "
                "or call reset() first."
            )
        gpu.raise_failure("capture_begin")
        later.settle()  # the memory of graphs that are done can be had again
        on = stream_on(gpu)
        if on.cuda_stream == gpu.stream:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them "
                "on the default stream.)"
            )
        handle = graph_pool_handle() if pool is None else _handle_of(pool)
        tape = Tape(FIRST_GPU + gpu.index)
        tape.__enter__()  # raises where another one records
        try:
            self._pool = _pool_of(gpu, handle, on)
            self._gpu, self._on, self._thread, self._tape = gpu, on, threading.get_ident(), tape
            self._kept = gpu.begin_capture(self._thread, on.cuda_stream, self._pool.arena)
        except BaseException:
            tape.__exit__()
            self._let_go()
            raise

    def capture_end(self) -> None:
        """End the capture.

        Raises
        ------
        RuntimeError
            If this thread captures nothing into the graph.
        """
        if not self._thread:
            raise RuntimeError("capture_end() has been called without capture_begin()")
        if self._thread != threading.get_ident():
            raise RuntimeError(
                "capture_end() must be called on the thread that called capture_begin(); reset() ends the capture "
                "from any"
            )
        self._end()

    def _end(self) -> None:
        if self._thread and self._gpu is not None and self._tape is not None and self._on is not None:
            thread, self._thread = self._thread, 0
            self._tape.__exit__()
            self._gpu.end_capture(thread, self._on.cuda_stream)

    def instantiate(self) -> None:
        """Nothing: graphs of the driver are made at the first replay on a stream.

        Raises
        ------
        RuntimeError
            If nothing was captured.
        """
        self._captured("instantiate")

    def replay(self) -> None:
        """Run what was captured on the current stream of the calling thread, without waiting for it.

        What a launch says is wrong with an index is raised by whatever waits for the GPU next.

        Raises
        ------
        RuntimeError
            If nothing was captured, or this thread captures something.
        """
        gpu, tape = self._captured("replay")
        if rt.capturing() == OWN_CAPTURE:
            raise RuntimeError(
                "CUDAGraph::replay while this thread captures: graphs cannot be parts of others; replay after the "
                "capture"
            )
        gpu.raise_failure("replay")
        self._streams.add(stream_on(gpu).cuda_stream)
        if tape.launches:
            rt.replay(tape)

    def reset(self) -> None:
        """Give up what was captured, or the capture under way, and the memory that no tensor has."""
        self._end()
        self._let_go()

    def _let_go(self) -> None:
        gpu, pool, streams, kept = self._gpu, self._pool, self._streams, self._kept
        self._forget()  # the tape takes its graphs along
        if gpu is not None and pool is not None:
            pool.leave()
            later.after([(gpu, used) for used in streams], lambda: pool.release(kept))

    def pool(self) -> PoolHandle:
        """The name of the pool of its memory, for graphs that are to share it.

        Raises
        ------
        RuntimeError
            If nothing was captured.
        """
        self._captured("pool")
        assert self._pool is not None
        return self._pool.handle

    def enable_debug_mode(self) -> None:
        """Nothing: there is nothing to keep for `debug_dump`."""

    def debug_dump(self, debug_path: str) -> None:
        """Not supported.

        Raises
        ------
        RuntimeError
            Always.
        """
        raise RuntimeError(f"debug_dump(): graphs cannot be written to {debug_path!r}; this is not supported")

    def raw_cuda_graph(self) -> int:
        """Not supported.

        Raises
        ------
        RuntimeError
            Always.
        """
        raise RuntimeError("raw_cuda_graph(): there is no one graph of the driver; this is not supported")

    def _captured(self, what: str) -> tuple[Gpu, Tape]:
        if self._gpu is None or self._tape is None or self._thread:
            raise RuntimeError(f"Called CUDAGraph::{what} without a preceding successful capture.")
        return self._gpu, self._tape

    def __del__(self, finalizing: Any = sys.is_finalizing) -> None:
        if not finalizing():
            with contextlib.suppress(AttributeError):  # of one that was never made
                self.reset()

    def __reduce__(self) -> Any:
        raise TypeError("a CUDAGraph belongs to its process and cannot be copied or pickled")

    def __repr__(self) -> str:
        state = (
            "capturing"
            if self._thread
            else "empty"
            if self._tape is None
            else f"{self._tape.launches} launches"
        )
        return f"<fastgrad.cuda.CUDAGraph {state}>"


def usual_stream() -> Stream:
    """The stream of the current GPU on which captures happen, all of them."""
    gpu = gpu_of()
    return _streams.get(gpu) or _streams.setdefault(gpu, Stream())


class graph:  # noqa: N801 - PyTorch's name
    """In a ``with`` statement: capture what the block launches into a graph.

    A block that raises leaves an empty graph.

    Parameters
    ----------
    cuda_graph : CUDAGraph
    pool : optional
        See `CUDAGraph.capture_begin`.
    stream : Stream, optional
        The current stream of the block; by default one that all captures of a GPU share.
    capture_error_mode : str
        See `CUDAGraph.capture_begin`.

    Raises
    ------
    RuntimeError
        See `CUDAGraph.capture_begin`; what the block may not do raises one as well.
    """

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: Any = None,
        stream: Stream | None = None,
        capture_error_mode: str = "global",
    ) -> None:
        if not isinstance(cuda_graph, CUDAGraph):
            raise TypeError(
                "graph(): argument 'cuda_graph' must be fastgrad.cuda.CUDAGraph, not "
                f"{type(cuda_graph).__name__}"
            )
        self.cuda_graph, self.pool, self.capture_error_mode = cuda_graph, pool, capture_error_mode
        self.capture_stream = None if stream is None else need(stream, Stream, "graph", "stream")

    def __enter__(self) -> None:
        within = stream(self.capture_stream or usual_stream())
        within.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)
            self._within = within
        except BaseException:
            within.__exit__()
            raise

    def __exit__(self, kind: Any, *_: object) -> None:
        try:
            if kind is None:
                self.cuda_graph.capture_end()
            else:
                self.cuda_graph.reset()
        finally:
            self._within.__exit__()


# --- callables -------------------------------------------------------------------------------------------------

_Maker = Callable[[Any, Any, int, bool, Any], Any]
_makers: list[_Maker] = []


def graphed_by(maker: _Maker) -> _Maker:
    """Say what makes graphed callables: it knows of autograd and of modules, which stand above this."""
    _makers[:] = [maker]
    return maker


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Any = None,
) -> Any:
    """Functions or modules whose forward and backward are graphs each, to be called as before.

    A call copies its arguments to the sample arguments, replays the graph of the forward, and records one node; its
    backward replays the other graph. The results, and what `autograd.grad` gives, lie where those of the last call did:
    copy what has to outlive the next one. Hooks of modules may be registered afterwards, and run in each call.

    Parameters
    ----------
    callables : callable, Module or tuple of these
        They run on the current GPU, and call nothing that cannot be captured (`CUDAGraph`). Those of a tuple share
        memory, so they have to be called in its order, with their backwards in the opposite one.
    sample_args : tuple of Tensor, or tuple of these
        Arguments of each callable, which may be within tuples, lists and dicts: later ones have to have the same sizes,
        dtypes and ``requires_grad``. They belong to the graphs from now on.
    num_warmup_iters : int
        How often each callable runs, with its backward, before it is captured.
    allow_unused_input : bool
        Let inputs that require grad have none.
    pool : optional
        See `CUDAGraph.capture_begin`.

    Returns
    -------
    callable, Module or tuple of these
        Modules are those that were given. Their `forward` is graphed in the mode, training or not, that they are in
        now; in the other one it is what it was.

    Raises
    ------
    AssertionError
        If a module has hooks or a buffer that requires grad, or a sample argument is no tensor.
    TypeError
        If an output is no tensor.
    RuntimeError
        If something cannot be captured, or, of a later call, if an argument has other sizes or another dtype. Without
        `allow_unused_input`, if an input that requires grad is not used.

    Examples
    --------
    >>> import fastgrad as fg
    >>> if fg.cuda.is_available():
    ...     model = fg.nn.Linear(3, 2).cuda()
    ...     model = fg.cuda.make_graphed_callables(model, (fg.ones(4, 3, device="cuda"),))
    ...     model(fg.rand(4, 3, device="cuda")).sum().backward()
    ...     assert model.weight.grad is not None
    """
    if not _makers:
        importlib.import_module("fastgrad.utils.graphed")  # few programs need it; it is `graphed_by` itself
    return _makers[0](callables, sample_args, num_warmup_iters, allow_unused_input, pool)
