"""Whole training steps, fused and not: the same parameters after some replays."""

from __future__ import annotations

import pytest
from fusion_testing import bits, same, wanted_of

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad import nn
from fastgrad.compiler.fusion import fuse
from fastgrad.native.host.tape import record

WIDTH, HEADS, LENGTH, WORDS, BATCH = 32, 4, 16, 40, 3


class Norm(nn.Module):
    """Layer norm written out."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(fg.ones(WIDTH))
        self.bias = nn.Parameter(fg.zeros(WIDTH))

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return centred * ((centred * centred).mean(-1, keepdim=True) + 1e-5).rsqrt() * self.weight + self.bias


class Block(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.first, self.second = norm(), norm()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        parts = self.qkv(self.first(x)).chunk(3, -1)
        q, k, v = (t.view(BATCH, LENGTH, HEADS, WIDTH // HEADS).transpose(1, 2) for t in parts)
        scores = (q @ k.transpose(-1, -2)) * (WIDTH // HEADS) ** -0.5
        scores = scores.masked_fill(fg.ones(LENGTH, LENGTH).tril() == 0, float("-inf"))
        weights = (scores - scores.detach().amax(-1, keepdim=True)).exp()
        mixed = (weights / weights.sum(-1, keepdim=True)) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH))
        hidden = self.up(self.second(x))
        hidden = 0.5 * hidden * (1 + fg.tanh(0.79788456 * (hidden + 0.044715 * hidden**3)))
        return x + self.down(hidden)


class Model(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Parameter(fg.randn(LENGTH, WIDTH) * 0.1)
        self.blocks = nn.Sequential(Block(norm), Block(norm))
        self.norm, self.head = norm(), nn.Linear(WIDTH, WORDS)

    def forward(self, indices):
        return self.head(self.norm(self.blocks(self.words(indices) + self.places)))


@pytest.mark.parametrize("norm", [Norm, lambda: nn.LayerNorm(WIDTH)], ids=["written out", "layer"])
@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_a_transformer(norm, optimizer):
    fg.manual_seed(0)
    model = Model(norm)
    optimizer = getattr(fg.optim, optimizer)(model.parameters(), lr=1e-3)
    indices, targets = fg.randint(0, WORDS, (BATCH, LENGTH)), fg.randint(0, WORDS, (BATCH * LENGTH,))

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(indices).view(-1, WORDS), targets)
        loss.backward()
        optimizer.step()
        return loss

    step()
    with record() as tape:
        loss = step()
    states = [v for s in optimizer.state.values() for v in s.values() if isinstance(v, fg.Tensor)]
    kept = [*model.parameters(), *(p.grad for p in model.parameters()), *states, loss]
    start = [t.detach().clone() for t in kept]
    before = tape.launches

    def run():
        for t, value in zip(kept, start, strict=True):
            t.detach().copy_(value)
        for _ in range(3):
            tape.replay()
        return [bits(t) for t in kept]

    expected = run()
    fused = fuse(tape.entries(), wanted_of(kept))
    tape.edit(fused.order)
    for found, value in zip(run(), expected, strict=True):
        same(found, value, 2e-4)
    assert tape.launches < before - 20, str(fused.report)


def _standardised(x):
    centred = x - x.mean(0)
    return centred / (centred.square().mean(0) + 1e-5).sqrt()


@pytest.mark.parametrize("shape", [(3, 4), (1, 5), (7, 1), (64, 128), (100, 7), (300, 33), (0, 4)])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x - x.mean(0),
        lambda x: x * 2 + x.sum(0) * 3,
        lambda x: (x - x.sum(0), x.sum(0) + 1),
        lambda x: (x.exp() / x.exp().sum(0)).square().sum(0) - x,
        _standardised,
    ],
    ids=["centred", "sums", "both", "softmax", "standardised"],
)
def test_sums_of_columns_are_complete_when_they_are_read(function, shape):
    """Each call brings other numbers, so that sums of the last one would show."""
    compiled = fg.compile(function)
    for _ in range(4):
        x = fg.randn(*shape)
        found, wanted = compiled(x), function(x)
        pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
        for a, b in pairs:
            assert fg.allclose(a, b, rtol=1e-4, atol=1e-4, equal_nan=True)
