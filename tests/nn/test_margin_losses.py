"""What losses with margins refuse, and their second derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.nn.functional as F

ERRORS: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "ranking": (lambda lib: f(lib).margin_ranking_loss(x(lib, 2), x(lib, 2), x(lib, 2, 1)), RuntimeError, "same dim"),
    "cosine, target": (
        lambda lib: f(lib).cosine_embedding_loss(x(lib, 2, 3), x(lib, 2, 3), x(lib, 2, 1)), RuntimeError, "0D or 1D",
    ),
    "cosine, inputs": (
        lambda lib: f(lib).cosine_embedding_loss(x(lib, 2), x(lib, 2, 3), x(lib, 2)), RuntimeError, "expects 2D",
    ),
    "classes": (
        lambda lib: f(lib).multi_margin_loss(x(lib, 2, 3), lib.tensor([0, 3])), RuntimeError, "range|bounds",
    ),
    "class weights": (
        lambda lib: f(lib).multi_margin_loss(x(lib, 2, 3), lib.tensor([0, 2]), weight=x(lib, 2)),
        RuntimeError,
        "weight",
    ),
    "power": (lambda lib: f(lib).multi_margin_loss(x(lib, 1, 3), lib.tensor([0]), p=3), ValueError, "p == 1"),
    "labels": (
        lambda lib: f(lib).multilabel_margin_loss(x(lib, 2, 3), lib.ones(2, 2).long()),
        RuntimeError,
        "xpected|nconsist",
    ),
    "variance": (lambda lib: f(lib).gaussian_nll_loss(x(lib, 2), x(lib, 2), -x(lib, 2)), ValueError, "negative"),
    "variances": (lambda lib: f(lib).gaussian_nll_loss(x(lib, 2), x(lib, 2), x(lib, 3)), ValueError, "incorrect"),
    "margin": (
        lambda lib: f(lib).triplet_margin_loss(*[x(lib, 2, 2)] * 3, margin=-1), ValueError, "greater than 0",
    ),
    "triplet": (
        lambda lib: f(lib).triplet_margin_loss(x(lib, 2, 2), x(lib, 2, 2), x(lib, 2)), RuntimeError, "dimensions",
    ),
    "reduction": (lambda lib: f(lib).soft_margin_loss(x(lib, 2), x(lib, 2), reduction="avg"), ValueError, "avg"),
}  # fmt: skip


def f(lib: Any) -> Any:
    return lib.nn.functional


def x(lib: Any, *sizes: int) -> Any:
    return lib.ones(*sizes)


@pytest.mark.parametrize("name", ERRORS)
def test_refused(lib, name: str):
    call, kind, text = ERRORS[name]
    with pytest.raises(kind, match=text):
        call(lib)


def test_distance_of_ones_own(lib):
    calls = []

    def distance(a: Any, b: Any) -> Any:
        calls.append(1)
        return (a - b).abs().sum(-1)

    a, b, c = (lib.tensor([[float(k), 2.0]]) for k in (1, 2, 5))
    out = f(lib).triplet_margin_with_distance_loss(a, b, c, distance_function=distance, margin=10.0)
    assert float(out) == 7.0
    assert len(calls) == 2


def test_second_derivatives():
    rng = np.random.default_rng(0)
    a, b, c = (fg.tensor(rng.standard_normal((4, 3)), requires_grad=True) for _ in range(3))
    classes, signs = fg.tensor([0, 2, 1, 1]), fg.tensor([1, -1, -1, 1])
    for loss in (
        lambda: lambda a, b, c: F.triplet_margin_loss(a, b, c, margin=3.0, swap=True),
        lambda: lambda a, b, c: F.multi_margin_loss(a, classes, p=2),
        lambda: lambda a, b, c: F.cosine_embedding_loss(a, b, signs, margin=-1.0),
        lambda: lambda a, b, c: F.gaussian_nll_loss(a, b, c * c + 1),
        lambda: lambda a, b, c: F.poisson_nll_loss(a, b),
        lambda: lambda a, b, c: F.soft_margin_loss(a, b),
    ):
        assert fg.autograd.gradcheck(loss(), (a, b, c))
        assert fg.autograd.gradgradcheck(loss(), (a, b, c))
