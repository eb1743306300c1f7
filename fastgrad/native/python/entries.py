"""What the compiled runtime offers to Python: one list of exports, compiled to one object file.

Small functions that only Python needs (fields of records, modes, hooks' flags) stand here too.
"""

from __future__ import annotations

from fastgrad.native.backward import boundary, custom_function, hooks, passes, run
from fastgrad.native.base import frames, modes
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import (
    advance,
    native,
    node,
    runtime,
    runtime_address,
    stack_small,
    tensor,
    words,
)
from fastgrad.native.base.modes import enter
from fastgrad.native.base.pyapi import (
    none,
    py_compare_text,
    py_dict_get_text,
    py_incref,
    py_integer_value,
    text,
)
from fastgrad.native.contracts.entries import Export
from fastgrad.native.contracts.flags import DETACHED, REQUIRES_GRAD, RETAINS_GRAD, WRAPPED_NUMBER
from fastgrad.native.contracts.status import BAD_HANDLE, OK
from fastgrad.native.dispatch.operators import binary_operator, scalar_operator, unary_operator
from fastgrad.native.graph import graph
from fastgrad.native.graph.graph import is_leaf, look, requires_grad, write_meta
from fastgrad.native.graph.packing import about_to_change
from fastgrad.native.launch.elementwise import copy_into, fill_scalar, lasting_number, number_tensor
from fastgrad.native.launch.launch import launch_frame
from fastgrad.native.memory.buffers import empty_cache
from fastgrad.native.memory.launches import replay, wait_for_flights
from fastgrad.native.memory.references import drain, drop, drop_tensor, leave_node, retain, unlink_retained
from fastgrad.native.memory.tapes import launches_of
from fastgrad.native.objects import contexts, held
from fastgrad.native.objects.collector import (
    clear_node,
    clear_tensor,
    collection_begins,
    collection_ends,
    dealloc_handle,
    dealloc_node,
    dealloc_tensor,
    traverse_node,
    traverse_tensor,
)
from fastgrad.native.objects.handles import (
    adopt,
    entry_refused,
    no_new_node,
    no_new_tensor,
    node_handle,
    object_handle,
    optional_handle,
    pass_handle,
    wrap,
    wrap_optional,
)
from fastgrad.native.python import node_entries
from fastgrad.native.python.apply import apply
from fastgrad.native.tensors import elements, tensors
from fastgrad.native.tensors.overlap import overlap as memory_overlap
from fastgrad.native.tensors.tensors import alias, new_tensor

OLDEST = 2  # the generation of a full collection
GENERATION, START = text("generation"), text("start")


@native
def collecting(phase, info):
    """Python's garbage collector begins or ends: see Note [What the collector learns] in `objects.collector`.

    Compiled, because Python drops the KeyboardInterrupt of a signal that it handles in a callback of the collector.
    """
    full = py_integer_value(py_dict_get_text(info, GENERATION())) == OLDEST
    if py_compare_text(phase, START()) == 0:
        collection_begins(1 if full else 0)
        return OK
    return collection_ends() if full else OK


@native
def peek(address):
    """The word at an address."""
    return words(address)[0]


@native
def poke(address, value):
    """Set the word at an address."""
    words(address)[0] = value


@native
def handle_of(h):
    """The handle of a tensor."""
    return h


@native
def from_handle(h):
    """The tensor object for a handle; takes over one reference."""
    return h


@native
def borrow(h):
    """The tensor object for a handle that stays the owner's."""
    if h != 0:
        retain(h)
    return h


@native
def sizes(h, out):
    t = tensor(h)
    for k in range(t.ndim):
        words(out)[k] = t.shape[k]
    return t.ndim


@native
def steps(h, out):
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
    return words(tensor(h).storage)[k]


@native
def get_grad(h):
    g = tensor(h).grad
    if g != 0:
        retain(g)
    return g


@native
def set_grad(h, g):
    t = tensor(h)
    old = t.grad
    if g != 0:
        retain(g)
    t.grad = g
    if old != 0:
        drop(old)


@native
def get_base(h):
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
def set_requires_grad(h, on):
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
    t = tensor(h)
    if t.node == 0:
        return 1
    status = look(h)
    if failed(status):
        return status
    if not t.flags & RETAINS_GRAD and not is_leaf(h):
        t.flags |= RETAINS_GRAD
        n = node(t.node)
        t.retain_next = n.retains
        n.retains = h
    return 1


@native
def new(dtype, device, n, shape):
    """A tensor whose elements are not set; `shape` is the address of its sizes."""
    enter()
    return new_tensor(dtype, device, n, words(shape))


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
    return lasting_number(kind, real, integer)


@native
def foreign(dtype, device, n, layout_address, data, nbytes, owner):
    """A tensor over memory of somebody else's, kept alive by one reference to `owner`, a Python object.

    `layout_address`: sizes, then strides.
    """
    enter()
    shape = words(layout_address)
    return tensors.foreign_tensor(dtype, device, n, shape, advance(shape, n), data, nbytes, owner)


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
def write(h, address):
    """Fill a fresh contiguous tensor with what lies at an address of the host's. OK or a failure."""
    enter()
    return elements.write_bytes(h, address)


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
        return BAD_HANDLE
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
    """Whether a capture is under way."""
    return 1 if runtime().tape != 0 else 0


@native
def bump(h):
    tensors.bump_version(h)


@native
def version(h):
    """How often the memory under a tensor was changed."""
    return tensors.version_of(h)


@native
def flags_of(h):
    """The flags of a tensor; REQUIRES_GRAD also where it is the base of a view that wants gradients."""
    return tensor(h).flags | (REQUIRES_GRAD if requires_grad(h) else 0)


@native
def random_fill(kernel, h, seed, offset, a, b):
    """Fill a contiguous tensor from the counter-based generator; `a`, `b` are bit patterns. A status."""
    enter()
    t = tensor(h)
    if t.numel == 0:
        return 0
    f = frames.random(stack_small())
    f.n = t.numel
    f.out = t.data
    f.seed = seed
    f.offset = offset
    f.a = a
    f.b = b
    return launch_frame(kernel, t.device, t.dtype, f, t.numel)


@native
def sequence_fill(kernel, h, start, step):
    """Fill a contiguous tensor with ``start + k * step``; both are bit patterns of float64 or integers. A status."""
    enter()
    t = tensor(h)
    if t.numel == 0:
        return 0
    f = frames.sequence(stack_small())
    f.n = t.numel
    f.out = t.data
    f.start = start
    f.step = step
    return launch_frame(kernel, t.device, t.dtype, f, t.numel)


EXPORTS = [
    Export("runtime_address", runtime_address, "", "i"),
    Export("peek", peek, "i", "i"),
    Export("poke", poke, "ii", "n"),
    # called by other wrappers
    Export("drop_tensor", drop_tensor, "i", "x"),
    Export("binary_operator", binary_operator, "iii", "x"),
    Export("unary_operator", unary_operator, "ii", "x"),
    Export("scalar_operator", scalar_operator, "iiidii", "x"),
    Export("apply", apply, "ii", "x"),
    Export("entry_refused", entry_refused, "iii", "x"),
    Export("no_new_tensor", no_new_tensor, "", "x"),
    Export("no_new_node", no_new_node, "", "x"),
    # tensors
    Export("new", new, "iiii", "T"),
    Export("number", number, "idiii", "T"),
    Export("wrapped_number", wrapped_number, "idii", "T"),
    Export("wrapped_handle", wrapped_handle, "idi", "s"),
    Export("foreign", foreign, "iiiiiii", "T"),
    Export("handle_of", handle_of, "T", "i"),
    Export("from_handle", from_handle, "i", "T"),
    Export("borrow", borrow, "i", "T"),
    Export("sizes", sizes, "T", "L"),
    Export("steps", steps, "T", "L"),
    Export("field", field, "Ti", "i"),
    Export("storage_field", storage_field, "Ti", "i"),
    Export("get_grad", get_grad, "T", "T"),
    Export("set_grad", set_grad, "TO", "n"),
    Export("get_base", get_base, "T", "T"),
    Export("detach", detach, "T", "T"),
    Export("detach_", detach_, "T", "n"),
    Export("set_requires_grad", set_requires_grad, "Ti", "n"),
    Export("retain_grad", retain_grad, "T", "s"),
    Export("overlap", overlap, "TT", "i"),
    Export("fill", fill, "Tidi", "E"),
    Export("copy", copy, "TT", "E"),
    Export("write", write, "Ti", "s"),
    Export("bump", bump, "T", "n"),
    Export("version", version, "T", "i"),
    Export("data_of", data_of, "T", "T"),
    Export("set_data", set_data, "oo", "s"),
    Export("part_from_node", part_from_node, "T", "n"),
    Export("random_fill", random_fill, "iTiiii", "E"),
    Export("sequence_fill", sequence_fill, "iTii", "E"),
    # modes
    Export("get_mode", modes.get_mode, "", "i"),
    Export("setting", setting, "i", "R"),
    Export("take_over", modes.take_over, "iooo", "n"),
    Export("apply_context", contexts.apply_context, "oii", "R"),
    Export("call_inside", contexts.call_inside, "oooo", "R"),
    Export("context_enter", contexts.context_enter, "i", "x"),
    Export("context_exit", contexts.context_exit, "i", "x"),
    Export("context_call", contexts.context_call, "iii", "x"),
    Export("dealloc_context", contexts.dealloc_context, "i", "x"),
    Export("traverse_context", contexts.traverse_context, "iii", "x"),
    Export("clear_context", contexts.clear_context, "i", "x"),
    # objects
    Export("object_handle", object_handle, "i", "x"),
    Export("optional_handle", optional_handle, "i", "x"),
    Export("node_handle", node_handle, "i", "x"),
    Export("pass_handle", pass_handle, "i", "x"),
    Export("wrap", wrap, "i", "x"),
    Export("wrap_optional", wrap_optional, "i", "x"),
    Export("dealloc_tensor", dealloc_tensor, "i", "x"),
    Export("traverse_tensor", traverse_tensor, "iii", "x"),
    Export("clear_tensor", clear_tensor, "i", "x"),
    Export("dealloc_node", dealloc_node, "i", "x"),
    Export("traverse_node", traverse_node, "iii", "x"),
    Export("clear_node", clear_node, "i", "x"),
    Export("get_held", held.get_held, "ii", "x"),
    Export("set_held", held.set_held, "iii", "x"),
    Export("dealloc_handle", dealloc_handle, "i", "x"),
    Export("collecting", collecting, "oo", "E"),
    Export("adopt", adopt, "oT", "R"),
    # hooks
    Export("next_hook_id", hooks.next_hook_id, "", "i"),
    Export("add_hook", hooks.add_hook, "oo", "R"),
    Export("register_hook", hooks.register_hook, "To", "R"),
    Export("register_node_hook", hooks.register_node_hook, "Niio", "R"),
    Export("hold_hooks", hooks.hold_hooks, "Nio", "s"),
    Export("output_hooks", hooks.output_hooks, "T", "R"),
    Export("leaf_hooks", hooks.leaf_hook_dict, "Ti", "R"),
    # custom functions, saved tensors
    Export("boundary", boundary.boundary, "o", "R"),
    Export("function_begin", custom_function.function_begin, "ooo", "R"),
    Export("function_finish", custom_function.function_finish, "ooo", "R"),
    Export("function_apply", custom_function.function_apply, "oooo", "R"),
    Export("function_save", custom_function.save_all, "o", "s"),
    Export("set_output_count", custom_function.set_output_count, "Ni", "s"),
    Export("set_output", custom_function.set_output, "NiTii", "s"),
    Export("set_dirty_output", custom_function.set_dirty_output, "NiT", "s"),
    Export("saved_tensors", custom_function.saved_tensors, "N", "R"),
    Export("saved_place", custom_function.saved_place, "Ni", "T"),
    Export("mark_packed", custom_function.pack_now, "Ni", "n"),
    # nodes
    Export("flags_of", flags_of, "T", "i"),
    Export("grad_fn", node_entries.grad_fn, "T", "R"),
    Export("is_leaf", node_entries.leaf_now, "T", "s"),
    Export("gradient_node", node_entries.gradient_node, "T", "R"),
    Export("current_node", node_entries.current_node, "T", "R"),
    Export("node_target", node_entries.node_target, "Ni", "R"),
    Export("node_output", node_entries.node_output, "Ni", "i"),
    Export("node_field", node_entries.node_field, "Ni", "i"),
    Export("set_node_field", node_entries.set_node_field, "Nii", "n"),
    Export("node_meta", node_entries.node_meta, "Ni", "L"),
    Export("input_meta", node_entries.input_meta, "Ni", "L"),
    Export("node_attr", node_entries.node_attr, "Ni", "i"),
    Export("node_variable", node_entries.node_variable, "N", "T"),
    Export("attach_input", node_entries.attach_input, "NiT", "T"),
    Export("attach_output", node_entries.attach_output, "NiT", "T"),
    Export("check_saved", graph.check_saved, "N", "i"),
    # passes
    Export("run_pass", run.run_pass, "oooi", "R"),
    Export("kept_by_pass", passes.kept_by_pass, "K", "R"),
    Export("current_pass", passes.current_pass, "", "i"),
    Export("pass_id", passes.pass_id, "K", "i"),
    Export("will_run", passes.will_run, "KNi", "i"),
    Export("execution_order", passes.execution_order, "K", "R"),
    Export("task_node", node_entries.task_node, "K", "R"),
    # memory, capture
    Export("empty_cache", empty_cache, "", "i"),
    Export("capturing", capturing, "", "i"),
    Export("launches_of", launches_of, "i", "i"),
    Export("replay", replay, "i", "s"),
]
