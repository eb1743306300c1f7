"""Values that Python reads in the middle of a compiled call: replays compare them, and end where they differ."""

from __future__ import annotations

import gc
import random

import pytest

import fastgrad as fg
from fastgrad import nn
from fastgrad.native.build.loader import rt


def counts(compiled):
    """How many calls of the only signature were recorded, replayed and run eagerly."""
    (report,) = fg.compile.explain(compiled).signatures
    return report.n_recorded, report.n_replayed, report.n_eager


def why_not(compiled):
    (report,) = fg.compile.explain(compiled).signatures
    return report.refused


def same(a, b):
    """Whether results are the same, floats within rounding: fused kernels add in another order."""
    if isinstance(a, fg.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and fg.allclose(a, b, rtol=1e-5, atol=1e-6)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def by_branch(x):
    y = x * fg.rand(3)
    if y.sum() > 0:
        return y * 2
    return y.exp() - 1


def by_index(x):
    return x[x > 0] * 2


def by_count(x):
    y = x
    for _ in range(int((x > 0).sum())):
        y = (y * 0.5).tanh()
    return y


def by_bool(x):
    return x.cos() if fg.equal(x, x.abs()) else x.sin()


def by_float(x):
    return x * float(x.abs().max())


def by_half(x):
    return x / x.to(fg.bfloat16).abs().max().item()


def by_places(x):
    return fg.nonzero(x > 0).sum(), (x > 0).any().item()


def by_integers(x):
    k = x.argmax().item()
    return x[k] * k


VALUES = ([1.0, 1.0, 1.0], [1.0, -2.0, 1.0], [-1.0, -1.0, -1.0])
FUNCTIONS = [by_branch, by_index, by_count, by_bool, by_float, by_half, by_places, by_integers]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_each_way_is_recorded_once(function):
    compiled = fg.compile(function)
    rng = random.Random(0)
    for k in range(24):
        x = fg.tensor(VALUES[rng.randrange(3)])
        fg.manual_seed(k)
        wanted, after = function(x), fg.rand(1)
        fg.manual_seed(k)
        found, then = compiled(x), fg.rand(1)
        assert same(found, wanted)
        assert after.item() == then.item(), "other random numbers were drawn"
    recorded, replayed, eager = counts(compiled)
    assert recorded <= 3
    assert replayed == 24 - recorded
    assert eager == 0


@pytest.mark.parametrize("function", [by_branch, by_index, by_count, by_float], ids=lambda f: f.__name__)
def test_gradients_of_each_way(function):
    compiled = fg.compile(function)
    for k in range(12):
        grads = []
        for called in (function, compiled):
            x = fg.tensor(VALUES[k % 3], requires_grad=True)
            fg.manual_seed(k)
            called(x).sum().backward()
            grads.append(x.grad)
        assert fg.equal(*grads)
    assert counts(compiled)[1] >= 9


def test_values_that_are_always_new():
    compiled = fg.compile(by_float)
    for k in range(20):
        x = fg.randn(3)
        assert fg.equal(compiled(x), by_float(x)), k
    recorded, replayed, eager = counts(compiled)
    assert (recorded, replayed, eager) == (8, 0, 12)
    assert "a value that it reads is another one" in why_not(compiled)


def clipping(model, optimizer):
    def step(x):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        norm = fg.stack([p.grad.norm() for p in model.parameters()]).norm()
        if norm > 0.5:
            for p in model.parameters():
                p.grad.mul_(0.5 / norm)
        optimizer.step()
        return loss.detach()

    return step


def test_a_step_that_clips_where_it_must():
    losses = []
    for wrap in (lambda f: f, fg.compile):
        fg.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
        step = wrap(clipping(model, fg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)))
        losses.append([step(fg.randn(4, 3) * (3 if k % 3 else 0.3)).item() for k in range(30)])
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)  # columns are added up in fused kernels
    recorded, replayed, _ = counts(step)
    assert recorded <= 4
    assert replayed == 30 - recorded


def test_gradients_stay_where_a_replay_came_to_nothing():
    w = fg.ones(3, requires_grad=True)

    @fg.compile
    def step(x):
        w.grad = None
        y = (w * x).sum()
        y.backward()
        if y > 100:
            raise ValueError("too much")
        return y.detach()

    for k in range(4):
        step(fg.full((3,), float(k)))
    assert counts(step)[1] == 2
    before = w.grad
    with pytest.raises(ValueError, match="too much"):
        step(fg.full((3,), 100.0))
    assert w.grad is not before  # the function itself had set it by then
    assert w.grad.tolist() == [100.0] * 3
    assert before.tolist() == [3.0] * 3
    assert step(fg.ones(3)).item() == 3


def test_a_value_behind_a_change():
    w = fg.zeros(3)

    @fg.compile
    def step(x):
        w.add_(x)
        return w.sum().item()

    assert [step(fg.ones(3)) for _ in range(4)] == [3.0, 6.0, 9.0, 12.0]
    assert counts(step) == (1, 3, 0)


def test_a_value_behind_a_hook():
    w = fg.ones(3, requires_grad=True)
    log = []
    w.register_hook(lambda g: log.append(g.sum().item()))

    @fg.compile
    def step(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad * 2 if w.grad.sum() > 5 else w.grad.clone()

    assert [step(fg.full((3,), float(k))).sum().item() for k in range(4)] == [0, 3, 12, 18]
    assert log == [0, 3, 6, 9]
    assert "it reads a value after a hook was called" in why_not(step)


def test_whole_tensors_are_not_compared():
    compiled = fg.compile(lambda x: fg.tensor(x.tolist()) * 2)
    assert [compiled(fg.ones(2) * k).tolist() for k in range(3)] == [[0, 0], [2, 2], [4, 4]]
    assert "reads whole tensors" in why_not(compiled)


def test_nan_is_itself():
    compiled = fg.compile(lambda x: x * 2 if x.sum().item() > 0 else x + 1)
    for _ in range(3):
        assert compiled(fg.full((2,), float("nan"))).isnan().all()
    assert counts(compiled) == (1, 2, 0)


def test_a_plain_tape_compares_nothing():
    x = fg.ones(2)
    from fastgrad.native.host.tape import record

    with record() as tape:
        y = x * x.sum().item()
    x.fill_(3)
    tape.replay()
    assert y.tolist() == [6.0, 6.0]  # what was read stays as it was


def random_function(rng):
    """A function that decides by values, and its text of choices."""
    choices = [(rng.randrange(4), rng.randrange(3), rng.uniform(-1, 1)) for _ in range(rng.randrange(2, 6))]

    def function(x, w):
        y = x
        for op, how, limit in choices:
            y = [lambda y: y * w, lambda y: (y + w).tanh(), lambda y: y - y.mean(), lambda y: y * fg.rand(4)][
                op
            ](y)
            if how == 0 and y.sum() > limit:
                y = y.relu() + 0.1
            elif how == 1 and bool((y > limit).all()):
                y = y * 0.5
        return y

    return function


@pytest.mark.parametrize("seed", range(40))
def test_random_decisions(seed):
    rng = random.Random(seed)
    function = random_function(rng)
    compiled = fg.compile(function)
    inputs = [fg.tensor([rng.uniform(-2, 2) for _ in range(4)]) for _ in range(3)]
    for k in range(12):
        x = inputs[rng.randrange(3)]
        found = []
        for called in (function, compiled):
            w = fg.full((4,), 0.7 + k % 2, requires_grad=True)
            fg.manual_seed(k % 4)
            y = called(x, w)
            if y.requires_grad:
                y.sum().backward()
            found.append((y.detach(), w.grad, fg.rand(1)))
        assert same(*found)
    assert counts(compiled)[2] == 0 or "another one" in why_not(compiled)


def test_nothing_is_left_of_replays_that_came_to_nothing():
    compiled = fg.compile(by_count)
    for k in range(12):
        compiled(fg.tensor(VALUES[k % 3]))
    gc.collect()
    before = fg.debug.live()
    for k in range(30):
        compiled(fg.tensor(VALUES[k % 3]))
    gc.collect()
    assert fg.debug.live() == before
    assert not rt.capturing()
