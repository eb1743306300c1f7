"""Copies that nobody waits for, over GPUs that are none: to and from locked memory, in graphs, between GPUs."""

from __future__ import annotations

import gc

import pytest

import fastgrad as fg
from fastgrad.cuda import pinned
from fastgrad.native.build.loader import rt
from fastgrad.native.host.tape import record
from tests.cuda.steps import ONE_CALL, calls_of

pytestmark = pytest.mark.usefixtures("all_is_done", "no_graphs_are_left")
FRESH = fg.tensor([1.0, 2.0, 3.0])


def gpu_tensor(device="cuda"):
    return fg.arange(12.0, device=device).reshape(3, 4)


# --- to the host -----------------------------------------------------------------------------------------------


SOURCES = {
    "as it lies": lambda x: x,
    "transposed": lambda x: x.t(),
    "with gaps": lambda x: x[:, ::2],
    "one element": lambda x: x[1, 2],
    "broadcast": lambda x: x[:1].expand(3, 4),
    "empty": lambda x: x[:0],
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_copy_to_the_host_waits_for_nothing(driver, name):
    x = SOURCES[name](gpu_tensor() + 100 * (1 + list(SOURCES).index(name)))
    wanted = x.tolist()
    calls = calls_of(driver, lambda: x.to("cpu", non_blocking=True))
    assert "cuStreamSynchronize" not in calls
    y = x.to("cpu", non_blocking=True)
    assert y.is_pinned()
    if y.numel():
        assert y.tolist() != wanted  # it is on its way
    fg.cuda.synchronize()
    assert y.tolist() == wanted
    assert (y.shape, y.dtype) == (x.shape, x.dtype)


@pytest.mark.parametrize("to", [
    {"dtype": fg.float64}, {"dtype": fg.int64}, {"memory_format": fg.channels_last},
    {"dtype": fg.float16, "memory_format": fg.contiguous_format}, {"copy": True},
])  # fmt: skip
def test_a_copy_to_the_host_that_is_converted(driver, to):
    x = fg.rand(2, 3, 4, 5, device="cuda") * 10
    wanted = x.to("cpu", **to)
    y = x.to("cpu", non_blocking=True, **to)
    fg.cuda.synchronize()
    assert y.dtype == wanted.dtype
    assert y.stride() == wanted.stride()
    assert y.tolist() == wanted.tolist()


def test_gradients_of_copies_that_nobody_waits_for(driver):
    x = gpu_tensor().requires_grad_()
    y = (x * 2).to("cpu", non_blocking=True)
    fg.cuda.synchronize()
    (y * y).sum().backward()
    assert x.grad.tolist() == (gpu_tensor() * 8).tolist()
    p = fg.ones(3).pin_memory().requires_grad_()
    (p.to("cuda", non_blocking=True) * 3).sum().backward()
    assert p.grad.tolist() == [3] * 3  # a gradient of the host's is there


def test_copies_into_locked_memory(driver):
    p, x = fg.zeros(3, 4).pin_memory(), gpu_tensor()
    for source, wanted in (
        (x, x), (x.double(), x), (x[0], x[:1].expand(3, 4)), (x.t().contiguous().t(), x), (x.to(fg.int64), x),
    ):  # fmt: skip
        wanted, version = wanted.tolist(), p._version
        p.fill_(-1)
        assert "cuStreamSynchronize" not in calls_of(driver, lambda s=source: p.copy_(s, non_blocking=True))
        assert p.copy_(source, non_blocking=True) is p
        assert p._version == version + 3
        fg.cuda.synchronize()
        assert p.tolist() == wanted
    part = p[:, 1:3]  # it has gaps, so that the host copies
    part.copy_(x[:, :2] + 50, non_blocking=True)
    assert p[:, 1:3].tolist() == (x[:, :2] + 50).tolist()
    with pytest.raises(RuntimeError, match=r"size|shape|broadcast"):
        p.copy_(fg.ones(5, device="cuda"), non_blocking=True)
    with pytest.raises(TypeError, match="non_blocking"):
        p.copy_(x, non_blocking="yes")


def test_copies_into_memory_that_may_move_are_done(driver):
    host, x = fg.zeros(3, 4), gpu_tensor()
    host.copy_(x, non_blocking=True)
    assert host.tolist() == x.tolist()


def test_copies_with_history_are_done(driver):
    p, x = fg.zeros(3, 4).pin_memory(), gpu_tensor().requires_grad_()
    p.copy_(x, non_blocking=True)
    assert p.tolist() == x.tolist()
    (p * 2).sum().backward()
    assert x.grad.tolist() == [[2] * 4] * 3


def test_memory_on_its_way_is_not_given_out_again(driver):
    x = fg.ones(1000, device="cuda")
    y = x.to("cpu", non_blocking=True)
    address = y.data_ptr()
    del y
    gc.collect()
    others = [fg.zeros(1000).pin_memory() for _ in range(3)]
    assert address not in [o.data_ptr() for o in others]
    fg.cuda.synchronize()
    assert all(o.tolist() == [0] * 1000 for o in others)
    again = [fg.zeros(1000).pin_memory() for _ in range(3)]
    assert address in [o.data_ptr() for o in again]


def test_copies_are_in_order_with_their_stream(driver):
    s, x = fg.cuda.Stream(), fg.zeros(3, device="cuda")
    fg.cuda.synchronize()
    with fg.cuda.stream(s):
        x.fill_(1)
        first = x.to("cpu", non_blocking=True)
        x.fill_(2)
        second = x.to("cpu", non_blocking=True)
        s.synchronize()
    assert (first.tolist(), second.tolist()) == ([1] * 3, [2] * 3)


def test_locked_memory_is_found_by_any_address_in_it(driver):
    kept = [fg.zeros(200).pin_memory() for _ in range(20)]
    assert all(k[150:].is_pinned() for k in kept)
    assert not fg.zeros(200).is_pinned()
    del kept
    pinned.empty_cache()
    assert not fg.zeros(200).is_pinned()
    assert fg.zeros(200).pin_memory()[199:].is_pinned()


def test_the_entry_checks_what_it_gets(driver):
    p, x = fg.zeros(3, 4).pin_memory(), gpu_tensor()
    for out, source in (
        (p, p),
        (x, x),
        (p, x.t()),
        (p, x.double()),
        (p, x[:2]),
        (p.t(), x),
        (p[:, :2], x[:, :2]),
    ):
        with pytest.raises((RuntimeError, TypeError)):
            rt.queue_copy(out, source)


# --- in graphs -------------------------------------------------------------------------------------------------


def test_copies_of_locked_memory_are_nodes_of_a_graph(driver):
    p, out, x = FRESH.pin_memory(), fg.zeros(3).pin_memory(), fg.zeros(3, device="cuda")
    g = fg.cuda.CUDAGraph()
    with fg.cuda.graph(g):
        x.copy_(p, non_blocking=True)
        y = p.to("cuda", non_blocking=True) * 2 + x
        out.copy_(y, non_blocking=True)
        made = (y + 1).to("cpu", non_blocking=True)
    for k in range(3):
        p.fill_(k)
        calls = calls_of(driver, g.replay)
        assert k == 0 or calls == ONE_CALL
        fg.cuda.synchronize()
        assert (x.tolist(), out.tolist(), made.tolist()) == ([k] * 3, [3 * k] * 3, [3 * k + 1] * 3)


@pytest.mark.parametrize("name", ["to the host", "from the host", "to", "from"])
def test_copies_that_wait_are_refused_in_a_capture(driver, name):
    p, host, x = FRESH.pin_memory(), fg.zeros(3), fg.zeros(3, device="cuda")
    copy = {
        "to the host": lambda: p.copy_(x),
        "from the host": lambda: x.copy_(p),
        "to": lambda: host.copy_(x, non_blocking=True),
        "from": lambda: x.copy_(host, non_blocking=True),
    }[name]
    g = fg.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="when a stream is capturing"), fg.cuda.graph(g):
        copy()


def test_a_graph_keeps_the_locked_memory_that_it_reads(driver):
    x, g = fg.zeros(3, device="cuda"), fg.cuda.CUDAGraph()
    p = FRESH.pin_memory()
    with fg.cuda.graph(g):
        x.copy_(p, non_blocking=True)
        x.add_(1)
    address = p.data_ptr()
    del p
    gc.collect()
    others = [fg.zeros(3).pin_memory() for _ in range(4)]
    assert address not in [o.data_ptr() for o in others]
    g.replay()
    assert x.tolist() == [2, 3, 4]
    g.reset()
    fg.cuda.synchronize()
    others += [fg.zeros(3).pin_memory() for _ in range(4)]
    assert address in [o.data_ptr() for o in others]


def test_copies_of_locked_memory_do_not_cut_a_tape(driver):
    p, out, x = FRESH.pin_memory(), fg.zeros(3).pin_memory(), fg.zeros(3, device="cuda")
    with record() as tape:
        x.copy_(p, non_blocking=True)
        x.mul_(2)
        out.copy_(x, non_blocking=True)
    fg.cuda.synchronize()
    p.fill_(5)
    tape.replay()
    p.fill_(7)
    assert calls_of(driver, tape.replay) == ONE_CALL
    fg.cuda.synchronize()
    assert out.tolist() == [14] * 3


# --- between GPUs ----------------------------------------------------------------------------------------------


def test_a_copy_between_gpus_goes_directly(driver):
    x = gpu_tensor("cuda:0")
    x.to("cuda:1")
    calls = calls_of(driver, lambda: x.to("cuda:1"))
    assert calls["cuMemcpyPeerAsync"] == 1
    assert not set(calls) & {"cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync", "cuStreamSynchronize"}
    assert driver.calls["cuCtxEnablePeerAccess"] >= 1
    y = x.to("cuda:1")
    assert y.device == fg.device("cuda:1")
    assert y.tolist() == x.tolist()
    for back in (y.t().to("cuda:0"), y[:, 1:].cuda(0), y.double().to("cuda:0", fg.int64)):
        assert back.device == fg.device("cuda:0")
    assert y.t().to("cuda:0").tolist() == x.t().tolist()
    assert fg.zeros(3, 4, device="cuda:0").copy_(y[0]).tolist() == [[0, 1, 2, 3]] * 3


def test_copies_between_gpus_are_ordered_with_both_streams(driver):
    a, b = (fg.cuda.Stream(f"cuda:{k}") for k in range(2))
    x, y = fg.zeros(3, device="cuda:0"), fg.zeros(3, device="cuda:1")
    for k in range(2):
        fg.cuda.synchronize(k)
    with fg.cuda.stream(a), fg.cuda.stream(b):
        x.fill_(1)
        y.fill_(9)
        kept = y * 1  # before the copy writes there
        y.copy_(x)
        z = y + 1
        x.fill_(5)  # after the copy has read it
        w = y + z
        driver.work(b.cuda_stream)
        assert driver.waiting(a.cuda_stream)  # the last of it
        assert (kept.tolist(), z.tolist(), w.tolist(), x.tolist()) == ([9] * 3, [2] * 3, [3] * 3, [5] * 3)
    del kept, z, w


def test_gradients_between_gpus(driver):
    x = gpu_tensor("cuda:0").requires_grad_()
    (x.to("cuda:1") * 3).sum().backward()
    assert x.grad.device == fg.device("cuda:0")
    assert x.grad.tolist() == [[3] * 4] * 3


def test_a_tape_over_two_gpus_copies_between_them(driver):
    x = gpu_tensor("cuda:0")
    with record() as tape:
        y = ((x + 1) * 2).to("cuda:1") + 1
    x.fill_(1)
    tape.replay()
    x.fill_(2)
    calls = calls_of(driver, tape.replay)
    assert calls["cuMemcpyPeerAsync"] == 1
    assert y.tolist() == [[7] * 4] * 3


@pytest.mark.parametrize("captured", ["cuda:0", "cuda:1"])
def test_a_capture_refuses_copies_between_gpus(driver, captured):
    x = gpu_tensor("cuda:0")
    g = fg.cuda.CUDAGraph()
    with (
        fg.cuda.device(captured),
        pytest.raises(RuntimeError, match="when a stream is capturing"),
        fg.cuda.graph(g),
    ):
        x.to("cuda:1")
    assert x.to("cuda:1").tolist() == x.tolist()


@pytest.mark.parametrize("function", ["cuMemcpyPeerAsync", "cuStreamWaitEvent", "cuEventRecord"])
def test_what_the_driver_says_of_a_copy_between_gpus(driver, function):
    x = gpu_tensor("cuda:0")
    x.to("cuda:1")
    driver.says[function] = [1]
    with pytest.raises(RuntimeError, match="what the driver says of 1"):
        x.to("cuda:1")
    assert x.to("cuda:1").tolist() == x.tolist()


def test_gpus_that_cannot_reach_each_other_leave_it_to_the_driver(driver):
    gpu = driver.gpus[1]
    for code in (704, 711):
        driver.says["cuCtxEnablePeerAccess"] = [code]
        gpu._open_to_peers()
    driver.says["cuCtxEnablePeerAccess"] = [1]
    with pytest.raises(RuntimeError, match="what the driver says of 1"):
        gpu._open_to_peers()
