"""Writing elements: copies, constants and what the host brings, all by launches, so that a capture has them."""

from __future__ import annotations

from fastgrad.native.base import frames
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import (
    address_of,
    f64s,
    memcpy,
    native,
    native_inline,
    native_once,
    runtime,
    stack_frame,
    stack_small,
    storage,
    tensor,
    words_of,
)
from fastgrad.native.contracts.element_types import (
    BOOL,
    COMPLEX64,
    COMPLEX128,
    FLOAT16,
    FLOAT64,
    INT32,
    INT64,
    ITEMSIZES,
    UINT8,
)
from fastgrad.native.contracts.flags import CONJUGATED, CONTIGUOUS
from fastgrad.native.contracts.frames.elementwise import FLAT, FLAT_FRAME, OPERAND, STRIDED, STRIDED_FRAME
from fastgrad.native.contracts.frames.filling import CONSTANT
from fastgrad.native.contracts.limits import FRAME_DIMS, HOST
from fastgrad.native.contracts.status import OK
from fastgrad.native.memory.devices import are_peers
from fastgrad.native.memory.launches import launch, launch_peer_copy, launch_transfer
from fastgrad.native.memory.references import drop
from fastgrad.native.memory.storages import new_storage
from fastgrad.native.memory.tapes import only_recorded, recording

# Words of a frame before its inputs, and of an operand with strides.
FLAT_INPUTS, STRIDED_INPUTS = FLAT_FRAME.place("inputs"), STRIDED_FRAME.place("inputs")
OPERAND_WORDS = OPERAND.words

ITEMSIZE_OF = (1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 2, 4, 8, 0)
INT_OF_BYTES = (BOOL, UINT8, BOOL, BOOL, INT32, BOOL, BOOL, BOOL, INT64)
VALUE = CONSTANT.offset("value")
EXACT = 1 << 53  # integers up to here are float64 numbers


@native_inline
def itemsize(dtype):
    """Bytes of an element."""
    return ITEMSIZE_OF[dtype]


# --- copies ----------------------------------------------------------------------------------------------------


@native_inline
def turning_kernel(dtype):
    """The kernel that copies elements as what they are in a tensor of conjugates: see Note [Conjugates]."""
    rt = runtime()
    return rt.conj_kernel if COMPLEX64 <= dtype and dtype <= COMPLEX128 else rt.neg_kernel


@native
def copy_elements(t, target):
    """Copy the elements of a tensor to an address, one after the other, in row-major order; a status."""
    if t.numel == 0:
        return 0
    kernel = turning_kernel(t.dtype) if t.flags & CONJUGATED else runtime().copy_kernel + t.dtype
    frame = stack_frame()
    if t.flags & CONTIGUOUS:
        f = frames.flat(frame)
        f.n = t.numel
        f.out = target
        f.inputs[0] = t.data
        return launch(kernel, t.device, t.dtype, FLAT, frame, FLAT_INPUTS + 1, t.numel)
    s = frames.strided(frame)
    s.across = 0
    s.rank = min(max(t.ndim, 1), FRAME_DIMS)
    s.sizes[0] = 1
    stride = 1
    for k in range(min(t.ndim, FRAME_DIMS)):
        d = t.ndim - 1 - k
        s.sizes[k] = t.shape[d]
        s.out.strides[k] = stride
        s.inputs.strides[k] = t.strides[d]
        stride *= t.shape[d]
    status = OK
    for piece in range(t.numel // stride):  # one but where a frame has no room for all dimensions
        at = piece
        source = t.data
        for d in range(t.ndim - FRAME_DIMS - 1, -1, -1):
            source += at % t.shape[d] * t.strides[d] * itemsize(t.dtype)
            at //= t.shape[d]
        s.inputs.data = source
        s.out.data = target + piece * stride * itemsize(t.dtype)
        if not failed(status):
            status = launch(kernel, t.device, t.dtype, STRIDED, frame, STRIDED_INPUTS + OPERAND_WORDS, stride)
    return status


# --- constants -------------------------------------------------------------------------------------------------


@native_inline
def holds(dtype, kind, integer):
    """Whether a number of a kind (see `number_tensor`) goes to memory of a dtype without a cast of its own.

    A float goes to a floating dtype, which rounds it; an integer too, where it is a float64 as it stands.
    """
    if FLOAT16 <= dtype and dtype <= COMPLEX128:
        return kind == 1 or -EXACT <= integer <= EXACT
    return kind == 2 or (kind == 0 and dtype != BOOL)


@native
def write_constant(handle, kind, real, integer):
    """Fill a contiguous tensor with a number that its dtype holds; a status."""
    t = tensor(handle)
    if t.numel == 0:
        return 0
    f = frames.constant(stack_small())
    f.n = t.numel
    f.out = t.data
    if FLOAT16 <= t.dtype and t.dtype <= COMPLEX128:
        f64s(address_of(f) + VALUE)[0] = real if kind == 1 else float(integer)
    else:
        f.value = integer
    return launch(runtime().constant_kernel, t.device, t.dtype, FLAT, address_of(f), words_of(f), t.numel)


@native
def write_complex(handle, real, imag):
    """Write a complex number, the bits of whose second part are given, to a complex128 of another device; a status.

    It is two constants of parts: nothing is brought from the host, for which a capture of a graph has no place.
    """
    t = tensor(handle)
    f = frames.constant(stack_small())
    f.n = 1
    f.out = t.data
    f64s(address_of(f) + VALUE)[0] = real
    status = launch(runtime().constant_kernel, t.device, FLOAT64, FLAT, address_of(f), words_of(f), 1)
    if status != 0:
        return status
    f.out = t.data + ITEMSIZES[FLOAT64]
    f.value = imag
    return launch(runtime().constant_kernel, t.device, FLOAT64, FLAT, address_of(f), words_of(f), 1)


# --- between devices -------------------------------------------------------------------------------------------


@native
def on_host(source, device, nbytes):
    """A new storage of the host's with bytes from an address of another device's; or a failure."""
    staged = new_storage(nbytes, BOOL, HOST)
    if failed(staged):
        return staged
    status = launch_transfer(storage(staged).data, HOST, source, device, nbytes, 0)
    if failed(status):
        drop(staged)
        return status
    return staged


@native_once
def transfer(out, out_device, source, device, nbytes):
    """Copy bytes from an address of one device's memory to one of another's; a status.

    A device knows how to bring them from the host's memory, and to it, and to others of its kind.
    """
    if nbytes == 0:
        return 0
    if device == HOST or out_device == HOST:
        return launch_transfer(out, out_device, source, device, nbytes, 0)
    if are_peers(device, out_device):
        return launch_peer_copy(out, out_device, source, device, nbytes)
    staged = on_host(source, device, nbytes)
    if failed(staged):
        return staged
    status = launch_transfer(out, out_device, storage(staged).data, HOST, nbytes, 0)
    drop(staged)
    return status


@native_once
def queue_bytes(out, source):
    """Copy the memory of a tensor to that of one that lies alike, without waiting; a status.

    One of them is in locked memory of the host's.
    """
    to, t = tensor(out), tensor(source)
    nbytes = t.numel * itemsize(t.dtype)
    return launch_transfer(to.data, to.device, t.data, t.device, nbytes, 1) if nbytes > 0 else 0


@native_once
def bring(out, device, source):
    """Copy the elements of a tensor without gaps to an address of another device's memory; a status.

    In a capture that runs nothing, a number of the host's goes along with the launch, as no copy can come before that.
    """
    t = tensor(source)
    nbytes = t.numel * itemsize(t.dtype)
    dtype = INT_OF_BYTES[nbytes] if nbytes <= 8 else BOOL
    if dtype == BOOL or t.device != HOST or t.ndim != 0 or not only_recorded(device):
        return transfer(out, device, t.data, t.device, nbytes)
    f = frames.constant(stack_small())
    f.n = 1
    f.out = out
    f.value = 0
    memcpy(address_of(f) + VALUE, t.data, nbytes)
    return launch(runtime().constant_kernel, device, dtype, FLAT, address_of(f), words_of(f), 1)


@native_once
def write_bytes(handle, source):
    """Fill a fresh contiguous tensor with what lies at an address of the host's; a status.

    Nobody works on a fresh tensor, so that on the host a plain copy will do. A capture needs a launch, and a copy of
    what lies there that the tape keeps.
    """
    t = tensor(handle)
    nbytes = t.numel * itemsize(t.dtype)
    if nbytes == 0:
        return 0
    if not recording() and t.device == HOST:
        memcpy(t.data, source, nbytes)
        return 0
    staged = new_storage(nbytes, t.dtype, HOST)
    if failed(staged):
        return staged
    memcpy(storage(staged).data, source, nbytes)
    status = launch_transfer(t.data, t.device, storage(staged).data, HOST, nbytes, 0)
    drop(staged)
    return status
