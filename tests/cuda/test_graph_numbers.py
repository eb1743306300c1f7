"""Random numbers in graphs over GPUs that are none: each replay draws those that eager calls would draw next."""

from __future__ import annotations

import gc

import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad.native.host.tape import record
from tests.cuda.steps import ONE_CALL, calls_of, eager, make_model

pytestmark = pytest.mark.usefixtures("all_is_done", "no_graphs_are_left")


def with_numbers(count):
    """What a replay of a graph asks of the driver that draws in so many launches."""
    return ONE_CALL | {"cuGraphExecKernelNodeSetParams": count}


@pytest.mark.parametrize("loss", ["mse", "classes"])
@pytest.mark.parametrize("graph", [False, True])
def test_a_step_with_dropout_is_one_launch_and_equals_eager(driver, loss, graph):
    losses, weights = eager(12, "adam", loss, 0.5)
    params, step = make_model("adam", loss, 0.5)
    seen = [step().item()]
    if graph:
        replayed = fg.cuda.CUDAGraph()
        with fg.cuda.graph(replayed):
            result = step()
    else:
        with record() as replayed:
            result = step()
        seen.append(result.item())
    for k in range(12 - len(seen)):
        calls = calls_of(driver, replayed.replay)
        assert k == 0 or calls == with_numbers(2)
        seen.append(result.item())
    assert seen == losses
    assert [q.tolist() for q in params] == weights
    del step, result


FILLS = {
    "rand": lambda: fg.rand(7, device="cuda"),
    "randn": lambda: fg.randn(5, dtype=fg.float64, device="cuda"),
    "randint": lambda: fg.randint(0, 1000, (6,), device="cuda"),
    "bernoulli": lambda: fg.bernoulli(fg.full((9,), 0.5, device="cuda")),
    "dropout": lambda: F.dropout(fg.ones(21, device="cuda"), 0.3),
    "randperm": lambda: fg.randperm(9, device="cuda"),
    "normal_": lambda: fg.empty(3, device="cuda").normal_(2, 5),
}


@pytest.mark.parametrize("name", FILLS)
def test_numbers_are_those_of_eager_calls(driver, name):
    fill = FILLS[name]
    fg.manual_seed(3)
    wanted = [(fill() * 1).tolist() for _ in range(4)]
    assert wanted[0] != wanted[1]
    g = fg.cuda.CUDAGraph()
    with fg.cuda.graph(g):
        x = fill() * 1
    fg.manual_seed(3)
    for k, numbers in enumerate(wanted):
        calls = calls_of(driver, g.replay)
        assert k == 0 or calls == with_numbers(1)
        assert x.tolist() == numbers
    fg.manual_seed(3)
    seen = []
    for k in range(4):  # eager calls and replays take turns
        if k % 2:
            seen.append((fill() * 1).tolist())
        else:
            g.replay()
            seen.append(x.tolist())
    assert seen == wanted


def test_replays_that_wait_keep_their_numbers(driver):
    fg.manual_seed(3)
    wanted = [fg.rand(4, device="cuda").tolist() for _ in range(3)]
    x, kept = fg.zeros(4, device="cuda"), [fg.zeros(4, device="cuda") for _ in range(3)]
    g = fg.cuda.CUDAGraph()
    with fg.cuda.graph(g):
        x.uniform_()
        y = x * 1
    fg.manual_seed(3)
    for to in kept:
        g.replay()
        to.copy_(y)
    assert driver.waiting(driver.gpus[0].stream) >= 6
    assert [t.tolist() for t in kept] == wanted


def test_two_generators_and_a_seed_within_a_capture(driver):
    own = fg.Generator("cuda").manual_seed(0)
    x, y, z = (fg.zeros(5, device="cuda") for _ in range(3))
    g = fg.cuda.CUDAGraph()
    with fg.cuda.graph(g):
        x.uniform_(generator=own)
        y.uniform_()
        z.add_(1)
    g.replay()
    first = x.tolist(), y.tolist()
    assert calls_of(driver, g.replay) == with_numbers(1)
    assert x.tolist() == first[0]
    assert y.tolist() != first[1]
    g = fg.cuda.CUDAGraph()
    with fg.cuda.graph(g):
        fg.cuda.manual_seed(77)
        y.uniform_()
        z.add_(1)
    fg.manual_seed(77)
    wanted = fg.rand(5, device="cuda").tolist()
    for _ in range(2):  # the seed was Python's affair: the numbers are those of the capture
        g.replay()
        assert y.tolist() == wanted


def test_products_are_made_again_and_numbers_go_on(driver):
    fg.manual_seed(1)
    a, s = fg.eye(3, device="cuda"), fg.cuda.Stream()
    wanted = [(fg.rand(3, 3, device="cuda") @ a).tolist() for _ in range(4)]
    g = fg.cuda.CUDAGraph()
    with fg.cuda.graph(g):
        x = fg.rand(3, 3, device="cuda") @ a
    fg.manual_seed(1)
    for numbers, on in zip(wanted, (None, s, None, s), strict=True):
        fg.cuda.synchronize()
        with fg.cuda.stream(on):
            g.replay()
            assert x.tolist() == numbers


def test_no_numbers_and_no_elements(driver):
    g, x = fg.cuda.CUDAGraph(), fg.zeros(3, device="cuda")
    with fg.cuda.graph(g):
        y = fg.rand(0, 4, device="cuda") * 2
        x.add_(1)
        x.add_(1)
    g.replay()
    assert calls_of(driver, g.replay) == ONE_CALL
    assert (x.tolist(), y.tolist()) == ([4] * 3, [])


@pytest.mark.parametrize("function", ["cuGraphExecKernelNodeSetParams", "cuStreamGetCaptureInfo"])
def test_what_the_driver_says(driver, function):
    g, x = fg.cuda.CUDAGraph(), fg.zeros(4, device="cuda")
    with fg.cuda.graph(g):
        x.uniform_()
        y = x * 1
    driver.says[function] = [1]
    with pytest.raises((RuntimeError, MemoryError), match=r"what the driver says of 1|no memory for a graph"):
        g.replay()
    fg.manual_seed(8)
    g.replay()
    fg.manual_seed(8)
    assert y.tolist() == fg.rand(4, device="cuda").tolist()


def test_the_captured_graph_goes_with_what_is_made_of_it(driver):
    x = fg.zeros(4, device="cuda")
    with record() as tape:
        x.uniform_()
        x.add_(1)
    tape.replay()
    assert driver.graphs
    del tape
    gc.collect()
    fg.cuda.synchronize()


@pytest.mark.parametrize("devices", [("cuda:0", "cuda:1"), ("cpu", "cuda:0")])
def test_each_device_has_its_own_numbers(driver, devices):
    def draw():
        return [fg.rand(4, device=d) * 1 for d in devices for _ in "ab"]

    fg.manual_seed(4)
    wanted = [[x.tolist() for x in draw()] for _ in range(3)]
    fg.manual_seed(4)
    with record() as tape:
        found = draw()
    assert [x.tolist() for x in found] == wanted[0]
    for numbers in wanted[1:]:
        tape.replay()
        assert [x.tolist() for x in found] == numbers
