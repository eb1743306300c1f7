"""Distances between tensors, and between rows of matrices."""

from __future__ import annotations

import math
from typing import Any

from fastgrad.functions import elementwise
from fastgrad.functions.arguments import need_tensor
from fastgrad.functions.arrangement import common_sizes, triu_indices
from fastgrad.functions.index import index_select
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.functions.statistics import norm
from fastgrad.ops import distances
from fastgrad.ops.call import float_bits, invoke


@public()
@planned
def dist(input: Any, other: Any, p: float = 2) -> Any:
    """The norm of order `p` of the difference of two tensors."""
    return norm(need_tensor("dist", input) - need_tensor("dist", other, "other", 2), p)


@public(method=False)
@planned
def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Any:
    """The distances of order `p` between all rows of two tensors.

    Parameters
    ----------
    x1, x2 : Tensor
        Of shapes (..., n, m) and (..., k, m).
    p : float
    compute_mode : str
        Changes nothing: differences are taken, which is no slower than products, and closer.

    Returns
    -------
    Tensor
        Of shape (..., n, k).

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.cdist(fg.tensor([[0.0, 0.0]]), fg.tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """
    need_tensor("cdist", x1, "x1")
    need_tensor("cdist", x2, "x2", 2)
    if x1.dim() < 2 or x2.dim() < 2 or x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"cdist(): expected matrices with as many columns, but got shapes {list(x1.shape)} and {list(x2.shape)}"
        )
    if not isinstance(p, (int, float)) or not p >= 0:
        raise RuntimeError(f"cdist(): only supports non-negative p values, but got {p}")
    return _distances(x1, x2, p)


def _distances(x1: Any, x2: Any, p: float) -> Any:
    """`cdist`, where arguments are known to be right."""
    kind = x1.dtype
    if kind != x2.dtype or not kind.is_floating_point:
        return _lengths(x1.unsqueeze(-2) - x2.unsqueeze(-3), p)
    (n, m), k = x1.shape[-2:], x2.shape[-2]
    batch = common_sizes("cdist", (x1.shape[:-2], x2.shape[:-2]))
    x1, x2 = (x if x.shape[:-2] == batch else x.expand(*batch, -1, -1) for x in (x1, x2))
    count, sizes = math.prod(batch), (*batch, n, k)
    integers = (count, n, k, m, float_bits(p), 0, count * n, count * k)
    return invoke(distances.cdist, (x1, x2), *integers, len(sizes), *sizes)


def _lengths(difference: Any, p: float) -> Any:
    """The norms of order `p` of rows; that of order 0 has a slope, which is zero, where `norm` has none."""
    if p == 0 and difference.shape[-1]:
        steps = elementwise.masked_fill(difference, (difference == 0) | (difference != 0), 0.0)
        return (steps + (difference != 0).to(difference.dtype)).sum(-1)
    return norm(difference, p, -1) if difference.shape[-1] else difference.sum(-1)


@public(method=False)
def pdist(input: Any, p: float = 2.0) -> Any:
    """The distances of order `p` between each row of a matrix and all that come behind it.

    Parameters
    ----------
    input : Tensor
        Of shape (n, m).
    p : float

    Returns
    -------
    Tensor
        Of shape (n (n - 1) / 2,): what stands in `cdist` above the diagonal, row by row.

    Raises
    ------
    RuntimeError
        If `input` is no matrix of floating-point numbers, or `p` is negative.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.pdist(fg.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    tensor([5.0000, 1.0000, 4.2426])
    """
    if need_tensor("pdist", input).dim() != 2:
        raise RuntimeError(f"pdist(): only supports 2D tensors, got: {input.dim()}D")
    if not input.is_floating_point():
        raise RuntimeError(f"pdist(): only supports floating-point dtypes, but got {input.dtype}")
    if not isinstance(p, (int, float)) or not p >= 0:
        raise RuntimeError(f"pdist(): only supports non-negative p values, but got {p}")
    n = input.shape[0]
    one, other = triu_indices(n, n, 1, device=input.device)
    return index_select(_distances(input, input, p).flatten(), 0, one * n + other)
