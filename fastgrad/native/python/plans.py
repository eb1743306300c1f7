"""Functions with plans: what a call comes to is decided once, in Python, for all calls that look alike.

Note [Plans]: most functions of the library check their arguments, work out integers from sizes, and call an op or a
few. What they decide depends on sizes, strides, dtypes and flags of tensors, on which of them are the same, and on the
values of other arguments, never on what stands in a tensor. Such a function is `planned`. A call makes a *key* of all
that it may depend on. The second time that a key comes, the calls of ops are recorded while the function runs, and
become a *plan*: steps, each an op, operands (arguments, results of earlier steps, numbers) and integers. From then on
the steps run as they are, and no Python does. What a function warns its caller of, before it calls an op, belongs to
the plan, too (`functions.plans.warn`).

A tensor that the function keeps and nobody changes, a table that follows from sizes, is a constant of the plan
(`functions.plans.constant`).

There is no plan where a key cannot hold an argument, where an operand or the result is neither an argument nor a
result of a recorded call nor a constant, where a kernel ran besides, or where something follows what is done in place
and could not be done again; `unplanned` says that a call did something else that matters: it read a value, set a
generator. A step that draws random numbers takes them when it runs. What fails by its plan is done again in Python,
which raises. In debug mode each second call that has a plan goes the long way, and its steps are compared with those
of the plan.

Nothing is learned of a recorded call during which another thread came to the runtime, or a hook or a destructor gave an
argument other sizes: what it called may belong to another key. The collector rests meanwhile, as what destructors call
is no part of the function.
"""

from __future__ import annotations

from fastgrad.flags import DEBUG
from fastgrad.native.base.callbacks import call_python, call_vector
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import (
    address_of,
    advance,
    float_of,
    native,
    native_inline,
    native_once,
    plan_head,
    plan_step,
    planned_call,
    planned_object,
    runtime,
    stack_scratch,
    tensor,
    words,
    words_of,
)
from fastgrad.native.base.modes import is_watched
from fastgrad.native.base.pyapi import (
    call_visit,
    none,
    py_alloc,
    py_bytes_new,
    py_bytes_text,
    py_clear_weakrefs,
    py_collector_off,
    py_collector_on,
    py_decref,
    py_dict_get,
    py_err_occurred,
    py_frame,
    py_incref,
    py_list_new,
    py_method,
    py_repr,
    py_tuple_item,
    py_tuple_new,
    py_tuple_set,
    py_tuple_size,
    py_untrack,
    raises,
    type_error,
)
from fastgrad.native.contracts.flags import ANOMALY, GPU_AUTOCAST
from fastgrad.native.contracts.profiles import FUNCTION_EVENT
from fastgrad.native.contracts.python_types import (
    A_NAMED_RESULT,
    A_NUMBER,
    A_TENSOR_RESULT,
    A_VALUE,
    N_PLANS,
    NO_OPERAND,
    NO_RESULT,
    PLAN_CONSTANTS,
    PLAN_KEY,
    PLAN_NAMES,
    PLAN_RESULT,
    PLAN_STEPS,
    PLAN_WARNINGS,
    PLANNED_CALL,
)
from fastgrad.native.contracts.status import RAISED
from fastgrad.native.dispatch.call import call_entry
from fastgrad.native.dispatch.inplace_call import inplace
from fastgrad.native.launch.elementwise import number_tensor
from fastgrad.native.memory.profiles import begin_event, end_event, note_stack
from fastgrad.native.memory.references import drop, retain
from fastgrad.native.objects.collector import free_object
from fastgrad.native.objects.failures import tuple_of_arguments
from fastgrad.native.objects.handles import object_handle, wrap
from fastgrad.native.python.apply import IN_PLACE, call_frame
from fastgrad.native.python.plan_keys import lies_as_before, make_key
from fastgrad.native.python.recorder import MODES

_LENGTH = 2  # the word of bytes that is their length
PLACES = 4  # at which a plan may stand
_WITHOUT_OFFSET = (1 << 63) - 1  # of the number of arguments: without the flag of CPython's protocol
UNKNOWN = 1  # in place of an object: nothing is known of the call yet, or the plan failed
MOST_VALUES = 64
"""Tensors of a plan, at most: arguments, constants, and what its steps make."""

call_room = stack_scratch(PLANNED_CALL.words)
value_room = stack_scratch(MOST_VALUES)


# --- plans -----------------------------------------------------------------------------------------------------


@native_inline
def is_plan_of(plan, c):
    """Whether a plan has the key of a call."""
    key = py_tuple_item(plan, PLAN_KEY)
    n = c.n_words
    if words(key)[_LENGTH] != n * 8:
        return False
    known = words(py_bytes_text(key))
    for k in range(n):
        if known[k] != c.key[k]:
            return False
    return True


@native_inline
def first_place(c):
    """Where the places begin at which the plan of a call may stand, or its hash where the key came once."""
    return c.hash & (N_PLANS - PLACES)


@native
def find_plan(x, c):
    """The plan of a call, borrowed, or zero."""
    first = first_place(c)
    for k in range(first, first + PLACES):
        if x.hashes[k] == c.hash and x.plans[k] != 0 and is_plan_of(x.plans[k], c):
            return x.plans[k]
    return 0


@native
def make_place(kept, first):
    """Move what stands at the places from the first on by one; what was at the last of them."""
    out = kept[first + PLACES - 1]
    for k in range(first + PLACES - 1, first, -1):
        kept[k] = kept[k - 1]
    return out


@native
def keep_plan(x, c, plan):
    """Put a plan where calls find it, in place of the oldest one; takes over a reference."""
    first = first_place(c)
    make_place(x.hashes, first)
    before = make_place(x.plans, first)
    x.hashes[first] = c.hash
    x.plans[first] = plan
    if before != 0:
        py_decref(before)


@native
def came_before(x, c):
    """Whether the key of a call came before; it has now."""
    first = first_place(c)
    for k in range(first, first + PLACES):
        if x.seen[k] == c.hash:
            return True
    make_place(x.seen, first)
    x.seen[first] = c.hash
    return False


@native_once
def new_plan(c, names, made):
    """A plan of a key, what Python made of the recorded calls, and what the key tells apart by identity; or zero."""
    key = py_bytes_new(address_of(c.key), c.n_words * 8)
    plan = py_tuple_new(PLAN_NAMES + 1) if key != 0 else 0
    if plan == 0:
        if key != 0:
            py_decref(key)
        return 0
    py_tuple_set(plan, PLAN_KEY, key)
    for k in range(PLAN_NAMES - PLAN_STEPS):
        item = py_tuple_item(made, k)
        py_incref(item)
        py_tuple_set(plan, PLAN_STEPS + k, item)
    py_incref(names)
    py_tuple_set(plan, PLAN_NAMES, names)
    return plan


# --- calls -----------------------------------------------------------------------------------------------------


no_function = raises(type_error, "a function of fastgrad's that was never made, or is gone")


@native
def call_long(x, args, n, keywords):
    """Call the function itself."""
    if x.function == 0:
        return no_function()
    return call_vector(x.function, args, n, keywords)


@native_once
def call_recorded(x, c, args, n, keywords, before):
    """Call the function, and make a plan of what it calls or, in debug mode, compare it with the plan `before`."""
    rt = runtime()
    collects = py_collector_off()
    tensors = tuple_of_arguments(address_of(c.tensors), c.n_tensors)
    names = tuple_of_arguments(address_of(c.names), c.n_names)
    calls = py_list_new(0)
    answer = 0
    if tensors != 0 and names != 0 and calls != 0:
        launches = rt.launches
        rt.recorder_thread = rt.thread
        rt.recorder_mode = rt.mode & (MODES | GPU_AUTOCAST)
        rt.recorder_paused = 0
        rt.recorder_disturbed = 0
        rt.recorded_launches = 0
        rt.recorder_frame = py_frame()
        rt.recorder = calls
        answer = call_long(x, args, n, keywords)
        whole = rt.recorder == calls and rt.launches - launches == rt.recorded_launches
        if rt.recorder == calls:
            rt.recorder = 0
        learns = answer != 0 and rt.recorder_disturbed == 0 and lies_as_before(c)
        if learns and failed(learn(x, c, tensors, names, calls if whole else none(), answer, before)):
            py_decref(answer)
            answer = 0
    for o in (tensors, names, calls):
        if o != 0:
            py_decref(o)
    if collects != 0:
        py_collector_on()
    return answer


@native
def learn(x, c, tensors, names, calls, answer, before):
    """Make a plan of recorded calls, or compare them with one. Zero or RAISED."""
    made = call_python(runtime().make_plan, 4, tensors, calls, answer, before)
    if made == 0:
        return RAISED
    if before == none():
        plan = new_plan(c, names, made)
        if plan == 0:
            py_decref(made)
            return RAISED
        keep_plan(x, c, plan)
    py_decref(made)
    return 0


@native_once
def call_learned(x, args, n, keywords):
    """What a plan, or a recorded call, gives: an object, zero with an exception set, or `UNKNOWN`.

    The key of the call takes a frame of some size. It is gone when the function itself is called, which may call
    itself.
    """
    c = planned_call(call_room())
    if not make_key(c, args, n, keywords):
        return UNKNOWN
    plan = find_plan(x, c)
    if plan == 0:
        return call_recorded(x, c, args, n, keywords, none()) if came_before(x, c) else UNKNOWN
    steps = py_tuple_item(plan, PLAN_STEPS)
    if steps == none():
        return UNKNOWN
    py_incref(plan)
    x.uses += 1
    if DEBUG and x.uses & 1:
        answer = call_recorded(x, c, args, n, keywords, plan)
    else:
        answer = call_by_plan(c, plan, py_bytes_text(steps))
        if answer == 0 and py_err_occurred() == 0:
            answer = UNKNOWN
    py_decref(plan)
    return answer


@native
def call_planned(o, args, n, keywords):
    """The function that calls a function with plans; zero with an exception set."""
    x = planned_object(o)
    if is_watched():
        return watched_planned(x, args, n, keywords)
    return planned_now(x, args, n, keywords)


@native_once
def watched_planned(x, args, n, keywords):
    """The same while there is a profile."""
    token = begin_event(FUNCTION_EVENT, 0, x.function)
    note_stack(token)
    answer = planned_now(x, args, n, keywords)
    end_event(token)
    return answer


@native_inline
def planned_now(x, args, n, keywords):
    """The same, in the modes of the calling thread."""
    rt = runtime()
    answer = UNKNOWN
    if rt.recorder == 0 and rt.chosen_devices == 0 and not rt.mode & ANOMALY:
        answer = call_learned(x, args, n & _WITHOUT_OFFSET, keywords)
    return call_long(x, args, n, keywords) if answer == UNKNOWN else answer


# --- steps -----------------------------------------------------------------------------------------------------


@native
def operand_of(kind, value, values, device):
    """The tensor that an operand of a step is, zero for none, or a failure. A number becomes one for the step alone."""
    if kind == NO_OPERAND:
        return 0
    if kind == A_VALUE:
        return words(values)[value]
    return number_tensor(kind - A_NUMBER, float_of(value), value, -1, device)


@native
def run_step(s, operands, values, n_values):
    """Run a step; how many tensors it made, which become values, or a failure."""
    n, n_ints = s.n, s.n_ints
    ins = words(call_frame())
    attrs = advance(ins, n)
    outs = advance(attrs, n_ints)
    given = words(operands)
    for k in range(n_ints):
        attrs[k] = given[2 * n + k]
    device = 0
    for k in range(n):
        if given[2 * k] == A_VALUE:
            device = tensor(words(values)[given[2 * k + 1]]).device
    made = 0
    for k in range(n):
        ins[k] = operand_of(given[2 * k], given[2 * k + 1], values, device) if not failed(made) else 0
        made = min(made, ins[k])
    if not failed(made) and s.n_outs == IN_PLACE:
        made = inplace(s.op, n, ins, n_ints, attrs)
        if not failed(made):  # the object has another record now where a history moved
            words(values)[given[1]] = made
            drop(ins[0])
            made = 0
    elif not failed(made):
        made = call_entry(s.op, n, ins, n_ints, attrs, outs, s.n_outs)
        for k in range(made):
            words(values)[n_values + k] = outs[k]
    for k in range(n):
        if given[2 * k] >= A_NUMBER and ins[k] > 0:
            drop(ins[k])
    return made


@native_once
def warn_again(texts):
    """Give the warnings of a plan: of code that called the function, as no frame of Python's is between. 0 or RAISED.

    As elsewhere `warn` is what stands in the module `warnings` when it is called.
    """
    rt = runtime()
    for k in range(py_tuple_size(texts)):
        function = py_dict_get(rt.warnings, rt.warn_name)
        answer = 0
        if function != 0:
            py_incref(function)
            answer = call_python(function, 1, py_tuple_item(texts, k))
            py_decref(function)
        if answer == 0:
            return RAISED
        py_decref(answer)
    return 0


@native_once
def call_by_plan(c, plan, steps):
    """Run the steps of a plan; the object of the result, or zero, with an exception set if hooks raised one."""
    head = plan_head(steps)
    values = words(value_room())
    n_values = c.n_tensors
    for k in range(n_values):  # hooks and other threads may give their objects other records
        values[k] = c.handles[k]
        retain(values[k])
    constants = py_tuple_item(plan, PLAN_CONSTANTS)
    if constants != none():
        for k in range(py_tuple_size(constants)):
            values[n_values] = object_handle(py_tuple_item(constants, k))
            retain(values[n_values])
            n_values += 1
    at = steps + words_of(head) * 8
    results = words(at)
    at += head.n_results * 8
    texts = py_tuple_item(plan, PLAN_WARNINGS)
    made = warn_again(texts) if texts != none() else 0
    for _ in range(head.n_steps):
        if not failed(made):
            s = plan_step(at)
            operands = at + words_of(s) * 8
            made = run_step(s, operands, address_of(values), n_values)
            n_values += max(made, 0)
            at = operands + (2 * s.n + s.n_ints) * 8
    answer = 0
    if not failed(made):
        answer = result_of(head, plan, results, values)
    for k in range(n_values):
        drop(values[k])
    return answer


@native
def value_object(values, k):
    """The object of a value, a new reference."""
    retain(values[k])
    return wrap(values[k])


@native
def result_of(head, plan, results, values):
    """The object that a plan gives, or zero with an exception set."""
    if head.kind == A_TENSOR_RESULT:
        return value_object(values, results[0])
    if head.kind == NO_RESULT:
        py_incref(none())
        return none()
    answer = py_tuple_new(head.n_results)
    for k in range(head.n_results):
        o = value_object(values, results[k]) if answer != 0 else 0
        if o != 0:
            py_tuple_set(answer, k, o)
        elif answer != 0:
            py_decref(answer)
            answer = 0
    if answer != 0 and head.kind == A_NAMED_RESULT:
        named = call_python(py_tuple_item(plan, PLAN_RESULT), 1, answer)
        py_decref(answer)
        return named
    return answer


# --- functions with plans --------------------------------------------------------------------------------------


@native
def planned(function):
    """A function with plans around a function; zero with an exception set."""
    o = py_alloc(runtime().planned_type, 0)
    if o != 0:
        x = planned_object(o)
        py_incref(function)
        x.function = function
        x.vectorcall = runtime().planned_call
    return o


@native
def planned_method(o, instance):
    """`tp_descr_get`: the function as a method."""
    if instance == 0 or instance == none():
        py_incref(o)
        return o
    return py_method(o, instance)


@native
def planned_text(o):
    """`tp_repr`: that of the function."""
    function = planned_object(o).function
    return py_repr(function) if function != 0 else no_function()


@native
def traverse_planned(o, visit, argument):
    """`tp_traverse`; plans hold nothing that could hold the function."""
    x = planned_object(o)
    answer = call_visit(visit, x.type, argument)
    if answer == 0 and x.function != 0:
        answer = call_visit(visit, x.function, argument)
    if answer == 0 and x.dict != 0:
        answer = call_visit(visit, x.dict, argument)
    return answer


@native
def clear_planned(o):
    """`tp_clear`."""
    x = planned_object(o)
    function, attributes = x.function, x.dict
    x.function = 0
    x.dict = 0
    for k in range(N_PLANS):
        plan = x.plans[k]
        x.plans[k] = 0
        if plan != 0:
            py_decref(plan)
    if function != 0:
        py_decref(function)
    if attributes != 0:
        py_decref(attributes)
    return 0


@native
def dealloc_planned(o):
    """`tp_dealloc`."""
    py_untrack(o)
    if planned_object(o).weaklist != 0:
        py_clear_weakrefs(o)
    clear_planned(o)
    free_object(o)
