"""Tensors as records: creation, strided views over shared storage, layout questions."""

from __future__ import annotations

from fastgrad.native.base.intrinsics import (
    memcpy,
    native,
    native_inline,
    native_once,
    runtime,
    storage,
    tensor,
)
from fastgrad.native.contracts.flags import (
    CONTIGUOUS,
    COPY_ON_WRITE,
    FUNCTION_VIEW,
    GRAD_ENABLED,
    INFERENCE,
    INFERENCE_MODE,
    IS_VIEW,
    NO_GRAD_VIEW,
    REQUIRES_GRAD,
    UNTRACKED,
)
from fastgrad.native.contracts.records import TENSOR_KIND
from fastgrad.native.contracts.status import NO_MEMORY
from fastgrad.native.memory.records import WORDS_TENSOR, new_record
from fastgrad.native.memory.references import (
    drop,
    enter_node,
    link_view,
    release_reference,
    retain,
    retain_node,
)
from fastgrad.native.memory.storages import new_storage
from fastgrad.native.memory.tapes import keep_for_tape

ITEMSIZE_OF = (1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 0, 0, 0, 0)


@native_inline
def itemsize(dtype):
    """Bytes of an element."""
    return ITEMSIZE_OF[dtype]


@native
def blank_tensor():
    """A tensor record with every field but shape and strides set to zero, or zero."""
    handle = new_record(TENSOR_KIND, WORDS_TENSOR)
    if handle != 0:
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
        t.history = 0
        t.n_joint = 0
        t.views = 0
        if runtime().mode & INFERENCE_MODE:
            t.flags = INFERENCE
    return handle


@native
def new_tensor(dtype, device, ndim, shape):
    """A contiguous tensor whose elements are not set; a negative status if there is no memory.

    `shape` is a pointer to `ndim` words and may be that of another tensor.
    """
    handle = blank_tensor()
    if handle == 0:
        return -NO_MEMORY
    t = tensor(handle)
    numel = 1
    for k in range(ndim - 1, -1, -1):
        size = shape[k]
        t.shape[k] = size
        t.strides[k] = numel if numel > 0 else 1
        if size != 0 and numel > (1 << 58) // size:
            return lost(handle)
        numel *= size
    s = new_storage(numel * itemsize(dtype), dtype, device)
    if s == 0:
        return lost(handle)
    t.storage = s
    t.data = storage(s).data
    t.dtype = dtype
    t.device = device
    t.ndim = ndim
    t.numel = numel
    t.flags |= CONTIGUOUS
    return handle


@native
def lost(handle):
    """Give back a record that could not be completed."""
    drop(handle)
    return -NO_MEMORY


@native_inline
def finished(out, status):
    """What a function returns that made `out` and then ran to `status`: the tensor, or the failure alone."""
    if status != 0:
        drop(out)
        return -status
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


@native
def new_view(source, ndim, shape, strides, data):
    """A tensor over the storage of `source` with the given layout, without history."""
    handle = blank_tensor()
    if handle == 0:
        return -NO_MEMORY
    t = tensor(handle)
    b = tensor(source)
    t.storage = b.storage
    retain(b.storage)
    t.flags = b.flags & (INFERENCE | UNTRACKED)
    t.data = data
    t.dtype = b.dtype
    t.device = b.device
    t.ndim = ndim
    numel = 1
    for k in range(ndim):
        t.shape[k] = shape[k]
        t.strides[k] = strides[k]
        numel *= shape[k]
    t.numel = numel
    if is_contiguous(ndim, t.shape, t.strides):
        t.flags |= CONTIGUOUS
    return handle


@native_once
def unshare(handle):
    """Give a gradient that hooks see memory of its own, because it is about to change. A status."""
    t = tensor(handle)
    t.flags &= ~COPY_ON_WRITE
    size = itemsize(t.dtype)
    fresh = new_storage(t.numel * size, t.dtype, t.device)
    if fresh == 0:
        return -NO_MEMORY
    target = storage(fresh).data
    if t.flags & CONTIGUOUS:
        memcpy(target, t.data, t.numel * size)
    else:
        copy_elements(t, target, size)
    release_reference(t.storage)
    t.storage = fresh
    t.data = target
    stride = 1
    for k in range(t.ndim - 1, -1, -1):
        t.strides[k] = stride
        stride *= max(t.shape[k], 1)
    t.flags |= CONTIGUOUS
    return 0


@native
def copy_elements(t, target, size):
    """Copy the elements of a strided tensor one after the other, in row-major order."""
    for i in range(t.numel):
        rest = i
        offset = 0
        for k in range(t.ndim - 1, -1, -1):
            offset += rest % t.shape[k] * t.strides[k]
            rest //= t.shape[k]
        memcpy(target + i * size, t.data + offset * size, size)


@native
def alias(source):
    """A tensor with the layout and storage of `source` and no history: what `detach` returns."""
    t = tensor(source)
    if t.flags & COPY_ON_WRITE and unshare(source) != 0:
        return -NO_MEMORY
    return new_view(source, t.ndim, t.shape, t.strides, t.data)


@native
def mark_view(handle, source):
    """Say that `handle` is a view made by an op from `source`: changes of one are changes of the other."""
    t = tensor(handle)
    b = tensor(source)
    root = b.base if b.base != 0 else source
    link_view(handle, root)
    t.flags |= IS_VIEW | b.flags & FUNCTION_VIEW
    t.history = b.history if b.flags & FUNCTION_VIEW else tensor(root).history
    if not runtime().mode & GRAD_ENABLED:
        t.flags |= NO_GRAD_VIEW


@native_inline
def requires_grad(handle):
    return tensor(handle).flags & REQUIRES_GRAD != 0


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


@native
def overlaps_itself(h):
    """Whether several elements of a tensor share one place in memory, as after expand."""
    t = tensor(h)
    for k in range(t.ndim):
        if t.strides[k] == 0 and t.shape[k] > 1:
            return True
    return False


@native
def wrap_dim(dim, ndim):
    """A dimension counted from the front, or -1 where it is out of range; scalars have one dimension."""
    bound = ndim if ndim > 0 else 1
    if dim < -bound or dim >= bound:
        return -1
    return dim + bound if dim < 0 else dim


@native
def bump_version(handle):
    """Count a change of the memory under a tensor."""
    if not tensor(handle).flags & UNTRACKED:
        storage(tensor(handle).storage).version += 1
    if runtime().tape != 0:
        keep_for_tape(tensor(handle).storage)


@native
def set_history(handle, node_handle, output_nr):
    """Make a tensor the `output_nr`-th output of a node, which it keeps alive."""
    t = tensor(handle)
    retain_node(node_handle)
    enter_node(handle, node_handle)
    t.output_nr = output_nr
    t.flags |= REQUIRES_GRAD
