"""Launches on a GPU: from the frame of a kernel to the call of the driver, or of cuBLAS.

Nothing here waits for the GPU but for what brings bytes to the host: launches stand in the stream's queue when they
return. What the driver says that went wrong is kept, and no launch follows, until Python has raised it.
"""

from __future__ import annotations

from fastgrad.native.base import frames
from fastgrad.native.base.c_calls import function_at
from fastgrad.native.base.intrinsics import (
    address_of,
    caster,
    leading_zeros,
    native,
    native_inline,
    native_once,
    stack_small,
    stack_words,
    words,
)
from fastgrad.native.contracts.cuda import (
    DIVIDED,
    DIVISOR_SHIFT,
    DIVISORS,
    DOWNLOAD,
    MANY,
    MOST_ITEMS,
    NO_TIMES,
    PEER,
    PLAIN,
    PRODUCT,
    REPORTED,
    SHORT_FRAME,
    STEPPED,
    TILE,
    TILED_FACTOR,
    TOO_MANY_ITEMS,
    UPLOAD,
    ZEROED,
)
from fastgrad.native.contracts.frame import CONSTANT_FACTOR, MAX_FACTORS
from fastgrad.native.contracts.limits import FRAME_WORDS
from fastgrad.native.contracts.records import LAUNCHING
from fastgrad.native.cuda.many import launch_many
from fastgrad.native.cuda.memory import (
    choice_at,
    choice_of,
    event_create,
    event_do,
    event_record,
    gpu,
    stream_of,
    synchronize,
)
from fastgrad.native.cuda.products import multiply
from fastgrad.native.cuda.queues import cuda_kernel, launch_blocks, make_current
from fastgrad.native.cuda.reports import forget_reports, look_for_reports, note, report_place

launching = caster(LAUNCHING)
copy = function_at("qqqq")
copy_across = function_at("qqqqqq")
wait_event = function_at("qqi")
fill_bytes = function_at("qiqq")

_parameters = stack_words(FRAME_WORDS + DIVISORS)


@native_inline
def items_of(k, frame):
    """How many work items a launch has: the product that its kernel declares."""
    items = 1
    for j in range(MAX_FACTORS):
        factor = k.items >> 8 * j & 0xFF
        if factor == 0:
            break
        if factor & CONSTANT_FACTOR:
            items *= factor & ~CONSTANT_FACTOR
        elif factor & TILED_FACTOR:
            items *= (words(frame)[(factor & ~TILED_FACTOR) - 1] + TILE - 1) // TILE
        else:
            items *= words(frame)[factor - 1]
    return items


@native
def blocks_of(k, frame):
    """How many blocks a plain launch has."""
    return (max(items_of(k, frame), 0) + k.per_block - 1) // k.per_block


@native
def divisor(size):
    """What divides by a size: see `contracts.cuda`."""
    if size <= 1:
        return 0
    shift = 64 - leading_zeros(size - 1)
    magic = ((1 << 32) * ((1 << shift) - size)) // size + 1
    return magic | shift << DIVISOR_SHIFT


@native_once
def with_divisors(frame, n_words, parameters):
    """Copy a strided frame and write the divisors behind it; how many elements it has."""
    for j in range(n_words):
        words(parameters)[j] = words(frame)[j]
    s = frames.strided(frame)
    elements = 1
    for d in range(DIVISORS):
        size = s.sizes[d] if d < s.rank else 1
        elements *= size
        words(parameters)[n_words + d] = divisor(size)
    return elements


@native_inline
def put_into_queue(g, stream, k, parameters, n_words, items):
    """Launch a kernel over so many items on a stream; what the driver says."""
    return launch_blocks(g, stream, k, parameters, n_words, (items + k.per_block - 1) // k.per_block)


@native_once
def launch_divided(g, stream, k, frame):
    """Launch a kernel over strided operands."""
    parameters = _parameters()
    elements = with_divisors(frame, k.n_words, parameters)
    if elements > MOST_ITEMS:
        return TOO_MANY_ITEMS
    return put_into_queue(g, stream, k, parameters, k.n_words + DIVISORS, elements)


@native_once
def launch_steps(g, stream, k, frame):
    """Launch a kernel once for each step."""
    parameters = _parameters()
    for j in range(k.n_words):
        words(parameters)[j] = words(frame)[j]
    items, code = items_of(k, frame), 0
    for step in range(words(frame)[k.steps] + k.more):
        words(parameters)[k.n_words] = step
        code = put_into_queue(g, stream, k, parameters, k.n_words + 1, items)
        if code != 0:
            break
    return code


@native_once
def let_wait(g, stream, other, there):
    """Let a stream of a GPU wait for what one of another GPU has been given; what the driver says."""
    place = words(stack_small())
    place[0] = 0
    code = make_current(other.cuCtxSetCurrent, other.context)
    if code == 0:
        code = event_create(other.cuEventCreate, address_of(place), NO_TIMES)
    if code == 0:
        code = event_record(other.cuEventRecord, place[0], there)
    back = make_current(g.cuCtxSetCurrent, g.context)
    code = code if code != 0 else back
    if code == 0:
        code = wait_event(g.cuStreamWaitEvent, stream, place[0], 0)
    if place[0] != 0:  # the driver keeps it as long as it needs it
        event_do(g.cuEventDestroy, place[0])
    return code


@native_once
def copy_to_peer(g, stream, t):
    """Copy to another GPU, behind what both current streams were given and before what they will be; as `enqueue`."""
    other = gpu(t.other)
    if other.failed != 0:
        return other.failed
    there = stream_of(other)
    code = let_wait(g, stream, other, there)
    if code == 0:
        code = copy_across(g.cuMemcpyPeerAsync, t.out, other.context, t.x, g.context, t.nbytes, stream)
    if code == 0:
        code = let_wait(other, there, g, stream)
    back = make_current(g.cuCtxSetCurrent, g.context)
    return code if code != 0 else back


@native_once
def call_driver(g, stream, blas, k, frame):
    """Do what is no kernel, on a stream and with its handle of cuBLAS's."""
    if k.kind == ZEROED:
        z = frames.zero(frame)
        return fill_bytes(g.cuMemsetD8Async, z.out, 0, z.nbytes, stream) if z.nbytes > 0 else 0
    if k.kind == PRODUCT:
        return multiply(g, blas, frame, k.function)
    t = frames.transfer(frame)
    if t.nbytes <= 0:
        return 0
    if k.kind == PEER:
        return copy_to_peer(g, stream, t)
    if k.kind == UPLOAD:
        return copy(g.cuMemcpyHtoDAsync, t.out, t.x, t.nbytes, stream)
    code = copy(g.cuMemcpyDtoHAsync, t.out, t.x, t.nbytes, stream)
    return code if code != 0 or t.queued != 0 else synchronize(g.cuStreamSynchronize, stream)


@native
def enqueue(g, stream, blas, c):
    """Launch the kernel of a `LAUNCHING` on a stream, whose handle of cuBLAS's is given; what went wrong, or 0."""
    k = cuda_kernel(c.kernel)
    if c.n_words < k.n_words:
        return SHORT_FRAME
    if k.kind == PLAIN:
        return put_into_queue(g, stream, k, c.frame, k.n_words, items_of(k, c.frame))
    if k.kind == DIVIDED:
        return launch_divided(g, stream, k, c.frame)
    if k.kind == STEPPED:
        return launch_steps(g, stream, k, c.frame)
    if k.kind == MANY:
        return launch_many(g, stream, k, c)
    return call_driver(g, stream, blas, k, c.frame)


@native_inline
def needs_context(g, k):
    """Whether a launch comes to the driver in its own context: see Note [The current context] in `cuda.queues`."""
    return g.alone == 0 or not (k.kind == PLAIN or k.kind == DIVIDED or k.kind == STEPPED or k.kind == MANY)


@native
def launch(frame):
    """Launch a kernel: see `LAUNCHING`."""
    c = launching(frame)
    g = gpu(c.state)
    code = g.failed
    if code == 0 and needs_context(g, cuda_kernel(c.kernel)):
        code = make_current(g.cuCtxSetCurrent, g.context)
    if code == 0 and c.note != 0:
        n = note(c.note)
        if g.synchronous != 0:
            forget_reports(g)
        place = report_place(g, n)
        words(c.frame)[n.place] = place
        code = REPORTED if place == 0 else 0
    if code == 0:
        choice = choice_of(g)
        stream = g.stream if choice == 0 else choice_at(choice).stream
        code = enqueue(g, stream, g.blas if choice == 0 else choice_at(choice).blas, c)
        waited = cuda_kernel(c.kernel).kind == DOWNLOAD and frames.transfer(c.frame).queued == 0
        if code == 0 and g.synchronous != 0 and not waited:
            code = synchronize(g.cuStreamSynchronize, stream)
            waited = True
        if code == 0 and waited:
            code = look_for_reports(g)
    if code != 0 and code != REPORTED:
        g.failed = code
    c.status = code
