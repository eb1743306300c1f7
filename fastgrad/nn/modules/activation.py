"""Activation functions as layers."""

from __future__ import annotations

import warnings
from typing import Any

from fastgrad.functions.creation import empty
from fastgrad.nn import functional as F
from fastgrad.nn import init
from fastgrad.nn.modules.module import Module
from fastgrad.nn.parameter import Parameter


class _MayBeInPlace(Module):
    """A layer whose one option is to change its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ReLU(_MayBeInPlace):
    """``max(x, 0)``.

    Parameters
    ----------
    inplace : bool
        Change the input itself.
    """

    def forward(self, input: Any) -> Any:
        return F.relu(input, self.inplace)


class SiLU(_MayBeInPlace):
    """``x sigmoid(x)``. See `ReLU` for the parameter."""

    def forward(self, input: Any) -> Any:
        return F.silu(input, self.inplace)


class Mish(_MayBeInPlace):
    """``x tanh(softplus(x))``. See `ReLU` for the parameter."""

    def forward(self, input: Any) -> Any:
        return F.mish(input, self.inplace)


class Hardtanh(Module):
    """x bounded by `min_val` and `max_val`.

    Parameters
    ----------
    min_val, max_val : float
    inplace : bool
    min_value, max_value : float, optional
        Deprecated names of the bounds.

    Raises
    ------
    AssertionError
        If `max_val` is not greater than `min_val`.
    """

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        if min_value is not None:
            self._warn("min_value", "min_val")
            min_val = min_value
        if max_value is not None:
            self._warn("max_value", "max_val")
            max_val = max_value
        if max_val <= min_val:
            raise AssertionError(f"max_val ({max_val}) must be greater than min_val ({min_val})")
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    @staticmethod
    def _warn(old: str, new: str) -> None:
        warnings.warn(
            f"keyword argument `{old}` is deprecated and rename to `{new}`", FutureWarning, stacklevel=3
        )

    def forward(self, input: Any) -> Any:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}" + (", inplace=True" if self.inplace else "")


class ReLU6(Hardtanh):
    """``min(max(x, 0), 6)``. See `ReLU` for the parameter."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class GELU(Module):
    """``x Phi(x)`` with the normal distribution function.

    Parameters
    ----------
    approximate : "none" or "tanh"
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Any) -> Any:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, input: Any) -> Any:
        return F.tanh(input)


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``."""

    def forward(self, input: Any) -> Any:
        return F.sigmoid(input)


class LogSigmoid(Module):
    """The logarithm of the sigmoid."""

    def forward(self, input: Any) -> Any:
        return F.logsigmoid(input)


class Softplus(Module):
    """``log(1 + exp(beta x)) / beta``, and x itself where ``beta x`` is above the threshold.

    Parameters
    ----------
    beta, threshold : float
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Any) -> Any:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class LeakyReLU(Module):
    """x where it is positive, elsewhere ``negative_slope x``.

    Parameters
    ----------
    negative_slope : float
    inplace : bool
    """

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class ELU(Module):
    """x where it is positive, elsewhere ``alpha (exp(x) - 1)``.

    Parameters
    ----------
    alpha : float
    inplace : bool
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class PReLU(Module):
    """x where it is positive, elsewhere ``weight x``, with weights that are learned.

    Parameters
    ----------
    num_parameters : int
        1, or the number of channels.
    init : float
        Value of the weights at first.
    device : optional
    dtype : dtype, optional
    """

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(empty((num_parameters,), device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weights to what they are at first."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Any) -> Any:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class Softmax(Module):
    """``exp(x) / sum(exp(x))`` along a dimension.

    Parameters
    ----------
    dim : int, optional
        A call without it warns and picks one.
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        return F.softmax(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """The logarithm of `Softmax`."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        return F.log_softmax(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"
