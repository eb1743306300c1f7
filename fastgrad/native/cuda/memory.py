"""A GPU's memory: blocks cut from segments that the driver gives, kept for the next one who wants some.

Note [Arenas]: launches of one stream run in order, so a block that is freed may be written by the next launch of its
stream although the last one that read it has not begun. Each stream has an arena of its own, with free blocks in bins
by size, those of small segments apart; a bin holds sizes of an eighth of a doubling. A block is the first of the
smallest bin whose blocks are all large enough, else one that fits from the bin below (Masmano and others, TLSF,
2004). What is left of it goes back to a bin, and free neighbours become one again. Blocks in use stand in a hash
table by address.
"""

from __future__ import annotations

from fastgrad.native.base.intrinsics import (
    address_of,
    c_free,
    caster,
    leading_zeros,
    malloc,
    memset,
    native,
    native_inline,
    native_once,
    stack_small,
    words,
)
from fastgrad.native.contracts.cuda import (
    ARENA,
    BIN_MAPS,
    BINS,
    BLOCK,
    FINE_BINS,
    GPU,
    LARGE_SEGMENT,
    OUT_OF_MEMORY,
    OWN_SEGMENT,
    SHELF,
    SMALL,
    SMALL_SEGMENT,
    STATISTICS,
    UNIT,
)
from fastgrad.native.contracts.records import ALLOCATION
from fastgrad.native.cuda.calls import function_at

allocation = caster(ALLOCATION)
gpu, block_at, shelf_at, arena_at, statistics = map(caster, (GPU, BLOCK, SHELF, ARENA, STATISTICS))
make_current = function_at("q")
mem_alloc = function_at("qq")
mem_free = function_at("q")
synchronize = function_at("q")

BLOCK_BYTES, ARENA_BYTES = 8 * BLOCK.words, 8 * ARENA.words
_FEWEST = 256  # places of the table of blocks
_MIX = -7046029254386353131  # 2**64 divided by the golden ratio, as an int64


# --- bins ------------------------------------------------------------------------------------------------------


@native_inline
def bin_below(nbytes):
    """The bin of blocks of a size: the largest one whose blocks may be as small."""
    units = nbytes // UNIT
    if units < FINE_BINS:
        return units
    e = 63 - leading_zeros(units)
    return min((e - 2) * FINE_BINS + ((units >> (e - 3)) & (FINE_BINS - 1)), BINS - 1)


@native_inline
def bin_above(nbytes):
    """The smallest bin whose blocks all have at least a size."""
    units = nbytes // UNIT
    if units < FINE_BINS:
        return units
    e = 63 - leading_zeros(units)
    return bin_below((units + (1 << (e - 3)) - 1) * UNIT)


@native
def put_free(b):
    """Put a block that nobody uses into its bin."""
    s = shelf_at(b.shelf)
    k = bin_below(b.nbytes)
    b.used = 0
    b.previous = 0
    b.next = s.bins[k]
    if b.next != 0:
        block_at(b.next).previous = address_of(b)
    s.bins[k] = address_of(b)
    s.maps[k >> 6] |= 1 << (k & 63)


@native
def take_free(b):
    """Take a block out of its bin."""
    s = shelf_at(b.shelf)
    k = bin_below(b.nbytes)
    if b.next != 0:
        block_at(b.next).previous = b.previous
    if b.previous != 0:
        block_at(b.previous).next = b.next
    else:
        s.bins[k] = b.next
        if b.next == 0:
            s.maps[k >> 6] &= ~(1 << (k & 63))


@native
def find_free(s, nbytes):
    """A free block of at least so many bytes, or zero."""
    k = bin_above(nbytes)
    left = s.maps[k >> 6] & (-1 << (k & 63))
    word = k >> 6
    while left == 0 and word + 1 < BIN_MAPS:
        word += 1
        left = s.maps[word]
    if left != 0:
        return s.bins[word * 64 + 63 - leading_zeros(left & -left)]
    b = s.bins[bin_below(nbytes)]
    while b != 0 and block_at(b).nbytes < nbytes:
        b = block_at(b).next
    return b


# --- the table of blocks in use --------------------------------------------------------------------------------


@native_inline
def first_place(g, address):
    """Where the search for a block begins."""
    return (address // UNIT * _MIX >> 20) & (g.cap_blocks - 1)


@native
def enter_block(g, b):
    """Put a block into the table, which has room."""
    table = words(g.blocks)
    k = first_place(g, b.address)
    while table[k] != 0:
        k = (k + 1) & (g.cap_blocks - 1)
    table[k] = address_of(b)
    g.n_blocks += 1


@native_once
def make_room(g):
    """Room in the table for one more block. False without memory."""
    if 2 * (g.n_blocks + 1) <= g.cap_blocks:
        return True
    before, cap = g.blocks, g.cap_blocks
    wanted = max(_FEWEST, 2 * cap)
    fresh = malloc(8 * wanted)
    if fresh == 0:
        return False
    memset(fresh, 0, 8 * wanted)
    g.blocks = fresh
    g.cap_blocks = wanted
    g.n_blocks = 0
    for k in range(cap):
        if words(before)[k] != 0:
            enter_block(g, block_at(words(before)[k]))
    if before != 0:
        c_free(before)
    return True


@native
def leave_block(g, address):
    """Take the block at an address out of the table; zero if there is none."""
    if g.cap_blocks == 0:
        return 0
    table, mask = words(g.blocks), g.cap_blocks - 1
    k = first_place(g, address)
    while table[k] != 0 and block_at(table[k]).address != address:
        k = (k + 1) & mask
    found = table[k]
    if found == 0:
        return 0
    g.n_blocks -= 1
    hole = k
    k = (k + 1) & mask
    while table[k] != 0:  # what stands behind must be found from where its search begins
        home = first_place(g, block_at(table[k]).address)
        if (k - home) & mask >= (k - hole) & mask:
            table[hole] = table[k]
            hole = k
        k = (k + 1) & mask
    table[hole] = 0
    return found


# --- segments --------------------------------------------------------------------------------------------------


@native
def new_block(shelf, address, nbytes):
    """A block that stands in no bin, or zero without memory of the host's."""
    room = malloc(BLOCK_BYTES)
    if room != 0:
        memset(room, 0, BLOCK_BYTES)
        b = block_at(room)
        b.shelf = shelf
        b.address = address
        b.nbytes = nbytes
    return room


@native_once
def segment_size(nbytes):
    """Bytes of the segment from which a block of a size is cut."""
    if nbytes <= SMALL:
        return SMALL_SEGMENT
    if nbytes < OWN_SEGMENT:
        return LARGE_SEGMENT
    return (nbytes + SMALL_SEGMENT - 1) // SMALL_SEGMENT * SMALL_SEGMENT


@native
def ask_driver(g, nbytes):
    """The address of so many bytes from the driver, or minus what it says."""
    place = words(stack_small())
    place[0] = 0
    if g.limit > 0 and statistics(address_of(g.statistics)).reserved + nbytes > g.limit:
        return -OUT_OF_MEMORY
    code = mem_alloc(g.cuMemAlloc, address_of(place), nbytes)
    return place[0] if code == 0 else -code


@native_once
def new_segment(g, shelf, nbytes):
    """A block that is a segment of its own, from which one of a size can be cut; or minus what the driver says."""
    size = segment_size(nbytes)
    s = statistics(address_of(g.statistics))
    address = ask_driver(g, size)
    if address == -OUT_OF_MEMORY:
        s.retries += 1
        give_back(g)
        address = ask_driver(g, size)
    if address < 0:
        return address
    b = new_block(shelf, address, size)
    if b == 0:
        mem_free(g.cuMemFree, address)
        return -OUT_OF_MEMORY
    s.reserved += size
    s.reserved_peak = max(s.reserved_peak, s.reserved)
    s.segments += 1
    s.segments_made += 1
    s.segments_peak = max(s.segments_peak, s.segments)
    return b


@native_once
def give_back_shelf(g, shelf):
    """Give the segments that nobody uses any part of back to the driver."""
    s, counts = shelf_at(shelf), statistics(address_of(g.statistics))
    for k in range(BINS):
        at = s.bins[k]
        while at != 0:
            b = block_at(at)
            at = b.next
            if b.before == 0 and b.after == 0 and mem_free(g.cuMemFree, b.address) == 0:
                take_free(b)
                counts.reserved -= b.nbytes
                counts.segments -= 1
                counts.segments_freed += 1
                c_free(address_of(b))


@native_once
def give_back(g):
    """The same of all arenas. The driver waits for the launches that may still use them."""
    arena = g.arenas
    while arena != 0:
        a = arena_at(arena)
        give_back_shelf(g, address_of(a.small))
        give_back_shelf(g, address_of(a.large))
        arena = a.next


# --- what the runtime calls ------------------------------------------------------------------------------------


@native
def cut(b, nbytes):
    """Cut a block to a size, if what is left is worth it; the rest becomes a free one."""
    left = b.nbytes - nbytes
    small = shelf_at(b.shelf).segment == SMALL_SEGMENT
    if left < UNIT or (not small and left <= SMALL):
        return
    rest = new_block(b.shelf, b.address + nbytes, left)
    if rest == 0:
        return
    r = block_at(rest)
    r.before = address_of(b)
    r.after = b.after
    if b.after != 0:
        block_at(b.after).before = rest
    b.after = rest
    b.nbytes = nbytes
    put_free(r)


@native
def take_block(g, wanted):
    """A block of at least so many bytes, in use from now on; or minus what went wrong."""
    if not make_room(g):
        return -OUT_OF_MEMORY
    nbytes = max(UNIT, (wanted + UNIT - 1) // UNIT * UNIT)
    a = arena_at(g.arena)
    shelf = address_of(a.small) if nbytes <= SMALL else address_of(a.large)
    found = find_free(shelf_at(shelf), nbytes)
    if found != 0:
        take_free(block_at(found))
    else:
        found = new_segment(g, shelf, nbytes)
        if found < 0:
            return found
    b = block_at(found)
    cut(b, nbytes)
    b.used = 1
    b.wanted = wanted
    enter_block(g, b)
    return found


@native
def allocate(frame):
    """Give memory: see `ALLOCATION`."""
    request = allocation(frame)
    g = gpu(request.state)
    s = statistics(address_of(g.statistics))
    code = make_current(g.cuCtxSetCurrent, g.context)
    found = take_block(g, request.nbytes) if code == 0 else -code
    if found < 0:
        if found == -OUT_OF_MEMORY:
            s.failures += 1
        request.address = found
        return
    b = block_at(found)
    request.address = b.address
    s.allocations += 1
    s.active += 1
    s.active_peak = max(s.active_peak, s.active)
    s.allocated += b.nbytes
    s.allocated_peak = max(s.allocated_peak, s.allocated)
    s.requested += b.wanted
    s.requested_peak = max(s.requested_peak, s.requested)


@native
def join(b, other):
    """Make one block of two neighbours, of which `other` comes second."""
    b.nbytes += other.nbytes
    b.after = other.after
    if other.after != 0:
        block_at(other.after).before = address_of(b)
    c_free(address_of(other))


@native
def release(frame):
    """Take memory back."""
    request = allocation(frame)
    g = gpu(request.state)
    found = leave_block(g, request.address)
    if found == 0:
        return
    s, b = statistics(address_of(g.statistics)), block_at(found)
    s.frees += 1
    s.active -= 1
    s.allocated -= b.nbytes
    s.requested -= b.wanted
    if b.after != 0 and block_at(b.after).used == 0:
        following = block_at(b.after)
        take_free(following)
        join(b, following)
    if b.before != 0 and block_at(b.before).used == 0:
        preceding = block_at(b.before)
        take_free(preceding)
        join(preceding, b)
        b = preceding
    put_free(b)


@native
def empty_cache(frame):
    """Give what is not in use back to the driver: the frame is an `ALLOCATION`, whose address becomes what it says."""
    request = allocation(frame)
    g = gpu(request.state)
    request.address = -make_current(g.cuCtxSetCurrent, g.context)
    if request.address == 0:
        give_back(g)


@native
def new_arena(frame):
    """Make an arena for the stream in `nbytes` of an `ALLOCATION`: its address, or 0 without memory of the host's."""
    request = allocation(frame)
    g = gpu(request.state)
    room = malloc(ARENA_BYTES)
    request.address = room
    if room == 0:
        return
    memset(room, 0, ARENA_BYTES)
    a = arena_at(room)
    a.stream = request.nbytes
    small, large = shelf_at(address_of(a.small)), shelf_at(address_of(a.large))
    small.segment = SMALL_SEGMENT
    large.segment = LARGE_SEGMENT
    a.next = g.arenas
    g.arenas = room
