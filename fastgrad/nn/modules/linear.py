"""Linear maps."""

from __future__ import annotations

import math
from typing import Any

from fastgrad.functions.creation import empty
from fastgrad.nn import functional as F
from fastgrad.nn import init
from fastgrad.nn.modules.module import Module
from fastgrad.nn.parameter import Parameter


class Identity(Module):
    """Returns its input; arguments of the constructor count for nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


class Linear(Module):
    """``x @ weight.T + bias``.

    Parameters
    ----------
    in_features, out_features : int
    bias : bool
    device : optional
    dtype : dtype, optional

    Attributes
    ----------
    weight : Parameter
        Of shape (out_features, in_features), uniform in ``[-1/sqrt(in_features), 1/sqrt(in_features)]`` at first.
    bias : Parameter or None
        Of shape (out_features,), from the same distribution.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.Linear(3, 2)(fg.zeros(5, 3)).shape
    fastgrad.Size([5, 2])
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty((out_features,), device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Any) -> Any:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


class Bilinear(Module):
    """``y_o = sum over i, j of x1_i weight_oij x2_j + bias_o``.

    Parameters
    ----------
    in1_features, in2_features, out_features : int
    bias : bool
    device : optional
    dtype : dtype, optional

    Raises
    ------
    ValueError
        If `in1_features` is not positive.
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(empty((out_features, in1_features, in2_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty((out_features,), device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, uniform in ``[-1/sqrt(in1_features), 1/sqrt(in1_features)]``."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Any, input2: Any) -> Any:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )
