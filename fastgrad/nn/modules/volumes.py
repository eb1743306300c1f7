"""Pooling of volumes, adaptive maxima, powers, and the way back from maxima, as layers; sliding blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastgrad.nn import functional as F
from fastgrad.nn.modules.module import Module
from fastgrad.nn.modules.pooling import WindowMaxima

Size = int | tuple[int, ...]


class MaxPool3d(WindowMaxima):
    """The maximum of each window of a volume; see `nn.functional.max_pool3d` for the settings."""

    def forward(self, input: Any) -> Any:
        return F.max_pool3d(input, *self._settings())


class AvgPool3d(Module):
    """The mean of each window of a volume; see `nn.functional.avg_pool3d` for the settings."""

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input: Any) -> Any:
        return F.avg_pool3d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AdaptiveAvgPool3d(Module):
    """The means of equal parts of a volume. See `fastgrad.nn.functional.adaptive_avg_pool3d`."""

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Any) -> Any:
        return F.adaptive_avg_pool3d(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class _AdaptiveMaxPool(Module):
    """The maxima of equal parts.

    Parameters
    ----------
    output_size : int, None or a tuple
    return_indices : bool
    """

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The maxima of equal parts of a signal. See `fastgrad.nn.functional.adaptive_max_pool1d`."""

    def forward(self, input: Any) -> Any:
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The maxima of equal parts of an image. See `fastgrad.nn.functional.adaptive_max_pool2d`."""

    def forward(self, input: Any) -> Any:
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The maxima of equal parts of a volume. See `fastgrad.nn.functional.adaptive_max_pool3d`."""

    def forward(self, input: Any) -> Any:
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class _LPPool(Module):
    """The norm of each window.

    Parameters
    ----------
    norm_type : float
    kernel_size : int or tuple of int
    stride : int or tuple of int, optional
    ceil_mode : bool
    """

    def __init__(
        self, norm_type: float, kernel_size: Size, stride: Size | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type, self.kernel_size = norm_type, kernel_size
        self.stride, self.ceil_mode = stride, ceil_mode

    def extra_repr(self) -> str:
        names = ("norm_type", "kernel_size", "stride", "ceil_mode")
        return ", ".join(f"{name}={getattr(self, name)}" for name in names)


class LPPool1d(_LPPool):
    """The norm of each window of a signal. See `fastgrad.nn.functional.lp_pool1d`."""

    def forward(self, input: Any) -> Any:
        return F.lp_pool1d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool2d(_LPPool):
    """The norm of each window of an image. See `fastgrad.nn.functional.lp_pool2d`."""

    def forward(self, input: Any) -> Any:
        return F.lp_pool2d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool3d(_LPPool):
    """The norm of each window of a volume. See `fastgrad.nn.functional.lp_pool3d`."""

    def forward(self, input: Any) -> Any:
        return F.lp_pool3d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class _MaxUnpool(Module):
    """Zeros but for maxima where they were.

    Parameters
    ----------
    kernel_size, stride, padding : int or tuple of int
        Those of the layer that found the maxima.
    """

    rank = 1

    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Size = 0) -> None:
        super().__init__()
        each = (kernel_size, stride if stride is not None else kernel_size, padding)
        self.kernel_size, self.stride, self.padding = (
            tuple(v) if isinstance(v, (tuple, list)) else (v,) * self.rank for v in each
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Maxima at their places in a signal. See `fastgrad.nn.functional.max_unpool1d`."""

    def forward(self, input: Any, indices: Any, output_size: Sequence[int] | None = None) -> Any:
        return F.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool2d(_MaxUnpool):
    """Maxima at their places in an image. See `fastgrad.nn.functional.max_unpool2d`."""

    rank = 2

    def forward(self, input: Any, indices: Any, output_size: Sequence[int] | None = None) -> Any:
        return F.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool3d(_MaxUnpool):
    """Maxima at their places in a volume. See `fastgrad.nn.functional.max_unpool3d`."""

    rank = 3

    def forward(self, input: Any, indices: Any, output_size: Sequence[int] | None = None) -> Any:
        return F.max_unpool3d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class Unfold(Module):
    """Sliding blocks as columns. See `fastgrad.nn.functional.unfold`."""

    def __init__(self, kernel_size: Size, dilation: Size = 1, padding: Size = 0, stride: Size = 1) -> None:
        super().__init__()
        self.kernel_size, self.dilation = kernel_size, dilation
        self.padding, self.stride = padding, stride

    def forward(self, input: Any) -> Any:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        names = ("kernel_size", "dilation", "padding", "stride")
        return ", ".join(f"{name}={getattr(self, name)}" for name in names)


class Fold(Unfold):
    """Images of sliding blocks, which are added up. See `fastgrad.nn.functional.fold`."""

    def __init__(
        self, output_size: Size, kernel_size: Size, dilation: Size = 1, padding: Size = 0, stride: Size = 1
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, input: Any) -> Any:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}, {super().extra_repr()}"
