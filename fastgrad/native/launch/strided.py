"""Strided launches: the dimensions of operands as a frame has them, merged, and launches where it has too few."""

from __future__ import annotations

from fastgrad.native.base import frames
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import (
    address_of,
    advance,
    native,
    native_inline,
    native_once,
    nth,
    stack_frame,
    stack_small,
    tensor,
    words,
)
from fastgrad.native.contracts.frames.elementwise import ACROSS, STRIDED
from fastgrad.native.contracts.limits import FRAME_DIMS, HOST
from fastgrad.native.contracts.status import OK
from fastgrad.native.memory.launches import launch
from fastgrad.native.memory.references import drop
from fastgrad.native.tensors.elements import OPERAND_WORDS, STRIDED_INPUTS, itemsize
from fastgrad.native.tensors.layouts import without_gaps
from fastgrad.native.tensors.tensors import new_view

SHORT, LONG = 4, 8
"""On the host, a loop over fewer elements than the first costs more than its steps; one over the second does not."""
COPIES_PAY = 1 << 14  # elements from which on an operand that lies across the result is copied first


@native
def dims_of(out, order):
    """Write the dimensions of a tensor that have more than one element to `order`, by strides, the smallest first.

    Returns their number. Dimensions of one stride stay in row-major order.
    """
    t = tensor(out)
    count = 0
    for d in range(t.ndim - 1, -1, -1):
        if t.shape[d] == 1:
            continue
        place = count
        while place > 0 and t.strides[order[place - 1]] > t.strides[d]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = d
        count += 1
    return count


@native
def strided_frame(f, n, ins, out):
    """Fill the frame of a strided launch: dimensions in the order of the result, innermost first, and collapsed over
    all operands; on the host, a very short one stands behind the next one.

    False where it has no room for all of them: see Note [Pieces of a launch].
    """
    to = tensor(out)
    f.out.data = to.data
    for k in range(n):
        nth(f.inputs, k).data = tensor(ins[k]).data
    order = words(stack_small())
    rank = 0
    for i in range(dims_of(out, order)):
        if rank == FRAME_DIMS:
            return False
        d = order[i]
        size = to.shape[d]
        mergeable = rank > 0
        for k in range(-1, n):
            t = tensor(out) if k < 0 else tensor(ins[k])
            strides = nth(f.out, k + 1).strides
            position = d - (to.ndim - t.ndim)
            stride = 0
            if position >= 0 and t.shape[position] != 1:
                stride = t.strides[position]
            strides[rank] = stride
            if rank > 0 and stride != strides[rank - 1] * f.sizes[rank - 1]:
                mergeable = False
        if mergeable:
            f.sizes[rank - 1] *= size
        else:
            f.sizes[rank] = size
            rank += 1
    if rank == 0:
        f.sizes[0] = 1
        for k in range(n + 1):
            nth(f.out, k).strides[0] = 0
        rank = 1
    f.rank = rank
    if to.device == HOST and rank > 1 and f.sizes[0] < SHORT and f.sizes[1] >= LONG:
        put_second_first(f, n)
    across = lies_across(f, 0)
    f.across = rank - across if across > 0 else 0
    return True


@native_once
def put_second_first(f, n):
    """Let the loop over the second dimension of a strided launch be the innermost one, in place of a short one."""
    f.sizes[0], f.sizes[1] = f.sizes[1], f.sizes[0]
    for k in range(n + 1):
        strides = nth(f.out, k).strides
        strides[0], strides[1] = strides[1], strides[0]


@native_inline
def lies_across(f, k):
    """In which dimension of a strided launch operand `k` has its neighbours, where those of the result are far apart

    in it, and the other way round; else 0.
    """
    strides = nth(f.inputs, k).strides
    if f.out.strides[0] == 1 and strides[0] > 1 and f.sizes[0] >= ACROSS:
        for d in range(1, f.rank):
            if strides[d] == 1 and f.sizes[d] >= ACROSS:
                return d
    return 0


@native_inline
def one_line(f, n):
    """Whether the operands of a strided launch all lie in memory from one end to the other, in the same order."""
    line = f.rank == 1
    for k in range(n + 1):
        if nth(f.out, k).strides[0] != 1:
            line = False
    return line


@native
def across_operands(f, n, ins, out):
    """A mask of the operands of a strided launch that lie across the result, where copies of them pay."""
    to = tensor(out)
    across = 0
    if n > 1 and to.numel >= COPIES_PAY and without_gaps(to):
        for k in range(n):
            if lies_across(f, k) != 0 and tensor(ins[k]).numel == to.numel:
                across |= 1 << k
    return across


# Note [Pieces of a launch]: a tensor may have more dimensions than a frame has room for. Only where so many are left
# after neighbours were merged, which few programs ever meet, the shortest dimensions are left out of the frame one by
# one until it has room for the rest, and there is a launch for each place in those. So frames stay short, and kernels
# know nothing of it. What reduces, gathers or scatters works on copies there, whose dimensions merge.


@native
def shortest_dim(t):
    """The shortest dimension of a tensor that has more than one element."""
    best = -1
    for d in range(t.ndim):
        if t.shape[d] > 1 and (best < 0 or t.shape[d] < t.shape[best]):
            best = d
    return best


@native_once
def in_pieces(kernel, dtype, n, ins, out):
    """As `run_elementwise` over strides, by launches for pieces of the operands: see Note [Pieces of a launch]."""
    to = tensor(out)
    s = frames.strided(stack_frame())
    pieces = words(stack_small())  # of the result, then of the operands
    status = OK
    for k in range(n + 1):
        h = out if k == 0 else ins[k - 1]
        t = tensor(h)
        pieces[k] = new_view(h, t.ndim, t.shape, t.strides, t.data) if not failed(status) else status
        status = min(pieces[k], OK)
    outer = words(stack_small())  # the dimensions that the pieces lack
    n_outer = 0
    count = 1
    while not failed(status) and not strided_frame(s, n, advance(pieces, 1), pieces[0]):
        d = shortest_dim(tensor(pieces[0]))
        outer[n_outer] = d
        n_outer += 1
        count *= to.shape[d]
        for k in range(n + 1):
            t = tensor(pieces[k])
            if d - (to.ndim - t.ndim) >= 0:
                t.shape[d - (to.ndim - t.ndim)] = 1
    length = STRIDED_INPUTS + n * OPERAND_WORDS
    s.across = 0
    for piece in range(count):
        if failed(status):
            break
        for k in range(n + 1):
            t = tensor(out if k == 0 else ins[k - 1])
            nth(s.out, k).data = t.data + place_of_piece(piece, to, outer, n_outer, t) * itemsize(t.dtype)
        status = launch(kernel, to.device, dtype, STRIDED, address_of(s), length, to.numel // count)
    for k in range(n + 1):
        if not failed(pieces[k]):
            drop(pieces[k])
    return status


@native
def place_of_piece(piece, to, outer, n_outer, t):
    """Where a piece of an operand begins, in elements, of which the result lacks the dimensions `outer`."""
    place = 0
    for j in range(n_outer):
        d = outer[j]
        own = d - (to.ndim - t.ndim)
        if own >= 0 and t.shape[own] != 1:
            place += piece % to.shape[d] * t.strides[own]
        piece //= to.shape[d]
    return place
