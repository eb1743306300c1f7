"""Random numbers in graphs: each run of a graph draws others.

Note [Drawings]: a kernel gets seed and offset as parameters, and a graph has a copy of them. Before a run the driver is
told the new ones, by a call for each launch that draws. Runs that stand in a queue keep what they had. The nodes that
are changed so belong to the graph that was captured, which is kept for them.
"""

from __future__ import annotations

from fastgrad.native.base.c_calls import function_at
from fastgrad.native.base.intrinsics import (
    address_of,
    c_free,
    caster,
    malloc,
    native,
    native_once,
    stack_small,
    stack_words,
    words,
)
from fastgrad.native.contracts.cuda import DRAWING, NO_ROOM, NODE_PARAMETERS, PLAIN
from fastgrad.native.contracts.limits import FRAME_WORDS
from fastgrad.native.cuda.launches import blocks_of
from fastgrad.native.cuda.queues import cuda_kernel

drawing, node_parameters = map(caster, (DRAWING, NODE_PARAMETERS))
capture_info = function_at("qqqqqq")
set_parameters = function_at("qqq")
DRAWING_BYTES = 8 * DRAWING.words

_places = stack_words(FRAME_WORDS)


@native
def node_of(g):
    """The node that was captured last; zero if there is none."""
    found = words(stack_small())
    for k in range(5):
        found[k] = 0
    at = address_of(found)
    code = capture_info(g.cuStreamGetCaptureInfo, g.graph_stream, at, at + 8, at + 16, at + 24, at + 32)
    return words(found[3])[0] if code == 0 and found[4] == 1 else 0


@native_once
def note_drawing(g, c, draws):
    """Note that the launch that was captured last draws other numbers at each run; what went wrong, or 0."""
    k = cuda_kernel(c.kernel)
    blocks = blocks_of(k, c.frame)
    if k.kind != PLAIN or blocks == 0:
        return 0
    node = node_of(g)
    room = malloc(DRAWING_BYTES + 8 * k.n_words)
    if node == 0 or room == 0:
        if room != 0:
            c_free(room)
        return NO_ROOM
    d = drawing(room)
    d.node = node
    d.kernel = c.kernel
    d.blocks = blocks
    d.seed = draws - 1
    d.offset = words(c.frame)[draws]
    d.next = g.graph_drawings
    for j in range(k.n_words):
        words(room + DRAWING_BYTES)[j] = words(c.frame)[j]
    g.graph_drawings = room
    return 0


@native_once
def draw_others(g, x, seed, moved):
    """Let the next run of a graph draw the numbers of a seed, from other offsets on; what the driver says."""
    at, code = x.drawings, 0
    places = words(_places())
    while at != 0 and code == 0:
        d = drawing(at)
        k = cuda_kernel(d.kernel)
        parameters = at + DRAWING_BYTES
        words(parameters)[d.seed] = seed
        words(parameters)[d.seed + 1] = d.offset + moved
        for j in range(k.n_words):
            places[j] = parameters + 8 * j
        p = node_parameters(stack_small())
        p.function = k.function
        p.grid_xy = d.blocks | 1 << 32
        p.grid_z_block_x = 1 | k.threads << 32
        p.block_yz = 1 | 1 << 32
        p.shared_bytes = 0
        p.places = address_of(places)
        p.extra = 0
        p.kernel = 0
        p.context = 0
        code = set_parameters(g.cuGraphExecKernelNodeSetParams, x.executable, d.node, address_of(p))
        at = d.next
    return code


@native_once
def forget_drawings(first):
    """Give back what was noted of a graph."""
    while first != 0:
        following = drawing(first).next
        c_free(first)
        first = following
