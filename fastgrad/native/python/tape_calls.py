"""Calls of bound tapes: see Note [Bound tapes] in `memory.bindings`."""

from __future__ import annotations

from numba import types

from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import (
    address_of,
    context_object,
    native,
    native_inline,
    native_once,
    runtime,
    storage,
    tape,
    tensor,
    words,
)
from fastgrad.native.base.modes import enter
from fastgrad.native.base.pyapi import (
    bytes_type,
    py_bytes_text,
    py_decref,
    py_integer,
    py_size,
    py_tuple_item,
    py_tuple_new,
    py_tuple_set,
    py_tuple_size,
)
from fastgrad.native.contracts.element_types import INT64, UINT8
from fastgrad.native.contracts.flags import (
    COMPILED_PASSES,
    CONJUGATED,
    CONTIGUOUS,
    COPY_ON_WRITE,
    EAGER_PASSES,
    INFERENCE,
    LEAF_HOOKS,
    LEAF_POST_HOOKS,
    REQUIRES_GRAD,
    RETAINS_GRAD,
    WRAPPED_NUMBER,
)
from fastgrad.native.contracts.limits import HOST, N_DEVICES
from fastgrad.native.contracts.records import (
    ANY_MODE,
    NOT_MOVED,
    REGION_FRESH,
    REGION_GIVEN,
    REGION_OWN,
    RESULT_NO_GRAD,
    RESULT_OUT,
    RESULT_VALUE,
)
from fastgrad.native.contracts.status import INTERNAL, OK, OTHER_VALUE, TAPE_EDITION
from fastgrad.native.memory.bindings import (
    REGION_BYTES,
    bind_devices,
    bound_of,
    brought_of,
    extent_of,
    hold,
    is_gradient,
    is_right,
    laid,
    move,
    refresh,
    region_of,
    result_of,
    runs_on_its_streams,
    take_values,
)
from fastgrad.native.memory.buffers import allocate, deallocate
from fastgrad.native.memory.references import drain, drop, release_storage, retain
from fastgrad.native.memory.replays import drop_graphs, give_back_numbers, replay
from fastgrad.native.memory.tapes import (
    HEAD_BYTES,
    MADE,
    PROGRAM_BYTES,
    drop_kept,
    edit,
    launched,
    program,
    recording,
)
from fastgrad.native.objects.handles import object_handle, type_of, wrap
from fastgrad.native.python.brought import take_number
from fastgrad.native.python.data import element_object
from fastgrad.native.tensors.tensors import (
    blank_tensor,
    bump_version,
    count_elements,
    itemsize,
    lay,
)

COMPARED = (
    REQUIRES_GRAD | RETAINS_GRAD | INFERENCE | LEAF_HOOKS | LEAF_POST_HOOKS | COPY_ON_WRITE | WRAPPED_NUMBER
)
"""Flags of a tensor that what a call does may depend on."""

# Why a call was refused; what is wrong with which tensor is 16 times its number plus one of these.
(
    ANOTHER_NUMBER, IN_USE, NOT_A_TENSOR, OTHER_FLAGS, OTHER_LAYOUT, OTHER_MEMORY, OTHER_GRADIENT, OTHER_MODE,
    ANOTHER_VALUE, OTHER_OPTION, OTHER_STREAM,
) = range(11)  # fmt: skip
PAIR = 2  # objects of a number that a call brings: a dict and a key


# --- what Python sees of a tape --------------------------------------------------------------------------------


@native
def tape_field(o, k):
    """Word `k` of the record of what a context recorded; zero if it never recorded anything."""
    handle = context_object(o).tape
    return words(handle)[k] if handle != 0 else 0


@native
def tape_drew(o, device, seed, offset):
    """Whether the block of random numbers at an offset is one that a context took of a device's default generator."""
    handle = context_object(o).tape
    if handle == 0 or not 0 <= device < N_DEVICES:
        return 0
    t = tape(handle)
    return types.int64(t.seeds[device] == seed and t.firsts[device] <= offset < t.ends[device])


@native
def tape_numbers(o, device, out):
    """A device, and seed and first offset of its random numbers in the last call of a tape, or in its capture."""
    handle = context_object(o).tape
    known = handle != 0 and 0 <= device < N_DEVICES
    words(out)[0] = device
    words(out)[1] = tape(handle).seeds_now[device] if known else 0
    words(out)[2] = tape(handle).firsts_now[device] if known else 0
    return 3


@native
def follow_numbers(o, of, device, seed, first):
    """Let the next calls of a tape draw the numbers of a device again of a call of another one, which began there."""
    handle, other = context_object(o).tape, context_object(of).tape
    if handle == 0 or other == 0 or tape(handle).replaying != 0 or not 0 <= device < N_DEVICES:
        return
    t, drawn = tape(handle), tape(other)
    t.follows = 1
    t.seeds[device] = drawn.seeds[device]
    t.firsts[device] = drawn.firsts[device]
    t.ends[device] = drawn.ends[device]
    t.seeds_now[device] = seed
    t.firsts_now[device] = first


@native
def over_storage(handle):
    """The memory of a storage as a tensor of bytes, or a failure."""
    out = blank_tensor()
    if failed(out):
        return out
    t = tensor(out)
    s = storage(handle)
    retain(handle)
    t.storage = handle
    t.data = s.data
    t.dtype = UINT8
    t.device = s.device
    t.ndim = 1
    t.numel = s.nbytes
    t.shape[0] = s.nbytes
    t.strides[0] = 1
    t.flags |= CONTIGUOUS
    return out


@native
def memory_of(h):
    """The whole memory under a tensor as a tensor of bytes, which counts its changes for itself."""
    enter()
    return over_storage(tensor(h).storage)


@native
def tape_memory(o):
    """The memory that was made while a context recorded, as a tuple of tensors of bytes."""
    enter()
    handle = context_object(o).tape
    n = 0
    for k in range(tape(handle).n_kept if handle != 0 else 0):
        n += words(tape(handle).kept)[k] & MADE
    made = py_tuple_new(n)
    n = 0
    for k in range(tape(handle).n_kept if handle != 0 else 0):
        kept = words(tape(handle).kept)[k]
        if made == 0 or not kept & MADE:
            continue
        out = over_storage(kept & ~MADE)
        item = wrap(out) if not failed(out) else 0
        if item == 0:
            py_decref(made)
            return out if failed(out) else 0
        py_tuple_set(made, n, item)
        n += 1
    return made


@native
def edit_tape(o, edition):
    """Replace the launches that a context recorded by those of an edition, the bytes of its words. OK or a failure.

    See Note [Editions] in `memory.tapes`.
    """
    enter()
    handle = context_object(o).tape
    n = py_size(edition) // 8 if type_of(edition) == bytes_type() else -1
    if handle == 0 or n < 0:
        return fail(TAPE_EDITION, 0)
    if tape(handle).replaying == 0:
        drop_graphs(handle)
    return edit(handle, words(py_bytes_text(edition)), n)


# --- binding ---------------------------------------------------------------------------------------------------


@native
def bind_tape(o, memory, source, arenas):
    """Let a program say of a tape where its launches work; see Note [Bound tapes]. OK or a failure.

    `memory`: for each region a tensor of bytes whose storage it is, for one that calls bring the memory of the capture.
    `source`: the words of the program, as a tensor of int64. `arenas`: memory for regions that are moved, a tensor of
    each device that has such.
    """
    enter()
    handle = context_object(o).tape
    p = tensor(source)
    fits = handle != 0 and p.dtype == INT64 and p.device == HOST and p.ndim == 1 and p.flags & CONTIGUOUS != 0
    fits = fits and p.numel >= PROGRAM_BYTES // 8
    if not fits or recording() or tape(handle).replaying != 0 or tape(handle).program != 0:
        return fail(INTERNAL, p.numel, p.dtype)
    t = tape(handle)
    n = p.numel
    room = allocate(n * 8)
    if failed(room):
        return room
    for k in range(n):
        words(room)[k] = words(p.data)[k]
    t.program = room
    t.n_program = n
    right = py_tuple_size(memory) == words(room)[0] and set_bases(t, memory, arenas) and is_right(t)
    if not right:
        t.program = 0
        t.n_program = 0
        deallocate(room, n * 8)
        return fail(INTERNAL, n, words(p.data)[0])
    for k in range(py_tuple_size(memory)):
        r = region_of(t, k)
        place = r.storage
        r.storage = 0
        if place == NOT_MOVED:
            hold(r, tensor(object_handle(py_tuple_item(memory, k))).storage)
        else:
            arena = arena_on(arenas, r.device)
            hold(r, tensor(arena).storage)
            move(t, r, tensor(arena).data + place)
    bind_devices(t)
    take_values(t)
    drop_kept(handle)
    drain()
    return OK


@native
def arena_on(arenas, device):
    """The tensor of a device among some; zero if there is none, or if it is not without gaps."""
    for k in range(py_tuple_size(arenas)):
        h = object_handle(py_tuple_item(arenas, k))
        if h != 0 and tensor(h).device == device and tensor(h).flags & CONTIGUOUS:
            return h
    return 0


@native
def set_bases(t, memory, arenas):
    """Note where regions begin, and on which device. False if something is no tensor, or does not fit."""
    n = py_tuple_size(memory)
    if t.n_program < PROGRAM_BYTES // 8 + n * REGION_BYTES // 8:
        return False
    for k in range(n):
        h = object_handle(py_tuple_item(memory, k))
        if h == 0:
            return False
        r = region_of(t, k)
        s = storage(tensor(h).storage)
        whole = tensor(h).data == s.data and r.nbytes <= s.nbytes
        if r.kind != REGION_GIVEN and not whole:
            return False
        r.device = tensor(h).device
        if r.storage != NOT_MOVED:
            arena = arena_on(arenas, r.device)
            room = tensor(arena).numel * itemsize(tensor(arena).dtype) if arena != 0 else 0
            inside = 0 <= r.storage <= room and 0 <= r.nbytes <= room - r.storage
            if r.kind != REGION_OWN or not inside:
                return False
        r.base = tensor(h).data
    return True


# --- what a call brings ----------------------------------------------------------------------------------------


@native
def lies_like(h, x):
    """Whether a tensor has the device, the dtype, the sizes and the strides that a program says."""
    t = tensor(h)
    if t.dtype != x.dtype or t.ndim != x.ndim or t.device != x.device or t.flags & CONJUGATED != x.turned:
        return False
    for k in range(x.ndim):
        if t.shape[k] != x.shape[k] or (t.strides[k] != x.strides[k] and x.shape[k] > 1):
            return False
    return True


@native
def is_apart(t, k):
    """Whether no other region has the memory that a call brings for region `k`; that of the last call has none."""
    if k < 0 or region_of(t, k).storage == region_of(t, k).last:
        return True
    for j in range(program(t.program).n_regions):
        r = region_of(t, j)
        if j != k and r.kind == REGION_GIVEN and r.storage == region_of(t, k).storage:
            return False
    return True


@native
def are_apart(t):
    """-1 if the regions that a call brings are all other memory, or the number of a tensor in one that is not.

    Where they are those of the last call, there is nothing to compare.
    """
    p = program(t.program)
    for k in range(p.n_bound):
        b = bound_of(t, k)
        apart = is_apart(t, laid(address_of(b.lies)).region)
        if not apart or not is_apart(t, laid(address_of(b.grad_lies)).region):
            return k
    for k in range(p.n_regions):
        region_of(t, k).last = region_of(t, k).storage
    return -1


@native
def place_region(t, h, x):
    """Let a region begin where a tensor says. False if another one says otherwise."""
    if x.region < 0:
        return True
    r = region_of(t, x.region)
    base = tensor(h).data - x.offset
    if r.storage == 0:
        r.storage = tensor(h).storage
        retain(r.storage)
        move(t, r, base)
        return True
    return r.storage == tensor(h).storage and r.base == base


@native
def fits(t, b, h):
    """Whether a tensor is what a program says of it; zero, or why not."""
    x = tensor(h)
    if (x.node != 0) != (b.history != 0) or (x.flags ^ b.flags) & COMPARED:
        return OTHER_FLAGS
    if not lies_like(h, laid(address_of(b.lies))):
        return OTHER_LAYOUT
    if (x.grad != 0) != (b.grad != 0):
        return OTHER_GRADIENT
    if not place_region(t, h, laid(address_of(b.lies))):
        return OTHER_MEMORY
    if x.grad == 0:
        return 0
    said = laid(address_of(b.grad_lies))
    if tensor(x.grad).node != 0 or tensor(x.grad).flags & REQUIRES_GRAD or not lies_like(x.grad, said):
        return OTHER_GRADIENT
    return 0 if place_region(t, x.grad, said) else OTHER_MEMORY


@native
def take_given(t, given, objects):
    """Find the memory that a call brings. Zero, or why the call does not fit."""
    p = program(t.program)
    n_held = p.n_bound - p.n_given
    if py_tuple_size(given) != p.n_given or py_tuple_size(objects) != n_held + PAIR * p.n_brought:
        return ANOTHER_NUMBER + 16 * p.n_bound
    for k in range(p.n_bound):
        o = py_tuple_item(given, k) if k < p.n_given else py_tuple_item(objects, k - p.n_given)
        h = object_handle(o)
        why = fits(t, bound_of(t, k), h) if h != 0 else NOT_A_TENSOR
        if why != 0:
            return why + 16 * k
    shared = are_apart(t)
    if shared >= 0:
        return OTHER_MEMORY + 16 * shared
    for k in range(p.n_brought):
        pair = n_held + PAIR * k
        if not take_number(
            t, brought_of(t, k), py_tuple_item(objects, pair), py_tuple_item(objects, pair + 1)
        ):
            return OTHER_OPTION + 16 * k
    return 0


# --- what a call leaves ----------------------------------------------------------------------------------------


@native
def tensor_in(t, x):
    """A new tensor that lies in a region as a program says, or a failure where the memory that a call brought ends."""
    r = region_of(t, x.region)
    data = r.base + x.offset
    numel = count_elements(x.ndim, x.shape)
    s = storage(r.storage)
    if r.storage == 0 or numel < 0 or data < s.data or data + extent_of(x) > s.data + s.nbytes:
        return fail(INTERNAL, x.region, x.offset)
    handle = blank_tensor()
    if failed(handle):
        return handle
    out = tensor(handle)
    retain(r.storage)
    out.storage = r.storage
    out.dtype = x.dtype
    out.device = x.device
    out.flags |= x.turned & CONJUGATED
    lay(out, data, x.ndim, x.shape, x.strides, numel)
    return handle


@native
def bound_object(t, k, given, objects):
    """The object that a call brought as number `k`."""
    n = program(t.program).n_given
    return py_tuple_item(given, k) if k < n else py_tuple_item(objects, k - n)


@native
def set_gradient(o, g):
    """Let the gradient of a tensor be another one, or none; takes over a reference."""
    h = object_handle(o)
    if h == 0:
        if g != 0:
            drop(g)
        return
    old = tensor(h).grad
    tensor(h).grad = g
    if old != 0:
        drop(old)


@native
def has_gradient_there(o, g):
    """Whether the gradient of a tensor lies where another tensor does: a hook got it there."""
    h = object_handle(o)
    if h == 0 or tensor(h).grad == 0:
        return False
    return tensor(tensor(h).grad).data == tensor(g).data


@native_once
def prepare(t, given, objects):
    """Take away the gradients that a call replaces, and give it memory where others hold what lies there. A status."""
    p = program(t.program)
    for k in range(p.n_results):
        x = result_of(t, k)
        replaced = is_gradient(x) and laid(address_of(bound_of(t, x.bound).grad_lies)).region < 0
        if replaced and t.n_values == 0:  # else the replay may come to nothing
            set_gradient(bound_object(t, x.bound, given, objects), 0)
    for k in range(p.n_regions):
        r = region_of(t, k)
        if r.kind == REGION_FRESH:
            status = refresh(t, r)
            if failed(status):
                return status
    return OK


@native
def value_object(t, at):
    """The Python number that was read last where the entry of a value stands on a tape; zero with an exception set."""
    entry = launched(t.words + at)
    return element_object(entry.dim, t.words + at + HEAD_BYTES + 8)


@native_once
def results_of(t, given, objects):
    """Set the gradients that a call leaves, count its changes, and make the tuple of what it gives back."""
    p = program(t.program)
    for k in range(p.n_bound):
        h = object_handle(bound_object(t, k, given, objects))
        if h != 0:
            for _ in range(bound_of(t, k).n_writes):
                bump_version(h)
    n = 0
    for k in range(p.n_results):
        n += not is_gradient(result_of(t, k))
    made = py_tuple_new(n)
    n = 0
    for k in range(p.n_results):
        x = result_of(t, k)
        if made == 0:
            break
        if x.kind == RESULT_VALUE:
            number = value_object(t, laid(address_of(x.lies)).offset)
            if number == 0:
                py_decref(made)
                return 0
            py_tuple_set(made, n, number)
            n += 1
            continue
        out = 0
        if x.kind != RESULT_NO_GRAD:
            out = tensor_in(t, laid(address_of(x.lies)))
            if failed(out):
                py_decref(made)
                return out
        if x.kind == RESULT_OUT:
            item = wrap(out)
            if item == 0:
                py_decref(made)
                return 0
            py_tuple_set(made, n, item)
            n += 1
        elif out == 0 or not has_gradient_there(bound_object(t, x.bound, given, objects), out):
            set_gradient(bound_object(t, x.bound, given, objects), out)
        else:
            drop(out)
    return made


# --- a call ----------------------------------------------------------------------------------------------------


@native
def forget_given(t):
    """Know nothing any more of the memory that the call brought."""
    for k in range(program(t.program).n_regions):
        r = region_of(t, k)
        if r.kind == REGION_GIVEN and r.storage != 0:
            release_storage(r.storage)
            r.storage = 0


@native_inline
def may_be_called(p):
    """Whether the modes of the thread are those that a program is for."""
    rt = runtime()
    if p.mode == ANY_MODE:
        return True
    same = not (rt.mode ^ p.mode) & ~(COMPILED_PASSES | EAGER_PASSES) and rt.default_dtype == p.default_dtype
    return same and rt.chosen_devices == 0 and rt.current_task == 0


@native
def call_tape(o, given, objects):
    """Run a bound tape over the tensors that a call brings: the tuple of what it gives back, or a failure.

    `given`: the tensors that came with the call; `objects`: those that are always the same, and then a dict and a key
    for each number that is brought. An int, which says why, where they are not what the program says; nothing was
    changed then.
    """
    enter()
    handle = context_object(o).tape
    if handle == 0 or tape(handle).program == 0:
        return fail(INTERNAL, handle != 0, 0)
    t = tape(handle)
    if t.replaying != 0:
        return py_integer(IN_USE)
    if runtime().tape != 0 or not may_be_called(program(t.program)):
        return py_integer(OTHER_MODE)
    if not runs_on_its_streams(t):
        return py_integer(OTHER_STREAM)
    why = take_given(t, given, objects)
    if why != 0:
        forget_given(t)
        return py_integer(why)
    t.replaying += 1
    status = prepare(t, given, objects)
    if not failed(status):
        status = replay(o, handle)
    if status == OTHER_VALUE:
        give_back_numbers(t)
        answer = py_integer(ANOTHER_VALUE)
    else:
        answer = results_of(t, given, objects) if not failed(status) else status
    forget_given(t)
    t.replaying -= 1
    drain()
    return answer
