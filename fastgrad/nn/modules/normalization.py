"""Normalisation of each sample: layers with weight and bias."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastgrad.functions.creation import empty
from fastgrad.nn import functional as F
from fastgrad.nn import init
from fastgrad.nn.modules.module import Module
from fastgrad.nn.parameter import Parameter


def register_affine(
    module: Module, names: Sequence[str], wanted: Sequence[bool], shape: Any, device: Any, dtype: Any
) -> None:
    """Register parameters of a shape, or None for those that are not wanted."""
    for name, is_wanted in zip(names, wanted, strict=True):
        value = Parameter(empty(shape, device=device, dtype=dtype)) if is_wanted else None
        module.register_parameter(name, value)


def reset_affine(module: Any) -> None:
    """Weights of one and biases of zero."""
    if module.weight is not None:
        init.ones_(module.weight)
    if getattr(module, "bias", None) is not None:
        init.zeros_(module.bias)


def _shape(normalized_shape: Any) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class LayerNorm(Module):
    """`fastgrad.nn.functional.layer_norm` with weight and bias.

    Parameters
    ----------
    normalized_shape : int or sequence of int
        The sizes of the last dimensions.
    eps : float
    elementwise_affine : bool
        Whether there is a weight (ones at first).
    bias : bool
        Whether there is a bias (zeros at first), given that there is a weight.
    device : optional
    dtype : dtype, optional

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.LayerNorm(3)(fg.tensor([[1.0, 2.0, 3.0]])).detach()
    tensor([[-1.2247,  0.0000,  1.2247]])
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        wanted = (elementwise_affine, elementwise_affine and bias)
        register_affine(self, ("weight", "bias"), wanted, self.normalized_shape, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to one and the bias to zero."""
        reset_affine(self)

    def forward(self, input: Any) -> Any:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """`fastgrad.nn.functional.rms_norm` with a weight.

    Parameters
    ----------
    normalized_shape : int or sequence of int
        The sizes of the last dimensions.
    eps : float, optional
        The spacing of numbers at 1 in the dtype of the input, if not given.
    elementwise_affine : bool
        Whether there is a weight (ones at first).
    device : optional
    dtype : dtype, optional
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        register_affine(self, ("weight",), (elementwise_affine,), self.normalized_shape, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to one."""
        reset_affine(self)

    def forward(self, x: Any) -> Any:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """`fastgrad.nn.functional.group_norm` with weight and bias.

    Parameters
    ----------
    num_groups, num_channels : int
        The former divides the latter.
    eps : float
    affine : bool
        Whether there is a weight (ones at first).
    device : optional
    dtype : dtype, optional
    bias : bool
        Whether there is a bias (zeros at first), given that there is a weight.

    Raises
    ------
    ValueError
        If `num_groups` does not divide `num_channels`.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_groups <= 0 or num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        register_affine(self, ("weight", "bias"), (affine, affine and bias), (num_channels,), device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to one and the bias to zero."""
        reset_affine(self)

    def forward(self, input: Any) -> Any:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        options = f"eps={self.eps}, affine={self.affine}, bias={self.bias is not None}"
        return f"{self.num_groups}, {self.num_channels}, {options}"
