"""Options of optimizers that change between calls of a compiled step: it is replayed, with the bits of eager steps."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fastgrad as fg
from fastgrad import nn
from fastgrad.optim import lr_scheduler

STEPS = 14

OPTIMIZERS = {
    "SGD": lambda p, **options: fg.optim.SGD(p, **({"lr": 0.1, "momentum": 0.9} | options)),
    "plain SGD": lambda p, **options: fg.optim.SGD(p, **({"lr": 0.1, "weight_decay": 0.01} | options)),
    "Adam": lambda p, **options: fg.optim.Adam(p, **({"lr": 0.01, "weight_decay": 0.1} | options)),
    "AdamW": lambda p, **options: fg.optim.AdamW(p, **({"lr": 0.01, "amsgrad": True} | options)),
    "RMSprop": lambda p, **options: fg.optim.RMSprop(
        p, **({"lr": 0.01, "momentum": 0.5, "centered": True} | options)
    ),
    "Adagrad": lambda p, **options: fg.optim.Adagrad(p, **({"lr": 0.1, "lr_decay": 0.1} | options)),
    **{
        name: lambda p, name=name, **options: getattr(fg.optim, name)(p, **({"lr": 0.1} | options))
        for name in ("Adadelta", "Adamax", "NAdam", "RAdam", "Rprop", "ASGD")
    },
}

SCHEDULES = {
    "StepLR": lambda o: lr_scheduler.StepLR(o, 2, gamma=0.7),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [2, 5, 6]),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "ConstantLR": lambda o: lr_scheduler.ConstantLR(o, 0.3, 4),
    "LinearLR": lambda o: lr_scheduler.LinearLR(o, total_iters=5),
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: np.float64(1 / (1 + epoch))),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 7),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 4),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.2, total_steps=STEPS + 1),
    "ReduceLROnPlateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0, factor=0.5),
    "ChainedScheduler": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ExponentialLR(o, 0.9), lr_scheduler.ConstantLR(o, 0.5, 3)]
    ),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o, 0.5, 3), lr_scheduler.ExponentialLR(o, 0.8)], [3]
    ),
}


def parameters(dtype=fg.float32):
    fg.manual_seed(3)
    return [fg.randn(*sizes, dtype=dtype).requires_grad_() for sizes in ((3, 4), (5,), (), (40, 3))]


class Training:
    """A step over some parameters, whose gradients have no sums that fusion would add in another order."""

    def __init__(self, make, compiled, dtype=fg.float32, **options):
        self.params = params = parameters(dtype)
        self.optimizer = optimizer = make(params, **options)

        def step(factor):
            optimizer.zero_grad()
            fg.autograd.backward([(p * p * factor).sum() for p in params])
            optimizer.step()

        self.step = fg.compile(step) if compiled else step
        self.factors = iter(np.random.default_rng(5).standard_normal(100))

    @property
    def group(self):
        return self.optimizer.param_groups[0]

    @property
    def recorded(self):
        [signature] = fg.compile.explain(self.step).signatures
        assert signature.refused == ""
        assert signature.n_eager == 0
        return signature.n_recorded

    def run(self, between, steps=STEPS):
        """The bits of all parameters and of the optimizer's state after each of some steps."""
        found = []
        for k in range(steps):
            self.step(fg.tensor(next(self.factors), dtype=self.params[0].dtype))
            kept = [*self.params, *(t for p in self.params for t in self.optimizer.state[p].values())]
            found.append([t.detach().numpy().tobytes() for t in kept])
            between(k)
        return found


def pair(make, dtype=fg.float32, **options):
    return Training(make, False, dtype, **options), Training(make, True, dtype, **options)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_a_schedule(optimizer, schedule):
    both = pair(OPTIMIZERS[optimizer])
    schedules = [SCHEDULES[schedule](training.optimizer) for training in both]
    rates = []

    def advance(training, own):
        def between(k):
            rates.append(training.group["lr"])
            own.step(*([1.0] if schedule == "ReduceLROnPlateau" else []))

        return between

    eager, compiled = (t.run(advance(t, s)) for t, s in zip(both, schedules, strict=True))
    assert eager == compiled
    assert rates[:STEPS] == rates[STEPS:]
    assert len(set(rates)) > 1
    assert both[1].recorded == 2


OPTIONS = {
    "SGD": ["lr", "momentum", "dampening", "weight_decay"],
    "plain SGD": ["lr", "weight_decay"],
    "Adam": ["lr", "betas", "eps", "weight_decay"],
    "AdamW": ["lr", "betas", "eps", "weight_decay"],
    "RMSprop": ["lr", "alpha", "eps", "weight_decay", "momentum"],
    "Adagrad": ["lr", "lr_decay", "eps", "weight_decay"],
    "Adadelta": ["lr", "rho", "eps", "weight_decay"],
    "Adamax": ["lr", "betas", "eps", "weight_decay"],
    "NAdam": ["lr", "betas", "eps", "weight_decay", "momentum_decay"],
    "RAdam": ["lr", "betas", "eps", "weight_decay"],
    "Rprop": ["etas", "step_sizes"],
    "ASGD": ["lr", "lambd", "alpha", "t0", "weight_decay"],
}


@pytest.mark.parametrize("dtype", [fg.float32, fg.float64], ids=str)
@pytest.mark.parametrize("optimizer", OPTIONS)
def test_every_option(optimizer, dtype):
    """All numbers that kernels get as they are may change, by hand and all at once."""
    both = pair(OPTIMIZERS[optimizer], dtype)

    def change(training):
        def between(k):
            for j, name in enumerate(OPTIONS[optimizer]):
                value = 0.9 / (2 + k + j)
                pair = name in ("betas", "etas", "step_sizes")
                training.group[name] = (value, 1 - value / 2) if pair else value

        return between

    eager, compiled = (t.run(change(t)) for t in both)
    assert eager == compiled
    assert len(set(map(tuple, compiled))) == STEPS
    assert both[1].recorded == 2


def test_two_groups():
    def make(params):
        return fg.optim.AdamW([{"params": params[:2], "weight_decay": 0.3}, {"params": params[2:]}], lr=0.1)

    both = pair(make)

    def change(training):
        def between(k):
            first, second = training.optimizer.param_groups
            first["lr"], second["lr"], second["weight_decay"] = 1 / (k + 2), 1 / (k + 3), 0.1 * (k % 3)

        return between

    eager, compiled = (t.run(change(t)) for t in both)
    assert eager == compiled
    assert both[1].recorded == 2


@pytest.mark.parametrize("dtype", [fg.float32, fg.float64], ids=str)
def test_a_rate_that_is_a_tensor(dtype):
    """A schedule fills it; another tensor in its place is another recording."""
    runs, trainings = [], pair(OPTIMIZERS["Adam"])
    for training in trainings:
        training.group["lr"] = fg.tensor(0.1, dtype=dtype)
        schedule = lr_scheduler.ExponentialLR(training.optimizer, 0.8)
        runs.append(training.run(lambda _, own=schedule: own.step()))
    assert runs[0] == runs[1]
    assert trainings[1].recorded == 2
    for training in trainings:
        training.group["lr"] = fg.tensor(0.5, dtype=dtype)
        runs.append(training.run(lambda _: None, 2))
    assert runs[2] == runs[3]
    assert trainings[1].recorded == 3


def test_a_rate_that_the_step_changes():
    """A tensor that is filled on the way to where it is read cannot be brought."""
    for compiled in (False, True):
        w, lr = fg.ones(3, requires_grad=True), fg.tensor(1.0)
        optimizer = fg.optim.SGD([w], lr=lr)

        def step(lr=lr, w=w, optimizer=optimizer):
            lr.mul_(0.5)
            w.grad = fg.ones(3)
            optimizer.step()

        call = fg.compile(step) if compiled else step
        for _ in range(4):
            call()
        assert w.tolist() == [1 - 0.5 - 0.25 - 0.125 - 0.0625] * 3
    [signature] = fg.compile.explain(call).signatures
    assert "changes an option" in signature.refused


# --- what is compared all the same ------------------------------------------------------------------------------


@pytest.mark.parametrize(("optimizer", "name"), [("SGD", "momentum"), ("RMSprop", "momentum")])
def test_another_branch(optimizer, name):
    """Where a sign decides what a step does, another one is another recording."""
    both = pair(OPTIMIZERS[optimizer])

    def change(training):
        def between(k):
            training.group[name] = [0.5, 0.0, 0, 0.25, 1, 0.0][k % 6]

        return between

    eager, compiled = (t.run(change(t)) for t in both)
    assert eager == compiled
    assert both[1].recorded <= 4


@pytest.mark.parametrize(
    ("optimizer", "name"), [("SGD", "maximize"), ("SGD", "nesterov"), ("Adam", "maximize")]
)
def test_another_flag(optimizer, name):
    both = pair(OPTIMIZERS[optimizer])

    def change(training):
        def between(k):
            training.group[name] = k % 4 > 1

        return between

    eager, compiled = (t.run(change(t)) for t in both)
    assert eager == compiled
    assert both[1].recorded == 3


def _by_name(optimizer, group):
    return optimizer.param_groups[0]["lr"]


def _by_values(optimizer, group):
    return list(optimizer.param_groups[0].values())[1]


def _by_group(optimizer, group):
    return [*group.values()][1]


def _by_computed_name(optimizer, group):
    return getattr(optimizer, "".join(("param", "_groups")))[0]["l" + "r"[:1]]


def _by_state(optimizer, group):
    return next(iter(optimizer.state_dict()["param_" + "groups"][0].values()))


@pytest.mark.parametrize("read", [_by_name, _by_values, _by_group, _by_computed_name, _by_state])
def test_code_that_reads_an_option(read):
    """What the function itself decides by is compared."""
    results = []
    for compiled in (False, True):
        w = fg.ones(2, requires_grad=True)
        optimizer = fg.optim.SGD([w], lr=1.0)
        group = optimizer.param_groups[0]

        def step(x, w=w, optimizer=optimizer, group=group):
            optimizer.zero_grad()
            (w * x * read(optimizer, group)).sum().backward()
            optimizer.step()

        call = fg.compile(step) if compiled else step
        for k in range(12):
            optimizer.param_groups[0]["lr"] = 1 / (k // 4 + 1)
            call(fg.ones(2))
        results.append(w.tolist())
    assert results[0] == results[1]
    [signature] = fg.compile.explain(call).signatures
    assert signature.n_recorded == 4
    assert signature.n_replayed == 8


class Warmed(fg.optim.SGD):
    """An optimizer of a program's own, which changes its rate."""

    def step(self, closure=None):
        for group in self.param_groups:
            group["lr"] = group["lr"] / 2
        return super().step(closure)


def test_an_optimizer_that_changes_its_rate():
    results = []
    for compiled in (False, True):
        w = fg.ones(2, requires_grad=True)
        optimizer = Warmed([w], lr=1.0)

        def step(w=w, optimizer=optimizer):
            w.grad = fg.ones(2)
            optimizer.step()

        call = fg.compile(step) if compiled else step
        for _ in range(5):
            call()
        results.append(w.tolist())
    assert results[0] == results[1]


def test_a_hook_that_changes_the_rate():
    """A hook is called by replays, before the step: what it changes is not brought."""
    results = []
    for compiled in (False, True):
        w = fg.ones(2, requires_grad=True)
        optimizer = fg.optim.SGD([w], lr=1.0)
        calls = []

        def hook(grad, optimizer=optimizer, calls=calls):
            calls.append(1)
            if len(calls) < 2:
                optimizer.param_groups[0]["lr"] = 0.5

        w.register_hook(hook)

        def step(x, w=w, optimizer=optimizer):
            w.grad = None
            (w * x).sum().backward()
            optimizer.step()

        call = fg.compile(step) if compiled else step
        for k in range(6):
            call(fg.ones(2))
            if k == 3:
                optimizer.param_groups[0]["lr"] = 0.25
        results.append((w.tolist(), len(calls)))
    assert results[0] == results[1]


@pytest.mark.parametrize(
    "value",
    [None, "0.1", True, 10**400, math.nan, math.inf, fg.ones(2), [0.1], {}],
    ids=lambda v: type(v).__name__,
)
def test_what_is_no_rate(value):
    """Whatever stands there by then, a call does as the eager one: it raises, or computes with it."""
    outcomes = []
    for training in pair(OPTIMIZERS["plain SGD"]):
        training.run(lambda _: None, 4)
        training.group["lr"] = value
        try:
            outcome = training.run(lambda _: None, 1)
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:
            outcome = type(error)
        training.group["lr"] = 0.5
        outcomes.append((outcome, training.run(lambda _: None, 3)))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("betas", [(0.5,), (0.5, 0.6, 0.7), [0.5, 0.6], 0.5, (0.5, None)], ids=repr)
def test_what_are_no_betas(betas):
    outcomes = []
    for training in pair(OPTIMIZERS["Adam"]):
        training.run(lambda _: None, 4)
        training.group["betas"] = betas
        try:
            outcome = training.run(lambda _: None, 2)
        except (TypeError, ValueError, RuntimeError) as error:
            outcome = type(error)
        training.group["betas"] = (0.8, 0.9)
        outcomes.append((outcome, training.run(lambda _: None, 3)))
    assert outcomes[0] == outcomes[1]


def test_an_option_that_is_gone():
    _, training = pair(OPTIMIZERS["plain SGD"])
    training.run(lambda _: None, 4)
    rate = training.group.pop("lr")
    with pytest.raises(KeyError):
        training.run(lambda _: None, 1)
    training.group["lr"] = rate
    training.run(lambda _: None, 2)


def test_groups_that_are_loaded():
    """A state dict brings other groups: that is recorded anew, and then replayed with other rates."""
    both = pair(OPTIMIZERS["Adam"])
    runs = []
    for training in both:
        found = training.run(lambda _: None, 4)
        training.optimizer.load_state_dict(training.optimizer.state_dict())

        def between(k, training=training):
            training.group["lr"] = 1 / (k + 3)

        runs.append(found + training.run(between, 5))
    assert runs[0] == runs[1]
    assert both[1].recorded == 3


def test_a_model_and_a_schedule():
    """Within rounding, as fused kernels add in another order."""
    results = []
    for compiled in (False, True):
        fg.manual_seed(1)
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
        optimizer = fg.optim.AdamW(model.parameters(), lr=0.05)
        schedule = lr_scheduler.CosineAnnealingLR(optimizer, 20)

        def step(x, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            return loss.detach()

        call = fg.compile(step) if compiled else step
        losses = []
        for _ in range(20):
            losses.append(call(fg.randn(4, 6)).item())
            schedule.step()
        results.append(losses)
    assert results[0] == pytest.approx(results[1], rel=1e-4)
    [signature] = fg.compile.explain(call).signatures
    assert (signature.n_recorded, signature.n_replayed) == (2, 18)
