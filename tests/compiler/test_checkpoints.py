"""Checkpoints within compiled calls: both runs of their functions are replayed."""

from __future__ import annotations

import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad import nn
from fastgrad.utils.checkpoint import checkpoint, checkpoint_sequential
from tests.compiler.test_values import counts, why_not


class Model(nn.Module):
    def __init__(self, norm=False, frozen=False):
        super().__init__()
        layers = [nn.Linear(4, 8), nn.BatchNorm1d(8) if norm else nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 4)]
        self.block, self.head = nn.Sequential(*layers), nn.Linear(4, 3)
        self.calls = 0
        self.block[0].requires_grad_(not frozen)

    def forward(self, x):
        h = checkpoint(self.block, x, use_reentrant=False)
        h = checkpoint(lambda a, b: (a * b).tanh(), h, x, use_reentrant=False)
        h = checkpoint(self.nested, h, use_reentrant=False)
        return self.head(h)

    def nested(self, h):
        return checkpoint(self.block, h.sin(), use_reentrant=False).cos()


class InTurn(Model):
    def forward(self, x):
        return self.head(checkpoint_sequential(self.block, 2, x, use_reentrant=False))


def trained(kind, whole, wrap, n=6):
    """Losses, parameters, buffers and the next random number of some steps, and what was compiled."""
    fg.manual_seed(0)
    model = kind()
    optimizer = fg.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05, momentum=0.5)
    forward = lambda x, y: F.cross_entropy(model(x), y)  # noqa: E731
    called = wrap(forward) if not whole else forward

    def step(x, y):
        optimizer.zero_grad()
        loss = called(x, y)
        loss.backward()
        optimizer.step()
        return loss.item()

    step = wrap(step) if whole else step
    found = []
    for k in range(n):
        fg.manual_seed(k)
        x, y = fg.randn(6, 4), fg.randint(0, 3, (6,))
        found.append((step(x, y), fg.rand(1).item()))
    return found, [*model.parameters(), *model.buffers()], step if whole else called


@pytest.mark.parametrize("whole", [True, False], ids=["step", "forward"])
@pytest.mark.parametrize(
    "kind", [Model, InTurn, lambda: Model(frozen=True)], ids=["nested", "sequential", "frozen"]
)
def test_checkpoints_are_replayed(kind, whole):
    found, tensors, compiled = trained(kind, whole, fg.compile)
    wanted, others, _ = trained(kind, whole, lambda f: f)
    for (a, number), (b, other) in zip(found, wanted, strict=True):
        assert abs(a - b) < 1e-5
        assert number == other, "other random numbers were drawn"
    for t, o in zip(tensors, others, strict=True):
        assert fg.allclose(t, o, atol=1e-5)
    recorded, replayed, eager = counts(compiled)
    assert recorded <= 2
    assert (replayed, eager) == (6 - recorded, 0)


@pytest.mark.parametrize("whole", [True, False], ids=["step", "forward"])
def test_running_statistics_are_counted_as_often_as_eagerly(whole):
    kind = lambda: Model(norm=True)  # noqa: E731
    found, tensors, compiled = trained(kind, whole, fg.compile)
    wanted, others, _ = trained(kind, whole, lambda f: f)
    assert all(abs(a - b) < 1e-4 for (a, _), (b, _) in zip(found, wanted, strict=True))
    for t, o in zip(tensors, others, strict=True):
        assert fg.allclose(t, o, atol=1e-4)
    if whole:
        assert counts(compiled)[1] >= 4
    else:
        assert "runs a checkpoint that changes a tensor from outside" in why_not(compiled)


def test_a_hook_within_a_checkpoint_runs_as_often_as_eagerly():
    logs = []
    for wrap in (fg.compile, lambda f: f):
        log = []

        def kind(log=log):
            model = Model()
            model.block[0].register_forward_hook(lambda m, args, out: log.append(1))
            return model

        found, _, _ = trained(kind, True, wrap)
        logs.append((len(log), [round(a, 4) for a, _ in found]))
    assert logs[0] == logs[1]


def test_a_function_that_computes_something_else_the_second_time():
    state = {"n": 0}

    def uneven(x):
        state["n"] += 1
        return x.exp() if state["n"] % 2 else x.exp().sin()

    w = fg.ones(3, requires_grad=True)

    @fg.compile
    def step(x):
        w.grad = None
        checkpoint(uneven, w * x, use_reentrant=False, early_stop=False).sum().backward()
        return w.grad * 1

    for _ in range(3):
        with pytest.raises(RuntimeError, match="recomputation"):
            step(fg.ones(3))
