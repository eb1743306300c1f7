"""Pooling: one number for each window of an image."""

from __future__ import annotations

from typing import Any

from fastgrad import dtypes
from fastgrad.functions.arguments import as_flag, as_index, need_tensor
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.nn.functional.windows import Setting, are_plain, at_least, each_dim, remembered, with_rows
from fastgrad.ops.call import apply, invoke, is_recorded

_MAX, _AVG, _ADAPTIVE = (BY_NAME[name].id for name in ("max_pool2d", "avg_pool2d", "adaptive_avg_pool2d"))
_NDIM = TENSOR.fields["ndim"][0]
_UNDILATED = 6  # settings of windows without dilation

Size = Setting


@public(method=False)
@planned
def max_pool1d(
    input: Any,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of each window of a signal (N, C, L) or (C, L); see `max_pool2d`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.functional.max_pool1d(fg.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    tensor([[3., 2.]])
    """
    out = _max("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode)
    return out if return_indices else out[0]


@public(method=False)
@planned
def max_pool2d(
    input: Any,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of each window of an image.

    Parameters
    ----------
    input : Tensor
        Shape (N, C, H, W) or (C, H, W).
    kernel_size : int or tuple of int
        Height and width of the windows.
    stride : int or tuple of int, optional
        How far apart they are; as far as they are large if not given.
    padding : int or tuple of int
        How far windows reach beyond the image, at most half of their size. What lies there is no maximum.
    dilation : int or tuple of int
        How far apart the elements of a window are.
    ceil_mode : bool
        Whether a last window counts that reaches beyond the image and its padding; it must begin before their end.
    return_indices : bool
        Whether to return as well where the maxima are, counted row by row within each image. Of equal ones it is the
        first; nan counts as greatest, and of several the last is taken.

    Returns
    -------
    Tensor, or a tuple of two
        Shape (N, C, (H + 2 padding - dilation (KH - 1) - 1) // stride + 1, ...); rounded up with `ceil_mode`.

    Raises
    ------
    RuntimeError
        If the windows do not fit the image.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.arange(16.0).reshape(1, 4, 4)
    >>> fg.nn.functional.max_pool2d(x, 2)
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """
    out = _max("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode)
    return out if return_indices else out[0]


@public(method=False)
@planned
def max_pool1d_with_indices(
    input: Any,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Any, Any]:
    """`max_pool1d` with the indices, whatever `return_indices` says."""
    return _max("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode)


@planned
def max_pool2d_with_indices(
    input: Any,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Any, Any]:
    """`max_pool2d` with the indices, whatever `return_indices` says."""
    return _max("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode)


@public(method=False)
@planned
def avg_pool1d(
    input: Any,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """The mean of each window of a signal (N, C, L) or (C, L); see `avg_pool2d`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.functional.avg_pool1d(fg.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    tensor([[2., 1.]])
    """
    return _avg("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@planned
def avg_pool2d(
    input: Any,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window of an image.

    Parameters
    ----------
    input : Tensor
        Shape (N, C, H, W) or (C, H, W).
    kernel_size, stride, padding, ceil_mode
        As in `max_pool2d`.
    count_include_pad : bool
        Whether the padding counts as zeros; otherwise the mean is that of the elements of the image.
    divisor_override : int, optional
        What to divide the sums by instead.

    Returns
    -------
    Tensor
        Of the shape that `max_pool2d` gives.

    Raises
    ------
    RuntimeError
        If the windows do not fit the image, or the divisor is 0.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.arange(16.0).reshape(1, 4, 4)
    >>> fg.nn.functional.avg_pool2d(x, 2)
    tensor([[[ 2.5000,  4.5000],
             [10.5000, 12.5000]]])
    """
    return _avg(
        "avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


@public(method=False)
@planned
def adaptive_avg_pool1d(input: Any, output_size: Size) -> Any:
    """The means of `output_size` equal parts of a signal (N, C, L) or (C, L); see `adaptive_avg_pool2d`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.functional.adaptive_avg_pool1d(fg.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    tensor([[2., 1.]])
    """
    return _adaptive("adaptive_avg_pool1d", 1, input, output_size)


@planned
def adaptive_avg_pool2d(input: Any, output_size: int | tuple[int | None, ...] | None) -> Any:
    """The means of equal parts of an image, as many as the result shall have.

    Part i of ``n`` of a dimension of size ``s`` is from ``floor(i s / n)`` to ``ceil((i + 1) s / n)``.

    Parameters
    ----------
    input : Tensor
        Shape (N, C, H, W) or (C, H, W).
    output_size : int, None or a tuple of two
        Height and width of the result; None keeps that of the input.

    Raises
    ------
    RuntimeError
        If the input has other dimensions, or none of its elements.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.arange(9.0).reshape(1, 3, 3)
    >>> fg.nn.functional.adaptive_avg_pool2d(x, 2)
    tensor([[[2., 3.],
             [5., 6.]]])
    """
    return _adaptive("adaptive_avg_pool2d", 2, input, output_size)


# --- what they share -------------------------------------------------------------------------------------------


def _windows(
    name: str, rank: int, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What `_fitted` makes of the arguments of a function."""
    sizes = rt.sizes(need_tensor(name, x))
    as_flag(name, "ceil_mode", ceil_mode)
    if are_plain(kernel, padding, dilation) and (stride is None or are_plain(stride)):
        return _planned(name, rank, sizes, kernel, stride, padding, dilation, ceil_mode)
    return _planned_from_any(name, rank, sizes, kernel, stride, padding, dilation, ceil_mode)


def _planned_from_any(
    name: str,
    rank: int,
    sizes: tuple[int, ...],
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    kernels = each_dim(name, "kernel_size", kernel, rank)
    unset = stride is None or (isinstance(stride, (tuple, list)) and not stride)
    strides = kernels if unset else each_dim(name, "stride", stride, rank)
    paddings, dilations = each_dim(name, "padding", padding, rank), each_dim(name, "dilation", dilation, rank)
    return _fitted(name, rank, sizes, kernels, strides, paddings, dilations, ceil_mode)


_planned = remembered(_planned_from_any)


@remembered
def _fitted(
    name: str,
    rank: int,
    shape: tuple[int, ...],
    kernels: tuple[int, ...],
    strides: tuple[int, ...],
    paddings: tuple[int, ...],
    dilations: tuple[int, ...],
    ceil_mode: bool,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Kernel, strides, padding and dilation down and across; rank and sizes of the results for images.

    Of kernels there is as much as can lie above the padded image, and no step is longer than that.
    """
    for argument, values, least in (
        ("kernel_size", kernels, 1), ("stride", strides, 1), ("padding", paddings, 0), ("dilation", dilations, 1)
    ):  # fmt: skip
        at_least(name, argument, values, least)
    if len(shape) not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"{name}(): expected a {rank + 1}D or {rank + 2}D (batch mode) tensor, but got input of size "
            f"{list(shape)}"
        )
    if 0 in shape[-rank - 1 :]:
        raise RuntimeError(
            f"{name}(): expected non-zero sizes but for the batch, but got input of size {list(shape)}"
        )
    windows, sizes = [], []
    for size, k, s, p, d in zip(shape[-rank:], kernels, strides, paddings, dilations, strict=True):
        if p > (d * (k - 1) + 1) // 2:
            raise RuntimeError(
                f"{name}(): pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and "
                f"dilation={d}"
            )
        span = size + 2 * p - d * (k - 1) - 1
        out = -(-span // s) + 1 if ceil_mode else span // s + 1
        if ceil_mode and (out - 1) * s >= size + p:  # the last window would see nothing but padding
            out -= 1
        if out < 1:
            raise RuntimeError(
                f"{name}(): Given input size {list(shape)} and kernel_size={list(kernels)}, the result would have "
                f"size {out}. Output size is too small"
            )
        padded = size + 2 * p
        windows.append((min(k, -(-padded // d)), min(s, padded), p, min(d, padded)))
        sizes.append(out)
    settings = [
        v
        for values, absent in zip(zip(*windows, strict=True), (1, 1, 0, 1), strict=True)
        for v in with_rows(rank, values, absent)
    ]
    target = (*shape[:-rank], *with_rows(rank, tuple(sizes), 1))
    return tuple(settings), (len(target), *target)


def _channels_last(x: Any) -> int:
    """Whether the results for a batch of images have their channels last; a single image has no such order."""
    return rt.channels_last(x) if rt.field(x, _NDIM) == 4 else 0  # type: ignore[no-any-return]


def _max(
    name: str, rank: int, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> tuple[Any, Any]:
    settings, target = _windows(name, rank, x, kernel, stride, padding, dilation, ceil_mode)
    if rank == 1:
        x = x.unsqueeze(-2)
    out, indices = apply(_MAX, 1, 0, x, *settings, _channels_last(x), *target)
    return (out.squeeze(-2), indices.squeeze(-2)) if rank == 1 else (out, indices)


def max_pool2d_gradient(
    name: str,
    g: Any,
    x: Any,
    indices: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
) -> Any:
    """The gradient of `max_pool2d` by its input, of which it is a function without slope."""
    settings, target = _windows(name, 2, x, kernel, stride, padding, dilation, ceil_mode)
    if tuple(target[1:]) != tuple(g.shape) or tuple(target[1:]) != tuple(indices.shape):
        raise RuntimeError(
            f"{name}(): expected grad_output and indices of the sizes {list(target[1:])} that pooling gives, but got "
            f"{list(g.shape)} and {list(indices.shape)}"
        )
    if g.dtype is not x.dtype or indices.dtype is not dtypes.int64:
        raise RuntimeError(
            f"{name}(): expected grad_output of the dtype of input, {x.dtype}, and indices of int64, but got "
            f"{g.dtype} and {indices.dtype}"
        )
    if bool(((indices < 0) | (indices >= x.shape[-1] * x.shape[-2])).any()):
        raise IndexError(
            f"{name}(): indices are beyond the {x.shape[-2]} x {x.shape[-1]} elements of an image"
        )
    last = _channels_last(x)
    found = invoke(BY_NAME["max_pool2d_backward"], (g.detach(), indices), last, x.dim(), *x.shape)
    if not is_recorded(g, x):
        return found
    return invoke(BY_NAME["max_pool2d_recorded_backward"], (g, x, indices, found), *settings, last, *target)


def _avg(
    name: str,
    rank: int,
    x: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    counts: bool,
    divisor: Any,
) -> Any:
    settings, target = _windows(name, rank, x, kernel, stride, padding, 1, ceil_mode)
    if divisor is not None and as_index(name, "divisor_override", divisor) == 0:
        raise RuntimeError(f"{name}(): divisor must be not zero, but got divisor_override=0")
    if rank == 1:
        x = x.unsqueeze(-2)
    out = apply(
        _AVG, 1, 0, x, *settings[:_UNDILATED], as_flag(name, "count_include_pad", counts), divisor or 0,
        _channels_last(x), *target,
    )  # fmt: skip
    return out.squeeze(-2) if rank == 1 else out


def _adaptive(name: str, rank: int, x: Any, output_size: Any) -> Any:
    need_tensor(name, x)
    if x.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"{name}(): Expected {rank + 1}D or {rank + 2}D tensor, but got input of size {list(x.shape)}"
        )
    if isinstance(output_size, (tuple, list)):
        given = tuple(output_size)
    else:
        given = (output_size,) * rank
    if len(given) != rank:
        raise RuntimeError(f"{name}(): output_size must have {rank} elements, but got {list(given)}")
    sizes = tuple(
        size if n is None else as_index(name, "output_size", n)
        for n, size in zip(given, x.shape[-rank:], strict=True)
    )
    at_least(name, "output_size", sizes, 0)
    if 0 in x.shape[-rank:]:
        raise RuntimeError(
            f"{name}(): Expected input to have non-zero size for the dimensions it pools, but got input of size "
            f"{list(x.shape)}"
        )
    if rank == 1:
        x = x.unsqueeze(-2)
    sizes = with_rows(rank, sizes, 1)
    if sizes == (1, 1):
        out = x.mean((-1, -2), True)
    else:
        out = apply(_ADAPTIVE, 1, 0, x, _channels_last(x), x.ndim, *x.shape[:-2], *sizes)
    return out.squeeze(-2) if rank == 1 else out
