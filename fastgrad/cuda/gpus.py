"""GPUs as devices of the runtime: contexts, streams, kernels that are loaded, and what goes wrong with them.

`attach` makes the GPUs of a driver known to the runtime, each in a column of the kernel table of its own. The
runtime then calls the compiled routines of `native.cuda` with the state of the GPU, and asks `Gpu.resolve` for
kernels that it has never launched.
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fastgrad.cuda import blas, reports
from fastgrad.cuda.driver import FATAL, Driver, find
from fastgrad.cuda.words import lasting_words, words
from fastgrad.flags import CUDA_SYNC
from fastgrad.native.contracts.cuda import (
    ARENA,
    BLAS_FAILED,
    CHOICE,
    CUDA_KERNEL,
    DRIVER,
    FORKED,
    GPU,
    NO_HANDLE,
    NO_ROOM,
    OUT_OF_MEMORY,
    PEER,
    PLAIN,
    PRODUCT,
    REPORTED,
    SHELF,
    SHORT_FRAME,
    STATISTICS,
    TILED_FACTOR,
    TOO_MANY_ITEMS,
    WORKSPACE,
)
from fastgrad.native.contracts.frame import CONSTANT_FACTOR, Frame
from fastgrad.native.contracts.limits import FIRST_GPU, MAX_GPUS
from fastgrad.native.contracts.records import ALLOCATION
from fastgrad.native.cuda.unit import routines
from fastgrad.native.host import devices
from fastgrad.native.host.hook_calls import refuse_replays

if TYPE_CHECKING:
    from fastgrad.kernels.cuda.compile import Cubin

MAX_CHOICES = 1024  # threads that have chosen a stream
_lock = threading.RLock()
_captures = itertools.count(1)
_FORKED = (
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start "
    "method"
)
NON_BLOCKING = 1  # of a stream: it does not wait for the legacy default one
_ALREADY_OPEN, _TOO_MANY_PEERS = 704, 711  # CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, CUDA_ERROR_TOO_MANY_PEERS
MAJOR, MINOR = 75, 76  # attributes of a device


class OutOfMemoryError(RuntimeError):
    """A GPU has no memory left for a tensor. What is in use stays as it is, and the process may go on."""


def name_of(driver: Driver, device: int) -> str:
    """What the maker of a device calls it."""
    text = ctypes.create_string_buffer(256)
    driver.call("cuDeviceGetName", ctypes.addressof(text), len(text), device)
    return text.value.decode()


Compiler = Callable[[Any, int, int, str], "Cubin"]
"""From a row of the kernel table, a dtype, a layout class and an architecture to a kernel."""


class Gpu:
    """A GPU that the runtime may use."""

    def __init__(self, index: int, driver: Driver, compiler: Compiler) -> None:
        self.index, self.driver = index, driver
        self._compiler = compiler
        self._loaded: list[Any] = []  # records of kernels; their addresses stand in the runtime's table
        self.device = driver.number("cuDeviceGet", index)
        self.context = driver.number("cuDevicePrimaryCtxRetain", self.device, kind=ctypes.c_void_p)
        self.make_current()
        self.stream = driver.number("cuStreamCreate", NON_BLOCKING, kind=ctypes.c_void_p)
        self.state = lasting_words(GPU.words)
        for name in DRIVER:
            self._set(name, driver.address(name))
        self._set("context", self.context)
        self._set("allow_tf32", int(_allow_tf32))
        self._set("stream", self.stream)
        self._set("synchronous", int(CUDA_SYNC))
        self._set("graph_stream", driver.number("cuStreamCreate", NON_BLOCKING, kind=ctypes.c_void_p))
        self._set("late", reports.table(driver))
        self.arenas: dict[int, int] = {}
        self._set("arena", self.arena_of(self.stream))
        self._captures: dict[int, tuple[int, int, list[Any]]] = {}
        """By thread: the arena of its capture, which one it is, and what it keeps alive."""
        self._retired: list[int] = []  # arenas of pools whose graphs are gone
        self._told: tuple[type[BaseException], tuple[Any, ...]] = (
            RuntimeError,
            ("a kernel has reported an index out of range",),
        )
        """What somebody was told last of what kernels report."""
        self._choices: Any = None
        self._blas: Callable[[str], int] | None = None
        self._handles: dict[int, tuple[int, int]] = {}
        self.counted_before: dict[str, int] = {}
        """What `memory.memory_stats` leaves out of what was counted since the beginning."""

    # --- state -------------------------------------------------------------------------------------------------

    @property
    def address(self) -> int:
        """Where its state lies."""
        return ctypes.addressof(self.state)

    def _set(self, field: str, value: int) -> None:
        self.state[GPU.fields[field][0]] = value

    def read(self, field: str) -> int:
        """A word of its state."""
        return int(self.state[GPU.fields[field][0]])

    def statistics(self) -> dict[str, int]:
        """What its memory is used for, in bytes and in numbers of blocks and segments."""
        at = GPU.fields["statistics"][0]
        return {name: int(self.state[at + place]) for name, (place, _) in STATISTICS.fields.items()}

    def reset_peaks(self) -> None:
        """Let peaks begin at what is in use now."""
        at = GPU.fields["statistics"][0]
        for name, (place, _) in STATISTICS.fields.items():
            if name.endswith("_peak"):
                now, _ = STATISTICS.fields[name.removesuffix("_peak")]
                self.state[at + place] = self.state[at + now]

    def _routine(self, name: str, nbytes: int = 0, address: int = 0) -> int:
        """Call a routine that takes an `ALLOCATION`; the address that it answers with."""
        frame = words(ALLOCATION.words)
        frame[ALLOCATION.fields["nbytes"][0]] = nbytes
        frame[ALLOCATION.fields["address"][0]] = address
        frame[ALLOCATION.fields["state"][0]] = self.address
        ctypes.CFUNCTYPE(None, ctypes.c_int64)(routines()[name])(ctypes.addressof(frame))
        return int(frame[ALLOCATION.fields["address"][0]])

    # --- streams -----------------------------------------------------------------------------------------------

    def choose(self, thread: int, stream: int) -> None:
        """Let launches of a thread, by its number of the operating system's, go to a stream; only the thread asks."""
        with _lock:
            free = place = None
            for k in range(self.read("n_choices")):
                owner = self._choices[k * CHOICE.words]
                if owner == thread:
                    place = k
                elif not owner and free is None:
                    free = k
            if stream == self.stream and thread not in self._captures:
                if place is not None:
                    self._forget_choice(place)
                return
            if place is None:
                place = self.read("n_choices") if free is None else free
            self._write_choice(place, thread, stream)

    def _write_choice(self, place: int, thread: int, stream: int) -> None:
        if self._choices is None:
            self._choices = lasting_words(MAX_CHOICES * CHOICE.words)
            self._set("choices", ctypes.addressof(self._choices))
        if place == MAX_CHOICES:
            raise RuntimeError(f"more than {MAX_CHOICES} threads have chosen a stream of GPU {self.index}")
        values = {
            "stream": stream,
            "arena": self._captures[thread][0] if thread in self._captures else self.arena_of(stream),
            **self._for_products(stream),
            "thread": thread,
        }
        for field, value in values.items():  # the thread comes last: launches of others may look meanwhile
            self._choices[place * CHOICE.words + CHOICE.fields[field][0]] = value
        self._set("n_choices", max(place + 1, self.read("n_choices")))

    def _forget_choice(self, place: int) -> None:
        self._choices[place * CHOICE.words] = 0
        count = self.read("n_choices")
        while count and not self._choices[(count - 1) * CHOICE.words]:
            count -= 1
        self._set("n_choices", count)

    def arena_of(self, stream: int) -> int:
        """The memory of a stream."""
        with _lock:
            if stream not in self.arenas:
                self.arenas[stream] = self._new_arena(stream)
            return self.arenas[stream]

    def _new_arena(self, stream: int) -> int:
        made = self._routine("new_arena", stream)
        if not made:
            raise MemoryError("no memory of the host's for the blocks of another stream")
        return made

    def _for_products(self, stream: int) -> dict[str, int]:
        """The handle of cuBLAS's for the products of a stream, and their workspace; 0 while no product was needed."""
        if not self._blas:
            return {"blas": 0, "workspace": 0}
        if stream not in self._handles:
            self.make_current()
            room = self._routine("allocate", WORKSPACE, self.arena_of(stream))
            if room < 0:
                raise self.error(-room, "cuBLAS")
            self._handles[stream] = blas.handle(self._blas, stream, room), room
        handle, room = self._handles[stream]
        return {"blas": handle, "workspace": room}

    def record_use(self, address: int, stream: int) -> None:
        """Keep the memory at an address, once it is given back, until a stream has done what it was given by then."""
        refuse_replays("it says that another stream uses memory (record_stream)")
        code = -self._routine("record_use", stream, address)
        if code:
            raise self.error(code, "record_stream()")

    # --- graphs ------------------------------------------------------------------------------------------------

    def new_pool(self, stream: int) -> int:
        """An arena for what graphs that are captured on a stream work on; it is theirs until `retire_pool`."""
        with _lock:
            made = next((arena for arena in self._retired if not self._reserved(arena)), 0)
            if made:
                self._retired.remove(made)
                for shelf in ("small", "large"):
                    self._word(made, shelf, "stream").value = stream
            else:
                made = self._new_arena(stream)
            self.keep_pool(made)
            return made

    def keep_pool(self, arena: int) -> None:
        """Let what is free in a pool stay its own."""
        self._word(arena).value, self._word(arena, "leaving").value = 1, 0

    def leave_pool(self, arena: int) -> None:
        """Say that the graphs of a pool are gone, but for what they are still at: see `ARENA`."""
        self._word(arena, "leaving").value = 1

    def retire_pool(self, arena: int) -> None:
        """Let memory that nobody has go back to the driver as any other does."""
        with _lock:
            self._word(arena).value = self._word(arena, "leaving").value = 0
            self._retired.append(arena)

    def _word(self, arena: int, shelf: str = "graphs", field: str = "") -> Any:
        """A word of an arena: whether graphs work on it, or a field of one of its shelves."""
        at = ARENA.fields[shelf][0] + (SHELF.fields[field][0] if field else 0)
        return ctypes.c_int64.from_address(arena + 8 * at)

    def _reserved(self, arena: int) -> int:
        return sum(self._word(arena, shelf, "reserved").value for shelf in ("small", "large"))

    def begin_capture(self, thread: int, stream: int, arena: int) -> list[Any]:
        """Let a thread, whose current stream is given, get memory of an arena alone.

        What `keep_in_capture` was given stands in the list that this returns.
        """
        kept: list[Any] = []
        with _lock:
            self._captures[thread] = arena, next(_captures), kept
            try:
                self.choose(thread, stream)
            except BaseException:
                del self._captures[thread]
                raise
        return kept

    def keep_in_capture(self, thing: Any) -> None:
        """Keep something alive as long as what the calling thread captures, if it does."""
        found = self._captures.get(threading.get_ident())
        if found is not None:
            found[2].append(thing)

    def end_capture(self, thread: int, stream: int) -> None:
        """The end of that."""
        with _lock:
            if self._captures.pop(thread, None) is not None:
                self.choose(thread, stream)

    def capture_number(self) -> int:
        """Which capture it is that records what the calling thread launches here; 0 if there is none."""
        return self._captures.get(threading.get_ident(), (0, 0, []))[1] if self._captures else 0

    def refuse_in_capture(self, what: str) -> None:
        """Raise where the calling thread captures: nothing has run that one could wait for."""
        if self.capture_number():
            raise RuntimeError(
                f"CUDA error: operation not permitted when stream is capturing, in {what}: what is captured runs at "
                "replay(); do this before the capture or after it"
            )

    # --- what users ask for ------------------------------------------------------------------------------------

    def make_current(self) -> None:
        """Make its context that of the calling thread."""
        self.driver.call("cuCtxSetCurrent", self.context)

    def attribute(self, number: int) -> int:
        """An attribute of the device, as the driver numbers them."""
        return self.driver.number("cuDeviceGetAttribute", number, self.device)

    @property
    def capability(self) -> tuple[int, int]:
        """The version of its architecture."""
        return self.attribute(MAJOR), self.attribute(MINOR)

    @property
    def architecture(self) -> str:
        """What kernels are compiled for."""
        major, minor = self.capability
        return f"sm_{major}{minor}"

    @property
    def name(self) -> str:
        """What its maker calls it."""
        return name_of(self.driver, self.device)

    @property
    def total_memory(self) -> int:
        """Bytes of its memory."""
        return self.driver.total_memory(self.device)

    def memory(self) -> tuple[int, int]:
        """Bytes of its memory that are free, and all of them."""
        self.make_current()
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.driver.call("cuMemGetInfo", ctypes.addressof(free), ctypes.addressof(total))
        return free.value, total.value

    def synchronize(self) -> None:
        """Wait for all that it has been given to do; raise what went wrong in it."""
        self.refuse_in_capture("synchronize")
        self.raise_failure("synchronize")
        self.make_current()
        code = self.driver.ask("cuCtxSynchronize")
        if code:
            self._set("failed", code if code in FATAL else 0)
            raise self.driver.error(code, "synchronize")
        self.raise_reported()

    def empty_cache(self) -> None:
        """Give memory that no tensor uses back to the driver."""
        code = -self._routine("empty_cache")
        if code:
            raise self.driver.error(code, "empty_cache")

    # --- failures ----------------------------------------------------------------------------------------------

    def raise_failure(self, what: str) -> None:
        """Raise what a launch said that nobody has heard of yet."""
        if self.read("failed"):
            raise self.error(self.read("failed"), what)

    def raise_reported(self) -> None:
        """Raise what a kernel has reported by now: called by whoever has waited for some."""
        error = self._reported()
        if error is not None:
            raise error

    def _reported(self) -> BaseException | None:
        error = reports.found(self.read("late"), self.read("n_late"), self.read("late_tables"))
        if error is not None:
            self._told = type(error), error.args  # and not what its traceback holds
        return error

    def error(self, code: int, op: str) -> BaseException:
        """The exception for what a routine said in an op. Only what the driver calls fatal stays."""
        begin = f"{op}: " if op else ""
        if code not in FATAL and code != FORKED:
            self._set("failed", 0)
        if code == FORKED:
            return RuntimeError(_FORKED)
        if code == REPORTED:
            # If another thread was faster, this one has waited for the same kernels: it is told the same.
            return self._reported() or self._told[0](*self._told[1])
        if code == NO_HANDLE:
            return RuntimeError(f"{begin}there is no handle of cuBLAS for this stream; call it again")
        if code == OUT_OF_MEMORY:
            return OutOfMemoryError(f"{begin}{self._what_memory_is_for()}")
        if code == NO_ROOM:
            return MemoryError(f"{begin}the host has no memory for a graph")
        if code == SHORT_FRAME:
            return SystemError(f"{begin}the frame of a launch is shorter than its kernel's parameters")
        if code == TOO_MANY_ITEMS:
            return RuntimeError(
                f"{begin}more than 2**31 - 1 elements lie in a way that a launch cannot take; "
                "make the operands contiguous, or divide them"
            )
        if code >= BLAS_FAILED:
            return RuntimeError(f"CUDA error: {blas.status(code - BLAS_FAILED)} in {op or 'the runtime'}")
        return self.driver.error(code, op or "the runtime")

    def _what_memory_is_for(self) -> str:
        s = self.statistics()
        free, total = self.memory()
        mebibytes = {name: f"{count / (1 << 20):.2f} MiB" for name, count in s.items()}
        return (
            f"CUDA out of memory. GPU {self.index} has a total capacity of {total / (1 << 20):.2f} MiB, of which "
            f"{free / (1 << 20):.2f} MiB is free. Of the allocated memory {mebibytes['allocated']} is in use by "
            f"tensors, and {(s['reserved'] - s['allocated']) / (1 << 20):.2f} MiB is reserved but not in use; free "
            "tensors, use smaller batches, or call fastgrad.cuda.empty_cache()"
        )

    # --- kernels -----------------------------------------------------------------------------------------------

    def resolve(self, kernel: Any, dtype: int, layout_class: int) -> int:
        """The address of the record by which a kernel is launched: see `CUDA_KERNEL`."""
        made = self._compiler(kernel, dtype, layout_class, self.architecture)
        how = made.launch
        record = lasting_words(CUDA_KERNEL.words)
        if how.kind == PRODUCT and not self.read("blas"):
            self._need_blas()
        if how.kind == PEER:
            self._open_to_peers()
        if how.kind != PLAIN and "seed" in kernel.frame(layout_class).fields:
            raise SystemError(f"kernel {kernel.name}: what draws random numbers has to be one plain launch")
        function = self._load(made) if made.code else dtype
        values = {
            "kind": how.kind, "function": function, "n_words": how.n_words,
            "items": _encoded(how.items, kernel.frame(layout_class)),
            "per_block": how.per_block, "threads": how.threads, "more": how.more,
            "moved": how.moved, "turns": how.turns,
            "steps": kernel.frame(layout_class).place(how.steps) if how.steps else 0,
        }  # fmt: skip
        for field, value in values.items():
            record[CUDA_KERNEL.fields[field][0]] = value
        self._loaded.append(record)
        return ctypes.addressof(record)

    def _need_blas(self) -> None:
        """Find cuBLAS, and make a handle of it for each stream that is in use."""
        with _lock:
            self._blas = self.driver.blas()
            self._set("batched_gemm", self._blas(blas.PRODUCT))
            for k in range(self.read("n_choices")):
                place = k * CHOICE.words
                if self._choices[place + CHOICE.fields["thread"][0]]:
                    stream = self._choices[place + CHOICE.fields["stream"][0]]
                    for field, value in self._for_products(stream).items():
                        self._choices[place + CHOICE.fields[field][0]] = value
            usual = self._for_products(self.stream)
            self._set("set_workspace", self._blas(blas.SET_WORKSPACE))
            self._set("graph_blas", blas.handle(self._blas, self.read("graph_stream"), usual["workspace"]))
            self._set("workspace", usual["workspace"])
            self._set("blas", usual["blas"])

    def _open_to_peers(self) -> None:
        """Let copies to other GPUs go directly, where that is possible; the driver finds a way for the others."""
        self.make_current()
        for other in attached():
            if other is not self and self.driver.number("cuDeviceCanAccessPeer", self.device, other.device):
                code = self.driver.ask("cuCtxEnablePeerAccess", other.context, 0)
                if code not in (0, _ALREADY_OPEN, _TOO_MANY_PEERS):
                    raise self.driver.error(code, "cuCtxEnablePeerAccess")

    def _load(self, made: Cubin) -> int:
        """The driver's handle of a kernel."""
        self.make_current()
        image = ctypes.create_string_buffer(made.code, len(made.code))
        name = ctypes.create_string_buffer(made.entry.encode())
        module = ctypes.c_void_p(0)
        code = self.driver.ask("cuModuleLoadData", ctypes.addressof(module), ctypes.addressof(image))
        if code:
            what = f"cuModuleLoadData of the kernel {made.entry}, compiled for {self.architecture}"
            raise self.driver.error(code, what)
        address = ctypes.addressof(name)
        return self.driver.number("cuModuleGetFunction", module.value, address, kind=ctypes.c_void_p)


def _encoded(items: tuple[str | int, ...], frame: Frame) -> int:
    """Fields and numbers as `CUDA_KERNEL` has them."""
    factors = [item | CONSTANT_FACTOR if isinstance(item, int) else _field(item, frame) for item in items]
    return int.from_bytes(bytes(factors).ljust(8, b"\0"), "little", signed=True)


def _field(item: str, frame: Frame) -> int:
    name, _, tiled = item.partition("/")
    factor = frame.place(name) + 1
    if tiled and factor >= TILED_FACTOR:
        raise ValueError(f"frame {frame.name}: {name} lies too far behind to be counted by tiles")
    return factor | (TILED_FACTOR if tiled else 0)


# --- all of them -----------------------------------------------------------------------------------------------

_gpus: list[Gpu] | None = None
_allow_tf32 = False
_count: int | None = None  # of GPUs, once the driver was asked
_forked_child = False  # of a process that had asked the driver, which then serves no child


def attached() -> list[Gpu]:
    """The GPUs that are in use; none while nobody asked for one."""
    return _gpus or []


def attach(driver: Driver, compiler: Compiler) -> list[Gpu]:
    """Make the GPUs of a driver devices of the runtime."""
    global _gpus
    with _lock:
        driver.call("cuInit", 0)
        found = [
            Gpu(index, driver, compiler) for index in range(min(driver.number("cuDeviceGetCount"), MAX_GPUS))
        ]
        if not found:
            raise RuntimeError("No CUDA GPUs are available")
        found[0]._set("alone", int(len(found) == 1))
        for gpu in found:
            made = routines()
            own = devices.Routines(
                made["allocate"], made["release"], made["launch"], made["graph"], gpu.address
            )
            devices.register_device(
                "cuda", FIRST_GPU + gpu.index, gpu.resolve, own, number=gpu.index, error=gpu.error
            )
        _gpus = found
        return found


def gpus() -> list[Gpu]:
    """The GPUs of this machine, which are attached if they are not yet.

    Raises
    ------
    RuntimeError
        If there is no driver, or no GPU.
    """
    with _lock:
        if _forked_child:
            raise RuntimeError(_FORKED)
        if _gpus is not None:
            return _gpus
        from fastgrad.kernels.cuda.compile import built  # programs without a GPU do without it

        return attach(find(), built)


def count() -> int:
    """How many GPUs there are, 0 without a driver; none is attached for that."""
    global _count
    with _lock:
        if _gpus is not None:
            return len(_gpus)
        if _count is None:
            try:
                driver = find()
                driver.call("cuInit", 0)
                _count = min(driver.number("cuDeviceGetCount"), MAX_GPUS)
            except RuntimeError:  # no driver, or one that finds no GPU
                return 0
        return _count


def set_allow_tf32(allow: bool) -> None:
    """Let products of float32 matrices round their factors to TF32, on all GPUs, or not."""
    global _allow_tf32
    with _lock:
        _allow_tf32 = allow
        for gpu in attached():
            gpu._set("allow_tf32", int(allow))


def is_attached() -> bool:
    """Whether the GPUs are in use, by this process and not by one that it is a fork of."""
    return _gpus is not None and not _forked_child


@atexit.register
def _ending() -> None:
    """Graphs that go with the interpreter are left to the driver, which ends as well."""
    for gpu in attached():
        gpu._set("ending", 1)


def _forked() -> None:
    """No context survives a fork: the child is told so at its first launch."""
    global _forked_child
    _forked_child = _forked_child or _gpus is not None or _count is not None
    for gpu in attached():
        gpu._set("failed", FORKED)
        gpu._captures.clear()


os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
os.register_at_fork(after_in_child=_forked)
devices.bring_with("cuda", gpus, count)
