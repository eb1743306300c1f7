"""What the runtime's CUDA device is made of: kernels as the driver launches them, the state of a GPU.

A kernel gets the words of its frame (see `contracts.frame`) as its parameters, in order, each of 64 bits; so the frame
itself is the buffer of parameters that the driver copies.
"""

from __future__ import annotations

from fastgrad.native.contracts.limits import MAX_DIMS
from fastgrad.native.contracts.record import Part

CUDA_KERNEL = Part(
    "cuda_kernel", kind=1, function=1, n_words=1, items=1, per_block=1, threads=1, shared=1,
)  # fmt: skip
"""What stands behind a cell of the kernel table: how it is launched, the driver's handle, the words that are its
parameters; `items`, up to six factors of one byte each from the lowest on, whose product is the number of work items: the
place of a field plus one, or a number with `contracts.frame.CONSTANT_FACTOR`; how many items a block takes, its threads,
and bytes of dynamic shared memory."""

# Kinds of launches. Divided: behind the words of a strided frame follow `MAX_DIMS` divisors, and the items are its
# elements. The others are calls of the driver or of cuBLAS, and no kernels.
PLAIN, DIVIDED, UPLOAD, DOWNLOAD, ZEROED, PRODUCT = range(6)

DIVISOR_SHIFT = 32
DIVISORS = MAX_DIMS
"""Division of a number below 2**31 by a size d is ``(umulhi32(n, m) + n) >> s`` with ``m`` in the low 32 bits of a
divisor and ``s`` above them (Granlund and Montgomery, 1994): ``s = ceil(log2(d))``, ``m = 2**32 (2**s - d) / d + 1``."""

MOST_ITEMS = (1 << 31) - 1
"""Items of a launch; larger ones fall into parts."""
