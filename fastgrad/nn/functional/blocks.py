"""Sliding blocks of images as columns, and the other way around."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.functions.arguments import need_tensor
from fastgrad.functions.creation import tensor, zeros
from fastgrad.functions.index import index_select
from fastgrad.functions.scattering import scatter_add
from fastgrad.nn.functional.padding import pad
from fastgrad.nn.functional.windows import Setting, at_least, each_dim, remembered


def unfold(
    input: Any, kernel_size: Setting, dilation: Setting = 1, padding: Setting = 0, stride: Setting = 1
) -> Any:
    """The sliding blocks of an image as columns.

    Parameters
    ----------
    input : Tensor
        Of shape (N, C, H, W) or (C, H, W).
    kernel_size, dilation, padding, stride : int or tuple of two
        Of the blocks, as of the windows of a convolution.

    Returns
    -------
    Tensor
        Of shape (N, C kh kw, L) or (C kh kw, L), with L blocks.

    Raises
    ------
    RuntimeError
        If there is no block, or a setting is too small.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.functional.unfold(fg.arange(6.0).reshape(1, 2, 3), 2)
    tensor([[0., 1.],
            [1., 2.],
            [3., 4.],
            [4., 5.]])
    """
    x = need_tensor("unfold", input)
    window = _window("unfold", kernel_size, dilation, padding, stride)
    if x.ndim not in (3, 4) or 0 in x.shape[-3:]:
        raise RuntimeError(
            "unfold(): Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions "
            f"for input, but got: {list(x.shape)}"
        )
    down, across = window[2]
    images = x.unsqueeze(0) if x.ndim == 3 else x
    if down or across:
        images = pad(images, (across, across, down, down))
    places = _places("unfold", tuple(images.shape[2:]), window)
    n, c = images.shape[:2]
    flat = images.reshape(n, c, images.shape[2] * images.shape[3])
    out = index_select(flat, 2, tensor(places.reshape(-1), device=x.device))
    out = out.reshape(n, c * len(places), places.shape[1])
    return out if x.ndim == 4 else out.squeeze(0)


def fold(
    input: Any,
    output_size: Setting,
    kernel_size: Setting,
    dilation: Setting = 1,
    padding: Setting = 0,
    stride: Setting = 1,
) -> Any:
    """The image of which columns are the sliding blocks; where blocks overlap, they are added up.

    Parameters
    ----------
    input : Tensor
        Of shape (N, C kh kw, L) or (C kh kw, L).
    output_size : int or tuple of two
        Height and width of the image.
    kernel_size, dilation, padding, stride : int or tuple of two
        As in `unfold`.

    Returns
    -------
    Tensor
        Of shape (N, C, H, W) or (C, H, W).

    Raises
    ------
    RuntimeError
        If sizes do not fit.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.functional.fold(fg.ones(4, 2), (2, 3), 2)
    tensor([[[1., 2., 1.],
             [1., 2., 1.]]])
    """
    x = need_tensor("fold", input)
    height, width = each_dim("fold", "output_size", output_size, 2)
    window = _window("fold", kernel_size, dilation, padding, stride)
    if x.ndim not in (2, 3) or 0 in x.shape[-2:]:
        raise RuntimeError(
            "fold(): Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero "
            f"dimensions for input, but got: {list(x.shape)}"
        )
    down, across = window[2]
    padded = height + 2 * down, width + 2 * across
    places = _places("fold", padded, window)
    columns = x.unsqueeze(0) if x.ndim == 2 else x
    n, rows, blocks = columns.shape
    if rows % len(places) or blocks != places.shape[1]:
        raise RuntimeError(
            f"fold(): expected rows that are a multiple of the product of kernel_size, {len(places)}, and "
            f"{places.shape[1]} blocks, but got {list(x.shape)}"
        )
    c = rows // len(places)
    target = zeros((n, c, padded[0] * padded[1]), dtype=x.dtype, device=x.device)
    index = tensor(places.reshape(1, 1, -1), device=x.device).expand(n, c, places.size)
    out = scatter_add(target, 2, index, columns.reshape(n, c, places.size)).reshape(n, c, *padded)
    if down or across:
        out = pad(out, (-across, -across, -down, -down))
    return out if x.ndim == 3 else out.squeeze(0)


Window = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def _window(name: str, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Window:
    """The settings, for each of the two dimensions."""
    kernel = each_dim(name, "kernel_size", kernel_size, 2)
    apart = each_dim(name, "dilation", dilation, 2)
    around = each_dim(name, "padding", padding, 2)
    steps = each_dim(name, "stride", stride, 2)
    for argument, values, least in (
        ("kernel_size", kernel, 1),
        ("dilation", apart, 1),
        ("padding", around, 0),
        ("stride", steps, 1),
    ):
        at_least(name, argument, values, least)
    return kernel, apart, around, steps


@remembered
def _places(name: str, sizes: tuple[int, int], window: Window) -> np.ndarray:
    """Where in a padded plane the elements of blocks are: a row for each element, a column for each block."""
    kernel, dilation, _, stride = window
    counts = [
        (n - d * (k - 1) - 1) // s + 1 for n, k, d, s in zip(sizes, kernel, dilation, stride, strict=True)
    ]
    if min(counts) < 1:
        raise RuntimeError(
            f"{name}(): Given padded size {list(sizes)}, kernel_size={kernel}, dilation={dilation}, calculated shape "
            f"of the array of sliding blocks as {tuple(counts)}, but its components must be at least one."
        )
    rows, columns = (
        np.arange(k)[:, None] * d + np.arange(count)[None] * s
        for k, d, s, count in zip(kernel, dilation, stride, counts, strict=True)
    )
    found = rows[:, None, :, None] * sizes[1] + columns[None, :, None, :]
    return found.reshape(kernel[0] * kernel[1], counts[0] * counts[1])
