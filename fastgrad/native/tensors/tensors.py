"""Tensors as records: creation, strided views over shared storage, layout questions."""

from __future__ import annotations

from fastgrad.native.base.failures import fail, failed, note_sizes
from fastgrad.native.base.intrinsics import (
    native,
    native_inline,
    native_once,
    product,
    runtime,
    storage,
    tensor,
)
from fastgrad.native.contracts.element_types import COMPLEX64, FLOAT32, FLOAT64
from fastgrad.native.contracts.flags import (
    CONJUGATED,
    CONTIGUOUS,
    COPY_ON_WRITE,
    GRAD_ENABLED,
    INFERENCE,
    INFERENCE_MODE,
    INFERENCE_VIEW,
    IS_VIEW,
    MULTI_VIEW,
    NO_GRAD_VIEW,
    OWN_COUNTER,
    REQUIRES_GRAD,
    VIEW_ORIGIN,
)
from fastgrad.native.contracts.limits import MAX_DIMS
from fastgrad.native.contracts.records import TENSOR_KIND
from fastgrad.native.contracts.status import (
    NEGATIVE_DIM,
    NO_MEMORY,
    NOT_FOUND,
    NUMEL_OVERFLOW,
    OK,
    STORAGE_OVERFLOW,
    TOO_MANY_DIMS,
)
from fastgrad.native.memory.records import WORDS_TENSOR, new_record
from fastgrad.native.memory.references import (
    drop,
    enter_node,
    link_view,
    release_counter,
    release_storage,
    retain,
    retain_counter,
    retain_node,
)
from fastgrad.native.memory.storages import (
    counter_of,
    foreign_storage,
    new_counter,
    new_storage,
    version_of,
)
from fastgrad.native.memory.tapes import keep_for_tape, recording
from fastgrad.native.tensors.elements import copy_elements, itemsize


@native
def blank_tensor():
    """A tensor record with every field but shape and strides set to zero, or NO_MEMORY."""
    handle = new_record(TENSOR_KIND, WORDS_TENSOR)
    if not failed(handle):
        t = tensor(handle)
        t.storage = 0
        t.flags = 0
        t.node = 0
        t.output_nr = 0
        t.grad = 0
        t.accumulator = 0
        t.base = 0
        t.pyobj = 0
        t.retain_next = 0
        t.followed = 0
        t.n_joint = 0
        t.views = 0
        if runtime().mode & INFERENCE_MODE:
            t.flags = INFERENCE
    return handle


# Note [Sizes]: the sizes of a tensor are not negative, at most `MAX_DIMS`, and the product of those that are not zero
# fits into 63 bits. So does every product of sizes of one tensor, which may be computed as it is. Sizes of what is to
# be made are another matter: whoever multiplies or adds them up uses `product` and `total`, which give -1 where the
# result does not fit, and go on with that. `new_tensor` and `new_view`, which all tensors come from, refuse it.


@native_inline
def count_elements(ndim, shape):
    """How many elements a tensor of given sizes has; -1 if there can be no tensor of these sizes: see Note [Sizes]."""
    span = 1
    empty = False
    for k in range(ndim):
        if shape[k] == 0:
            empty = True
        else:
            span = product(span, shape[k])
    return 0 if empty and span > 0 else span


@native_once
def refuse_sizes(reason, ndim, shape):
    """The failure of sizes that no tensor can have."""
    if ndim > MAX_DIMS:
        return fail(TOO_MANY_DIMS, ndim)
    note_sizes(reason, 0, ndim, shape)
    for k in range(ndim):
        if shape[k] < 0:
            note_sizes(NEGATIVE_DIM, 1, ndim, shape)
            runtime().error[0] = shape[k]
            return NEGATIVE_DIM
    return reason


@native
def new_tensor(dtype, device, ndim, shape):
    """A contiguous tensor whose elements are not set; a failure if there is no memory, or no tensor of these sizes.

    `shape` is a pointer to `ndim` words and may be that of another tensor.
    """
    numel = count_elements(ndim, shape) if ndim <= MAX_DIMS else -1
    nbytes = product(numel, itemsize(dtype))
    if nbytes < 0:
        return refuse_sizes(STORAGE_OVERFLOW, ndim, shape)
    handle = blank_tensor()
    if failed(handle):
        return handle
    t = tensor(handle)
    stride = 1
    for k in range(ndim - 1, -1, -1):
        t.shape[k] = shape[k]
        t.strides[k] = stride
        stride *= max(shape[k], 1)
    s = new_storage(nbytes, dtype, device)
    if failed(s):
        drop(handle)
        return s
    t.storage = s
    t.data = storage(s).data
    t.dtype = dtype
    t.device = device
    t.ndim = ndim
    t.numel = numel
    t.flags |= CONTIGUOUS
    return handle


@native_inline
def finished(out, status):
    """What a function returns that made `out` and then ran to `status`: the tensor, or the failure alone."""
    if failed(status):
        drop(out)
        return status
    return out


@native
def is_contiguous(ndim, shape, strides):
    """Whether elements lie in row-major order without gaps; sizes 0 and 1 put no demand on their stride."""
    expected = 1
    answer = True
    for k in range(ndim - 1, -1, -1):
        if shape[k] == 0:
            return True
        if shape[k] != 1:
            if strides[k] != expected:
                answer = False
            expected *= shape[k]
    return answer


@native_inline
def lay(t, data, ndim, shape, strides, numel):
    """Let a new tensor lie at an address, with sizes and strides."""
    t.data = data
    t.ndim = ndim
    for k in range(ndim):
        t.shape[k] = shape[k]
        t.strides[k] = strides[k]
    t.numel = numel
    mark_layout(t)


@native_inline
def mark_layout(t):
    """Note whether the elements of a tensor can be read one after the other as they lie."""
    t.flags &= ~CONTIGUOUS
    if not t.flags & CONJUGATED and is_contiguous(t.ndim, t.shape, t.strides):
        t.flags |= CONTIGUOUS


@native
def new_view(source, ndim, shape, strides, data):
    """A tensor over the storage of `source` with the given layout, without history."""
    numel = count_elements(ndim, shape)
    if numel < 0:
        return refuse_sizes(NUMEL_OVERFLOW, ndim, shape)
    handle = blank_tensor()
    if failed(handle):
        return handle
    t = tensor(handle)
    b = tensor(source)
    t.storage = b.storage
    retain(b.storage)
    t.flags = b.flags & (INFERENCE | OWN_COUNTER | CONJUGATED)
    if t.flags & OWN_COUNTER:
        t.counter = b.counter
        retain_counter(t.counter)
    t.dtype = b.dtype
    t.device = b.device
    lay(t, data, ndim, shape, strides, numel)
    return handle


@native
def resized(handle, dim, size, stride):
    """A view that nobody has seen yet with another, smaller size and another stride of one dimension."""
    o = tensor(handle)
    o.shape[dim] = size
    o.strides[dim] = stride
    o.numel = count_elements(o.ndim, o.shape)
    mark_layout(o)
    return handle


@native
def foreign_tensor(dtype, device, ndim, shape, strides, data, nbytes, owner):
    """A tensor over memory of somebody else's, kept alive by one reference to `owner`, a Python object."""
    numel = count_elements(ndim, shape) if ndim <= MAX_DIMS else -1
    if numel < 0:
        return refuse_sizes(NUMEL_OVERFLOW, ndim, shape)
    handle = blank_tensor()
    if failed(handle):
        return handle
    s = foreign_storage(data, nbytes, dtype, device, owner)
    if failed(s):
        drop(handle)
        return s
    t = tensor(handle)
    t.storage = s
    t.dtype = dtype
    t.device = device
    lay(t, data, ndim, shape, strides, numel)
    return handle


@native_once
def unshare(handle):
    """Give a gradient that hooks see memory of its own, because it is about to change. OK or a failure."""
    t = tensor(handle)
    nbytes = product(t.numel, itemsize(t.dtype))
    fresh = new_storage(nbytes, t.dtype, t.device) if nbytes >= 0 else NO_MEMORY
    if failed(fresh):
        return fresh
    target = storage(fresh).data
    status = copy_elements(t, target)
    if failed(status):
        drop(fresh)
        return status
    release_storage(t.storage)
    t.storage = fresh
    t.data = target
    stride = 1
    for k in range(t.ndim - 1, -1, -1):
        t.strides[k] = stride
        stride *= max(t.shape[k], 1)
    t.flags = t.flags & ~(COPY_ON_WRITE | CONJUGATED) | CONTIGUOUS
    return OK


@native_inline
def own_memory(handle):
    """See to it that a tensor which is about to change, or to be shared, is not a gradient that others read as well.

    OK or a failure.
    """
    return unshare(handle) if tensor(handle).flags & COPY_ON_WRITE else OK


@native
def alias(source):
    """A tensor with the layout and storage of `source` and no history: what `detach` returns."""
    t = tensor(source)
    status = own_memory(source)
    if failed(status):
        return status
    return new_view(source, t.ndim, t.shape, t.strides, t.data)


@native
def alias_of_output(h, n, k):
    """An alias of what a node saved of its output `k`, with the node as its history, as double backward wants it."""
    a = alias(h)
    if not failed(a):
        set_history(a, n, k)
    return a


@native_inline
def is_complex_of(dtype, other):
    """Whether elements of a dtype are complex numbers with parts of another one."""
    return dtype - other == COMPLEX64 - FLOAT32 and (other == FLOAT32 or other == FLOAT64)


@native_inline
def may_follow(handle, base):
    """Whether a view can take up the history of its base after that was changed: see Note [Views of changed bases] in
    `graph.versions`.

    It has the dtype of the base, or one of the two is made of complex numbers and the other one of their parts.
    """
    t = tensor(handle)
    b = tensor(base)
    if t.dtype == b.dtype:
        return True
    parts = is_complex_of(t.dtype, b.dtype) or is_complex_of(b.dtype, t.dtype)
    return parts and not b.flags & CONJUGATED


@native
def mark_view(handle, source, several):
    """Say that an op made `handle` as a view of `source`, or `several` of them: a change of one is one of the other.

    What was made in inference mode stays without relations.
    """
    t = tensor(handle)
    b = tensor(source)
    if b.flags & INFERENCE:
        return
    origin = b.flags & VIEW_ORIGIN
    if several or not may_follow(handle, b.base if b.base != 0 else source):
        origin = MULTI_VIEW
    mode = runtime().mode
    if mode & INFERENCE_MODE:
        origin = INFERENCE_VIEW
    elif not mode & GRAD_ENABLED:
        origin = NO_GRAD_VIEW
    link_view(handle, b.base if b.base != 0 else source)
    t.flags |= IS_VIEW | origin
    t.followed = version_of(handle)


@native_inline
def same_shape(a, b):
    """Whether two tensors have equal shapes."""
    ta = tensor(a)
    tb = tensor(b)
    if ta.ndim != tb.ndim:
        return False
    for k in range(ta.ndim):
        if ta.shape[k] != tb.shape[k]:
            return False
    return True


@native_inline
def on_one_device(n, ins):
    """Whether tensors are on one device. Only elementwise ops take a 0-dim one from another device."""
    same = True
    for k in range(1, n):
        if ins[k] != 0 and ins[0] != 0 and tensor(ins[k]).device != tensor(ins[0]).device:
            same = False
    return same


@native
def wrap_dim(dim, ndim):
    """A dimension counted from the front, or NOT_FOUND where it is out of range; scalars have one dimension."""
    bound = ndim if ndim > 0 else 1
    if dim < -bound or dim >= bound:
        return NOT_FOUND
    return dim + bound if dim < 0 else dim


@native
def count_apart(handle):
    """Let the changes of a tensor be counted from zero on, apart from those of others over the memory. A status."""
    t = tensor(handle)
    fresh = new_counter()
    if failed(fresh):
        return fresh
    if t.flags & OWN_COUNTER:
        release_counter(t.counter)
    t.counter = fresh
    t.flags |= OWN_COUNTER
    return OK


@native
def stand_for(handle, source):
    """Let a tensor stand for the memory of another one, with its layout and dtype.

    The tensor, its views and its aliases go on to be counted together; the old memory is kept by the latter alone.
    """
    t = tensor(handle)
    s = tensor(source)
    old = t.storage
    retain(s.storage)
    t.storage = s.storage
    t.data = s.data
    t.dtype = s.dtype
    t.device = s.device
    t.ndim = s.ndim
    t.numel = s.numel
    for k in range(s.ndim):
        t.shape[k] = s.shape[k]
        t.strides[k] = s.strides[k]
    t.flags = t.flags & ~(CONTIGUOUS | CONJUGATED) | s.flags & (CONTIGUOUS | CONJUGATED)
    if not t.flags & OWN_COUNTER and old != s.storage:
        t.counter = old
        t.flags |= OWN_COUNTER
        retain_counter(old)
    release_storage(old)


@native
def bump_version(handle):
    """Count a change of the memory under a tensor."""
    storage(counter_of(handle)).version += 1
    if recording():
        keep_for_tape(tensor(handle).storage, 0)


@native
def set_version(handle, count):
    """Let the memory under a tensor have been changed so often."""
    storage(counter_of(handle)).version = count


@native
def set_history(handle, node_handle, output_nr):
    """Make a tensor the `output_nr`-th output of a node, which it keeps alive."""
    t = tensor(handle)
    retain_node(node_handle)
    enter_node(handle, node_handle)
    t.output_nr = output_nr
    t.flags |= REQUIRES_GRAD
