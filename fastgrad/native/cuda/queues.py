"""Putting a launch into the queue of a stream: the call of the driver.

Note [The current context]: the driver launches in the context that is current on the calling thread. It refuses a
launch where there is none, or where the stream is of another one, and nothing has happened then. Whatever runs between
two launches on this thread may change the context, a hook or a destructor that calls another library, so it cannot be
remembered. With several GPUs it is made current before each launch. But where the process sees one GPU, all libraries
use the one primary context of that, which the thread mostly has: there a kernel is launched as it is, and only if the
driver refuses it is the context made current, and the kernel launched again. Copies and products, which say less
clearly that they have met another context, make it current before, as everything else does.
"""

from __future__ import annotations

from fastgrad.native.base.c_calls import function_at
from fastgrad.native.base.intrinsics import address_of, caster, native_inline, native_once, stack_small
from fastgrad.native.contracts.cuda import (
    BUFFER_KEY,
    CUDA_KERNEL,
    INVALID_CONTEXT,
    INVALID_HANDLE,
    LAUNCH_PARAMETERS,
    MOST_ITEMS,
    SIZE_KEY,
    TOO_MANY_ITEMS,
)

cuda_kernel, launch_parameters = map(caster, (CUDA_KERNEL, LAUNCH_PARAMETERS))
launch_kernel = function_at("qiiiiiiiqqq")
make_current = function_at("q")
SIZE_OFFSET = LAUNCH_PARAMETERS.offset("size")


@native_once
def launch_again(g, stream, k, extra, blocks):
    """Launch what the driver has refused in its own context; what the driver says. See Note [The current context]."""
    code = make_current(g.cuCtxSetCurrent, g.context)
    if code != 0:
        return code
    return launch_kernel(g.cuLaunchKernel, k.function, blocks, 1, 1, k.threads, 1, 1, 0, stream, 0, extra)


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
    code = launch_kernel(
        g.cuLaunchKernel, k.function, blocks, 1, 1, k.threads, 1, 1, 0, stream, 0, address_of(extra)
    )
    if g.alone != 0 and (code == INVALID_CONTEXT or code == INVALID_HANDLE):
        return launch_again(g, stream, k, address_of(extra), blocks)
    return code
