"""What a profile writes: events, and what may be asked for; see Note [Profiles] in `memory.profiles`."""

from __future__ import annotations

from fastgrad.native.contracts.record import Part

EVENT = Part(
    "event", kind=1, thread=1, start=1, end=1, what=1, object=1, number=1, parts=1, live=1, live_end=1,
    allocations=1, allocations_end=1, detail=1, n_shapes=1, n_detail=1,
)  # fmt: skip
"""`start`, `end`: nanoseconds; 0 for an end that nobody saw. `what`: of an op its number, of a node that of its op,
of a kernel or its compilation the cell of the kernel table, of a hook its kind. `object`: the place in the list of
objects, -1 for none: of a function it or its class, of a hook its name or its class, of a module itself, of a range
its name, of a node of a custom function its class. `number`: of an op one more than the sequence number of the node
that it made, of a node that of its own, 0 for none; of a kernel its work. `parts`: of a kernel, in how many it ran.
`live`, `live_end`: bytes in use; `allocations`, `allocations_end`: how many buffers were taken so far. `detail`:
the first of its words in what events refer to, `n_detail` how many there are, of which `n_shapes` are about
operands: for each -1 for none, or its dtype, its number of dimensions and its sizes; behind them, for each Python
frame, the place of its code among the objects and its line."""

(
    OP_EVENT, FUNCTION_EVENT, NODE_EVENT, PASS_EVENT, KERNEL_EVENT, RESOLVE_EVENT, HOOK_EVENT, MODULE_EVENT,
    RANGE_EVENT, CUSTOM_EVENT, REPLAY_EVENT,
) = range(11)  # fmt: skip
"""Kinds of events: the call of an op, of a function with plans, of a node's derivative with its hooks, a pass, a
launch, a kernel that is looked for or compiled, a hook, the call of a module, a range that a program names, the
forward of a custom function, the replay of a tape."""

(
    TENSOR_HOOK,
    PRE_HOOK,
    POST_HOOK,
    POST_ACCUMULATE_HOOK,
    FORWARD_PRE_HOOK,
    FORWARD_HOOK,
    BACKWARD_PRE_HOOK,
    BACKWARD_HOOK,
) = range(8)
HOOK_KINDS = (
    "tensor hook", "node pre-hook", "node post-hook", "post-accumulate hook", "module forward pre-hook",
    "module forward hook", "module backward pre-hook", "module backward hook",
)  # fmt: skip

PROFILE_SHAPES, PROFILE_STACK, PROFILE_MEMORY, PROFILE_MODULES = 1, 2, 4, 8
"""What may be asked for: sizes of operands, Python frames, how many buffers are taken, calls of modules."""

WATCHED_BY_TAPE, WATCHED_BY_PROFILE = 1, 2
"""Who wants to know of launches: bits of `runtime.watched`."""

MOST_FRAMES = 48
"""Python frames that are noted, at most."""
