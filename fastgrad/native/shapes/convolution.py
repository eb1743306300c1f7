"""Convolutions: the three tensors that one ties together, each computed from the two others."""

from __future__ import annotations

from fastgrad.native.base import frames, integers
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import (
    address_of,
    call_kernel,
    native,
    nth,
    product,
    runtime,
    stack_frame,
    stack_small,
    tensor,
    words,
    words_of,
)
from fastgrad.native.contracts.element_types import UINT8
from fastgrad.native.contracts.frames import FLAT
from fastgrad.native.contracts.frames.convolution import (
    BROAD_TILE,
    COLUMNS_OF_FEW,
    FEW,
    LEAST_TERMS,
    MOST_BLOCKS,
    NARROW,
    NARROW_TILE,
    STAGES,
    THREADS,
)
from fastgrad.native.contracts.status import MISFIT
from fastgrad.native.launch.elementwise import copy_here, run_elementwise
from fastgrad.native.launch.launch import launch_frame, most_threads, op_record
from fastgrad.native.launch.promotion import computed_dtype, is_half
from fastgrad.native.memory.devices import launches_itself
from fastgrad.native.memory.flights import depart
from fastgrad.native.memory.launches import arrive, find_kernel
from fastgrad.native.memory.references import drop
from fastgrad.native.shapes.copies import contiguous, in_order, relaid
from fastgrad.native.shapes.matrices import ONE, gemm_operand, run_gemm, write_product
from fastgrad.native.tensors.elements import itemsize
from fastgrad.native.tensors.layouts import new_image
from fastgrad.native.tensors.tensors import finished, new_tensor, new_view

LARGEST = 1 << 31


@native
def fits(size, out, kernel, stride, padding, dilation):
    """Whether windows over a padded dimension have room for `out` results."""
    sane = stride >= 1 and dilation >= 1 and padding >= 0 and kernel >= 1 and out >= 0 and size >= 0
    sane = sane and max(max(stride, dilation), padding) < LARGEST and max(max(kernel, out), size) < LARGEST
    return sane and (out == 0 or (out - 1) * stride + dilation * (kernel - 1) < size + 2 * padding)


@native
def write_geometry(f, rank, x, w, y, attrs):
    """Fill in the integers of the frame from the sizes of the three tensors; a status.

    Tensors of three dimensions are images of one row; of what is set in depth, see `native.shapes.volumes`.
    """
    f.n = x[0]
    f.c = x[1]
    f.o = y[1]
    of = integers.geometry(attrs)
    groups = of.groups
    f.groups = groups
    for k in range(2):
        at = rank - 2 + k  # of the dimension among those of the tensors
        f.size[k] = x[at] if at > 1 else 1
        f.out[k] = y[at] if at > 1 else 1
        f.kernel[k] = w[at] if at > 1 else 1
        f.stride[k] = of.stride[1 + k]
        f.padding[k] = of.padding[1 + k]
        f.dilation[k] = of.dilation[1 + k]
    if groups < 1 or x[0] != y[0] or x[0] < 0 or w[0] != y[1] or w[0] < 0 or w[1] < 0:
        return MISFIT
    if w[0] % groups != 0 or w[1] >= LARGEST or groups >= LARGEST or w[1] * groups != x[1]:
        return MISFIT
    for k in range(2):
        if not fits(f.size[k], f.out[k], f.kernel[k], f.stride[k], f.padding[k], f.dilation[k]):
            return MISFIT
    return 0


@native
def bias_fits(bias, channels, dtype):
    """Whether a bias has a number for each channel."""
    b = tensor(bias)
    return b.ndim == 1 and b.shape[0] == channels and b.dtype == dtype


@native
def launch_stages(op, computes, out, f):
    """Launch the stages of a kernel with the scratch that they need; returns a status."""
    o = tensor(out)
    f.stage = 0
    f.first = 0
    f.steps = 0
    f.tf32 = runtime().convolutions_in_tf32
    f.scratch.data = 0
    f.scratch.nbytes = 0
    f.scratch.count = 1
    f.shared.data = 0
    f.shared.nbytes = 0
    for k in range(STAGES):
        nth(f.stages, k).steps = 0
        nth(f.stages, k).work = 0
    kernel = op_record(op).kernel
    place = depart(address_of(f), words_of(f))
    if launches_itself(o.device):
        plan_tiles(computes, f, o.numel, itemsize(computed_dtype(o.dtype)))
        status = 0
    else:
        status = ask(kernel, o.device, o.dtype, f)
    if not failed(status):
        status = launch_planned(kernel, o.device, o.dtype, f)
    arrive(place)
    return status


@native
def ask(kernel, device, dtype, f):
    """Let a kernel say what its stages are and what scratch they need; a status."""
    address = find_kernel(kernel, device, dtype, FLAT)
    if failed(address):
        return address
    call_kernel(address, address_of(f))
    for k in range(STAGES):
        f.scratch.count = max(f.scratch.count, most_threads(device, nth(f.stages, k).work))
    return 0


@native
def launch_planned(kernel, device, dtype, f):
    """Launch the stages that stand in the frame; a status."""
    pieces = product(f.scratch.nbytes, f.scratch.count)
    size = words(stack_small())
    size[0] = pieces + f.shared.nbytes if pieces >= 0 else pieces
    scratch = new_tensor(UINT8, device, 1, size)
    if failed(scratch):
        return scratch
    f.scratch.data = tensor(scratch).data
    f.shared.data = tensor(scratch).data + pieces
    status = 0
    for k in range(STAGES):
        stage = nth(f.stages, k)
        if stage.steps > 0 and not failed(status):
            f.stage = k
            f.steps = stage.steps
            status = launch_frame(kernel, device, dtype, f, stage.work)
    drop(scratch)
    return status


@native
def over(a, b):
    """``a / b``, rounded up."""
    return (a + b - 1) // b


@native
def tiles_of(computes, f):
    """How many tiles the result has, and how many terms its sums: see `kernels.cuda.convolution`, which finds its tile
    among as many.
    """
    inputs = f.c // f.groups
    rows = f.o // f.groups
    taps = f.kernel[0] * f.kernel[1]
    columns = f.n * f.out[0] * f.out[1]
    terms = inputs * taps
    classes = 1
    if computes == 1:
        terms = rows * taps
        rows = inputs
        columns = f.n * over(f.size[0], f.stride[0]) * over(f.size[1], f.stride[1])
        classes = min(f.size[0], f.stride[0]) * min(f.size[1], f.stride[1])
    elif computes == 2:
        columns, terms = terms, columns
    down, across = BROAD_TILE
    if rows <= FEW:
        down = FEW
        across = COLUMNS_OF_FEW[computes]
    elif rows <= NARROW:
        down, across = NARROW_TILE
    tiles = f.groups * classes * over(rows, down) * over(columns, across)
    return tiles, terms // max(classes, 1) if rows > FEW or computes == 2 else 0


@native
def fits_32_bits(f):
    """Whether what the kernels of such a device count by 32 bits, within an image and of places, is below 2**31."""
    x = f.size[0] * f.size[1]
    y = f.out[0] * f.out[1]
    most = max(max(f.c, f.n) * x, max(f.o, f.n) * y)
    for k in range(2):
        most = max(most, f.size[k] + 2 * f.padding[k])
    return max(most, f.o * f.c // f.groups * f.kernel[0] * f.kernel[1]) < LARGEST - THREADS


@native
def plan_tiles(computes, f, results, size):
    """Write what the kernel of a device that launches itself would say: see Note [Tiles] of the frame.

    Sums of parts, of so many bytes, are of the dtype that is computed in. A launch of more blocks than there can be is
    refused by the device.
    """
    tiles, terms = tiles_of(computes, f)
    parts = max(1, min(MOST_BLOCKS // max(tiles, 1), terms // LEAST_TERMS))
    nth(f.stages, 0).steps = tiles * parts if fits_32_bits(f) else LARGEST
    if parts > 1:
        f.scratch.nbytes = results * size
        f.scratch.count = parts
        nth(f.stages, 1).steps = over(results, THREADS)


@native
def convolution(op, computes, n, ins, attrs):
    """y, x or w (`computes` 0, 1, 2) of a convolution.

    `ins`: x and w, y and w, or x and y; then the bias of what is computed, or absent. `attrs`: groups, strides,
    padding, dilation (deep, down, across), whether the result has its channels last, its rank and its sizes.
    """
    a = tensor(ins[0])
    b = tensor(ins[1])
    images = integers.images(integers.geometry(attrs).rest)
    last = images.channels_last
    target = integers.listed(images.rest)
    rank = target.count
    sizes = target.rest
    if a.ndim != rank or b.ndim != rank or rank < 3 or rank > 4 or a.dtype != b.dtype:
        return fail(MISFIT)
    f = frames.convolution(stack_frame())
    if computes == 0:
        status = write_geometry(f, rank, a.shape, b.shape, sizes, attrs)
    elif computes == 1:
        status = write_geometry(f, rank, sizes, b.shape, a.shape, attrs)
    else:
        status = write_geometry(f, rank, a.shape, sizes, b.shape, attrs)
    if failed(status):
        return fail(status)
    bias = ins[2] if n > 2 else 0
    if bias != 0 and not bias_fits(bias, sizes[1], a.dtype):
        return fail(MISFIT)
    if last != 0 and is_pointwise(f):
        out = new_image(a.dtype, a.device, rank, sizes, last)
        if failed(out) or tensor(out).numel == 0:
            return out
        return finished(out, run_pointwise(computes, f, ins[0], ins[1], bias, out))
    out = new_tensor(a.dtype, a.device, rank, sizes)
    if failed(out) or tensor(out).numel == 0:
        return relaid(out, last)
    return relaid(finished(out, run_convolution(op, computes, f, ins[0], ins[1], bias, out)), last)


@native
def is_pointwise(f):
    """Whether each place is seen by one window, which sees nothing else."""
    single = f.groups == 1
    for k in range(2):
        single = single and f.kernel[k] == 1 and f.stride[k] == 1 and f.padding[k] == 0
    return single


@native
def as_matrix(h, rows, columns, turned):
    """A view of a tensor that lies in memory as the rows of a matrix: the matrix, or if `turned` its transpose."""
    sizes = words(stack_small())
    strides = words(stack_small())
    sizes[turned] = rows
    sizes[1 - turned] = columns
    strides[turned] = columns
    strides[1 - turned] = 1
    return new_view(h, 2, sizes, strides, tensor(h).data)


@native
def run_pointwise(computes, f, first, second, bias, out):
    """The product of matrices that such a convolution is where channels lie last; a status.

    Rows are places of the images, and of the weight its outputs.
    """
    places = f.n * f.size[0] * f.size[1]
    a = in_order(first, 1)
    b = in_order(second, 1) if not failed(a) else a
    status = b
    if not failed(b):
        if computes == 0:
            left = as_matrix(a, places, f.c, 0)
            right = as_matrix(b, f.o, f.c, 1)
            result = as_matrix(out, places, f.o, 0)
        elif computes == 1:
            left = as_matrix(a, places, f.o, 0)
            right = as_matrix(b, f.o, f.c, 0)
            result = as_matrix(out, places, f.c, 0)
        else:
            left = as_matrix(b, places, f.o, 1)
            right = as_matrix(a, places, f.c, 0)
            result = as_matrix(out, f.o, f.c, 0)
        status = min(left, min(right, result))
        if not failed(status) and bias != 0 and is_half(tensor(out).dtype):
            status = multiply_and_add(left, right, bias, result)
        elif not failed(status):
            status = multiply(left, right, bias, result)
        for view in (left, right, result):
            if not failed(view):
                drop(view)
        drop(b)
    if not failed(a):
        drop(a)
    return status


@native
def multiply_and_add(left, right, bias, out):
    """Write the product of two matrices of halves; the bias is added to its rows before they are rounded. A status."""
    status = copy_here(out, bias)
    return status if failed(status) else write_product(out, left, right, ONE, ONE, 0)


@native
def multiply(left, right, bias, out):
    """Write the product of two matrices, and to each row of it add the bias if there is one; a status."""
    a = gemm_operand(left)
    b = gemm_operand(right) if not failed(a) else a
    status = b
    if not failed(b):
        status = run_gemm(out, a, b)
        drop(b)
    if not failed(a):
        drop(a)
    if failed(status) or bias == 0:
        return status
    ins = words(stack_small())
    ins[0] = out
    ins[1] = bias
    add = op_record(runtime().add_op).kernel
    return run_elementwise(add, tensor(out).dtype, 2, ins, out)


@native
def run_convolution(op, computes, f, first, second, bias, out):
    """Launch over contiguous operands; returns a status."""
    a = contiguous(first)
    if failed(a):
        return a
    b = contiguous(second)
    c = contiguous(bias) if not failed(b) and bias != 0 else 0
    status = b if failed(b) else (c if c < 0 else 0)
    if not failed(status):
        o = tensor(out)
        f.x = o.data if computes == 1 else tensor(a).data
        f.weight = o.data if computes == 2 else tensor(b).data
        f.y = o.data if computes == 0 else (tensor(a).data if computes == 1 else tensor(b).data)
        f.bias = tensor(c).data if c != 0 else 0
        status = launch_stages(op, computes, out, f)
    drop(a)
    if not failed(b):
        drop(b)
    if c > 0:
        drop(c)
    return status
