"""The cross entropy behind a linear map, as a layer with that map."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fastgrad.functions.arguments import need_optional
from fastgrad.nn import functional as F
from fastgrad.nn.functional.linear_losses import LinearCrossEntropyOptions
from fastgrad.nn.modules.linear import Linear
from fastgrad.nn.modules.loss import WeightedLoss

__all__ = ["LinearCrossEntropyLoss", "LinearCrossEntropyOptions"]


class LinearCrossEntropyLoss(WeightedLoss):
    """The cross entropy of logits that a linear map makes. See `fastgrad.nn.functional.linear_cross_entropy`.

    Parameters
    ----------
    in_features, num_classes : int
    out_features : sequence of int
        Further dimensions of the logits, behind the classes.
    bias : bool
        Whether the map adds one.
    device : optional
    dtype : dtype, optional
    reduction : "none", "mean" or "sum"
    weight : Tensor, optional
        A factor for each class.
    ignore_index : int, optional
    label_smoothing : float in [0, 1]
    options : LinearCrossEntropyOptions, optional

    Attributes
    ----------
    linear : Linear
        The map.

    Raises
    ------
    RuntimeError
        If `weight` has not one factor for each class, or `label_smoothing` is out of its range.

    Examples
    --------
    >>> import fastgrad as fg
    >>> loss = fg.nn.LinearCrossEntropyLoss(3, 5)
    >>> loss(fg.ones(4, 3), fg.tensor([0, 1, 2, 4])).shape
    fastgrad.Size([])
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: Sequence[int] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Any = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        need_optional("LinearCrossEntropyLoss", weight, "weight", 8)
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        super().__init__(weight, reduction=reduction)
        self.num_classes = num_classes
        self.out_features = tuple(out_features)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.linear = Linear(
            in_features,
            math.prod(self.out_features, start=num_classes),
            bias=bias,
            device=device,
            dtype=dtype,
        )
        self.options = options

    def forward(self, input: Any, target: Any) -> Any:
        outer, bias = (self.num_classes, *self.out_features), self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*outer, self.linear.in_features),
            target,
            linear_bias=None if bias is None else bias.reshape(outer),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
            f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
