"""Capture and replay of a whole training step."""

import itertools

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad.native.host.tape import record


def make_mlp(device=None):
    """Parameters, inputs and targets of a small classifier, the same at every call."""
    rng = np.random.default_rng(0)
    sizes = (8, 16, 16, 4)
    weights = [rng.standard_normal((a, b)) / a**0.5 for a, b in itertools.pairwise(sizes)]
    values = [*weights, *(np.zeros(b) for b in sizes[1:])]
    params = [fg.tensor(v.astype(np.float32), device=device, requires_grad=True) for v in values]
    x = fg.tensor(rng.standard_normal((32, 8)).astype(np.float32), device=device)
    y = fg.tensor(rng.integers(0, 4, 32), device=device)
    return params, x, y


def make_step(params, x, y, lr=0.1):
    """One step of training as a function; it returns the loss."""
    optimizer = fg.optim.SGD(params, lr=lr)

    def step():
        optimizer.zero_grad()
        h = x
        for k in range(3):
            h = h @ params[k] + params[3 + k]
            if k < 2:
                h = F.relu(h)
        loss = F.cross_entropy(h, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def values(params):
    return [p.detach().numpy().copy() for p in params]


def test_replayed_steps_equal_eager_steps():
    eager, x, y = make_mlp()
    step = make_step(eager, x, y)
    losses = [step().item() for _ in range(12)]

    replayed, x, y = make_mlp()
    step = make_step(replayed, x, y)
    first = step().item()
    with record() as tape:
        loss = step()
    seen = [first, loss.item()]
    for _ in range(10):
        tape.replay()
        seen.append(loss.item())
    assert seen == losses
    for a, b in zip(values(eager), values(replayed), strict=True):
        np.testing.assert_array_equal(a, b)
    assert tape.launches > 20


def test_replay_reads_new_contents_of_the_inputs():
    x = fg.arange(4, dtype=fg.float32)
    with record() as tape:
        total = (x * x).sum()
    x.copy_(fg.full((4,), 3.0))
    tape.replay()
    assert total.item() == 36.0


def test_memory_of_a_capture_is_not_reused_outside():
    x = fg.ones(1000)
    with record() as tape:
        y = (x + 1) * 2
    outside = [fg.zeros(1000) for _ in range(8)]
    tape.replay()
    assert all((z == 0).all() for z in outside)
    assert (y == 4).all()


def test_memory_of_a_capture_comes_back():
    fg.debug.empty_cache()
    with record() as tape:
        fg.ones(1000) + 1
    before = fg.debug.memory()["cached"]
    del tape
    assert fg.debug.memory()["cached"] > before


def test_captures_do_not_nest():
    with record() as tape:
        with pytest.raises(RuntimeError, match="nested"), record():
            pass
        fg.ones(2) + 1
    tape.replay()


def test_replay_inside_its_capture_raises():
    with record() as tape:
        fg.ones(2) + 1
        with pytest.raises(RuntimeError, match="after the"):
            tape.replay()


def test_capture_ends_when_the_block_raises():
    with pytest.raises(KeyError), record():
        raise KeyError
    with record() as tape:
        fg.ones(2) * 2
    assert tape.launches
