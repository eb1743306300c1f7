"""Rows for the losses of two tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from .common import ErrorCase, OpCase, Sample, bracketed, functional, normal, ones, quiet

LOOSE = {"float32": (2e-5, 2e-5), "float64": (1e-12, 1e-12)}


def reduced(each: np.ndarray, reduction: str) -> np.ndarray:
    return each if reduction == "none" else np.mean(each) if reduction == "mean" else np.sum(each)


def pair_loss(
    name: str, ref: Any, probabilities: int, numbers: tuple[dict[str, Any], ...], errors: Any
) -> OpCase:
    """A loss of two tensors, the last `probabilities` of which lie between 0 and 1."""

    def samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
        rows = []
        for kwargs in numbers:
            for reduction in ("mean", "sum", "none"):
                pair = [normal(rng, (2, 3), dtype) for _ in range(2)]
                for k in range(2 - probabilities, 2):
                    pair[k] = np.asarray(rng.uniform(0.1, 0.9, (2, 3))).astype(dtype)
                rows.append(Sample(tuple(pair), {**kwargs, "reduction": reduction}))
        return rows

    @quiet
    def oracle(x: np.ndarray, t: np.ndarray, reduction: str = "mean", **kwargs: Any) -> np.ndarray:
        each = ref(x.astype(np.float64), t.astype(np.float64), **kwargs)
        return np.asarray(reduced(each, reduction)).astype(x.dtype)

    return OpCase(
        name,
        functional(name),
        samples,
        oracle,
        differentiable=True,
        tolerances=LOOSE,
        empty=lambda d: [Sample((np.zeros((0, 3), d),) * 2, {"reduction": r}) for r in ("sum", "none")],
        errors=[
            ErrorCase(
                "reduction",
                ValueError,
                lambda lib, x: getattr(lib.nn.functional, name)(x, x, reduction="avg"),
                (ones(2),),
                ("avg",),
            ),
            *errors,
        ],
    )


def smooth_l1(x: np.ndarray, t: np.ndarray, beta: float = 1.0) -> np.ndarray:
    d = np.abs(x - t)
    return np.where(d < beta, d * d / (2 * beta), d - beta / 2)


def huber(x: np.ndarray, t: np.ndarray, delta: float = 1.0) -> np.ndarray:
    d = np.abs(x - t)
    return np.where(d <= delta, d * d / 2, delta * (d - delta / 2))


def number_error(name: str, value: float, **kwargs: Any) -> ErrorCase:
    return ErrorCase(
        "number",
        RuntimeError,
        lambda lib, x: getattr(lib.nn.functional, name)(x, x, **kwargs),
        (ones(2),),
        (name,),
    )


def sizes_error(name: str) -> ErrorCase:
    return ErrorCase(
        "sizes", ValueError, functional(name), (ones(2, 3), ones(2)), ("size", bracketed(2, 3), bracketed(2))
    )


# --- where gradients are recorded, these are steps of other ops --------------------------------------------------


def divergences(rng: np.random.Generator, dtype: str) -> list[Sample]:
    rows = []
    for kwargs in ({}, {"log_target": True}):
        for kind in ("none", "sum", "batchmean"):
            target = np.asarray(rng.uniform(0.1, 0.9, (2, 3))).astype(dtype)
            rows.append(Sample((normal(rng, (2, 3), dtype), target), {**kwargs, "reduction": kind}))
    return rows


@quiet
def divergence(x: np.ndarray, t: np.ndarray, reduction: str, log_target: bool = False) -> np.ndarray:
    a, b = x.astype(np.float64), t.astype(np.float64)
    each = np.exp(b) * (b - a) if log_target else np.where(b == 0, 0, b * np.log(b)) - b * a
    out = reduced(each, "sum") / len(x) if reduction == "batchmean" else reduced(each, reduction)
    return np.asarray(out).astype(x.dtype)


def similarities(rng: np.random.Generator, dtype: str) -> list[Sample]:
    shapes = (((2, 3), (2, 3), 1), ((2, 3), (3,), 0), ((4, 2, 3), (2, 3), -2))
    return [
        Sample((normal(rng, a, dtype), normal(rng, b, dtype)), {"dim": dim, **options})
        for a, b, dim in shapes
        for options in ({}, {"eps": 1.5})
    ]


def similarity(x: np.ndarray, t: np.ndarray, dim: int = 1, eps: float = 1e-8) -> np.ndarray:
    a, b = np.broadcast_arrays(x.astype(np.float64), t.astype(np.float64))
    lengths = [np.sqrt(np.square(v).sum(dim, keepdims=True)) for v in (a, b)]
    left, right = (v / np.maximum(length, eps) for v, length in zip((a, b), lengths, strict=True))
    return np.asarray((left * right).sum(dim)).astype(x.dtype)


CASES = [
    OpCase("kl_div", functional("kl_div"), divergences, divergence, tolerances=LOOSE),
    OpCase("cosine_similarity", functional("cosine_similarity"), similarities, similarity, tolerances=LOOSE),
    pair_loss(
        "smooth_l1_loss", smooth_l1, 0, ({}, {"beta": 0.3}), [number_error("smooth_l1_loss", -1, beta=-1.0)]
    ),
    pair_loss("huber_loss", huber, 0, ({}, {"delta": 0.3}), [number_error("huber_loss", 0, delta=0.0)]),
    pair_loss(
        "binary_cross_entropy",
        lambda x, t: -(t * np.log(x) + (1 - t) * np.log1p(-x)),
        2,
        ({},),
        [
            sizes_error("binary_cross_entropy"),
            ErrorCase(
                "range",
                RuntimeError,
                functional("binary_cross_entropy"),
                (2 * ones(2), ones(2)),
                ("elements of input", "between 0 and 1"),
            ),
            *(
                ErrorCase(
                    f"target {value}",
                    RuntimeError,
                    functional("binary_cross_entropy"),
                    (ones(2), value * ones(2)),
                    ("elements of target", "between 0 and 1"),
                )
                for value in (2, -1, np.nan)
            ),
        ],
    ),
    pair_loss(
        "binary_cross_entropy_with_logits",
        lambda x, t: np.logaddexp(0, x) - x * t,
        1,
        ({},),
        [sizes_error("binary_cross_entropy_with_logits")],
    ),
]
