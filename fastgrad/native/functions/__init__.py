"""Ops whose shape rule is written by hand: each checks, allocates, launches.

They take handles and integers, return the handle of a result or a negative status, and record nothing. The
frames that they fill are described at the kernels.
"""

from fastgrad.native.functions.attention import attention_backward, attention_forward
from fastgrad.native.functions.convolution import convolution
from fastgrad.native.functions.copies import reshape_or_copy, zeros
from fastgrad.native.functions.framed import framed
from fastgrad.native.functions.indexing import (
    gather,
    index,
    index_backward,
    index_put,
    place_rows,
    scatter_add,
    select_rows,
)
from fastgrad.native.functions.matrices import inner_product, matmul, matmul_add, matrix_vector, triangle
from fastgrad.native.functions.multi_tensor import each
from fastgrad.native.functions.parts import (
    join,
    place_strided,
    scatter_views,
    take_strided,
    view_backward,
    zero_strided,
)
from fastgrad.native.functions.pooling import max_pool, pad, pool, pool_at
from fastgrad.native.functions.reductions import (
    expand_reduced,
    reduce_like,
    reduced_loss,
    reduction,
    spread,
    sum_to,
)
from fastgrad.native.functions.rows import rowwise
from fastgrad.native.functions.training import nll_backward, nll_forward

__all__ = [
    "attention_backward",
    "attention_forward",
    "convolution",
    "each",
    "expand_reduced",
    "framed",
    "gather",
    "index",
    "index_backward",
    "index_put",
    "inner_product",
    "join",
    "matmul",
    "matmul_add",
    "matrix_vector",
    "max_pool",
    "nll_backward",
    "nll_forward",
    "pad",
    "place_rows",
    "place_strided",
    "pool",
    "pool_at",
    "reduce_like",
    "reduced_loss",
    "reduction",
    "reshape_or_copy",
    "rowwise",
    "scatter_add",
    "scatter_views",
    "select_rows",
    "spread",
    "sum_to",
    "take_strided",
    "triangle",
    "view_backward",
    "zero_strided",
    "zeros",
]
