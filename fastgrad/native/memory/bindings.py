"""Bound tapes: tapes whose launches may work on other memory than that of the capture.

Note [Bound tapes]: a *program* says of a tape in which *regions* of memory its launches work, and by *links*, which
words of their frames are addresses in which region. Where a region lies elsewhere at a call, the words that link to it
are moved by as much. Regions are memory of tensors that a call brings, memory of the tape's own, and memory that a call
leaves to others: where somebody still holds what the last call left, the next one gets new memory. So nothing that a
program holds is overwritten, and no memory is copied.

A program is written in Python (`fastgrad.compiler`), from what it sees on the tape, and checked here: each link has to
be a word of a frame that lies in its region, each tensor has to lie within its region.

Note [What moves]: a graph of a device has copies of the words of its frames. So a launch of such a device whose words
were moved once is launched by itself from then on, and so are those that are joined with it; the graphs are those of
what lies between, and stay right. A call whose tensors lie where those of the last one lay is as few graphs as an
unbound tape is. All of a bound tape runs on one stream of each device, that of the capture, so that the memory of its
own, which each call uses again, is in order: on another stream it may not be called.

Note [Numbers that are brought]: the options of an optimizer, such as its learning rate, stand as float64 in the frames
of its launches. A program may have *brought numbers*: items of dicts that a call reads, whose bits it writes to the
words of frames that links name. Such a word has to be one that its frame declares to be a float of any value. Where
another sign would have let Python go another way, the program asks for that of the capture.
"""

from __future__ import annotations

from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import (
    address_of,
    advance,
    caster,
    native,
    native_once,
    runtime,
    storage,
    words,
)
from fastgrad.native.contracts.element_types import BOOL, DTYPES, ITEMSIZES
from fastgrad.native.contracts.limits import HOST, MAX_DIMS, N_DEVICES
from fastgrad.native.contracts.records import (
    ANY_SIGN,
    BOUND,
    BROUGHT,
    HOOK_CELL,
    LAID,
    REGION,
    REGION_FRESH,
    REGION_GIVEN,
    RESULT,
    RESULT_GRAD,
    RESULT_NO_GRAD,
    RESULT_OUT,
    RESULT_VALUE,
    VALUE_CELL,
)
from fastgrad.native.contracts.status import OK
from fastgrad.native.memory.devices import makes_graphs, stream_on
from fastgrad.native.memory.parts import device_of, row_of
from fastgrad.native.memory.references import release_storage, retain
from fastgrad.native.memory.storages import new_storage
from fastgrad.native.memory.tapes import HEAD_BYTES, PROGRAM_BYTES, launched, program, region

LINK_WORDS = 2
REGION_BYTES, BOUND_BYTES, RESULT_BYTES, BROUGHT_BYTES = (
    part.words * 8 for part in (REGION, BOUND, RESULT, BROUGHT)
)
MOST = 1 << 40  # of anything in a program, so that products of it fit a word
bound, result, laid, brought = map(caster, (BOUND, RESULT, LAID, BROUGHT))


# --- where things stand ----------------------------------------------------------------------------------------


@native
def region_of(t, k):
    """A region of a bound tape."""
    return region(t.program + PROGRAM_BYTES + k * REGION_BYTES)


@native
def links_of(t):
    """The address of the links: pairs of a byte on the tape and a region."""
    return t.program + PROGRAM_BYTES + program(t.program).n_regions * REGION_BYTES


@native
def bound_of(t, k):
    """What a tensor has to be that a call brings."""
    return bound(links_of(t) + program(t.program).n_links * LINK_WORDS * 8 + k * BOUND_BYTES)


@native
def result_of(t, k):
    """What a call leaves."""
    p = program(t.program)
    before = p.n_links * LINK_WORDS * 8 + p.n_bound * BOUND_BYTES
    return result(links_of(t) + before + k * RESULT_BYTES)


@native
def brought_of(t, k):
    """A number that a call brings."""
    return brought(address_of(result_of(t, program(t.program).n_results)) + k * BROUGHT_BYTES)


# --- checks ----------------------------------------------------------------------------------------------------


@native
def extent_of(x):
    """How many bytes a tensor reaches over that lies as a program says, 0 for an empty one; -1 if there is none."""
    if x.dtype < 0 or x.dtype >= len(DTYPES) or x.ndim < 0 or x.ndim > MAX_DIMS:
        return -1
    last = 0
    numel = 1
    for k in range(x.ndim):
        if not (0 <= x.shape[k] < MOST and 0 <= x.strides[k] < MOST):
            return -1
        numel *= min(x.shape[k], 1)
        if x.shape[k] > 1 and x.strides[k] > MOST // x.shape[k]:
            return -1
        last += max(x.shape[k] - 1, 0) * x.strides[k]
    return (last + 1) * ITEMSIZES[x.dtype] if numel != 0 else 0


@native
def lies_within(t, at):
    """Whether what is said of a tensor is possible: in its region, or in none."""
    x = laid(at)
    extent = extent_of(x)
    if extent < 0 or x.region < -1 or x.region >= program(t.program).n_regions:
        return False
    if x.region < 0:
        return True
    r = region_of(t, x.region)
    return x.device == r.device and 0 <= x.offset < MOST and x.offset + extent <= r.nbytes


@native
def adds_up(t):
    """Whether a program has as many words as its head says."""
    p = program(t.program)
    for n in (p.n_regions, p.n_links, p.n_bound, p.n_results, p.n_brought):
        if not 0 <= n < MOST:
            return False
    rest = p.n_regions * REGION_BYTES + p.n_links * LINK_WORDS * 8
    rest += p.n_bound * BOUND_BYTES + p.n_results * RESULT_BYTES + p.n_brought * BROUGHT_BYTES
    return 0 <= p.n_given <= p.n_bound and PROGRAM_BYTES + rest == t.n_program * 8


@native
def links_fit(t):
    """Whether links stand region by region in the order of the tape, each a word of a frame that lies in its region.

    Behind them stand those of numbers that are brought, each a float of any value.
    """
    p = program(t.program)
    seen = 0
    for k in range(p.n_regions):
        r = region_of(t, k)
        if r.first != seen or not 0 <= r.n_links <= p.n_links - seen or not 0 <= r.nbytes < MOST:
            return False
        if not REGION_GIVEN <= r.kind <= REGION_FRESH:
            return False
        if not all_links_fit(t, r.first, r.n_links, k, address_of(r), 0):
            return False
        seen += r.n_links
    for k in range(p.n_brought):
        b = brought_of(t, k)
        if b.first != seen or not 0 <= b.n_links <= p.n_links - seen:
            return False
        if b.item < -1 or (b.item >= 0 and b.item >= b.length) or not -1 <= b.sign <= ANY_SIGN:
            return False
        if not all_links_fit(t, b.first, b.n_links, k, 0, address_of(b)):
            return False
        seen += b.n_links
    return seen == p.n_links


@native_once
def all_links_fit(t, first, n, k, of_region, of_number):
    """Whether links are words of frames that lie in a region, or are a number; given is the address of one, else 0.

    They come in the order of the tape, and bear the number `k`; in place of that they get the byte where the launch
    stands that the word belongs to.
    """
    links = words(links_of(t))
    at = 0
    end = 0
    for j in range(first, first + n):
        place = links[LINK_WORDS * j]
        while end <= place and end < t.n_words * 8:  # the launch that the word belongs to
            at = end
            entry = launched(t.words + at)
            end = at + HEAD_BYTES + entry.n_words * 8
        inside = at + HEAD_BYTES <= place and place + 8 <= end and place & 7 == 0
        entry = launched(t.words + at)
        if not inside or links[LINK_WORDS * j + 1] != k or entry.cell == HOOK_CELL:
            return False
        value = words(t.words + place)[0]
        reach = 0
        if entry.cell == VALUE_CELL:
            reach = entry.work
            if place != at + HEAD_BYTES or of_region == 0:
                return False
        if (
            of_region != 0
            and not region(of_region).base
            <= value
            <= region(of_region).base + region(of_region).nbytes - reach
        ):
            return False
        if of_number != 0 and not (
            value == brought(of_number).value
            and is_float(launched(t.words + at), (place - at - HEAD_BYTES) // 8)
        ):
            return False
        links[LINK_WORDS * j + 1] = at
    return True


@native
def is_float(entry, place):
    """Whether a word of the frame of a launch is declared to be a float of any value."""
    return entry.code == 0 and place < 63 and runtime().floats[row_of(entry.cell)] >> place & 1 != 0


@native_once
def is_right(t):
    """Whether a program, whose regions have no memory yet, says what can be."""
    if t.n_program * 8 < PROGRAM_BYTES or not adds_up(t) or not links_fit(t):
        return False
    p = program(t.program)
    for k in range(p.n_bound):
        b = bound_of(t, k)
        if (
            not lies_within(t, address_of(b.lies))
            or not lies_within(t, address_of(b.grad_lies))
            or not 0 <= b.n_writes < MOST
        ):
            return False
        for at in (address_of(b.lies), address_of(b.grad_lies)):
            place = laid(at).region
            if place >= 0 and region_of(t, place).kind != REGION_GIVEN:
                return False
    for k in range(p.n_results):
        x = result_of(t, k)
        if not RESULT_OUT <= x.kind <= RESULT_VALUE or not lies_within(t, address_of(x.lies)):
            return False
        if x.kind == RESULT_VALUE:
            if value_at(t, x.bound) < 0:
                return False
            continue
        if x.kind != RESULT_OUT and not 0 <= x.bound < p.n_bound:
            return False
        if x.kind != RESULT_NO_GRAD and laid(address_of(x.lies)).region < 0:
            return False
    return True


@native
def value_at(t, number):
    """Where the entry of a value that Python read stands on a tape, in bytes; -1 if it does not.

    It bears the number that it had during the capture.
    """
    at = 0
    while at < t.n_words * 8:
        entry = launched(t.words + at)
        if entry.cell == VALUE_CELL and entry.last == number:
            return at
        at += HEAD_BYTES + entry.n_words * 8
    return -1


@native
def is_gradient(x):
    """Whether a result is the gradient of a tensor that a call brings, or none."""
    return x.kind == RESULT_GRAD or x.kind == RESULT_NO_GRAD


@native
def take_values(t):
    """Let values that a call gives back be taken and not be compared."""
    p = program(t.program)
    for k in range(p.n_results):
        x = result_of(t, k)
        if x.kind == RESULT_VALUE:
            entry = launched(t.words + value_at(t, x.bound))
            t.n_values -= entry.drew == 0
            entry.drew = 1
            laid(address_of(x.lies)).offset = value_at(t, x.bound)


# --- moving ----------------------------------------------------------------------------------------------------


@native_once
def note_moves(t, first, n):
    """Note that the words of some links were moved: see Note [What moves]."""
    links = words(links_of(t))
    for j in range(first, first + n):
        at = links[LINK_WORDS * j + 1]
        entry = launched(t.words + at)
        if entry.moves == 0 and entry.cell >= 0 and t.devices >> device_of(entry.cell) & 1 != 0:
            entry.moves = 1
            t.moved = 1


@native
def move(t, r, base):
    """Let a region begin at another address."""
    by = base - r.base
    if by == 0:
        return
    links = advance(words(links_of(t)), LINK_WORDS * r.first)
    for j in range(r.n_links):
        words(t.words + links[LINK_WORDS * j])[0] += by
    r.base = base
    if t.devices != 0:
        note_moves(t, r.first, r.n_links)


@native
def bring(t, b, value):
    """Let a number that is brought have other bits."""
    if value == b.value:
        return
    links = advance(words(links_of(t)), LINK_WORDS * b.first)
    for j in range(b.n_links):
        words(t.words + links[LINK_WORDS * j])[0] = value
    b.value = value
    if t.devices != 0:
        note_moves(t, b.first, b.n_links)


@native
def refresh(t, r):
    """Give a region other memory if somebody holds what lies there. A status.

    That of a device goes back to its allocator each time, which knows whether other streams still use it.
    """
    if r.storage != 0:
        s = storage(r.storage)
        if r.device == HOST and s.refs == 1 and s.data != 0:
            return OK
        if r.device != HOST:
            release_storage(r.storage)
            r.storage = 0
    fresh = new_storage(r.nbytes, BOOL, r.device)
    if failed(fresh):
        return fresh
    if r.storage != 0:
        release_storage(r.storage)
    r.storage = fresh
    move(t, r, storage(fresh).data)
    return OK


@native
def bind_devices(t):
    """Note on which devices that make graphs a tape works, and on which of their streams; nothing has moved yet."""
    t.devices = 0
    t.moved = 0
    for k in range(program(t.program).n_regions):
        device = region_of(t, k).device
        if makes_graphs(device) and t.devices >> device & 1 == 0:
            t.devices |= 1 << device
            t.streams[device] = stream_on(device)


@native
def runs_on_its_streams(t):
    """Whether the calling thread's streams are those that a bound tape runs on."""
    for device in range(N_DEVICES if t.devices != 0 else 0):
        if t.devices >> device & 1 != 0 and stream_on(device) != t.streams[device]:
            return False
    return True


@native
def hold(r, handle):
    """Let the memory of a region be that of a storage, where its frames lie by now."""
    if r.kind != REGION_GIVEN:
        r.storage = handle
        retain(handle)
