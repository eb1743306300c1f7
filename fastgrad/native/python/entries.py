"""Small functions that only Python needs, as entries: fields of records, numbers, modes."""

from __future__ import annotations

from fastgrad.native.base import modes
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import (
    address_of,
    context_object,
    native,
    node,
    product,
    runtime,
    runtime_address,
    stack_small,
    tape,
    tensor,
    total,
    words,
)
from fastgrad.native.base.modes import enter
from fastgrad.native.base.pyapi import (
    none,
    py_compare_text,
    py_decref,
    py_dict_get_text,
    py_err_occurred,
    py_get_buffer,
    py_incref,
    py_integer_value,
    py_is_subtype,
    py_release_buffer,
    py_tuple_new,
    text,
    text_type,
)
from fastgrad.native.contracts.flags import (
    CONJUGATED,
    CONTIGUOUS,
    COPY_ON_WRITE,
    DETACHED,
    REQUIRES_GRAD,
    RETAINS_GRAD,
    WRAPPED_NUMBER,
)
from fastgrad.native.contracts.formats import PRESERVE_FORMAT
from fastgrad.native.contracts.limits import MAX_DIMS
from fastgrad.native.contracts.profiles import RANGE_EVENT
from fastgrad.native.contracts.status import (
    BEYOND_STORAGE,
    BYTES_MISFIT,
    INTERNAL,
    NEGATIVE_STRIDED,
    OK,
    RAISED,
    TOO_MANY_DIMS,
)
from fastgrad.native.graph.graph import requires_grad, retain_gradient, write_meta
from fastgrad.native.graph.packing import about_to_change
from fastgrad.native.graph.versions import catch_up
from fastgrad.native.launch.elementwise import (
    check_fits,
    copy_into,
    fill_scalar,
    lasting_number,
    number_tensor,
)
from fastgrad.native.memory.launches import wait_for_flights
from fastgrad.native.memory.profiles import (
    begin_event,
    begin_hook,
    drop_events,
    end_event,
    end_profile,
    note_stack,
)
from fastgrad.native.memory.references import drain, drop, leave_node, retain, unlink_retained
from fastgrad.native.memory.replays import replay
from fastgrad.native.memory.tapes import append_hook, pause_tape, recording
from fastgrad.native.objects.collector import collection_begins, collection_ends
from fastgrad.native.objects.handles import never_made, object_handle, type_of
from fastgrad.native.python.arguments import integers
from fastgrad.native.python.recorder import unplanned
from fastgrad.native.shapes.creation import fill_random, state_of
from fastgrad.native.tensors import elements, tensors
from fastgrad.native.tensors.layouts import in_format, is_channels_last, new_like, without_gaps
from fastgrad.native.tensors.overlap import overlap as memory_overlap
from fastgrad.native.tensors.tensors import alias, itemsize, new_tensor
from fastgrad.native.tensors.views import is_viewable

OLDEST = 2  # the generation of a full collection
PLAIN = 0  # a request for a buffer: bytes without gaps, which may be read
BUFFER_DATA, BUFFER_LENGTH = 0, 2  # words of a Py_buffer
GENERATION, START = text("generation"), text("start")


@native
def collecting(phase, info):
    """Python's garbage collector begins or ends: see Note [What the collector learns] in `objects.collector`.

    Compiled, because Python drops the KeyboardInterrupt of a signal that it handles in a callback of the collector.
    """
    generation = py_dict_get_text(info, GENERATION())
    if generation == 0 or py_is_subtype(type_of(phase), text_type()) == 0:
        return fail(INTERNAL, phase, info)
    full = py_integer_value(generation) == OLDEST
    if py_err_occurred() != 0:
        return RAISED
    if py_compare_text(phase, START()) == 0:
        collection_begins(1 if full else 0)
        return OK
    return collection_ends() if full else OK


@native
def word(k):
    """Word `k` of the runtime's record."""
    return words(runtime_address())[k]


@native
def choose_devices(change):
    """Add to the number of devices that threads have chosen to make tensors on, at once for all threads."""
    runtime().chosen_devices += change


@native
def set_object(k, o):
    """Let word `k` of the runtime's record be an object, which then lives to the very end, as destructors may run."""
    py_incref(o)
    words(runtime_address())[k] = o


@native
def handle_of(h):
    """The handle of a tensor."""
    return h


@native
def release_handle(h):
    """Take a reference from a tensor that somebody holds."""
    drop(h)
    drain()


@native
def sizes(h, out):
    """The sizes of a tensor; returns their number."""
    t = tensor(h)
    for k in range(t.ndim):
        words(out)[k] = t.shape[k]
    return t.ndim


@native
def steps(h, out):
    """The strides of a tensor, in elements; returns their number."""
    t = tensor(h)
    for k in range(t.ndim):
        words(out)[k] = t.strides[k]
    return t.ndim


@native
def field(h, k):
    """Word `k` of a tensor's record (see `layout.TENSOR`)."""
    return words(h)[k]


@native
def storage_field(h, k):
    """Word `k` of the record of a tensor's storage."""
    return words(tensor(h).storage)[k]


@native
def get_grad(h):
    """The gradient of a tensor with a reference for the caller, zero for none."""
    g = tensor(h).grad
    if g != 0:
        retain(g)
    return g


@native
def set_grad(h, g):
    """Let the gradient of a tensor be another one, or none."""
    t = tensor(h)
    old = t.grad
    if g != 0:
        retain(g)
    t.grad = g
    if old != 0:
        drop(old)


@native
def get_base(h):
    """The base of a view with a reference for the caller, zero for what is none."""
    b = tensor(h).base
    if b != 0:
        retain(b)
    return b


@native
def detach(h):
    """An alias without history that shares memory and version."""
    enter()
    return alias(h)


@native
def where_it_lies(h):
    """An alias that nobody may write to of a tensor that may share its memory with others, which stays so."""
    enter()
    t = tensor(h)
    shared = t.flags & COPY_ON_WRITE
    t.flags &= ~COPY_ON_WRITE
    a = alias(h)
    t.flags |= shared
    return a


@native
def set_requires_grad(h, on):
    """Switch on or off whether a leaf wants gradients."""
    unplanned()
    t = tensor(h)
    if on != 0:
        t.flags |= REQUIRES_GRAD
    else:
        t.flags &= ~REQUIRES_GRAD


@native
def detach_(h):
    """Cut a tensor from its history, in place."""
    t = tensor(h)
    if t.flags & RETAINS_GRAD:
        unlink_retained(h)
        t.flags &= ~RETAINS_GRAD
    t.output_nr = 0
    t.flags &= ~REQUIRES_GRAD
    if t.node != 0:
        t.flags |= DETACHED  # what nodes saved of it cannot be read any more
    leave_node(h)
    drain()


@native
def retain_grad(h):
    """Ask that the gradient of a non-leaf be written to its `grad`: 1, 0 if it requires none, a negative status."""
    enter()
    if not requires_grad(h):
        return 0
    status = catch_up(h) if tensor(h).node != 0 else OK
    if failed(status):
        return status
    retain_gradient(h)
    return 1


@native
def new(dtype, device, n, shape):
    """A tensor whose elements are not set; `shape` is the address of its sizes."""
    enter()
    if n > MAX_DIMS:
        return fail(TOO_MANY_DIMS, n)
    return new_tensor(dtype, device, n, words(shape))


@native
def like(h, dtype, device, memory_format):
    """A tensor of the sizes of another whose elements are not set, in a memory format."""
    enter()
    return new_like(h, dtype, device, memory_format)


@native
def lies_in(h, memory_format):
    """Whether a tensor lies in memory in a format, without gaps; in whatever order for `PRESERVE_FORMAT`."""
    return 1 if in_format(tensor(h), memory_format) else 0


@native
def channels_last(h):
    """Whether the strides of a tensor speak for channels last: see Note [Channels last]."""
    return 1 if is_channels_last(h) else 0


@native
def viewable(h, n, sizes):
    """Whether strides allow a view with these sizes, of which one may be -1."""
    return 1 if is_viewable(h, n, words(sizes)) else 0


@native
def number(kind, real, integer, dtype, device):
    """A 0-dim tensor with a Python number."""
    enter()
    h = number_tensor(kind, real, integer, dtype, device)
    if not failed(h):
        tensor(h).flags &= ~WRAPPED_NUMBER
    return h


@native
def wrapped_number(kind, real, integer, device):
    """Like `number`, of a kind that takes part in promotion as a Python number does."""
    enter()
    return number_tensor(kind, real, integer, -1, device)


@native
def wrapped_handle(kind, real, integer):
    """The handle of such a number of the host's, with one reference for the caller."""
    enter()
    return lasting_number(kind, real, integer)


@native
def foreign(dtype, device, n, shape, n_strides, strides, data, nbytes, owner):
    """A tensor over `nbytes` bytes of somebody else's memory, kept alive by a reference to `owner`, a Python object.

    `shape` and `strides` are the addresses of sizes and strides.
    """
    enter()
    if n > MAX_DIMS:
        return fail(TOO_MANY_DIMS, n)
    if n != n_strides:
        return fail(INTERNAL, n, n_strides)
    reach = 1
    for k in range(n):
        size = words(shape)[k]
        step = words(strides)[k]
        if size < 0 or step < 0:
            return NEGATIVE_STRIDED
        reach = total(reach, product(size - 1, step)) if size > 0 and reach > 0 else min(reach, 0)
    reach = product(reach, itemsize(dtype))
    if reach < 0 or reach > nbytes:
        return fail(BEYOND_STORAGE, nbytes)
    py_incref(owner)
    made = tensors.foreign_tensor(dtype, device, n, words(shape), words(strides), data, nbytes, owner)
    if failed(made):
        py_decref(owner)
    return made


@native
def overlap(a, b):
    """How two tensors share memory; see `tensors.overlap`."""
    return memory_overlap(a, b)


@native
def fill(h, kind, real, integer):
    """Fill a tensor that nobody has seen yet with a number: no new version of it. A status."""
    enter()
    return fill_scalar(h, kind, real, integer)


@native
def copy(h, source):
    """Copy elements, broadcasting and casting, without history. A status."""
    enter()
    status = check_fits(h, source)
    if failed(status):
        return status
    status = about_to_change(h)
    if failed(status):
        return status
    retain(h)
    retain(source)
    status = copy_into(h, source)
    tensors.bump_version(h)
    drop(h)
    drop(source)
    return status


@native
def queue_copy(h, source):
    """Copy elements to or from locked memory of the host's, without waiting and without history. A status.

    The tensors lie alike and without gaps, one on the host and one on a device.
    """
    enter()
    status = about_to_change(h)
    if failed(status):
        return status
    to, t = tensor(h), tensor(source)
    alike = to.dtype == t.dtype and to.ndim == t.ndim and (to.device == 0) != (t.device == 0)
    for d in range(to.ndim if alike else 0):
        alike = alike and to.shape[d] == t.shape[d] and to.strides[d] == t.strides[d]
    alike = alike and not (to.flags ^ t.flags) & CONJUGATED
    if not alike or not in_format(to, PRESERVE_FORMAT):
        return fail(INTERNAL, to.device, t.device)
    status = elements.queue_bytes(h, source)
    tensors.bump_version(h)
    return status


@native
def write(h, o):
    """Fill a fresh contiguous tensor with the memory of an object that has the buffer protocol. OK or a failure."""
    view = words(stack_small())
    retain(h)  # what gives its memory may be Python
    if py_get_buffer(o, address_of(view), PLAIN) != 0:
        drop(h)
        return RAISED
    enter()
    t = tensor(h)
    nbytes = view[BUFFER_LENGTH]
    if t.flags & CONTIGUOUS and nbytes == t.numel * itemsize(t.dtype):
        status = elements.write_bytes(h, view[BUFFER_DATA])
    else:
        status = fail(BYTES_MISFIT, nbytes, h)
    py_release_buffer(address_of(view))
    drop(h)
    return status


@native
def data_of(h):
    """What `.data` gives: an alias whose changes in place do not count for the others over its memory."""
    enter()
    a = alias(h)
    return tensors.finished(a, tensors.count_apart(a)) if not failed(a) else a


@native
def set_data(o, given):
    """Let a tensor stand for the memory of another one, with its layout and dtype. OK or a failure."""
    enter()
    wait_for_flights()
    h = object_handle(o)  # now, and not before others ran
    source = object_handle(given)
    if h == 0 or source == 0:
        never_made()
        return RAISED
    tensors.stand_for(h, source)
    if tensor(h).accumulator != 0:
        write_meta(words(node(tensor(h).accumulator).metas), h)
    drain()
    return OK


@native
def part_from_node(h):
    """Let a leaf have a new AccumulateGrad node from now on: gradients of earlier uses are not of what it is now."""
    tensor(h).accumulator = 0


@native
def setting(k):
    """The chain of a setting of the calling thread, None if it is empty; see `contracts.flags`."""
    chain = modes.get_setting(k)
    if chain == 0:
        chain = none()
        py_incref(chain)
    return chain


@native
def capturing():
    """Whether a capture is under way: 1 if it is one of the calling thread, 2 if another one's.

    3 if it is one of the calling thread's that records nothing, as a hook runs.
    """
    enter()
    rt = runtime()
    if rt.tape == 0:
        return 0
    if recording():
        return 1
    return 3 if tape(rt.tape).thread == rt.thread else 2


@native
def launches_of(o):
    """The number of launches that a context recorded; -1 if it never recorded any."""
    handle = context_object(o).tape
    return tape(handle).n_launches if handle != 0 else -1


@native
def pause(paused):
    """Let the tape of the calling thread record nothing, or go on."""
    enter()
    pause_tape(paused)


@native
def record_call(number):
    """Append the call of a hook to the tape of the calling thread, if it records. OK or a failure."""
    enter()
    return append_hook(number) if recording() else OK


@native
def replay_tape(o):
    """Run the launches that a context recorded again, in order. OK or a failure."""
    handle = context_object(o).tape
    return replay(o, handle) if handle != 0 else OK


@native
def tape_words(o):
    """What a context recorded, as a tuple: of each launch what `LAUNCHED` says, and then the words of its frame."""
    handle = context_object(o).tape
    return integers(tape(handle).words, tape(handle).n_words) if handle != 0 else py_tuple_new(0)


@native
def bump(h):
    """Count a change of the memory under a tensor."""
    tensors.bump_version(h)


@native
def set_version(h, count):
    """Let the memory under a tensor have been changed so often."""
    tensors.set_version(h, count)


@native
def version(h):
    """How often the memory under a tensor was changed."""
    return tensors.version_of(h)


@native
def flags_of(h):
    """The flags of a tensor; REQUIRES_GRAD also where it is the base of a view that wants gradients."""
    return tensor(h).flags | (REQUIRES_GRAD if requires_grad(h) else 0)


@native
def random_fill(which, h, state, a, b):
    """Fill a tensor without gaps with the next numbers of the generator with a state. A failure or 0."""
    enter()
    if not without_gaps(tensor(h)) or tensor(h).flags & CONJUGATED:
        return fail(INTERNAL, which, tensor(h).ndim)
    return fill_random(which, h, state_of(state), a, b)


@native
def forget_profile():
    """There is no profile any more: for a forked process, whose parent goes on with it."""
    enter()
    end_profile()
    drop_events()


@native
def begin_range(name):
    """A range of a program begins: its token, 0 if there is no profile."""
    enter()
    token = begin_event(RANGE_EVENT, 0, name)
    note_stack(token)
    return token


@native
def begin_noted_hook(kind, hook):
    """A hook that Python calls begins: its token, 0 if there is no profile."""
    enter()
    return begin_hook(kind, hook)


@native
def end_range(token):
    """What got a token has ended."""
    enter()
    end_event(token)


@native
def note_hooks(on):
    """Let counts and times of hooks be noted, or no longer."""
    rt = runtime()
    rt.noting = 1 if on != 0 else 0
    rt.measuring = 1 if on != 0 or rt.profile != 0 else 0
