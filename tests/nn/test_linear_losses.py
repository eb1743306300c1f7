"""The cross entropy behind a linear map, whole and in chunks, beside PyTorch's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import fastgrad as fg
from fastgrad.nn import functional as F

RNG = np.random.default_rng(11)
X, WEIGHT, BIAS = RNG.normal(size=(7, 3)), RNG.normal(size=(5, 3)), RNG.normal(size=5)
TARGET, FACTORS = np.array([0, 4, 1, 1, 3, 2, 0]), RNG.uniform(0.5, 2, 5)
OPTIONS: list[dict[str, Any] | None] = [
    None,
    {"batch_chunk_size": 2},
    {"batch_chunk_size": 100},
    {"chunking_method": "aspect_ratio"},
    {"chunking_method": "aspect_ratio:3"},
    {"acc_policy": "accurate"},
    {},
]


def loss_and_gradients(lib: Any, x: Any, target: Any, options: Any, **named: Any) -> list[np.ndarray]:
    leaves = [lib.tensor(t).requires_grad_() for t in (x, WEIGHT, BIAS)]
    if options is not None:
        options = lib.nn.LinearCrossEntropyOptions(allow_retain_graph=True, **options)
    loss = lib.nn.functional.linear_cross_entropy(
        leaves[0], leaves[1], lib.tensor(target), linear_bias=leaves[2], options=options, **named
    )
    loss.sum().backward()
    return [loss.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves)]


@pytest.mark.parity
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize(
    "more", [{}, {"ignore_index": 1}, {"weight": FACTORS}, {"weight": FACTORS, "ignore_index": 1}]
)
def test_as_in_pytorch(options: Any, reduction: str, more: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    for x, target in ((X, TARGET), (X[0], TARGET[0])):
        found = [
            loss_and_gradients(
                lib, x, target, options, reduction=reduction,
                **{k: lib.tensor(v) if k == "weight" else v for k, v in more.items()},
            )
            for lib in (fg, torch)
        ]  # fmt: skip
        for ours, theirs in zip(*found, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_chunks_give_the_gradients_of_the_whole_twice() -> None:
    leaves = [fg.tensor(t).requires_grad_() for t in (X, WEIGHT)]
    options = fg.nn.LinearCrossEntropyOptions(batch_chunk_size=3)
    loss = F.linear_cross_entropy(*leaves, fg.tensor(TARGET), options=options)
    first = fg.autograd.grad(loss, leaves, retain_graph=True)
    whole = fg.autograd.grad(F.linear_cross_entropy(*leaves, fg.tensor(TARGET)), leaves)
    for again, once, right in zip(fg.autograd.grad(loss, leaves), first, whole, strict=True):
        assert once.tolist() == again.tolist()
        np.testing.assert_allclose(once.numpy(), right.numpy(), atol=1e-14)


def test_only_some_require_gradients() -> None:
    weight = fg.tensor(WEIGHT).requires_grad_()
    options = fg.nn.LinearCrossEntropyOptions(batch_chunk_size=3)
    F.linear_cross_entropy(fg.tensor(X), weight, fg.tensor(TARGET), options=options).backward()
    assert weight.grad is not None


def test_probabilities_and_more_dimensions() -> None:
    weight = fg.tensor(RNG.normal(size=(5, 2, 3)))
    target = fg.tensor(RNG.integers(0, 5, (7, 2)))
    logits = (fg.tensor(X) @ weight.reshape(10, 3).T).reshape(7, 5, 2)
    expected = F.cross_entropy(logits, target).item()
    assert F.linear_cross_entropy(fg.tensor(X), weight, target).item() == pytest.approx(expected)
    options = fg.nn.LinearCrossEntropyOptions(batch_chunk_size=3)
    with pytest.warns(UserWarning, match="left out"):
        assert F.linear_cross_entropy(fg.tensor(X), weight, target, options=options).item() == pytest.approx(
            expected
        )
    likely = F.softmax(fg.tensor(RNG.normal(size=(7, 5))), 1)
    whole = F.cross_entropy(fg.tensor(X) @ fg.tensor(WEIGHT).T, likely).item()
    assert F.linear_cross_entropy(fg.tensor(X), fg.tensor(WEIGHT), likely).item() == pytest.approx(whole)


def test_layer() -> None:
    layer = fg.nn.LinearCrossEntropyLoss(
        3, 5, out_features=(2,), bias=True, dtype=fg.float64, label_smoothing=0.1
    )
    assert tuple(layer.linear.weight.shape) == (10, 3)
    assert "num_classes=5" in repr(layer)
    loss = layer(fg.tensor(X), fg.tensor(RNG.integers(0, 5, (7, 2))))
    loss.backward()
    assert layer.linear.bias.grad is not None


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: F.linear_cross_entropy(None, fg.ones(5, 3), fg.tensor([1])), TypeError, "'input'"),
        (lambda: F.linear_cross_entropy(fg.ones(2, 3), [1.0], fg.tensor([1])), TypeError, "'linear_weight'"),
        (lambda: F.linear_cross_entropy(fg.ones(2, 3), fg.ones(5, 3), 1), TypeError, "'target'"),
        (
            lambda: F.linear_cross_entropy(fg.ones(1, 2, 3), fg.ones(5, 3), fg.tensor([1])),
            RuntimeError,
            "1 or 2",
        ),
        (
            lambda: F.linear_cross_entropy(fg.ones(2, 3), fg.ones(3), fg.tensor([1])),
            RuntimeError,
            "at least 2",
        ),
        (
            lambda: F.linear_cross_entropy(fg.ones(2, 4), fg.ones(5, 3), fg.tensor([1])),
            RuntimeError,
            "4 and 3",
        ),
        (
            lambda: F.linear_cross_entropy(
                fg.ones(2, 3), fg.ones(5, 3), fg.tensor([1, 1]), linear_bias=fg.ones(4)
            ),
            RuntimeError,
            "linear_bias",
        ),
        (
            lambda: F.linear_cross_entropy(fg.ones(3), fg.ones(5, 2, 3), fg.tensor([1])),
            RuntimeError,
            "batched",
        ),
        (
            lambda: F.linear_cross_entropy(fg.ones(2, 3), fg.ones(5, 3), fg.ones(2, 5), ignore_index=1),
            RuntimeError,
            "ignore_index",
        ),
        (
            lambda: F.linear_cross_entropy(fg.ones(2, 3), fg.ones(5, 3), fg.tensor([1, 1]), options={}),
            TypeError,
            "LinearCrossEntropyOptions",
        ),
        (lambda: fg.nn.LinearCrossEntropyOptions(batch_chunk_size=0), ValueError, "positive"),
        (lambda: fg.nn.LinearCrossEntropyOptions(batch_chunk_size=True), ValueError, "positive"),
        (
            lambda: fg.nn.LinearCrossEntropyOptions(chunking_method="aspect_ratio:0"),
            ValueError,
            "chunking_method",
        ),
        (lambda: fg.nn.LinearCrossEntropyOptions(chunking_method="rows"), ValueError, "chunking_method"),
        (
            lambda: fg.nn.LinearCrossEntropyOptions(chunking_method="aspect_ratio:²"),
            ValueError,
            "chunking_method",
        ),
        (lambda: fg.nn.LinearCrossEntropyOptions(acc_policy="best"), ValueError, "acc_policy"),
        (lambda: fg.nn.LinearCrossEntropyOptions(acc_dtype=fg.int64), ValueError, "acc_dtype"),
        (lambda: fg.nn.LinearCrossEntropyLoss(3, 5, weight=fg.ones(4)), RuntimeError, "weight shape"),
        (lambda: fg.nn.LinearCrossEntropyLoss(3, 5, label_smoothing=2), RuntimeError, "label_smoothing"),
    ],
)
def test_refusals(call: Any, error: type[Exception], text: str) -> None:
    with warnings.catch_warnings(), pytest.raises(error, match=text):
        call()


def test_target_out_of_range_in_chunks() -> None:
    options = fg.nn.LinearCrossEntropyOptions(batch_chunk_size=1)
    with pytest.raises(IndexError):
        F.linear_cross_entropy(fg.ones(2, 3), fg.ones(5, 3), fg.tensor([0, 9]), options=options)


@pytest.mark.parametrize("numbers", [1, [1], [1, 1, 1], [[1], [1]]])
def test_targets_of_other_sizes_are_refused_in_chunks_as_without(numbers: Any) -> None:
    said, target = [], fg.tensor(numbers)
    for options in (None, fg.nn.LinearCrossEntropyOptions(batch_chunk_size=1)):
        with pytest.raises((ValueError, RuntimeError)) as raised:
            F.linear_cross_entropy(fg.ones(2, 3), fg.ones(5, 3), target, options=options)
        said.append((raised.type, str(raised.value)))
    assert said[0] == said[1]
    assert said[0][1].startswith("cross_entropy(): ")


def test_weight_in_chunks() -> None:
    options = fg.nn.LinearCrossEntropyOptions(batch_chunk_size=1)
    with pytest.raises(TypeError, match=r"argument 'weight' \(position 5\) must be Tensor, not int"):
        F.linear_cross_entropy(fg.ones(2, 3), fg.ones(5, 3), fg.tensor([1, 1]), weight=1, options=options)
