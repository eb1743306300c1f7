"""Pooling as layers."""

from __future__ import annotations

from typing import Any

from fastgrad.nn import functional as F
from fastgrad.nn.modules.module import Module

Size = int | tuple[int, ...]


class WindowMaxima(Module):
    """What the layers for maxima have in common."""

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def extra_repr(self) -> str:
        names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
        return ", ".join(f"{name}={getattr(self, name)}" for name in names)

    def _settings(self) -> tuple[Any, ...]:
        return self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices


class MaxPool1d(WindowMaxima):
    """The maximum of each window of a signal; see `nn.functional.max_pool1d` for the settings.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.MaxPool1d(2)(fg.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[3., 2.]])
    """

    def forward(self, input: Any) -> Any:
        return F.max_pool1d(input, *self._settings())


class MaxPool2d(WindowMaxima):
    """The maximum of each window of an image; see `nn.functional.max_pool2d` for the settings.

    Parameters
    ----------
    kernel_size : int or tuple of int
    stride : int or tuple of int, optional
        `kernel_size` if not given.
    padding, dilation : int or tuple of int
    return_indices, ceil_mode : bool

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.MaxPool2d(2)(fg.zeros(1, 3, 6, 4)).shape
    fastgrad.Size([1, 3, 3, 2])
    """

    def forward(self, input: Any) -> Any:
        return F.max_pool2d(input, *self._settings())


class _AvgPoolNd(Module):
    """What the layers for means have in common."""

    kernel_size: Any
    stride: Any
    padding: Any

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """The mean of each window of a signal; see `nn.functional.avg_pool1d` for the settings.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.AvgPool1d(2)(fg.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[2., 1.]])
    """

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        each = (kernel_size, stride if stride is not None else kernel_size, padding)
        self.kernel_size, self.stride, self.padding = (
            tuple(v) if isinstance(v, (tuple, list)) else (v,) for v in each
        )
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Any) -> Any:
        return F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )


class AvgPool2d(_AvgPoolNd):
    """The mean of each window of an image; see `nn.functional.avg_pool2d` for the settings.

    Parameters
    ----------
    kernel_size : int or tuple of int
    stride : int or tuple of int, optional
        `kernel_size` if not given.
    padding : int or tuple of int
    ceil_mode, count_include_pad : bool
    divisor_override : int, optional

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.AvgPool2d(3, stride=2)(fg.zeros(1, 3, 7, 5)).shape
    fastgrad.Size([1, 3, 3, 2])
    """

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
        self.padding, self.ceil_mode, self.count_include_pad = padding, ceil_mode, count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Any) -> Any:
        return F.avg_pool2d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
            self.divisor_override,
        )  # fmt: skip


class _AdaptiveAvgPoolNd(Module):
    """What the layers for means of equal parts have in common."""

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """The means of equal parts of a signal; see `nn.functional.adaptive_avg_pool1d`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.AdaptiveAvgPool1d(2)(fg.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[2., 1.]])
    """

    def forward(self, input: Any) -> Any:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """The means of equal parts of an image; see `nn.functional.adaptive_avg_pool2d`.

    Parameters
    ----------
    output_size : int, None or a tuple of two
        Height and width of the result; None keeps that of the input.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.AdaptiveAvgPool2d((1, None))(fg.zeros(2, 3, 6, 4)).shape
    fastgrad.Size([2, 3, 1, 4])
    """

    def forward(self, input: Any) -> Any:
        return F.adaptive_avg_pool2d(input, self.output_size)
