"""Convolutions."""

from __future__ import annotations

from typing import Any

from fastgrad.functions.arguments import as_index, need_tensor
from fastgrad.functions.autocasting import lower_precision
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.records import TENSOR
from fastgrad.nn.functional.convolved import convolved
from fastgrad.nn.functional.padding import pad
from fastgrad.nn.functional.windows import Setting, are_plain, at_least, each_dim, remembered

_DTYPE, _NDIM = TENSOR.fields["dtype"][0], TENSOR.fields["ndim"][0]
_field = rt.field


@public(method=False)
@planned
@lower_precision
def conv1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] | str = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
) -> Any:
    """The convolution of signals; see `conv2d`, with one dimension less.

    Parameters
    ----------
    input : Tensor
        Signals (N, C, L), or one signal (C, L).
    weight : Tensor
        Shape (O, C / groups, K).
    bias : Tensor, optional
        Shape (O,).
    stride, padding, dilation, groups
        As in `conv2d`.

    Returns
    -------
    Tensor
        Shape (N, O, (L + 2 padding - dilation (K - 1) - 1) // stride + 1).

    Examples
    --------
    >>> import fastgrad as fg
    >>> x, w = fg.tensor([[[1.0, 2.0, 4.0]]]), fg.tensor([[[-1.0, 1.0]]])
    >>> fg.nn.functional.conv1d(x, w)
    tensor([[[1., 2.]]])
    """
    return _convolve("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


@public(method=False)
@planned
@lower_precision
def conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] | str = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
) -> Any:
    """The convolution of images, which neural networks define as the cross-correlation::

        y[n, o, i, j] = bias[o] + sum over c, k, l of
                        weight[o, c, k, l] * x[n, c, i * stride - padding + k * dilation, ...]

    Parameters
    ----------
    input : Tensor
        Images (N, C, H, W), or one image (C, H, W).
    weight : Tensor
        Shape (O, C / groups, KH, KW), of the dtype of `input`.
    bias : Tensor, optional
        Shape (O,).
    stride : int or tuple of int
        How far apart the windows are, down and across.
    padding : int, tuple of int, "valid" or "same"
        How many zeros stand around the image; "valid" is 0, and "same" as many as give results of the image's size (for
        stride 1; where their number is odd, one more stands behind than before).
    dilation : int or tuple of int
        How far apart the elements of a window are.
    groups : int
        Into how many groups channels and outputs are divided; those of a group see each other only.

    Returns
    -------
    Tensor
        Shape (N, O, (H + 2 padding - dilation (KH - 1) - 1) // stride + 1, ...).

    Raises
    ------
    RuntimeError
        If sizes, dtypes or settings do not fit each other.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.arange(9.0).reshape(1, 1, 3, 3)
    >>> fg.nn.functional.conv2d(x, fg.ones(1, 1, 2, 2))
    tensor([[[[ 8., 12.],
              [20., 24.]]]])
    """
    return _convolve("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


@public(method=False)
@planned
@lower_precision
def conv3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] | str = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
) -> Any:
    """The convolution of volumes; see `conv2d`, with one dimension more.

    Parameters
    ----------
    input : Tensor
        Volumes (N, C, D, H, W), or one volume (C, D, H, W).
    weight : Tensor
        Shape (O, C / groups, KD, KH, KW), of the dtype of `input`.
    bias : Tensor, optional
        Shape (O,).
    stride, padding, dilation, groups
        As in `conv2d`; deep, down and across.

    Returns
    -------
    Tensor
        Shape (N, O, (D + 2 padding - dilation (KD - 1) - 1) // stride + 1, ...).

    Raises
    ------
    RuntimeError
        If sizes, dtypes or settings do not fit each other.

    Notes
    -----
    It works on a copy of the input in which the slices that a window sees stand side by side: KD times as large for
    stride 1.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.arange(8.0).reshape(1, 1, 2, 2, 2)
    >>> fg.nn.functional.conv3d(x, fg.ones(1, 1, 2, 1, 1))
    tensor([[[[[ 4.,  6.],
               [ 8., 10.]]]]])
    """
    return _convolve("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


@public(method=False)
@planned
@lower_precision
def conv_transpose1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    output_padding: int | tuple[int, ...] = 0,
    groups: int = 1,
    dilation: int | tuple[int, ...] = 1,
) -> Any:
    """The transposed convolution of signals; see `conv_transpose2d`, with one dimension less.

    Parameters
    ----------
    input : Tensor
        Signals (N, C, L), or one signal (C, L).
    weight : Tensor
        Shape (C, O / groups, K).
    bias : Tensor, optional
        Shape (O,).
    stride, padding, output_padding, groups, dilation
        As in `conv_transpose2d`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x, w = fg.tensor([[[1.0, 2.0]]]), fg.tensor([[[1.0, 10.0]]])
    >>> fg.nn.functional.conv_transpose1d(x, w)
    tensor([[[ 1., 12., 20.]]])
    """
    return _transposed(
        "conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


@public(method=False)
@planned
@lower_precision
def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    output_padding: int | tuple[int, ...] = 0,
    groups: int = 1,
    dilation: int | tuple[int, ...] = 1,
) -> Any:
    """The transpose of `conv2d` as a linear map of images: what carries gradients back through a convolution.

    Parameters
    ----------
    input : Tensor
        Images (N, C, H, W), or one image (C, H, W).
    weight : Tensor
        Shape (C, O / groups, KH, KW): that of the convolution which this is the transpose of.
    bias : Tensor, optional
        Shape (O,).
    stride, padding, dilation : int or tuple of int
        Those of the convolution.
    output_padding : int or tuple of int
        How many rows and columns the result has beyond the fewest that fit: a stride leaves that open.
    groups : int

    Returns
    -------
    Tensor
        Shape (N, O, (H - 1) stride - 2 padding + dilation (KH - 1) + output_padding + 1, ...).

    Raises
    ------
    RuntimeError
        If sizes, dtypes or settings do not fit each other.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.tensor([[[[1.0, 2.0]]]])
    >>> fg.nn.functional.conv_transpose2d(x, fg.ones(1, 1, 2, 2), stride=2)
    tensor([[[[1., 1., 2., 2.],
              [1., 1., 2., 2.]]]])
    """
    return _transposed(
        "conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


@public(method=False)
@planned
@lower_precision
def conv_transpose3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    output_padding: int | tuple[int, ...] = 0,
    groups: int = 1,
    dilation: int | tuple[int, ...] = 1,
) -> Any:
    """The transposed convolution of volumes; see `conv_transpose2d`, with one dimension more.

    Parameters
    ----------
    input : Tensor
        Volumes (N, C, D, H, W), or one volume (C, D, H, W).
    weight : Tensor
        Shape (C, O / groups, KD, KH, KW).
    bias : Tensor, optional
        Shape (O,).
    stride, padding, output_padding, groups, dilation
        As in `conv_transpose2d`; deep, down and across.

    Raises
    ------
    RuntimeError
        If sizes, dtypes or settings do not fit each other.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.tensor([[[[[1.0, 2.0]]]]])
    >>> fg.nn.functional.conv_transpose3d(x, fg.ones(1, 1, 2, 1, 1), stride=(2, 1, 1))
    tensor([[[[[1., 2.]],
    <BLANKLINE>
              [[1., 2.]]]]])
    """
    return _transposed(
        "conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


@public(method=False)
def conv_tbc(input: Any, weight: Any, bias: Any, pad: int = 0) -> Any:
    """The convolution of sequences whose dimensions are time, batch and channels.

    Parameters
    ----------
    input : Tensor
        Shape (T, N, C).
    weight : Tensor
        Shape (K, C, O).
    bias : Tensor
        Shape (O,).
    pad : int
        How many zeros stand at either end.

    Returns
    -------
    Tensor
        Shape (T + 2 pad - K + 1, N, O).

    Raises
    ------
    RuntimeError
        If shapes or dtypes do not fit each other.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.functional.conv_tbc(fg.ones(3, 1, 2), fg.ones(2, 2, 1), fg.zeros(1)).flatten()
    tensor([4., 4.])
    """
    name = "conv_tbc"
    for k, (argument, value, dims) in enumerate(
        (("input", input, 3), ("weight", weight, 3), ("bias", bias, 1))
    ):
        if need_tensor(name, value, argument, k + 1).ndim != dims:
            raise RuntimeError(
                f"{name}(): {argument} must have {dims} dims, but has shape {list(value.shape)}"
            )
    if input.shape[2] != weight.shape[1]:
        raise RuntimeError(
            f"{name}(): Input dim 2 (input channels) is not == dim 1 in the weight tensor, but they are "
            f"{input.shape[2]} and {weight.shape[1]}"
        )
    signals = _convolve(name, 1, input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, 1, pad, 1, 1)
    return signals.permute(2, 0, 1)


def _convolve(
    name: str,
    rank: int,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: Any,
) -> Any:
    if _is_usual(x, weight, bias) and are_plain(groups, stride, padding, dilation):
        settings, sizes = _planned(
            name, rank, rt.sizes(x), rt.sizes(weight), stride, padding, dilation, groups
        )
        if bias is not None:
            _check_bias(name, bias, weight, sizes[0])
        return convolved(name, rank, x, weight, bias, settings, sizes)
    strides, dilations = _checked(name, rank, x, weight, bias, stride, dilation, groups)
    kept = rt.sizes(weight)
    if isinstance(padding, str):
        x, paddings = _by_name(name, x, padding, kept[2:], strides, dilations)
    else:
        paddings = each_dim(name, "padding", padding, rank)
    settings, sizes = _fitted(name, rank, rt.sizes(x), kept, strides, paddings, dilations, int(groups))
    _check_bias(name, bias, weight, sizes[0])
    return convolved(name, rank, x, weight, bias, settings, sizes)


def _is_usual(x: Any, weight: Any, bias: Any) -> bool:
    """Whether operands are tensors of one dtype."""
    if not isinstance(x, TensorBase) or not isinstance(weight, TensorBase):
        return False
    code = _field(x, _DTYPE)
    return _field(weight, _DTYPE) == code and (
        bias is None or (isinstance(bias, TensorBase) and _field(bias, _DTYPE) == code)
    )


@remembered
def _planned(
    name: str, rank: int, shape: tuple[int, ...], weight: tuple[int, ...],
    stride: Setting, padding: Setting, dilation: Setting, groups: int,
) -> tuple[tuple[int, ...], tuple[int, ...]]:  # fmt: skip
    """What `_fitted` makes of sizes and of settings as they are given."""
    strides, dilations = _checked_settings(name, rank, shape, weight, stride, dilation, groups)
    paddings = each_dim(name, "padding", padding, rank)
    return _fitted(name, rank, shape, weight, strides, paddings, dilations, groups)


@remembered
def _fitted(
    name: str,
    rank: int,
    shape: tuple[int, ...],
    weight: tuple[int, ...],
    strides: tuple[int, ...],
    paddings: tuple[int, ...],
    dilations: tuple[int, ...],
    groups: int,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Groups, strides, padding and dilation deep, down and across; outputs and sizes of the results for images.

    The sizes are those of images and weights.
    """
    at_least(name, "padding", paddings, 0)
    outputs, inputs = weight[:2]
    if outputs < groups or outputs % groups:
        raise RuntimeError(
            f"{name}(): Given groups={groups}, expected weight to have a positive multiple of {groups} as its size at "
            f"dimension 0, but got weight of size {list(weight)}"
        )
    if shape[-rank - 1] != inputs * groups:
        raise RuntimeError(
            f"{name}(): Given groups={groups}, weight of size {list(weight)}, expected input{list(shape)} to "
            f"have {inputs * groups} channels, but got {shape[-rank - 1]} channels instead"
        )
    sizes = [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, s, p, d in zip(shape[-rank:], weight[2:], strides, paddings, dilations, strict=True)
    ]
    if min(sizes) < 1 or 0 in shape[-rank:]:
        padded = [size + 2 * p for size, p in zip(shape[-rank:], paddings, strict=True)]
        raise RuntimeError(
            f"{name}(): the input {list(shape)}, {padded} with its padding, has no room for the windows of weight "
            f"{list(weight)} with dilation {list(dilations)}: Kernel size can't be greater than actual input size"
        )
    return _settings(rank, groups, strides, paddings, dilations), (outputs, *sizes)


def _settings(
    rank: int, groups: int, strides: tuple[int, ...], paddings: tuple[int, ...], dilations: tuple[int, ...]
) -> tuple[int, ...]:
    """What the op takes before the order of the result and its sizes."""
    less = 3 - rank
    return (groups, *(1,) * less, *strides, *(0,) * less, *paddings, *(1,) * less, *dilations)


def _transposed(
    name: str,
    rank: int,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    more: Any,
    groups: Any,
    dilation: Any,
) -> Any:
    strides, dilations = _checked(name, rank, x, weight, bias, stride, dilation, groups)
    paddings = each_dim(name, "padding", padding, rank)
    extra = each_dim(name, "output_padding", more, rank)
    at_least(name, "padding", paddings, 0)
    at_least(name, "output_padding", extra, 0)
    inputs, outputs = weight.shape[0], weight.shape[1] * groups
    if inputs < groups or inputs % groups:
        raise RuntimeError(
            f"{name}(): Given groups={groups}, expected weight to have a positive multiple of {groups} as its size at "
            f"dimension 0, but got weight of size {list(weight.shape)}"
        )
    if x.shape[-rank - 1] != inputs:
        raise RuntimeError(
            f"{name}(): Given transposed=1, weight of size {list(weight.shape)}, expected input{list(x.shape)} to have "
            f"{inputs} channels, but got {x.shape[-rank - 1]} channels instead"
        )
    _check_bias(name, bias, weight, outputs)
    if any(e >= max(s, d) for e, s, d in zip(extra, strides, dilations, strict=True)):
        raise RuntimeError(
            f"{name}(): output padding must be smaller than either stride or dilation, but got output_padding="
            f"{list(extra)}, stride={list(strides)}, dilation={list(dilations)}"
        )
    sizes = [
        (size - 1) * s - 2 * p + d * (k - 1) + e + 1
        for size, k, s, p, d, e in zip(
            x.shape[-rank:], weight.shape[2:], strides, paddings, dilations, extra, strict=True
        )
    ]
    if min(sizes) < 1 or 0 in x.shape[-rank:]:
        raise RuntimeError(
            f"{name}(): Given input size per channel {list(x.shape[-rank:])}, the output would have size {sizes}: "
            "Output size is too small"
        )
    settings = _settings(rank, groups, strides, paddings, dilations)
    return convolved(name, rank, x, weight, bias, settings, (outputs, *sizes))


def _checked(
    name: str, rank: int, x: Any, weight: Any, bias: Any, stride: Any, dilation: Any, groups: Any
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What both directions ask of their operands; the strides and dilations of each dimension."""
    need_tensor(name, x)
    need_tensor(name, weight, "weight", 2)
    if bias is not None:
        need_tensor(name, bias, "bias", 3)
    strides, dilations = _checked_settings(
        name, rank, rt.sizes(x), rt.sizes(weight), stride, dilation, groups
    )
    for t in (weight, bias):
        if t is not None and t.dtype is not x.dtype:
            argument = "weight" if t is weight else "bias"
            raise RuntimeError(
                f"{name}(): Input type ({x.dtype.type_name}) and {argument} type ({t.dtype.type_name}) should be the "
                "same; convert one of them with .to(dtype)"
            )
    return strides, dilations


def _checked_settings(
    name: str, rank: int, shape: tuple[int, ...], weight: tuple[int, ...],
    stride: Any, dilation: Any, groups: Any,
) -> tuple[tuple[int, ...], tuple[int, ...]]:  # fmt: skip
    """What they ask of sizes and settings."""
    if as_index(name, "groups", groups) < 1:
        raise RuntimeError(f"{name}(): non-positive groups is not supported, but got groups={groups}")
    strides = each_dim(name, "stride", stride, rank)
    dilations = each_dim(name, "dilation", dilation, rank)
    _check_sizes(name, rank, shape, weight, strides, dilations)
    return strides, dilations


@remembered
def _check_sizes(
    name: str,
    rank: int,
    shape: tuple[int, ...],
    weight: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
) -> None:
    """Refuse images and weights of other numbers of dimensions, and settings that are too small."""
    at_least(name, "stride", strides, 1)
    at_least(name, "dilation", dilations, 1)
    if len(weight) != rank + 2:
        raise RuntimeError(
            f"{name}(): expected a weight of {rank + 2} dimensions, but got size {list(weight)}"
        )
    at_least(name, "kernel size", weight[2:], 1)
    if len(shape) not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"{name}(): Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, but got input of "
            f"size: {list(shape)}"
        )


def _check_bias(name: str, bias: Any, weight: Any, outputs: int) -> None:
    if bias is not None and rt.sizes(bias) != (outputs,):
        raise RuntimeError(
            f"{name}(): Given weight of size {list(weight.shape)}, expected bias to be 1-dimensional with {outputs} "
            f"elements, but got bias of size {list(bias.shape)} instead"
        )


def _by_name(
    name: str,
    x: Any,
    padding: str,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
) -> tuple[Any, tuple[int, ...]]:
    """Padding "valid" or "same"; where the latter is not symmetric, the input is padded."""
    if padding == "valid":
        return x, (0,) * len(kernel)
    if padding != "same":
        raise RuntimeError(f"{name}(): Invalid padding string: {padding!r}; use 'valid', 'same' or integers")
    if max(strides) > 1:
        raise RuntimeError(
            f"{name}(): padding='same' is not supported for strided convolutions, but got stride={list(strides)}"
        )
    whole = [d * (k - 1) for k, d in zip(kernel, dilations, strict=True)]
    odd = [total % 2 for total in whole]
    if any(odd):
        x = pad(x, [side for rest in reversed(odd) for side in (0, rest)])
    return x, tuple(total // 2 for total in whole)
