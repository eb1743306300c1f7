"""The backward pass: discover, count, run ready nodes newest first, hand over to Python where a flag says so.

Note [Resuming]: `sweep` runs until the pass is done or it comes to a node that only Python can apply; the next call
goes on behind the point where the last one stopped. Hooks it calls itself (see `hooks`). Everything lies in the
task, so that Python may run ops, start another pass or raise.

Note [Slots]: what belongs to a pass (pending gradients, dependency counts) lies in the task's slots. A node knows
its slot of the one task that owns it; other tasks under way over the same node find theirs in a hash table.

Note [Programs]: the derivative of an op with regard to one input is the identity, a fused elementwise kernel, or
a program: op calls over an environment of gradients, saved tensors and earlier results. Programs are made once
from the op's rule (see `fastgrad.ops.rules`); running one records nothing.
"""

from __future__ import annotations

from fastgrad.native.dispatch import call
from fastgrad.native.elementwise import elementwise, elementwise_slow, op_record
from fastgrad.native.graph import MAX_SAVED_INPUTS, gradient_edge
from fastgrad.native.hooks import (
    fire_post_accumulate,
    fire_post_hooks,
    fire_pre_hooks,
    fire_tensor_hooks,
    put,
)
from fastgrad.native.intrinsics import (
    address_of,
    capture,
    native,
    native_inline,
    node,
    runtime,
    slot,
    stack_frame,
    stack_small,
    storage,
    task,
    tensor,
    words,
)
from fastgrad.native.layout import (
    ACCUMULATE,
    ALL_GRADS,
    AT_APPLY,
    BAD_GRADIENT,
    CAPTURE_WORDS,
    CONTIGUOUS,
    CREATE_GRAPH,
    DONE,
    ENV_GRADS,
    ENV_INPUTS,
    ENV_OUTPUTS,
    ENV_RESULTS,
    FAILED,
    FILTERED,
    FREED_GRAPH,
    FUSED,
    GRAD_ENABLED,
    IDENTITY,
    KEEP_GRAPH,
    NO_MEMORY,
    NO_RULE,
    POST_ACCUMULATE,
    POST_HOOKS,
    PRE_HOOKS,
    PROGRAM,
    PYTHON_APPLY,
    RAISED,
    REQUIRES_GRAD,
    SAVED_FREED,
    SAVED_MODIFIED,
    SAVED_SLOTS,
    SLOT,
    SLOT_WORDS,
    SOURCE_ATTR,
    SOURCE_ATTRS,
    SOURCE_CONST,
    SOURCE_INDEXED,
    SOURCE_INPUT,
    SOURCE_META,
    SOURCE_PREFIX,
    TASK_KIND,
    TENSOR_HOOKS,
)
from fastgrad.native.memory import (
    META_BYTES,
    WORDS_TASK,
    allocate,
    deallocate,
    drain,
    drop,
    drop_node,
    new_task_record,
    release_node,
    release_reference,
    release_saved,
    retain,
    retain_node,
    retire_record,
)
from fastgrad.native.modes import enter
from fastgrad.native.tensors import same_shape

SLOT_BYTES = SLOT_WORDS * 8
INLINE_GRADS = SLOT.offset("inline")
PENDING, AFTER_TENSOR_HOOKS, AFTER_PRE_HOOKS, AFTER_APPLY, AFTER_POST_HOOKS, AFTER_ACCUMULATE = range(6)


# --- growing arrays --------------------------------------------------------------------------------------------


@native
def grow(address, used, cap, wanted):
    """An array of words with room for `wanted`: the old one or a larger copy; zero if there is no memory."""
    if wanted <= cap:
        return address
    fresh = allocate(wanted * 8)
    if fresh != 0:
        for k in range(used):
            words(fresh)[k] = words(address)[k]
        if address != 0:
            deallocate(address, cap * 8)
    return fresh


@native_inline
def room(used, cap, needed):
    """The capacity to ask for."""
    return cap if used + needed <= cap else max(used + needed, max(64, cap * 2))


# --- slots -----------------------------------------------------------------------------------------------------


@native_inline
def slot_at(t, index):
    return slot(t.slots + index * SLOT_BYTES)


@native_inline
def grads_of(t, index):
    """The pending gradients of a slot, one word per output of its node."""
    s = slot_at(t, index)
    return words(s.grads if s.grads != 0 else t.slots + index * SLOT_BYTES + INLINE_GRADS)


@native
def owner_lives(owner):
    current = runtime().current_task
    while current != 0:
        if task(current).id == owner:
            return True
        current = task(current).previous
    return False


@native
def hash_place(t, n):
    """Where node `n` is or would be in the hash table of a task."""
    mask = t.cap_table - 1
    at = ((n >> 6) * 0x9E3779B97F4A7C1) & mask
    table = words(t.table)
    while table[2 * at] != 0 and table[2 * at] != n:
        at = (at + 1) & mask
    return at


@native
def hash_insert(t, n, index):
    if t.cap_table == 0 or 2 * (t.n_table + 1) > t.cap_table:
        old = t.table
        old_cap = t.cap_table
        cap = max(64, 2 * old_cap)
        fresh = allocate(cap * 16)
        if fresh == 0:
            return False
        for k in range(2 * cap):
            words(fresh)[k] = 0
        t.table = fresh
        t.cap_table = cap
        for k in range(old_cap):
            if words(old)[2 * k] != 0:
                at = hash_place(t, words(old)[2 * k])
                words(fresh)[2 * at] = words(old)[2 * k]
                words(fresh)[2 * at + 1] = words(old)[2 * k + 1]
        if old != 0:
            deallocate(old, old_cap * 16)
    at = hash_place(t, n)
    words(t.table)[2 * at] = n
    words(t.table)[2 * at + 1] = index
    t.n_table += 1
    return True


@native_inline
def find_slot(t, n):
    """The slot of a node in a task, or -1."""
    record = node(n)
    if record.owner == t.id:
        return record.slot
    return find_hashed(t, n)


@native
def find_hashed(t, n):
    if t.cap_table == 0:
        return -1
    at = hash_place(t, n)
    return words(t.table)[2 * at + 1] if words(t.table)[2 * at] == n else -1


@native
def new_slot(t, n):
    """A slot for a node that has none yet; its index or -1 without memory."""
    cap = room(t.n_slots, t.cap_slots, 1)
    fresh = grow(t.slots, t.n_slots * SLOT_WORDS, t.cap_slots * SLOT_WORDS, cap * SLOT_WORDS)
    if fresh == 0:
        return -1
    t.slots = fresh
    t.cap_slots = cap
    index = t.n_slots
    record = node(n)
    s = slot_at(t, index)
    s.node = n
    s.deps = 0
    s.needed = 0
    s.capture = 0
    s.grads = 0
    s.inline[0] = 0
    s.inline[1] = 0
    if record.n_out > 2:
        s.grads = allocate(record.n_out * 8)
        if s.grads == 0:
            return -1
        for k in range(record.n_out):
            words(s.grads)[k] = 0
    t.n_slots += 1
    if record.owner == 0 or not owner_lives(record.owner):
        record.owner = t.id
        record.slot = index
    elif not hash_insert(t, n, index):
        return -1
    return index


# --- the heap of ready nodes -----------------------------------------------------------------------------------
# The same sifting as C++'s std::push_heap and std::pop_heap, so that nodes with equal sequence numbers leave in
# the order in which they leave PyTorch's queue.


@native
def sift_up(q, hole, key, value):
    while hole > 0:
        parent = (hole - 1) >> 1
        if q[2 * parent] >= key:
            break
        q[2 * hole] = q[2 * parent]
        q[2 * hole + 1] = q[2 * parent + 1]
        hole = parent
    q[2 * hole] = key
    q[2 * hole + 1] = value


@native
def push_ready(t, index):
    cap = room(t.n_heap, t.cap_heap, 1)
    fresh = grow(t.heap, t.n_heap * 2, t.cap_heap * 2, cap * 2)
    if fresh == 0:
        return False
    t.heap = fresh
    t.cap_heap = cap
    t.n_heap += 1
    sift_up(words(t.heap), t.n_heap - 1, node(slot_at(t, index).node).seq, index)
    return True


@native
def pop_ready(t):
    q = words(t.heap)
    top = q[1]
    t.n_heap -= 1
    n = t.n_heap
    if n == 0:
        return top
    key = q[2 * n]
    value = q[2 * n + 1]
    hole = 0
    child = 0
    while child < (n - 1) // 2:
        child = 2 * (child + 1)
        if q[2 * child] < q[2 * (child - 1)]:
            child -= 1
        q[2 * hole] = q[2 * child]
        q[2 * hole + 1] = q[2 * child + 1]
        hole = child
    if n & 1 == 0 and child == (n - 2) // 2:
        child = 2 * child + 1
        q[2 * hole] = q[2 * child]
        q[2 * hole + 1] = q[2 * child + 1]
        hole = child
    sift_up(q, hole, key, value)
    return top


# --- building a pass -------------------------------------------------------------------------------------------


@native
def task_new(flags):
    """Begin a pass; returns the task's handle or a negative status."""
    enter()
    rt = runtime()
    handle = new_task_record()
    if handle == 0:
        return -NO_MEMORY
    t = task(handle)
    rt.task_id += 1
    t.id = rt.task_id
    t.flags = flags
    t.previous = rt.current_task
    rt.current_task = handle
    return handle


@native
def task_root(handle, n, output_nr, gradient):
    """Start from output `output_nr` of a node; the gradient may be 0 for undefined. A status."""
    t = task(handle)
    index = find_slot(t, n)
    if index < 0:
        index = new_slot(t, n)
        if index < 0:
            return -NO_MEMORY
    slot_at(t, index).deps += 1
    # Roots wait in the list of captures until `task_start` seeds them: their order is the caller's.
    cap = room(t.n_captures, t.cap_captures, 1)
    words_each = CAPTURE_WORDS
    fresh = grow(t.captures, t.n_captures * words_each, t.cap_captures * words_each, cap * words_each)
    if fresh == 0:
        return -NO_MEMORY
    t.captures = fresh
    t.cap_captures = cap
    c = capture(t.captures + t.n_captures * words_each * 8)
    c.node = n
    c.output_nr = output_nr
    c.result = gradient
    c.next = -1
    retain_node(n)
    if gradient != 0:
        retain(gradient)
    t.n_captures += 1
    return 0


@native
def task_root_tensor(handle, h, gradient):
    """Start from a tensor that requires grad."""
    edge = gradient_edge(h)
    if edge == 0:
        return -NO_MEMORY
    status = task_root(handle, edge, tensor(h).output_nr, gradient)
    drop_node(edge)
    return status


@native
def discover(t):
    """Give every node that the roots reach a slot and count its producers."""
    at = 0
    while at < t.n_slots:
        n = node(slot_at(t, at).node)
        edges = words(n.edges)
        for k in range(n.n_in):
            following = edges[2 * k]
            if following == 0:
                continue
            index = find_slot(t, following)
            if index < 0:
                index = new_slot(t, following)
                if index < 0:
                    return -NO_MEMORY
            slot_at(t, index).deps += 1
        at += 1
    return 0


@native
def task_want(handle, n, output_nr, run):
    """Ask for the gradient that arrives at a node: captured, or (`run`) by running the node itself.

    Returns the capture's index, -1 if the pass does not reach the node, or a status below -1.
    """
    t = task(handle)
    index = find_slot(t, n)
    if index < 0:
        return -1
    if run != 0:
        slot_at(t, index).needed = 1
        return 0
    cap = room(t.n_captures, t.cap_captures, 1)
    fresh = grow(
        t.captures, t.n_captures * CAPTURE_WORDS, t.cap_captures * CAPTURE_WORDS, cap * CAPTURE_WORDS
    )
    if fresh == 0:
        return -1 - NO_MEMORY
    t.captures = fresh
    t.cap_captures = cap
    c = capture(t.captures + t.n_captures * CAPTURE_WORDS * 8)
    c.node = n
    c.output_nr = output_nr
    c.result = 0
    c.next = slot_at(t, index).capture
    t.n_captures += 1
    slot_at(t, index).capture = t.n_captures  # index + 1
    return t.n_captures - 1


@native
def task_discover(handle):
    """Walk the graph from the roots; a status."""
    return discover(task(handle))


@native
def mark_needed(t):
    """Find the nodes with a path to what was asked for: children before parents, by counting producers."""
    n_slots = t.n_slots
    order = allocate(n_slots * 8)
    waiting = allocate(n_slots * 8)
    if order == 0 or waiting == 0:
        if order != 0:
            deallocate(order, n_slots * 8)
        if waiting != 0:
            deallocate(waiting, n_slots * 8)
        return -NO_MEMORY
    count = 0
    for k in range(n_slots):
        words(waiting)[k] = slot_at(t, k).deps
    for k in range(t.n_captures):
        c = capture(t.captures + k * CAPTURE_WORDS * 8)
        if c.next == -1:  # a root: its seed counts as a producer
            words(waiting)[find_slot(t, c.node)] -= 1
    for k in range(n_slots):
        if words(waiting)[k] == 0:
            words(order)[count] = k
            count += 1
    at = 0
    while at < count:
        n = node(slot_at(t, words(order)[at]).node)
        for k in range(n.n_in):
            following = words(n.edges)[2 * k]
            if following != 0:
                index = find_slot(t, following)
                words(waiting)[index] -= 1
                if words(waiting)[index] == 0:
                    words(order)[count] = index
                    count += 1
        at += 1
    for k in range(count - 1, -1, -1):
        s = slot_at(t, words(order)[k])
        n = node(s.node)
        for j in range(n.n_in):
            following = words(n.edges)[2 * j]
            if following != 0:
                f = slot_at(t, find_slot(t, following))
                if f.needed != 0 or f.capture != 0:
                    s.needed = 1
    deallocate(order, n_slots * 8)
    deallocate(waiting, n_slots * 8)
    return 0


@native
def task_start(handle):
    """Seed the roots; after this `sweep` may run. A status."""
    t = task(handle)
    if t.flags & FILTERED and mark_needed(t) != 0:
        return -NO_MEMORY
    for k in range(t.n_captures):
        c = capture(t.captures + k * CAPTURE_WORDS * 8)
        if c.next != -1:
            continue
        index = find_slot(t, c.node)
        gradient = c.result
        c.result = 0
        if gradient != 0:
            status = add_gradient(t, grads_of(t, index), c.output_nr, gradient)
            if status != 0:
                return -status
        s = slot_at(t, index)
        s.deps -= 1
        if s.deps == 0 and not push_ready(t, index):
            return -NO_MEMORY
    return 0


# --- gradients -------------------------------------------------------------------------------------------------


@native_inline
def owned_alone(h):
    """Whether nobody else can see a gradient, so that it may be changed or kept as it is."""
    t = tensor(h)
    return t.refs == 1 and t.pyobj == 0 and t.base == 0 and storage(t.storage).refs == 1


@native
def add_gradient(t, grads, k, g):
    """Add `g`, whose reference is taken over, to pending gradient `k`; a status."""
    old = grads[k]
    if old == 0:
        grads[k] = g
        return 0
    ins = words(stack_small())
    ins[0] = old
    ins[1] = g
    add = runtime().add_op
    if not t.flags & CREATE_GRAPH:
        a = tensor(old)
        b = tensor(g)
        if a.dtype == b.dtype and same_shape(old, g):
            if owned_alone(old) and a.flags & CONTIGUOUS:
                result = elementwise_slow(add, 2, ins, old)
                release_reference(g)
                drain()
                if result <= 0:
                    return -result
                release_reference(old)  # elementwise_slow returned one more
                return 0
        result = elementwise(add, 2, ins)
    else:
        outs = words(stack_small())
        count = call(add, 2, ins, 0, ins, outs, 1)
        result = outs[0] if count > 0 else count
    if result <= 0:
        release_reference(g)
        drain()
        return -result
    grads[k] = result
    release_reference(old)
    release_reference(g)
    drain()
    return 0


@native
def accumulate(t, n, g):
    """Add a gradient to the leaf of an AccumulateGrad node; a status. `g` stays the caller's."""
    leaf = tensor(n.variable)
    outs = words(stack_small())
    ins = words(stack_small())
    rt = runtime()
    if leaf.grad == 0:
        x = tensor(g)
        # The one reference is the pass's own, given up right after.
        if not t.flags & CREATE_GRAPH and owned_alone(g) and x.flags & CONTIGUOUS:
            retain(g)
            leaf.grad = g
            return 0
        ins[0] = g
        count = call(rt.clone_op, 1, ins, 0, ins, outs, 1)
        if count <= 0:
            return -count
        leaf.grad = outs[0]
        return 0
    ins[0] = leaf.grad
    ins[1] = g
    if t.flags & CREATE_GRAPH:
        count = call(rt.add_op, 2, ins, 0, ins, outs, 1)
        if count <= 0:
            return -count
        drop(leaf.grad)
        leaf.grad = outs[0]
        return 0
    result = elementwise_slow(rt.add_op, 2, ins, leaf.grad)
    if result <= 0:
        return -result
    release_reference(result)
    return 0


@native
def write_retained(t, n, grads):
    """Give their gradient to the tensors of this node that asked to retain it; a status."""
    current = n.retains
    while current != 0:
        x = tensor(current)
        g = grads[x.output_nr]
        if g != 0:
            ins = words(stack_small())
            outs = words(stack_small())
            ins[0] = x.grad if x.grad != 0 else g
            ins[1] = g
            rt = runtime()
            if x.grad != 0:
                count = call(rt.add_op, 2, ins, 0, ins, outs, 1)
            else:
                count = call(rt.clone_op, 1, ins, 0, ins, outs, 1)
            if count <= 0:
                return -count
            if x.grad != 0:
                drop(x.grad)
            x.grad = outs[0]
        current = x.retain_next
    return 0


@native
def fit(t, h, meta):
    """A gradient made to fit what it belongs to: summed down, cast. Takes over `h`; a handle or a status."""
    g = tensor(h)
    same = g.ndim == meta[2]
    if same:
        for k in range(g.ndim):
            if g.shape[k] != meta[3 + k]:
                same = False
    outs = words(stack_small())
    ins = words(stack_small())
    rt = runtime()
    if not same:
        allowed = g.ndim >= meta[2]
        for k in range(meta[2]):
            if allowed:
                size = g.shape[g.ndim - meta[2] + k]
                if meta[3 + k] != size and meta[3 + k] != 1:
                    allowed = False
        if not allowed:
            drop(h)
            return -BAD_GRADIENT
        ins[0] = h
        count = call(rt.sum_to_op, 1, ins, meta[2] + 1, words(address_of(meta) + 16), outs, 1)
        drop(h)
        if count <= 0:
            return count
        h = outs[0]
    if tensor(h).dtype != meta[0]:
        ins[0] = h
        count = call(rt.cast_op, 1, ins, 1, meta, outs, 1)
        drop(h)
        if count <= 0:
            return count
        h = outs[0]
    return h


# --- applying a node -------------------------------------------------------------------------------------------


@native
def check_saved(handle):
    """Whether what a node saved is still there and unchanged; a status with the facts for the message."""
    n = node(handle)
    if n.flags & SAVED_FREED:
        return FREED_GRAPH
    if n.n_saved == 0:
        return 0
    for k in range(SAVED_SLOTS):
        h = n.saved[2 * k]
        if h != 0 and storage(tensor(h).storage).version != n.saved[2 * k + 1]:
            e = runtime().error
            e[0] = h
            e[1] = storage(tensor(h).storage).version
            e[2] = n.saved[2 * k + 1]
            e[3] = handle
            return SAVED_MODIFIED
    return 0


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
            spill = words(allocate((many + 24) * 8))
            if address_of(spill) == 0:
                status = -NO_MEMORY
                break
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
    if status == 0:
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
    if t.flags & FILTERED:
        s = slot_at(t, find_slot(t, edge))
        return s.needed != 0 or s.capture != 0
    return True


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
        ins[0] = grads[0]
        count = 1
        mask = info.save[which]
        for j in range(MAX_SAVED_INPUTS):
            if mask & (1 << j):
                ins[count] = n.saved[2 * j]
                count += 1
        for j in range(SAVED_SLOTS - MAX_SAVED_INPUTS):
            if mask & (256 << j):
                ins[count] = n.saved[2 * (MAX_SAVED_INPUTS + j)]
                count += 1
        return elementwise(info.grad[which], count, ins)
    if kind == PROGRAM:
        return run_program(info.grad[which], handle, k, env, grads)
    runtime().error[0] = k
    return -NO_RULE


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
    status = check_saved(t.node)
    if status != 0 and (n.flags & SAVED_FREED == 0 or saves(n, info)):
        return status
    if not defined:
        return 0
    env = words(stack_small())
    for k in range(2):
        env[ENV_GRADS + k] = grads[k] if k < n.n_out else 0
        env[ENV_OUTPUTS + k] = n.saved[2 * (MAX_SAVED_INPUTS + k)]
    for k in range(MAX_SAVED_INPUTS):
        env[ENV_INPUTS + k] = n.saved[2 * k]
    for k in range(n.n_in):
        if not runs(t, n, k):
            continue
        h = apply_input(n, t.node, info, k, env, grads)
        if h < 0:
            return -h
        results[k] = h
    return 0


@native
def saves(n, info):
    """Whether the derivative of a node reads saved tensors at all."""
    found = False
    for k in range(n.n_in):
        which = k if k < 4 else 3
        if words(n.edges)[2 * k] != 0 and info.save[which] != 0:
            found = True
    return found


@native
def fit_results(t):
    """Make the results of the current node fit its inputs; a status."""
    n = node(t.node)
    results = words(t.results)
    edges = words(n.edges)
    for k in range(n.n_in):
        if results[k] == 0:
            continue
        if edges[2 * k] == 0:
            release_reference(results[k])
            results[k] = 0
            continue
        meta = words(node(edges[2 * k]).metas + edges[2 * k + 1] * META_BYTES)
        h = fit(t, results[k], meta)
        results[k] = 0
        if h <= 0:
            runtime().error[0] = k
            return -h
        results[k] = h
    return 0


@native
def distribute(t):
    """Hand the results of the current node to the nodes before it; a status."""
    n = node(t.node)
    results = words(t.results)
    edges = words(n.edges)
    for k in range(n.n_in):
        if edges[2 * k] == 0:
            continue
        index = find_slot(t, edges[2 * k])
        s = slot_at(t, index)
        if t.flags & FILTERED and s.needed == 0 and s.capture == 0:
            if results[k] != 0:
                release_reference(results[k])
                results[k] = 0
            continue
        if results[k] != 0:
            h = results[k]
            results[k] = 0
            status = add_gradient(t, grads_of(t, index), edges[2 * k + 1], h)
            if status != 0:
                return status
        s = slot_at(t, index)
        s.deps -= 1
        if s.deps == 0 and not push_ready(t, index):
            return NO_MEMORY
    return 0


@native
def release_grads(t):
    """Drop the gradients that came to the current node."""
    n = node(t.node)
    grads = words(t.grads)
    for k in range(n.n_out):
        if grads[k] != 0:
            release_reference(grads[k])
            grads[k] = 0
    if runtime().dead != 0:
        drain()


@native
def prepare(t, index):
    """Make a slot's node the current one; a status."""
    n = node(slot_at(t, index).node)
    t.slot = index
    t.node = slot_at(t, index).node
    t.grads = address_of(grads_of(t, index))
    t.n_grads = n.n_out
    cap = room(0, t.cap_results, max(n.n_in, 1))
    fresh = grow(t.results, 0, t.cap_results, cap)
    if fresh == 0:
        return NO_MEMORY
    t.results = fresh
    t.cap_results = cap
    t.n_results = n.n_in
    for k in range(n.n_in):
        words(t.results)[k] = 0
    return 0


@native
def write_captures(t):
    """Keep the gradients that were asked for at the current node."""
    at = slot_at(t, t.slot).capture
    while at > 0:
        c = capture(t.captures + (at - 1) * CAPTURE_WORDS * 8)
        g = words(t.grads)[c.output_nr]
        if g != 0:
            retain(g)
        c.result = g
        at = c.next


@native
def enter_pass(t):
    """Make the modes those of the calling thread inside of a pass: gradients are on if it creates a graph."""
    enter()
    rt = runtime()
    rt.mode = (rt.mode & ~GRAD_ENABLED) | (GRAD_ENABLED if t.flags & CREATE_GRAPH else 0)


@native
def sweep(handle):
    """Run until the pass is done or Python is due: see Note [Resuming]. Returns what Python has to do."""
    rt = runtime()
    t = task(handle)
    enter_pass(t)
    status = 0
    while True:
        state = t.state
        if state == PENDING:
            if t.n_heap == 0:
                return DONE
            status = prepare(t, pop_ready(t))
            if status != 0:
                break
            state = AFTER_TENSOR_HOOKS
            if node(t.node).flags & TENSOR_HOOKS:
                if fire_tensor_hooks(t) != 0:
                    return RAISED
                enter_pass(t)
        n = node(t.node)
        if state == AFTER_TENSOR_HOOKS:
            if n.retains != 0:
                status = write_retained(t, n, words(t.grads))
                if status != 0:
                    break
            if slot_at(t, t.slot).capture != 0:
                write_captures(t)
            if t.flags & FILTERED and slot_at(t, t.slot).needed == 0:
                release_grads(t)
                t.state = PENDING
                continue
            state = AFTER_PRE_HOOKS
            if n.flags & PRE_HOOKS:
                if fire_pre_hooks(t) != 0:
                    return RAISED
                enter_pass(t)
        if state == AFTER_PRE_HOOKS:
            t.had_posts = n.flags & POST_HOOKS
            if n.variable != 0:
                wanted = tensor(n.variable).flags & REQUIRES_GRAD  # it may have been switched off since
                if t.flags & ACCUMULATE and wanted and words(t.grads)[0] != 0:
                    g = words(t.grads)[0]
                    kept = fit_leaf(t, n, g)
                    if kept < 0:
                        status = -kept
                        break
                    words(t.grads)[0] = kept
                    status = accumulate(t, n, kept)
                    if status != 0:
                        break
                state = AFTER_ACCUMULATE
                if n.flags & POST_ACCUMULATE and t.flags & ACCUMULATE:
                    if fire_post_accumulate(t) != 0:
                        return RAISED
                    enter_pass(t)
            elif n.flags & PYTHON_APPLY or t.flags & CREATE_GRAPH:
                t.state = AFTER_APPLY
                return AT_APPLY
            else:
                status = apply(t)
                if status != 0:
                    break
                state = AFTER_APPLY
        if state == AFTER_APPLY:
            status = fit_results(t)
            if status != 0:
                break
            state = AFTER_ACCUMULATE
        if state == AFTER_ACCUMULATE:
            state = AFTER_POST_HOOKS
            if n.flags & POST_HOOKS:
                if fire_post_hooks(t) != 0:
                    return RAISED
                enter_pass(t)
        if state == AFTER_POST_HOOKS:
            if not t.flags & KEEP_GRAPH and n.variable == 0:
                release_saved(t.node)
                n.flags |= SAVED_FREED
            status = distribute(t)
            if status != 0:
                break
            release_grads(t)
            t.state = PENDING
    t.status = status
    rt.status = status
    return FAILED


@native
def fit_leaf(t, n, g):
    """A gradient made to fit its leaf; takes over and gives back one reference."""
    leaf = tensor(n.variable)
    meta = words(stack_small())
    meta[0] = leaf.dtype
    meta[1] = leaf.device
    meta[2] = leaf.ndim
    for k in range(leaf.ndim):
        meta[3 + k] = leaf.shape[k]
    return fit(t, g, meta)


@native
def task_end(handle):
    """Release everything that a pass still holds, whether it came to its end or not."""
    rt = runtime()
    t = task(handle)
    for index in range(t.n_slots):
        s = slot_at(t, index)
        n = node(s.node)
        grads = grads_of(t, index)
        for k in range(n.n_out):
            if grads[k] != 0:
                release_reference(grads[k])
                grads[k] = 0
        if s.grads != 0:
            deallocate(s.grads, n.n_out * 8)
            s.grads = 0
        if n.owner == t.id:
            n.owner = 0
    for k in range(t.n_results):
        if words(t.results)[k] != 0:
            release_reference(words(t.results)[k])
            words(t.results)[k] = 0
    for k in range(t.n_captures):
        c = capture(t.captures + k * CAPTURE_WORDS * 8)
        if c.result != 0:
            release_reference(c.result)
        if c.next == -1:
            release_node(c.node)
    if t.slots != 0:
        deallocate(t.slots, t.cap_slots * SLOT_BYTES)
    if t.heap != 0:
        deallocate(t.heap, t.cap_heap * 16)
    if t.table != 0:
        deallocate(t.table, t.cap_table * 16)
    if t.captures != 0:
        deallocate(t.captures, t.cap_captures * CAPTURE_WORDS * 8)
    if t.results != 0:
        deallocate(t.results, t.cap_results * 8)
    if rt.current_task == handle:
        rt.current_task = t.previous
    else:
        current = rt.current_task
        while current != 0:
            if task(current).previous == handle:
                task(current).previous = t.previous
                break
            current = task(current).previous
    retire_record(handle, TASK_KIND, WORDS_TASK)
    if rt.dead != 0:
        drain()


# --- what Python reads and writes at a boundary ----------------------------------------------------------------


@native
def task_count(handle, which):
    """Number of gradients (0) or results (1) of the current node."""
    return task(handle).n_grads if which == 0 else task(handle).n_results


@native
def task_get(handle, which, k):
    """Gradient (0), result (1) or capture (2) number `k`, with one reference for the caller; zero if undefined."""
    t = task(handle)
    if which == 0:
        h = words(t.grads)[k]
    elif which == 1:
        h = words(t.results)[k]
    else:
        h = capture(t.captures + k * CAPTURE_WORDS * 8).result
    if h != 0:
        retain(h)
    return h


@native
def task_set(handle, which, k, h):
    """Put another tensor in the place of gradient or result `k`; zero makes it undefined."""
    t = task(handle)
    put(words(t.grads if which == 0 else t.results), k, h)
