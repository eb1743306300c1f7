"""Attention."""

from __future__ import annotations

import math
from typing import Any

from fastgrad import dtypes
from fastgrad.functions.arguments import as_flag, need_tensor, records
from fastgrad.functions.autocasting import lower_precision
from fastgrad.functions.creation import ones
from fastgrad.functions.index import where
from fastgrad.functions.linalg import matmul
from fastgrad.functions.plans import planned
from fastgrad.functions.shape import expand, reshape, transpose, tril, unsqueeze
from fastgrad.native.host.tables import BY_NAME
from fastgrad.nn.functional.dropout import dropout
from fastgrad.ops.call import apply, float_bits, invoke

_ATTENTION = BY_NAME["scaled_dot_product_attention"].id
_SAFE_SOFTMAX = BY_NAME["safe_softmax"]
_NAME = "scaled_dot_product_attention"


@planned
@lower_precision
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Values, averaged for each query with weights that depend on how well their keys fit it.

    ``softmax(query @ key^T * scale + mask) @ value`` (Vaswani et al. 2017). Without dropout operands of four
    dimensions, and of three where no gradients are recorded, run as one op that never holds the matrix of weights (Dao
    et al. 2022); what else there is, is composed of matrix products and a softmax. A query to which the mask leaves no
    key gets zeros.

    Parameters
    ----------
    query : Tensor
        Shape (..., Hq, L, E).
    key : Tensor
        Shape (..., H, S, E).
    value : Tensor
        Shape (..., H, S, Ev).
    attn_mask : Tensor, optional
        Broadcastable to (..., Hq, L, S): bool, where False hides a key from a query; or of the dtype of `query`,
        added to the scores.
    dropout_p : float
        The probability that a weight becomes zero. It is applied always: pass 0 for evaluation.
    is_causal : bool
        Whether query ``i`` sees keys up to ``i`` only; with a mask, those that both allow.
    scale : float, optional
        ``1 / sqrt(E)`` if not given.
    enable_gqa : bool
        Whether groups of ``Hq / H`` query heads may share a head of keys and values.

    Returns
    -------
    Tensor
        Shape (..., Hq, L, Ev).

    Raises
    ------
    TypeError
        If an operand is no tensor, or `scale` no number.
    RuntimeError
        If dtypes or sizes do not fit.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> fg.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True, scale=1.0)
    tensor([[1.0000, 0.0000],
            [0.2689, 0.7311]])
    """
    _check_operands(query, key, value, attn_mask, dropout_p, scale)
    is_causal = bool(as_flag("scaled_dot_product_attention", "is_causal", is_causal))
    factor = (1 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0) if scale is None else float(scale)
    if attn_mask is not None and attn_mask.dtype is dtypes.bool_:
        attn_mask = _added(attn_mask, query.dtype)
    if _is_one_op(query, key, value, attn_mask, dropout_p, enable_gqa):
        operands = (
            (query, key, value) if attn_mask is None else (query, key, value, _whole(attn_mask, query, key))
        )
        return apply(_ATTENTION, len(operands), 0, *operands, int(is_causal), float_bits(factor))[0]
    if enable_gqa:
        key, value = _shared(query, key, "key"), _shared(query, value, "value")
    return _composed(query, key, value, attn_mask, dropout_p, is_causal, factor)


def _composed(q: Any, k: Any, v: Any, mask: Any, dropout_p: float, causal: bool, factor: float) -> Any:
    scores = matmul(q * factor, transpose(k, -2, -1))
    if mask is not None:
        scores = scores + mask
    if causal:
        seen = tril(ones(q.shape[-2], k.shape[-2], dtype=dtypes.bool_, device=q.device))
        scores = where(seen, scores, -math.inf)
    weights = invoke(_SAFE_SOFTMAX, (scores,), -1, 0)
    if dropout_p:
        weights = dropout(weights, dropout_p)
    return matmul(weights, v)


def _added(mask: Any, dtype: Any) -> Any:
    """What is added to the scores in place of a bool mask."""
    zero = ones((), dtype=dtype, device=mask.device) - 1
    return where(mask, zero, -math.inf)


def _is_one_op(q: Any, k: Any, v: Any, mask: Any, dropout_p: float, shares: bool) -> bool:
    """Whether operands are those of the op with kernels of its own."""
    if (
        dropout_p
        or q.ndim not in (3, 4)
        or k.ndim != q.ndim
        or k.shape != v.shape
        or (mask is not None and mask.requires_grad)
    ):
        return False
    fits = q.shape[0] == k.shape[0] and 0 not in (*q.shape, *k.shape)
    if q.ndim == 3:
        return fits and not records(q, k, v)
    heads, groups = q.shape[1], k.shape[1]
    return fits and (heads == groups or (shares and heads % groups == 0))


def _whole(mask: Any, q: Any, k: Any) -> Any:
    sizes = (*q.shape[:-1], k.shape[-2])
    return mask if mask.shape == sizes else expand(mask, *sizes)


def _shared(query: Any, x: Any, which: str) -> Any:
    """Each head of keys or values repeated for the query heads that share it."""
    if query.ndim < 3 or x.ndim < 3:
        raise IndexError(
            f"{_NAME}(): enable_gqa needs a dimension of heads in query and {which}, but they have {query.ndim} and "
            f"{x.ndim} dimensions"
        )
    heads, groups = query.shape[-3], x.shape[-3]
    if groups == 0 or heads % groups:
        raise RuntimeError(
            f"{_NAME}(): Number of heads in key and value must divide the number of heads in query, but {which} has "
            f"{groups} and query {heads}"
        )
    if heads == groups:
        return x
    sizes = list(x.shape)
    sizes[-3:-3] = [groups]
    sizes[-3] = heads // groups
    return reshape(expand(unsqueeze(x, -3), *sizes), *x.shape[:-3], heads, *x.shape[-2:])


def _check_operands(query: Any, key: Any, value: Any, mask: Any, dropout_p: float, scale: Any) -> None:
    need_tensor(_NAME, query, "query")
    need_tensor(_NAME, key, "key", 2)
    need_tensor(_NAME, value, "value", 3)
    if query.dtype is not key.dtype or query.dtype is not value.dtype:
        raise RuntimeError(
            f"{_NAME}(): Expected query, key, and value to have the same dtype, but got query.dtype: {query.dtype}, "
            f"key.dtype: {key.dtype} and value.dtype: {value.dtype}; convert them with .to(dtype)"
        )
    if not query.dtype.is_floating_point:
        raise RuntimeError(f"{_NAME}(): expected floating-point query, key and value, but got {query.dtype}")
    if query.ndim < 2 or key.ndim < 2 or value.ndim < 2:
        raise RuntimeError(
            f"{_NAME}(): Expected query, key, and value to all be at least 2 dimensional, but got query.dim: "
            f"{query.ndim}, key.dim: {key.ndim} and value.dim: {value.ndim}"
        )
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise RuntimeError(
            f"{_NAME}(): expected query (..., L, E), key (..., S, E) and value (..., S, Ev), but got sizes "
            f"{list(query.shape)}, {list(key.shape)} and {list(value.shape)}"
        )
    if not 0 <= dropout_p <= 1:
        raise RuntimeError(f"{_NAME}(): dropout probability has to be between 0 and 1, but got {dropout_p}")
    if scale is not None and (isinstance(scale, bool) or not isinstance(scale, (int, float))):
        raise TypeError(f"{_NAME}(): argument 'scale' must be float, not {type(scale).__name__}")
    if mask is not None:
        _check_mask(query, key, need_tensor(_NAME, mask, "attn_mask", 4))


def _check_mask(query: Any, key: Any, mask: Any) -> None:
    if mask.dtype is not dtypes.bool_ and mask.dtype is not query.dtype:
        raise RuntimeError(
            f"{_NAME}(): Expected attn_mask dtype to be bool or to match query dtype, but got attn_mask.dtype: "
            f"{mask.dtype} and query.dtype: {query.dtype}"
        )
    target = (*query.shape[:-1], key.shape[-2])
    pairs = zip(reversed(mask.shape), reversed(target), strict=False)
    if mask.ndim > len(target) or any(size not in (1, wanted) for size, wanted in pairs):
        raise RuntimeError(
            f"{_NAME}(): expected an attn_mask that broadcasts to sizes {list(target)} (the size of each dimension "
            f"must match or be 1), but got {list(mask.shape)}"
        )
