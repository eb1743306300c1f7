"""Linear and bilinear maps."""

from __future__ import annotations

from typing import Any

from fastgrad.functions import linalg
from fastgrad.functions.arguments import need_tensor
from fastgrad.functions.autocasting import widest_on_gpus
from fastgrad.functions.linalg import linear
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.functions.shape import permute, reshape, unsqueeze

__all__ = ["bilinear", "linear"]


@public(method=False)
@planned
@widest_on_gpus
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """``y_o = sum over i, j of input1_i weight_oij input2_j + bias_o``.

    Parameters
    ----------
    input1 : Tensor
        Of shape (..., in1_features).
    input2 : Tensor
        Of shape (..., in2_features).
    weight : Tensor
        Of shape (out_features, in1_features, in2_features).
    bias : Tensor, optional
        Of shape (out_features,).

    Returns
    -------
    Tensor
        Of shape (..., out_features).

    Raises
    ------
    RuntimeError
        If sizes do not fit.
    """
    for k, (name, x) in enumerate((("input1", input1), ("input2", input2), ("weight", weight))):
        need_tensor("bilinear", x, name, k + 1)
    if weight.ndim != 3 or input1.ndim == 0 or input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(
            "bilinear(): expected inputs whose sizes agree but for the last and a weight of three dimensions, but got "
            f"{list(input1.shape)}, {list(input2.shape)} and {list(weight.shape)}"
        )
    n_out, n1, n2 = weight.shape
    if (input1.shape[-1], input2.shape[-1]) != (n1, n2):
        raise RuntimeError(
            f"bilinear(): expected inputs with {n1} and {n2} features, as the weight has, but got {input1.shape[-1]} "
            f"and {input2.shape[-1]}"
        )
    leading = tuple(input1.shape[:-1])
    x1 = reshape(input1, input1.numel() // max(n1, 1), n1)
    x2 = reshape(input2, x1.shape[0], n2)
    partial = reshape(linalg.mm(x1, reshape(permute(weight, 1, 0, 2), n1, n_out * n2)), -1, n_out, n2)
    out = reshape(linalg.bmm(partial, unsqueeze(x2, 2)), *leading, n_out)
    return out if bias is None else out + bias
