"""The derivatives of ops, run by compiled code.

Note [Programs]: the derivative of an op with regard to one input is the identity, a fused elementwise kernel, or
a program: op calls over an environment of gradients, saved tensors and earlier results. Programs are made once
from the op's rule (see `fastgrad.ops.rules`); running one records nothing.

Note [Joint gradients]: where gradients of several inputs share most of their work, one op gives them all. It takes the
gradient of the output, then what was saved, inputs before outputs, and the integers of the call. Inputs may have
derivatives of their own as well, for passes that do not want all of them.

Note [Recorded derivatives]: a pass with ``create_graph`` runs programs as well, and what they call is recorded. They
are made from the same rules (`ops.recorded`), one for each input, of the ops that have nodes, when a pass first
asks for them: no fused kernel, no joint gradients. What a program cannot say is left to Python, node by node
(`autograd.recorded_rules`): rules that ask for sizes or values, complex numbers, numbers of a call that the rule
calculates with, what saved-tensor hooks hold, a graph that was freed, anomaly mode and rehearsals.
"""

from __future__ import annotations

from fastgrad.native.backward.slots import find_slot, is_wanted, slot_at
from fastgrad.native.base.callbacks import call_python
from fastgrad.native.base.failures import fail, failed, noted
from fastgrad.native.base.intrinsics import (
    address_of,
    advance,
    native,
    native_inline,
    native_once,
    node,
    runtime,
    stack_frame,
    stack_small,
    tensor,
    words,
)
from fastgrad.native.base.pyapi import py_decref, py_integer
from fastgrad.native.contracts.flags import (
    CHECK_NAN,
    CREATE_GRAPH,
    FILTERED,
    GRAD_ENABLED,
    IN_VIEW,
    PACKED,
    POST_HOOKS,
    REHEARSAL,
    SAVED_FREED,
    WRAPPED_NUMBER,
)
from fastgrad.native.contracts.limits import FRAME_WORDS, RULES, SAVED_INPUTS, SAVED_OUTPUTS, SAVED_SLOTS
from fastgrad.native.contracts.ops import (
    ALL_GRADS,
    ENV_ABSENT,
    ENV_GRADS,
    ENV_RESULTS,
    ENV_SAVED,
    EVERY_GRADIENT,
    FUSED,
    HOLOMORPHIC,
    IDENTITY,
    PROGRAM,
    SOURCE_ATTR,
    SOURCE_ATTRS,
    SOURCE_CONST,
    SOURCE_INDEXED,
    SOURCE_INPUT,
    SOURCE_META,
    SOURCE_PREFIX,
    SUMMED,
)
from fastgrad.native.contracts.records import BY_PYTHON
from fastgrad.native.contracts.status import FREED_GRAPH, NO_RULE, OK, RAISED
from fastgrad.native.dispatch.call import call
from fastgrad.native.graph.packing import release_unpacked, unpack_places
from fastgrad.native.graph.versions import check_saved
from fastgrad.native.launch.elementwise import elementwise
from fastgrad.native.launch.launch import op_record, rule_of
from fastgrad.native.launch.promotion import is_complex, is_floating
from fastgrad.native.memory.buffers import allocate, deallocate
from fastgrad.native.memory.records import META_BYTES
from fastgrad.native.memory.references import drop, retain
from fastgrad.native.tensors.tensors import alias_of_output

MOST_ATTRS = 24
"""Integers of a node that an instruction may take for which there is room on the stack."""
FURTHER_ATTRS = FRAME_WORDS - MOST_ATTRS
"""Room for its other integers: numbers, and the sizes of two tensors."""


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
        if many > MOST_ATTRS:
            room = allocate((many + FURTHER_ATTRS) * 8)
            if failed(room):
                status = room
                break
            spill = words(room)
        n_attrs = program_attrs(n, k, sources, n_sources, spill)
        got = noted(call(op, count, operands, n_attrs, spill, outs, 1), count, operands, n_attrs, spill)
        if many > MOST_ATTRS:
            deallocate(address_of(spill), (many + FURTHER_ATTRS) * 8)
        if got <= 0:
            status = got
            break
        env[ENV_RESULTS + i] = outs[0]
        for j in range(1, got):
            drop(outs[j])
        made = i + 1
    result = status
    if not failed(status):
        result = env[result_slot]
        if result != 0:
            retain(result)
    for i in range(made):
        drop(env[ENV_RESULTS + i])
    return result


@native_once
def sum_programs(programs, handle, k, env, grads):
    """The sum of what the programs of a node's outputs give for input `k`, of those with both.

    A handle, zero if there is none, or a negative status.
    """
    total = 0
    for j in range(node(handle).n_out):
        if grads[j] == 0 or programs[j] == 0:
            continue
        env[ENV_GRADS] = grads[j]
        part = run_program(programs[j], handle, k, env, grads)
        if not failed(part) and part != 0 and total != 0:
            ins = words(stack_small())
            outs = words(stack_small())
            ins[0] = total
            ins[1] = part
            got = call(runtime().add_op, 2, ins, 0, ins, outs, 1)
            drop(part)
            part = outs[0] if got > 0 else got
        if part == 0:
            continue
        if total != 0:
            drop(total)
        if failed(part):
            return part
        total = part
    return total


@native_inline
def runs(t, n, k):
    """Whether the gradient of input `k` is wanted in this pass."""
    edge = words(n.edges)[2 * k]
    if edge == 0:
        return False
    # A pass that wants everything need not look for the slot.
    return not t.flags & FILTERED or is_wanted(t, slot_at(t, find_slot(t, edge)))


@native
def gradient_and_saved(mask, env, ins):
    """Write the gradient of the first output and what was saved, as far as `mask` names it; returns their number."""
    ins[0] = env[ENV_GRADS]
    count = 1
    for place in range(SAVED_SLOTS):
        if mask & (1 << place):
            ins[count] = env[ENV_SAVED + place]
            count += 1
    return count


@native_inline
def runs_jointly(t, n, info):
    """Whether the op has joint gradients, and this pass wants all that they are for."""
    if info.joint == 0:
        return False
    for k in range(n.n_in):
        if info.joint_wanted >> k & 1 and not runs(t, n, k):
            return False
    return True


@native
def apply_joint(t, n, info, env, results):
    """The gradients of all inputs from one call. A status."""
    ins = words(stack_small())
    outs = words(stack_small())
    count = gradient_and_saved(info.reads[0], env, ins)
    attrs = words(n.attrs)
    got = noted(call(info.joint, count, ins, n.n_attrs, attrs, outs, 0), count, ins, n.n_attrs, attrs)
    for k in range(got):
        if runs(t, n, k):
            results[k] = outs[k]
        else:
            drop(outs[k])
    return min(got, 0)


@native
def apply_input(n, handle, info, k, env, grads, recorded):
    """The gradient of one input: a handle, zero for undefined, or a negative status."""
    which = rule_of(k)
    kind = info.grad_kind[which]
    if kind == IDENTITY:
        if grads[0] != 0:
            retain(grads[0])
        return grads[0]
    if kind == SUMMED:
        return sum_programs(
            words(info.recorded[which] if recorded else info.grad[which]), handle, k, env, grads
        )
    if recorded:
        return run_program(info.recorded[which], handle, k, env, grads)
    if kind == FUSED:
        if grads[0] == 0:
            return 0
        ins = words(stack_small())
        count = gradient_and_saved(info.reads[which], env, ins)
        return noted(elementwise(info.grad[which], count, ins), count, ins, 0, ins)
    if kind == PROGRAM:
        return run_program(info.grad[which], handle, k, env, grads)
    return fail(NO_RULE, k)


@native
def any_defined(grads, n):
    """Whether one of several gradients is there."""
    for k in range(n):
        if grads[k] != 0:
            return True
    return False


@native
def apply(t):
    """Run the derivative of the current node natively: gradients in, results out. A status."""
    n = node(t.node)
    info = op_record(n.op)
    grads = words(t.grads)
    defined = any_defined(grads, n.n_out)
    if n.flags & SAVED_FREED and (saves(n, info) or (defined and n.op == runtime().copy_slices_op)):
        return FREED_GRAPH
    if not defined and n.flags & IN_VIEW:
        return 0
    status = check_saved(t.node) if not n.flags & SAVED_FREED else 0
    if failed(status):
        return status
    env = words(stack_frame())
    for k in range(2):
        env[ENV_GRADS + k] = grads[k] if k < n.n_out else 0
    env[ENV_ABSENT] = 0
    if n.flags & PACKED:
        return apply_unpacked(t, n, info, env, defined)
    for place in range(SAVED_SLOTS):
        env[ENV_SAVED + place] = words(n.saved)[2 * place]
    if t.flags & CREATE_GRAPH:
        return derive_recorded(t, n, info, env)
    return derive(t, n, info, env) if defined else 0


@native_once
def apply_unpacked(t, n, info, env, defined):
    """Like `apply`, where saved-tensor hooks hold some of what was saved: all of that is unpacked first. A status."""
    values = advance(env, ENV_SAVED)
    unpacked = unpack_places(t.node, info, values)
    if failed(unpacked):
        return unpacked
    status = derive(t, n, info, env) if defined else 0
    release_unpacked(unpacked, values)
    return status


@native
def derive(t, n, info, env):
    """The gradients that are wanted in this pass, or that hooks see, in the op's order. A status."""
    grads = words(t.grads)
    if info.flags & HOLOMORPHIC and is_complex(tensor(grads[0]).dtype):
        return derive_conjugated(t, n, info, env)
    return derive_each(t, n, info, env, False)


@native_once
def derive_conjugated(t, n, info, env):
    """The same over complex numbers: rules multiply by derivatives, and the convention by conjugates of these.

    See Note [Complex gradients] in `ops.complex_numbers`.
    """
    grads = words(t.grads)
    results = words(t.results)
    given = grads[0]
    conjugate = elementwise(runtime().conj_physical_op, 1, grads)
    if failed(conjugate):
        return conjugate
    grads[0] = conjugate
    env[ENV_GRADS] = conjugate
    status = derive_each(t, n, info, env, False)
    grads[0] = given
    env[ENV_GRADS] = given
    drop(conjugate)
    for k in range(n.n_in):
        if results[k] > 0 and not failed(status) and is_complex(tensor(results[k]).dtype):
            back = elementwise(runtime().conj_physical_op, 1, advance(results, k))
            drop(results[k])
            results[k] = max(back, 0)
            status = min(back, 0)
    return status


@native_once
def derive_recorded(t, n, info, env):
    """The gradients with a history, if `is_recorded_here`. A status.

    What was saved of outputs has none, or nodes and outputs would hold each other; a rule finds that of the node.
    """
    made = 0
    status = 0
    for place in range(SAVED_INPUTS, SAVED_INPUTS + min(SAVED_OUTPUTS, n.n_out)):
        h = env[ENV_SAVED + place]
        if h != 0 and is_floating(tensor(h).dtype) and not failed(status):
            a = alias_of_output(h, t.node, place - SAVED_INPUTS)
            if failed(a):
                status = a
            else:
                env[ENV_SAVED + place] = a
                made |= 1 << place
    if not failed(status):
        status = derive_each(t, n, info, env, True)
    for place in range(SAVED_INPUTS, SAVED_SLOTS):
        if made & (1 << place):
            drop(env[ENV_SAVED + place])
    return status


@native_once
def record_together(t, n, info, group, env):
    """Gradients of inputs that one op records, computed by their rules without a history. A status."""
    results = words(t.results)
    ins = words(stack_small())
    outs = words(stack_small())
    n_read = group[1]
    ins[0] = env[ENV_GRADS]
    for j in range(n_read):
        ins[1 + j] = env[ENV_SAVED + group[2 + j]]
    given = advance(group, 3 + n_read)
    count = 1 + n_read
    runtime().mode &= ~GRAD_ENABLED
    status = 0
    for j in range(group[2 + n_read]):
        ins[count + j] = env[ENV_SAVED - 1 - given[j]] if given[j] < 0 else ins[0]
        if given[j] >= 0 and runs(t, n, given[j]) and not failed(status):
            h = apply_input(n, t.node, info, given[j], env, words(t.grads), False)
            status = min(h, 0)
            results[given[j]] = max(h, 0)
            if h > 0:
                ins[count + j] = h
    runtime().mode |= GRAD_ENABLED
    if failed(status):
        return status
    count += group[2 + n_read]
    attrs = words(n.attrs)
    got = noted(call(group[0], count, ins, n.n_attrs, attrs, outs, 0), count, ins, n.n_attrs, attrs)
    for j in range(got):
        k = given[j]
        if k >= 0 and results[k] != 0:
            drop(results[k])
            results[k] = outs[j]
        else:
            drop(outs[j])
    return min(got, 0)


@native
def holds_numbers(n, mask):
    """Whether a node has saved a number of its call in one of the places of a mask."""
    found = False
    for place in range(SAVED_INPUTS):
        h = words(n.saved)[2 * place] if mask & (1 << place) else 0
        if h != 0 and tensor(h).flags & WRAPPED_NUMBER:
            found = True
    return found


@native_once
def is_recorded_here(t, n):
    """Whether programs give all that this pass wants of the current node, with a history; or RAISED."""
    info = op_record(n.op)
    if n.flags & (PACKED | SAVED_FREED) or t.flags & (CHECK_NAN | REHEARSAL) or info.flags & EVERY_GRADIENT:
        return 0
    grads = words(t.grads)
    for k in range(n.n_out):
        if grads[k] != 0 and is_complex(tensor(grads[k]).dtype):
            return 0
    for k in range(n.n_in):
        which = rule_of(k)
        if not runs(t, n, k):
            continue
        if grads[0] == 0 and info.grad_kind[which] != SUMMED:
            return 0
        if info.recorded[which] == 0 and failed(trace_rule(n.op, which)):
            return RAISED
        numbers = ~info.takes_numbers[which] & (info.reads[which] if info.together[which] == 0 else -1)
        if info.recorded[which] == BY_PYTHON or holds_numbers(n, numbers):
            return 0
    return 1


@native_once
def trace_rule(op, k):
    """Let Python make the program of a derivative that is recorded, or say that there is none. OK or RAISED."""
    first = py_integer(op)
    second = py_integer(k)
    answer = call_python(runtime().trace_rule, 2, first, second) if first != 0 and second != 0 else 0
    for held in (first, second, answer):
        if held != 0:
            py_decref(held)
    return OK if answer != 0 else RAISED


@native
def derive_each(t, n, info, env, recorded):
    """The gradients, as the rules give them."""
    grads = words(t.grads)
    results = words(t.results)
    if not recorded and runs_jointly(t, n, info):
        return apply_joint(t, n, info, env, results)
    ordered = n.n_in <= RULES
    order = info.order >> (16 * (n.n_in - 1)) if ordered else 0
    seen = info.flags & EVERY_GRADIENT and n.flags & POST_HOOKS
    for i in range(n.n_in):
        k = (order >> (4 * i)) & 15 if ordered else i
        if not seen and not runs(t, n, k):
            continue
        if recorded and info.together[rule_of(k)] != 0:
            status = 0
            if results[k] == 0:  # it did not come with that of an input before
                status = record_together(t, n, info, words(info.together[rule_of(k)]), env)
            if failed(status):
                return status
            continue
        h = apply_input(n, t.node, info, k, env, grads, recorded)
        if failed(h):
            return h
        results[k] = h
    return 0


@native
def saves(n, info):
    """Whether the derivative of a node reads saved tensors at all."""
    found = False
    for k in range(n.n_in):
        if words(n.edges)[2 * k] != 0 and info.save[rule_of(k)] != 0:
            found = True
    return found
