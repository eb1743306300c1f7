"""Elements of channels that become pixels, and the other way around; channels in another order."""

from __future__ import annotations

import math
from typing import Any

from fastgrad.functions.arguments import as_index, need_tensor
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public


def _factor(name: str, argument: str, value: Any) -> int:
    factor = as_index(name, argument, value)
    if factor <= 0:
        raise RuntimeError(f"{name}(): expects a positive {argument}, but got {factor}")
    return factor


def _need_images(name: str, input: Any) -> None:
    if need_tensor(name, input).ndim < 3:
        raise RuntimeError(
            f"{name}(): expects input to have at least 3 dimensions, but got input with {input.ndim} dimension(s)"
        )


@public(method=False)
@planned
def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """Images of shape (..., C r r, H, W) as ones of shape (..., C, H r, W r) (Shi et al. 2016).

    Parameters
    ----------
    input : Tensor
    upscale_factor : int
        r.

    Raises
    ------
    RuntimeError
        If there are less than 3 dimensions or the channels are no multiple of r r.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.functional.pixel_shuffle(fg.arange(4).reshape(4, 1, 1), 2)
    tensor([[[0, 1],
             [2, 3]]])
    """
    _need_images("pixel_shuffle", input)
    r = _factor("pixel_shuffle", "upscale_factor", upscale_factor)
    *batch, channels, height, width = input.shape
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle(): expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={channels} is not divisible by {r * r}"
        )
    found, kept = channels // (r * r), math.prod(batch)
    parts = input.reshape(kept, found, r, r, height, width).permute(0, 1, 4, 2, 5, 3)
    return parts.reshape(*batch, found, height * r, width * r)


@public(method=False)
@planned
def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """Images of shape (..., C, H r, W r) as ones of shape (..., C r r, H, W): the inverse of `pixel_shuffle`.

    Parameters
    ----------
    input : Tensor
    downscale_factor : int
        r.

    Raises
    ------
    RuntimeError
        If there are less than 3 dimensions or height and width are no multiples of r.
    """
    _need_images("pixel_unshuffle", input)
    r = _factor("pixel_unshuffle", "downscale_factor", downscale_factor)
    *batch, channels, height, width = input.shape
    for called, size in (("height", height), ("width", width)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle(): expects {called} to be divisible by downscale_factor, but {size} is not divisible "
                f"by {r}"
            )
    parts = input.reshape(math.prod(batch), channels, height // r, r, width // r, r).permute(0, 1, 3, 5, 2, 4)
    return parts.reshape(*batch, channels * r * r, height // r, width // r)


@public(method=False)
@planned
def channel_shuffle(input: Any, groups: int) -> Any:
    """Channels in another order: the first of each group, then the second of each, and so on (Zhang et al. 2018).

    Parameters
    ----------
    input : Tensor
        Of shape (N, C, ...).
    groups : int
        Divides C.

    Raises
    ------
    RuntimeError
        If there are less than 3 dimensions or `groups` does not divide C.
    """
    if need_tensor("channel_shuffle", input).ndim < 3:
        raise RuntimeError(
            f"channel_shuffle(): expects input with > 2 dims, but got input with sizes {list(input.shape)}"
        )
    groups = as_index("channel_shuffle", "groups", groups)
    n, channels, *rest = input.shape
    if groups <= 0 or channels % groups:
        raise RuntimeError(
            f"channel_shuffle(): Number of groups to divide channels in must be positive and divide them. Value of "
            f"groups:{groups}, channels:{channels}"
        )
    parts = input.reshape(n, groups, channels // groups, *rest).transpose(1, 2)
    return parts.reshape(n, channels, *rest)


@public(method=False)
def native_channel_shuffle(input: Any, groups: int) -> Any:
    """`channel_shuffle` under another name."""
    return channel_shuffle(input, groups)
