"""Tapes over GPUs that are none: they run as graphs, which what the host has to see or to do cuts."""

from __future__ import annotations

import threading

import pytest

import fastgrad as fg
from fastgrad.native.host.tape import record
from tests.cuda.steps import ONE_CALL, OPTIMIZERS, calls_of, check_one_call, settle
from tests.runtime.test_tape import hooked_step

pytestmark = pytest.mark.usefixtures("all_is_done", "no_graphs_are_left")


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_tape_is_one_call_and_equals_eager(driver, name):
    check_one_call(driver, 20, name)


def test_launches_of_the_host_and_copies_cut_a_tape(driver):
    x, host = fg.ones(4, device="cuda"), fg.zeros(4)
    with record() as tape:
        a = (x + 1) * 2
        host.copy_(a)
        host.add_(1)
        b = host.cuda().exp().log() + 1
    x.fill_(4)
    tape.replay()
    assert host.tolist() == [11] * 4
    assert b.tolist() == pytest.approx([12] * 4)
    x.fill_(1)
    calls = calls_of(driver, tape.replay)
    assert host.tolist() == [5] * 4
    assert calls == {
        "cuGraphLaunch": 2, "cuMemcpyDtoHAsync": 1, "cuMemcpyHtoDAsync": 1,
        "cuStreamSynchronize": 1,
    }  # fmt: skip


def test_tapes_of_two_gpus(driver):
    x, y = fg.ones(3, device="cuda:0"), fg.ones(3, device="cuda:1")
    with record() as tape:
        a = (x + 1) * 2
        b = (y + 2) * 3
        c = (x + 3) * 4
    x.fill_(2)
    y.fill_(2)
    tape.replay()
    assert calls_of(driver, tape.replay) == {"cuGraphLaunch": 3}
    assert (a.tolist(), b.tolist(), c.tolist()) == ([6] * 3, [12] * 3, [20] * 3)


def test_a_single_launch_is_no_graph(driver):
    x = fg.ones(3, device="cuda")
    with record() as tape:
        y = -x
    x.fill_(2)
    assert calls_of(driver, tape.replay) == {"cuLaunchKernel": 1}
    assert y.tolist() == [-2] * 3


def test_products_use_the_workspace_of_the_stream_where_they_run(driver):
    gpu, s = driver.gpus[0], fg.cuda.Stream()
    a = fg.ones(3, 3, device="cuda")
    with record() as tape:
        b = a @ a + 1
    fg.cuda.synchronize()
    with fg.cuda.stream(s):
        s_workspace = gpu._for_products(s.cuda_stream)["workspace"]
    usual = gpu.read("workspace")
    assert s_workspace != usual
    for within, workspace in ((None, usual), (s, s_workspace), (s, s_workspace), (None, usual)):
        driver.used.clear()
        with fg.cuda.stream(within):
            made = calls_of(driver, tape.replay).get("cuStreamBeginCapture", 0)
            assert driver.used == [workspace] * made
            assert b.tolist() == [[4] * 3] * 3
        fg.cuda.synchronize()
    with fg.cuda.stream(s):
        tape.replay()
        assert calls_of(driver, tape.replay) == ONE_CALL
        s.synchronize()


def test_a_graph_without_products_runs_on_any_stream(driver):
    s, x = fg.cuda.Stream(), fg.zeros(3, device="cuda")
    with record() as tape:
        x.add_(1)
        x.add_(1)
    tape.replay()
    fg.cuda.synchronize()
    with fg.cuda.stream(s):
        assert calls_of(driver, tape.replay) == ONE_CALL
        assert driver.waiting(s.cuda_stream) == 1
    s.synchronize()
    assert x.tolist() == [6] * 3


def test_a_tape_that_goes_while_it_is_under_way(driver):
    x = fg.zeros(3, device="cuda")
    with record() as tape:
        x.add_(1)
        x.add_(1)
    tape.replay()
    assert len(driver.executables) >= 1
    del tape  # the driver would say so
    assert x.tolist() == [4] * 3
    settle()


def test_random_numbers_go_on(driver):
    fg.manual_seed(9)
    wanted = [fg.rand(5, device="cuda").tolist() for _ in range(6)]
    fg.manual_seed(9)
    x = fg.zeros(5, device="cuda")
    with record() as tape:
        x.uniform_()
    seen = [x.tolist()]
    for _ in range(2):
        tape.replay()
        seen.append(x.tolist())
    seen.append(fg.rand(5, device="cuda").tolist())
    for _ in range(2):
        tape.replay()
        seen.append(x.tolist())
    assert seen == wanted
    fg.manual_seed(9)
    tape.replay()
    assert x.tolist() == wanted[0]


def test_generators_of_their_own_stay_as_they_were(driver):
    fg.manual_seed(0)
    own = fg.Generator("cuda").manual_seed(0)
    x, y = fg.zeros(5, device="cuda"), fg.zeros(5, device="cuda")
    with record() as tape:
        x.uniform_(generator=own)
        y.uniform_()
    first = x.tolist()
    assert y.tolist() == first
    tape.replay()
    assert x.tolist() == first
    assert y.tolist() != first


def test_a_tape_records_its_own_thread(driver):
    x = fg.zeros(3, device="cuda")
    with record() as tape:
        x.add_(1)
        thread = threading.Thread(target=lambda: (fg.ones(3, device="cuda") + 1).tolist())
        thread.start()
        thread.join()
        x.add_(1)
    assert tape.launches == 6


def test_hooks_cut_a_tape_at_their_nodes(driver):
    x, seen = fg.ones(1, device="cuda", requires_grad=True), []
    step = hooked_step(x, seen)
    with record(hooks=True) as tape:
        grad = step()
    for k in range(2, 5):
        with fg.no_grad():
            x.fill_(float(k))
        seen.clear()
        expected = step().tolist()
        wanted = list(seen)
        seen.clear()
        calls = calls_of(driver, tape.replay)
        assert seen == wanted
        assert [name for name, _ in seen] == ["pre", "post", "tensor", "leaf"]
        assert grad.tolist() == expected
    assert calls["cuGraphLaunch"] >= 1
    x.grad = None
