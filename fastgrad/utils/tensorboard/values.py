"""From tensors, arrays and numbers to what events hold: scalars, pixels, histograms, curves."""

from __future__ import annotations

import functools
import io
from typing import Any

import numpy as np

from fastgrad.functions.data import values_of
from fastgrad.native.build.loader import TensorBase

GRID_COLUMNS = 8
MOST_THRESHOLDS = 127
_LEAST_COUNT = 1e-7
_CURVE = (
    "true_positive_counts", "false_positive_counts", "true_negative_counts", "false_negative_counts", "precision",
    "recall",
)  # fmt: skip


def array_of(function: str, argument: str, value: Any) -> np.ndarray:
    """A tensor, array, number or sequence of numbers as an array."""
    if isinstance(value, TensorBase):
        return values_of(value)
    found = np.asarray(value)
    if found.dtype.kind not in "biufc":
        raise NotImplementedError(  # PyTorch's class, which programs catch
            f"{function}(): argument '{argument}' must be a Tensor, an array or a number, not {type(value).__name__}"
        )
    return found


def real_of(function: str, argument: str, value: Any) -> np.ndarray:
    """The same of what has real elements."""
    found = array_of(function, argument, value)
    if found.dtype.kind == "c":
        raise TypeError(f"{function}(): argument '{argument}' must be real, not complex")
    return found


def number_of(function: str, argument: str, value: Any) -> float:
    """The only element of what has one."""
    if isinstance(value, int):  # of any size
        return float(value)
    found = array_of(function, argument, value)
    if found.size != 1 or found.dtype.kind == "c":
        raise ValueError(
            f"{function}(): argument '{argument}' must hold one real number, but has the shape {found.shape}"
        )
    return float(found.reshape(()))


# --- images ----------------------------------------------------------------------------------------------------------


def pixels_of(function: str, value: Any, dataformats: str) -> np.ndarray:
    """An image, or a grid of images, as bytes (H, W, C): floats are from 0 to 1, integers bytes."""
    found = real_of(function, "img_tensor", value)
    formats = dataformats.upper()
    if (
        len(formats) != found.ndim
        or len(set(formats)) != len(formats)
        or not {"H", "W"} <= set(formats) <= set("NCHW")
    ):
        raise ValueError(
            f"{function}(): dataformats {dataformats!r} do not name the dimensions of a tensor of shape {found.shape}: "
            "each of H and W, and N and C where there are some, by a letter"
        )
    ordered = found.transpose([formats.index(d) for d in "NHWC" if d in formats])
    if "C" not in formats:
        ordered = ordered[..., None]
    image = _grid(ordered) if "N" in formats else ordered
    if image.shape[-1] == 1:
        image = np.repeat(image, 3, -1)
    if image.shape[-1] not in (3, 4) or 0 in image.shape:
        raise ValueError(
            f"{function}(): an image has 1, 3 or 4 channels and some pixels, but got the shape {found.shape}"
        )
    scale = 1.0 if found.dtype == np.uint8 else 255.0
    return np.clip(np.nan_to_num(image.astype(np.float32)) * scale, 0, 255).astype(np.uint8)


def _grid(images: np.ndarray) -> np.ndarray:
    """Images (N, H, W, C) beside and below each other, `GRID_COLUMNS` in a row."""
    n, h, w, c = images.shape
    columns = min(n, GRID_COLUMNS) or 1
    rows = -(-n // columns)
    grid = np.zeros((rows * h, columns * w, c), images.dtype)
    for k, image in enumerate(images):
        y, x = divmod(k, columns)
        grid[y * h : (y + 1) * h, x * w : (x + 1) * w] = image
    return grid


def png_of(pixels: np.ndarray) -> bytes:
    """An image as a file."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    return buffer.getvalue()


def pixels_of_figures(figure: Any, close: bool) -> np.ndarray:
    """A figure of matplotlib as an image (H, W, 3), a list of figures as a batch."""
    from matplotlib import pyplot
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    several = isinstance(figure, (list, tuple))
    found = []
    for one in figure if several else [figure]:
        canvas = FigureCanvasAgg(one)
        canvas.draw()
        found.append(np.array(canvas.buffer_rgba())[..., :3])
        if close:
            pyplot.close(one)
    return np.stack(found) if several else found[0]


# --- histograms and curves -------------------------------------------------------------------------------------------


@functools.cache
def _usual_limits() -> np.ndarray:
    """Limits of buckets that grow by a tenth from one to the next, the same on both sides of zero."""
    positive = [1e-12]
    while positive[-1] * 1.1 < 1e20:
        positive.append(positive[-1] * 1.1)
    return np.array([*(-v for v in reversed(positive)), 0.0, *positive])


def histogram_of(values: Any, bins: Any, max_bins: int | None) -> dict[str, Any]:
    """The fields of a histogram: the sum and the like, right limits of buckets and their counts.

    The first bucket is empty; its limit is where the second one begins.
    """
    if max_bins is not None and max_bins < 1:
        raise ValueError(f"add_histogram(): max_bins must be at least 1, but got {max_bins}")
    found = real_of("add_histogram", "values", values).reshape(-1).astype(np.float64)
    if not found.size:
        raise ValueError("The input has no element.")
    if not np.isfinite(found).all():
        raise ValueError("add_histogram(): values must be finite")
    usual = isinstance(bins, str) and bins == "tensorflow"
    counts, limits = np.histogram(found, _usual_limits() if usual else bins)
    if max_bins is not None and len(counts) > max_bins:
        step = len(counts) // max_bins
        counts = np.add.reduceat(counts, range(0, len(counts), step))
        limits = np.append(limits[:-1:step], limits[-1])
    filled = np.flatnonzero(counts)
    first, last = (filled[0], filled[-1]) if filled.size else (0, 0)
    return {
        "min": found.min(), "max": found.max(), "num": found.size, "sum": found.sum(),
        "sum_squares": float(found @ found), "bucket_limit": limits[first : last + 2].tolist(),
        "bucket": [0, *counts[first : last + 1].tolist()],
    }  # fmt: skip


def curve_of(labels: Any, predictions: Any, num_thresholds: int, weights: Any) -> np.ndarray:
    """True and false positives, true and false negatives, precision and recall at thresholds from 0 to 1: (6, N)."""
    truth = real_of("add_pr_curve", "labels", labels).reshape(-1).astype(np.float64)
    guess = real_of("add_pr_curve", "predictions", predictions).reshape(-1).astype(np.float64)
    given = 1.0 if weights is None else real_of("add_pr_curve", "weights", weights).reshape(-1)
    if truth.shape != guess.shape or np.size(given) not in (1, truth.size):
        raise ValueError(
            f"add_pr_curve(): labels, predictions and weights must be as many, but there are {truth.size}, "
            f"{guess.size} and {np.size(given)}"
        )
    if not ((guess >= 0) & (guess <= 1)).all():
        raise ValueError("add_pr_curve(): predictions must be from 0 to 1")
    bucket = np.floor(guess * (num_thresholds - 1)).astype(np.int64)
    # A prediction counts as positive at its own threshold and at all below it.
    hits, misses = (
        np.bincount(bucket, part * given, num_thresholds)[::-1].cumsum()[::-1] for part in (truth, 1 - truth)
    )
    passed, missed = misses[0] - misses, hits[0] - hits
    precision = hits / np.maximum(_LEAST_COUNT, hits + misses)
    recall = hits / np.maximum(_LEAST_COUNT, hits + missed)
    return np.stack((hits, misses, passed, missed, precision, recall))


def counted_histogram(known: dict[str, Any], limits: Any, counts: Any) -> dict[str, Any]:
    """The fields of a histogram of what was counted elsewhere."""
    function = "add_histogram_raw"
    ends, found = (
        real_of(function, f"bucket_{name}", value).reshape(-1).astype(np.float64)
        for name, value in (("limits", limits), ("counts", counts))
    )
    if ends.size != found.size:
        raise ValueError(
            f"{function}(): bucket_limits and bucket_counts must be as many, but there are {ends.size} and {found.size}"
        )
    numbers = {name: number_of(function, name, value) for name, value in known.items()}
    return {**numbers, "bucket_limit": ends.tolist(), "bucket": found.tolist()}


def counted_curve(*rows: Any) -> np.ndarray:
    """The same numbers as of `curve_of`, which were counted elsewhere: (6, N)."""
    found = [
        real_of("add_pr_curve_raw", name, row).reshape(-1) for name, row in zip(_CURVE, rows, strict=True)
    ]
    if len({row.size for row in found}) > 1:
        sizes = ", ".join(f"{row.size} {name}" for name, row in zip(_CURVE, found, strict=True))
        raise ValueError(
            f"add_pr_curve_raw(): there must be as many numbers of each kind, but there are {sizes}"
        )
    return np.stack(found)
