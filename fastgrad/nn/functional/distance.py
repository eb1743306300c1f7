"""Distances and similarities of vectors."""

from __future__ import annotations

from typing import Any

from fastgrad.functions.arguments import as_dims, need_tensor, records
from fastgrad.functions.autocasting import full_precision_on_gpus
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.functions.reduce import sum as sum_
from fastgrad.functions.statistics import norm
from fastgrad.native.host.tables import BY_NAME
from fastgrad.nn.functional.pair_losses import same_sizes
from fastgrad.ops.call import invoke

_FLOOR, _COSINE = BY_NAME["clone.floor"], BY_NAME["cosine_similarity"]
_USUAL, _USUAL_EPS = BY_NAME["cosine_similarity.usual"], 1e-8


@public(method=False)
@planned
@full_precision_on_gpus
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = _USUAL_EPS) -> Any:
    """``sum(x1 x2) / (max(|x1|, eps) max(|x2|, eps))`` along a dimension; shapes broadcast.

    Raises
    ------
    RuntimeError
        If the shapes do not broadcast or a tensor is not floating point.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.functional.cosine_similarity(fg.tensor([[1.0, 0.0]]), fg.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """
    a, b = need_tensor("cosine_similarity", x1, "x1"), need_tensor("cosine_similarity", x2, "x2", 2)
    for x in (a, b):
        if not x.dtype.is_floating_point:
            raise RuntimeError(
                f"cosine_similarity(): expected tensors of a floating-point dtype, but got {x.dtype.name}"
            )
    a, b = same_sizes("cosine_similarity", a, b)
    if not records(a, b):
        operands = a, norm(a, 2, dim, keepdim=True), b, norm(b, 2, dim, keepdim=True)
        dims = as_dims("cosine_similarity", dim)
        if eps == _USUAL_EPS:
            return invoke(_USUAL, operands, 0, *dims)
        return invoke(_COSINE, (*operands, eps), 0, *dims)
    # As in PyTorch gradients pass lengths below `eps`, and what stands on the right is computed first.
    length, other_length = (invoke(_FLOOR, (norm(x, 2, dim, keepdim=True), eps)) for x in (a, b))
    right = b / other_length
    return sum_(a / length * right, dim)


@public(method=False)
@planned
def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    """The norm of ``x1 - x2 + eps`` along the last dimension.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.functional.pairwise_distance(fg.tensor([[3.0, 4.0]]), fg.tensor([[0.0, 0.0]]))
    tensor([5.0000])
    """
    a, b = need_tensor("pairwise_distance", x1, "x1"), need_tensor("pairwise_distance", x2, "x2", 2)
    return norm(a - b + eps, p, -1, keepdim)
