"""Layers that learn from the first input how many features or channels it has."""

from __future__ import annotations

from typing import Any

from fastgrad import dtypes
from fastgrad.autograd.modes import no_grad
from fastgrad.functions.arguments import need_tensor
from fastgrad.functions.creation import tensor
from fastgrad.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from fastgrad.nn.modules.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    Size,
)
from fastgrad.nn.modules.instances import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from fastgrad.nn.modules.lazy import LazyModuleMixin
from fastgrad.nn.modules.linear import Linear
from fastgrad.nn.parameter import UninitializedBuffer, UninitializedParameter


class LazyLinear(LazyModuleMixin, Linear):
    """A `Linear` that takes ``in_features`` from the first input's last dimension; see `LazyModuleMixin`.

    Parameters
    ----------
    out_features : int
    bias : bool
    device : optional
    dtype : dtype, optional

    Examples
    --------
    >>> import fastgrad as fg
    >>> layer = fg.nn.LazyLinear(3)
    >>> layer.weight
    <UninitializedParameter>
    >>> _ = layer(fg.ones(4))
    >>> layer.weight.shape
    fastgrad.Size([3, 4])
    """

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, if they have sizes."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Any) -> None:
        """Take the number of features from an input."""
        features = need_tensor("LazyLinear", input).shape[-1]
        if self.has_uninitialized_params():
            with no_grad():
                self.in_features = features
                self.weight.materialize((self.out_features, features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:  # a state dict was loaded
            if features != self.weight.shape[-1]:
                raise AssertionError(
                    f"The in_features inferred from input: {features} is not equal to in_features from self.weight: "
                    f"{self.weight.shape[-1]}"
                )
            self.in_features = features


class _LazyConv(LazyModuleMixin):
    """What convolutions have in common that take ``in_channels`` from the first input; see `LazyModuleMixin`.

    Parameters
    ----------
    out_channels : int
    *args, **kwargs
        As those of the layer behind its ``in_channels`` and ``out_channels``.
    """

    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    groups: int
    transposed: bool
    weight: Any
    bias: Any

    def _begin(
        self, out_channels: int, *settings: Any, bias: bool, device: Any, dtype: Any, **more: Any
    ) -> None:
        LazyModuleMixin.__init__(self, 0, 0, *settings, bias=False, **more)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, if they have sizes."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Any, *args: Any, **kwargs: Any) -> None:
        """Take the number of channels from an input."""
        name = type(self).__name__
        rank, dims = len(self.kernel_size), need_tensor(name, input).dim()
        if dims not in (rank + 1, rank + 2):
            raise RuntimeError(
                f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, but got input of size: "
                f"{input.shape}"
            )
        channels = input.shape[dims - rank - 1]
        if self.has_uninitialized_params():
            if channels % self.groups:
                raise ValueError(
                    f"in_channels must be divisible by groups, but got in_channels={channels} and groups={self.groups}"
                )
            out = self.out_channels
            sizes = (channels, out // self.groups) if self.transposed else (out, channels // self.groups)
            with no_grad():
                self.in_channels = channels
                self.weight.materialize((*sizes, *self.kernel_size))
                if self.bias is not None:
                    self.bias.materialize((out,))
                self.reset_parameters()
        if self.in_channels == 0:  # a state dict was loaded
            known = self.weight.shape[0] if self.transposed else self.weight.shape[1] * self.groups
            if channels != known:
                raise AssertionError(
                    f"The in_channels inferred from input: {channels} is not equal to in_channels from self.weight: "
                    f"{known}"
                )
            self.in_channels = channels


class _Straight(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self._begin(
            out_channels, kernel_size, stride, padding, dilation, groups, padding_mode=padding_mode, bias=bias,
            device=device, dtype=dtype,
        )  # fmt: skip


class _Transposed(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self._begin(
            out_channels, kernel_size, stride, padding, output_padding, groups, dilation=dilation,
            padding_mode=padding_mode, bias=bias, device=device, dtype=dtype,
        )  # fmt: skip


class LazyConv1d(_Straight, Conv1d):  # type: ignore[misc]
    """A `Conv1d` that takes ``in_channels`` from the first input; see `LazyModuleMixin`.

    Parameters
    ----------
    out_channels : int
    kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype
        As those of `Conv1d`.

    Raises
    ------
    RuntimeError, ValueError
        In the first call, if the input has another number of dimensions, or channels that groups do not divide.
    """

    cls_to_become = Conv1d


class LazyConv2d(_Straight, Conv2d):  # type: ignore[misc]
    """A `Conv2d` that takes ``in_channels`` from the first input; see `LazyConv1d`."""

    cls_to_become = Conv2d


class LazyConv3d(_Straight, Conv3d):  # type: ignore[misc]
    """A `Conv3d` that takes ``in_channels`` from the first input; see `LazyConv1d`."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_Transposed, ConvTranspose1d):  # type: ignore[misc]
    """A `ConvTranspose1d` that takes ``in_channels`` from the first input; see `LazyConv1d`."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_Transposed, ConvTranspose2d):  # type: ignore[misc]
    """A `ConvTranspose2d` that takes ``in_channels`` from the first input; see `LazyConv1d`."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_Transposed, ConvTranspose3d):  # type: ignore[misc]
    """A `ConvTranspose3d` that takes ``in_channels`` from the first input; see `LazyConv1d`."""

    cls_to_become = ConvTranspose3d


class _LazyNorm(LazyModuleMixin):
    """What normalisations have in common that take ``num_features`` from the first input; see `LazyModuleMixin`.

    Parameters
    ----------
    eps : float
    momentum : float or None
    affine, track_running_stats : bool
    device : optional
    dtype : dtype, optional
    bias : bool
    """

    num_features: int
    weight: Any
    bias: Any
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any
    rank: int | None = None  # dimensions behind the channels, where there need not be one before them

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = tensor(0, dtype=dtypes.int64, device=device)

    def reset_parameters(self) -> None:
        """Set weight, bias and running statistics back, if they have sizes."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Any) -> None:
        """Take the number of channels from an input."""
        self._check_input_dim(need_tensor(type(self).__name__, input))  # type: ignore[attr-defined]
        channels = input.shape[1 if self.rank is None else input.dim() - self.rank - 1]
        if self.has_uninitialized_params():
            self.num_features = channels
            for each in (self.weight, self.bias, self.running_mean, self.running_var):
                if each is not None:
                    each.materialize((channels,))
            self.reset_parameters()
        if self.num_features == 0:  # a state dict was loaded
            known = next((t for t in (self.weight, self.running_mean) if t is not None), None)
            self.num_features = channels if known is None else known.shape[0]


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """A `BatchNorm1d` that takes ``num_features`` from the first input; see `LazyModuleMixin`.

    Parameters
    ----------
    eps, momentum, affine, track_running_stats, device, dtype, bias
        As those of `BatchNorm1d`.
    """

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """A `BatchNorm2d` that takes ``num_features`` from the first input; see `LazyBatchNorm1d`."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """A `BatchNorm3d` that takes ``num_features`` from the first input; see `LazyBatchNorm1d`."""

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    """An `InstanceNorm1d` that takes ``num_features`` from the first input; see `LazyModuleMixin`.

    Parameters
    ----------
    eps, momentum, affine, track_running_stats, device, dtype, bias
        As those of `InstanceNorm1d`, but that `affine` and `track_running_stats` are true by default.
    """

    cls_to_become = InstanceNorm1d
    rank = 1


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    """An `InstanceNorm2d` that takes ``num_features`` from the first input; see `LazyInstanceNorm1d`."""

    cls_to_become = InstanceNorm2d
    rank = 2


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    """An `InstanceNorm3d` that takes ``num_features`` from the first input; see `LazyInstanceNorm1d`."""

    cls_to_become = InstanceNorm3d
    rank = 3
