"""What the runtime's CUDA device is made of: kernels as the driver launches them, memory, the state of a GPU.

A kernel gets the words of its frame (see `contracts.frame`) as its parameters, in order, each of 64 bits; so the frame
itself is the buffer of parameters that the driver copies.
"""

from __future__ import annotations

from fastgrad.native.contracts.frame import REPORT
from fastgrad.native.contracts.limits import FRAME_DIMS
from fastgrad.native.contracts.record import Part

# --- kernels ---------------------------------------------------------------------------------------------------

CUDA_KERNEL = Part(
    "cuda_kernel", kind=1, function=1, n_words=1, items=1, per_block=1, threads=1, steps=1, more=1, moved=1, turns=1,
)  # fmt: skip
"""What stands behind a cell of the kernel table: how it is launched, the driver's handle, the words that are its
parameters; `items`, up to six factors of one byte each from the lowest on, whose product is the number of work
items: the place of a field plus one, with `TILED_FACTOR` if it counts by tiles, or a number with
`contracts.frame.CONSTANT_FACTOR`; how many items a block takes, and its threads. Of a stepped launch the place of the
field that says how many steps there are, and how many there are besides. Of one over many frames how many addresses
each of them has, and the turns that it takes besides its work."""
TILED_FACTOR, TILE = 0x40, 32
"""The mark of a field that counts by tiles of so many, of which the last one may be in part empty."""

# Kinds of launches. Divided: behind the words of a strided frame follow `DIVISORS` divisors, and the items are its
# elements. Stepped: the kernel is launched once for each step, whose number stands behind the words of the frame; all
# blocks of a step are done before the next one begins. Over many: see `MANY_HEAD`. The others are calls of the driver
# or of cuBLAS, and no kernels.
PLAIN, DIVIDED, UPLOAD, DOWNLOAD, ZEROED, PRODUCT, STEPPED, PEER, MANY = range(9)

MANY_HEAD = Part("cuda_many", n_frames=1, chunk=1, before=1)
"""What stands behind the words of the first frame in the parameters of a kernel over many frames (`GROUP` in
`contracts.frames.multi_tensor`), which differ in their sizes and addresses alone: how many there are, of how many
elements a block takes a *chunk*, and how many chunks earlier launches of the same call have had. Then follows for each
frame how many chunks those up to its own have, its size and its addresses. A frame has at least one chunk. In place of
the length of a chunk stands the turn that a launch takes before or after its work."""
MANY_PARAMETERS = 512
"""Words of the parameters of such a kernel: as many as every GPU takes."""
MOST_CHUNKS = 1584
"""Chunks that the elements of a call are divided into, besides one for each frame: twelve for each of the
multiprocessors of a large GPU."""
COUNTS_BEFORE, SUMS_AFTER = 1, 2
"""Turns, as bits: one block counts the steps of all frames, where several blocks of a frame would read the number that
one of them counts; one block puts together what the blocks have found, which stands in room of the call's."""
COUNTING_TURN, SUMMING_TURN = 0, -1
"""In place of the length of a chunk."""

DIVISOR_SHIFT = 32
DIVISORS = FRAME_DIMS
"""Division of a number below 2**31 by a size d is ``(umulhi32(n, m) + n) >> s`` with ``m`` in the low 32 bits of a
divisor and ``s`` above them (Granlund and Montgomery, 1994): ``s = ceil(log2(d))`` and
``m = 2**32 (2**s - d) / d + 1``."""

LAUNCH_PARAMETERS = Part("cuda_parameters", buffer_key=1, buffer=1, size_key=1, size_place=1, end=1, size=1)
"""How the driver is told where the parameters of a kernel lie: pairs of a key and what it stands for, up to a zero; the
size, which one of them points to, stands behind."""
BUFFER_KEY, SIZE_KEY = 1, 2  # CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE

NODE_PARAMETERS = Part(
    "cuda_node_parameters", function=1, grid_xy=1, grid_z_block_x=1, block_yz=1, shared_bytes=1, places=1, extra=1,
    kernel=1, context=1,
)  # fmt: skip
"""How a kernel of a graph is changed, CUDA_KERNEL_NODE_PARAMS: words of two numbers of 32 bits have the first one
below; `places` points to the addresses of the parameters."""
DRAWING = Part("cuda_drawing", node=1, kernel=1, blocks=1, seed=1, offset=1, next=1)
"""A launch of a graph that draws other random numbers at each run: the driver's node, its `CUDA_KERNEL`, the blocks,
the place of the seed, the offset in the frame; then the parameters."""

MOST_ITEMS = (1 << 31) - 1
"""Blocks of a launch, and items of a divided one, at most: what has more is refused, by `TOO_MANY_ITEMS`."""

# --- memory ----------------------------------------------------------------------------------------------------

UNIT = 512  # bytes; blocks are multiples of it
SMALL = 1 << 20  # bytes of the largest block that is cut from a small segment
SMALL_SEGMENT, LARGE_SEGMENT, OWN_SEGMENT = 2 << 20, 20 << 20, 10 << 20
"""Bytes of the segments that blocks are cut from: of small ones, and of those up to `OWN_SEGMENT`; a larger block has a
segment to itself, whose size is a multiple of that of small ones."""
FINE_BINS = 8  # sizes to each doubling
BINS = 400
BIN_MAPS = (BINS + 63) // 64

BLOCK = Part(
    "cuda_block", address=1, nbytes=1, wanted=1, used=1, shelf=1, before=1, after=1, next=1, previous=1, uses=1,
)  # fmt: skip
"""A piece of a segment: its place, its size and how much of it was asked for; its neighbours in the segment, and
those in its bin while nobody uses it; by which other streams it is used."""
USE = Part("cuda_use", stream=1, event=1, next=1)
"""That another stream than that of its arena uses a block: see Note [Uses] in `cuda.memory`."""
SHELF = Part("cuda_shelf", segment=1, stream=1, reserved=1, maps=BIN_MAPS, bins=BINS)
"""Blocks that are free, of small or of large segments, by their size; `reserved`: bytes of its segments."""
ARENA = Part("cuda_arena", stream=1, graphs=1, leaving=1, next=1, small=SHELF.words, large=SHELF.words)
"""The memory of one stream: what is freed there may be used again at once, as launches run in order. `graphs`: how many
captured graphs may still work on what is free here; while there are any, it is not given back. `leaving`: they are
gone, and only what they were given to do may be under way."""
STATISTICS = Part(
    "cuda_statistics", allocated=1, allocated_peak=1, requested=1, requested_peak=1, reserved=1, reserved_peak=1,
    active=1, active_peak=1, allocations=1, frees=1, segments=1, segments_peak=1, segments_made=1, segments_freed=1,
    retries=1, failures=1,
)  # fmt: skip

# --- reports ---------------------------------------------------------------------------------------------------

LATE = Part("cuda_late", **dict.fromkeys(REPORT.fields, 1), reason=1, kernel=1, dim=1, last=1, spare=1)
N_LATE = 256
"""What a kernel reports in memory that host and device share, and of which launch: see Note [Late reports] in
`cuda.reports`. Those that are taken last are kept."""
LATE_TABLE = Part("cuda_late_table", places=1, cap=1, taken=1, next=1)
"""A table of `LATE` for the launches of one graph: how many there is room for, and how many the graph has; 0 where the
table is free."""

# --- the state of a GPU ----------------------------------------------------------------------------------------

DRIVER = (
    "cuCtxSetCurrent", "cuCtxSynchronize", "cuLaunchKernel", "cuMemAlloc", "cuMemFree",
    "cuMemcpyHtoDAsync",
    "cuMemcpyDtoHAsync", "cuMemcpyPeerAsync", "cuMemsetD8Async", "cuMemHostAlloc", "cuStreamSynchronize",
    "cuEventCreate", "cuEventRecord", "cuEventQuery", "cuEventSynchronize", "cuEventDestroy", "cuStreamWaitEvent",
    "cuStreamBeginCapture", "cuStreamEndCapture", "cuStreamGetCaptureInfo", "cuGraphInstantiateWithFlags",
    "cuGraphExecKernelNodeSetParams", "cuGraphLaunch", "cuGraphDestroy", "cuGraphExecDestroy",
)  # fmt: skip
"""The functions of the driver that compiled code calls; their addresses are the first words of a state."""
CHOICE = Part("cuda_choice", thread=1, stream=1, arena=1, blas=1, workspace=1)
"""That a thread, by its number of the operating system's, has chosen another stream than the usual one, or captures a
graph; and that stream's arena or the capture's, its handle of cuBLAS's or 0, and where that has its workspace."""
GRAPH = Part(
    "cuda_graph", executable=1, captured=1, drawings=1, workspace=1, table=1, stream=1, event=1, next=1,
)  # fmt: skip
"""A graph that can be launched; the graph that was captured and its first `DRAWING`, or 0; the workspace of its
products, or 0; the table that its launches report to, or 0; where it was launched last, or 0. Once it is dropped, an
event behind that launch: see Note [Graphs] in `cuda.graphs`."""
GPU = Part(
    "cuda_gpu", **dict.fromkeys(DRIVER, 1),
    context=1, stream=1, arena=1, arenas=1, synchronous=1, failed=1, limit=1,
    blocks=1, n_blocks=1, cap_blocks=1, statistics=STATISTICS.words,
    batched_gemm=1, blas=1, workspace=1, allow_tf32=1, choices=1, n_choices=1, waiting=1,
    graph_stream=1, graph_blas=1, set_workspace=1, graph_workspace=1, dropped=1, ending=1,
    late=1, n_late=1, late_tables=1, graph_table=1, graph_notes=1, graph_drawings=1, spare=1,
    alone=1,
)  # fmt: skip
"""`stream`: where launches go; `arena`: whose memory they get; `choices`: a table of the threads for which it is
another stream, by `CHOICE`. `waiting`: blocks that are free once other streams are done with them. `failed`: what the
driver said first that went wrong. `blocks`: a table of the blocks in use, by address. `limit`: bytes of the driver's
that may be reserved, or 0. `blas`: cuBLAS's handle, `workspace` where it has its workspace, `batched_gemm` and
`set_workspace` its functions; 0 while no product was needed. `graph_stream`: where graphs are captured; `graph_blas`:
its handle; `graph_workspace`: that of the graph under way. `dropped`: graphs to be destroyed; `ending`: the interpreter
ends, and the driver is not called for them. `late`: a table of `LATE`, of which `n_late` were taken by now;
`late_tables`: those of graphs; `graph_table`: that of the graph under way, or 0, of which `graph_notes` are taken;
`graph_drawings`: its first `DRAWING`. `spare`: records of blocks that are none any more, for new ones. `alone`: the
process sees no other GPU; see Note [The current context] in `cuda.queues`."""

OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY
INVALID_CONTEXT, INVALID_HANDLE = 201, 400  # CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_HANDLE
NOT_READY = 600  # CUDA_ERROR_NOT_READY: what an event or a stream says that is not done
RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED: nothing else is forbidden meanwhile, to no thread
SHARED = 1 | 2
"""CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP: memory that all contexts and their devices reach."""
NO_TIMES = 2  # CU_EVENT_DISABLE_TIMING: a flag of an event
SHORT_FRAME, TOO_MANY_ITEMS, FORKED, NO_HANDLE, NO_ROOM, REPORTED = range(10_001, 10_007)
"""What the device itself says besides the driver: a frame is shorter than the kernel's parameters; a launch has a
number of items that no grid holds; the process is a fork of the one that has the context; a stream has no handle of
cuBLAS's; the host has no memory for a record; a kernel has reported."""
WORKSPACE = 32 << 20
"""Bytes that products may use besides their operands. They are set, so that results do not depend on what else runs."""
BLAS_FAILED = 20_000
"""What cuBLAS says is added to it."""
