"""A driver without a GPU: its functions as the real one declares them, over memory that nobody but its kernels reaches.

Launches stand in the queue of their stream until something waits for it, as on a GPU: who reads too early reads
bytes of a fill pattern, and who frees too early has them written over. Its kernels are the CPU's, which take the
same frames.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from fastgrad.cuda.blas import PRODUCT, SUMS_IN_FLOAT32
from fastgrad.cuda.driver import FATAL, SIGNATURES, Driver
from fastgrad.cuda.gpus import Compiler, Gpu
from fastgrad.kernels.compile import compile_fused, compile_kernel
from fastgrad.kernels.cuda.builder import Launch
from fastgrad.kernels.cuda.compile import BUILDERS, CALLS, Cubin, FusedRow, body_of, builder_of, built
from fastgrad.kernels.cuda.frames import view
from fastgrad.kernels.programs import NUMBER
from fastgrad.kernels.schedules import Schedule
from fastgrad.native.contracts.cuda import (
    COUNTING_TURN,
    DIVISORS,
    MANY,
    MANY_HEAD,
    MANY_PARAMETERS,
    OUT_OF_MEMORY,
    PLAIN,
    SUMMING_TURN,
)
from fastgrad.native.contracts.cuda import PRODUCT as A_PRODUCT
from fastgrad.native.contracts.element_types import (
    BFLOAT16,
    COMPLEX64,
    COMPLEX128,
    DTYPES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    HALVES,
    INEXACT,
    WIDE,
    computed_in,
)
from fastgrad.native.contracts.limits import FRAME_WORDS
from tests.cuda.fake_contexts import FIRST, INVALID_VALUE, Contexts
from tests.cuda.fake_graphs import CAPTURED_EVENT, ISOLATION, UNSUPPORTED, Captures, KernelNode
from tests.cuda_halves import kind_of, read, rounded
from tests.cuda_simulator import AT_ADDRESSES, TARGET, launch_with_table, run_block
from tests.stand_in import Enclave

_LETTERS = {"P": ctypes.c_void_p, "Z": ctypes.c_size_t, "i": ctypes.c_int, "q": ctypes.c_int64}
_KINDS = {0: FLOAT32, 1: FLOAT64, 2: FLOAT16, 4: COMPLEX64, 5: COMPLEX128, 14: BFLOAT16}
_DOUBLE = (1, 5)  # those whose parts are
_GEMM = "PiiqqqPPiqqPiqqPPiqqqii"
_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_int64)
_FRESH = 0xA5
MANY_BUILDERS = tuple(f"optim:{name}" for name in ("step", "norm_part", "scale", "unscale", "clip"))
THREADS = 32  # of a block of the simulator
NOT_READY, ILLEGAL_ADDRESS = 600, 700
_ATTRIBUTES = {75: 9, 76: 0, 16: 132, 10: 32}


def word(address: int) -> Any:
    return ctypes.c_int64.from_address(address)


class _Mark:
    """Where an event stands in a stream, and when that was passed by."""

    def __init__(self, stream: int, done: bool = False) -> None:
        self.stream, self.done, self.time = stream, done, 0
        self.capture: Any = None


class FakeDriver(Contexts, Captures, Driver):
    """The functions of `SIGNATURES` for some GPUs."""

    def __init__(self, n_gpus: int = 1, size: int = 1 << 29, *, locked: bool = True) -> None:
        Contexts.__init__(self)
        Captures.__init__(self)
        self.enclave = Enclave(size, locked=locked)
        self.size, self.n_gpus = size, n_gpus
        self.calls: Counter[str] = Counter()
        self.says: dict[str, list[int]] = {}
        """What functions answer next, in place of what they do."""
        self.kernels: list[Callable[[int, int], None]] = []
        self.launched: list[str] = []
        self._names: list[str] = []
        self._sizes: dict[int, int] = {}
        self._queues: dict[int, deque[Callable[[], None]]] = {}
        self._events: dict[int, _Mark] = {}  # that were recorded, by handle
        self._lives = 0
        self._working = threading.RLock()
        self._without_times: set[int] = set()
        self._host: dict[int, Any] = {}  # memory that is locked
        self._clock = itertools.count(1)
        self._streams: dict[int, int] = {}  # of handles of cuBLAS
        self.workspaces: dict[int, int] = {}  # of handles of cuBLAS
        self.used: list[int] = []  # the workspaces of products
        self._handles = iter(range(1000, 1 << 30))
        self._functions = {name: self._function(name) for name in SIGNATURES}
        Driver.__init__(self, lambda name: ctypes.cast(self._functions[name], ctypes.c_void_p).value or 0)

    def _function(self, name: str) -> Any:
        does = getattr(self, f"_{name}", None)

        def function(*args: Any) -> int:
            self.calls[name] += 1
            if self.says.get(name):
                code = self.says[name].pop(0)
                self._lives += code in FATAL
                return code
            if does is None:
                raise NotImplementedError(name)
            args = tuple(a or 0 for a in args)
            return self.out_of_context(name, args) or self.refusal(name, args) or does(*args) or 0

        return ctypes.CFUNCTYPE(ctypes.c_int, *SIGNATURES[name])(function)

    # --- devices -----------------------------------------------------------------------------------------------

    def _cuInit(self, flags: int) -> None:
        assert flags == 0

    def _cuDriverGetVersion(self, out: int) -> None:
        ctypes.c_int.from_address(out).value = 13000

    def _cuDeviceGetCount(self, out: int) -> None:
        ctypes.c_int.from_address(out).value = self.n_gpus

    def _cuDeviceGet(self, out: int, index: int) -> None:
        ctypes.c_int.from_address(out).value = index

    def _cuDeviceGetName(self, out: int, length: int, device: int) -> None:
        ctypes.memmove(out, f"Stand-in {device}\0".encode(), min(length, 11))

    def _cuDeviceGetAttribute(self, out: int, attribute: int, device: int) -> None:
        ctypes.c_int.from_address(out).value = _ATTRIBUTES.get(attribute, attribute)

    def _cuDeviceTotalMem(self, out: int, device: int) -> None:
        word(out).value = self.size

    def _cuDevicePrimaryCtxRetain(self, out: int, device: int) -> None:
        word(out).value = FIRST + device

    def _cuCtxSynchronize(self) -> None:
        self.work()

    def _cuMemGetInfo(self, free: int, total: int) -> None:
        word(free).value, word(total).value = self.size - sum(self._sizes.values()), self.size

    # --- memory ------------------------------------------------------------------------------------------------

    def _cuMemAlloc(self, out: int, nbytes: int) -> int:
        address = self.enclave.start
        for taken, size in sorted(self._sizes.items()):  # the first gap that is large enough
            if taken - address >= nbytes:
                break
            address = taken + size
        if address + nbytes > self.enclave.start + self.size:
            return OUT_OF_MEMORY
        self._sizes[address] = nbytes
        with self.enclave:
            ctypes.memset(address, _FRESH, nbytes)
        word(out).value = address
        return 0

    def _cuMemFree(self, address: int) -> int:
        if address not in self._sizes:
            return INVALID_VALUE
        self.work()
        with self.enclave:
            ctypes.memset(address, _FRESH, self._sizes.pop(address))
        return 0

    def _cuPointerGetAttribute(self, out: int, attribute: int, address: int) -> int:
        if attribute != 9 or not any(a <= address < a + n for a, n in self._sizes.items()):
            return INVALID_VALUE
        ctypes.c_int.from_address(out).value = 0
        return 0

    def _is_locked(self, address: int) -> bool:
        return any(start <= address < start + len(room) for start, room in self._host.items())

    def _cuMemcpyHtoDAsync(self, target: int, source: int, nbytes: int, stream: int) -> int:
        if self._is_locked(source):
            return self.put(stream, lambda: self._copy(target, source, nbytes))
        staged = ctypes.string_at(source, nbytes)  # memory that may move is read now
        return self.pageable(stream) or self.put(stream, lambda: self._copy(target, staged, nbytes))

    def _cuMemHostAlloc(self, out: int, nbytes: int, flags: int) -> None:
        room = (ctypes.c_ubyte * nbytes)(*[_FRESH] * min(nbytes, 64))
        self._host[ctypes.addressof(room)] = room
        word(out).value = ctypes.addressof(room)

    def _cuMemFreeHost(self, address: int) -> int:
        self.work()
        return 0 if self._host.pop(address, None) is not None else INVALID_VALUE

    def _copy(self, target: int, source: Any, nbytes: int) -> None:
        with self.enclave:
            ctypes.memmove(target, source, nbytes)

    def _cuMemcpyDtoHAsync(self, target: int, source: int, nbytes: int, stream: int) -> int:
        lives = self._lives  # the host waits no longer for what a lost context was to bring
        if not self._is_locked(target) and self.pageable(stream):
            return UNSUPPORTED
        return self.put(stream, lambda: self._copy(target, source, nbytes if lives == self._lives else 0))

    def _cuMemcpyPeerAsync(
        self, target: int, there: int, source: int, here: int, nbytes: int, stream: int
    ) -> int:
        if there == here or not {here, there} <= {FIRST + k for k in range(self.n_gpus)}:
            return INVALID_VALUE
        return self.put(stream, lambda: self._copy(target, source, nbytes))

    def _cuDeviceCanAccessPeer(self, out: int, device: int, peer: int) -> None:
        ctypes.c_int.from_address(out).value = device != peer

    def _cuCtxEnablePeerAccess(self, peer: int, flags: int) -> int:
        return INVALID_VALUE if flags or not FIRST <= peer < FIRST + self.n_gpus else 0

    def _cuMemsetD8Async(self, target: int, value: int, nbytes: int, stream: int) -> int:
        def fill() -> None:
            with self.enclave:
                ctypes.memset(target, value, nbytes)

        return self.put(stream, fill)

    # --- kernels -----------------------------------------------------------------------------------------------

    def add_kernel(self, name: str, run: Callable[[int, int], None]) -> bytes:
        """Code for a kernel that calls a function with the address of its parameters and the number of blocks."""
        self.kernels.append(run)
        self._names.append(name)
        return f"stand-in {len(self.kernels)}".encode()

    def _cuModuleLoadData(self, out: int, image: int) -> None:
        word(out).value = int(ctypes.string_at(image).split()[1])

    def _cuModuleGetFunction(self, out: int, module: int, name: int) -> None:
        word(out).value = module

    def _cuLaunchKernel(self, function: int, gx: int, gy: int, gz: int, *rest: int) -> int:
        extra = rest[-1]
        if not gx or not gy or not gz or not rest[0] or not extra:
            return INVALID_VALUE
        buffer = word(extra + 8).value
        n_words = word(extra + 40).value // 8
        copied = (ctypes.c_int64 * max(FRAME_WORDS + DIVISORS, n_words))()
        ctypes.memmove(copied, buffer, ctypes.sizeof(copied))
        self.launched.append(self._names[function - 1])
        return self.put(rest[-3], KernelNode(self, function, copied, n_words, gx))

    def _run(self, function: int, parameters: Any, blocks: int) -> None:
        with self.enclave:
            self.kernels[function - 1](ctypes.addressof(parameters), blocks)

    # --- streams and events ------------------------------------------------------------------------------------

    def _queue(self, stream: int, do: Callable[[], None]) -> None:
        self._queues.setdefault(stream, deque()).append(do)

    def work(self, stream: int | None = None, until: _Mark | None = None) -> None:
        """Do what stands in the queue of a stream, up to a mark; or all that there is.

        One thread at a time: another one that waits may not go on while something of the queue is under way.
        """
        with self._working, self.enclave:  # once for all: opening it costs more than a small kernel
            if stream is None:
                for one in list(self._queues):
                    self.work(one)
                return
            queue = self._queues.get(stream, deque())
            while queue and not (until and until.done):
                queue.popleft()()

    def waiting(self, stream: int) -> int:
        """How much stands in the queue of a stream."""
        return len(self._queues.get(stream, ()))

    def _new(self, out: int) -> None:
        word(out).value = next(self._handles)

    def _cuStreamCreate(self, out: int, flags: int) -> None:
        self._new(out)
        self._homes[word(out).value] = self.current()

    def _cuStreamCreateWithPriority(self, out: int, flags: int, priority: int) -> None:
        self._cuStreamCreate(out, flags)

    def _cuStreamDestroy(self, stream: int) -> None:
        self.work(stream)

    def _cuStreamSynchronize(self, stream: int) -> None:
        self.work(stream)

    def _cuStreamQuery(self, stream: int) -> int:
        return NOT_READY if self.waiting(stream) else 0

    def _cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> int:
        if event not in self._events:
            return INVALID_VALUE
        mark = self._events[event]
        if mark.capture is not self.captures.get(stream):
            return CAPTURED_EVENT if mark.capture else ISOLATION
        if mark.capture:
            return 0
        return self.put(stream, lambda: None if mark.done else self.work(mark.stream, mark))

    def _cuEventCreate(self, out: int, flags: int) -> None:
        self._new(out)
        self._events[word(out).value] = _Mark(0, done=True)
        if flags & 2:
            self._without_times.add(word(out).value)

    def _cuEventDestroy(self, event: int) -> int:
        return 0 if self._events.pop(event, None) else INVALID_VALUE

    def _cuEventRecord(self, event: int, stream: int) -> int:
        if event not in self._events:
            return INVALID_VALUE
        mark = self._events[event] = _Mark(stream)
        mark.capture = self.captures.get(stream)
        if mark.capture:
            return 0

        def pass_by() -> None:
            mark.done, mark.time = True, next(self._clock)

        if self.waiting(stream):
            self._queue(stream, pass_by)
        else:  # nobody has to wait for that
            pass_by()
        return 0

    def _cuEventQuery(self, event: int) -> int:
        if event not in self._events:
            return INVALID_VALUE
        if self._events[event].capture:
            return CAPTURED_EVENT
        return 0 if self._events[event].done else NOT_READY

    def _cuEventSynchronize(self, event: int) -> int:
        if event not in self._events:
            return INVALID_VALUE
        mark = self._events[event]
        if mark.capture:
            return CAPTURED_EVENT
        if not mark.done:
            self.work(mark.stream, mark)
        return 0

    def _cuEventElapsedTime(self, out: int, start: int, end: int) -> int:
        if {start, end} & self._without_times:
            return INVALID_VALUE
        first, last = self._events[start], self._events[end]
        if not first.done or not last.done:
            return NOT_READY
        ctypes.c_float.from_address(out).value = last.time - first.time
        return 0

    def _cuGetErrorName(self, code: int, out: int) -> None:
        self._text = ctypes.create_string_buffer(f"CUDA_ERROR_{code}".encode())
        word(out).value = ctypes.addressof(self._text)

    def _cuGetErrorString(self, code: int, out: int) -> None:
        self._long = ctypes.create_string_buffer(f"what the driver says of {code}".encode())
        word(out).value = ctypes.addressof(self._long)

    # --- products ----------------------------------------------------------------------------------------------

    def blas(self) -> Callable[[str], int]:
        kinds = {
            "cublasCreate_v2": "P",
            "cublasSetStream_v2": "PP",
            "cublasSetWorkspace_v2": "PPZ",
            "cublasSetMathMode": "Pi",
            PRODUCT: _GEMM,
        }
        made = {
            name: ctypes.CFUNCTYPE(ctypes.c_int, *(_LETTERS[k] for k in kind))(getattr(self, f"_{name}"))
            for name, kind in kinds.items()
        }
        self._kept = made
        return lambda name: ctypes.cast(made[name], ctypes.c_void_p).value or 0

    def _cublasCreate_v2(self, out: int) -> int:
        word(out).value = 77 + len(self._streams)
        self._streams[word(out).value] = 0
        return 0

    def _cublasSetStream_v2(self, handle: int, stream: int) -> int:
        if handle not in self._streams:
            return 1
        self._streams[handle] = stream
        return 0

    def _cublasSetWorkspace_v2(self, handle: int, workspace: int, nbytes: int) -> int:
        self.workspaces[handle] = workspace
        return 0 if handle in self._streams and workspace else 1

    def _cublasSetMathMode(self, handle: int, mode: int) -> int:
        return 0 if handle in self._streams and mode == SUMS_IN_FLOAT32 else 7

    def _cublasGemmStridedBatchedEx_64(self, handle: int, *args: Any) -> int:
        """Matrices by columns, as cuBLAS has them."""
        ta, tb, m, n, k, alpha, a, kind_a, lda, step_a, b, kind_b, ldb, step_b, beta, *rest = args
        c, kind_c, ldc, step_c, batch, compute, _ = rest
        valid = lda >= max(1, k if ta else m) and ldb >= max(1, n if tb else k) and ldc >= max(1, m)
        if (
            handle not in self._streams
            or not valid
            or kind_a != kind_b
            or kind_a != kind_c
            or compute != (70 if kind_a in _DOUBLE else 68)
            or kind_a not in _KINDS
        ):
            return 7
        dtype = _KINDS[kind_a]
        kind, number = kind_of(dtype), np.dtype(DTYPES[computed_in(dtype)])
        factor, before = (np.ctypeslib.as_array((ctypes.c_ubyte * number.itemsize).from_address(at)).view(number)[0]
                          for at in (alpha, beta))  # fmt: skip
        self.launched.append("product" if dtype in WIDE else f"product of {DTYPES[dtype]}")

        def matrix(address: int, rows: int, columns: int, ld: int) -> Any:
            shape = (ld if columns == 0 else ld * (columns - 1) + rows,)
            flat = np.frombuffer((ctypes.c_char * (shape[0] * kind.itemsize)).from_address(address), kind)
            return np.lib.stride_tricks.as_strided(flat, (rows, columns), (flat.itemsize, ld * flat.itemsize))

        def factor_of(address: int, rows: int, columns: int, ld: int, transposed: int) -> Any:
            if transposed:
                return read(matrix(address, columns, rows, ld).T.copy(), dtype)
            return read(matrix(address, rows, columns, ld).copy(), dtype)

        def product() -> None:
            with self.enclave:
                for i in range(batch):
                    x = factor_of(a + i * step_a * kind.itemsize, m, k, lda, ta)
                    y = factor_of(b + i * step_b * kind.itemsize, k, n, ldb, tb)
                    out = matrix(c + i * step_c * kind.itemsize, m, n, ldc)
                    total = factor * (x @ y)
                    if before:
                        total += before * read(out.copy(), dtype)
                    out[...] = rounded(total, dtype) if dtype in HALVES else total

        self.used.append(self.workspaces[handle])
        return 0 if self.put(self._streams[handle], product) == 0 else 14

    # --- kernels of the CPU ------------------------------------------------------------------------------------

    def compiler(self, kernel: Any, dtype: int, layout_class: int, architecture: str) -> Cubin:
        """The CPU's kernel behind the interface of a GPU's, where GPUs have one."""
        if isinstance(kernel, FusedRow):
            return self._fused(kernel)
        if kernel.name not in CALLS:
            builder_of(kernel, dtype)  # raises as on a GPU where there is none
        if kernel.name.startswith(("convolution", "attention")):
            return self.simulator(
                kernel, dtype, layout_class, architecture
            )  # the CPU's has other stages and scratch
        if not kernel.takes(dtype) and kernel.name not in CALLS:  # a GPU's kernel alone takes halves
            return self.simulator(kernel, dtype, layout_class, architecture)
        if kernel.name in CALLS and not (CALLS[kernel.name] == A_PRODUCT and dtype not in INEXACT):
            return built(kernel, dtype, layout_class, architecture)
        run = _KERNEL(compile_kernel(kernel, dtype, layout_class))
        if kernel.builder in MANY_BUILDERS:
            return self._over_many(kernel, dtype, layout_class, run)
        code = self.add_kernel(kernel.name, lambda frame, blocks: run(frame))
        frame = kernel.frame(layout_class)
        n_words = (
            view(frame, PLAIN).n_words if "seed" in frame.fields else 0
        )  # those of a graph get other parameters
        return Cubin(code, kernel.name, Launch(PLAIN, n_words, (1,)))

    def _fused(self, row: FusedRow) -> Cubin:
        """The CPU's kernel of a program; numbers of float32 stand in a GPU's frame as such."""
        run, frame = _KERNEL(compile_fused(row.program, row.kernels)), row.frame(0)
        schedule = Schedule(row.program) if row.program.rows else None
        single = {int(i.about[1]) for i in row.program.code if i.kind == NUMBER and i.about[0] == FLOAT32}

        def run_widened(parameters: int, blocks: int) -> None:
            words = (ctypes.c_int64 * frame.words)(*(ctypes.c_int64 * frame.words).from_address(parameters))
            for k in single:
                at = frame.place("numbers") + k
                value = np.float64(np.int32(words[at]).view(np.float32))
                words[at] = int(value.view(np.int64))
            nbytes = schedule.room(words[frame.place("n")]) if schedule else 0
            room = ctypes.create_string_buffer(max(nbytes, 1))  # that of a GPU needs none
            words[frame.place("room")] = ctypes.addressof(room)
            run(ctypes.addressof(words))

        return Cubin(self.add_kernel("fused", run_widened), "fused", Launch(PLAIN, frame.words, (1,)))

    def _over_many(self, kernel: Any, dtype: int, layout_class: int, run: Any) -> Cubin:
        """The CPU's kernel behind the interface of a GPU's over many frames: it runs over one after the other."""
        frame = kernel.frame(layout_class)
        body = body_of(kernel, dtype, layout_class, TARGET, THREADS)

        def run_all(parameters: int, blocks: int) -> None:
            words = (ctypes.c_int64 * MANY_PARAMETERS).from_address(parameters)
            n_frames, chunk, _ = words[frame.words : frame.words + MANY_HEAD.words]
            own, at, seen = (
                (ctypes.c_int64 * frame.words)(*words[: frame.words]),
                frame.words + MANY_HEAD.words,
                0,
            )
            for _ in range(n_frames if chunk != SUMMING_TURN else 0):  # the CPU's kernel adds up at once
                chunks, own[0], *addresses = words[at : at + 2 + body.moved]
                own[AT_ADDRESSES : AT_ADDRESSES + body.moved] = addresses
                if chunk == COUNTING_TURN:
                    own[0] = 0
                else:
                    assert chunks - seen == max(-(-own[0] // chunk), 1)
                run(ctypes.addressof(own))
                at, seen = at + 2 + body.moved, chunks
            assert blocks == (1 if chunk in (SUMMING_TURN, COUNTING_TURN) else seen)

        return Cubin(self.add_kernel(kernel.name, run_all), kernel.name, body.launch(frame.words))

    def simulator(self, kernel: Any, dtype: int, layout_class: int, architecture: str) -> Cubin:
        """The body of a GPU's kernel, run by the simulator; the CPU's kernel where there is none."""
        if kernel.builder not in BUILDERS or kernel.name in CALLS:
            return self.compiler(kernel, dtype, layout_class, architecture)
        body = body_of(kernel, dtype, layout_class, TARGET, THREADS)
        seen = view(kernel.frame(layout_class), body.kind, body.repeats)
        launch = body.launch(seen.n_words)
        function = TARGET.made(body.run)

        def run_with_table(parameters: int, blocks: int) -> None:
            words = (ctypes.c_int64 * MANY_PARAMETERS).from_address(parameters)
            at = seen.n_words + MANY_HEAD.words
            launch_with_table(
                function,
                seen,
                body.threads,
                words[: seen.n_words],
                words[seen.n_words : at],
                words[at:],
                blocks,
            )

        def run(frame: int, blocks: int) -> None:
            f = seen.read([np.int64(w) for w in (ctypes.c_int64 * launch.parameters).from_address(frame)])
            for block in range(blocks):
                run_block(function, f, block, body.threads, blocks)

        does = run_with_table if body.kind == MANY else run
        return Cubin(self.add_kernel(kernel.name, does), kernel.name, launch)


@contextmanager
def attached(driver: FakeDriver, compiler: Compiler | None = None) -> Iterator[list[Gpu]]:
    """Let `cuda` be what a driver shows."""
    from fastgrad.compiler.fusion import launches
    from fastgrad.cuda import gpus
    from fastgrad.native.host import devices

    before, can_compile = gpus._gpus, launches.can_compile
    launches.can_compile = lambda: True  # none of its compilers is numba-cuda
    try:
        yield gpus.attach(driver, compiler or driver.compiler)
    finally:
        gpus._gpus, launches.can_compile = before, can_compile
        del devices.NAMES["cuda"]
