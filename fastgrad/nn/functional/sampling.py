"""Sampling images and volumes at the places of a grid, and grids of affine maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fastgrad.functions.arguments import as_sizes, need_tensor
from fastgrad.functions.autocasting import full_precision_on_gpus
from fastgrad.functions.creation import tensor
from fastgrad.functions.linalg import bmm
from fastgrad.functions.plans import warn
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.frames.layers import BORDER, CUBIC, LINEAR, NEAREST, REFLECTION, ZEROS
from fastgrad.native.host.tables import BY_NAME
from fastgrad.nn.functional.windows import remembered
from fastgrad.ops.call import apply

GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": LINEAR, "nearest": NEAREST, "bicubic": CUBIC}
GRID_SAMPLE_PADDING_MODES = {"zeros": ZEROS, "border": BORDER, "reflection": REFLECTION}
_OPS = {rank: BY_NAME[f"grid_sampler_{rank}d"].id for rank in (2, 3)}


@full_precision_on_gpus
def grid_sample(
    input: Any,
    grid: Any,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Any:
    """The elements of images, or of volumes, at the places of a grid, between which there is interpolation.

    Parameters
    ----------
    input : Tensor
        Images (N, C, H, W), or volumes (N, C, D, H, W).
    grid : Tensor
        Places (N, H', W', 2) or (N, D', H', W', 3), of the dtype of `input`. The last dimension holds x, which goes
        across, y and for volumes z. From -1 to 1 they lie in the image.
    mode : "bilinear", "nearest" or "bicubic"
        "bilinear" is trilinear in volumes; "bicubic", with the kernel of Keys (1981) for a = -0.75, is for images.
    padding_mode : "zeros", "border" or "reflection"
        What lies outside: zeros, the nearest elements of the border, or the image reflected at it.
    align_corners : bool, optional
        Whether -1 and 1 are the centres of the elements in the corners, instead of their outer edges. False if not
        given, with a warning.

    Returns
    -------
    Tensor
        Of shape (N, C, H', W') or (N, C, D', H', W'). It has derivatives up to the second order.

    Raises
    ------
    ValueError
        If there is no such mode.
    RuntimeError
        If shapes or dtypes do not fit each other.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> fg.nn.functional.grid_sample(x, fg.tensor([[[[0.0, 0.0], [1.0, -1.0]]]]), align_corners=True)
    tensor([[[[2.5000, 2.0000]]]])
    """
    x, places = need_tensor("grid_sample", input), need_tensor("grid_sample", grid, "grid", 2)
    if mode not in GRID_SAMPLE_INTERPOLATION_MODES:
        raise ValueError(
            f"grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: {mode!r}"
        )
    if padding_mode not in GRID_SAMPLE_PADDING_MODES:
        raise ValueError(
            "grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"{padding_mode!r}"
        )
    if align_corners is None:
        _warn_of_corners("grid_sample")
    kinds = GRID_SAMPLE_INTERPOLATION_MODES[mode], GRID_SAMPLE_PADDING_MODES[padding_mode]
    _check_dtypes(x, places)
    rank, integers = _plan(rt.sizes(x), rt.sizes(places), *kinds, bool(align_corners))
    return apply(_OPS[rank], 2, 0, x, places, *integers)


def _warn_of_corners(name: str) -> None:
    warn(
        f"{name}(): align_corners is not given and is False, as in PyTorch from 1.3.0 on; pass align_corners=True or "
        "False",
        stacklevel=3,
    )


def _check_dtypes(x: Any, grid: Any) -> None:
    if not x.is_floating_point():
        raise NotImplementedError(f"grid_sample(): not implemented for '{x.dtype.type_name}'")
    if grid.dtype is not x.dtype:
        raise RuntimeError(
            f"grid_sample(): expected scalar type {x.dtype.type_name} but found {grid.dtype.type_name} for 'grid'; "
            "convert one of them with .to(dtype)"
        )


@remembered
def _plan(
    image: tuple[int, ...], grid: tuple[int, ...], mode: int, padding: int, corners: bool
) -> tuple[int, tuple[int, ...]]:
    """How many dimensions are sampled, and the integers of the call."""
    sizes = f"but got input with sizes {list(image)} and grid with sizes {list(grid)}"
    if len(image) not in (4, 5) or len(grid) != len(image):
        raise RuntimeError(
            f"grid_sample(): expected 4D or 5D input and grid with same number of dimensions, {sizes}"
        )
    rank = len(image) - 2
    if grid[0] != image[0]:
        raise RuntimeError(f"grid_sample(): expected grid and input to have same batch size, {sizes}")
    if grid[-1] != rank:
        raise RuntimeError(f"grid_sample(): expected grid to have size {rank} in last dimension, {sizes}")
    for k, n in enumerate(image[2:]):
        if n == 0:
            raise RuntimeError(
                "grid_sample(): expected input to have non-empty spatial dimensions, but input has sizes "
                f"{list(image)} with dimension {k + 2} being empty"
            )
    if mode == CUBIC and rank == 3:
        raise RuntimeError("grid_sample(): bicubic interpolation only supports 4D input")
    target = grid[1:-1]
    places = 1
    for n in target:
        places *= n
    count, channels = image[:2]
    deep = (1,) * (3 - rank)
    settings = (
        count,
        channels,
        *deep,
        *image[2:],
        places,
        rank,
        mode,
        padding,
        int(corners),
        0,
        count * places,
    )
    return rank, (*settings, rank + 2, count, channels, *target)


# --- affine maps ------------------------------------------------------------------------------------------------


def affine_grid(theta: Any, size: Sequence[int], align_corners: bool | None = None) -> Any:
    """The grid at which `grid_sample` shows images as affine maps transform them.

    The place of each element of the result, homogeneous coordinates from -1 to 1, is multiplied by the matrix::

        grid[n, i, j] = theta[n] @ (x[j], y[i], 1)

    Parameters
    ----------
    theta : Tensor
        Matrices (N, 2, 3), or (N, 3, 4) for volumes.
    size : sequence of int
        That of the result of `grid_sample`: (N, C, H, W) or (N, C, D, H, W).
    align_corners : bool, optional
        As for `grid_sample`.

    Returns
    -------
    Tensor
        Of shape (N, H, W, 2) or (N, D, H, W, 3).

    Raises
    ------
    ValueError
        If `theta` is not floating or has another shape, or a size is not positive.
    NotImplementedError
        If `size` is for neither images nor volumes.

    Examples
    --------
    >>> import fastgrad as fg
    >>> flip = fg.tensor([[[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> fg.nn.functional.affine_grid(flip, (1, 1, 1, 2), align_corners=False)
    tensor([[[[ 0.5000,  0.0000],
              [-0.5000,  0.0000]]]])
    """
    need_tensor("affine_grid", theta, "theta")
    sizes = as_sizes("affine_grid", (size,), "size")
    if align_corners is None:
        _warn_of_corners("affine_grid")
    if not theta.is_floating_point():
        raise ValueError(f"affine_grid(): Expected theta to have floating point type, but got {theta.dtype}")
    rank = len(sizes) - 2
    if rank not in (2, 3):
        raise NotImplementedError(
            "affine_grid(): only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size "
            f"{tuple(sizes)}"
        )
    if theta.ndim != 3 or rt.sizes(theta)[1:] != (rank, rank + 1):
        raise ValueError(
            f"affine_grid(): Expected a batch of {rank}D affine matrices of shape Nx{rank}x{rank + 1} for size "
            f"{tuple(sizes)}. Got {theta.shape}"
        )
    if min(sizes) <= 0:
        raise ValueError(f"affine_grid(): Expected non-zero, positive output size. Got {tuple(sizes)}")
    if align_corners and 1 in sizes[2:]:
        warn(
            "affine_grid(): with align_corners=True the only place of a dimension of size 1 is its centre, which is "
            "not -1 as in PyTorch before 1.3.0",
            stacklevel=2,
        )
    if rt.sizes(theta)[0] != sizes[0]:
        raise RuntimeError(
            f"affine_grid(): Expected {sizes[0]} matrices, one for each image of size {tuple(sizes)}, but got "
            f"{rt.sizes(theta)[0]}"
        )
    base = tensor(_homogeneous(tuple(sizes[2:]), bool(align_corners)), dtype=theta.dtype, device=theta.device)
    places = bmm(base.expand(sizes[0], -1, -1), theta.transpose(1, 2))
    return places.reshape(sizes[0], *sizes[2:], rank)


@remembered
def _homogeneous(sizes: tuple[int, ...], corners: bool) -> np.ndarray:
    """The places of images, with x first and 1 last, of shape (1, places, rank + 1)."""
    lines = []
    for n in sizes:
        line = np.linspace(-1.0, 1.0, n) if n > 1 else np.zeros(1)
        lines.append(line if corners else line * (n - 1) / n)
    axes = [*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(sizes)]
    return np.stack(axes, -1).reshape(1, -1, len(sizes) + 1)
