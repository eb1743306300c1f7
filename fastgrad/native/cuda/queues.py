"""Putting a launch into the queue of a stream: the call of the driver."""

from __future__ import annotations

from fastgrad.native.base.c_calls import function_at
from fastgrad.native.base.intrinsics import address_of, caster, native_inline, stack_small
from fastgrad.native.contracts.cuda import (
    BUFFER_KEY,
    CUDA_KERNEL,
    LAUNCH_PARAMETERS,
    MOST_ITEMS,
    SIZE_KEY,
    TOO_MANY_ITEMS,
)

cuda_kernel, launch_parameters = map(caster, (CUDA_KERNEL, LAUNCH_PARAMETERS))
launch_kernel = function_at("qiiiiiiiqqq")
SIZE_OFFSET = LAUNCH_PARAMETERS.offset("size")


@native_inline
def launch_blocks(g, stream, k, parameters, n_words, blocks):
    """Launch so many blocks of a kernel on a stream, with so many words of parameters; what the driver says."""
    if blocks <= 0:
        return 0
    if blocks > MOST_ITEMS:
        return TOO_MANY_ITEMS
    extra = launch_parameters(stack_small())
    extra.buffer_key = BUFFER_KEY
    extra.buffer = parameters
    extra.size_key = SIZE_KEY
    extra.size_place = address_of(extra) + SIZE_OFFSET
    extra.end = 0
    extra.size = n_words * 8
    return launch_kernel(
        g.cuLaunchKernel, k.function, blocks, 1, 1, k.threads, 1, 1, 0, stream, 0, address_of(extra)
    )
