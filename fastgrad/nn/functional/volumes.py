"""Pooling of volumes, adaptive maxima, powers, and the way back from maxima: compositions of pooling of images.

A window of a volume is a product of windows: its maximum is that of the maxima of planes, its sum that of their sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fastgrad.autograd.function import Function
from fastgrad.functions.arguments import as_flag, as_index, need_tensor
from fastgrad.functions.creation import tensor, zeros
from fastgrad.functions.index import gather, index_select
from fastgrad.functions.public import public
from fastgrad.functions.reduce import sum as sum_
from fastgrad.nn.functional.activations import relu
from fastgrad.nn.functional.pooling import (
    adaptive_avg_pool2d,
    avg_pool1d,
    avg_pool2d,
    max_pool1d,
    max_pool2d,
    max_pool2d_with_indices,
)
from fastgrad.nn.functional.windows import Setting, each_dim, remembered


def _planes(name: str, x: Any) -> Any:
    """A volume as images with one channel for each slice: (N C, D, H, W)."""
    if need_tensor(name, x).ndim not in (4, 5) or 0 in x.shape[1:]:
        raise RuntimeError(
            f"{name}(): Expected 4D or 5D (batch mode) tensor with non-zero sizes for input, but got: {list(x.shape)}"
        )
    return x.reshape(math.prod(x.shape[:-3]), *x.shape[-3:])


def _settings(name: str, **settings: Any) -> list[tuple[int, ...]]:
    return [each_dim(name, argument, value, 3) for argument, value in settings.items()]


def max_pool3d_with_indices(
    input: Any,
    kernel_size: Setting,
    stride: Setting | None = None,
    padding: Setting = 0,
    dilation: Setting = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Any, Any]:
    """`max_pool3d` with the indices, whatever `return_indices` says."""
    name = "max_pool3d"
    x = _planes(name, input)
    kernel, step, around, apart = _settings(
        name, kernel_size=kernel_size, stride=kernel_size if stride is None else stride, padding=padding,
        dilation=dilation,
    )  # fmt: skip
    best, where = max_pool2d_with_indices(x, kernel[1:], step[1:], around[1:], apart[1:], ceil_mode)
    count, depth, height, width = best.shape
    lines = best.reshape(count, 1, depth, height * width)
    out, slices = max_pool2d_with_indices(
        lines, (kernel[0], 1), (step[0], 1), (around[0], 0), (apart[0], 1), ceil_mode
    )
    sizes = (*input.shape[:-3], out.shape[2], height, width)
    flat = slices.reshape(count, out.shape[2] * height * width)
    at = gather(where.reshape(count, depth * height * width), 1, flat)
    layer = flat // (height * width) * (x.shape[2] * x.shape[3])
    return out.reshape(sizes), (layer + at).reshape(sizes)


@public(method=False)
def max_pool3d(
    input: Any,
    kernel_size: Setting,
    stride: Setting | None = None,
    padding: Setting = 0,
    dilation: Setting = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of each window of a volume (N, C, D, H, W) or (C, D, H, W).

    Parameters
    ----------
    input : Tensor
    kernel_size, stride, padding, dilation : int or tuple of three
        As in `max_pool2d`.
    ceil_mode : bool
    return_indices : bool
        Give the places of the maxima in their volumes as well.

    Raises
    ------
    RuntimeError
        If the windows do not fit the volume.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.functional.max_pool3d(fg.arange(8.0).reshape(1, 2, 2, 2), 2)
    tensor([[[[7.]]]])
    """
    found = max_pool3d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return found if as_flag("max_pool3d", "return_indices", return_indices) else found[0]


def avg_pool3d(
    input: Any,
    kernel_size: Setting,
    stride: Setting | None = None,
    padding: Setting = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window of a volume (N, C, D, H, W) or (C, D, H, W); see `avg_pool2d` for the settings.

    Raises
    ------
    RuntimeError
        If the windows do not fit the volume, or the divisor is 0.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.functional.avg_pool3d(fg.arange(8.0).reshape(1, 2, 2, 2), 2)
    tensor([[[[3.5000]]]])
    """
    name = "avg_pool3d"
    x = _planes(name, input)
    if not x.is_floating_point():
        raise NotImplementedError(f"{name}(): not implemented for '{x.dtype.type_name}'")
    kernel, step, around = _settings(
        name, kernel_size=kernel_size, stride=kernel_size if stride is None else stride, padding=padding
    )
    first = None if divisor_override is None else 1
    planes = avg_pool2d(x, kernel[1:], step[1:], around[1:], ceil_mode, count_include_pad, first)
    lines = planes.reshape(planes.shape[0], 1, planes.shape[1], planes.shape[2] * planes.shape[3])
    out = avg_pool2d(
        lines, (kernel[0], 1), (step[0], 1), (around[0], 0), ceil_mode, count_include_pad, divisor_override
    )
    return out.reshape(*input.shape[:-3], out.shape[2], *planes.shape[2:])


def _targets(name: str, output_size: Any, sizes: Sequence[int]) -> tuple[int, ...]:
    """The sizes of a result, where None keeps that of the input."""
    rank = len(sizes)
    given = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * rank
    if len(given) != rank:
        raise RuntimeError(f"{name}(): output_size must be {rank} sizes, but got {list(given)}")
    found = tuple(
        old if n is None else as_index(name, "output_size", n) for n, old in zip(given, sizes, strict=True)
    )
    if min(found) < 0:
        raise RuntimeError(
            f"{name}(): elements of output_size must be greater than or equal to 0, got {list(found)}"
        )
    return found


def adaptive_avg_pool3d(input: Any, output_size: int | tuple[int | None, ...] | None) -> Any:
    """The means of equal parts of a volume (N, C, D, H, W) or (C, D, H, W); see `adaptive_avg_pool2d`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.functional.adaptive_avg_pool3d(fg.arange(8.0).reshape(1, 2, 2, 2), (2, 1, 1))
    tensor([[[[1.5000]],
    <BLANKLINE>
             [[5.5000]]]])
    """
    x = _planes("adaptive_avg_pool3d", input)
    depth, *plane = _targets("adaptive_avg_pool3d", output_size, x.shape[1:])
    if 0 in plane:  # nothing to average over the depths
        return adaptive_avg_pool2d(x, tuple(plane)).narrow(1, 0, 0).reshape(*input.shape[:-3], depth, *plane)
    planes = adaptive_avg_pool2d(x, tuple(plane))
    places = plane[0] * plane[1]
    out = adaptive_avg_pool2d(planes.reshape(planes.shape[0], 1, planes.shape[1], places), (depth, places))
    return out.reshape(*input.shape[:-3], depth, *plane)


# --- adaptive maxima --------------------------------------------------------------------------------------------


@remembered
def _parts(old: int, new: int) -> np.ndarray:
    """Which elements are in each of equal parts, which have as many because the last one stands there again."""
    at = np.arange(new)
    begin, end = at * old // new, -(-(at + 1) * old // new)
    return np.minimum(begin[:, None] + np.arange(int((end - begin).max()))[None], end[:, None] - 1)


def _adaptive_max(name: str, input: Any, output_size: Any, rank: int) -> tuple[Any, Any]:
    x = need_tensor(name, input)
    if x.ndim not in (rank + 1, rank + 2) or 0 in x.shape[-rank - 1 :]:
        raise RuntimeError(
            f"{name}(): Expected {rank + 1}D or {rank + 2}D tensor with non-zero sizes, but got {list(x.shape)}"
        )
    sizes = tuple(x.shape[-rank:])
    target = _targets(name, output_size, sizes)
    if 0 in target:
        shape = (*x.shape[:-rank], *target)
        return sum_(x) * zeros(shape, dtype=x.dtype, device=x.device), zeros(shape, device=x.device).long()
    parts = [_parts(*pair) for pair in zip(sizes, target, strict=True)]
    kernel = tuple(p.shape[1] for p in parts)
    spread = x
    for k, p in enumerate(parts):
        if p.size != sizes[k] or not (p.reshape(-1) == np.arange(p.size)).all():
            spread = index_select(spread, x.ndim - rank + k, tensor(p.reshape(-1), device=x.device))
    pooled: Any = {1: max_pool1d, 2: max_pool2d, 3: max_pool3d}[rank]
    out, where = pooled(spread, kernel, return_indices=True)
    place, rest = 0, where
    for p, length, span in zip(reversed(parts), reversed(spread.shape[-rank:]), _spans(sizes), strict=True):
        own = index_select(tensor(p.reshape(-1), device=x.device), 0, (rest % length).reshape(-1))
        place = place + own.reshape(where.shape) * span
        rest = rest // length
    return out, place


def _spans(sizes: Sequence[int]) -> list[int]:
    """How many elements a step along each dimension is, from the last one on."""
    return [math.prod(sizes[len(sizes) - k :]) for k in range(len(sizes))]


def adaptive_max_pool1d_with_indices(
    input: Any, output_size: Any, return_indices: bool = False
) -> tuple[Any, Any]:
    """`adaptive_max_pool1d` with the indices, whatever `return_indices` says."""
    return _adaptive_max("adaptive_max_pool1d", input, output_size, 1)


def adaptive_max_pool2d_with_indices(
    input: Any, output_size: Any, return_indices: bool = False
) -> tuple[Any, Any]:
    """`adaptive_max_pool2d` with the indices, whatever `return_indices` says."""
    return _adaptive_max("adaptive_max_pool2d", input, output_size, 2)


def adaptive_max_pool3d_with_indices(
    input: Any, output_size: Any, return_indices: bool = False
) -> tuple[Any, Any]:
    """`adaptive_max_pool3d` with the indices, whatever `return_indices` says."""
    return _adaptive_max("adaptive_max_pool3d", input, output_size, 3)


def adaptive_max_pool1d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The maxima of equal parts of a signal (N, C, L) or (C, L); see `adaptive_max_pool2d`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.functional.adaptive_max_pool1d(fg.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    tensor([[3., 2.]])
    """
    found = _adaptive_max("adaptive_max_pool1d", input, output_size, 1)
    return found if as_flag("adaptive_max_pool1d", "return_indices", return_indices) else found[0]


def adaptive_max_pool2d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The maxima of equal parts of an image, as many as the result shall have.

    Parameters
    ----------
    input : Tensor
        Of shape (N, C, H, W) or (C, H, W).
    output_size : int, None or a tuple of two
        Height and width of the result; None keeps that of the input. Parts are those of `adaptive_avg_pool2d`.
    return_indices : bool
        Give the places of the maxima in their images as well.

    Raises
    ------
    RuntimeError
        If the input has other dimensions or none of its elements.
    """
    found = _adaptive_max("adaptive_max_pool2d", input, output_size, 2)
    return found if as_flag("adaptive_max_pool2d", "return_indices", return_indices) else found[0]


def adaptive_max_pool3d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The maxima of equal parts of a volume (N, C, D, H, W) or (C, D, H, W); see `adaptive_max_pool2d`."""
    found = _adaptive_max("adaptive_max_pool3d", input, output_size, 3)
    return found if as_flag("adaptive_max_pool3d", "return_indices", return_indices) else found[0]


# --- powers -----------------------------------------------------------------------------------------------------


def _powers(
    pools: tuple[Any, Any], rank: int, name: str, x: Any, p: float, kernel: Any, rest: tuple[Any, ...]
) -> Any:
    """The norm of each window: the mean of powers times how many there are."""
    means, maxima = pools
    if p == 0:
        raise ValueError(f"{name}(): norm_type must not be 0: there is no root of that order")
    if math.isinf(p):
        extremes = maxima(x.abs() if p > 0 else -x.abs(), kernel, rest[0], 0, 1, rest[1])
        return extremes if p > 0 else -extremes
    out = means(x.pow(p), kernel, rest[0], 0, rest[1])
    count = math.prod(each_dim(name, "kernel_size", kernel, rank))
    return (out.sign() * relu(out.abs()) * count).pow(1.0 / p)


def lp_pool1d(
    input: Any, norm_type: float, kernel_size: Setting, stride: Setting | None = None, ceil_mode: bool = False
) -> Any:
    """``sum(x**p)**(1 / p)`` of each window of a signal, with p the `norm_type`; see `avg_pool1d`."""
    x, rest = need_tensor("lp_pool1d", input), (stride, ceil_mode)
    return _powers((avg_pool1d, max_pool1d), 1, "lp_pool1d", x, norm_type, kernel_size, rest)


def lp_pool2d(
    input: Any, norm_type: float, kernel_size: Setting, stride: Setting | None = None, ceil_mode: bool = False
) -> Any:
    """``sum(x**p)**(1 / p)`` of each window of an image, with p the `norm_type`; see `avg_pool2d`."""
    x, rest = need_tensor("lp_pool2d", input), (stride, ceil_mode)
    return _powers((avg_pool2d, max_pool2d), 2, "lp_pool2d", x, norm_type, kernel_size, rest)


def lp_pool3d(
    input: Any, norm_type: float, kernel_size: Setting, stride: Setting | None = None, ceil_mode: bool = False
) -> Any:
    """``sum(x**p)**(1 / p)`` of each window of a volume, with p the `norm_type`; see `avg_pool3d`."""
    x, rest = need_tensor("lp_pool3d", input), (stride, ceil_mode)
    return _powers((avg_pool3d, max_pool3d), 3, "lp_pool3d", x, norm_type, kernel_size, rest)


# --- the way back from maxima -----------------------------------------------------------------------------------


def _unpool(
    name: str, rank: int, x: Any, indices: Any, window: tuple[Any, Any, Any], output_size: Any
) -> Any:
    need_tensor(name, x)
    need_tensor(name, indices, "indices", 2)
    if x.ndim not in (rank + 1, rank + 2) or tuple(indices.shape) != tuple(x.shape):
        raise RuntimeError(
            f"{name}(): expected an input of {rank + 1} or {rank + 2} dimensions and indices of its shape, but got "
            f"{list(x.shape)} and {list(indices.shape)}"
        )
    kernel = each_dim(name, "kernel_size", window[0], rank)
    step = kernel if window[1] is None else each_dim(name, "stride", window[1], rank)
    around = each_dim(name, "padding", window[2], rank)
    usual = [
        (n - 1) * s + k - 2 * p for n, s, k, p in zip(x.shape[-rank:], step, kernel, around, strict=True)
    ]
    sizes = usual if output_size is None else _unpooled_sizes(output_size, usual, step)
    lines, places = math.prod(x.shape[:-rank]), math.prod(sizes)
    flat = indices.reshape(-1)
    if flat.numel() and (int(flat.min()) < 0 or int(flat.max()) >= places):
        raise RuntimeError(f"{name}(): found an invalid index; output volumes are of size {list(sizes)}")
    begins = tensor(np.arange(lines) * places, device=x.device).reshape(lines, 1)
    where = (indices.reshape(lines, x.numel() // max(lines, 1)) + begins).reshape(-1)
    out = _Placed.apply(x.reshape(-1), where, lines * places)
    return out.reshape(*x.shape[:-rank], *sizes)


class _Placed(Function):
    """Numbers at places among zeros. As in PyTorch, each gets the gradient of its place, also where one replaced it."""

    @staticmethod
    def forward(ctx: Any, x: Any, where: Any, size: int) -> Any:
        ctx.save_for_backward(where)
        out = zeros(size, dtype=x.dtype, device=x.device)
        out[where] = x
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        [where] = ctx.saved_tensors
        return index_select(grads[0], 0, where), None, None


def _unpooled_sizes(output_size: Any, usual: list[int], step: Sequence[int]) -> list[int]:
    rank = len(usual)
    given = list(output_size)[2:] if len(output_size) == rank + 2 else list(output_size)
    if len(given) != rank:
        raise ValueError(
            f"output_size should be a sequence containing {rank} or {rank + 2} elements, but it has a length of "
            f"'{len(output_size)}'"
        )
    for k, (n, default, s) in enumerate(zip(given, usual, step, strict=True)):
        if not default - s < n < default + s:
            raise ValueError(
                f'invalid output_size "{given}" (dim {k} must be between {default - s} and {default + s})'
            )
    return given


def max_unpool1d(
    input: Any,
    indices: Any,
    kernel_size: Setting,
    stride: Setting | None = None,
    padding: Setting = 0,
    output_size: Sequence[int] | None = None,
) -> Any:
    """Zeros but for maxima that stand where they were in a signal; see `max_unpool2d`."""
    return _unpool("max_unpool1d", 1, input, indices, (kernel_size, stride, padding), output_size)


def max_unpool2d(
    input: Any,
    indices: Any,
    kernel_size: Setting,
    stride: Setting | None = None,
    padding: Setting = 0,
    output_size: Sequence[int] | None = None,
) -> Any:
    """Zeros but for maxima that stand where they were in an image.

    Parameters
    ----------
    input, indices : Tensor
        What `max_pool2d` gives with its indices.
    kernel_size, stride, padding : int or tuple of two
        Those of `max_pool2d`.
    output_size : sequence of int, optional
        The size of the image, where it is not the smallest that gives so many maxima.

    Raises
    ------
    ValueError
        If `output_size` does not fit.
    RuntimeError
        If shapes do not fit or an index is none of the image.
    """
    return _unpool("max_unpool2d", 2, input, indices, (kernel_size, stride, padding), output_size)


def max_unpool3d(
    input: Any,
    indices: Any,
    kernel_size: Setting,
    stride: Setting | None = None,
    padding: Setting = 0,
    output_size: Sequence[int] | None = None,
) -> Any:
    """Zeros but for maxima that stand where they were in a volume; see `max_unpool2d`."""
    return _unpool("max_unpool3d", 3, input, indices, (kernel_size, stride, padding), output_size)
