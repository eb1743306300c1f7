"""Scaled dot-product attention as one op."""

from __future__ import annotations

import math

from fastgrad.native.build.loader import rt
from fastgrad.native.contracts import integers
from fastgrad.native.contracts.element_types import HALVES, WIDE
from fastgrad.native.contracts.frames.attention import ATTENTION, ATTENTION_BACKWARD
from fastgrad.native.contracts.ops import (
    KEEPS_FLOAT32,
    NOT_DIFFERENTIABLE,
    ONE_DIFFERENTIABLE,
    SHAPE_ATTENTION,
    SHAPE_ATTENTION_BACKWARD,
    STRUCTURED,
    TAKES_FLOAT32,
)
from fastgrad.ops import elementwise as _elementwise  # noqa: F401  # rules that are traced use its operators
from fastgrad.ops.call import float_of_bits, invoke
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.linalg import bmm
from fastgrad.ops.reduce import safe_softmax, softmax_backward
from fastgrad.ops.registry import Op
from fastgrad.ops.shape import reshape_to, transpose, tril, zeros_of
from fastgrad.ops.vocabulary import m

# Query (B, H, L, E), key and value (B, H / group, S, E), mask (B, H, L, S) to be added or absent. The second result is
# the logarithm of the sum of exponentials of each query's scores. The scale is the bit pattern of a float. Where no
# gradients are recorded, all may lack the dimension of heads.
attention = Op(
    "scaled_dot_product_attention", STRUCTURED, ("q", "k", "v", "mask?"), integers.ATTENTION.names, edges=3, n_out=2,
    kernel=Kernel("attention", "attention:build", frame=ATTENTION, dtypes=WIDE, gpu_dtypes=HALVES, backward=False),
    forward=SHAPE_ATTENTION,
    flags=ONE_DIFFERENTIABLE | KEEPS_FLOAT32, node="ScaledDotProductFlashAttentionForCpuBackward0",
    saved_as="query key value attn_mask -> output logsumexp",
)  # fmt: skip
attention_backward = Op(
    "scaled_dot_product_attention_backward", STRUCTURED, ("g", "q", "k", "v", "mask?", "y", "y1"),
    integers.ATTENTION.names,
    kernel=Kernel(
        "attention_backward", "attention:build", frame=ATTENTION_BACKWARD, dtypes=WIDE, gpu_dtypes=HALVES, backward=True
    ),
    forward=SHAPE_ATTENTION_BACKWARD,
    n_out=3, flags=NOT_DIFFERENTIABLE | TAKES_FLOAT32, statistics=("y1",),
)  # fmt: skip


@attention.joint_vjp("q", "k", "v", by=attention_backward)
def _(g, q, k, v, mask, causal, scale):
    factor = float_of_bits(scale)
    (batch, heads, n_queries, width), (_, shared, n_keys, _) = rt.sizes(q), rt.sizes(k)

    def grouped(x, last):  # heads that share keys and values become one longer head
        return invoke(reshape_to, (x,), 3, batch * shared, heads // shared * n_queries, last)

    def apart(x, sizes):
        return invoke(reshape_to, (x,), len(sizes), sizes)

    def swapped(x):
        return invoke(transpose, (x,), -2, -1)

    queries, g = grouped(q, width), grouped(g, width)
    keys, values = (apart(x, (batch * shared, n_keys, width)) for x in (k, v))
    scores = invoke(bmm, (queries, swapped(keys))) * factor
    if mask is not None:
        scores = scores + grouped(mask, n_keys)
    if causal:
        ones = invoke(zeros_of, (g,), 2, n_queries, n_keys) + 1.0
        by_head = apart(scores, (batch * heads, n_queries, n_keys))
        scores = grouped(m.where(m.ne(invoke(tril, (ones,), 0), 0.0), by_head, -math.inf), n_keys)
    weights = invoke(safe_softmax, (scores,), -1, 0)
    d_scores = invoke(softmax_backward, (invoke(bmm, (g, swapped(values))), weights), -1, 0) * factor
    return (
        apart(invoke(bmm, (d_scores, keys)), (batch, heads, n_queries, width)),
        apart(invoke(bmm, (swapped(d_scores), queries)), (batch, shared, n_keys, width)),
        apart(invoke(bmm, (swapped(weights), g)), (batch, shared, n_keys, width)),
    )
