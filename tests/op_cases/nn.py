"""Rows for softmax and the losses of ``nn.functional``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .common import (
    FLOATS,
    ErrorCase,
    GradPoint,
    OpCase,
    Sample,
    bracketed,
    f64,
    function,
    functional,
    i64,
    method,
    normal,
    number,
    ones,
    quiet,
    result_dtype,
)

# --- softmax --------------------------------------------------------------------------------------------


@quiet
def log_softmax(x: np.ndarray, dim: int, dtype: str | None = None) -> np.ndarray:
    x = x.astype(dtype or x.dtype)
    if x.ndim == 0:
        return (x - x).astype(x.dtype)
    wide = x.astype(np.float64)
    shifted = wide - np.max(wide, axis=dim, keepdims=True, initial=-np.inf)
    return (shifted - np.log(np.sum(np.exp(shifted), axis=dim, keepdims=True))).astype(x.dtype)


@quiet
def softmax(x: np.ndarray, dim: int, dtype: str | None = None) -> np.ndarray:
    target = x.astype(dtype or x.dtype).dtype
    return np.exp(log_softmax(x.astype(np.float64), dim)).astype(target)


def soft_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    rows = (((2, 3), 0), ((2, 3), -1), ((2, 3, 2), 1), ((4,), 0), ((), 0), ((2, 1), 1))
    return [Sample((normal(rng, shape, dtype),), {"dim": dim}) for shape, dim in rows]


def soft_specials(dtype: str) -> list[Sample]:
    rows = [[1, np.nan, 2], [-np.inf, 0, 1], [np.inf, 0, 1], [-np.inf] * 3, [1e30, 0, -1e30], [5e4, 5e4, 0]]
    return [Sample((np.array(rows, dtype),), {"dim": 1})]


def soft(name: str, ref: Any, saturated: Any) -> OpCase:
    call = functional(name)
    return OpCase(
        name,
        call,
        soft_samples,
        ref,
        differentiable=True,
        special=soft_specials,
        forms={
            "function": function(name),
            "method": method(name),
            "positional": lambda lib, x, dim: getattr(x, name)(dim),
        },
        empty=lambda d: [Sample((np.zeros((0, 3), d),), {"dim": k}) for k in (0, 1)],
        grad_points=[GradPoint((f64([1e4, 0]),), (saturated,), {"dim": 0})],
        errors=[
            ErrorCase(
                "dim",
                IndexError,
                lambda lib, x: call(lib, x, dim=2),
                (ones(2, 3),),
                ("softmax", "dim", number(2)),
            ),
            ErrorCase(
                "int",
                NotImplementedError,
                lambda lib, x: call(lib, x, dim=0),
                (ones(2, dtype="int64"),),
                ("softmax", "int64|Long"),
            ),
            ErrorCase(
                "no dim", TypeError, lambda lib, x: getattr(lib, name)(x), (ones(2, 3),), ("softmax", "dim")
            ),
        ],
    )


def soft_cast(name: str, ref: Any) -> OpCase:
    samples = [((2, 3), {"dim": 0, "dtype": "float32"}), ((2, 3), {"dim": 1, "dtype": "float64"})]
    return OpCase(
        f"{name}.dtype",
        functional(name),
        lambda rng, d: [Sample((normal(rng, s, d),), k) for s, k in samples],
        ref,
        dtypes=("float32", "int64", "bool"),
        differentiable=True,
    )


SOFTMAX = [
    soft("softmax", softmax, f64([0, 0])),
    soft("log_softmax", log_softmax, f64([-1, 1])),
    soft_cast("softmax", softmax),
    soft_cast("log_softmax", log_softmax),
]

# --- losses over classes --------------------------------------------------------------------------------


def class_dim(x: np.ndarray) -> int:
    return 0 if x.ndim == 1 else 1


def along_classes(vector: np.ndarray, x: np.ndarray) -> np.ndarray:
    """One number per class, shaped to broadcast with `x`."""
    return vector.reshape([-1 if d == class_dim(x) else 1 for d in range(x.ndim)])


def picked(x: np.ndarray, target: np.ndarray, ignore_index: int) -> tuple[np.ndarray, np.ndarray]:
    """The entry of the target's class, and whether the target counts."""
    counts = target.astype(np.int64) != ignore_index
    classes = np.where(counts, target, 0).astype(np.int64)
    dim = class_dim(x)
    return np.squeeze(np.take_along_axis(x, np.expand_dims(classes, dim), axis=dim), axis=dim), counts


def summarised(losses: np.ndarray, reduction: str, divisor: Any) -> np.ndarray:
    if reduction == "none":
        return losses
    return np.sum(losses) / (divisor if reduction == "mean" else 1.0)


def class_weights(x: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    return np.ones(x.shape[class_dim(x)]) if weight is None else weight.astype(np.float64)


@quiet
def nll_loss(
    x: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> np.ndarray:
    weights = along_classes(class_weights(x, weight), x) * np.ones(x.shape)
    chosen, counts = picked(x.astype(np.float64), target, ignore_index)
    chosen_weights = picked(weights, target, ignore_index)[0] * counts
    return np.asarray(summarised(-chosen_weights * chosen, reduction, np.sum(chosen_weights))).astype(x.dtype)


@quiet
def cross_entropy(
    x: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> np.ndarray:
    dim = class_dim(x)
    log_p = log_softmax(x.astype(np.float64), dim)
    weights = class_weights(x, weight)
    each_class = along_classes(weights, x) * log_p
    share = label_smoothing / x.shape[dim]
    if target.dtype.kind == "f":
        smoothed = target * (1 - label_smoothing) + share
        result = summarised(
            -np.sum(smoothed * each_class, axis=dim), reduction, max(1, x.size // x.shape[dim])
        )
    else:
        counts = target.astype(np.int64) != ignore_index
        hard = nll_loss(log_p, target, weight, ignore_index, "none")
        soft_part = -np.sum(each_class, axis=dim) * counts if label_smoothing else np.zeros(())
        divisor = np.sum(
            picked(along_classes(weights, x) * np.ones(x.shape), target, ignore_index)[0] * counts
        )
        result = summarised((1 - label_smoothing) * hard + share * soft_part, reduction, divisor)
    return np.asarray(result).astype(x.dtype)


CLASS_SHAPES = ((4, 3), (3,), (2, 3, 4), (2, 3, 2, 2))


def targets(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """A class for each item of an input of `shape`."""
    dims = [n for d, n in enumerate(shape) if d != (0 if len(shape) == 1 else 1)]
    return np.asarray(rng.integers(0, shape[0] if len(shape) == 1 else shape[1], dims))


def options(with_smoothing: bool) -> list[dict[str, Any]]:
    weight = np.array([0.5, 2.0, 1.25])
    rows: list[dict[str, Any]] = [
        {},
        {"reduction": "sum"},
        {"reduction": "none"},
        {"ignore_index": 1},
        {"weight": weight},
        {"weight": weight, "reduction": "none", "ignore_index": 0},
        {"weight": weight, "reduction": "sum"},
    ]
    if with_smoothing:
        rows += [{**row, "label_smoothing": 0.3} for row in rows]
    return rows


def class_samples(with_smoothing: bool) -> Callable[..., list[Sample]]:
    def samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
        result = []
        for i, kwargs in enumerate(options(with_smoothing)):
            shape = CLASS_SHAPES[i % len(CLASS_SHAPES)]
            target = targets(rng, shape)
            if "ignore_index" in kwargs and target.ndim:
                target.reshape(-1)[:2] = [kwargs["ignore_index"], 2]
            kwargs = {k: v.astype(dtype) if k == "weight" else v for k, v in kwargs.items()}
            result.append(Sample((normal(rng, shape, dtype), target), kwargs))
        result.append(Sample((normal(rng, (4, 3), dtype), i64([0, -100, 2, -100]))))
        return [*result, Sample((normal(rng, (4, 3), dtype), np.array([0, 1, 2, 1], np.uint8)))]

    return samples


def probability_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    result = []
    for i, kwargs in enumerate(options(True)):
        if "ignore_index" in kwargs:
            continue
        shape = CLASS_SHAPES[i % len(CLASS_SHAPES)]
        x, scores = normal(rng, shape, dtype), normal(rng, shape, dtype)
        kwargs = {k: v.astype(dtype) if k == "weight" else v for k, v in kwargs.items()}
        result.append(Sample((x, softmax(scores, class_dim(x))), kwargs))
    return result


def empty_batch(dtype: str) -> list[Sample]:
    batch = (np.zeros((0, 3), dtype), np.zeros(0, np.int64))
    return [Sample(batch, {"reduction": reduction}) for reduction in ("mean", "sum", "none")]


def class_errors(name: str) -> list[ErrorCase]:
    call = functional(name)
    x, target = ones(4, 3), i64([0, 1, 2, 1])

    def row(
        label: str, raises: type[Exception], *args: Any, mentions: tuple[str, ...], **kwargs: Any
    ) -> ErrorCase:
        return ErrorCase(label, raises, lambda lib, *a: call(lib, *a, **kwargs), args, (name, *mentions))

    return [
        row("target range", IndexError, x, i64([0, 1, 3, 1]), mentions=("target", number(3))),
        row("target negative", IndexError, x, i64([0, 1, -1, 1]), mentions=("target", "-1")),
        row("batch", ValueError, x, i64([0, 1]), mentions=("target", number(4), number(2))),
        row("target dtype", RuntimeError, x, ones(4), mentions=("target", "float32|Float", "int64|Long")),
        row(
            "target int32",
            RuntimeError,
            x,
            ones(4, dtype="int32"),
            mentions=("target", "int32|Int", "int64|Long"),
        ),
        row("reduction", ValueError, x, target, mentions=("reduction", "avg"), reduction="avg"),
        ErrorCase(
            "weight",
            RuntimeError,
            lambda lib, a, t, w: call(lib, a, t, weight=w),
            (x, target, ones(4)),
            (name, "weight", number(3), number(4)),
        ),
        ErrorCase(
            "weight dtype",
            RuntimeError,
            lambda lib, a, t, w: call(lib, a, t, weight=w),
            (x, target, np.ones(3)),
            (name, "weight", "float64|Double"),
        ),
    ]


LOOSE = {"float32": (1e-5, 1e-5), "float64": (1e-12, 1e-13)}

CLASS_LOSSES = [
    OpCase(
        "nll_loss",
        functional("nll_loss"),
        class_samples(False),
        nll_loss,
        differentiable=True,
        grad_args=(0,),
        torch_lacks=("strided gradients",),
        empty=empty_batch,
        tolerances=LOOSE,
        special=lambda d: [
            Sample((np.array([[0, -np.inf, np.nan]] * 2, d), i64([1, 0])), {"reduction": "none"})
        ],
        grad_points=[GradPoint((f64([[1, 2], [3, 4]]), i64([0, -100])), (f64([[-1, 0], [0, 0]]),))],
        errors=[
            *class_errors("nll_loss"),
            ErrorCase(
                "no dims",
                ValueError,
                functional("nll_loss"),
                (ones(), np.zeros((), np.int64)),
                ("nll_loss", "dim"),
            ),
        ],
    ),
    OpCase(
        "cross_entropy",
        functional("cross_entropy"),
        class_samples(True),
        cross_entropy,
        differentiable=True,
        grad_args=(0,),
        empty=empty_batch,
        tolerances=LOOSE,
        special=lambda d: [
            Sample(
                (np.array([[5e4, 0, -5e4], [1, np.inf, 0], [-np.inf, 0, 1]], d), i64([2, 0, 1])),
                {"reduction": "none"},
            )
        ],
        grad_points=[GradPoint((f64([[1e4, 0], [3, 3]]), i64([0, -100])), (f64([[0, 0], [0, 0]]),))],
        errors=[
            *class_errors("cross_entropy"),
            ErrorCase(
                "label_smoothing",
                RuntimeError,
                lambda lib, x, t: lib.nn.functional.cross_entropy(x, t, label_smoothing=1.5),
                (ones(4, 3), i64([0, 1, 2, 1])),
                ("cross_entropy", "label_smoothing", "1.5"),
            ),
        ],
    ),
    OpCase(
        "cross_entropy.probabilities",
        functional("cross_entropy"),
        probability_samples,
        cross_entropy,
        differentiable=True,
        tolerances=LOOSE,
    ),
]


# --- mean squared error ---------------------------------------------------------------------------------


@quiet
def mse_loss(x: np.ndarray, target: np.ndarray, reduction: str = "mean") -> np.ndarray:
    dtype = result_dtype(x, target)
    squares = (x.astype(np.float64) - target.astype(np.float64)) ** 2
    result = {"none": lambda s: s, "sum": np.sum, "mean": lambda s: np.sum(s) / s.size}[reduction](squares)
    return np.asarray(result).astype(dtype)


def mse_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    rows = [
        ((2, 3), {}),
        ((2, 3), {"reduction": "sum"}),
        ((2, 3), {"reduction": "none"}),
        ((), {}),
        ((4,), {"reduction": "mean"}),
    ]
    return [Sample((normal(rng, s, dtype), normal(rng, s, dtype)), kwargs) for s, kwargs in rows]


def mixed_errors(rng: np.random.Generator, dtype: str) -> list[Sample]:
    return [Sample((normal(rng, (3,), a), normal(rng, (3,), b))) for a, b in (FLOATS, FLOATS[::-1])]


def unwarned_mse_loss(lib: Any, x: Any, target: Any) -> Any:
    """Different sizes give a warning first, whether they broadcast or not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return lib.nn.functional.mse_loss(x, target)


MSE = [
    OpCase(
        "mse_loss",
        functional("mse_loss"),
        mse_samples,
        mse_loss,
        differentiable=True,
        tolerances=LOOSE,
        special=lambda d: [
            Sample((np.array([np.nan, np.inf, 1], d), np.array([1, 2, -np.inf], d)), {"reduction": "none"})
        ],
        empty=lambda d: [
            Sample((np.zeros((0, 3), d),) * 2, {"reduction": r}) for r in ("mean", "sum", "none")
        ],
        errors=[
            ErrorCase(
                "reduction",
                ValueError,
                lambda lib, x: lib.nn.functional.mse_loss(x, x, reduction="avg"),
                (ones(2),),
                ("mse_loss|reduction", "avg"),
            ),
            ErrorCase(
                "int",
                NotImplementedError,
                functional("mse_loss"),
                (ones(2, dtype="int64"),) * 2,
                ("mse_loss", "int64|Long"),
            ),
            ErrorCase(
                "shapes",
                RuntimeError,
                unwarned_mse_loss,
                (ones(2, 3), ones(1, 4)),
                ("mse_loss", bracketed(2, 3), bracketed(1, 4)),
            ),
        ],
    ),
    OpCase(
        "mse_loss.mixed",
        functional("mse_loss"),
        mixed_errors,
        mse_loss,
        ("mixed",),
        differentiable=True,
        tolerances=LOOSE,
    ),
]

CASES = [*SOFTMAX, *CLASS_LOSSES, *MSE]
