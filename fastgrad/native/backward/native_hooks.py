"""Hooks that are compiled code: how one runs over a gradient, and over what Python gives it.

Note [Native hooks]: a native hook is a Python object of a class that cannot be derived from. The sweep knows it by its
class and runs what was compiled for the gradient's dtype, without an object for the gradient; `tp_call` does the same
with the tensors among its arguments, so that a native hook can stand wherever a hook can. It is a launch of the kernel
`hook`, whose frame has the address of the compiled function, so that tapes have it and large ones leave the GIL to
others. A hook over elements is a call of an op of its own instead, on whatever device.

A gradient that others hold as well is not changed: the hook gets a copy. Halves are shown in float32. The state is a
tensor of the host's, whose memory is looked at anew for each call.
"""

from __future__ import annotations

from fastgrad.native.backward.gradients import owned_alone
from fastgrad.native.base import frames
from fastgrad.native.base.callbacks import call_python
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import (
    address_of,
    native,
    native_hook_object,
    native_inline,
    native_once,
    runtime,
    stack_frame,
    stack_small,
    storage,
    tensor,
    words,
    words_of,
)
from fastgrad.native.base.pyapi import (
    py_decref,
    py_err_occurred,
    py_integer,
    py_integer_value,
)
from fastgrad.native.contracts.element_types import FLOAT32, UINT8
from fastgrad.native.contracts.flags import (
    CONTIGUOUS,
    GRAD_ENABLED,
    INFERENCE,
    INFERENCE_MODE,
    MUTATION_HOOKS,
    REQUIRES_GRAD,
)
from fastgrad.native.contracts.formats import CONTIGUOUS_FORMAT
from fastgrad.native.contracts.limits import HOST
from fastgrad.native.contracts.python_types import (
    CHANGES,
    LEAF_HAS_NO_GRAD,
    NEEDS_LEAF,
    NEVER_MADE,
    ON_DEVICE,
    READS,
    RECORDED,
    REPLACES,
    TAKES_LEAF,
    WRONG_RANK,
    WRONG_STATE,
)
from fastgrad.native.contracts.status import (
    INFERENCE_INPLACE,
    NATIVE_HOOK_RAISED,
    NO_MEMORY,
    OK,
    OVERLAP,
    RAISED,
)
from fastgrad.native.dispatch.call import call
from fastgrad.native.graph.graph import requires_grad
from fastgrad.native.graph.packing import show_tensor
from fastgrad.native.launch.checked import launch_checked
from fastgrad.native.launch.elementwise import copy_as, copy_into
from fastgrad.native.launch.promotion import is_half
from fastgrad.native.memory.references import drop, retain
from fastgrad.native.memory.tapes import keep_for_tape, recording
from fastgrad.native.objects.failures import tell
from fastgrad.native.objects.handles import object_handle, type_of, wrap, wrap_optional
from fastgrad.native.tensors.elements import itemsize
from fastgrad.native.tensors.overlap import overlaps_itself
from fastgrad.native.tensors.tensors import bump_version, finished, new_tensor, new_view, own_memory


@native_inline
def is_native(o):
    """Whether a hook is a native one."""
    return type_of(o) == runtime().native_hook_type


# --- what goes wrong -------------------------------------------------------------------------------------------


@native_once
def refuse(o, h, why):
    """Let Python say why a hook does not run over a tensor, or over zero. RAISED."""
    if h != 0:
        retain(h)
    shown = wrap_optional(h)
    reason = py_integer(why)
    if shown != 0 and reason != 0:
        answer = call_python(runtime().native_hook_refused, 3, o, shown, reason)
        if answer != 0:
            py_decref(answer)
    for held in (shown, reason):
        if held != 0:
            py_decref(held)
    return RAISED


@native_once
def say(o, status):
    """Make an exception of a failure of a hook, which it then names. RAISED."""
    if py_err_occurred() == 0:
        arguments = words(stack_small())
        arguments[0] = o
        tell(runtime().native_hook_failed, 0, status, address_of(arguments), 1)
    return RAISED


# --- what is compiled ------------------------------------------------------------------------------------------


@native_once
def find_code(o, dtype):
    """Let Python find or compile what a hook is for a dtype: its address, or RAISED."""
    number = py_integer(dtype)
    answer = call_python(runtime().compile_hook, 2, o, number) if number != 0 else 0
    if number != 0:
        py_decref(number)
    if answer == 0:
        return RAISED
    address = py_integer_value(answer)
    py_decref(answer)
    if py_err_occurred() != 0:
        return RAISED
    native_hook_object(o).codes[dtype] = address
    return address


@native_inline
def code_of(o, dtype):
    """The address of what a hook is for a dtype, or a failure."""
    code = native_hook_object(o).codes[dtype]
    return code if code != 0 else find_code(o, dtype)


@native
def find_state(o):
    """The state of a hook as a handle, one more reference, or zero; RAISED if it is no longer what it was."""
    x = native_hook_object(o)
    if x.state == 0:
        return 0
    h = object_handle(x.state)
    if h == 0:
        return refuse(o, 0, WRONG_STATE)
    t = tensor(h)
    same = (
        t.dtype == x.state_dtype
        and t.numel == x.state_numel
        and t.device == HOST
        and t.flags & CONTIGUOUS != 0
    )
    if not same or requires_grad(h):
        return refuse(o, h, WRONG_STATE)
    status = own_memory(h)
    if failed(status):
        return status
    retain(h)
    return h


@native
def run_code(o, code, dtype, x, out):
    """Run what a hook is over the elements of a contiguous tensor, and of a second one or zero; a status."""
    state = find_state(o)
    if failed(state):
        return state
    t = tensor(x)
    f = frames.hook(stack_frame())
    f.code = code
    f.x = t.data
    f.out = tensor(out).data if out != 0 else 0
    f.nbytes = t.numel * itemsize(dtype)
    f.n = t.numel
    for k in range(t.ndim):
        f.sizes[k] = t.shape[k]
    f.state = 0
    f.state_nbytes = 0
    f.n_state = 0
    if state != 0:
        s = tensor(state)
        f.state = s.data
        f.state_nbytes = s.numel * itemsize(s.dtype)
        f.n_state = s.numel
    kernel = runtime().hook_kernel
    status = launch_checked(kernel, HOST, UINT8, address_of(f), words_of(f), t.numel, NATIVE_HOOK_RAISED)
    if state != 0:
        bump_version(state)
        drop(state)
    return status


@native_once
def call_over_elements(o, h):
    """What a hook over elements makes of a tensor: a new tensor, or a failure."""
    x = native_hook_object(o)
    ins = words(stack_small())
    outs = words(stack_small())
    ins[0] = h
    count = 1
    state = 0
    if x.n_numbers != 0:
        state = object_handle(x.state) if x.state != 0 else 0
        if state == 0 or tensor(state).numel != x.n_numbers or not tensor(state).flags & CONTIGUOUS:
            return refuse(o, state, WRONG_STATE)
        if requires_grad(state):
            return refuse(o, state, WRONG_STATE)
        if recording() and failed(keep_for_tape(tensor(state).storage, 0)):
            return NO_MEMORY
        step = itemsize(tensor(state).dtype)
        for k in range(x.n_numbers):
            view = new_view(
                state, 0, tensor(state).shape, tensor(state).strides, tensor(state).data + k * step
            )
            if failed(view):
                count = view
                break
            ins[count] = view
            count += 1
    status = count
    if not failed(count):
        rt = runtime()
        mode = rt.mode
        if x.constant != 0 or not x.differentiable:
            rt.mode &= ~GRAD_ENABLED
        status = call(x.op - 1, count, ins, 0, ins, outs, 1)
        rt.mode = mode
    for k in range(1, count):
        drop(ins[k])
    return outs[0] if not failed(status) else status


@native
def as_shown(h, dtype):
    """A tensor as a hook sees it, one more reference: contiguous and of a dtype; or a failure."""
    if tensor(h).flags & CONTIGUOUS and tensor(h).dtype == dtype:
        retain(h)
        return h
    return copy_as(h, dtype, HOST, CONTIGUOUS_FORMAT)


@native
def rounded(h, dtype):
    """A tensor in the dtype that it is to have, whose reference this takes over; or a failure."""
    if tensor(h).dtype == dtype:
        return h
    narrow = copy_as(h, dtype, HOST, CONTIGUOUS_FORMAT)
    drop(h)
    return narrow


@native
def needs_history(o, h):
    """Whether a hook would change something that is to be differentiated, though it is not differentiable."""
    x = native_hook_object(o)
    if x.constant != 0 or x.differentiable != 0 or (x.op == 0 and x.access == READS):
        return False
    return runtime().mode & GRAD_ENABLED != 0 and requires_grad(h)


@native
def applied(o, h, own):
    """What a hook makes of a tensor: itself, without another reference, or a new tensor; or a failure.

    `own`: whether the hook may change the tensor's memory, if that is contiguous and of a dtype that it computes in.
    """
    x = native_hook_object(o)
    if x.function == 0:
        return refuse(o, h, NEVER_MADE)
    if needs_history(o, h):
        return refuse(o, h, RECORDED)
    if x.op != 0:
        return call_over_elements(o, h)
    if x.access == TAKES_LEAF:
        return refuse(o, h, NEEDS_LEAF)
    t = tensor(h)
    if t.device != HOST:
        return refuse(o, h, ON_DEVICE)
    if x.rank != 0 and x.rank != t.ndim:
        return refuse(o, h, WRONG_RANK)
    dtype = FLOAT32 if is_half(t.dtype) else t.dtype
    code = code_of(o, dtype)
    if failed(code):
        return code
    if x.access == CHANGES and not (own and t.flags & CONTIGUOUS and t.dtype == dtype):
        made = copy_as(h, dtype, HOST, CONTIGUOUS_FORMAT)
        if failed(made):
            return made
        made = finished(made, run_code(o, code, dtype, made, 0))
        return rounded(made, t.dtype) if not failed(made) else made
    if x.access == CHANGES:
        status = run_code(o, code, dtype, h, 0)
        bump_version(h)
        return status if failed(status) else h
    shown = as_shown(h, dtype)
    if failed(shown):
        return shown
    out = 0
    if x.access == REPLACES:
        out = new_tensor(dtype, HOST, t.ndim, t.shape)
    status = out if failed(out) else run_code(o, code, dtype, shown, out)
    drop(shown)
    if failed(status):
        if out > 0:
            drop(out)
        return status
    return rounded(out, t.dtype) if out != 0 else h


# --- in the sweep ----------------------------------------------------------------------------------------------


@native_once
def has_nan(o, h, made):
    """Whether a gradient has NaN, 0 or 1; RAISED if there was none before the hook that `made` it."""
    retain(h)
    shown = wrap(h)
    flag = py_integer(made)
    answer = call_python(runtime().native_hook_nan, 3, o, shown, flag) if shown != 0 and flag != 0 else 0
    for held in (shown, flag):
        if held != 0:
            py_decref(held)
    if answer == 0:
        return RAISED
    value = py_integer_value(answer)
    py_decref(answer)
    return 1 if value != 0 else 0


@native
def run_over(o, array, k, checks):
    """Run a native hook over gradient `k` of an array, unless that is undefined. OK or RAISED.

    `checks`: whether the pass looks for NaN.
    """
    h = array[k]
    if h == 0:
        return OK
    had = has_nan(o, h, 0) if checks else 1
    if failed(had):
        return RAISED
    own = owned_alone(h) and storage(tensor(h).storage).owner == 0 and not tensor(h).flags & REQUIRES_GRAD
    made = applied(o, h, own)
    if failed(made):
        return say(o, made)
    if made != h:
        array[k] = made
        drop(h)
    return has_nan(o, array[k], 1) if had == 0 else OK


@native
def run_over_all(o, array, n, checks):
    """Run a native hook over all gradients of an array. OK or RAISED."""
    for k in range(n):
        if failed(run_over(o, array, k, checks)):
            return RAISED
    return OK


# --- in place, for Python and leaves ---------------------------------------------------------------------------


@native
def before_change(h):
    """See to it that a tensor may change in place, without history; a status."""
    rt = runtime()
    if tensor(h).flags & INFERENCE and not rt.mode & INFERENCE_MODE:
        return fail(INFERENCE_INPLACE)
    status = own_memory(h)
    if failed(status):
        return status
    if overlaps_itself(h):
        return OVERLAP
    if rt.mode & MUTATION_HOOKS and failed(show_tensor(rt.before_mutation, h)):
        return RAISED
    return OK


@native
def applied_in_place(o, h):
    """What a hook makes of a tensor that Python holds, which it changes if that is what it does; as `applied`."""
    x = native_hook_object(o)
    kept_apart = x.constant != 0 and runtime().mode & GRAD_ENABLED != 0 and requires_grad(h)
    changes = x.function != 0 and x.op == 0 and x.access == CHANGES and not kept_apart
    if not changes or needs_history(o, h):
        return applied(o, h, False)
    status = before_change(h)
    if failed(status):
        return status
    made = applied(o, h, True)
    if failed(made) or made == h:
        return made
    status = copy_into(h, made)
    drop(made)
    bump_version(h)
    return status if failed(status) else h


@native
def changed_leaf(o, leaf, g):
    """Let a hook change the elements of a leaf, and of its gradient; a status."""
    x = native_hook_object(o)
    a = tensor(leaf)
    b = tensor(g)
    if a.device != HOST or b.device != HOST:
        return refuse(o, g, ON_DEVICE)
    if x.rank != 0 and x.rank != a.ndim:
        return refuse(o, leaf, WRONG_RANK)
    dtype = FLOAT32 if is_half(a.dtype) else a.dtype
    code = code_of(o, dtype)
    status = code if failed(code) else before_change(leaf)
    if not failed(status):
        status = before_change(g)
    if failed(status):
        return status
    value = as_shown(leaf, dtype)
    if failed(value):
        return value
    gradient = as_shown(g, dtype)
    if failed(gradient):
        drop(value)
        return gradient
    status = run_code(o, code, dtype, value, gradient)
    if not failed(status) and value != leaf:
        status = copy_into(leaf, value)
    if not failed(status) and gradient != g:
        status = copy_into(g, gradient)
    drop(value)
    drop(gradient)
    bump_version(leaf)
    bump_version(g)
    return status


@native
def over_leaf(o, leaf):
    """Run a hook over a leaf and its gradient, or over that alone; a status. Without a gradient it does not run."""
    x = native_hook_object(o)
    g = tensor(leaf).grad
    if g == 0:
        return OK
    if x.function != 0 and x.op == 0 and x.access == TAKES_LEAF:
        if needs_history(o, leaf):
            return refuse(o, leaf, RECORDED)
        if tensor(leaf).numel != tensor(g).numel or tensor(leaf).ndim != tensor(g).ndim:
            return refuse(o, leaf, LEAF_HAS_NO_GRAD)
        retain(g)
        status = changed_leaf(o, leaf, g)
        drop(g)
        return status
    retain(g)
    made = applied_in_place(o, g)
    if not failed(made) and made != g:
        if tensor(leaf).grad == g:
            tensor(leaf).grad = made
            drop(g)
        else:
            drop(made)
    drop(g)
    return OK if not failed(made) else made


@native
def run_over_leaf(o, leaf):
    """Run a native hook as a post-accumulate hook of a leaf. OK or RAISED."""
    status = over_leaf(o, leaf)
    return say(o, status) if failed(status) else OK
