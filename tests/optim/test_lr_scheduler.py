"""Schedules over thirty epochs in fastgrad and PyTorch, what they refuse, warn of and save."""

from __future__ import annotations

import copy
import functools
import types
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fastgrad as fg

EPOCHS = 30
LOSSES = [1.0, 0.9, 0.95, 0.9, 0.91, 0.9, 0.4, 0.4, 0.4, 0.4, 0.39, 0.5, 0.5, 0.5, 0.1, *[0.2] * 15]


class Decay:
    """A callable with attributes, which a state dict keeps."""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def __call__(self, epoch: int) -> float:
        return self.rate**epoch


def sequential(lib: ModuleType, o: Any, **options: Any) -> Any:
    s = lib.optim.lr_scheduler
    parts = [
        s.LinearLR(o, start_factor=0.1, total_iters=4),
        s.CosineAnnealingLR(o, T_max=7),
        s.ExponentialLR(o, gamma=0.9),
    ]
    return s.SequentialLR(o, parts, milestones=[4, 11])


def chained(lib: ModuleType, o: Any) -> Any:
    s = lib.optim.lr_scheduler
    return s.ChainedScheduler([s.ConstantLR(o, factor=0.1, total_iters=3), s.ExponentialLR(o, gamma=0.9)])


def made(name: str, **options: Any) -> Any:
    return lambda lib, o: getattr(lib.optim.lr_scheduler, name)(o, **options)


SCHEDULES: dict[str, Any] = {
    "lambda": made("LambdaLR", lr_lambda=lambda epoch: 0.95**epoch),
    "lambdas": made("LambdaLR", lr_lambda=[lambda epoch: 1 / (1 + epoch), Decay(0.9)]),
    "step": made("StepLR", step_size=4, gamma=0.5),
    "multistep": made("MultiStepLR", milestones=[3, 7, 7, 20], gamma=0.3),
    "constant": made("ConstantLR", factor=0.5, total_iters=4),
    "constant from the first": made("ConstantLR", factor=0.5, total_iters=0),
    "linear": made("LinearLR", start_factor=0.25, end_factor=0.9, total_iters=7),
    "linear down": made("LinearLR", start_factor=1.0, end_factor=0.0, total_iters=9),
    "exponential": made("ExponentialLR", gamma=0.9),
    "cosine": made("CosineAnnealingLR", T_max=10, eta_min=0.001),
    "cosine once": made("CosineAnnealingLR", T_max=30),
    "restarts": made("CosineAnnealingWarmRestarts", T_0=5),
    "longer restarts": made("CosineAnnealingWarmRestarts", T_0=3, T_mult=2, eta_min=0.01),
    "one cycle": made("OneCycleLR", max_lr=0.5, total_steps=31),
    "one cycle for each": made("OneCycleLR", max_lr=[0.5, 0.1], epochs=5, steps_per_epoch=7, pct_start=0.5),
    "one cycle linear": made("OneCycleLR", max_lr=0.5, total_steps=40, anneal_strategy="linear", three_phase=True),
    "one cycle of rates": made("OneCycleLR", max_lr=0.5, total_steps=31, cycle_momentum=False, div_factor=5.0),
    "multiplicative": made("MultiplicativeLR", lr_lambda=[lambda epoch: 0.9, Decay(0.98)]),
    "polynomial": made("PolynomialLR", total_iters=12, power=2.0),
    "cyclic": made("CyclicLR", base_lr=0.01, max_lr=[0.2, 0.1], step_size_up=3, step_size_down=5),
    "cyclic halves": made("CyclicLR", base_lr=0.01, max_lr=0.2, step_size_up=4, mode="triangular2"),
    "cyclic fading": made(
        "CyclicLR", base_lr=0.01, max_lr=0.2, step_size_up=4, mode="exp_range", gamma=0.95, base_momentum=[0.5, 0.6]
    ),
    "cyclic function": made(
        "CyclicLR", base_lr=0.01, max_lr=0.2, step_size_up=4, scale_fn=Decay(0.9), scale_mode="iterations",
        cycle_momentum=False,
    ),
    "swa": lambda lib, o, **options: lib.optim.swa_utils.SWALR(o, **({"swa_lr": [0.05, 0.01]} | options)),
    "swa linear": lambda lib, o: lib.optim.swa_utils.SWALR(o, 0.05, anneal_epochs=7, anneal_strategy="linear"),
    "swa at once": lambda lib, o: lib.optim.swa_utils.SWALR(o, 0.05, anneal_epochs=0),
    "plateau": made("ReduceLROnPlateau", patience=2, factor=0.5, cooldown=1),
    "plateau max": made("ReduceLROnPlateau", mode="max", patience=3, threshold_mode="abs", threshold=0.05),
    "plateau least": made("ReduceLROnPlateau", patience=0, min_lr=[0.05, 0.001], threshold_mode="abs"),
    "sequential": sequential,
    "chained": chained,
}  # fmt: skip
CHAINABLE = [n for n in SCHEDULES if not n.startswith(("plateau", "sequential", "chained", "swa"))]


def optimizer_of(lib: ModuleType, kind: str = "SGD") -> Any:
    groups = [
        {"params": [lib.ones(1, requires_grad=True)]},
        {"params": [lib.ones(2, requires_grad=True)], "lr": 0.03},
    ]
    return lib.optim.SGD(groups, lr=0.2, momentum=0.9) if kind == "SGD" else lib.optim.Adam(groups, lr=0.2)


def rates(optimizer: Any) -> list[Any]:
    """What schedules change in the groups."""
    return [
        [float(group["lr"]), *(float(x) for x in group.get("betas", (group.get("momentum"),)))]
        for group in optimizer.param_groups
    ]


def advance(scheduler: Any, epoch: int) -> None:
    scheduler.optimizer.step()
    if type(scheduler).__name__ == "ReduceLROnPlateau":
        scheduler.step(LOSSES[epoch])
    else:
        scheduler.step()


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore:.*epoch parameter")
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_same_rates(name, kind):
    torch = pytest.importorskip("torch")
    logs = []
    for lib in (fg, torch):
        optimizer = optimizer_of(lib, kind)
        scheduler = SCHEDULES[name](lib, optimizer)
        log = [rates(optimizer)]
        for epoch in range(EPOCHS):
            advance(scheduler, epoch)
            log.append(rates(optimizer))
            assert [float(lr) for lr in scheduler.get_last_lr()] == [r[0] for r in log[-1]]
        assert scheduler.last_epoch == EPOCHS if hasattr(scheduler, "last_epoch") else name == "chained"
        logs.append(log)
    np.testing.assert_allclose(*logs, rtol=1e-11, atol=1e-15)


@pytest.mark.parity
@pytest.mark.parametrize(
    "name", ["step", "exponential", "linear", "cosine", "constant", "sequential", "plateau"]
)
def test_rates_that_are_tensors(name):
    torch = pytest.importorskip("torch")
    logs = []
    for lib in (fg, torch):
        lr = lib.tensor(0.2, dtype=lib.float64)
        optimizer = lib.optim.Adam([lib.ones(1, requires_grad=True), lib.ones(2, requires_grad=True)], lr=lr)
        scheduler = SCHEDULES[name.replace("least", "")](lib, optimizer)
        log = []
        for epoch in range(12):
            advance(scheduler, epoch)
            log.append(lr.item())
        assert optimizer.param_groups[0]["lr"] is lr
        logs.append(log)
    np.testing.assert_allclose(*logs, rtol=1e-11)


@pytest.mark.parametrize(
    "name", ["step", "multistep", "constant", "linear", "exponential", "cosine", "restarts"]
)
@pytest.mark.filterwarnings("ignore:.*epoch parameter")
def test_closed_forms_agree(name):
    """Going to an epoch at once sets what going there step by step does."""
    one, other = (SCHEDULES[name](fg, optimizer_of(fg)) for _ in range(2))
    for epoch in range(1, EPOCHS):
        advance(one, epoch)
        other.optimizer.step()
        other.step(epoch)
        np.testing.assert_allclose(rates(one.optimizer), rates(other.optimizer), rtol=1e-9, atol=1e-15)


def test_going_to_an_epoch_warns(lib):
    scheduler = lib.optim.lr_scheduler.ExponentialLR(optimizer_of(lib), gamma=0.5)
    scheduler.optimizer.step()
    with pytest.warns(UserWarning, match="The epoch parameter"):
        scheduler.step(3)


@pytest.mark.parity
def test_restarts_at_fractions():
    torch = pytest.importorskip("torch")
    logs = []
    for lib in (fg, torch):
        optimizer = optimizer_of(lib)
        scheduler = lib.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=3, T_mult=2)
        log = []
        for k in range(60):
            scheduler.step(k / 4)
            log.append(rates(optimizer))
        logs.append(log)
    np.testing.assert_allclose(*logs, rtol=1e-11, atol=1e-15)


def test_combinations_of_combinations():
    """Where PyTorch begins the inner ones at their epoch 1, and warns."""
    s = fg.optim.lr_scheduler
    o = optimizer_of(fg)
    inner = s.SequentialLR(o, [s.ConstantLR(o, 0.5, 3), s.StepLR(o, 2, 0.5)], milestones=[5])
    chain = s.ChainedScheduler([s.ExponentialLR(o, 0.5), s.ConstantLR(o, 0.5, 1)])
    scheduler = s.SequentialLR(o, [inner, chain], milestones=[8])
    seen = [scheduler.get_last_lr()[0]]
    for epoch in range(7):
        advance(scheduler, epoch)
        seen.append(scheduler.get_last_lr()[0])
    np.testing.assert_allclose(seen, [0.1, 0.1, 0.1, 0.2, 0.2, 0.2, 0.2, 0.1])
    first = s.SequentialLR(
        o, [s.ChainedScheduler([s.ExponentialLR(o, 0.5), s.ConstantLR(o, 0.5, 1)]), inner], [9]
    )
    seen = [first.get_last_lr()[0]]
    for epoch in range(3):
        advance(first, epoch)
        seen.append(first.get_last_lr()[0])
    np.testing.assert_allclose(seen, [0.1, 0.1, 0.05, 0.025])


# --- state -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCHEDULES)
def test_going_on_from_a_state_dict(name):
    one = SCHEDULES[name](fg, optimizer_of(fg))
    for epoch in range(9):
        advance(one, epoch)
    other = SCHEDULES[name](fg, optimizer_of(fg))
    other.optimizer.load_state_dict(one.optimizer.state_dict())
    given = copy.deepcopy(one.state_dict())
    kept = copy.deepcopy(given)
    other.load_state_dict(given)
    assert given.keys() == kept.keys()
    for epoch in range(9, 20):
        advance(one, epoch)
        advance(other, epoch)
        assert rates(one.optimizer) == rates(other.optimizer)


@pytest.mark.parity
@pytest.mark.parametrize("name", CHAINABLE)
def test_going_on_with_last_epoch(name):
    torch = pytest.importorskip("torch")
    logs = []
    for lib in (fg, torch):
        first = SCHEDULES[name](lib, optimizer_of(lib))
        for epoch in range(6):
            advance(first, epoch)
        optimizer = optimizer_of(lib)
        optimizer.load_state_dict(first.optimizer.state_dict())
        second = type(first)(optimizer, last_epoch=first.last_epoch, **_options(name))
        log = [rates(optimizer)]
        for epoch in range(6, 16):
            advance(second, epoch)
            log.append(rates(optimizer))
        logs.append(log)
    np.testing.assert_allclose(*logs, rtol=1e-11, atol=1e-15)


def _options(name: str) -> dict[str, Any]:
    """The options of a schedule of one class."""
    kept: dict[str, Any] = {}
    namespace = type("Library", (), {})
    namespace.optim = type("Optim", (), {})
    namespace.optim.lr_scheduler = type(
        "Schedules", (), {"__getattr__": lambda self, kind: lambda o, **options: kept.update(options)}
    )()
    SCHEDULES[name](namespace, None)
    return kept


def test_going_on_needs_the_first_rates(lib):
    with pytest.raises(KeyError, match="initial_lr"):
        lib.optim.lr_scheduler.StepLR(optimizer_of(lib), 3, last_epoch=4)


def test_functions_are_not_saved(lib):
    s = lib.optim.lr_scheduler.LambdaLR(optimizer_of(lib), [lambda epoch: 0.5, Decay(0.9)])
    state = s.state_dict()
    assert state["lr_lambdas"] == [None, {"rate": 0.9}]
    other = lib.optim.lr_scheduler.LambdaLR(optimizer_of(lib), [lambda epoch: 0.25, Decay(0.1)])
    other.load_state_dict(state)
    assert other.lr_lambdas[1].rate == 0.9
    assert other.lr_lambdas[0](0) == 0.25


# --- warnings and errors -----------------------------------------------------------------------------------------


def test_the_order_of_steps(lib):
    optimizer = optimizer_of(lib)
    scheduler = lib.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    with pytest.warns(UserWarning, match=r"`lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        scheduler.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scheduler.step()
        second = lib.optim.lr_scheduler.ExponentialLR(optimizer_of(lib), gamma=0.5)
        second.optimizer.step()
        second.step()


def test_a_step_that_was_overridden(lib):
    optimizer = optimizer_of(lib)
    scheduler = lib.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    optimizer.step = lambda: None
    optimizer.step()
    with pytest.warns(UserWarning, match="has been overridden after"):
        scheduler.step()


@pytest.mark.parametrize("kind", ["calls the old one", "method"])
def test_a_step_that_was_overridden_and_steps(lib, kind):
    optimizer = optimizer_of(lib)
    scheduler = lib.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    old = optimizer.step
    if kind == "method":
        optimizer.step = types.MethodType(type(optimizer).step, optimizer)
    else:
        optimizer.step = lambda: old()
    optimizer.step()
    with pytest.warns(UserWarning, match="has been overridden after") as caught:
        scheduler.step()
    assert "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate" in str(caught[0].message)


@pytest.mark.filterwarnings("error")
def test_a_step_that_is_no_override(lib):
    """One that was there before the schedule, and one that says what it wraps."""
    optimizer = optimizer_of(lib)
    optimizer.step = types.MethodType(type(optimizer).step, optimizer)
    scheduler = lib.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    old = optimizer.step
    optimizer.step = functools.wraps(old)(lambda: old())
    optimizer.step()
    scheduler.step()


def test_get_lr_is_for_steps(lib):
    scheduler = lib.optim.lr_scheduler.ExponentialLR(optimizer_of(lib), gamma=0.5)
    with pytest.warns(UserWarning, match="get_last_lr"):
        scheduler.get_lr()


def test_a_schedule_written_for_torch(lib):
    class Warmup(lib.optim.lr_scheduler.LRScheduler):
        def __init__(self, optimizer, steps, last_epoch=-1):
            self.steps = steps
            super().__init__(optimizer, last_epoch)

        def get_lr(self):
            if not self._get_lr_called_within_step:
                raise AssertionError
            return [lr * min(1.0, (self.last_epoch + 1) / self.steps) for lr in self.base_lrs]

    scheduler = Warmup(optimizer_of(lib), 4)
    seen = [scheduler.get_last_lr()[0]]
    for epoch in range(5):
        advance(scheduler, epoch)
        seen.append(scheduler.get_last_lr()[0])
    np.testing.assert_allclose(seen, [0.05, 0.1, 0.15, 0.2, 0.2, 0.2])


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (made("ConstantLR", factor=2.0), ValueError, "between 0 and 1"),
        (made("LinearLR", start_factor=0.0), ValueError, "greater than 0"),
        (made("LinearLR", end_factor=1.5), ValueError, "between 0 and 1"),
        (made("LambdaLR", lr_lambda=[lambda e: e]), ValueError, "lr_lambda"),
        (made("CosineAnnealingWarmRestarts", T_0=0), ValueError, "positive integer T_0"),
        (made("CosineAnnealingWarmRestarts", T_0=2, T_mult=0), ValueError, "T_mult >= 1"),
        (made("OneCycleLR", max_lr=1.0), ValueError, "total_steps OR"),
        (made("OneCycleLR", max_lr=1.0, total_steps=-1), ValueError, "positive integer total_steps"),
        (
            made("OneCycleLR", max_lr=1.0, epochs=2, steps_per_epoch=0.5),
            ValueError,
            "integer steps_per_epoch",
        ),
        (made("OneCycleLR", max_lr=1.0, total_steps=5, pct_start=2.0), ValueError, "pct_start"),
        (made("OneCycleLR", max_lr=1.0, total_steps=5, anneal_strategy="x"), ValueError, "anneal_strategy"),
        (made("OneCycleLR", max_lr=[1.0], total_steps=5), ValueError, "same length"),
        (made("ReduceLROnPlateau", factor=1.0), ValueError, "Factor should be"),
        (made("ReduceLROnPlateau", mode="x"), ValueError, "is unknown"),
        (made("ReduceLROnPlateau", threshold_mode="x"), ValueError, "is unknown"),
        (made("ReduceLROnPlateau", min_lr=[1.0]), ValueError, "min_lr"),
        (made("SequentialLR", schedulers=[], milestones=[]), ValueError, "at least one scheduler"),
        (lambda lib, o: made("StepLR", step_size=2)(lib, o.param_groups), TypeError, "is not an Optimizer"),
    ],
)
def test_bad_arguments(lib, make, kind, text):
    with pytest.raises(kind, match=text):
        make(lib, optimizer_of(lib))


def test_bad_combinations(lib):
    s = lib.optim.lr_scheduler
    o = optimizer_of(lib)
    step, plateau, foreign = s.StepLR(o, 2), s.ReduceLROnPlateau(o), s.StepLR(optimizer_of(lib), 2)
    for combine in (lambda x: s.ChainedScheduler([step, x]), lambda x: s.SequentialLR(o, [step, x], [2])):
        with pytest.raises(ValueError, match="does not support `ReduceLROnPlateau`"):
            combine(plateau)
        with pytest.raises(ValueError, match="belong to the same optimizer"):
            combine(foreign)
    with pytest.raises(ValueError, match="one more"):
        s.SequentialLR(o, [step, s.StepLR(o, 2)], [2, 3])


def test_one_cycle_ends(lib):
    scheduler = lib.optim.lr_scheduler.OneCycleLR(optimizer_of(lib), max_lr=1.0, total_steps=3)
    for epoch in range(3):
        advance(scheduler, epoch)
    with pytest.raises(ValueError, match="Tried to step 4 times"):
        scheduler.step()


def test_one_cycle_needs_momentum(lib):
    optimizer = lib.optim.Adagrad([lib.ones(1, requires_grad=True)])
    with pytest.raises(ValueError, match="must support momentum"):
        lib.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=3)


def test_groups_added_to_a_plateau(lib):
    for least in (0.0, [0.0, 0.0]):
        optimizer = optimizer_of(lib)
        scheduler = lib.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, min_lr=least)
        optimizer.add_param_group({"params": [lib.ones(3, requires_grad=True)], "lr": 1.0})
        scheduler.step(1.0)
        if least == 0.0:
            scheduler.step(lib.tensor(2.0))
            assert scheduler.get_last_lr()[2] == 0.1
        else:
            with pytest.raises(RuntimeError, match="The number of param groups"):
                scheduler.step(2.0)


ZEROS = {
    "step_size": lambda s, o: s.StepLR(o, step_size=0),
    "T_max": lambda s, o: s.CosineAnnealingLR(o, T_max=0),
    "div_factor": lambda s, o: s.OneCycleLR(o, 1.0, total_steps=3, cycle_momentum=False, div_factor=0),
    "final_div_factor": lambda s, o: s.OneCycleLR(
        o, 1.0, total_steps=3, cycle_momentum=False, final_div_factor=0.0
    ),
}


@pytest.mark.parametrize("argument", ZEROS)
def test_what_rates_are_divided_by(lib, argument):
    optimizer = lib.optim.SGD([lib.ones(1, requires_grad=True)], lr=0.1)
    with pytest.raises(ZeroDivisionError) as caught:  # noqa: PT012 - PyTorch notices later
        scheduler = ZEROS[argument](lib.optim.lr_scheduler, optimizer)
        optimizer.step()
        scheduler.step()
    assert lib.__name__ == "torch" or f"argument '{argument}' must not be 0" in str(caught.value)


def test_the_way_from_rate_to_rate_is_a_text(lib):
    optimizer = lib.optim.SGD([lib.ones(1, requires_grad=True)], lr=0.1)
    with pytest.raises(ValueError, match="anneal_strategy must be one of"):
        lib.optim.lr_scheduler.OneCycleLR(
            optimizer, 1.0, total_steps=3, cycle_momentum=False, anneal_strategy=[]
        )
