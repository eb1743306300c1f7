"""Which function of this package an op of kind STRUCTURED calls, and with what: by family, the most frequent first."""

from __future__ import annotations

from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import advance, float_of, native, native_inline, native_once, tensor
from fastgrad.native.contracts.ops import (
    SHAPE_ADAPTIVE_POOL,
    SHAPE_ADDMM,
    SHAPE_ATTENTION,
    SHAPE_ATTENTION_BACKWARD,
    SHAPE_AVG_POOL,
    SHAPE_CAST,
    SHAPE_CAT,
    SHAPE_CLONE,
    SHAPE_CONV,
    SHAPE_CONV_WEIGHT,
    SHAPE_DIAGONAL_BACKWARD,
    SHAPE_DOT,
    SHAPE_EACH,
    SHAPE_EXPAND_BACK,
    SHAPE_EXPAND_MEAN,
    SHAPE_EXPAND_MEAN_BACK,
    SHAPE_EXPAND_META,
    SHAPE_EXTREMES,
    SHAPE_FRAMED,
    SHAPE_GATHER,
    SHAPE_GIVEN,
    SHAPE_INDEX,
    SHAPE_INDEX_BACKWARD,
    SHAPE_INDEX_PUT,
    SHAPE_LENGTH,
    SHAPE_MATMUL,
    SHAPE_MAX_POOL,
    SHAPE_MV,
    SHAPE_NARROW_BACKWARD,
    SHAPE_NLL,
    SHAPE_NLL_BACKWARD,
    SHAPE_NORM,
    SHAPE_NORM_GRADIENTS,
    SHAPE_NUMBER,
    SHAPE_PAD,
    SHAPE_PAD_BACKWARD,
    SHAPE_PLACE_ROWS,
    SHAPE_PLACE_STRIDED,
    SHAPE_POOL_GATHER,
    SHAPE_POOL_SCATTER,
    SHAPE_REDUCE_LIKE,
    SHAPE_REDUCED,
    SHAPE_RESHAPE,
    SHAPE_RESHAPE_TO,
    SHAPE_RESTORE,
    SHAPE_SCATTER_ADD,
    SHAPE_SELECT_BACKWARD,
    SHAPE_SELECT_ROWS,
    SHAPE_SLICE_BACKWARD,
    SHAPE_SORT,
    SHAPE_SPLIT_BACKWARD,
    SHAPE_STACK,
    SHAPE_STD,
    SHAPE_SUM_TO,
    SHAPE_TAKE_STRIDED,
    SHAPE_TRIANGLE,
    SHAPE_UNBIND_BACKWARD,
    SHAPE_VAR,
    SHAPE_ZERO_STRIDED,
    SHAPE_ZEROS,
    VIEW_DIAGONAL,
    VIEW_NARROW,
    VIEW_SELECT,
    VIEW_SLICE,
)
from fastgrad.native.contracts.status import INTERNAL, MISFIT
from fastgrad.native.launch.elementwise import copy_laid_out, number_tensor
from fastgrad.native.launch.launch import op_record
from fastgrad.native.memory.references import drop
from fastgrad.native.shapes.attention import attention_backward, attention_forward
from fastgrad.native.shapes.convolution import convolution
from fastgrad.native.shapes.copies import reshape_or_copy, zeros
from fastgrad.native.shapes.extremes import extremes
from fastgrad.native.shapes.framed import framed
from fastgrad.native.shapes.indexing import (
    gather,
    index,
    index_backward,
    index_put,
    place_rows,
    scatter_add,
    select_rows,
)
from fastgrad.native.shapes.matrices import inner_product, matmul, matmul_add, matrix_vector, triangle
from fastgrad.native.shapes.multi_tensor import each
from fastgrad.native.shapes.norm_gradients import norm_gradients
from fastgrad.native.shapes.normalization import normalised
from fastgrad.native.shapes.parts import (
    join,
    place_strided,
    scatter_views,
    take_strided,
    view_backward,
    zero_strided,
)
from fastgrad.native.shapes.pooling import max_pool, pad, pool, pool_at
from fastgrad.native.shapes.reductions import (
    expand_reduced,
    reduce_like,
    reduced_loss,
    restore_reduced,
    spread,
    sum_to,
)
from fastgrad.native.shapes.sorting import select_sorted
from fastgrad.native.shapes.training import nll_backward, nll_forward
from fastgrad.native.tensors.tensors import alias


@native_once
def run_image(op, kind, n, ins, n_attrs, attrs, outs):
    """Functions of images."""
    out = 0
    if kind >= SHAPE_CONV and kind <= SHAPE_CONV_WEIGHT:
        out = convolution(op, kind - SHAPE_CONV, n, ins, attrs)
    elif kind == SHAPE_MAX_POOL:
        return max_pool(op, ins[0], 8, attrs, outs)
    elif kind == SHAPE_AVG_POOL:
        out = pool(op, ins[0], 8, attrs)
    elif kind == SHAPE_ADAPTIVE_POOL:
        out = pool(op, ins[0], 0, attrs)
    elif kind == SHAPE_POOL_SCATTER:
        out = pool_at(op, ins[0], ins[1], attrs[0], attrs[1], advance(attrs, 2))
    elif kind == SHAPE_POOL_GATHER:
        out = pool_at(op, ins[0], ins[1], attrs[0], 0, attrs)
    elif kind == SHAPE_PAD:
        # attrs: mode, value, whether channels lie last, rank and begins, rank and sizes with padding
        padded = advance(attrs, 3)
        out = pad(op, ins[0], attrs[0], attrs[1], attrs[2], padded, advance(padded, 1 + padded[0]), 0)
    elif kind == SHAPE_PAD_BACKWARD:
        # attrs: mode, whether channels lie last, rank and begins, rank and sizes with padding, and those of the result
        padded = advance(attrs, 2)
        target = advance(padded, 2 + 2 * padded[0])
        if padded[1 + padded[0]] != padded[0]:
            return fail(MISFIT)
        out = pad(op, ins[0], attrs[0], 0, attrs[1], padded, target, 1)
    else:
        return fail(INTERNAL, op, kind)
    outs[0] = out
    return 1 if not failed(out) else out


@native
def given(op, n, results, outs):
    """What was computed before, as the results of an op: so several computations get one node."""
    missing = n > op_record(op).n_out
    for k in range(n):
        if results[k] == 0:
            missing = True
    if missing:
        return fail(INTERNAL, n, op_record(op).n_out)
    for k in range(n):
        outs[k] = alias(results[k])
        if failed(outs[k]):
            for i in range(k):
                drop(outs[i])
            return outs[k]
    return n


@native_once
def run_layer(op, kind, n, ins, n_attrs, attrs, outs):
    """Functions of training: losses, normalisation, attention, steps of optimizers."""
    out = 0
    if kind == SHAPE_EACH:
        out = each(op, n, ins, n_attrs, attrs)
    elif kind == SHAPE_REDUCED:
        out = reduced_loss(op, n, ins, attrs[0])
    elif kind == SHAPE_FRAMED:
        return framed(op, n, ins, n_attrs, attrs, outs, 0)
    elif kind == SHAPE_NORM:
        return normalised(op, n, ins, n_attrs, attrs, outs)
    elif kind == SHAPE_NORM_GRADIENTS:
        return norm_gradients(op, ins, attrs, outs)
    elif kind == SHAPE_ADDMM:
        out = matmul_add(ins[0], ins[1], ins[2], n_attrs, attrs)
    elif kind == SHAPE_GIVEN:
        before = op_record(op).least - 1  # of what is named
        return given(op, n - before, advance(ins, before), outs)
    elif kind == SHAPE_NUMBER:
        t = tensor(ins[0])
        out = number_tensor(1, float_of(attrs[0]), 0, t.dtype, t.device)
    elif kind == SHAPE_VAR or kind == SHAPE_STD or kind == SHAPE_LENGTH:
        return spread(op, kind, n_attrs, attrs, ins[0], outs)
    elif kind == SHAPE_NLL:
        return nll_forward(op, n, ins, attrs, outs)
    elif kind == SHAPE_NLL_BACKWARD:
        out = nll_backward(op, n, ins, attrs)
    elif kind == SHAPE_ATTENTION:
        return attention_forward(op, n, ins, attrs, outs)
    elif kind == SHAPE_ATTENTION_BACKWARD:
        return attention_backward(op, ins, attrs, outs)
    else:
        return run_image(op, kind, n, ins, n_attrs, attrs, outs)
    outs[0] = out
    return 1 if not failed(out) else out


@native_inline
def view_of(kind):
    """The view whose gradient an op of this kind is."""
    if kind == SHAPE_SLICE_BACKWARD:
        return VIEW_SLICE
    if kind == SHAPE_SELECT_BACKWARD:
        return VIEW_SELECT
    return VIEW_DIAGONAL if kind == SHAPE_DIAGONAL_BACKWARD else VIEW_NARROW


@native_once
def run_part(op, kind, n, ins, n_attrs, attrs, outs):
    """Functions of parts of tensors: indices, and gradients of views."""
    out = 0
    if kind >= SHAPE_SLICE_BACKWARD and kind <= SHAPE_NARROW_BACKWARD:
        # attrs: those of the view, rank and sizes of the result
        count = op_record(op).n_ints
        target = advance(attrs, count)
        out = view_backward(ins[0], view_of(kind), count, attrs, target[0], advance(target, 1))
    elif kind == SHAPE_ZERO_STRIDED:
        out = zero_strided(ins[0], attrs)
    elif kind == SHAPE_TAKE_STRIDED:
        out = take_strided(ins[0], attrs)
    elif kind == SHAPE_PLACE_STRIDED:
        out = place_strided(ins[0], attrs)
    elif kind == SHAPE_UNBIND_BACKWARD:
        out = scatter_views(n, ins, 0, attrs, attrs[1], advance(attrs, 2))
    elif kind == SHAPE_SPLIT_BACKWARD:
        # attrs: dim, n lengths, ndim, sizes
        out = scatter_views(n, ins, 1, attrs, attrs[1 + n], advance(attrs, 2 + n))
    elif kind == SHAPE_GATHER:
        out = gather(op, ins[0], ins[1], attrs[0])
    elif kind == SHAPE_SCATTER_ADD:
        out = scatter_add(op, ins[0], ins[1], ins[2], attrs[0], attrs[1], advance(attrs, 2))
    elif kind == SHAPE_SORT:
        return select_sorted(op, ins[0], attrs, outs)
    elif kind == SHAPE_INDEX:
        out = index(op, n, ins, attrs[0], attrs[1])
    elif kind == SHAPE_INDEX_PUT:
        out = index_put(op, n, ins, attrs[0], attrs[1])
    elif kind == SHAPE_INDEX_BACKWARD:
        out = index_backward(op, n, ins, attrs[0], attrs[1], attrs[2], advance(attrs, 3))
    else:
        return run_layer(op, kind, n, ins, n_attrs, attrs, outs)
    outs[0] = out
    return 1 if not failed(out) else out


@native_once
def run_forward(op, kind, n, ins, n_attrs, attrs, outs):
    """An op of kind STRUCTURED; returns the number of outputs or a negative status."""
    out = 0
    if kind == SHAPE_MATMUL:
        out = matmul(ins[0], ins[1])
    elif kind == SHAPE_MV:
        out = matrix_vector(ins[0], ins[1])
    elif kind == SHAPE_DOT:
        out = inner_product(ins[0], ins[1])
    elif kind == SHAPE_CAST:
        out = copy_laid_out(ins[0], attrs[0], n_attrs - 1, advance(attrs, 1))
    elif kind == SHAPE_CLONE:
        out = copy_laid_out(ins[0], tensor(ins[0]).dtype, n_attrs, attrs)
    elif kind == SHAPE_SUM_TO:
        out = sum_to(ins[0], attrs[0], advance(attrs, 1))
    elif kind == SHAPE_CAT:
        out = join(n, ins, attrs[0], 0, ins[0])
    elif kind == SHAPE_STACK:
        out = join(n, ins, attrs[0], 1, ins[0])
    elif kind == SHAPE_RESHAPE:
        out = reshape_or_copy(ins[0], n_attrs, attrs)
    elif kind == SHAPE_RESHAPE_TO:
        out = reshape_or_copy(ins[0], attrs[0], advance(attrs, 1))
    elif kind == SHAPE_ZEROS:
        t = tensor(ins[0])
        out = zeros(t.dtype, t.device, attrs[0], advance(attrs, 1))
    elif kind == SHAPE_RESTORE:
        out = restore_reduced(ins[0], n_attrs, attrs)
    elif kind == SHAPE_EXPAND_META:
        out = expand_reduced(ins[0], n_attrs, attrs, 0)
    elif kind == SHAPE_EXPAND_MEAN:
        out = expand_reduced(ins[0], n_attrs, attrs, 1)
    elif kind == SHAPE_EXPAND_BACK or kind == SHAPE_EXPAND_MEAN_BACK:
        # the plan's first part is the shape of the input; the rest is that of expand_reduced
        skip = 1 + attrs[0]
        rest = advance(attrs, skip)
        out = expand_reduced(ins[0], n_attrs - skip, rest, 1 if kind == SHAPE_EXPAND_MEAN_BACK else 0)
    elif kind == SHAPE_REDUCE_LIKE:
        out = reduce_like(ins[0], n_attrs, attrs)
    elif kind == SHAPE_EXTREMES:
        return extremes(op, ins[0], attrs, outs)
    elif kind == SHAPE_SELECT_ROWS:
        out = select_rows(ins[0], ins[1], attrs[0], attrs[1])
    elif kind == SHAPE_PLACE_ROWS:
        out = place_rows(ins[0], ins[1], attrs[0], attrs[2], advance(attrs, 3))
    elif kind == SHAPE_TRIANGLE:
        out = triangle(op, ins[0], attrs[0])
    else:
        return run_part(op, kind, n, ins, n_attrs, attrs, outs)
    outs[0] = out
    return 1 if not failed(out) else out
