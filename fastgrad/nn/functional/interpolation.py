"""Images of other sizes: `interpolate` in all modes, and its names of old.

Each dimension is resized by itself. Nearest elements are selected; linear and cubic interpolation, and filters against
aliasing, add up elements that a table names, times their weights: see `ops.resampling`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fastgrad import dtypes
from fastgrad.autograd.modes import inference_mode
from fastgrad.functions.arguments import as_float, as_index, need_tensor
from fastgrad.functions.autocasting import full_precision_on_gpus
from fastgrad.functions.creation import tensor
from fastgrad.functions.index import index_select
from fastgrad.functions.memory_format import channels_last, channels_last_3d
from fastgrad.functions.plans import constant, planned, warn
from fastgrad.functions.shape import movedim
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.element_types import HALVES
from fastgrad.nn.functional.pooling import adaptive_avg_pool1d, adaptive_avg_pool2d
from fastgrad.nn.functional.windows import remembered
from fastgrad.ops.call import apply
from fastgrad.ops.registry import Op
from fastgrad.ops.resampling import BY_MODE, resample

_RANKS = {"linear": (1,), "bilinear": (2,), "bicubic": (2,), "trilinear": (3,)}
_MODES = ("nearest", "nearest-exact", "area", *_RANKS)
_CHANNELS_LAST = {4: channels_last, 5: channels_last_3d}
_CUBIC = -0.75  # the parameter of the kernel of Keys (1981)
_CUBIC_ANTIALIASED = -0.5


@planned
@full_precision_on_gpus
def interpolate(
    input: Any,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """Images, signals or volumes of another size.

    Parameters
    ----------
    input : Tensor
        Of shape (N, C, L), (N, C, H, W) or (N, C, D, H, W).
    size : int or sequence of int, optional
        The size of the result in each dimension behind the channels.
    scale_factor : float or sequence of float, optional
        How many times as large it is. Exactly one of the two is given.
    mode : "nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear" or "area"
        "linear" is for one dimension, "bilinear" and "bicubic" for two, "trilinear" for three.
    align_corners : bool, optional
        Whether the centres of the corners stay where they are, and not their outer edges; for the modes that
        interpolate.
    recompute_scale_factor : bool, optional
        Whether the scale follows from the sizes, which are rounded, instead of being `scale_factor`.
    antialias : bool
        For "bilinear" and "bicubic": take all elements into account where an image shrinks.

    Returns
    -------
    Tensor

    Raises
    ------
    ValueError
        If sizes are given twice or not at all, or options do not fit the mode.
    NotImplementedError
        If the mode does not fit the number of dimensions, or does not exist.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.tensor([[[1.0, 2.0]]])
    >>> fg.nn.functional.interpolate(x, size=4, mode="linear")
    tensor([[[1.0000, 1.2500, 1.7500, 2.0000]]])
    """
    x = need_tensor("interpolate", input)
    _check_options(x, mode, align_corners, antialias)
    sizes, scales = _target(tuple(x.shape[2:]), size, scale_factor, recompute_scale_factor, mode)
    if any(n <= 0 for n in (*x.shape[1:], *sizes)):
        raise RuntimeError(
            f"interpolate(): Input and output sizes should be greater than 0, but got input {list(x.shape)} and output "
            f"{list(sizes)}"
        )
    if mode == "area":
        return _averaged(x, sizes)
    if mode.startswith("nearest"):
        return _nearest(x, sizes, scales, mode == "nearest-exact")
    if not x.is_floating_point():
        raise NotImplementedError(
            f"interpolate(): not implemented for '{x.dtype.type_name}' in mode {mode!r}"
        )
    options = bool(align_corners), mode == "bicubic", x.dtype is dtypes.float64
    plans = [
        (k + 2, (x.shape[k + 2], n, scale, *options))
        for k, (n, scale) in enumerate(zip(sizes, scales, strict=True))
        if n != x.shape[k + 2] or not (scale is None or scale == 1.0 or align_corners)
    ]
    if not plans:
        return x * 1
    if x.dtype.code in HALVES:  # weights are never rounded to halves
        return _in_order(x.float(), plans, antialias, mode).to(x.dtype)
    return _in_order(x, plans, antialias, mode)


def _check_options(x: Any, mode: str, align_corners: bool | None, antialias: bool) -> None:
    if mode not in _MODES:
        raise NotImplementedError(
            f"interpolate(): mode {mode!r} is not supported; use one of {', '.join(_MODES)}"
        )
    if align_corners is not None and mode not in _RANKS:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
        )
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ValueError(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor"
        )
    if x.ndim not in (3, 4, 5) or x.ndim - 2 not in _RANKS.get(mode, (1, 2, 3)):
        raise NotImplementedError(
            f"interpolate(): an input of {x.ndim} dimensions, {max(x.ndim - 2, 0)} of them behind the channels, is not "
            f"supported in mode {mode!r}"
        )


def _each(argument: str, value: Any, rank: int) -> tuple[Any, ...]:
    """A setting given once, or for each dimension behind the channels."""
    if not isinstance(value, (tuple, list)):
        return (value,) * rank
    if len(value) != rank:
        raise ValueError(
            f"Input and output must have the same number of spatial dimensions, but got {argument}={list(value)} for "
            f"{rank} of them"
        )
    return tuple(value)


def _target(
    sizes: tuple[int, ...], size: Any, scale_factor: Any, recompute: bool | None, mode: str
) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    """The sizes of the result, and for each dimension the scale if it is not to follow from them."""
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    rank = len(sizes)
    if size is not None:
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        found = tuple(as_index("interpolate", "size", n) for n in _each("size", size, rank))
        return found, (None,) * rank
    factors = tuple(
        as_float("interpolate", "scale_factor", f) for f in _each("scale_factor", scale_factor, rank)
    )
    if not all(math.isfinite(f) and f > 0 for f in factors):
        raise RuntimeError(f"interpolate(): scale factors must be positive, but got {list(factors)}")
    found = tuple(math.floor(n * f) for n, f in zip(sizes, factors, strict=True))
    return found, (None,) * rank if recompute else factors


def _averaged(x: Any, sizes: tuple[int, ...]) -> Any:
    """Means over windows: those of volumes are means of means."""
    if len(sizes) == 1:
        return adaptive_avg_pool1d(x, sizes[0])
    if len(sizes) == 2:
        return adaptive_avg_pool2d(x, sizes)
    n, c, d, h, w = x.shape
    planes = adaptive_avg_pool2d(x.reshape(n * c, d, h, w), sizes[1:])
    lines = adaptive_avg_pool1d(
        planes.reshape(n, c, d, sizes[1] * sizes[2]).transpose(2, 3).reshape(n, -1, d), sizes[0]
    )
    return lines.reshape(n, c, sizes[1] * sizes[2], sizes[0]).transpose(2, 3).reshape(n, c, *sizes)


# --- nearest ----------------------------------------------------------------------------------------------------


def _nearest(x: Any, sizes: tuple[int, ...], scales: tuple[float | None, ...], exact: bool) -> Any:
    shape = x.shape[2:]
    places = [_nearest_places(*plan, exact) for plan in zip(shape, sizes, scales, strict=True)]
    if all(n % old == 0 and _repeats(p, n // old) for old, n, p in zip(shape, sizes, places, strict=True)):
        apart, spread = list(x.shape[:2]), list(x.shape[:2])
        for old, n in zip(shape, sizes, strict=True):
            apart += [old, 1]
            spread += [old, n // old]
        return x.reshape(apart).expand(spread).reshape(*x.shape[:2], *sizes)
    for k, plan in enumerate(zip(shape, sizes, scales, strict=True)):
        x = index_select(x, k + 2, _nearest_tensor(*plan, exact, x.device))
    return x


@functools.lru_cache(maxsize=64)
def _nearest_tensor(old: int, new: int, scale: float | None, exact: bool, device: Any) -> Any:
    """The places as a tensor, which stays as it is."""
    with inference_mode(False):
        return constant(tensor(_nearest_places(old, new, scale, exact), device=device))


@remembered
def _nearest_places(old: int, new: int, scale: float | None, exact: bool) -> np.ndarray:
    """Which element stands at each place; as in PyTorch, computed in float32."""
    step = np.float32(old / new if scale is None else 1.0 / scale)
    at = np.arange(new, dtype=np.float32)
    found = np.floor((at + np.float32(0.5)) * step if exact else at * step)
    return np.minimum(found.astype(np.int64), old - 1)


def _repeats(places: np.ndarray, times: int) -> bool:
    return bool((places == np.arange(len(places)) // times).all())


# --- linear and cubic -------------------------------------------------------------------------------------------


def _step(old: int, new: int, scale: float | None, corners: bool, kind: Any) -> Any:
    if corners:
        return kind((old - 1) / (new - 1)) if new > 1 else kind(0)
    return kind(old) / kind(new) if scale is None else kind(1.0 / scale)


Plan = tuple[int, int, float | None, bool, bool, bool]


@remembered
def _neighbours(
    old: int, new: int, scale: float | None, corners: bool, cubic: bool, wide: bool
) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """The neighbours of each place, with their weights: two of them, or four."""
    kind: Any = np.float64 if wide else np.float32
    step, at = _step(old, new, scale, corners, kind), np.arange(new, dtype=kind)
    where: Any = at * step if corners else (at + kind(0.5)) * step - kind(0.5)
    if not cubic:
        where = np.maximum(where, kind(0))
        first = np.minimum(np.floor(where).astype(np.int64), old - 1)
        right = np.clip(where - first.astype(kind), 0, 1).astype(kind)
        return (first, kind(1) - right), (np.minimum(first + 1, old - 1), right)
    first = np.floor(where).astype(np.int64)
    t = where - first.astype(kind)
    distances = (t + kind(1), t, kind(1) - t, kind(2) - t)
    return tuple(
        (np.clip(first + k - 1, 0, old - 1), _keys(d, kind(_CUBIC)).astype(kind))
        for k, d in enumerate(distances)
    )


def _keys(d: np.ndarray, a: Any) -> np.ndarray:
    """The cubic kernel at distances from 0 to 2."""
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


@remembered
def _antialiased(
    old: int, new: int, scale: float | None, corners: bool, cubic: bool, wide: bool
) -> np.ndarray:
    """The matrix of a filter that is as wide as an element of the result."""
    kind: Any = np.float64 if wide else np.float32
    step = _step(old, new, scale, corners, kind)
    reach = kind(2 if cubic else 1)
    support = reach * step if step >= 1 else reach
    shrink = kind(1) / step if step >= 1 else kind(1)
    rows = np.zeros((new, old), kind)
    for i in range(new):
        centre = step * kind(i + 0.5)
        low = max(int(centre - support + kind(0.5)), 0)
        high = min(int(centre + support + kind(0.5)), old)
        d = np.abs((np.arange(low, high).astype(kind) - centre + kind(0.5)) * shrink)
        weights = _keys(d, kind(_CUBIC_ANTIALIASED)) if cubic else np.maximum(1 - d, 0)
        rows[i, low:high] = weights / weights.sum()
    return rows


Table = tuple[np.ndarray, np.ndarray]
"""The sources of each place of a row, one row for each tap, -1 for none; and their weights."""


@remembered
def _tables(plan: Plan, antialias: bool) -> tuple[Table, Table]:
    """The tables of a map of rows, and of its transpose."""
    old, new = plan[:2]
    if antialias:
        matrix = _antialiased(*plan)
        places, sources = np.nonzero(matrix)
        weights = matrix[places, sources]
        forth = _table(places, sources, weights, new)
    else:
        taps = _neighbours(*plan)
        forth = np.stack([source for source, _ in taps]), np.stack([weight for _, weight in taps])
        places = np.tile(np.arange(new), len(taps))
        sources, weights = forth[0].ravel(), forth[1].ravel()
    return forth, _table(sources, places, weights, old)


def _table(places: np.ndarray, sources: np.ndarray, weights: np.ndarray, n: int) -> Table:
    """The table of a sparse matrix with `n` rows, given by its elements; those of a row in the order of sources."""
    order = np.lexsort((sources, places))
    places, sources, weights = places[order], sources[order], weights[order]
    counts = np.bincount(places, minlength=n)
    tap = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
    table = np.full((max(counts.max(), 1), n), -1), np.zeros((max(counts.max(), 1), n), weights.dtype)
    table[0][tap, places] = sources
    table[1][tap, places] = weights
    return table


def _in_order(x: Any, plans: list[tuple[int, Plan]], antialias: bool, mode: str) -> Any:
    """One dimension after the other, as PyTorch the last one first; where channels lie last, they still do so."""
    last = x.ndim > 3 and not x.is_contiguous() and x.is_contiguous(memory_format=_CHANNELS_LAST[x.ndim])
    if last:
        x = movedim(x, 1, -1)
    for k, (dim, plan) in reversed(list(enumerate(plans))):
        x = _resampled(x, dim - last, plan, antialias, resample if k else BY_MODE[mode, antialias])
    return movedim(x, -1, 1) if last else x


@functools.lru_cache(maxsize=64)
def _table_tensors(plan: Plan, antialias: bool, dtype: Any, device: Any) -> list[Any]:
    """The tables as tensors, which stay as they are."""
    with inference_mode(False):
        return [
            constant(tensor(values, dtype=None if values.dtype == np.int64 else dtype, device=device))
            for table in _tables(plan, antialias)
            for values in table
        ]


def _resampled(x: Any, dim: int, plan: Plan, antialias: bool, op: Op) -> Any:
    """Each row along a dimension in another size."""
    operands = _table_tensors(plan, antialias, x.dtype, x.device)
    sizes = rt.sizes(x)
    taps, back_taps = (rt.sizes(sources)[0] for sources in operands[::2])
    before, after = sizes[:dim], sizes[dim + 1 :]
    return apply(
        op.id, 5, 0, x, *operands, math.prod(before), sizes[dim], math.prod(after), plan[1], taps, back_taps,
        len(sizes), *before, plan[1], *after,
    )  # fmt: skip


# --- names of old -----------------------------------------------------------------------------------------------


def upsample(
    input: Any,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Any:
    """`interpolate` under its name of old."""
    need_tensor("upsample", input)
    warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Any, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
) -> Any:
    """`interpolate` in mode "nearest" under its name of old."""
    need_tensor("upsample_nearest", input)
    warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(
    input: Any, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
) -> Any:
    """`interpolate` in mode "bilinear" with aligned corners under its name of old."""
    need_tensor("upsample_bilinear", input)
    warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
