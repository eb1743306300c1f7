"""Matrix products, triangles of matrices."""

from __future__ import annotations

from fastgrad.native.base import frames
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import float_of, native, runtime, stack_small, tensor, words
from fastgrad.native.contracts.frames.matrices import (
    BY_COLUMNS,
    BY_MATRICES,
    BY_ROWS,
    FEW_STRIPS,
    LAID_OUT_PRODUCT,
    LARGE_PRODUCT,
    PANEL_COLUMNS,
    SHARED_ROWS,
    STRIP_ROWS,
)
from fastgrad.native.contracts.limits import FIRST_GPU, HOST
from fastgrad.native.contracts.ops import VIEW_UNSQUEEZE
from fastgrad.native.contracts.status import (
    ADDED_SIZES,
    BATCH_SIZES,
    MATRIX_NEEDED,
    PRODUCT_DIMS,
    PRODUCT_DTYPES,
    PRODUCT_SIZES,
    VECTOR_DIMS,
    VECTOR_SIZE,
)
from fastgrad.native.launch.elementwise import broadcast, cast, copy_here, number_tensor, run_elementwise
from fastgrad.native.launch.launch import launch_frame, op_record
from fastgrad.native.launch.promotion import is_complex, is_floating
from fastgrad.native.memory.launches import need_dtype
from fastgrad.native.memory.references import drop, retain
from fastgrad.native.shapes.copies import contiguous, zero_fill
from fastgrad.native.tensors.tensors import finished, new_tensor
from fastgrad.native.tensors.views import make_view

SMALL_GRAIN, LARGE_GRAIN = 32, 256  # rows or columns of a part at least
COMPLEX_GRAIN = 64  # the same of complex numbers, for each of which BLAS is called
LAID_OUT_ROWS = 64  # of a part of a product whose operands are laid out
MOST_PARTS = 16  # of a large product
ONE, ZERO = 0x3FF << 52, 0  # bits of float64
STRETCH = 512  # elements of a part of a vector to which stored columns are added: what is read of each


@native
def leading_stride(h):
    """How far apart rows lie, if the elements of each are neighbours; if those of columns are, the negative

    of how far apart these lie; else zero.
    """
    t = tensor(h)
    m = t.shape[t.ndim - 2]
    n = t.shape[t.ndim - 1]
    rows = t.strides[t.ndim - 2]
    cols = t.strides[t.ndim - 1]
    if cols == 1 and rows >= max(1, n):
        return rows
    if rows == 1 and cols >= max(1, m):
        return -cols
    if n == 1 and rows == 1:
        return 1
    if m == 1 and cols == 1:
        return max(1, n)
    return 0


@native
def lies_by_columns(h):
    """Whether the columns of a matrix lie one behind the other."""
    t = tensor(h)
    return t.ndim == 2 and t.strides[0] == 1 and t.strides[1] == t.shape[0]


@native
def factors_by_columns(n, ins):
    """Which of the factors of a product, its last operands, lie by columns: 1 for the left one, 2 for the right one."""
    left = 1 if lies_by_columns(ins[n - 2]) else 0
    return left + (2 if lies_by_columns(ins[n - 1]) else 0)


@native
def has_gaps(h):
    """Whether matrices of one row or of one column have elements that are no neighbours."""
    t = tensor(h)
    m = t.shape[t.ndim - 2]
    n = t.shape[t.ndim - 1]
    return (n == 1 and m > 1 and t.strides[t.ndim - 2] != 1) or (
        m == 1 and n > 1 and t.strides[t.ndim - 1] != 1
    )


@native
def matrices_in(h):
    """How many matrices a batch has."""
    t = tensor(h)
    count = 1
    for k in range(t.ndim - 2):
        count *= t.shape[k]
    return count


@native
def batch_step(h):
    """How far apart the matrices of a batch lie, or -1 if not all are as far from the next one."""
    t = tensor(h)
    step = 0
    count = 1
    for k in range(t.ndim - 3, -1, -1):
        if t.shape[k] == 1:
            continue
        if count == 1:
            step = t.strides[k]
        elif t.strides[k] != step * count:
            return -1
        count *= t.shape[k]
    return step


@native
def gemm_operand(h):
    """Matrices, equally far apart, with contiguous rows or columns: the tensor itself (counted once more) or a copy.

    Of a vector, as one row or one column, the elements are.
    """
    if leading_stride(h) != 0 and not has_gaps(h) and batch_step(h) >= 0:
        retain(h)
        return h
    return cast(h, tensor(h).dtype)


@native
def new_product(a, b):
    """A tensor for the product of two matrices, or of two batches of matrices of the same sizes."""
    ta = tensor(a)
    tb = tensor(b)
    if ta.ndim != tb.ndim or ta.ndim < 2:
        return fail(PRODUCT_DIMS)
    if ta.dtype != tb.dtype:
        return fail(PRODUCT_DTYPES)
    r = ta.ndim - 2
    sizes = words(stack_small())
    for k in range(r):
        if ta.shape[k] != tb.shape[k] or ta.shape[r + 1] != tb.shape[r]:
            return fail(BATCH_SIZES)
        sizes[k] = ta.shape[k]
    if ta.shape[r + 1] != tb.shape[r]:
        return fail(PRODUCT_SIZES, ta.shape[0], ta.shape[1], tb.shape[0], tb.shape[1])
    sizes[r] = ta.shape[r]
    sizes[r + 1] = tb.shape[r + 1]
    return new_tensor(ta.dtype, ta.device, ta.ndim, sizes)


@native
def write_product(out, a, b, alpha, beta, added):
    """Write the product of two matrices; factors and `added` as in `run_scaled_gemm`. A status."""
    ca = gemm_operand(a)
    if failed(ca):
        return ca
    cb = gemm_operand(b)
    status = cb if failed(cb) else run_scaled_gemm(out, ca, cb, alpha, beta, added)
    drop(ca)
    if not failed(cb):
        drop(cb)
    return status


@native
def matmul(a, b):
    """Product of two matrices, or of two batches of matrices of the same sizes."""
    out = new_product(a, b)
    if failed(out) or tensor(out).numel == 0:
        return out
    return finished(out, write_product(out, a, b, ONE, ZERO, 0))


@native
def product_with_vector(rows, vector, ndim, sizes):
    """The product of a matrix and a vector as one column, in a new tensor of the given sizes. Takes over `rows`."""
    if rows <= 0:
        return rows
    tv = tensor(vector)
    out = new_tensor(tv.dtype, tv.device, ndim, sizes)
    if not failed(out) and tensor(out).numel != 0:
        dim = words(stack_small())
        dim[0] = 1
        column = make_view(VIEW_UNSQUEEZE, vector, 1, dim)
        cb = gemm_operand(column) if not failed(column) else column
        out = finished(out, cb if failed(cb) else run_gemm(out, rows, cb))
        if not failed(column):
            drop(column)
        if not failed(cb):
            drop(cb)
    drop(rows)
    return out


@native
def check_with_vector(a, b, ndim):
    """Whether a tensor of `ndim` dimensions has a product with a vector; a negative status if not."""
    ta = tensor(a)
    tb = tensor(b)
    if ta.ndim != ndim or tb.ndim != 1:
        return fail(VECTOR_DIMS, ndim)
    if ta.dtype != tb.dtype:
        return fail(PRODUCT_DTYPES)
    if ta.shape[ndim - 1] != tb.shape[0]:
        return fail(VECTOR_SIZE, ta.shape[ndim - 1], tb.shape[0])
    return 0


@native
def matrix_vector(a, b):
    """Product of a matrix and a vector."""
    status = check_with_vector(a, b, 2)
    return status if failed(status) else product_with_vector(gemm_operand(a), b, 1, tensor(a).shape)


@native
def inner_product(a, b):
    """Inner product of two vectors, without dimensions."""
    status = check_with_vector(a, b, 1)
    if not failed(status) and tensor(a).numel == 0:
        status = need_dtype(runtime().gemv_kernel, tensor(a).device, tensor(a).dtype)
    if failed(status):
        return status
    dim = words(stack_small())
    dim[0] = 0
    row = make_view(VIEW_UNSQUEEZE, a, 1, dim)
    if row <= 0:
        return row
    operand = gemm_operand(row)
    drop(row)
    return product_with_vector(operand, b, 0, tensor(a).shape)


@native
def lay_in_panels(x):
    """The columns of a matrix, or of a batch of them, that `gemm_operand` made, by panels in a new tensor."""
    t = tensor(x)
    r = t.ndim - 2
    sizes = words(stack_small())
    batch = min(r, 1)
    sizes[0] = matrices_in(x)
    sizes[batch] = (t.shape[r + 1] + PANEL_COLUMNS - 1) // PANEL_COLUMNS
    sizes[batch + 1] = t.shape[r]
    sizes[batch + 2] = PANEL_COLUMNS
    out = new_tensor(t.dtype, t.device, batch + 3, sizes)
    if failed(out) or tensor(out).numel == 0:
        return out
    row = leading_stride(x)
    f = frames.panels(stack_small())
    f.out = tensor(out).data
    f.x = t.data
    f.batch = matrices_in(x)
    f.panels = sizes[batch]
    f.n = t.shape[r + 1]
    f.k = t.shape[r]
    f.step = batch_step(x)
    f.row = abs(row)
    f.by_columns = 1 if row < 0 else 0
    return finished(out, launch_frame(runtime().panels_kernel, t.device, t.dtype, f, t.numel))


@native
def in_panels(h):
    """The columns of a matrix, or of a batch of them, by panels."""
    if tensor(h).ndim != 2 and tensor(h).ndim != 3:
        return fail(PRODUCT_DIMS)
    x = gemm_operand(h)
    if failed(x):
        return x
    out = lay_in_panels(x)
    drop(x)
    return out


@native
def is_laid_out(dtype, device, m, n, k):
    """Whether the operands of a product are laid out for tiles, which then run at their full speed.

    It does not pay where few tiles share what is laid out, unless BLAS were called otherwise.
    """
    return (
        device == HOST
        and is_floating(dtype)
        and not is_complex(dtype)
        and m >= SHARED_ROWS
        and n > 1
        and m * n * k > (LAID_OUT_PRODUCT if max(m, n) > STRIP_ROWS else LARGE_PRODUCT)
    )


@native
def plan_parts(f, dtype):
    """Decide how a product may be divided: a part reads all of the other operand, and a large one is packed for it.

    A large one of few rows is left to BLAS, whose bits depend on how many columns there are: it stays whole. Complex
    ones are left to it, too, block by block of the grain, in whatever parts these are.
    """
    pairs = is_complex(dtype)
    f.grain = COMPLEX_GRAIN if pairs else SMALL_GRAIN
    large = f.m * f.n * f.k > LARGE_PRODUCT
    if f.b_in_panels or f.laid_out:
        columns = max(4 * PANEL_COLUMNS, f.n // MOST_PARTS) // PANEL_COLUMNS * PANEL_COLUMNS
        by_rows = f.b_in_panels or f.m >= f.n
        f.grain = LAID_OUT_ROWS if by_rows else columns
        f.divided = BY_MATRICES if f.batch > 1 else BY_ROWS if by_rows else BY_COLUMNS
        return
    if (f.n == 1 and f.a_by_columns) or (f.m == 1 and not f.b_by_columns):
        f.grain = STRETCH
    elif large:
        f.grain = max(LARGE_GRAIN, max(f.m, f.n) // MOST_PARTS)
    if f.batch > 1:
        f.divided = BY_MATRICES
    elif (
        large
        and is_floating(dtype)
        and not pairs
        and 1 < f.m < SHARED_ROWS
        and f.n > 1
        and not f.b_by_columns
    ):
        f.divided, f.grain = BY_COLUMNS, f.n
    elif (
        f.b_by_columns and f.n >= 4 * SMALL_GRAIN and not large
    ):  # each part transposes what it reads of them
        f.divided = BY_COLUMNS
    elif f.m >= f.n:
        f.divided = BY_ROWS
    else:
        f.divided = BY_COLUMNS


@native
def run_gemm(out, a, b):
    """Launch the product of operands that `gemm_operand` made; returns a status."""
    return run_scaled_gemm(out, a, b, ONE, ZERO, 0)


@native
def run_scaled_gemm(out, a, b, alpha, beta, added):
    """The same times a factor, plus what stands in `out` times another one; only on GPUs are these not one and zero.

    Elsewhere `added` may be the address of a row to add; see `adds_row`.
    """
    ta = tensor(a)
    if ta.numel == 0:  # sums of nothing, and nothing to read
        return zero_fill(out)
    r = ta.ndim - 2
    row_a = leading_stride(a)
    row_b = leading_stride(b)
    f = frames.gemm(stack_small())
    f.out = tensor(out).data
    f.a = ta.data
    f.added = added
    f.m = ta.shape[r]
    f.n = tensor(b).shape[r + 1]
    f.k = ta.shape[r + 1]
    f.row_a = abs(row_a)
    f.a_by_columns = 1 if row_a < 0 else 0
    laid_out = is_laid_out(ta.dtype, ta.device, f.m, f.n, f.k)
    # Panels for all parts pay where more tiles share them than few strips have.
    f.b_in_panels = 1 if laid_out and f.m > FEW_STRIPS * STRIP_ROWS else 0
    f.laid_out = 1 if laid_out and not f.b_in_panels else 0
    shared = b
    if f.b_in_panels:
        shared = lay_in_panels(b)
        if failed(shared):
            return shared
    f.b = tensor(shared).data
    f.row_b = abs(row_b)
    f.b_by_columns = 1 if row_b < 0 and not f.b_in_panels else 0
    f.batch = matrices_in(a)
    f.row_out = f.n
    f.step_out = f.m * f.n
    f.step_a = batch_step(a)
    f.step_b = tensor(shared).strides[0] if f.b_in_panels and r > 0 else batch_step(b)
    f.alpha = alpha
    f.beta = beta
    plan_parts(f, ta.dtype)
    work = f.batch * f.m * f.n * max(f.k, 1)
    if f.m == 1 or f.n == 1:  # a multiply-add is an element of the matrix that comes from memory
        return launch_frame(runtime().gemv_kernel, ta.device, ta.dtype, f, work // 4)
    status = launch_frame(runtime().gemm_kernel, ta.device, ta.dtype, f, work // 16)
    if f.b_in_panels:
        drop(shared)
    return status


@native
def triangle(op, h, offset):
    """The lower or upper triangle of the last two dimensions, zeros elsewhere."""
    t = tensor(h)
    if t.ndim < 2:
        return fail(MATRIX_NEEDED, t.ndim)
    out = new_tensor(t.dtype, t.device, t.ndim, t.shape)
    if failed(out) or t.numel == 0:
        return out
    x = contiguous(h)
    if failed(x):
        return finished(out, x)
    f = frames.triangle(stack_small())
    f.out = tensor(out).data
    f.x = tensor(x).data
    f.matrices = t.numel // (t.shape[t.ndim - 1] * t.shape[t.ndim - 2])
    f.rows = t.shape[t.ndim - 2]
    f.columns = t.shape[t.ndim - 1]
    f.diagonal = offset
    status = launch_frame(op_record(op).kernel, t.device, t.dtype, f, t.numel)
    drop(x)
    return finished(out, status)


@native
def scaled(h, bits, out):
    """Write a tensor times a number, given by its bits, to one of its sizes, which may be itself. A status."""
    t = tensor(h)
    number = number_tensor(1, float_of(bits), 0, t.dtype, t.device)
    if failed(number):
        return number
    ins = words(stack_small())
    ins[0] = h
    ins[1] = number
    status = run_elementwise(op_record(runtime().mul_op).kernel, t.dtype, 2, ins, out)
    drop(number)
    return status


@native
def add_to_product(out, c, n_factors, factors):
    """Add what is broadcast to it to the product of two matrices; with factors, first for the former. A status."""
    ins = words(stack_small())
    ins[0] = out
    ins[1] = c
    add = op_record(runtime().add_op).kernel
    t = tensor(c)
    if n_factors == 0:
        return run_elementwise(add, t.dtype, 2, ins, out)
    status = scaled(out, factors[1], out)
    if failed(status) or float_of(factors[0]) == 0.0:
        return status
    ins[1] = new_tensor(t.dtype, t.device, t.ndim, t.shape)
    if failed(ins[1]):
        return ins[1]
    status = scaled(c, factors[0], ins[1])
    if not failed(status):
        status = run_elementwise(add, t.dtype, 2, ins, out)
    drop(ins[1])
    return status


@native
def adds_row(c, a, product):
    """Whether the launch of a product of matrices can add `c`: one row, as it lies.

    A product with a vector, and one of nothing, are other launches.
    """
    t = tensor(c)
    rows = t.numel // max(t.shape[t.ndim - 1], 1) if t.ndim > 0 else 0
    return (
        product.device < FIRST_GPU and product.shape[0] > 1 and product.shape[1] > 1 and tensor(a).numel > 0
        and rows == 1 and t.shape[t.ndim - 1] == product.shape[1] and t.strides[t.ndim - 1] == 1
    )  # fmt: skip


@native
def matmul_add(c, a, b, n_factors, factors):
    """The product of two matrices plus what is broadcast to it; with factors, first for the latter.

    With a factor of zero it counts for nothing, not even where it is NaN.
    """
    out = new_product(a, b)
    if failed(out) or tensor(out).numel == 0:
        return out
    t = tensor(out)
    if tensor(c).dtype != t.dtype:
        drop(out)
        return fail(PRODUCT_DTYPES)
    ins = words(stack_small())
    sizes = words(stack_small())
    ins[0] = out
    ins[1] = c
    rank = broadcast(2, ins, 2, sizes)
    if rank != 2 or sizes[0] != t.shape[0] or sizes[1] != t.shape[1]:
        m = t.shape[0]
        columns = t.shape[1]
        drop(out)
        return rank if rank < 0 else fail(ADDED_SIZES, m, columns)
    if t.device >= FIRST_GPU and is_floating(t.dtype) and tensor(a).numel != 0:
        # It is added before anything is rounded, and in the same pass over the result.
        beta = ONE if n_factors == 0 else factors[0]
        status = 0 if float_of(beta) == 0.0 else copy_here(out, c)
        if not failed(status):
            status = write_product(out, a, b, ONE if n_factors == 0 else factors[1], beta, 0)
        return finished(out, status)
    if n_factors == 0 and adds_row(c, a, t):
        return finished(out, write_product(out, a, b, ONE, ZERO, tensor(c).data))
    status = write_product(out, a, b, ONE, ZERO, 0)
    return finished(out, status if failed(status) else add_to_product(out, c, n_factors, factors))
