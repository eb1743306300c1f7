"""Written by tools/stubs.py."""

from builtins import bool as _bool, complex as _complex, float as _float, int as _int, str as _str, type as _type
from collections.abc import Callable as _Callable, Iterator as _Iterator, Sequence as _Sequence
from typing import Any as _Any, Literal as _Literal, overload as _overload

import numpy as _np

from fastgrad.dtypes import dtype as _dtype
from fastgrad.functions.memory_format import layout as _layout
from fastgrad.functions.memory_format import memory_format as _memory_format
from fastgrad.nn.functional.linear_losses import LinearCrossEntropyOptions as _LinearCrossEntropyOptions
from fastgrad.places import device as _device
from fastgrad.random import Generator as _Generator
from fastgrad.tensor import Tensor as _Tensor
from fastgrad.tensor.size import Size as _Size

GRID_SAMPLE_INTERPOLATION_MODES: dict
GRID_SAMPLE_PADDING_MODES: dict
def adaptive_avg_pool1d(input: _Tensor, output_size: _int | tuple[_int, ...]) -> _Tensor:
    r"""The means of `output_size` equal parts of a signal (N, C, L) or (C, L); see `adaptive_avg_pool2d`."""
def adaptive_avg_pool2d(input: _Tensor, output_size: _int | tuple[_int | None, ...] | None) -> _Tensor:
    r"""The means of equal parts of an image, as many as the result shall have."""
def adaptive_avg_pool3d(input: _Tensor, output_size: _int | tuple[_int | None, ...] | None) -> _Tensor:
    r"""The means of equal parts of a volume (N, C, D, H, W) or (C, D, H, W); see `adaptive_avg_pool2d`."""
@_overload
def adaptive_max_pool1d(input: _Tensor, output_size: _int | _Sequence[_int], return_indices: _Literal[False] = False) -> _Tensor:
    r"""The maxima of equal parts of a signal (N, C, L) or (C, L); see `adaptive_max_pool2d`."""
@_overload
def adaptive_max_pool1d(input: _Tensor, output_size: _int | _Sequence[_int], *, return_indices: _Literal[True]) -> tuple[_Tensor, _Tensor]:
    r"""The maxima of equal parts of a signal (N, C, L) or (C, L); see `adaptive_max_pool2d`."""
@_overload
def adaptive_max_pool1d(input: _Tensor, output_size: _int | _Sequence[_int], return_indices: _bool = False) -> _Any:
    r"""The maxima of equal parts of a signal (N, C, L) or (C, L); see `adaptive_max_pool2d`."""
def adaptive_max_pool1d_with_indices(input: _Tensor, output_size: _int | _Sequence[_int], return_indices: _bool = False) -> tuple[_Tensor, _Tensor]:
    r"""`adaptive_max_pool1d` with the indices, whatever `return_indices` says."""
@_overload
def adaptive_max_pool2d(input: _Tensor, output_size: _int | None | _Sequence[_int], return_indices: _Literal[False] = False) -> _Tensor:
    r"""The maxima of equal parts of an image, as many as the result shall have."""
@_overload
def adaptive_max_pool2d(input: _Tensor, output_size: _int | None | _Sequence[_int], *, return_indices: _Literal[True]) -> tuple[_Tensor, _Tensor]:
    r"""The maxima of equal parts of an image, as many as the result shall have."""
@_overload
def adaptive_max_pool2d(input: _Tensor, output_size: _int | None | _Sequence[_int], return_indices: _bool = False) -> _Any:
    r"""The maxima of equal parts of an image, as many as the result shall have."""
def adaptive_max_pool2d_with_indices(input: _Tensor, output_size: _int | _Sequence[_int], return_indices: _bool = False) -> tuple[_Tensor, _Tensor]:
    r"""`adaptive_max_pool2d` with the indices, whatever `return_indices` says."""
@_overload
def adaptive_max_pool3d(input: _Tensor, output_size: _int | _Sequence[_int], return_indices: _Literal[False] = False) -> _Tensor:
    r"""The maxima of equal parts of a volume (N, C, D, H, W) or (C, D, H, W); see `adaptive_max_pool2d`."""
@_overload
def adaptive_max_pool3d(input: _Tensor, output_size: _int | _Sequence[_int], *, return_indices: _Literal[True]) -> tuple[_Tensor, _Tensor]:
    r"""The maxima of equal parts of a volume (N, C, D, H, W) or (C, D, H, W); see `adaptive_max_pool2d`."""
@_overload
def adaptive_max_pool3d(input: _Tensor, output_size: _int | _Sequence[_int], return_indices: _bool = False) -> _Any:
    r"""The maxima of equal parts of a volume (N, C, D, H, W) or (C, D, H, W); see `adaptive_max_pool2d`."""
def adaptive_max_pool3d_with_indices(input: _Tensor, output_size: _int | _Sequence[_int], return_indices: _bool = False) -> tuple[_Tensor, _Tensor]:
    r"""`adaptive_max_pool3d` with the indices, whatever `return_indices` says."""
def affine_grid(theta: _Tensor, size: _Sequence[_int], align_corners: _bool | None = None) -> _Tensor:
    r"""The grid at which `grid_sample` shows images as affine maps transform them."""
def alpha_dropout(input: _Tensor, p: _float = 0.5, training: _bool = False, inplace: _bool = False) -> _Tensor:
    r"""Elements set to the negative limit of `selu` with probability `p`; mean and variance stay."""
def avg_pool1d(input: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, ceil_mode: _bool = False, count_include_pad: _bool = True) -> _Tensor:
    r"""The mean of each window of a signal (N, C, L) or (C, L); see `avg_pool2d`."""
def avg_pool2d(input: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, ceil_mode: _bool = False, count_include_pad: _bool = True, divisor_override: _int | None = None) -> _Tensor:
    r"""The mean of each window of an image."""
def avg_pool3d(input: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, ceil_mode: _bool = False, count_include_pad: _bool = True, divisor_override: _int | None = None) -> _Tensor:
    r"""The mean of each window of a volume (N, C, D, H, W) or (C, D, H, W); see `avg_pool2d` for the settings."""
def batch_norm(input: _Tensor, running_mean: _Tensor | None, running_var: _Tensor | None, weight: _Tensor | None = None, bias: _Tensor | None = None, training: _bool = False, momentum: _float = 0.1, eps: _float = 1e-05) -> _Tensor:
    r"""``(x - mean) / sqrt(var + eps) * weight + bias`` for each channel (Ioffe, Szegedy 2015)."""
def bilinear(input1: _Tensor, input2: _Tensor, weight: _Tensor, bias: _Tensor | None = None) -> _Tensor:
    r"""``y_o = sum over i, j of input1_i weight_oij input2_j + bias_o``."""
def binary_cross_entropy(input: _Tensor, target: _Tensor, weight: _Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean') -> _Tensor:
    r"""``-(t log(x) + (1 - t) log(1 - x))`` of probabilities; logarithms are no less than -100."""
def binary_cross_entropy_with_logits(input: _Tensor, target: _Tensor, weight: _Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', pos_weight: _Tensor | None = None) -> _Tensor:
    r"""`binary_cross_entropy` of ``sigmoid(input)``, without overflow."""
def celu(input: _Tensor, alpha: _float = 1.0, inplace: _bool = False) -> _Tensor:
    r"""X where it is positive, elsewhere ``alpha (exp(x / alpha) - 1)`` (Barron 2017)."""
def celu_(input: _Tensor, alpha: _float = 1.0) -> _Tensor:
    r"""`celu`, in place."""
def channel_shuffle(input: _Tensor, groups: _int) -> _Tensor:
    r"""Channels in another order: the first of each group, then the second of each, and so on (Zhang et al. 2018)."""
def conv1d(input: _Tensor, weight: _Tensor, bias: _Tensor | None = None, stride: _int | tuple[_int, ...] = 1, padding: _int | tuple[_int, ...] | _str = 0, dilation: _int | tuple[_int, ...] = 1, groups: _int = 1) -> _Tensor:
    r"""The convolution of signals; see `conv2d`, with one dimension less."""
def conv2d(input: _Tensor, weight: _Tensor, bias: _Tensor | None = None, stride: _int | tuple[_int, ...] = 1, padding: _int | tuple[_int, ...] | _str = 0, dilation: _int | tuple[_int, ...] = 1, groups: _int = 1) -> _Tensor:
    r"""The convolution of images, which neural networks define as the cross-correlation::"""
def conv3d(input: _Tensor, weight: _Tensor, bias: _Tensor | None = None, stride: _int | tuple[_int, ...] = 1, padding: _int | tuple[_int, ...] | _str = 0, dilation: _int | tuple[_int, ...] = 1, groups: _int = 1) -> _Tensor:
    r"""The convolution of volumes; see `conv2d`, with one dimension more."""
def conv_tbc(input: _Tensor, weight: _Tensor, bias: _Tensor, pad: _int = 0) -> _Tensor:
    r"""The convolution of sequences whose dimensions are time, batch and channels."""
def conv_transpose1d(input: _Tensor, weight: _Tensor, bias: _Tensor | None = None, stride: _int | tuple[_int, ...] = 1, padding: _int | tuple[_int, ...] = 0, output_padding: _int | tuple[_int, ...] = 0, groups: _int = 1, dilation: _int | tuple[_int, ...] = 1) -> _Tensor:
    r"""The transposed convolution of signals; see `conv_transpose2d`, with one dimension less."""
def conv_transpose2d(input: _Tensor, weight: _Tensor, bias: _Tensor | None = None, stride: _int | tuple[_int, ...] = 1, padding: _int | tuple[_int, ...] = 0, output_padding: _int | tuple[_int, ...] = 0, groups: _int = 1, dilation: _int | tuple[_int, ...] = 1) -> _Tensor:
    r"""The transpose of `conv2d` as a linear map of images: what carries gradients back through a convolution."""
def conv_transpose3d(input: _Tensor, weight: _Tensor, bias: _Tensor | None = None, stride: _int | tuple[_int, ...] = 1, padding: _int | tuple[_int, ...] = 0, output_padding: _int | tuple[_int, ...] = 0, groups: _int = 1, dilation: _int | tuple[_int, ...] = 1) -> _Tensor:
    r"""The transposed convolution of volumes; see `conv_transpose2d`, with one dimension more."""
def cosine_embedding_loss(input1: _Tensor, input2: _Tensor, target: _Tensor, margin: _float = 0, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean') -> _Tensor:
    r"""``1 - cos`` of the angle of two vectors where `target` is 1, ``max(0, cos - margin)`` where it is -1."""
def cosine_similarity(x1: _Tensor, x2: _Tensor, dim: _int = 1, eps: _float = 1e-08) -> _Tensor:
    r"""``sum(x1 x2) / (max(|x1|, eps) max(|x2|, eps))`` along a dimension; shapes broadcast."""
def cross_entropy(input: _Tensor, target: _Tensor, weight: _Tensor | None = None, size_average: _bool | None = None, ignore_index: _int = -100, reduce: _bool | None = None, reduction: _str = 'mean', label_smoothing: _float = 0.0) -> _Tensor:
    r"""The cross entropy between logits and classes, or between logits and class probabilities."""
def ctc_loss(log_probs: _Tensor, targets: _Tensor, input_lengths: _Tensor | _Sequence[_int], target_lengths: _Tensor | _Sequence[_int], blank: _int = 0, reduction: _str = 'mean', zero_infinity: _bool = False) -> _Tensor:
    r"""Minus the logarithm of the probability of a target, summed over all its alignments with a sequence."""
def dropout(input: _Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False) -> _Tensor:
    r"""Zeros with probability `p`, the other elements divided by ``1 - p`` (Srivastava et al. 2014)."""
def dropout1d(input: _Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False) -> _Tensor:
    r"""`dropout` of whole channels of an input of shape (N, C, L) or (C, L)."""
def dropout2d(input: _Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False) -> _Tensor:
    r"""`dropout` of whole channels of an input of shape (N, C, H, W); see `dropout1d`."""
def dropout3d(input: _Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False) -> _Tensor:
    r"""`dropout` of whole channels of an input of shape (N, C, D, H, W) or (C, D, H, W); see `dropout1d`."""
def elu(input: _Tensor, alpha: _float = 1.0, inplace: _bool = False) -> _Tensor:
    r"""X where it is positive, elsewhere ``alpha (exp(x) - 1)``."""
def elu_(input: _Tensor, alpha: _float = 1.0) -> _Tensor:
    r"""`elu`, in place."""
def embedding(input: _Tensor, weight: _Tensor, padding_idx: _int | None = None, max_norm: _float | None = None, norm_type: _float = 2.0, scale_grad_by_freq: _bool = False, sparse: _bool = False) -> _Tensor:
    r"""The rows of a table that indices name."""
def embedding_bag(input: _Tensor, weight: _Tensor, offsets: _Tensor | None = None, max_norm: _float | None = None, norm_type: _float = 2, scale_grad_by_freq: _bool = False, mode: _str = 'mean', sparse: _bool = False, per_sample_weights: _Tensor | None = None, include_last_offset: _bool = False, padding_idx: _int | None = None) -> _Tensor:
    r"""The sum, the mean or the maximum of the rows of a table that each bag of indices names."""
def feature_alpha_dropout(input: _Tensor, p: _float = 0.5, training: _bool = False, inplace: _bool = False) -> _Tensor:
    r"""`alpha_dropout` of whole channels of an input of shape (N, C, ...)."""
def fold(input: _Tensor, output_size: _int | tuple[_int, ...], kernel_size: _int | tuple[_int, ...], dilation: _int | tuple[_int, ...] = 1, padding: _int | tuple[_int, ...] = 0, stride: _int | tuple[_int, ...] = 1) -> _Tensor:
    r"""The image of which columns are the sliding blocks; where blocks overlap, they are added up."""
def fractional_max_pool2d(input: _Tensor, kernel_size: _int | tuple[_int, ...], output_size: _int | tuple[_int, ...] | None = None, output_ratio: _float | _Sequence[_float] | None = None, return_indices: _bool = False, _random_samples: _Tensor | None = None) -> _Tensor:
    r"""The maximum of each of a given number of windows, whose places are random."""
def fractional_max_pool2d_with_indices(input: _Tensor, kernel_size: _int | tuple[_int, ...], output_size: _int | tuple[_int, ...] | None = None, output_ratio: _float | _Sequence[_float] | None = None, return_indices: _bool = False, _random_samples: _Any = None) -> tuple[_Tensor, _Tensor]:
    r"""`fractional_max_pool2d` with the indices, whatever `return_indices` says."""
def fractional_max_pool3d(input: _Tensor, kernel_size: _int | tuple[_int, ...], output_size: _int | tuple[_int, ...] | None = None, output_ratio: _float | _Sequence[_float] | None = None, return_indices: _bool = False, _random_samples: _Any = None) -> _Tensor:
    r"""The same of volumes (N, C, D, H, W) or (C, D, H, W); see `fractional_max_pool2d`."""
def fractional_max_pool3d_with_indices(input: _Tensor, kernel_size: _int | tuple[_int, ...], output_size: _int | tuple[_int, ...] | None = None, output_ratio: _float | _Sequence[_float] | None = None, return_indices: _bool = False, _random_samples: _Any = None) -> tuple[_Tensor, _Tensor]:
    r"""`fractional_max_pool3d` with the indices, whatever `return_indices` says."""
def gaussian_nll_loss(input: _Tensor, target: _Tensor, var: _Tensor | _float, full: _bool = False, eps: _float = 1e-06, reduction: _str = 'mean') -> _Tensor:
    r"""``(log(var) + (input - target)**2 / var) / 2``, the negative log likelihood of normal distributions."""
def gelu(input: _Tensor, approximate: _str = 'none') -> _Tensor:
    r"""``x Phi(x)`` with the normal distribution function Phi (Hendrycks, Gimpel 2016)."""
def glu(input: _Tensor, dim: _int = -1) -> _Tensor:
    r"""The first half of a tensor times the sigmoid of the second one (Dauphin et al. 2017)."""
def grid_sample(input: _Tensor, grid: _Tensor, mode: _str = 'bilinear', padding_mode: _str = 'zeros', align_corners: _bool | None = None) -> _Tensor:
    r"""The elements of images, or of volumes, at the places of a grid, between which there is interpolation."""
def group_norm(input: _Tensor, num_groups: _int, weight: _Tensor | None = None, bias: _Tensor | None = None, eps: _float = 1e-05) -> _Tensor:
    r"""`layer_norm` over groups of channels (Wu, He 2018)."""
def gumbel_softmax(logits: _Tensor, tau: _float = 1, hard: _bool = False, eps: _float = 1e-10, dim: _int = -1) -> _Tensor:
    r"""Samples of a smooth stand-in for the distribution over classes (Jang et al. 2017, Maddison et al. 2017)."""
def hardshrink(input: _Tensor, lambd: _float = 0.5) -> _Tensor:
    r"""X where its absolute value is above `lambd`, elsewhere zero."""
def hardsigmoid(input: _Tensor, inplace: _bool = False) -> _Tensor:
    r"""``min(max(x + 3, 0), 6) / 6``, element by element."""
def hardswish(input: _Tensor, inplace: _bool = False) -> _Tensor:
    r"""``x min(max(x + 3, 0), 6) / 6``, element by element (Howard et al. 2019)."""
def hardtanh(input: _Tensor, min_val: _float = -1.0, max_val: _float = 1.0, inplace: _bool = False) -> _Tensor:
    r"""X bounded by `min_val` and `max_val`; at a bound and beyond the gradient is zero."""
def hardtanh_(input: _Tensor, min_val: _float = -1.0, max_val: _float = 1.0) -> _Tensor:
    r"""`hardtanh`, in place."""
def hinge_embedding_loss(input: _Tensor, target: _Tensor, margin: _float = 1.0, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean') -> _Tensor:
    r"""The input where `target` is 1, ``max(0, margin - input)`` where it is -1."""
def huber_loss(input: _Tensor, target: _Tensor, reduction: _str = 'mean', delta: _float = 1.0, weight: _Tensor | None = None) -> _Tensor:
    r"""``d**2 / 2`` where the difference d is at most `delta`, elsewhere ``delta (|d| - delta / 2)`` (Huber 1964)."""
def instance_norm(input: _Tensor, running_mean: _Tensor | None = None, running_var: _Tensor | None = None, weight: _Tensor | None = None, bias: _Tensor | None = None, use_input_stats: _bool = True, momentum: _float = 0.1, eps: _float = 1e-05) -> _Tensor:
    r"""``(x - mean) / sqrt(var + eps) * weight + bias`` for each channel of each sample (Ulyanov et al. 2016)."""
def interpolate(input: _Tensor, size: _int | _Sequence[_int] | None = None, scale_factor: _float | _Sequence[_float] | None = None, mode: _str = 'nearest', align_corners: _bool | None = None, recompute_scale_factor: _bool | None = None, antialias: _bool = False) -> _Tensor:
    r"""Images, signals or volumes of another size."""
def kl_div(input: _Tensor, target: _Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', log_target: _bool = False) -> _Tensor:
    r"""``target (log(target) - input)``, each, summed, averaged, or summed and divided by the batch size."""
def l1_loss(input: _Tensor, target: _Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', weight: _Tensor | None = None) -> _Tensor:
    r"""The absolute difference, each, summed or averaged; also of complex numbers. See `mse_loss`."""
def layer_norm(input: _Tensor, normalized_shape: _Sequence[_int], weight: _Tensor | None = None, bias: _Tensor | None = None, eps: _float = 1e-05) -> _Tensor:
    r"""``(x - mean) / sqrt(var + eps) * weight + bias`` over the last dimensions (Ba, Kiros, Hinton 2016)."""
def leaky_relu(input: _Tensor, negative_slope: _float = 0.01, inplace: _bool = False) -> _Tensor:
    r"""X where it is positive, elsewhere ``negative_slope * x``."""
def leaky_relu_(input: _Tensor, negative_slope: _float = 0.01) -> _Tensor:
    r"""`leaky_relu`, in place."""
def linear(input: _Tensor, weight: _Tensor, bias: _Tensor | None = None) -> _Tensor:
    r"""``input @ weight.T + bias``."""
def linear_cross_entropy(input: _Tensor, linear_weight: _Tensor, target: _Tensor, *, linear_bias: _Tensor | None = None, weight: _Tensor | None = None, reduction: _str = 'mean', ignore_index: _int | None = None, label_smoothing: _float = 0.0, options: _LinearCrossEntropyOptions | None = None) -> _Tensor:
    r"""The cross entropy of ``linear(input, linear_weight, linear_bias)``."""
def local_response_norm(input: _Tensor, size: _int, alpha: _float = 0.0001, beta: _float = 0.75, k: _float = 1.0) -> _Tensor:
    r"""``x / (k + alpha mean(x**2))**beta``, the mean being over `size` neighbouring channels (Krizhevsky et al. 2012)."""
def log_softmax(input: _Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: _dtype | None = None) -> _Tensor:
    r"""The logarithm of `softmax`."""
def logsigmoid(input: _Tensor) -> _Tensor:
    r"""The logarithm of `sigmoid`, without cancellation."""
def lp_pool1d(input: _Tensor, norm_type: _float, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, ceil_mode: _bool = False) -> _Tensor:
    r"""``sum(x**p)**(1 / p)`` of each window of a signal, with p the `norm_type`; see `avg_pool1d`."""
def lp_pool2d(input: _Tensor, norm_type: _float, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, ceil_mode: _bool = False) -> _Tensor:
    r"""``sum(x**p)**(1 / p)`` of each window of an image, with p the `norm_type`; see `avg_pool2d`."""
def lp_pool3d(input: _Tensor, norm_type: _float, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, ceil_mode: _bool = False) -> _Tensor:
    r"""``sum(x**p)**(1 / p)`` of each window of a volume, with p the `norm_type`; see `avg_pool3d`."""
def margin_ranking_loss(input1: _Tensor, input2: _Tensor, target: _Tensor, margin: _float = 0, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean') -> _Tensor:
    r"""``max(0, -target (input1 - input2) + margin)``: the first of two is to rank higher where `target` is 1."""
@_overload
def max_pool1d(input: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, dilation: _int | tuple[_int, ...] = 1, ceil_mode: _bool = False, return_indices: _Literal[False] = False) -> _Tensor:
    r"""The maximum of each window of a signal (N, C, L) or (C, L); see `max_pool2d`."""
@_overload
def max_pool1d(input: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, dilation: _int | tuple[_int, ...] = 1, ceil_mode: _bool = False, *, return_indices: _Literal[True]) -> tuple[_Tensor, _Tensor]:
    r"""The maximum of each window of a signal (N, C, L) or (C, L); see `max_pool2d`."""
@_overload
def max_pool1d(input: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, dilation: _int | tuple[_int, ...] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> _Any:
    r"""The maximum of each window of a signal (N, C, L) or (C, L); see `max_pool2d`."""
def max_pool1d_with_indices(input: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, dilation: _int | tuple[_int, ...] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> tuple[_Tensor, _Tensor]:
    r"""`max_pool1d` with the indices, whatever `return_indices` says."""
@_overload
def max_pool2d(input: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, dilation: _int | tuple[_int, ...] = 1, ceil_mode: _bool = False, return_indices: _Literal[False] = False) -> _Tensor:
    r"""The maximum of each window of an image."""
@_overload
def max_pool2d(input: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, dilation: _int | tuple[_int, ...] = 1, ceil_mode: _bool = False, *, return_indices: _Literal[True]) -> tuple[_Tensor, _Tensor]:
    r"""The maximum of each window of an image."""
@_overload
def max_pool2d(input: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, dilation: _int | tuple[_int, ...] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> _Any:
    r"""The maximum of each window of an image."""
def max_pool2d_with_indices(input: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, dilation: _int | tuple[_int, ...] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> tuple[_Tensor, _Tensor]:
    r"""`max_pool2d` with the indices, whatever `return_indices` says."""
@_overload
def max_pool3d(input: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, dilation: _int | tuple[_int, ...] = 1, ceil_mode: _bool = False, return_indices: _Literal[False] = False) -> _Tensor:
    r"""The maximum of each window of a volume (N, C, D, H, W) or (C, D, H, W)."""
@_overload
def max_pool3d(input: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, dilation: _int | tuple[_int, ...] = 1, ceil_mode: _bool = False, *, return_indices: _Literal[True]) -> tuple[_Tensor, _Tensor]:
    r"""The maximum of each window of a volume (N, C, D, H, W) or (C, D, H, W)."""
@_overload
def max_pool3d(input: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, dilation: _int | tuple[_int, ...] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> _Any:
    r"""The maximum of each window of a volume (N, C, D, H, W) or (C, D, H, W)."""
def max_pool3d_with_indices(input: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, dilation: _int | tuple[_int, ...] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> tuple[_Tensor, _Tensor]:
    r"""`max_pool3d` with the indices, whatever `return_indices` says."""
def max_unpool1d(input: _Tensor, indices: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, output_size: _Sequence[_int] | None = None) -> _Tensor:
    r"""Zeros but for maxima that stand where they were in a signal; see `max_unpool2d`."""
def max_unpool2d(input: _Tensor, indices: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, output_size: _Sequence[_int] | None = None) -> _Tensor:
    r"""Zeros but for maxima that stand where they were in an image."""
def max_unpool3d(input: _Tensor, indices: _Tensor, kernel_size: _int | tuple[_int, ...], stride: _int | tuple[_int, ...] | None = None, padding: _int | tuple[_int, ...] = 0, output_size: _Sequence[_int] | None = None) -> _Tensor:
    r"""Zeros but for maxima that stand where they were in a volume; see `max_unpool2d`."""
def mish(input: _Tensor, inplace: _bool = False) -> _Tensor:
    r"""``x tanh(softplus(x))``, element by element (Misra 2019)."""
def mse_loss(input: _Tensor, target: _Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', weight: _Tensor | None = None) -> _Tensor:
    r"""The squared difference, each, summed or averaged."""
def multi_head_attention_forward(query: _Tensor, key: _Tensor, value: _Tensor, embed_dim_to_check: _int, num_heads: _int, in_proj_weight: _Tensor | None, in_proj_bias: _Tensor | None, bias_k: _Tensor | None, bias_v: _Tensor | None, add_zero_attn: _bool, dropout_p: _float, out_proj_weight: _Tensor, out_proj_bias: _Tensor, training: _bool = True, key_padding_mask: _Tensor | None = None, need_weights: _bool = True, attn_mask: _Tensor | None = None, use_separate_proj_weight: _bool = False, q_proj_weight: _Tensor | None = None, k_proj_weight: _Tensor | None = None, v_proj_weight: _Tensor | None = None, static_k: _Tensor | None = None, static_v: _Tensor | None = None, average_attn_weights: _bool = True, is_causal: _bool = False) -> tuple[_Tensor, _Tensor]:
    r"""What `fastgrad.nn.MultiheadAttention` computes, with its parameters as arguments."""
def multi_margin_loss(input: _Tensor, target: _Tensor, p: _int = 1, margin: _float = 1.0, weight: _Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean') -> _Tensor:
    r"""The mean over classes j but y of ``weight[y] max(0, margin - input[y] + input[j])**p``, with y the target."""
def multilabel_margin_loss(input: _Tensor, target: _Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean') -> _Tensor:
    r"""The sum of ``max(0, 1 - (input[y] - input[j]))`` over targets y and classes j that are none, over C."""
def multilabel_soft_margin_loss(input: _Tensor, target: _Tensor, weight: _Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean') -> _Tensor:
    r"""The cross entropy of two classes for each of several labels, averaged over the labels."""
def native_channel_shuffle(input: _Tensor, groups: _int) -> _Tensor:
    r"""`channel_shuffle` under another name."""
def nll_loss(input: _Tensor, target: _Tensor, weight: _Tensor | None = None, size_average: _bool | None = None, ignore_index: _int = -100, reduce: _bool | None = None, reduction: _str = 'mean') -> _Tensor:
    r"""The negative log likelihood."""
def normalize(input: _Tensor, p: _float = 2.0, dim: _int = 1, eps: _float = 1e-12, out: _Tensor | None = None) -> _Tensor:
    r"""``x / max(|x|_p, eps)`` along a dimension."""
def one_hot(tensor: _Tensor, num_classes: _int = -1) -> _Tensor:
    r"""Ones at the classes, zeros elsewhere, along a new last dimension."""
def pad(input: _Tensor, pad: _Sequence[_int], mode: _str = 'constant', value: _float | None = None) -> _Tensor:
    r"""The tensor with more elements around it, or fewer where a number is negative."""
def pairwise_distance(x1: _Tensor, x2: _Tensor, p: _float = 2.0, eps: _float = 1e-06, keepdim: _bool = False) -> _Tensor:
    r"""The norm of ``x1 - x2 + eps`` along the last dimension."""
def pdist(input: _Tensor, p: _float = 2.0) -> _Tensor:
    r"""The distances of order `p` between each row of a matrix and all that come behind it."""
def pixel_shuffle(input: _Tensor, upscale_factor: _int) -> _Tensor:
    r"""Images of shape (..., C r r, H, W) as ones of shape (..., C, H r, W r) (Shi et al. 2016)."""
def pixel_unshuffle(input: _Tensor, downscale_factor: _int) -> _Tensor:
    r"""Images of shape (..., C, H r, W r) as ones of shape (..., C r r, H, W): the inverse of `pixel_shuffle`."""
def poisson_nll_loss(input: _Tensor, target: _Tensor, log_input: _bool = True, full: _bool = False, size_average: _bool | None = None, eps: _float = 1e-08, reduce: _bool | None = None, reduction: _str = 'mean') -> _Tensor:
    r"""The negative log likelihood of counts of a Poisson distribution, up to a constant."""
def prelu(input: _Tensor, weight: _Tensor) -> _Tensor:
    r"""X where it is positive, elsewhere ``weight * x``."""
def relu(input: _Tensor, inplace: _bool = False) -> _Tensor:
    r"""``max(input, 0)``, element by element."""
def relu6(input: _Tensor, inplace: _bool = False) -> _Tensor:
    r"""``min(max(x, 0), 6)``, element by element."""
def relu_(input: _Tensor) -> _Tensor:
    r"""`relu`, in place."""
def rms_norm(input: _Tensor, normalized_shape: _Sequence[_int], weight: _Tensor | None = None, eps: _float | None = None) -> _Tensor:
    r"""``x / sqrt(mean(x**2) + eps) * weight`` over the last dimensions (Zhang, Sennrich 2019)."""
def rrelu(input: _Tensor, lower: _float = 0.125, upper: _float = 0.3333333333333333, training: _bool = False, inplace: _bool = False) -> _Tensor:
    r"""X where it is positive, elsewhere x times a random number, drawn for each element (Xu et al. 2015)."""
def rrelu_(input: _Tensor, lower: _float = 0.125, upper: _float = 0.3333333333333333, training: _bool = False) -> _Tensor:
    r"""`rrelu`, in place."""
def scaled_dot_product_attention(query: _Tensor, key: _Tensor, value: _Tensor, attn_mask: _Tensor | None = None, dropout_p: _float = 0.0, is_causal: _bool = False, scale: _float | None = None, enable_gqa: _bool = False) -> _Tensor:
    r"""Values, averaged for each query with weights that depend on how well their keys fit it."""
def selu(input: _Tensor, inplace: _bool = False) -> _Tensor:
    r"""`elu` with the two numbers that keep mean and variance (Klambauer et al. 2017)."""
def selu_(input: _Tensor) -> _Tensor:
    r"""`selu`, in place."""
def sigmoid(input: _Tensor) -> _Tensor:
    r"""``1 / (1 + exp(-input))``, element by element."""
def silu(input: _Tensor, inplace: _bool = False) -> _Tensor:
    r"""``x sigmoid(x)``, element by element; also called swish."""
def smooth_l1_loss(input: _Tensor, target: _Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', beta: _float = 1.0) -> _Tensor:
    r"""``d**2 / (2 beta)`` where the difference d is smaller than `beta`, elsewhere ``|d| - beta / 2``."""
def soft_margin_loss(input: _Tensor, target: _Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean') -> _Tensor:
    r"""``log(1 + exp(-target input))``, with targets 1 or -1."""
def softmax(input: _Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: _dtype | None = None) -> _Tensor:
    r"""``exp(x) / sum(exp(x))`` along a dimension."""
def softmin(input: _Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: _dtype | None = None) -> _Tensor:
    r"""`softmax` of ``-input`` along a dimension."""
def softplus(input: _Tensor, beta: _float = 1, threshold: _float = 20) -> _Tensor:
    r"""``log(1 + exp(beta x)) / beta``, and x itself where ``beta x`` is above the threshold."""
def softshrink(input: _Tensor, lambd: _float = 0.5) -> _Tensor:
    r"""X moved towards zero by `lambd`, and zero where it is nearer."""
def softsign(input: _Tensor) -> _Tensor:
    r"""``x / (1 + |x|)``, element by element; integers give floats."""
def tanh(input: _Tensor) -> _Tensor:
    r"""The hyperbolic tangent, element by element."""
def tanhshrink(input: _Tensor) -> _Tensor:
    r"""``x - tanh(x)``, element by element; integers give floats."""
def threshold(input: _Tensor, threshold: _float, value: _float, inplace: _bool = False) -> _Tensor:
    r"""X where it is above `threshold`, elsewhere `value`."""
def threshold_(input: _Tensor, threshold: _float, value: _float) -> _Tensor:
    r"""`threshold`, in place."""
def triplet_margin_loss(anchor: _Tensor, positive: _Tensor, negative: _Tensor, margin: _float = 1.0, p: _float = 2, eps: _float = 1e-06, swap: _bool = False, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean') -> _Tensor:
    r"""``max(0, |anchor - positive| - |anchor - negative| + margin)`` of vectors along the last dimension."""
def triplet_margin_with_distance_loss(anchor: _Tensor, positive: _Tensor, negative: _Tensor, *, distance_function: _Callable[..., _Any] | None = None, margin: _float = 1.0, swap: _bool = False, reduction: _str = 'mean') -> _Tensor:
    r"""`triplet_margin_loss` with a distance of one's own."""
def unfold(input: _Tensor, kernel_size: _int | tuple[_int, ...], dilation: _int | tuple[_int, ...] = 1, padding: _int | tuple[_int, ...] = 0, stride: _int | tuple[_int, ...] = 1) -> _Tensor:
    r"""The sliding blocks of an image as columns."""
def upsample(input: _Tensor, size: _int | _Sequence[_int] | None = None, scale_factor: _float | _Sequence[_float] | None = None, mode: _str = 'nearest', align_corners: _bool | None = None) -> _Tensor:
    r"""`interpolate` under its name of old."""
def upsample_bilinear(input: _Tensor, size: _int | _Sequence[_int] | None = None, scale_factor: _float | _Sequence[_float] | None = None) -> _Tensor:
    r"""`interpolate` in mode "bilinear" with aligned corners under its name of old."""
def upsample_nearest(input: _Tensor, size: _int | _Sequence[_int] | None = None, scale_factor: _float | _Sequence[_float] | None = None) -> _Tensor:
    r"""`interpolate` in mode "nearest" under its name of old."""
