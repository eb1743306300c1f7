"""The derivatives of ops, run by compiled code.

Note [Programs]: the derivative of an op with regard to one input is the identity, a fused elementwise kernel, or
a program: op calls over an environment of gradients, saved tensors and earlier results. Programs are made once
from the op's rule (see `fastgrad.ops.rules`); running one records nothing.

Note [Joint gradients]: where gradients of several inputs share most of their work, one op gives them all. It takes the
gradient of the output, then what was saved, inputs before outputs, and the integers of the call.
"""

from __future__ import annotations

from fastgrad.native.backward.slots import find_slot, is_wanted, slot_at
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import (
    address_of,
    native,
    native_inline,
    node,
    runtime,
    stack_frame,
    stack_small,
    words,
)
from fastgrad.native.contracts.flags import FILTERED, IN_VIEW, PACKED, SAVED_FREED
from fastgrad.native.contracts.limits import SAVED_SLOTS
from fastgrad.native.contracts.ops import (
    ALL_GRADS,
    ENV_GRADS,
    ENV_INPUTS,
    ENV_OUTPUTS,
    ENV_RESULTS,
    FUSED,
    IDENTITY,
    JOINT,
    PROGRAM,
    SOURCE_ATTR,
    SOURCE_ATTRS,
    SOURCE_CONST,
    SOURCE_INDEXED,
    SOURCE_INPUT,
    SOURCE_META,
    SOURCE_PREFIX,
)
from fastgrad.native.contracts.status import FREED_GRAPH, NO_RULE, RAISED
from fastgrad.native.dispatch.call import call
from fastgrad.native.graph.graph import MAX_SAVED_INPUTS, check_saved
from fastgrad.native.graph.packing import unpack_places
from fastgrad.native.launch.elementwise import elementwise
from fastgrad.native.launch.launch import op_record
from fastgrad.native.memory.buffers import allocate, deallocate
from fastgrad.native.memory.records import META_BYTES
from fastgrad.native.memory.references import drop, retain


@native
def program_attrs(n, k, sources, count, out):
    """The integers of an instruction; returns their number."""
    attrs = words(n.attrs)
    total = 0
    for j in range(count):
        kind = sources[2 * j]
        value = sources[2 * j + 1]
        if kind == SOURCE_CONST:
            out[total] = value
        elif kind == SOURCE_ATTR:
            out[total] = attrs[value]
        elif kind == SOURCE_INPUT:
            out[total] = k
        elif kind == SOURCE_INDEXED:
            out[total] = attrs[value + k]
        elif kind == SOURCE_PREFIX:
            out[total] = 0
            for i in range(k):
                out[total] += attrs[value + i]
        elif kind == SOURCE_ATTRS:
            for i in range(value, n.n_attrs):
                out[total] = attrs[i]
                total += 1
            total -= 1
        elif kind == SOURCE_META:
            # sizes of the input whose gradient this is, as the node before it remembers them
            edge = words(n.edges)[2 * (k if value < 0 else value)]
            nr = words(n.edges)[2 * (k if value < 0 else value) + 1]
            meta = words(node(edge).metas + nr * META_BYTES)
            out[total] = meta[2]
            for i in range(meta[2]):
                out[total + 1 + i] = meta[3 + i]
            total += meta[2]
        total += 1
    return total


@native
def run_program(address, handle, k, env, grads):
    """Run the program of input `k` of a node; returns a handle of the caller's or a negative status."""
    n = node(handle)
    program = words(address)
    n_instructions = program[0]
    result_slot = program[1]
    at = 2
    ins = words(stack_small())
    attrs = words(stack_frame())
    outs = words(stack_small())
    made = 0
    status = 0
    many = 0
    for i in range(n_instructions):
        op = program[at]
        count = program[at + 1]
        operands = ins
        at += 2
        if count == ALL_GRADS:
            operands = grads
            count = n.n_out
        else:
            for j in range(count):
                ins[j] = env[program[at + j]] if program[at + j] >= 0 else -program[at + j]
            at += count
            # Absent optional tensors stand at the end.
            while count > 1 and ins[count - 1] == 0:
                count -= 1
        n_sources = program[at]
        sources = words(address + (at + 1) * 8)
        at += 1 + 2 * n_sources
        many = 0
        for j in range(n_sources):
            if sources[2 * j] == SOURCE_ATTRS:
                many += n.n_attrs
        spill = attrs
        if many > 24:
            room = allocate((many + 24) * 8)
            if failed(room):
                status = room
                break
            spill = words(room)
        n_attrs = program_attrs(n, k, sources, n_sources, spill)
        got = call(op, count, operands, n_attrs, spill, outs, 1)
        if many > 24:
            deallocate(address_of(spill), (many + 24) * 8)
        if got <= 0:
            status = got
            break
        env[ENV_RESULTS + i] = outs[0]
        if got > 1:
            drop(outs[1])
        made = i + 1
    result = status
    if not failed(status):
        result = env[result_slot]
        if result != 0:
            retain(result)
    for i in range(made):
        drop(env[ENV_RESULTS + i])
    return result


@native_inline
def runs(t, n, k):
    """Whether the gradient of input `k` is wanted in this pass."""
    edge = words(n.edges)[2 * k]
    if edge == 0:
        return False
    # A pass that wants everything need not look for the slot.
    return not t.flags & FILTERED or is_wanted(t, slot_at(t, find_slot(t, edge)))


@native
def gradient_and_saved(n, mask, g, ins):
    """Write a gradient and what a node saved, as far as `mask` names it; returns their number."""
    ins[0] = g
    count = 1
    for j in range(MAX_SAVED_INPUTS):
        if mask & (1 << j):
            ins[count] = words(n.saved)[2 * j]
            count += 1
    for j in range(SAVED_SLOTS - MAX_SAVED_INPUTS):
        if mask & (256 << j):
            ins[count] = words(n.saved)[2 * (MAX_SAVED_INPUTS + j)]
            count += 1
    return count


@native
def apply_joint(t, n, info, g, results):
    """The gradients of all inputs from one call. A status."""
    ins = words(stack_small())
    outs = words(stack_small())
    count = gradient_and_saved(n, info.save[0], g, ins)
    got = call(info.grad[0], count, ins, n.n_attrs, words(n.attrs), outs, 0)
    for k in range(got):
        if runs(t, n, k):
            results[k] = outs[k]
        else:
            drop(outs[k])
    return min(got, 0)


@native
def apply_input(n, handle, info, k, env, grads):
    """The gradient of one input: a handle, zero for undefined, or a negative status."""
    which = k if k < 4 else 3
    kind = info.grad_kind[which]
    if kind == IDENTITY:
        if grads[0] != 0:
            retain(grads[0])
        return grads[0]
    if kind == FUSED:
        if grads[0] == 0:
            return 0
        ins = words(stack_small())
        return elementwise(info.grad[which], gradient_and_saved(n, info.save[which], grads[0], ins), ins)
    if kind == PROGRAM:
        return run_program(info.grad[which], handle, k, env, grads)
    return fail(NO_RULE, k)


@native
def apply(t):
    """Run the derivative of the current node natively: gradients in, results out. A status."""
    n = node(t.node)
    info = op_record(n.op)
    grads = words(t.grads)
    results = words(t.results)
    defined = False
    for k in range(n.n_out):
        defined = defined or grads[k] != 0
    if n.flags & SAVED_FREED and (saves(n, info) or (defined and n.op == runtime().copy_slices_op)):
        return FREED_GRAPH
    if not defined and n.flags & IN_VIEW:
        return 0
    status = check_saved(t.node) if not n.flags & SAVED_FREED else 0
    if failed(status) or not defined:
        return status
    if n.flags & PACKED and unpack_needed(t, n, info) != 0:
        return RAISED
    if info.grad_kind[0] == JOINT:
        return apply_joint(t, n, info, grads[0], results)
    env = words(stack_frame())
    for k in range(2):
        env[ENV_GRADS + k] = grads[k] if k < n.n_out else 0
        env[ENV_OUTPUTS + k] = words(n.saved)[2 * (MAX_SAVED_INPUTS + k)]
    for k in range(MAX_SAVED_INPUTS):
        env[ENV_INPUTS + k] = words(n.saved)[2 * k]
    for k in range(n.n_in):
        if not runs(t, n, k):
            continue
        h = apply_input(n, t.node, info, k, env, grads)
        if failed(h):
            return h
        results[k] = h
    return 0


@native
def unpack_needed(t, n, info):
    """Let the saved-tensor hooks give back what the derivatives wanted in this pass read. OK or RAISED."""
    mask = 0
    for k in range(n.n_in):
        if runs(t, n, k):
            mask |= info.save[k if k < 4 else 3]
    return unpack_places(t.node, mask)


@native
def saves(n, info):
    """Whether the derivative of a node reads saved tensors at all."""
    found = False
    for k in range(n.n_in):
        which = k if k < 4 else 3
        if words(n.edges)[2 * k] != 0 and info.save[which] != 0:
            found = True
    return found
