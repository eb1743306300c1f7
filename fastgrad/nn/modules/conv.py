"""Convolutions as layers."""

from __future__ import annotations

import math
from typing import Any

from fastgrad.functions.creation import empty
from fastgrad.nn import functional as F
from fastgrad.nn import init
from fastgrad.nn.modules.module import Module
from fastgrad.nn.parameter import Parameter

Size = int | tuple[int, ...]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


def _each(value: Any, rank: int) -> Any:
    """A setting for each dimension; a sequence is left as it is."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank


class _ConvNd(Module):
    """What the layers here have in common: settings, weights and their first values."""

    bias: Any
    padding: Any

    def __init__(
        self,
        rank: int,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size,
        padding: Size | str,
        dilation: Size,
        transposed: bool,
        output_padding: Size,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.dilation = (
            _each(v, rank) for v in (kernel_size, stride, dilation)
        )
        self.padding = padding if isinstance(padding, str) and not transposed else _each(padding, rank)
        self.output_padding, self.padding_mode, self.transposed = (
            _each(output_padding, rank),
            padding_mode,
            transposed,
        )
        self._check()
        self._reversed_padding_repeated_twice = self._sides()
        shape = (in_channels, out_channels // groups) if transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(empty((*shape, *self.kernel_size), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty((out_channels,), device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _check(self) -> None:
        name = type(self).__name__
        if self.groups <= 0:
            raise ValueError(f"{name}(): groups must be a positive integer, but got groups={self.groups}")
        for argument in ("in_channels", "out_channels"):
            channels = getattr(self, argument)
            if channels % self.groups:
                raise ValueError(
                    f"{name}(): {argument} must be divisible by groups, but got {argument}={channels} and "
                    f"groups={self.groups}"
                )
        if isinstance(self.padding, str):
            if self.padding not in ("same", "valid"):
                raise ValueError(
                    f"{name}(): Invalid padding string {self.padding!r}, should be one of 'same', 'valid'"
                )
            if self.padding == "same" and any(s != 1 for s in self.stride):
                raise ValueError(
                    f"{name}(): padding='same' is not supported for strided convolutions, but got stride={self.stride}"
                )
        if self.padding_mode not in _PADDING_MODES:
            raise ValueError(
                f"{name}(): padding_mode must be one of {', '.join(map(repr, _PADDING_MODES))}, but got "
                f"padding_mode={self.padding_mode!r}"
            )
        if self.transposed and self.padding_mode != "zeros":
            raise ValueError(
                f'{name}(): Only "zeros" padding mode is supported for {name}, but got '
                f"padding_mode={self.padding_mode!r}"
            )

    def _sides(self) -> list[int]:
        """The padding as `functional.pad` takes it: before and behind, the last dimension first."""
        if self.padding == "valid":
            return [0] * (2 * len(self.kernel_size))
        if self.padding == "same":
            totals = [d * (k - 1) for k, d in zip(self.kernel_size, self.dilation, strict=True)]
            return [side for total in reversed(totals) for side in (total // 2, total - total // 2)]
        return [p for p in reversed(self.padding) for _ in range(2)]

    def reset_parameters(self) -> None:
        """Draw weight and bias anew: uniform in plus or minus ``1 / sqrt(fan_in)``."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = self.weight.shape[1] * math.prod(self.kernel_size)
            if fan_in:
                init.uniform_(self.bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def extra_repr(self) -> str:
        rank = len(self.kernel_size)
        parts = [
            f"{self.in_channels}, {self.out_channels}", f"kernel_size={self.kernel_size}", f"stride={self.stride}"
        ]  # fmt: skip
        for name, usual in (("padding", 0), ("dilation", 1), ("output_padding", 0)):
            value = getattr(self, name)
            if value != (usual,) * rank:
                parts.append(f"{name}={value}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)

    def _padded(self, input: Any) -> tuple[Any, Any]:
        """The input and the padding that is left to the convolution."""
        if self.padding_mode == "zeros":
            return input, self.padding
        return F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode), 0


class Conv1d(_ConvNd):
    """A convolution of signals with learned weights; see `nn.functional.conv1d`.

    Parameters
    ----------
    in_channels, out_channels : int
    kernel_size, stride, padding, dilation, groups
        Settings of `nn.functional.conv1d`.
    bias : bool
    padding_mode : "zeros", "reflect", "replicate" or "circular"
        What the padding is made of.
    device : optional
    dtype : dtype, optional

    Attributes
    ----------
    weight : Parameter
        Of shape (out_channels, in_channels / groups, kernel_size), uniform in ``[-1/sqrt(n), 1/sqrt(n)]`` at first,
        where n is the number of weights of one output.
    bias : Parameter or None
        Of shape (out_channels,), from the same distribution.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.Conv1d(3, 4, 5, padding=2)(fg.zeros(2, 3, 10)).shape
    fastgrad.Size([2, 4, 10])
    """

    def __init__(
        self,
        in_channels: int,
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
        super().__init__(
            1, in_channels, out_channels, kernel_size, stride, padding, dilation, False, 0, groups, bias, padding_mode,
            device, dtype,
        )  # fmt: skip

    def forward(self, input: Any) -> Any:
        x, padding = self._padded(input)
        return F.conv1d(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


class Conv2d(_ConvNd):
    """A convolution of images with learned weights; see `nn.functional.conv2d`.

    Parameters
    ----------
    in_channels, out_channels : int
    kernel_size, stride, padding, dilation, groups
        Settings of `nn.functional.conv2d`.
    bias : bool
    padding_mode : "zeros", "reflect", "replicate" or "circular"
        What the padding is made of.
    device : optional
    dtype : dtype, optional

    Attributes
    ----------
    weight : Parameter
        Of shape (out_channels, in_channels / groups, height, width), uniform in ``[-1/sqrt(n), 1/sqrt(n)]`` at first,
        where n is the number of weights of one output.
    bias : Parameter or None
        Of shape (out_channels,), from the same distribution.

    Raises
    ------
    ValueError
        If channels are not divisible by groups, or there is no such padding.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.Conv2d(3, 8, kernel_size=3, padding="same")(fg.zeros(2, 3, 6, 5)).shape
    fastgrad.Size([2, 8, 6, 5])
    >>> fg.nn.Conv2d(4, 8, (3, 1), stride=2, groups=2, bias=False)
    Conv2d(4, 8, kernel_size=(3, 1), stride=(2, 2), groups=2, bias=False)
    """

    def __init__(
        self,
        in_channels: int,
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
        super().__init__(
            2, in_channels, out_channels, kernel_size, stride, padding, dilation, False, 0, groups, bias, padding_mode,
            device, dtype,
        )  # fmt: skip

    def forward(self, input: Any) -> Any:
        x, padding = self._padded(input)
        return F.conv2d(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


class Conv3d(_ConvNd):
    """A convolution of volumes with learned weights; see `nn.functional.conv3d`.

    Parameters and attributes are those of `Conv2d`, for three dimensions.

    Raises
    ------
    ValueError
        If channels are not divisible by groups, or there is no such padding.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.Conv3d(3, 4, (1, 3, 3), padding=(0, 1, 1))(fg.zeros(2, 3, 4, 6, 5)).shape
    fastgrad.Size([2, 4, 4, 6, 5])
    """

    def __init__(
        self,
        in_channels: int,
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
        super().__init__(
            3, in_channels, out_channels, kernel_size, stride, padding, dilation, False, 0, groups, bias, padding_mode,
            device, dtype,
        )  # fmt: skip

    def forward(self, input: Any) -> Any:
        x, padding = self._padded(input)
        return F.conv3d(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


class _ConvTransposeNd(_ConvNd):
    """What the transposed convolutions have in common."""

    def _output_padding(self, input: Any, output_size: Any) -> tuple[int, ...]:
        """The padding of the output that gives `output_size`."""
        if output_size is None:
            return self.output_padding  # type: ignore[no-any-return]
        rank, name = len(self.kernel_size), type(self).__name__
        sizes = [int(n) for n in output_size]
        if len(sizes) == input.ndim and input.ndim in (rank + 1, rank + 2):
            sizes = sizes[-rank:]
        if len(sizes) != rank:
            raise ValueError(
                f"{name}(): for {input.ndim}D input, output_size must have {rank} or {input.ndim} elements (got "
                f"{len(sizes)})"
            )
        least = [
            (n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, s, p, d, k in zip(
                input.shape[-rank:], self.stride, self.padding, self.dilation, self.kernel_size, strict=True
            )
        ]
        most = [n + s - 1 for n, s in zip(least, self.stride, strict=True)]
        if any(not low <= n <= high for low, n, high in zip(least, sizes, most, strict=True)):
            raise ValueError(
                f"{name}(): requested an output size of {sizes}, but valid sizes range from {least} to {most} (for an "
                f"input of {list(input.shape[-rank:])})"
            )
        return tuple(n - low for n, low in zip(sizes, least, strict=True))


class ConvTranspose1d(_ConvTransposeNd):
    """A transposed convolution of signals with learned weights; see `nn.functional.conv_transpose1d`.

    Parameters and attributes are those of `ConvTranspose2d`, for one dimension.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.ConvTranspose1d(3, 2, 4, stride=2)(fg.zeros(1, 3, 5)).shape
    fastgrad.Size([1, 2, 12])
    """

    def __init__(
        self,
        in_channels: int,
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
        super().__init__(
            1, in_channels, out_channels, kernel_size, stride, padding, dilation, True, output_padding, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Any, output_size: Any = None) -> Any:
        extra = self._output_padding(input, output_size)
        return F.conv_transpose1d(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )


class ConvTranspose2d(_ConvTransposeNd):
    """A transposed convolution of images with learned weights; see `nn.functional.conv_transpose2d`.

    Parameters
    ----------
    in_channels, out_channels : int
    kernel_size, stride, padding, output_padding, dilation, groups
        Settings of `nn.functional.conv_transpose2d`.
    bias : bool
    padding_mode : "zeros"
    device : optional
    dtype : dtype, optional

    Attributes
    ----------
    weight : Parameter
        Of shape (in_channels, out_channels / groups, height, width).
    bias : Parameter or None
        Of shape (out_channels,).

    Notes
    -----
    A call takes an `output_size` as well, which replaces `output_padding`: with a stride, several sizes are possible.

    Examples
    --------
    >>> import fastgrad as fg
    >>> up = fg.nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1)
    >>> up(fg.zeros(1, 3, 4, 4)).shape
    fastgrad.Size([1, 2, 7, 7])
    >>> up(fg.zeros(1, 3, 4, 4), output_size=(8, 8)).shape
    fastgrad.Size([1, 2, 8, 8])
    """

    def __init__(
        self,
        in_channels: int,
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
        super().__init__(
            2, in_channels, out_channels, kernel_size, stride, padding, dilation, True, output_padding, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Any, output_size: Any = None) -> Any:
        extra = self._output_padding(input, output_size)
        return F.conv_transpose2d(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )


class ConvTranspose3d(_ConvTransposeNd):
    """A transposed convolution of volumes with learned weights; see `nn.functional.conv_transpose3d`.

    Parameters and attributes are those of `ConvTranspose2d`, for three dimensions.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.ConvTranspose3d(3, 2, 2, stride=2)(fg.zeros(1, 3, 2, 4, 5)).shape
    fastgrad.Size([1, 2, 4, 8, 10])
    """

    def __init__(
        self,
        in_channels: int,
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
        super().__init__(
            3, in_channels, out_channels, kernel_size, stride, padding, dilation, True, output_padding, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Any, output_size: Any = None) -> Any:
        extra = self._output_padding(input, output_size)
        return F.conv_transpose3d(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )
