"""Steps of optimizers, norms and clipping over lists of tensors on a GPU: their launches, and what comes of them."""

from __future__ import annotations

import numpy as np
import pytest

import fastgrad as fg
from fastgrad.native.host.tape import record

pytestmark = pytest.mark.usefixtures("all_is_done")

SIZES = ((0,), (1,), (3,), (100,), (4096,), (4097,), (130, 70))
SMALL = ((0,), (1,), (3,), (100,), (4096,))

OPTIMIZERS = {  # and how often a step over tensors of several chunks launches: those whose numbers count do so before
    "sgd": (lambda p: fg.optim.SGD(p, lr=0.1), 1),
    "momentum": (lambda p: fg.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1), 1),
    "adam": (lambda p: fg.optim.Adam(p, lr=0.1), 2),
    "amsgrad": (lambda p: fg.optim.AdamW(p, lr=0.1, amsgrad=True, maximize=True), 2),
    "rmsprop": (lambda p: fg.optim.RMSprop(p, lr=0.1, centered=True, momentum=0.5), 1),
    "adagrad": (lambda p: fg.optim.Adagrad(p, lr=0.1, lr_decay=0.1), 2),
    "adadelta": (lambda p: fg.optim.Adadelta(p, lr=0.1), 1),
    "adamax": (lambda p: fg.optim.Adamax(p, lr=0.1), 2),
    "nadam": (lambda p: fg.optim.NAdam(p, lr=0.1), 2),
    "radam": (lambda p: fg.optim.RAdam(p, lr=0.1), 2),
    "rprop": (lambda p: fg.optim.Rprop(p, lr=0.1), 1),
    "asgd": (lambda p: fg.optim.ASGD(p, lr=0.1), 2),
}


def parameters(sizes, device="cuda", dtype=fg.float32, seed=0):
    rng = np.random.default_rng(seed)
    made = []
    for shape in sizes:
        p = fg.tensor(rng.standard_normal(shape), dtype=dtype).to(device).requires_grad_()
        p.grad = fg.tensor(rng.standard_normal(shape), dtype=dtype).to(device)
        made.append(p)
    return made


def launches_of(driver, step) -> list[str]:
    before = len(driver.launched)
    step()
    return driver.launched[before:]


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("dtype", [fg.float32, fg.float64])
def test_a_step_over_many_tensors_is_a_launch_and_equals_the_cpus(driver, name, dtype):
    make, count = OPTIMIZERS[name]
    here, there = parameters(SIZES, "cpu", dtype), parameters(SIZES, "cuda", dtype)
    ours, theirs = make(there), make(here)
    for _ in range(3):
        ours.step()
        theirs.step()
    found = launches_of(driver, ours.step)
    theirs.step()
    assert len(found) == count, found
    for a, b in zip(here, there, strict=True):
        assert fg.equal(a.detach(), b.detach().cpu())
    for a, b in zip(theirs.state.values(), ours.state.values(), strict=True):
        assert all(fg.equal(a[key], b[key].cpu()) for key in a)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_tensors_of_a_chunk_each_count_by_themselves(driver, name):
    optimizer = OPTIMIZERS[name][0](parameters(SMALL))
    optimizer.step()
    assert len(launches_of(driver, optimizer.step)) == (
        2 if name == "asgd" else 1
    )  # rates are a step of their own


def test_a_launch_takes_so_many_tensors_and_all_of_one_kind(driver):
    sizes = [(k % 4 + 1,) for k in range(150)]
    params = parameters(sizes)
    optimizer = fg.optim.Adam(params, lr=0.1)
    optimizer.step()
    assert launches_of(driver, optimizer.step) == ["adam_step"] * 3  # of up to 61
    mixed = parameters([(3,), (4,)]) + parameters([(5,)], dtype=fg.float64)
    assert launches_of(driver, fg.optim.SGD(mixed, lr=0.1).step) == ["sgd_step"] * 2


def test_groups_with_other_options_are_launches_of_their_own(driver):
    a, b, c = parameters([(3,), (4,), (5,)])
    optimizer = fg.optim.SGD([{"params": [a, b]}, {"params": [c], "lr": 0.5}], lr=0.1)
    assert len(launches_of(driver, optimizer.step)) == 2


def test_tensors_that_lie_otherwise_go_alone_and_those_of_one_memory_one_after_the_other(driver):
    a, b = parameters([(6, 5), (6, 5)])
    a.grad = fg.ones(5, 6, device="cuda").t() * a.grad
    optimizer = fg.optim.SGD([a, b], lr=0.1)
    wanted = [(p - 0.1 * p.grad).tolist() for p in (a, b)]
    optimizer.step()
    for p, values in zip((a, b), wanted, strict=True):
        np.testing.assert_allclose(p.tolist(), values, 1e-6)
    whole = fg.ones(8, device="cuda")
    parts = [whole[:4].requires_grad_(), whole[2:6].requires_grad_()]
    for p in parts:
        p.grad = fg.ones(4, device="cuda")
    assert len(launches_of(driver, fg.optim.SGD(parts, lr=1.0).step)) == 2
    assert whole.tolist() == [0, 0, -1, -1, 0, 0, 1, 1]


@pytest.mark.parametrize("name", ["adam", "nadam", "rmsprop", "asgd"])
@pytest.mark.parametrize("graph", [True, False])
def test_replays_of_a_step_are_steps(driver, name, graph):
    make, _ = OPTIMIZERS[name]
    there, expected = parameters(SIZES), parameters(SIZES)
    ours, eager = make(there), make(expected)
    ours.step()
    if graph:
        captured = fg.cuda.CUDAGraph()
        with fg.cuda.graph(captured):
            ours.step()
        captured.replay()
        captured.replay()
    else:
        with record() as tape:
            ours.step()
        assert tape.launches == 1 + (name == "asgd")
        tape.replay()
    for _ in range(3):
        eager.step()
    for a, b in zip(expected, there, strict=True):
        assert fg.equal(a.detach(), b.detach())
    for a, b in zip(eager.state.values(), ours.state.values(), strict=True):
        assert all(fg.equal(a[key], b[key]) for key in a)


@pytest.mark.parametrize("order", [2.0, 1.0, float("inf"), -float("inf"), 0.0, 3.0])
def test_a_norm_of_many_and_clipping_by_it(driver, order):
    here, there = parameters(SIZES, "cpu"), parameters(SIZES)
    found = launches_of(driver, lambda: fg.nn.utils.get_total_norm([p.grad for p in there], order))
    assert found.count("norm_part") == 2
    total = fg.nn.utils.clip_grad_norm_(there, 0.5, order)
    expected = fg.nn.utils.clip_grad_norm_(here, 0.5, order)
    np.testing.assert_allclose(total.item(), expected.item(), 1e-6)
    for a, b in zip(here, there, strict=True):
        np.testing.assert_allclose(b.grad.tolist(), a.grad.tolist(), 1e-5)
    found = launches_of(driver, lambda: fg.nn.utils.clip_grads_with_norm_(there, 0.1, total))
    assert found.count("scale") == 1
    assert launches_of(driver, lambda: fg.nn.utils.clip_grad_value_(there, 0.01)) == ["clip"]


@pytest.mark.parametrize("dtype", [fg.float32, fg.float64, fg.bfloat16])
def test_undoing_the_scale_of_losses_is_a_launch_over_many_tensors(driver, dtype):
    here, there = parameters(SIZES, "cpu", dtype), parameters(SIZES, "cuda", dtype)
    scalers = [fg.amp.GradScaler(device, init_scale=3.0) for device in ("cpu", "cuda")]
    ours, theirs = (fg.optim.SGD(p, lr=0.0) for p in (there, here))
    scalers[0].unscale_(theirs)
    found = launches_of(driver, lambda: scalers[1].unscale_(ours))
    assert found.count("unscale") == 1
    assert len(found) <= 2  # the other one writes the 0 that flags begin with
    for a, b in zip(here, there, strict=True):
        assert fg.equal(a.grad, b.grad.cpu())
    for scaler, optimizer in zip(scalers, (theirs, ours), strict=True):
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == 3.0
        optimizer.param_groups[0]["params"][-1].grad[129, 69] = float("nan")
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == 1.5


def test_gradients_that_lie_in_one_memory_are_divided_one_after_the_other(driver):
    for device in ("cpu", "cuda"):
        a, b = parameters([(4,), (4,)], device)
        a.grad = b.grad = fg.ones(4, device=device)
        fg.amp.GradScaler(device, init_scale=2.0).unscale_(fg.optim.SGD([a, b], lr=1.0))
        assert a.grad.tolist() == [0.25] * 4  # once for each parameter, as in PyTorch


def test_norms_of_lists_in_a_graph(driver):
    there = parameters(SIZES)
    grads = [p.grad for p in there]
    captured = fg.cuda.CUDAGraph()
    with fg.cuda.graph(captured):
        total = fg.nn.utils.get_total_norm(grads)
    for factor in (2.0, 3.0):
        for g in grads:
            g.mul_(factor)
        captured.replay()
        np.testing.assert_allclose(total.item(), fg.nn.utils.get_total_norm(grads).item(), 1e-6)


def test_a_failed_launch_is_raised_and_the_next_step_runs(driver):
    params = parameters([(3,)] * 70)
    optimizer = fg.optim.Adam(params, lr=0.1)
    optimizer.step()
    driver.says["cuLaunchKernel"] = [1]
    with pytest.raises(RuntimeError, match="adam_step"):
        optimizer.step()
    assert {state["step"].item() for state in optimizer.state.values()} == {1.0}
    optimizer.step()
    assert {state["step"].item() for state in optimizer.state.values()} == {2.0}
