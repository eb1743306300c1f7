"""A GPU's memory: blocks cut from segments that the driver gives, kept for the next one who wants some.

Note [Arenas]: launches of one stream run in order, so a block that is freed may be written by the next launch of its
stream although the last one that read it has not begun. Each stream has an arena of its own, with free blocks in bins
by size, those of small segments apart; a bin holds sizes of an eighth of a doubling. A block is the first of the
smallest bin whose blocks are all large enough, else one that fits from the bin below (Masmano and others, TLSF,
2004). What is left of it goes back to a bin, and free neighbours become one again. Blocks in use stand in a hash
table by address.

Note [Uses]: a block may be in use by other streams than that of its arena: those that `record_use` names, and that of
the thread that gives it back, whatever it was for. A block of which there are such uses is not free when it is given
back. An event behind all that each of these streams has been given by then says when it is: blocks that wait for
theirs are asked when somebody wants memory, and waited for before there is none.
"""

from __future__ import annotations

from fastgrad.native.base.c_calls import function_at
from fastgrad.native.base.intrinsics import (
    I64,
    address_of,
    c_free,
    caster,
    extern,
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
    CHOICE,
    FINE_BINS,
    GPU,
    LARGE_SEGMENT,
    NO_TIMES,
    NOT_READY,
    OUT_OF_MEMORY,
    OWN_SEGMENT,
    SHELF,
    SMALL,
    SMALL_SEGMENT,
    STATISTICS,
    UNIT,
    USE,
)
from fastgrad.native.contracts.records import ALLOCATION
from fastgrad.native.cuda.blocks import block_at, end_block, new_block
from fastgrad.native.cuda.pools import arena_at, free_pools
from fastgrad.native.cuda.queues import make_current

allocation = caster(ALLOCATION)
gpu, shelf_at, statistics = map(caster, (GPU, SHELF, STATISTICS))
use_at, choice_at = map(caster, (USE, CHOICE))
this_thread = extern("pthread_self", I64)
mem_alloc = function_at("qq")
mem_free = function_at("q")
synchronize = function_at("q")
event_create = function_at("qi")
event_record = function_at("qq")
event_do = function_at("q")

ARENA_BYTES, USE_BYTES, CHOICE_BYTES = (8 * part.words for part in (ARENA, USE, CHOICE))
_FEWEST = 256  # places of the table of blocks
_MIX = -7046029254386353131  # 2**64 divided by the golden ratio, as an int64


# --- streams ---------------------------------------------------------------------------------------------------


@native_once
def find_choice(g):
    """What the calling thread has chosen, or zero."""
    thread = this_thread()
    for k in range(g.n_choices):
        if choice_at(g.choices + k * CHOICE_BYTES).thread == thread:
            return g.choices + k * CHOICE_BYTES
    return 0


@native_inline
def choice_of(g):
    """The same."""
    return 0 if g.n_choices == 0 else find_choice(g)


@native_inline
def stream_of(g):
    """The stream of the calling thread."""
    choice = choice_of(g)
    return g.stream if choice == 0 else choice_at(choice).stream


@native_inline
def arena_of(g):
    """The arena of the calling thread's stream."""
    choice = choice_of(g)
    return g.arena if choice == 0 else choice_at(choice).arena


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
def find_block(g, address):
    """The place of the block at an address in the table, -1 if there is none."""
    if g.cap_blocks == 0:
        return -1
    table = words(g.blocks)
    k = first_place(g, address)
    while table[k] != 0 and block_at(table[k]).address != address:
        k = (k + 1) & (g.cap_blocks - 1)
    return k if table[k] != 0 else -1


@native
def leave_block(g, address):
    """Take the block at an address out of the table; zero if there is none."""
    k = find_block(g, address)
    if k < 0:
        return 0
    table, mask = words(g.blocks), g.cap_blocks - 1
    found = table[k]
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
    b = new_block(g, shelf, address, size)
    if b == 0:
        mem_free(g.cuMemFree, address)
        return -OUT_OF_MEMORY
    shelf_at(shelf).reserved += size
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
                s.reserved -= b.nbytes
                counts.reserved -= b.nbytes
                counts.segments -= 1
                counts.segments_freed += 1
                end_block(g, b)


@native_once
def give_back(g):
    """The same of all arenas but those that graphs work on. The driver waits for launches that still use them."""
    arena = g.arenas
    while arena != 0:
        a = arena_at(arena)
        if a.graphs == 0:
            give_back_shelf(g, address_of(a.small))
            give_back_shelf(g, address_of(a.large))
        arena = a.next


# --- blocks that other streams use ---------------------------------------------------------------------------------


@native
def add_use(b, stream):
    """Note that a stream uses a block, if it is not its own and not noted yet. False without memory of the host's."""
    if stream == shelf_at(b.shelf).stream:
        return True
    at = b.uses
    while at != 0:
        if use_at(at).stream == stream:
            return True
        at = use_at(at).next
    room = malloc(USE_BYTES)
    if room == 0:
        return False
    u = use_at(room)
    u.stream = stream
    u.event = 0
    u.next = b.uses
    b.uses = room
    return True


@native_once
def begin_waiting(g, b):
    """Let a block that was given back wait for the streams that use it."""
    place = words(stack_small())
    make_current(g.cuCtxSetCurrent, g.context)
    at = b.uses
    while at != 0:
        u = use_at(at)
        place[0] = 0
        if event_create(g.cuEventCreate, address_of(place), NO_TIMES) == 0:
            if event_record(g.cuEventRecord, place[0], u.stream) == 0:
                u.event = place[0]
            else:
                event_do(g.cuEventDestroy, place[0])
        if u.event == 0:  # then the host waits
            synchronize(g.cuStreamSynchronize, u.stream)
        at = u.next
    b.next = g.waiting
    g.waiting = address_of(b)


@native
def is_done(g, b, wait):
    """Whether the streams that used a block are done with it, once they are if `wait` is not zero."""
    while b.uses != 0:
        u = use_at(b.uses)
        if u.event != 0:
            if event_do(g.cuEventSynchronize if wait != 0 else g.cuEventQuery, u.event) == NOT_READY:
                return False
            event_do(g.cuEventDestroy, u.event)
        b.uses = u.next
        c_free(address_of(u))
    return True


@native
def join(g, b, other):
    """Make one block of two neighbours, of which `other` comes second."""
    b.nbytes += other.nbytes
    b.after = other.after
    if other.after != 0:
        block_at(other.after).before = address_of(b)
    end_block(g, other)


@native
def set_free(g, b):
    """Let a block be a free one, together with its neighbours."""
    statistics(address_of(g.statistics)).active -= 1
    if b.after != 0 and block_at(b.after).used == 0:
        following = block_at(b.after)
        take_free(following)
        join(g, b, following)
    if b.before != 0 and block_at(b.before).used == 0:
        preceding = block_at(b.before)
        take_free(preceding)
        join(g, preceding, b)
        b = preceding
    put_free(b)


@native_once
def settle(g, wait):
    """Set those of the waiting blocks free that nobody uses any more; all of them, in time, if `wait` is not zero."""
    at = g.waiting
    g.waiting = 0
    while at != 0:
        b = block_at(at)
        at = b.next
        if is_done(g, b, wait):
            set_free(g, b)
        else:
            b.next = g.waiting
            g.waiting = address_of(b)


# --- what the runtime calls ------------------------------------------------------------------------------------


@native
def cut(g, b, nbytes):
    """Cut a block to a size, if what is left is worth it; the rest becomes a free one."""
    left = b.nbytes - nbytes
    small = shelf_at(b.shelf).segment == SMALL_SEGMENT
    if left < UNIT or (not small and left <= SMALL):
        return
    rest = new_block(g, b.shelf, b.address + nbytes, left)
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
def find_memory(g, shelf, nbytes):
    """A block of a shelf, or of a new segment of it, with at least so many bytes; or minus what went wrong."""
    found = find_free(shelf_at(shelf), nbytes)
    if found == 0:
        code = make_current(g.cuCtxSetCurrent, g.context)
        return -code if code != 0 else new_segment(g, shelf, nbytes)
    take_free(block_at(found))
    return found


@native
def take_block(g, arena, wanted):
    """A block of at least so many bytes of an arena, in use from now on; or minus what went wrong.

    The driver is called, and the context made current for that, only where no free block is known to be there.
    """
    if not make_room(g):
        return -OUT_OF_MEMORY
    if g.waiting != 0:
        code = make_current(g.cuCtxSetCurrent, g.context)
        if code != 0:
            return -code
        settle(g, 0)
    nbytes = max(UNIT, (wanted + UNIT - 1) // UNIT * UNIT)
    a = arena_at(arena)
    shelf = address_of(a.small) if nbytes <= SMALL else address_of(a.large)
    found = find_memory(g, shelf, nbytes)
    if found == -OUT_OF_MEMORY and g.waiting != 0:
        settle(g, 1)
        found = find_memory(g, shelf, nbytes)
    if found == -OUT_OF_MEMORY and free_pools(g):
        settle(g, 1)
        found = find_memory(g, shelf, nbytes)
    if found < 0:
        return found
    b = block_at(found)
    cut(g, b, nbytes)
    b.used = 1
    b.wanted = wanted
    enter_block(g, b)
    return found


@native
def allocate(frame):
    """Give memory, of the arena at `address` if that is not 0: see `ALLOCATION`."""
    request = allocation(frame)
    g = gpu(request.state)
    s = statistics(address_of(g.statistics))
    arena = request.address if request.address != 0 else arena_of(g)
    found = take_block(g, arena, request.nbytes)
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
def release(frame):
    """Take memory back."""
    request = allocation(frame)
    g = gpu(request.state)
    found = leave_block(g, request.address)
    if found == 0:
        return
    s, b = statistics(address_of(g.statistics)), block_at(found)
    s.frees += 1
    s.allocated -= b.nbytes
    s.requested -= b.wanted
    if g.failed == 0 and (b.uses != 0 or g.n_choices != 0):
        if not add_use(b, stream_of(g)):
            synchronize(g.cuStreamSynchronize, stream_of(g))
        if b.uses != 0:
            begin_waiting(g, b)
            return
    set_free(g, b)


@native
def record_use(frame):
    """Note that the stream in `nbytes` of an `ALLOCATION` uses the block there; its address becomes 0 or a failure."""
    request = allocation(frame)
    g = gpu(request.state)
    k = find_block(g, request.address)
    request.address = 0
    if k >= 0 and not add_use(block_at(words(g.blocks)[k]), request.nbytes):
        request.address = -OUT_OF_MEMORY


@native
def empty_cache(frame):
    """Give what is not in use back to the driver: the frame is an `ALLOCATION`, whose address becomes what it says."""
    request = allocation(frame)
    g = gpu(request.state)
    request.address = -make_current(g.cuCtxSetCurrent, g.context)
    if request.address == 0:
        settle(g, 1)
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
    small.stream = a.stream
    large.stream = a.stream
    a.next = g.arenas
    g.arenas = room
