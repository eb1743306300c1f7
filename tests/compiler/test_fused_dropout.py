"""Dropout in fused kernels: its mask is drawn before, and is the one of the single launch."""

from __future__ import annotations

from typing import Any

import pytest
from fusion_testing import same, seeded, wanted_of
from fusion_testing import same_for_seeds as compared

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad import nn
from fastgrad.compiler.fusion import FusedTape, fuse
from fastgrad.native.host.tape import MaskLaunch, record


def names(fused: FusedTape) -> list[tuple[str, ...]]:
    return [one.names for one in fused.report.fused]


@pytest.mark.parametrize("dtype", [fg.float32, fg.float64])
@pytest.mark.parametrize("shape", [(1,), (3,), (37, 5), (64, 257), (2, 3, 4096), (101, 1000)])
@pytest.mark.parametrize("p", [0.1, 0.75])
def test_between_an_activation_and_a_residual(dtype: Any, shape: tuple[int, ...], p: float):
    x, rest = fg.randn(2, *shape, dtype=dtype).unbind()
    fused = compared(lambda x, rest: F.dropout(F.relu(x), p) + rest, x, rest)
    assert names(fused) == [("relu", "dropout", "add")]
    assert fused.report.after == 2  # the mask, and the rest
    assert any(isinstance(item, MaskLaunch) for item in fused.order)


def test_forward_and_backward():
    w = fg.randn(40, 300, requires_grad=True)

    def step(x: Any, rest: Any) -> Any:
        w.grad = None
        y = F.dropout(F.gelu(x * w), 0.3) + rest
        (y * y).backward(fg.ones_like(y))
        return w.grad

    fused = compared(step, fg.randn(40, 300), fg.randn(40, 300))
    forward, backward = names(fused)
    assert "dropout" in forward
    assert backward[0] == "dropout_backward"


def test_alone_it_stays_one_launch():
    fused = compared(lambda x: F.dropout(x, 0.5), fg.randn(300))
    assert fused.order == [0]
    assert fused.report.left[0][1] == "dropout"


def test_masks_that_get_the_memory_of_others():
    """What stood there before is read before the mask is drawn."""

    def function(x: Any) -> Any:
        positive = x > 0
        y = fg.where(positive, x, x * 2)
        del positive
        for k in range(4):  # each mask gets the memory of the last one
            y = F.dropout(y * 1.5, 0.2) + k
            negative = y < 0
            y = fg.where(negative, y - 1, y)
            del negative
        return y

    compared(function, fg.randn(50, 130))


def test_several_in_one_group():
    def function(x: Any, y: Any) -> Any:
        a, b = F.dropout(x, 0.5), F.dropout(y, 0.25)
        return a * b + F.dropout(x, 0.5)

    fused = compared(function, fg.randn(50, 130), fg.randn(50, 130))
    assert sum(isinstance(item, MaskLaunch) for item in fused.order) >= 2


def test_a_mask_whose_result_nobody_reads():
    """The gradient needs it, though not what the dropout gave."""
    w = fg.randn(20, 70, requires_grad=True)

    def step(x: Any, g: Any) -> Any:
        w.grad = None
        (F.dropout(x * w, 0.5) + 1).backward(g)
        return w.grad

    compared(step, fg.randn(20, 70), fg.randn(20, 70))


def test_of_a_number():
    compared(lambda x: F.dropout(fg.full((30, 40), 3.0), 0.5) * x, fg.randn(30, 40))


def test_halves_stay_launches_of_their_own():
    fused = compared(lambda x: F.dropout(F.relu(x), 0.5) + x, fg.randn(100).half())
    assert "no fused kernel computes dropout of float16" in {why for *_, why in fused.report.left}


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads(threads: int):
    before = fg.get_num_threads()
    fg.set_num_threads(threads)
    try:
        compared(lambda x, y: F.dropout(x.tanh(), 0.3) + y, fg.randn(700, 1001), fg.randn(700, 1001))
    finally:
        fg.set_num_threads(before)


def test_in_rows_that_are_reduced():
    def function(x: Any) -> Any:
        y = F.dropout(x, 0.3)
        return y - y.sum(-1, keepdim=True)

    fused = compared(function, fg.randn(60, 200), close=1e-5)
    assert names(fused) == [("dropout", "sum", "sub")]


def test_a_fused_tape_is_edited_again():
    x = fg.randn(60, 200)
    with record() as tape:
        y = F.dropout(x.tanh(), 0.3) + x
    expected = seeded(tape, [y])
    tape.edit(fuse(tape.entries(), wanted_of([y])).order)
    again = fuse(tape.entries(), wanted_of([y]))
    tape.edit(again.order)
    same(seeded(tape, [y])[0], expected[0])
    assert "it draws random numbers" in {why for *_, why in again.report.left}


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(32, 64), nn.Linear(64, 32)
        self.dropout = nn.Dropout(0.2)

    def forward(self, x: Any) -> Any:
        return x + self.dropout(self.second(self.dropout(F.gelu(self.first(x)))))


def test_compiled_steps_draw_what_eager_ones_do():
    found = []
    for wrap in (lambda f: f, fg.compile):
        fg.manual_seed(0)
        model = nn.Sequential(Residual(), Residual())
        optimizer = fg.optim.SGD(model.parameters(), lr=0.1)
        x = fg.randn(16, 32)

        def step(x: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = wrap(step)
        losses = [run(x).item() for _ in range(6)]
        model.eval()
        found.append((losses, [p.detach().clone() for p in model.parameters()]))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    for a, b in zip(found[0][1], found[1][1], strict=True):
        assert fg.allclose(a, b, atol=1e-6)
    assert fg.compile.explain(run).signatures[0].n_replayed == 4
    reports = [str(report) for report in fg.compile.explain(run).signatures[0].fused]
    assert any("gelu, dropout" in text and "dropout, add" in text for text in reports)
