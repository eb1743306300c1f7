"""What PyTorch's functions of layers are made of, under the names and with the results that its package gives it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastgrad import dtypes
from fastgrad.functions.arguments import as_float, as_index, as_sequence, need_tensor, need_type
from fastgrad.functions.creation import empty
from fastgrad.functions.likeness import ones_like
from fastgrad.functions.public import public
from fastgrad.functions.statistics import var_mean
from fastgrad.functions.strided import sliced
from fastgrad.native.contracts.element_types import HALVES
from fastgrad.nn.functional.convolution import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from fastgrad.nn.functional.dropout import drawn, probability
from fastgrad.nn.functional.normalization import batch_norm, group_norm, layer_norm
from fastgrad.nn.functional.padding import pad as padded
from fastgrad.nn.functional.pooling import Size, max_pool2d_gradient
from fastgrad.nn.functional.sampling import (
    GRID_SAMPLE_INTERPOLATION_MODES,
    GRID_SAMPLE_PADDING_MODES,
    affine_grid,
    grid_sample,
)
from fastgrad.ops import namespaces

_MODES = {number: name for name, number in GRID_SAMPLE_INTERPOLATION_MODES.items()}
_PADDINGS = {number: name for name, number in GRID_SAMPLE_PADDING_MODES.items()}


@public(method=False)
def constant_pad_nd(input: Any, pad: Sequence[int], value: float = 0) -> Any:
    """The tensor with more elements of one value around it: `nn.functional.pad` in the mode "constant".

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.constant_pad_nd(fg.ones(2), (1, 2), 5.0)
    tensor([5., 1., 1., 5., 5.])
    """
    return padded(need_tensor("constant_pad_nd", input), pad, "constant", value)


def _sampled(name: str, rank: int, input: Any, grid: Any, mode: Any, padding: Any, corners: Any) -> Any:
    x, places = need_tensor(name, input), need_tensor(name, grid, "grid", 2)
    mode, padding = as_index(name, "interpolation_mode", mode), as_index(name, "padding_mode", padding)
    if x.dim() != rank + 2:
        raise RuntimeError(f"{name}(): expected {rank + 2}D input, but got input with sizes {list(x.shape)}")
    if mode not in _MODES or padding not in _PADDINGS:
        raise RuntimeError(
            f"{name}(): expected interpolation_mode and padding_mode from 0 to 2, but got {mode} and {padding}"
        )
    need_type(name, corners, bool, "align_corners")
    return grid_sample(x, places, _MODES[mode], _PADDINGS[padding], corners)


@public(method=False)
def grid_sampler_2d(
    input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """Images at the places of a grid: `nn.functional.grid_sample` with its modes as numbers.

    Parameters
    ----------
    input : Tensor
        Of shape (N, C, H, W).
    grid : Tensor
        Of shape (N, H_out, W_out, 2).
    interpolation_mode : int
        0 for "bilinear", 1 for "nearest", 2 for "bicubic".
    padding_mode : int
        0 for "zeros", 1 for "border", 2 for "reflection".
    align_corners : bool
    """
    return _sampled("grid_sampler_2d", 2, input, grid, interpolation_mode, padding_mode, align_corners)


@public(method=False)
def grid_sampler_3d(
    input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """Volumes at the places of a grid. See `grid_sampler_2d`."""
    return _sampled("grid_sampler_3d", 3, input, grid, interpolation_mode, padding_mode, align_corners)


@public(method=False)
def grid_sampler(
    input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """Images or volumes at the places of a grid. See `grid_sampler_2d`."""
    rank = need_tensor("grid_sampler", input).dim() - 2
    if rank not in (2, 3):
        raise RuntimeError(
            f"grid_sampler(): expected 4D or 5D input, but got input with sizes {list(input.shape)}"
        )
    return _sampled("grid_sampler", rank, input, grid, interpolation_mode, padding_mode, align_corners)


@public(method=False)
def affine_grid_generator(theta: Any, size: Sequence[int], align_corners: bool) -> Any:
    """The places that affine maps send those of images or volumes to: `nn.functional.affine_grid`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.affine_grid_generator(fg.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 1, 1, 2), False)
    tensor([[[[-0.5000,  0.0000],
              [ 0.5000,  0.0000]]]])
    """
    need_type("affine_grid_generator", align_corners, bool, "align_corners", 3)
    return affine_grid(need_tensor("affine_grid_generator", theta, "theta"), size, align_corners)


_CONVOLUTIONS = (conv1d, conv2d, conv3d), (conv_transpose1d, conv_transpose2d, conv_transpose3d)


@public(method=False)
def convolution(
    input: Any, weight: Any, bias: Any, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
    transposed: bool, output_padding: Sequence[int], groups: int,
) -> Any:  # fmt: skip
    """The convolution that the dimensions of the weights stand for: `nn.functional.conv1d` to `conv_transpose3d`.

    Parameters
    ----------
    input, weight : Tensor
    bias : Tensor or None
    stride, padding, dilation : sequence of int
        For each dimension of the images, or one for all.
    transposed : bool
        Whether it is a transposed one, for which alone `output_padding` means something.
    output_padding : sequence of int
    groups : int

    Examples
    --------
    >>> import fastgrad as fg
    >>> x, w = fg.tensor([[[1.0, 2.0, 4.0]]]), fg.tensor([[[1.0, -1.0]]])
    >>> fg.convolution(x, w, None, [1], [0], [1], False, [0], 1)
    tensor([[[-1., -2.]]])
    """
    name = "convolution"
    need_tensor(name, input)
    rank = need_tensor(name, weight, "weight", 2).dim() - 2
    if rank not in (1, 2, 3):
        raise RuntimeError(
            f"{name}(): expected weights of 3 to 5 dimensions, but got shape {list(weight.shape)}"
        )
    if input.dim() != rank + 2:
        raise RuntimeError(
            f"{name}(): expected an input of {rank + 2} dimensions for weights of shape {list(weight.shape)}, but got "
            f"shape {list(input.shape)}"
        )
    steps, borders, gaps, ends = (
        as_sequence(name, value, argument, k)
        for k, argument, value in (
            (4, "stride", stride), (5, "padding", padding), (6, "dilation", dilation),
            (8, "output_padding", output_padding),
        )
    )  # fmt: skip
    called: Any = _CONVOLUTIONS[need_type(name, transposed, bool, "transposed", 7)][rank - 1]
    if transposed:
        return called(input, weight, bias, steps, borders, ends, groups, gaps)
    return called(input, weight, bias, steps, borders, gaps, groups)


@public(method=False)
def native_dropout(input: Any, p: float, train: bool | None) -> tuple[Any, Any]:
    """`nn.functional.dropout`, unless `train` is False, and which elements have stayed.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.native_dropout(fg.ones(2), 1.0, True)
    (tensor([0., 0.]), tensor([False, False]))
    """
    x = need_tensor("native_dropout", input)
    if train is not None:
        need_type("native_dropout", train, bool, "train", 3)
    chance = probability("native_dropout", p)
    if train is False or chance == 0.0 or x.numel() == 0:
        return x.clone(), ones_like(x, dtype=dtypes.bool_)
    return drawn(x, chance)


def _statistics(rows: Any, eps: float, dims: Sequence[int], keepdim: bool) -> tuple[Any, Any]:
    """Mean and reciprocal deviation, in float32 of halves."""
    wide = rows.to(dtypes.float32) if rows.dtype.code in HALVES else rows
    var, mean = var_mean(wide, tuple(dims), correction=0, keepdim=keepdim)
    return mean, (var + eps).rsqrt()


@public(method=False)
def native_layer_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float
) -> tuple[Any, Any, Any]:
    """`nn.functional.layer_norm`, with the mean and the reciprocal deviation of each row, which have no gradient.

    Examples
    --------
    >>> import fastgrad as fg
    >>> _, mean, rstd = fg.native_layer_norm(fg.tensor([[1.0, 3.0]]), [2], None, None, 0.0)
    >>> mean, rstd
    (tensor([[2.]]), tensor([[1.]]))
    """
    x = need_tensor("native_layer_norm", input)
    out = layer_norm(x, normalized_shape, weight, bias, as_float("native_layer_norm", "eps", eps))
    first = x.dim() - len(tuple(normalized_shape))
    return (out, *_statistics(x.detach(), eps, range(first, x.dim()), True))


@public(method=False)
def native_group_norm(
    input: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float  # noqa: N803
) -> tuple[Any, Any, Any]:  # fmt: skip
    """`nn.functional.group_norm` of ``N`` images with ``C`` channels of ``HxW`` elements, with statistics of groups.

    Returns
    -------
    tuple of Tensor
        The result; mean and reciprocal deviation, of shape (N, group).
    """
    name = "native_group_norm"
    x = need_tensor(name, input)
    sizes = [as_index(name, n, value) for n, value in (("N", N), ("C", C), ("HxW", HxW), ("group", group))]
    if x.numel() != sizes[0] * sizes[1] * sizes[2]:
        raise RuntimeError(f"{name}(): expected {N} * {C} * {HxW} elements, but got shape {list(x.shape)}")
    out = group_norm(x, sizes[3], weight, bias, as_float(name, "eps", eps))
    rows = x.reshape(sizes[0], sizes[3], sizes[1] // sizes[3] * sizes[2])
    return (out, *_statistics(rows, eps, (2,), False))


@public(method=False)
def native_batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float
) -> tuple[Any, Any, Any]:  # fmt: skip
    """`nn.functional.batch_norm`, with the statistics of each channel, which have no gradient.

    Returns
    -------
    tuple of Tensor
        The result; mean and reciprocal deviation of the batch, of shape (C,), in training, and else of no elements.
    """
    name = "native_batch_norm"
    x = need_tensor(name, input)
    need_type(name, training, bool, "training")
    if training:
        dims = [d for d in range(x.dim()) if d != 1]
        saved = _statistics(x.detach(), as_float(name, "eps", eps), dims, False)
    else:
        saved = (empty(0, dtype=x.dtype, device=x.device), empty(0, dtype=x.dtype, device=x.device))
    out = batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps)
    return (out, *saved)


# --- fastgrad.ops.aten -----------------------------------------------------------------------------------------


def _native(name: str, overload: str = "default") -> Callable[[Any], Any]:
    """Register a function that PyTorch has as ``torch.ops.aten.<name>`` alone; its one overload is itself."""

    def register(function: Any) -> Any:
        setattr(function, overload, function)
        namespaces.register(f"aten::{name}", function)
        return function

    return register


_native("slice", "Tensor")(sliced)


@_native("native_dropout_backward")
def native_dropout_backward(grad_output: Any, mask: Any, scale: float) -> Any:
    """The gradient of dropout: `scale` times that of the result where the mask has kept elements, and zero elsewhere.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.ops.aten.native_dropout_backward(fg.ones(2), fg.tensor([True, False]), 2.0)
    tensor([2., 0.])
    """
    name = "native_dropout_backward"
    g, kept = need_tensor(name, grad_output, "grad_output"), need_tensor(name, mask, "mask", 2)
    return g * (kept * as_float(name, "scale", scale))


@_native("max_pool2d_with_indices_backward")
def max_pool2d_with_indices_backward(
    grad_output: Any,
    input: Any,
    kernel_size: Size,
    stride: Size,
    padding: Size,
    dilation: Size,
    ceil_mode: bool,
    indices: Any,
) -> Any:
    """The gradient of `nn.functional.max_pool2d` by its input, from that of the result and the indices of the maxima.

    Raises
    ------
    RuntimeError
        If sizes are not those that pooling gives.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.tensor([[[1.0, 3.0], [2.0, 0.0]]])
    >>> _, indices = fg.nn.functional.max_pool2d_with_indices(x, 2)
    >>> fg.ops.aten.max_pool2d_with_indices_backward(fg.ones(1, 1, 1), x, 2, 2, 0, 1, False, indices)
    tensor([[[0., 1.],
             [0., 0.]]])
    """
    name = "max_pool2d_with_indices_backward"
    operands = (
        need_tensor(name, grad_output, "grad_output"),
        need_tensor(name, input, "input", 2),
        need_tensor(name, indices, "indices", 8),
    )
    return max_pool2d_gradient(
        name, *operands, kernel_size, stride or kernel_size, padding, dilation, ceil_mode
    )
