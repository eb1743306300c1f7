"""Gradients of each sample: beside those of passes with one sample, and what PyTorch refuses."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from errors_beside import kinds_raised

import fastgrad as fg
from fastgrad import nn

NAME = "nn.utils._per_sample_grad"


def per_sample(lib: ModuleType) -> Callable[..., Any]:
    place = f"torch.{NAME}" if lib.__name__ == "torch" else f"fastgrad.as_torch.overlay.{NAME}"
    return importlib.import_module(place).call_for_per_sample_grads


CASES: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "linear": (lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), (5, 3)),
    "linear over a middle": (lambda: nn.Linear(3, 2), (4, 2, 3)),
    "no bias": (lambda: nn.Linear(3, 2, bias=False), (4, 3)),
    "conv1d": (lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), (3, 4, 7)),
    "conv2d": (lambda: nn.Conv2d(2, 3, 3, padding="same", dilation=2), (2, 2, 6, 6)),
    "conv3d": (lambda: nn.Conv3d(1, 2, 2), (2, 1, 3, 3, 3)),
    "around": (lambda: nn.Conv1d(1, 2, 3, padding=1, padding_mode="circular"), (3, 1, 5)),
    "layer norm": (lambda: nn.LayerNorm(4), (3, 2, 4)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (3, 4, 5)),
    "instance norm": (lambda: nn.InstanceNorm2d(2, affine=True), (3, 2, 3, 3)),
    "running statistics": (lambda: nn.InstanceNorm1d(2, affine=True, track_running_stats=True), (3, 2, 5)),
    "one is frozen": (lambda: nn.Sequential(nn.Linear(3, 3).requires_grad_(False), nn.Linear(3, 1)), (4, 3)),
    "embedding": (lambda: nn.Sequential(nn.Embedding(5, 3, padding_idx=1), nn.Linear(3, 2)), ()),
}


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("case", sorted(CASES))
def test_gradients_are_those_of_single_samples(case: str, reduction: str) -> None:
    model, sizes = CASES[case][0](), CASES[case][1]
    x = fg.randn(sizes, requires_grad=True) if sizes else fg.tensor([[1, 2], [0, 4], [2, 2]])
    before = {k: v.clone() for k, v in model.named_buffers()}
    expected = []
    for sample in x.detach().unbind():
        model.zero_grad()
        model(sample.unsqueeze(0)).square().sum().backward()
        expected.append([p.grad for p in model.parameters()])
    model.zero_grad()
    for name, buffer in model.named_buffers():
        buffer.copy_(before[name])
    losses = per_sample(fg)(model, loss_reduction=reduction)(x).square().flatten(1).sum(1)
    getattr(losses, reduction)().backward()
    for parameter, single in zip(model.parameters(), zip(*expected, strict=True), strict=True):
        assert parameter.grad is None
        if parameter.requires_grad:
            fg.testing.assert_close(parameter.grad_sample, fg.stack(list(single)), rtol=1e-4, atol=1e-5)
        else:
            assert not hasattr(parameter, "grad_sample")
    if sizes:
        plain = x.detach().requires_grad_()
        for name, buffer in model.named_buffers():
            buffer.copy_(before[name])
        getattr(model(plain).square().flatten(1).sum(1), reduction)().backward()
        fg.testing.assert_close(x.grad, plain.grad, rtol=1e-4, atol=1e-5)


def test_statistics_move_once() -> None:
    norm, plain = (nn.InstanceNorm1d(2, affine=True, track_running_stats=True) for _ in range(2))
    x = fg.randn(3, 2, 5)
    per_sample(fg)(norm)(x).sum().backward()
    plain(x)
    assert fg.equal(norm.running_mean, plain.running_mean)
    assert fg.equal(norm.running_var, plain.running_var)


def test_a_parameter_that_is_used_twice() -> None:
    layer = nn.Linear(2, 2)
    x = fg.randn(3, 2)
    per_sample(fg)(nn.Sequential(layer, nn.Tanh(), layer))(x).sum().backward()
    total = layer.weight.grad_sample.sum(0)
    layer(layer(x).tanh()).sum().backward()
    fg.testing.assert_close(total, layer.weight.grad)


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(fg.ones(2))

    def forward(self, x: Any) -> Any:
        return x * self.weight


class Product(fg.autograd.Function):
    """What no class is asked about."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient, gradient.sum(0)


class Hidden(Scale):
    def forward(self, x: Any) -> Any:
        return Product.apply(x, self.weight)


def twice(lib: Any) -> None:
    layer = lib.nn.Linear(2, 2)
    per_sample(lib)(layer)(lib.ones(2, 2)).sum().backward()
    per_sample(lib)(layer)


WRONG: dict[str, Callable[[Any], Any]] = {
    "reduction": lambda lib: per_sample(lib)(lib.nn.Linear(2, 2), loss_reduction="max"),
    "no module": lambda lib: per_sample(lib)(None),
    "size in words": lambda lib: per_sample(lib)(lib.nn.Linear(2, 2), batch_size="1"),
    "no samples": lambda lib: per_sample(lib)(lib.nn.Linear(2, 2), batch_size=0),
    "another size": lambda lib: per_sample(lib)(lib.nn.Linear(2, 2), batch_size=3)(lib.ones(2, 2)),
    "no batch": lambda lib: per_sample(lib)(lib.nn.Linear(2, 2))(lib.ones(2)),
    "an empty batch": lambda lib: per_sample(lib)(lib.nn.Linear(2, 2))(lib.ones(0, 2)),
    "no tensor": lambda lib: per_sample(lib)(lib.nn.Linear(2, 2))(1),
    "two sizes": lambda lib: per_sample(lib)(lib.nn.Bilinear(2, 2, 2))(lib.ones(2, 2), lib.ones(3, 2)),
    "bilinear": lambda lib: per_sample(lib)(lib.nn.Bilinear(2, 2, 2))(lib.ones(2, 2), lib.ones(2, 2)),
    "batch norm": lambda lib: per_sample(lib)(lib.nn.BatchNorm1d(2))(lib.ones(2, 2)),
    "prelu": lambda lib: per_sample(lib)(lib.nn.PReLU())(lib.ones(2, 2)),
    "twice": twice,
}


@pytest.mark.parity
@pytest.mark.parametrize("case", sorted(WRONG))
def test_errors_are_pytorchs(case: str) -> None:
    here, there = kinds_raised(WRONG[case])
    assert here is there is RuntimeError


def test_what_mixes_samples_is_refused() -> None:
    with pytest.raises(RuntimeError, match="cannot handle function mul"):
        per_sample(fg)(Scale())(fg.ones(2, 2))
    with pytest.raises(RuntimeError, match="cannot handle function"):
        per_sample(fg)(nn.LSTM(2, 2))(fg.ones(2, 2, 2))
    with pytest.raises(RuntimeError, match="cannot treat samples apart"):
        per_sample(fg)(Hidden())(fg.ones(2, 2)).sum().backward()
