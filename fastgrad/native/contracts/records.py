"""The records of native memory: storages, tensors, nodes, passes, tapes, ops, and the runtime itself.

A handle is the address of a record.
"""

from __future__ import annotations

from fastgrad.native.contracts.flags import N_SETTINGS, PASS_SETTINGS
from fastgrad.native.contracts.frame import MAX_REACHES, REPORT
from fastgrad.native.contracts.limits import (
    ATTR_WORDS,
    CACHE_LINE,
    FRAME_WORDS,
    INLINE_EDGES,
    MAX_DIMS,
    MAX_KERNELS,
    MAX_OPS,
    MAX_THREADS,
    META_WORDS,
    N_BINS,
    N_CODES,
    N_DEVICES,
    N_LAYOUTS,
    N_RANDOM_KERNELS,
    RULES,
    SAVED_SLOTS,
    SPLIT_WORDS,
)
from fastgrad.native.contracts.pass_plans import PLAN_BUCKETS, PLAN_GUESSES
from fastgrad.native.contracts.python_types import MODULE_NAMES, N_CONSTANT_TYPES
from fastgrad.native.contracts.record import Part, Record
from fastgrad.native.contracts.status import ERROR_WORDS, NOTED_WORDS

# Every reference-counted record starts alike: compiled code frees them by one loop.
_HEADER = {"magic": 1, "generation": 1, "refs": 1, "link": 1, "mark": 1}
STORAGE = Record(
    "storage", **_HEADER, data=1, nbytes=1, version=1, device=1, owner=1, dtype=1, counters=1,
    next=1, previous=1, tape=1, stamp=1, read_stamp=1,
)  # fmt: skip
TENSOR = Record(
    "tensor", **_HEADER,
    storage=1, data=1, dtype=1, device=1, ndim=1, numel=1, flags=1,
    node=1, output_nr=1, grad=1, accumulator=1, base=1, pyobj=1, retain_next=1, followed=1,
    n_joint=1, views=1, view_next=1, view_prev=1, counter=1,
    shape=MAX_DIMS, strides=MAX_DIMS,
)  # fmt: skip
NODE = Record(
    "node", **_HEADER,
    op=1, seq=1, flags=1, n_in=1, n_out=1, owner=1, slot=1, pyobj=1, variable=1, leaf=1, busy=1, retains=1,
    edges=1, metas=1, attrs=1, n_saved=1, n_attrs=1, saved=1, n_places=1,
    inline_saved=2 * SAVED_SLOTS, inline_edges=2 * INLINE_EDGES, inline_meta=META_WORDS, inline_attrs=ATTR_WORDS,
)  # fmt: skip
TASK = Record(
    "task", **_HEADER,
    id=1, flags=1, previous=1, thread=1,
    slots=1, n_slots=1, cap_slots=1, heap=1, n_heap=1, cap_heap=1,
    table=1, n_table=1, cap_table=1, captures=1, n_captures=1, cap_captures=1,
    node=1, slot=1, grads=1, n_grads=1, results=1, n_results=1, cap_results=1,
    had_posts=1, n_roots=1, settings=PASS_SETTINGS, kept=1, depth=1,
    plan=1, position=1, finished=1, guess=1, key=1, n_key=1, cap_key=1, parted=1, expected=1, collected=1,
)  # fmt: skip
"""`plan` to `collected`: of a compiled pass, see Note [Plans of passes] in `backward.pass_plans`."""
SLOT_WORDS = 8
SLOT = Record("slot", node=1, deps=1, needed=1, capture=1, grads=1, inline=2, pad=1)
CAPTURE_WORDS = 4
CAPTURE = Record("capture", node=1, output_nr=1, result=1, next=1)
OPINFO = Record(
    "opinfo",
    kind=1, n_in=1, n_out=1, flags=1, kernel=1, dtype_rule=1, forward=1, id=1,
    grad_kind=RULES, grad=RULES, save=RULES, reads=RULES, order=1, saved_order=1,
    numbered=1, reflected=1, prepared=1, least=1, most=1, optional=1, n_ints=1, more_ints=1, integers=1,
    joint=1, joint_wanted=1, places=1, needed=1, written=1, single=1, statistics=1,
    recorded=RULES, takes_numbers=RULES, together=RULES,
)  # fmt: skip
"""What a call may bring: `least` to `most` operands, of which those with a bit in `optional` may be None; `n_ints`
integers, or at least as many if `more_ints`. What these have to be: see Note [Integers of a call].
`joint`: the op that gives gradients of several inputs at once, 0 if there is none; where the gradients of all inputs
with a bit in `joint_wanted` are wanted it is called, and what else their derivatives are does not count.
Of an op over groups of tensors: the number of places in a group; masks with a bit for each place: a group must have the
tensor, the kernel writes it, it is a single number of any floating dtype. `statistics`: operands that are
float32 beside halves. `recorded`: the program of a derivative in a pass that is recorded itself, 0 as long as nobody
has asked for it, `BY_PYTHON` if there is none; `takes_numbers`: a mask of the saved places in which it takes a number
of the call as it does a tensor; `together`: words that say which op records the gradients of some inputs, see
`Op.recorded_by`: its number, how many places it reads and these, how many results it takes and these, inputs by their
numbers and places as negative numbers less one."""
BY_PYTHON = -1
TAPE = Record(
    "tape", **_HEADER, words=1, n_words=1, cap_words=1, n_launches=1, kept=1, n_kept=1, cap_kept=1,
    thread=1, device=1, hooks=1, paused=1, replaying=1, pieces=1, n_pieces=1, cap_pieces=1,
    seeds=N_DEVICES, firsts=N_DEVICES, ends=N_DEVICES, seeds_now=N_DEVICES, firsts_now=N_DEVICES,
    reads=1, values=1, n_values=1, python_calls=1, passes=1, follows=1, program=1, n_program=1, n_entries=1, n_joined=1,
    joined_end=1, joined_cell=1, joined_stamp=1, devices=1, moved=1, streams=N_DEVICES,
)  # fmt: skip
"""`thread`: whose launches it records. `device`: the one whose launches it records without running them; 0 for a tape
that records all that runs. `hooks`: whether a replay calls hooks again; `paused`: one runs. `replaying`: how many
replays are under way. `seeds`, `firsts`, `ends`:
where the default generator of each device stood when the capture began, and its offset at the end of it; `seeds_now`,
`firsts_now`: where it stood at the last replay. `pieces`: what a replay runs, see Note [Pieces] in `memory.replays`.
`reads`: how often Python read a value during the capture; `python_calls`: how often it was called, for hooks that no
replay calls again; `passes`: how many backward passes began. `follows`: a replay takes no
random numbers, but draws those of another tape's call again. `program`: what binds it to tensors that are not those of
the capture, see Note [Bound tapes] in `memory.bindings`. `n_entries`: launches and calls of hooks that stand on it;
`n_joined`: the last number of joined ones, which end at the word `joined_end`, are of a cell and have got a stamp.
`devices`: bits of those that make graphs of what a bound tape does, of which `streams` are those that it runs on;
`moved`: launches have been found to move, see Note [What moves] in `memory.bindings`."""
REGION_GIVEN, REGION_OWN, REGION_FRESH = range(3)
"""Memory of a bound tape: that of tensors that a call brings, its own, and what a call may have to make anew, as
somebody holds what the last one wrote there."""
REGION = Part("region", kind=1, nbytes=1, first=1, n_links=1, base=1, storage=1, last=1, device=1)
"""`base`: the address that the frames have; the links from the `first` one on say where. The storage is held, of memory
that calls bring during the call alone; `last` is that of the last call that fitted. In a program that is not bound yet,
`storage` says where in one piece of memory for all such regions of a device one of the tape's own begins, in bytes, or
`NOT_MOVED`. `device`: whose memory it is."""
NOT_MOVED = -1
LAID = Part("laid", region=1, offset=1, dtype=1, device=1, turned=1, ndim=1, shape=MAX_DIMS, strides=MAX_DIMS)
"""How a tensor lies in a region: bytes from its beginning, the device of both, sizes and strides. Of a tensor that no
launch touches, the region is -1."""
OWN_HOLE, ALIAS_HOLE, PLAIN_HOLE, INPUT_HOLE, LEAF_HOLE = range(5)
"""How a call of Python in a replay gets a tensor: memory that it may change in place, memory that others see, either of
which it may keep; memory that nothing overwrites, or that behind a boundary of the graph; a leaf, with the gradient
that it has by then."""
MOST_HOLES, MOST_ARGUMENTS = 16, 4
BOUND = Part("bound", flags=1, history=1, n_writes=1, grad=1, lies=LAID.words, grad_lies=LAID.words)
"""What a tensor has to be that a call brings, how often its memory is changed, and whether it has a gradient."""
RESULT_OUT, RESULT_GRAD, RESULT_NO_GRAD, RESULT_VALUE = range(4)
RESULT = Part("result", kind=1, bound=1, lies=LAID.words)
"""What a call leaves: a tensor that it gives back, or a gradient, or none, of a tensor that it got; or a number that it
gives back, `bound` being the number of the value on the tape."""
PROGRAM = Part(
    "program", n_regions=1, n_links=1, n_bound=1, n_given=1, n_results=1, n_brought=1, mode=1, default_dtype=1
)
"""The head of a program: how many regions, links, tensors that a call brings (of which the first `n_given` come with
each call, the others are always the same), results and numbers that a call brings follow; in which modes it may be
called, outside of passes, or `ANY_MODE`."""
BROUGHT = Part("brought", first=1, n_links=1, item=1, length=1, sign=1, value=1)
"""A number that a call brings: the links that say where it stands; which item of a tuple of that `length` it is, -1 for
one that is not in a tuple; the sign that it must have, -1, 0 or 1, or `ANY_SIGN`; the bits that stand there now."""
ANY_SIGN = 2
ANY_MODE = -1
TAPE_HOOKS = 256
"""Added to the number of a device: hooks are called again."""
TAPE_VALUES = 512
"""Added to the number of a device: values that Python reads stand on the tape, see Note [Values] in `memory.tapes`."""
HOOK_CELL = -1
"""In place of a cell on a tape: Python is called; the number of the call stands there as the work, the modes in which
it is made as `dim`."""
VALUE_CELL = -2
"""In place of a cell on a tape: Python read a value of as many bytes as stand there as the work, of the dtype `dim`;
`last` is how many were read before. Where `drew` is not zero, the call gives it back, and it is not compared."""
VALUE_WORDS = 2  # of the frame of such an entry: the address of the value, and its bits
PIECE = Part("piece", start=1, end=1, device=1, graph=1)
"""Launches of a tape from one byte to another, which become a graph of a device's, or are launched one by one where
that is the host; the graph is 0 before it was made."""
LAUNCHED = Part(
    "launched", n_words=1, cell=1, work=1, drew=1, code=1, reason=1, dim=1, last=1, joined=1, moves=1
)
"""A launch on a tape: how many words its frame has, the cell of the kernel table, its work, whether it got blocks of
its device's default generator, the number of the code that runs in place of what stands in the cell, 0 for that; what a
`NOTE` of it says, the reason 0 where it has none; a number that it shares with neighbours which run with it as one
launch, or 0; whether it works on memory, or by numbers, that may be others at each call of a bound tape; then the
frame."""
FUSED_LAUNCH = -1
MASK_LAUNCH = -2
"""In place of the number of a launch, in an edition of a tape: see Note [Editions] in `memory.tapes`."""
FLIGHT = Part("flight", thread=1, waits=1, n_words=1, frame=FRAME_WORDS)
CURSOR_WORDS = CACHE_LINE // 8
JOB = Part(
    "job", address=1, frame=1, n_words=1, split=1, dtype=1, n_parts=1, seats=1, report_place=1, reported=1, locked=8,
    taken=8, n_shares=1, cursors=1, cursor=8,
)  # fmt: skip
POOL = Record(
    "pool", busy=8, news=8, open=8, inside=8, sleeping=8, closing=8, named=8, cursors=MAX_THREADS * CURSOR_WORDS,
    job=1, n_workers=1, mutex=16, condition=16, threads=MAX_THREADS,
)  # fmt: skip
"""See Note [The pool] in `memory.pool`. What several threads write stands on cache lines of its own."""
DEVICE = Part("device", allocate=1, release=1, launch=1, graph=1, state=1)
"""What a device brings: addresses of functions that are called like kernels, 0 where it has none. The first two give
and take its memory, with an `ALLOCATION`; the third launches its kernels, with a `LAUNCHING`; the fourth makes
one launch of many, with a `GRAPHING`. They find `state` there."""
ALLOCATION = Part("allocation", nbytes=1, address=1, state=1)
"""A wish for memory, and the address that the device answers with: 0 if there is none, or minus a number of the
device's for what went wrong."""
LAUNCHING = Part("launching", kernel=1, frame=1, n_words=1, state=1, status=1, note=1, count=1, pitch=1)
"""A launch of a device that launches itself: what stands in the cell of the kernel table, the frame and how many of its
words there are; then what the device answers: 0, or a number of its own for what went wrong. `note`: the address of a
`NOTE`, or 0. `count`: how many frames there are, which begin `pitch` bytes from each other."""
NOTE = Part("note", place=1, reason=1, kernel=1, dim=1, last=1)
"""That a kernel reports, and nobody waits for that: the device writes to the `place` of its frame where it reports to,
looks there whenever something waits for the device, and says then what is wrong by the other words."""
GRAPHING = Part(
    "graphing", step=1, graph=1, launching=1, notes=1, draws=1, seed=1, moved=1, state=1, status=1
)
GRAPH_BEGIN, GRAPH_ADD, GRAPH_END, GRAPH_RUN, GRAPH_DROP, GRAPH_STREAM = range(6)
"""Graphs of a device: `GRAPH_BEGIN`, with the number of launches that have notes, `GRAPH_ADD` for each launch, a
`LAUNCHING` by its address, and `GRAPH_END`, which answers with the graph and must follow, whatever went wrong; then
`GRAPH_RUN` and `GRAPH_DROP`. `GRAPH_STREAM` answers, in place of a graph, with the stream that launches of the calling
thread go to. `draws` says of a launch that other random numbers are drawn at each run: which word of
its frame is the seed, counted from one, with the offset behind it; a run sets them to `seed`, and to the offset of the
frame plus `moved`. `status` is as that of
a launch, or `GRAPH_STALE`: the graph cannot run here, and has to be made again."""
GRAPH_STALE = -1
N_FLIGHTS = 64  # launches that others run beside, at one time
N_PLACES = 1024
"""Lists of live storages, by where they lie, in debug mode."""
RUNTIME = Record(
    "runtime",
    free=8, live=8, quarantine=8, quarantine_tail=8, quarantine_n=8,
    live_bytes=1, peak_bytes=1, cached_bytes=1, limit_bytes=1,
    seq=1, task_id=1, current_task=1, thread=1, mode=1, settings=N_SETTINGS, modes=1, n_modes=1, cap_modes=1,
    error_reason=1, error=ERROR_WORDS, failed_call=NOTED_WORDS, report=REPORT.words, overruns=1, dead=1, draining=1,
    pool=1, n_threads=1, part_work=1, divided=1, splits=MAX_KERNELS * N_LAYOUTS, split_words=SPLIT_WORDS,
    n_flights=1, uncounted=1, waiters=1, waiting=1, flights=N_FLIGHTS * FLIGHT.words, places=N_PLACES,
    resolve=1, op_failed=1, entry_failed=1, wrong_argument=1,
    context_base=1, type_error=1, runtime_error=1, system_error=1, operator_fallback=1,
    tensor_type=1, tensor_base=1, node_base=1, make_node_class=1, handle_type=1, hooks_type=1, wrong_kind=1,
    hooks_name=1, post_accumulate_name=1, backward_name=1, only_launches_name=1,
    walk=1, collection=1, promoting=1, shared=1, n_shared=1, cap_shared=1,
    edge_type=1, entering_name=1, decorate_name=1,
    module_base=1, read_attribute=1, module_names=len(MODULE_NAMES), call_hooks=1, hooks_everywhere=1,
    missing_attribute=1, missing_store=1, new_arguments=1, new_crossing=1, enter_crossing=1,
    leave_crossing=1, always_called=1, numpy_array=1, numpy_new=1, numpy_set_base=1,
    planned_type=1, planned_call=1, make_plan=1, parameter_type=1, size_type=1, constant_types=N_CONSTANT_TYPES,
    recorder=1, recorder_thread=1, recorder_mode=1, recorder_paused=1, recorder_disturbed=1, recorded_launches=1,
    recorder_frame=1, warnings=1, warn_name=1,
    batched_type=1, apply_batched=1, refuse_batched=1,
    run_callbacks=1, apply_rules=1, trace_rule=1, pass_failed=1, explain_failure=1,
    check_replacement=1, check_tuple=1, check_post_accumulate=1, check_gradients=1, check_nan=1,
    finish_function=1, save_others=1, pack_saved=1, unpack_saved=1, node_created=1, before_mutation=1,
    compile_passes=1, pass_captures=1, pass_hits=1, n_pass_plans=1, pass_plan_bytes=1, collect_args=1,
    apply_with_saved=1, class_hook_type=1, post_accumulate_class=1, function_keys=1,
    pass_plans=PLAN_BUCKETS, plan_guesses=PLAN_GUESSES,
    note_hook=1, hook_id=1, n_held_objects=1, measuring=1, function_op=1, boundary_op=1,
    record_hook=1, replay_hook=1, value_read=1, record_module_hook=1, record_function=1, segment_function=1,
    native_hook_type=1, compile_hook=1, native_hook_failed=1, native_hook_refused=1, native_hook_nan=1, hook_kernel=1,
    operators=32, tape=1, drew=1, launches=1, default_dtype=1, copy_kernel=1,
    add_op=1, mul_op=1, sum_op=1, mean_op=1, div_op=1, clone_op=1,
    cast_op=1, sqrt_op=1, conj_op=1, conj_physical_op=1, neg_view_op=1, view_as_real_op=1, view_as_complex_op=1,
    sum_to_op=1, as_strided_op=1, copy_slices_op=1,
    gather_op=1, index_op=1, scatter_op=1, select_op=1, slice_op=1, unsqueeze_op=1,
    gemm_kernel=1, gemv_kernel=1, panels_kernel=1, convolutions_in_tf32=1,
    fused_kernel=1, fused_rows_kernel=1, dropout_kernel=1, joined_kernel=1, stamp=1, codes=N_CODES,
    code_devices=N_CODES, zero_kernel=1, constant_kernel=1, conj_kernel=1, neg_kernel=1, upload_kernel=1,
    download_kernel=1, peer_kernel=1,
    accumulate_op=1, random_kernels=N_RANDOM_KERNELS, sequence_kernel=1, places_kernel=1, generator_states=N_DEVICES,
    chosen_devices=1, registrations=1,
    entered=1, watched=1, noting=1, counting=1, profile=1, profiles=1, profile_owner=1, profile_asked=1,
    profile_objects=1, profile_name=1, left_name=1, events=1, n_events=1, cap_events=1, details=1, n_details=1,
    cap_details=1, n_lost=1, allocations=1, kernel_ended=1, kernel_parts=1,
    bins=N_BINS,
    node_classes=MAX_OPS,
    ops=MAX_OPS * OPINFO.words,
    kernels=1,
    addresses=MAX_KERNELS * N_LAYOUTS, reaches=MAX_KERNELS * N_LAYOUTS * MAX_REACHES,
    floats=MAX_KERNELS * N_LAYOUTS, joins=MAX_KERNELS, reports=MAX_KERNELS, draws=MAX_KERNELS,
    devices=N_DEVICES * DEVICE.words,
)  # fmt: skip
"""`kernels`: the address of the kernel table, a word for each kernel, device, dtype and layout class; it lies apart, as
zeros that nobody reads cost no memory there. `addresses`: which words of the frame of a kernel in a layout class are
addresses, a bit for each. `reaches`: how far these reach, see `contracts.frame`. `splits`: how its launches may be
divided, as a place in `split_words` counted from one; 0 if they may not. `reports`: which word of a kernel's frame
is the address of its report; 0 if it reports nothing. `draws`: which word is the seed of random numbers, counted
from one; the offset follows. `floats`: which words are floats of any value, a bit for each. `joins`: see Note [Joined
launches] in `memory.joined`; `stamp`: the last one that a storage got which a call of such launches writes to.
`entered`: the thread that runs, zero while there is a profile; `watched`: who wants to know of launches; `noting`:
whether hooks are measured, other than for a profile; `counting`: whether allocations are limited or counted: see Note
[Profiles] in `memory.profiles`. `convolutions_in_tf32`: whether GPUs may round what those of float32 multiply to
TF32. `kernel_ended`, `kernel_parts`: when a large kernel ended, and in how many parts it
ran."""
assert SLOT.words == SLOT_WORDS
RECORDS = (STORAGE, TENSOR, NODE, TASK, SLOT, CAPTURE, OPINFO, TAPE, RUNTIME)

# Kinds of records: the index of their free list; the magic word of a live record is MAGIC + kind.
STORAGE_KIND, TENSOR_KIND, NODE_KIND, TASK_KIND, TAPE_KIND = range(5)
KIND_NAMES = ("storages", "tensors", "nodes", "tasks", "tapes")
MAGIC = 0x6661_7374_0000
FREED = 0xDEAD_BEEF
GUARD = 0x6775_6172_6442_7974
POISON = 0xCBCB_CBCB_CBCB_CBCB - (1 << 64)
