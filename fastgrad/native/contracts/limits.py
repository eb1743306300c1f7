"""How large things may be: dimensions, inputs, tables. Read by compiled code and by Python."""

from __future__ import annotations

MAX_DIMS = 16
"""Largest number of dimensions of a tensor."""

FRAME_DIMS = 8
"""Dimensions that the frame of a kernel with strides has room for, once neighbours are merged: see Note [Pieces of a
launch] in `launch.strided`."""

MAX_INPUTS = 5
"""Largest number of tensor inputs of an op with elementwise kernels (other ops take any number)."""

N_DTYPES = 16  # width of the kernel table, a power of two
N_DEVICES = 16
HOST = 0
"""The column of the kernel table for the device that compiled code runs on."""
FIRST_GPU, MAX_GPUS = 8, 8
"""The columns of the kernel table for GPUs."""
META = 7
"""The column of the meta device, whose tensors have no elements."""
NOWHERE = 1 << 61
"""In place of the functions of a device without memory: see Note [Nowhere] in `memory.devices`."""
N_LAYOUTS = 4
MAX_KERNELS = 1024
MAX_OPS = 1024
N_RANDOM_KERNELS = 4  # kernels that fill a tensor from a generator
WALK_STACK = 512  # words of the stack of a walk along the graph
FRAME_WORDS = 64  # the longest frame of a kernel
ALL_DIMS = 1 << 62
"""In place of a dimension of an op over rows: the tensor is one row."""

ATTR_WORDS = 18
"""Integers that an op call may carry (sizes, dimensions, bit patterns of floats)."""

META_WORDS = 3 + MAX_DIMS  # dtype, device, ndim, shape: what a node knows of one of its outputs
SAVED_INPUTS = 7
SAVED_OUTPUTS = 3
SAVED_SLOTS = SAVED_INPUTS + SAVED_OUTPUTS
"""Tensors that a node of an op can save: see Note [Saved places] in `contracts.ops`."""

RULES = 4
"""Inputs of an op that have a derivative of their own; any further ones have that of the last of these."""

INLINE_EDGES = 3
MAX_NESTED = 60
"""Passes within passes on one thread: Python bounds the frames of a thread, so deeper ones go to another."""

N_BINS = 256
MAX_THREADS = 256  # of the pool
MAX_PARTS = 256  # of a launch
N_CODES = 4096
"""Codes of fused launches that a process can have: see Note [Codes] in `memory.tapes`."""
SPLIT_WORDS = 1 << 14  # of all the ways to divide launches
CACHE_LINE = 64  # bytes
QUARANTINE = 1024  # freed records wait this long before reuse in debug mode

LAST = 1 << 62
"""The sequence number of AccumulateGrad nodes: they run as soon as they are ready."""
