"""Attention in several heads, with its projections."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from fastgrad import dtypes
from fastgrad.functions.arguments import need_optional, need_tensor
from fastgrad.functions.creation import zeros
from fastgrad.functions.index import where
from fastgrad.functions.linalg import matmul
from fastgrad.functions.plans import warn
from fastgrad.functions.shape import (
    cat,
    chunk,
    expand,
    movedim,
    narrow,
    reshape,
    squeeze,
    transpose,
    unsqueeze,
)
from fastgrad.nn.functional.activations import softmax
from fastgrad.nn.functional.attention import scaled_dot_product_attention
from fastgrad.nn.functional.dropout import dropout
from fastgrad.nn.functional.linear import linear

_NAME = "multi_head_attention_forward"


class Projections(NamedTuple):
    """The parameters of attention in several heads.

    Either `packed` (3 E, E) holds the weights of query, key and value one below the other, or `query` (E, E), `key`
    (E, Ek) and `value` (E, Ev) hold one each. `bias` (3 E,) belongs to all three. `extra_key` and `extra_value`
    (1, 1, E) stand behind the projected keys and values, `out` (E, E) and `out_bias` (E,) make the output.
    """

    packed: Any
    bias: Any
    extra_key: Any
    extra_value: Any
    out: Any
    out_bias: Any
    query: Any = None
    key: Any = None
    value: Any = None


def multi_head_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Any, Any]:
    """What `fastgrad.nn.MultiheadAttention` computes, with its parameters as arguments.

    Parameters
    ----------
    query, key, value : Tensor
        Shapes (L, N, E), (S, N, E) and (S, N, E), or without N.
    embed_dim_to_check : int
        What E has to be.
    num_heads : int
        H, a divisor of E.
    in_proj_weight, in_proj_bias : Tensor, optional
        Shapes (3 E, E) and (3 E,).
    bias_k, bias_v : Tensor, optional
        A further key and value, shape (1, 1, E).
    add_zero_attn : bool
        Whether a further key and value are zero.
    dropout_p : float
        The probability that a weight becomes zero, in training.
    out_proj_weight, out_proj_bias : Tensor
        Shapes (E, E) and (E,); the bias may be None.
    training : bool
    key_padding_mask : Tensor, optional
        Shape (N, S) or (S,): bool, where True hides a key, or numbers that are added to the scores.
    need_weights : bool
        Whether the weights are returned.
    attn_mask : Tensor, optional
        Shape (L, S) or (N * H, L, S), in the same way.
    use_separate_proj_weight : bool
        Whether `q_proj_weight` (E, E), `k_proj_weight` (E, Ek), `v_proj_weight` (E, Ev) take the place of
        `in_proj_weight`.
    static_k, static_v : Tensor, optional
        Keys and values as the heads see them, shape (N * H, S, E / H).
    average_attn_weights : bool
        Whether the weights are averaged over the heads.
    is_causal : bool
        Says that `attn_mask` is the causal one.

    Returns
    -------
    output : Tensor
        Shape (L, N, E) or (L, E).
    weights : Tensor or None
        Shape (N, L, S), (N, H, L, S) if not averaged, or without N.

    Raises
    ------
    AssertionError
        If shapes do not fit.
    RuntimeError
        If the shape of `attn_mask` does not fit, or `is_causal` comes without one.
    """
    if use_separate_proj_weight:
        weights = (None, q_proj_weight, k_proj_weight, v_proj_weight)
        missing = [n for n, w in zip("qkv", weights[1:], strict=True) if w is None]
        if missing:
            raise AssertionError(f"use_separate_proj_weight is True but {missing[0]}_proj_weight is None")
    else:
        weights = (in_proj_weight, None, None, None)
        if in_proj_weight is None:
            raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    need_embedding(query, embed_dim_to_check)
    parameters = Projections(
        weights[0], in_proj_bias, bias_k, bias_v, out_proj_weight, out_proj_bias, *weights[1:]
    )
    return attend(
        query, key, value, parameters, num_heads, False, add_zero_attn, dropout_p if training else 0.0,
        key_padding_mask, attn_mask, is_causal, need_weights, average_attn_weights, (static_k, static_v),
    )  # fmt: skip


def need_embedding(query: Any, size: int) -> None:
    """Refuse a query whose last dimension is not what the heads expect."""
    sizes = need_tensor(_NAME, query, "query").shape
    if not sizes or sizes[-1] != size:
        raise AssertionError(
            f"was expecting embedding dimension of {size}, but got {sizes[-1] if sizes else 'none'}"
        )


def attend(
    query: Any,
    key: Any,
    value: Any,
    parameters: Projections,
    heads: int,
    batch_first: bool,
    zero_key: bool,
    dropout_p: float,
    padding: Any,
    mask: Any,
    causal: bool,
    need_weights: bool,
    average: bool,
    static: Sequence[Any] = (None, None),
) -> tuple[Any, Any]:
    """As `multi_head_attention_forward`; with `batch_first`, operands and output are (N, L, E)."""
    batched = _check_operands(query, key, value, padding, mask, heads, parameters.packed is None)
    if not batched:
        query, key, value = _with_batch(query, key, value)
        batch_first = False
        padding = None if padding is None else unsqueeze(padding, 0)
    length, batch = (query.shape[1], query.shape[0]) if batch_first else query.shape[:2]
    causal, mask, padding = _masks(causal, mask, padding, need_weights, query.dtype)
    mask = _by_head(mask, batch, heads, length, key.shape[1 if batch_first else 0])
    q, k, v = _projected(query, key, value, parameters)
    q = _split(q, heads, batch_first)
    k, v = (
        _split(x, heads, batch_first) if given is None else _static(given, which, batch, heads, q.shape[3])
        for x, given, which in ((k, static[0], "k"), (v, static[1], "v"))
    )
    k, v, mask, padding = _longer(k, v, mask, padding, parameters, zero_key, static)
    mask = _with_padding(mask, padding, batch, k.shape[2])
    if need_weights:
        out, weights = _weighted(q, k, v, mask, dropout_p)
        weights = weights.mean(1) if average else weights
        weights = weights if batched else squeeze(weights, 0)
    else:
        out, weights = scaled_dot_product_attention(q, k, v, mask, dropout_p, causal), None
    # (N, H, L, D) with the heads next to each other again
    out = transpose(out, 1, 2) if batch_first else movedim(out, 2, 0)
    out = linear(
        reshape(out, *out.shape[:2], out.shape[2] * out.shape[3]), parameters.out, parameters.out_bias
    )
    return (out if batched else squeeze(out, 1)), weights


def _with_batch(query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
    """Operands of three dimensions; the same tensor stays the same."""
    q = unsqueeze(query, 1)
    k = q if key is query else unsqueeze(key, 1)
    return q, k, (k if value is key else unsqueeze(value, 1))


def _weighted(q: Any, k: Any, v: Any, mask: Any, dropout_p: float) -> tuple[Any, Any]:
    """The output of each head, and its weights."""
    scores = matmul(q * math.sqrt(1 / q.shape[-1]), transpose(k, -2, -1))
    weights = softmax(scores if mask is None else scores + mask, -1)
    if dropout_p:
        weights = dropout(weights, dropout_p)
    return matmul(weights, v), weights


# --- operands --------------------------------------------------------------------------------------------------


def _projected(query: Any, key: Any, value: Any, p: Projections) -> Sequence[Any]:
    if p.packed is None:
        biases = (None,) * 3 if p.bias is None else chunk(p.bias, 3)
        return [
            linear(x, w, b)
            for x, w, b in zip((query, key, value), (p.query, p.key, p.value), biases, strict=True)
        ]
    width = query.shape[-1]
    if key is value:
        if query is key:
            return chunk(linear(query, p.packed, p.bias), 3, -1)
        parts = [(query, 0, width), (key, width, 2 * width)]
    else:
        parts = [(x, k * width, width) for k, x in enumerate((query, key, value))]
    out = []
    for x, start, length in parts:
        bias = None if p.bias is None else narrow(p.bias, 0, start, length)
        out.append(linear(x, narrow(p.packed, 0, start, length), bias))
    return out if len(out) == 3 else (out[0], *chunk(out[1], 2, -1))


def _split(x: Any, heads: int, batch_first: bool) -> Any:
    """(L, N, E) or (N, L, E) as (N, H, L, D)."""
    x = reshape(x, *x.shape[:2], heads, x.shape[2] // heads)
    return transpose(x, 1, 2) if batch_first else movedim(x, 0, 2)


def _static(x: Any, which: str, batch: int, heads: int, width: int) -> Any:
    if x.shape[0] != batch * heads:
        raise AssertionError(f"expecting static_{which}.size(0) of {batch * heads}, but got {x.shape[0]}")
    if x.shape[2] != width:
        raise AssertionError(f"expecting static_{which}.size(2) of {width}, but got {x.shape[2]}")
    return reshape(x, batch, heads, *x.shape[1:])


def _longer(
    k: Any, v: Any, mask: Any, padding: Any, p: Projections, zero_key: bool, static: Sequence[Any]
) -> tuple[Any, Any, Any, Any]:
    """Keys and values with what stands behind them; masks let every query see it."""
    if (p.extra_key is None) != (p.extra_value is None):
        given, absent = ("bias_k", "bias_v") if p.extra_value is None else ("bias_v", "bias_k")
        raise AssertionError(f"{given} is set but {absent} is None")
    if p.extra_key is not None:
        for name, given in zip(("key", "value"), static, strict=True):
            if given is not None:
                raise AssertionError(f"bias cannot be added to static {name}.")
        batch, heads, _, width = k.shape
        extra = (
            expand(reshape(x, 1, heads, 1, width), batch, -1, -1, -1) for x in (p.extra_key, p.extra_value)
        )
        k, v = (cat(pair, 2) for pair in zip((k, v), extra, strict=True))
        mask, padding = _open(mask), _open(padding)
    if zero_key:
        k, v = (
            cat([x, zeros(*x.shape[:2], 1, x.shape[3], dtype=x.dtype, device=x.device)], 2) for x in (k, v)
        )
        mask, padding = _open(mask), _open(padding)
    return k, v, mask, padding


# --- masks -----------------------------------------------------------------------------------------------------


def _open(mask: Any) -> Any:
    """A mask with a further column that hides nothing."""
    if mask is None:
        return None
    return cat([mask, zeros(*mask.shape[:-1], 1, dtype=mask.dtype, device=mask.device)], -1)


def additive(mask: Any, name: str, dtype: Any) -> Any:
    """A mask as numbers to add to the scores: -inf where a bool mask is True."""
    if mask is None or mask.dtype.is_floating_point:
        return mask
    if mask.dtype is not dtypes.bool_:
        raise AssertionError(f"only bool and floating types of {name} are supported, but got {mask.dtype}")
    return where(mask, -math.inf, zeros((), dtype=dtype, device=mask.device))


def _masks(causal: bool, mask: Any, padding: Any, need_weights: bool, dtype: Any) -> tuple[bool, Any, Any]:
    """Whether the causal hint is used instead of the mask, and the masks as numbers."""
    if padding is not None and mask is not None and padding.dtype is not mask.dtype:
        warn(
            "Support for mismatched key_padding_mask and attn_mask is deprecated. Use same type for both instead.",
            stacklevel=4,
        )
    if causal and mask is None:
        raise RuntimeError(
            f"{_NAME}(): Need attn_mask if specifying the is_causal hint: a mask that is True, or -inf, above the "
            "diagonal"
        )
    padding = additive(padding, "key_padding_mask", dtype)
    if causal and padding is None and not need_weights:
        return True, None, None
    return False, additive(mask, "attn_mask", dtype), padding


def _by_head(mask: Any, batch: int, heads: int, length: int, keys: int) -> Any:
    """A mask (L, S) or (N * H, L, S) in four dimensions."""
    if mask is None:
        return None
    expected = (length, keys) if mask.ndim == 2 else (batch * heads, length, keys)
    if mask.shape != expected:
        raise RuntimeError(
            f"The shape of the {mask.ndim}D attn_mask is {tuple(mask.shape)}, but should be {expected}."
        )
    return reshape(mask, 1, 1, length, keys) if mask.ndim == 2 else reshape(mask, batch, heads, length, keys)


def _with_padding(mask: Any, padding: Any, batch: int, keys: int) -> Any:
    if padding is None:
        return mask
    for dim, expected in enumerate((batch, keys)):
        if padding.shape[dim] != expected:
            raise AssertionError(
                f"Expected key_padding_mask.shape[{dim}] to be {expected}, but got {padding.shape[dim]}"
            )
    padding = reshape(padding, batch, 1, 1, keys)
    return padding if mask is None else mask + padding


def _check_operands(
    query: Any, key: Any, value: Any, padding: Any, mask: Any, heads: int, separate: bool
) -> bool:
    """Whether the operands form a batch, after checks of their shapes."""
    need_tensor(_NAME, key, "key", 2)
    need_tensor(_NAME, value, "value", 3)
    need_optional(_NAME, padding, "key_padding_mask", 16)
    need_optional(_NAME, mask, "attn_mask", 18)
    if query.ndim not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.ndim}-D query tensor"
        )
    kind = "batched (3-D)" if query.ndim == 3 else "unbatched (2-D)"
    if key.ndim != query.ndim or value.ndim != query.ndim:
        raise AssertionError(
            f"For {kind} `query`, expected `key` and `value` to be {query.ndim}-D but found {key.ndim}-D and "
            f"{value.ndim}-D tensors respectively"
        )
    if padding is not None and padding.ndim != query.ndim - 1:
        raise AssertionError(
            f"For {kind} `query`, expected `key_padding_mask` to be `None` or {query.ndim - 1}-D but found "
            f"{padding.ndim}-D tensor instead"
        )
    if mask is not None and mask.ndim not in (2, 3):
        raise AssertionError(
            f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {mask.ndim}-D tensor instead"
        )
    if query.ndim == 2 and mask is not None and mask.ndim == 3:
        expected = (heads, query.shape[0], key.shape[0])
        if mask.shape != expected:
            raise AssertionError(f"Expected `attn_mask` shape to be {expected} but got {tuple(mask.shape)}")
    if query.shape[-1] % heads:
        raise AssertionError(f"embed_dim {query.shape[-1]} not divisible by num_heads {heads}")
    if separate and key.shape[:-1] != value.shape[:-1]:
        raise AssertionError(
            f"key's sequence and batch dims {tuple(key.shape[:-1])} do not match value's {tuple(value.shape[:-1])}"
        )
    if not separate and key.shape != value.shape:
        raise AssertionError(f"key shape {tuple(key.shape)} does not match value shape {tuple(value.shape)}")
    return bool(query.ndim == 3)
