"""Activation functions as layers."""

from __future__ import annotations

import warnings
from typing import Any

from fastgrad.functions.arguments import need_tensor
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


class Hardsigmoid(_MayBeInPlace):
    """``min(max(x + 3, 0), 6) / 6``. See `ReLU` for the parameter."""

    def forward(self, input: Any) -> Any:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardswish(_MayBeInPlace):
    """``x min(max(x + 3, 0), 6) / 6``. See `ReLU` for the parameter."""

    def forward(self, input: Any) -> Any:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class SELU(_MayBeInPlace):
    """`ELU` with the two numbers that keep mean and variance. See `ReLU` for the parameter."""

    def forward(self, input: Any) -> Any:
        return F.selu(input, self.inplace)


class CELU(Module):
    """x where it is positive, elsewhere ``alpha (exp(x / alpha) - 1)``.

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
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class _Shrink(Module):
    """A layer with one bound.

    Parameters
    ----------
    lambd : float
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Hardshrink(_Shrink):
    """x where its absolute value is above `lambd`, elsewhere zero."""

    def forward(self, input: Any) -> Any:
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """x moved towards zero by `lambd`, and zero where it is nearer."""

    def forward(self, input: Any) -> Any:
        return F.softshrink(input, self.lambd)


class Softsign(Module):
    """``x / (1 + |x|)``."""

    def forward(self, input: Any) -> Any:
        return F.softsign(input)


class Tanhshrink(Module):
    """``x - tanh(x)``."""

    def forward(self, input: Any) -> Any:
        return F.tanhshrink(input)


class Threshold(Module):
    """x where it is above `threshold`, elsewhere `value`.

    Parameters
    ----------
    threshold, value : float
    inplace : bool
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}" + (", inplace=True" if self.inplace else "")


class RReLU(Module):
    """x where it is positive, elsewhere x times a factor: random in training, otherwise the mean of the bounds.

    Parameters
    ----------
    lower, upper : float
    inplace : bool
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")


class GLU(Module):
    """The first half of a tensor times the sigmoid of the second one.

    Parameters
    ----------
    dim : int
        The dimension to halve.
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmin(Module):
    """`Softmax` of ``-x`` along a dimension."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        return F.softmin(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax2d(Module):
    """`Softmax` over the channels of images of shape (N, C, H, W) or (C, H, W).

    Raises
    ------
    ValueError
        From a call with another number of dimensions.
    """

    def forward(self, input: Any) -> Any:
        if need_tensor("Softmax2d", input).dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3, _stacklevel=5)
