"""Rows for scaled dot-product attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from .common import ErrorCase, OpCase, Sample, bracketed, functional, normal, number, ones, quiet

attention = functional("scaled_dot_product_attention")


@quiet
def reference(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    attn_mask: np.ndarray | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> np.ndarray:
    dtype = q.dtype
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    if enable_gqa:
        k, v = (np.repeat(x, q.shape[-3] // x.shape[-3], axis=-3) for x in (k, v))
    scores = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if attn_mask is not None:
        scores = np.where(attn_mask, scores, -np.inf) if attn_mask.dtype == bool else scores + attn_mask
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = weights.sum(-1, keepdims=True)
    return (weights / np.where(total == 0, 1, total) @ v).astype(dtype)


def samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    def sample(q: tuple[int, ...], k: tuple[int, ...], *rest: Any, width: int = 0, **options: Any) -> Sample:
        v = (*k[:-1], width or k[-1])
        return Sample((normal(rng, q, dtype), normal(rng, k, dtype), normal(rng, v, dtype), *rest), options)

    seen = np.array([[True, False, True], [False, False, False], [False, True, True], [True, True, True]])
    bias = np.where(rng.random((2, 1, 4, 3)) < 0.3, -np.inf, normal(rng, (2, 1, 4, 3), dtype)).astype(dtype)
    query, key = (2, 2, 4, 3), (2, 2, 3, 3)
    return [
        sample(query, key),
        sample(query, key, is_causal=True),
        sample(query, key, seen),
        sample(query, key, bias, scale=-0.4),
        sample((1, 4, 3, 2), (1, 2, 5, 2), is_causal=True, enable_gqa=True),
        sample((2, 3), (4, 3), width=5),
        sample((2, 3, 2), (2, 3, 2), is_causal=True),
        sample((2, 4, 2), (1, 3, 2), seen),
        sample((4, 3, 2), (2, 3, 2), enable_gqa=True),
        # More than a strip of rows, rows longer than a vector and no multiple of one.
        sample((1, 1, 9, 17), (1, 1, 9, 17), is_causal=True),
    ]


def empty(dtype: str) -> list[Sample]:
    shapes = [((2, 2, 0, 3), (2, 2, 3, 3)), ((2, 2, 3, 3), (2, 2, 0, 3)), ((0, 2, 3, 3), (0, 2, 3, 3))]
    return [Sample((np.zeros(q, dtype), np.zeros(k, dtype), np.zeros(k, dtype))) for q, k in shapes]


def wrong(
    name: str, raises: type[Exception], args: tuple[Any, ...], *mentions: str, **options: Any
) -> ErrorCase:
    def call(lib: Any, *args: Any) -> Any:
        return attention(lib, *args, **options)

    return ErrorCase(name, raises, call, args, ("scaled_dot_product_attention", *mentions))


X = ones(1, 2, 4, 3)

CASES = [
    OpCase(
        "scaled_dot_product_attention",
        attention,
        samples,
        reference,
        differentiable=True,
        grad_args=(0, 1, 2),
        empty=empty,
        errors=[
            wrong("type", TypeError, (X, "text", X), "key", "str"),
            wrong("dtype", RuntimeError, (X, X.astype("float64"), X), "dtype", "float64"),
            wrong("integers", RuntimeError, (X.astype("int64"),) * 3, "int64"),
            wrong("dims", RuntimeError, (ones(3), X, X), "2 dim", number(1)),
            wrong("width", RuntimeError, (X, ones(1, 2, 4, 5), X), bracketed(1, 2, 4, 5)),
            wrong("keys", RuntimeError, (X[0], ones(2, 5, 3), X[0]), bracketed(2, 5, 3)),
            wrong(
                "mask",
                RuntimeError,
                (X, X, X, ones(3, 4)),
                "attn_mask",
                bracketed(3, 4),
                bracketed(1, 2, 4, 4),
            ),
            wrong("mask dtype", RuntimeError, (X, X, X, ones(4, 4, dtype="int64")), "attn_mask", "int64"),
            wrong("dropout", RuntimeError, (X, X, X), "dropout", number(1.5), dropout_p=1.5),
            wrong("heads", RuntimeError, (X, ones(1, 3, 4, 3), X), "heads", number(3), enable_gqa=True),
        ],
        tolerances={"float32": (1e-5, 2e-6), "float64": (1e-12, 1e-13)},
    )
]
