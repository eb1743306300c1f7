"""Which function of this package an op of kind STRUCTURED calls, and with what: by family, the most frequent first."""

from __future__ import annotations

from fastgrad.native.base import integers
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import advance, float_of, native, native_inline, native_once, tensor
from fastgrad.native.contracts.flags import WRAPPED_NUMBER
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
    SHAPE_FILLED,
    SHAPE_FLIP,
    SHAPE_FRAMED,
    SHAPE_GATHER,
    SHAPE_GIVEN,
    SHAPE_INDEX,
    SHAPE_INDEX_BACKWARD,
    SHAPE_INDEX_ONTO,
    SHAPE_INDEX_PUT,
    SHAPE_LENGTH,
    SHAPE_MATMUL,
    SHAPE_MAX_POOL,
    SHAPE_MV,
    SHAPE_NARROW_BACKWARD,
    SHAPE_NLL,
    SHAPE_NLL_BACKWARD,
    SHAPE_NONZERO,
    SHAPE_NORM,
    SHAPE_NORM_GRADIENTS,
    SHAPE_NUMBER,
    SHAPE_PAD,
    SHAPE_PAD_BACKWARD,
    SHAPE_PANELS,
    SHAPE_PLACE_ROWS,
    SHAPE_PLACE_STRIDED,
    SHAPE_POOL_GATHER,
    SHAPE_POOL_SCATTER,
    SHAPE_PROBABILITIES,
    SHAPE_RANDOM,
    SHAPE_REDUCE_LIKE,
    SHAPE_REDUCED,
    SHAPE_RESHAPE,
    SHAPE_RESHAPE_TO,
    SHAPE_RESTORE,
    SHAPE_SCATTER_ADD,
    SHAPE_SCATTER_INTO,
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
    SHAPE_UNFOLD_BACKWARD,
    SHAPE_VAR,
    SHAPE_ZERO_STRIDED,
    SHAPE_ZEROS,
    VIEW_DIAGONAL,
    VIEW_NARROW,
    VIEW_SELECT,
    VIEW_SLICE,
    VIEW_UNFOLD,
)
from fastgrad.native.contracts.status import INTERNAL, MISFIT
from fastgrad.native.launch.elementwise import copy_laid_out, number_tensor
from fastgrad.native.launch.launch import op_record
from fastgrad.native.launch.promotion import number_dtype
from fastgrad.native.memory.references import drop
from fastgrad.native.shapes.attention import attention_backward, attention_forward
from fastgrad.native.shapes.copies import flipped, reshape_or_copy, zeros
from fastgrad.native.shapes.creation import created, nonzero
from fastgrad.native.shapes.extremes import extremes
from fastgrad.native.shapes.framed import framed
from fastgrad.native.shapes.indexing import (
    gather,
    index,
    index_backward,
    index_onto,
    index_put,
    place_rows,
    scatter_add,
    scatter_into,
    select_rows,
)
from fastgrad.native.shapes.matrices import (
    in_panels,
    inner_product,
    matmul,
    matmul_add,
    matrix_vector,
    triangle,
)
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
from fastgrad.native.shapes.training import nll_backward, nll_forward, probabilities
from fastgrad.native.shapes.volumes import convolution_of
from fastgrad.native.tensors.tensors import alias


@native_once
def run_image(op, kind, n, ins, n_attrs, attrs, outs):
    """Functions of images."""
    out = 0
    if kind >= SHAPE_CONV and kind <= SHAPE_CONV_WEIGHT:
        out = convolution_of(op, kind - SHAPE_CONV, n, ins, attrs)
    elif kind == SHAPE_MAX_POOL:
        return max_pool(op, ins[0], attrs, outs)
    elif kind == SHAPE_AVG_POOL or kind == SHAPE_ADAPTIVE_POOL:
        out = pool(op, ins[0], attrs)
    elif kind == SHAPE_POOL_SCATTER:
        images = integers.images(attrs)
        target = integers.listed(images.rest)
        out = pool_at(op, ins[0], ins[1], images.channels_last, target.count, target.rest)
    elif kind == SHAPE_POOL_GATHER:
        out = pool_at(op, ins[0], ins[1], integers.images(attrs).channels_last, 0, attrs)
    elif kind == SHAPE_PAD:
        # behind the named: rank and begins, rank and sizes with padding
        padded = integers.padded(attrs)
        begins = integers.listed(padded.rest)
        target = advance(begins.rest, begins.count)
        out = pad(op, ins[0], padded.mode, padded.value, padded.channels_last, padded.rest, target, 0)
    elif kind == SHAPE_PAD_BACKWARD:
        # behind the named: rank and begins, rank and sizes with padding, and those of the result
        cropped = integers.cropped(attrs)
        begins = integers.listed(cropped.rest)
        sizes = integers.listed(advance(begins.rest, begins.count))
        if sizes.count != begins.count:
            return fail(MISFIT)
        target = advance(sizes.rest, sizes.count)
        out = pad(op, ins[0], cropped.mode, 0, cropped.channels_last, cropped.rest, target, 1)
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
        out = reduced_loss(op, n, ins, n_attrs, attrs)
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
        out = number_tensor(1, float_of(integers.one_number(attrs).bits), 0, number_dtype(t.dtype), t.device)
        if not failed(out):
            tensor(out).flags &= ~WRAPPED_NUMBER  # numbers alone would be of the default dtype
    elif kind == SHAPE_VAR or kind == SHAPE_STD or kind == SHAPE_LENGTH:
        return spread(op, kind, n_attrs, attrs, ins[0], outs)
    elif kind == SHAPE_NLL:
        return nll_forward(op, n, ins, attrs, outs)
    elif kind == SHAPE_NLL_BACKWARD:
        out = nll_backward(op, n, ins, attrs)
    elif kind == SHAPE_PROBABILITIES:
        out = probabilities(op, ins[0])
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
    if kind == SHAPE_UNFOLD_BACKWARD:
        return VIEW_UNFOLD
    return VIEW_DIAGONAL if kind == SHAPE_DIAGONAL_BACKWARD else VIEW_NARROW


@native_once
def run_part(op, kind, n, ins, n_attrs, attrs, outs):
    """Functions of parts of tensors: indices, and gradients of views."""
    out = 0
    if (kind >= SHAPE_SLICE_BACKWARD and kind <= SHAPE_NARROW_BACKWARD) or kind == SHAPE_UNFOLD_BACKWARD:
        # behind the integers of the view: rank and sizes of the result
        count = op_record(op).n_ints
        target = integers.listed(advance(attrs, count))
        out = view_backward(ins[0], view_of(kind), count, attrs, target.count, target.rest)
    elif kind == SHAPE_ZERO_STRIDED:
        out = zero_strided(ins[0], attrs)
    elif kind == SHAPE_TAKE_STRIDED:
        out = take_strided(ins[0], attrs)
    elif kind == SHAPE_PLACE_STRIDED:
        out = place_strided(ins[0], attrs)
    elif kind == SHAPE_UNBIND_BACKWARD or kind == SHAPE_SPLIT_BACKWARD:
        lengths = n if kind == SHAPE_SPLIT_BACKWARD else 0
        target = integers.listed(advance(integers.along(attrs).rest, lengths))
        out = scatter_views(n, ins, 1 if lengths else 0, attrs, target.count, target.rest)
    elif kind == SHAPE_GATHER:
        out = gather(op, ins[0], ins[1], integers.along(attrs).dim)
    elif kind == SHAPE_SCATTER_ADD:
        along = integers.along(attrs)
        target = integers.listed(along.rest)
        out = scatter_add(op, ins[0], ins[1], ins[2], along.dim, target.count, target.rest)
    elif kind == SHAPE_SCATTER_INTO:
        out = scatter_into(op, ins[0], ins[1], ins[2], integers.along(attrs).dim)
    elif kind == SHAPE_SORT:
        return select_sorted(op, ins[0], attrs, outs)
    elif kind == SHAPE_INDEX:
        of = integers.indexed(attrs)
        out = index(op, n, ins, of.first, of.form)
    elif kind == SHAPE_INDEX_PUT:
        put = integers.index_onto(attrs)
        out = index_put(op, n, ins, put.first, put.form, put.accumulate)
    elif kind == SHAPE_INDEX_ONTO:
        onto = integers.index_onto(attrs)
        out = index_onto(op, n, ins, onto.first, onto.form, onto.accumulate)
    elif kind == SHAPE_INDEX_BACKWARD:
        of = integers.indexed(attrs)
        target = integers.listed(of.rest)
        out = index_backward(op, n, ins, of.first, of.form, target.count, target.rest)
    elif kind >= SHAPE_FILLED and kind <= SHAPE_RANDOM:
        out = created(op, kind, attrs)
    elif kind == SHAPE_NONZERO:
        out = nonzero(op, ins[0], integers.places(attrs).by_rows)
    else:
        return run_layer(op, kind, n, ins, n_attrs, attrs, outs)
    outs[0] = out
    return 1 if not failed(out) else out


@native_once
def run_forward(op, kind, n, ins, n_attrs, attrs, outs):
    """An op of kind STRUCTURED; returns the number of outputs or a negative status."""
    out = 0
    target = integers.listed(attrs)  # of the ops that get the sizes of the result
    if kind == SHAPE_MATMUL:
        out = matmul(ins[0], ins[1])
    elif kind == SHAPE_MV:
        out = matrix_vector(ins[0], ins[1])
    elif kind == SHAPE_DOT:
        out = inner_product(ins[0], ins[1])
    elif kind == SHAPE_PANELS:
        out = in_panels(ins[0])
    elif kind == SHAPE_CAST:
        to = integers.as_dtype(attrs)
        out = copy_laid_out(ins[0], to.dtype, n_attrs - 1, to.rest)
    elif kind == SHAPE_CLONE:
        out = copy_laid_out(ins[0], tensor(ins[0]).dtype, n_attrs, attrs)
    elif kind == SHAPE_SUM_TO:
        out = sum_to(ins[0], target.count, target.rest)
    elif kind == SHAPE_CAT:
        out = join(n, ins, integers.along(attrs).dim, 0, ins[0])
    elif kind == SHAPE_STACK:
        out = join(n, ins, integers.along(attrs).dim, 1, ins[0])
    elif kind == SHAPE_RESHAPE:
        out = reshape_or_copy(ins[0], n_attrs, attrs)
    elif kind == SHAPE_RESHAPE_TO:
        out = reshape_or_copy(ins[0], target.count, target.rest)
    elif kind == SHAPE_FLIP:
        out = flipped(ins[0], integers.reversed(attrs).dims)
    elif kind == SHAPE_ZEROS:
        t = tensor(ins[0])
        out = zeros(t.dtype, t.device, target.count, target.rest)
    elif kind == SHAPE_RESTORE:
        out = restore_reduced(ins[0], n_attrs, attrs)
    elif kind == SHAPE_EXPAND_META:
        out = expand_reduced(ins[0], n_attrs, attrs, 0)
    elif kind == SHAPE_EXPAND_MEAN:
        out = expand_reduced(ins[0], n_attrs, attrs, 1)
    elif kind == SHAPE_EXPAND_BACK or kind == SHAPE_EXPAND_MEAN_BACK:
        # behind the sizes of the input: what `expand_reduced` takes
        rest = advance(target.rest, target.count)
        mean = 1 if kind == SHAPE_EXPAND_MEAN_BACK else 0
        out = expand_reduced(ins[0], n_attrs - 1 - target.count, rest, mean)
    elif kind == SHAPE_REDUCE_LIKE:
        out = reduce_like(ins[0], n_attrs, attrs)
    elif kind == SHAPE_EXTREMES:
        return extremes(op, ins[0], attrs, outs)
    elif kind == SHAPE_SELECT_ROWS:
        rows = integers.of_rows(attrs)
        out = select_rows(ins[0], ins[1], rows.dim, rows.keepdim)
    elif kind == SHAPE_PLACE_ROWS:
        rows = integers.of_rows(attrs)
        sizes = integers.listed(rows.rest)
        out = place_rows(ins[0], ins[1], rows.dim, sizes.count, sizes.rest)
    elif kind == SHAPE_TRIANGLE:
        out = triangle(op, ins[0], integers.at_offset(attrs).offset)
    else:
        return run_part(op, kind, n, ins, n_attrs, attrs, outs)
    outs[0] = out
    return 1 if not failed(out) else out
