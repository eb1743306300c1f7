"""Maxima over windows of fractional strides: they lie as random numbers say (Graham 2014, "Fractional Max-Pooling")."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fastgrad import dtypes
from fastgrad.functions.arguments import as_flag, need_tensor
from fastgrad.functions.creation import arange, rand
from fastgrad.functions.index import gather
from fastgrad.functions.reduce import max as max_
from fastgrad.functions.shape import cat
from fastgrad.native.build.loader import rt
from fastgrad.nn.functional.windows import Setting, at_least, each_dim

Ratio = float | Sequence[float]


def fractional_max_pool2d_with_indices(
    input: Any,
    kernel_size: Setting,
    output_size: Setting | None = None,
    output_ratio: Ratio | None = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> tuple[Any, Any]:
    """`fractional_max_pool2d` with the indices, whatever `return_indices` says."""
    return _pooled("fractional_max_pool2d", 2, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool2d(
    input: Any,
    kernel_size: Setting,
    output_size: Setting | None = None,
    output_ratio: Ratio | None = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:
    """The maximum of each of a given number of windows, whose places are random.

    Along a dimension of size N with windows of size K and M results, the window i < M - 1 begins at
    ``floor((i + u) a) - floor(u a)`` with ``a = (N - K) / (M - 1)`` and a random number u in [0, 1) for each
    channel; the last one begins at N - K.

    Parameters
    ----------
    input : Tensor
        Images (N, C, H, W), or one image (C, H, W).
    kernel_size : int or tuple of int
    output_size : int or tuple of int, optional
        Rows and columns of the result.
    output_ratio : float or tuple of float, optional
        What part of those of the image they are. Exactly one of the two is given.
    return_indices : bool
        Give the places of the maxima in their images as well.
    _random_samples : Tensor, optional
        The random numbers (N, C, 2), across first, instead of new ones.

    Raises
    ------
    ValueError
        If there is neither `output_size` nor `output_ratio`.
    RuntimeError
        If the windows do not fit the image.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.arange(16.0).reshape(1, 4, 4)
    >>> fg.nn.functional.fractional_max_pool2d(x, 2, output_size=2)[0, 1, 1]
    tensor(15.)
    """
    found = fractional_max_pool2d_with_indices(
        input, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )
    return found if as_flag("fractional_max_pool2d", "return_indices", return_indices) else found[0]


def fractional_max_pool3d_with_indices(
    input: Any,
    kernel_size: Setting,
    output_size: Setting | None = None,
    output_ratio: Ratio | None = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> tuple[Any, Any]:
    """`fractional_max_pool3d` with the indices, whatever `return_indices` says."""
    return _pooled("fractional_max_pool3d", 3, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool3d(
    input: Any,
    kernel_size: Setting,
    output_size: Setting | None = None,
    output_ratio: Ratio | None = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:
    """The same of volumes (N, C, D, H, W) or (C, D, H, W); see `fractional_max_pool2d`.

    The random numbers are (N, C, 3): deep, down, across.

    Raises
    ------
    ValueError
        If there is neither `output_size` nor `output_ratio`.
    RuntimeError
        If the windows do not fit the volume.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.arange(27.0).reshape(1, 3, 3, 3)
    >>> fg.nn.functional.fractional_max_pool3d(x, 2, output_ratio=0.7)[0, 1, 1, 1]
    tensor(26.)
    """
    found = fractional_max_pool3d_with_indices(
        input, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )
    return found if as_flag("fractional_max_pool3d", "return_indices", return_indices) else found[0]


def _pooled(
    name: str, rank: int, input: Any, kernel_size: Any, output_size: Any, output_ratio: Any, samples: Any
) -> tuple[Any, Any]:
    x = need_tensor(name, input)
    if x.ndim not in (rank + 1, rank + 2) or 0 in x.shape[-rank - 1 :]:
        raise RuntimeError(
            f"{name}(): Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with non-zero sizes for input, but "
            f"got: {list(x.shape)}"
        )
    kernel = each_dim(name, "kernel_size", kernel_size, rank)
    sizes = _target(name, rank, rt.sizes(x), output_size, output_ratio)
    at_least(name, "kernel_size", kernel, 1)
    at_least(name, "output_size", sizes, 1)
    for n, k, out in zip(rt.sizes(x)[-rank:], kernel, sizes, strict=True):
        if out + k - 1 > n:
            raise RuntimeError(
                f"{name}(): pool of size {k} with {out} results is too large relative to input of size {n}: "
                "output_size + kernel_size - 1 must be at most the size of the input"
            )
    batch = x if x.ndim == rank + 2 else x.unsqueeze(0)
    samples = _checked_samples(name, rank, batch, samples)
    out, places = _maxima(batch, kernel, sizes, samples)
    return (out, places) if x.ndim == rank + 2 else (out.squeeze(0), places.squeeze(0))


def _target(name: str, rank: int, shape: tuple[int, ...], size: Any, ratio: Any) -> tuple[int, ...]:
    if size is not None:
        return each_dim(name, "output_size", size, rank)
    if ratio is None:
        raise ValueError(f"{name}() requires specifying either an output_size or an output_ratio")
    ratios = tuple(ratio) if isinstance(ratio, (tuple, list)) else (ratio,) * rank
    if len(ratios) != rank:
        raise ValueError(f"{name}(): requires output_ratio to be a number or {rank} of them, but got {ratio}")
    return tuple(int(n * r) for n, r in zip(shape[-rank:], ratios, strict=True))


def _checked_samples(name: str, rank: int, x: Any, samples: Any) -> Any:
    expected = (*rt.sizes(x)[:2], rank)
    if samples is None:
        return rand(*expected, dtype=x.dtype if x.is_floating_point() else None, device=x.device)
    if rt.sizes(need_tensor(name, samples, "_random_samples")) != expected:
        raise RuntimeError(
            f"{name}(): expected _random_samples of shape {list(expected)}, but got {list(samples.shape)}"
        )
    return samples.detach()


def _maxima(x: Any, kernel: tuple[int, ...], sizes: tuple[int, ...], samples: Any) -> tuple[Any, Any]:
    """Windows of each channel, one beside the other, and their maxima, with the places of these."""
    rank, image, head = len(kernel), rt.sizes(x)[2:], rt.sizes(x)[:2]
    places: Any = None
    for k in range(rank):
        u = samples[..., rank - 1 - k if rank == 2 else k]  # PyTorch's order
        line = _starts(u, image[k], kernel[k], sizes[k], x.device).unsqueeze(-1) + arange(
            kernel[k], device=x.device
        )
        shape = [*head, *(1,) * (2 * rank)]
        shape[2 + k], shape[2 + rank + k] = sizes[k], kernel[k]
        line = line.reshape(shape) * math.prod(image[k + 1 :])
        places = line if places is None else places + line
    count, window = math.prod(sizes), math.prod(kernel)
    flat = places.reshape(*head, count, window)
    lines = x.reshape(*head, math.prod(image))  # no -1: a batch may be empty
    seen = gather(lines, 2, flat.reshape(*head, count * window)).reshape(*head, count, window)
    best, which = max_(seen, -1)
    at = gather(flat, -1, which.unsqueeze(-1)).squeeze(-1)
    return best.reshape(*head, *sizes), at.reshape(*head, *sizes)


def _starts(u: Any, size: int, kernel: int, count: int, device: Any) -> Any:
    """Where the windows along a dimension begin, of shape (N, C, count)."""
    last = (u * 0 + float(size - kernel)).to(dtypes.int64).unsqueeze(-1)
    if count == 1:
        return last
    step = (size - kernel) / (count - 1)
    u = u.unsqueeze(-1)
    steps = arange(count - 1, device=device, dtype=u.dtype)
    begins = ((u + steps) * step).to(dtypes.int64) - (u * step).to(dtypes.int64)
    return cat((begins, last), -1)
