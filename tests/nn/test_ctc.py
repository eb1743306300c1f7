"""Connectionist temporal classification: against all alignments, one by one, and against torch."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.nn.functional as F

rng = np.random.default_rng(0)


def log_probs(*sizes: int) -> np.ndarray:
    x = rng.standard_normal(sizes)
    return np.asarray(x - np.log(np.exp(x).sum(-1, keepdims=True)))


def label(path: tuple[int, ...], blank: int) -> list[int]:
    return [k for k, _ in itertools.groupby(path) if k != blank]


def by_hand(x: np.ndarray, target: list[int], blank: int) -> float:
    """Minus the logarithm of the sum over all alignments of one sequence."""
    paths = itertools.product(range(x.shape[1]), repeat=x.shape[0])
    found = [sum(x[t, k] for t, k in enumerate(p)) for p in paths if label(p, blank) == target]
    return -math.log(sum(map(math.exp, found))) if found else math.inf


TARGETS = [[1, 2], [1, 1], [], [2], [2, 2, 2]]


@pytest.mark.parametrize("blank", [0, 1])
@pytest.mark.parametrize("dtype", [fg.float64, fg.float32])
def test_sums_over_all_alignments(blank: int, dtype: Any):
    targets = [[k if blank == 0 else (0 if k == 1 else k) for k in row] for row in TARGETS]
    lengths = [4, 3, 4, 1, 4]
    x = log_probs(4, 5, 3)
    padded = fg.tensor([row + [0] * (3 - len(row)) for row in targets])
    joined = fg.tensor([k for row in targets for k in row])
    wanted = [by_hand(x[:n, i], row, blank) for i, (n, row) in enumerate(zip(lengths, targets, strict=True))]
    assert wanted[-1] == math.inf
    sizes = [len(row) for row in targets]
    tolerance = 1e-12 if dtype is fg.float64 else 1e-6
    for goal in padded, joined, padded.to(fg.int32):
        for both in (tuple(lengths), tuple(sizes)), (fg.tensor(lengths), fg.tensor(sizes)):
            found = F.ctc_loss(fg.tensor(x, dtype=dtype), goal, *both, blank=blank, reduction="none")
            np.testing.assert_allclose(found.numpy(), wanted, rtol=tolerance)
    finite = F.ctc_loss(fg.tensor(x), padded, tuple(lengths), tuple(sizes), blank, "none", True)
    assert finite.tolist()[-1] == 0.0
    mean = F.ctc_loss(fg.tensor(x), padded, tuple(lengths), tuple(sizes), blank, "mean", True)
    each = [w / max(n, 1) for w, n in zip([*wanted[:-1], 0.0], sizes, strict=True)]
    assert float(mean) == pytest.approx(np.mean(each), rel=1e-12)


def test_gradients():
    x = fg.tensor(rng.standard_normal((5, 3, 4)), requires_grad=True)
    targets = fg.tensor([[1, 2], [3, 3], [2, 0]])
    for reduction in ("none", "mean", "sum"):
        for lengths in ((5, 4, 0), (2, 5, 3)):
            settings = {"reduction": reduction, "zero_infinity": True}
            assert fg.autograd.gradcheck(
                lambda x, lengths=lengths, settings=settings: F.ctc_loss(
                    F.log_softmax(x, -1), targets, lengths, (2, 2, 1), **settings
                ),
                x,
            )


def test_no_second_derivative():
    x = fg.tensor(log_probs(3, 1, 4), requires_grad=True)
    loss = F.ctc_loss(x, fg.tensor([[1]]), (3,), (1,))
    assert loss.grad_fn is not None
    (g,) = fg.autograd.grad(loss, x, create_graph=True)
    with pytest.raises(NotImplementedError, match="second derivatives"):
        g.sum().backward()


def test_strided_and_one_sequence():
    x = log_probs(4, 2, 3)
    goal = fg.tensor([[1, 2], [2, 1]])
    wanted = F.ctc_loss(fg.tensor(x), goal, (4, 3), (2, 1), reduction="none")
    turned = fg.tensor(np.ascontiguousarray(x.transpose(2, 1, 0))).permute(2, 1, 0)
    strided = fg.tensor([[1, 2], [2, 1]]).t().contiguous().t()
    assert F.ctc_loss(turned, strided, (4, 3), (2, 1), reduction="none").tolist() == wanted.tolist()
    one = F.ctc_loss(fg.tensor(x[:, 1]), fg.tensor([2]), (3,), (1,), reduction="none")
    assert one.shape == ()
    assert float(one) == pytest.approx(float(wanted[1]))


BAD: list[tuple[str, type[Exception], Any, str]] = [
    ("lengths", RuntimeError, {"input_lengths": (5, 4)}, "at most 4, but got value 5"),
    ("negative", RuntimeError, {"input_lengths": (4, -1)}, "at least 0"),
    ("batch", RuntimeError, {"input_lengths": (4,)}, "batch_size, 2"),
    ("targets", RuntimeError, {"target_lengths": (3, 1)}, "at least 3 at dimension 1"),
    ("joined", RuntimeError, {"targets": fg.tensor([1, 2])}, "size 3"),
    ("blank", RuntimeError, {"blank": 3}, "blank"),
    ("reduction", ValueError, {"reduction": "all"}, "all"),
    ("kinds", TypeError, {"target_lengths": fg.tensor([2, 1])}, "both"),
    ("label", IndexError, {"targets": fg.tensor([[1, 9], [1, 1]])}, "9"),
    ("negative label", IndexError, {"targets": fg.tensor([[1, -1], [1, 1]])}, "-1"),
    ("integers", NotImplementedError, {"log_probs": fg.ones(4, 2, 3, dtype=fg.int64)}, "Long"),
    ("empty", RuntimeError, {"log_probs": fg.ones(4, 0, 3)}, "empty"),
    ("dims", RuntimeError, {"log_probs": fg.ones(4)}, "dimensions"),
    ("none", TypeError, {"targets": None}, "targets"),
    ("floats", TypeError, {"input_lengths": (4.5, 3)}, "input_lengths"),
]


@pytest.mark.parametrize("case", BAD, ids=[name for name, *_ in BAD])
def test_bad_input(case: Any):
    _, raises, change, message = case
    given = {
        "log_probs": fg.tensor(log_probs(4, 2, 3)), "targets": fg.tensor([[1, 2], [1, 1]]), "input_lengths": (4, 3),
        "target_lengths": (2, 1),
    }  # fmt: skip
    with pytest.raises(raises, match=message):
        F.ctc_loss(**{**given, **change})


@pytest.mark.parity
def test_as_in_pytorch():
    torch = pytest.importorskip("torch")
    x = rng.standard_normal((7, 3, 5))
    padded, joined = np.array([[1, 2, 2], [3, 0, 4], [1, 1, 1]]), np.array([1, 2, 2, 1])
    calls = [
        (padded, (7, 5, 4), (3, 0, 3), 0), (padded, (7, 0, 4), (3, 1, 3), 0), (joined, (7, 6, 7), (2, 1, 1), 4),
    ]  # fmt: skip
    for (targets, lengths, labels, blank), reduction, zero, plain in itertools.product(
        calls, ("none", "mean", "sum"), (False, True), (False, True)
    ):
        found = []
        for lib in fg, torch:
            leaf = lib.tensor(x, requires_grad=True)
            probs = leaf if plain else leaf.log_softmax(-1)
            loss = lib.nn.CTCLoss(blank, reduction, zero)(probs, lib.tensor(targets), lengths, labels)
            weights = lib.arange(1.0, loss.numel() + 1, dtype=lib.float64).reshape(loss.shape)
            (g,) = lib.autograd.grad(loss, leaf, weights)
            found.append((loss.detach().numpy(), g.numpy()))
        for ours, theirs in zip(*found, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
