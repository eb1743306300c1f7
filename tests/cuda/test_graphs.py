"""`CUDAGraph` over GPUs that are none: what a capture does, what a replay computes, and their memory."""

from __future__ import annotations

import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from tests.cuda.steps import ONE_CALL, OPTIMIZERS, calls_of, eager, make_model

pytestmark = pytest.mark.usefixtures("all_is_done", "no_graphs_are_left")


# --- CUDAGraph -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize(("loss", "p"), [("mse", 0.0), ("classes", 0.5)])
def test_a_captured_step_equals_eager(driver, name, loss, p):
    losses, weights = eager(21, name, loss, p)
    params, step = make_model(name, loss, p)
    seen = [step().item()]
    g = fg.cuda.CUDAGraph()
    launched = len(driver.launched)
    with fg.cuda.graph(g):
        result = step()
    assert len(driver.launched) == launched  # nothing ran
    for k in range(20):
        calls = calls_of(driver, g.replay)
        assert k == 0 or loss != "mse" or calls == ONE_CALL
        seen.append(result.item())
    assert seen == losses
    assert [q.tolist() for q in params] == weights
    del step, result


def test_capture_begin_and_end(driver):
    g, s = fg.cuda.CUDAGraph(), fg.cuda.Stream()
    x = fg.ones(3, device="cuda")
    assert not fg.cuda.is_current_stream_capturing()
    with fg.cuda.stream(s):
        g.capture_begin()
        assert fg.cuda.is_current_stream_capturing()
        y = x * 2 + 1
        g.capture_end()
        assert not fg.cuda.is_current_stream_capturing()
    for k in range(3):
        x.fill_(k)
        g.replay()
        assert y.tolist() == [2 * k + 1] * 3
    assert g.instantiate() is None
    assert g.enable_debug_mode() is None
    assert repr(g) == "<fastgrad.cuda.CUDAGraph 4 launches>"


def test_launches_of_the_host_run_and_are_not_captured(driver):
    g, x, host = fg.cuda.CUDAGraph(), fg.ones(3, device="cuda"), fg.zeros(2)
    with fg.cuda.graph(g):
        host.add_(1)
        y = x + 1
        other = fg.ones(2, device="cuda:1") + 1
    g.replay()
    assert host.tolist() == [1, 1]
    assert y.tolist() == [2] * 3
    assert other.tolist() == [2, 2]


def test_streams_within_a_capture_run_in_order(driver):
    g, s, x = fg.cuda.CUDAGraph(), fg.cuda.Stream(), fg.ones(3, device="cuda")
    with fg.cuda.graph(g):
        here = fg.cuda.current_stream()
        y = x + 1
        s.wait_stream(here)
        with fg.cuda.stream(s):
            z = y * 3
            event = s.record_event()
        with fg.cuda.stream(fg.cuda.default_stream()):
            assert fg.cuda.is_current_stream_capturing()
        event.wait(here)
        w = z + y
    x.fill_(4)
    g.replay()
    assert w.tolist() == [20] * 3
    for call in (event.query, event.synchronize, event.wait):
        with pytest.raises(RuntimeError, match="last recorded in a capturing stream"):
            call()
    event.record()
    event.synchronize()
    assert event.query()


def test_numbers_of_the_host_go_along(driver):
    g, x = fg.cuda.CUDAGraph(), fg.ones(3, device="cuda", requires_grad=True)
    number, count = fg.tensor(3.0), fg.tensor(2)
    with fg.cuda.graph(g):
        y = x * number + count
        z = F.gelu(F.silu(y)).softmax(0)
        z.log().sum().backward()
    number.fill_(7)
    wanted = fg.ones(3, device="cuda", requires_grad=True)
    F.gelu(F.silu(wanted * 3.0 + 2)).softmax(0).log().sum().backward()
    g.replay()
    assert y.tolist() == [5] * 3
    assert x.grad.tolist() == wanted.grad.tolist()
    x.grad = None
    del y, z


def test_an_empty_graph(driver):
    g = fg.cuda.CUDAGraph()
    with fg.cuda.graph(g):
        pass
    g.replay()
    g.reset()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        g.replay()


def test_a_stream_that_is_given(driver):
    g, s, x = fg.cuda.CUDAGraph(), fg.cuda.Stream(), fg.ones(3, device="cuda")
    with fg.cuda.graph(g, stream=s, capture_error_mode="thread_local"):
        assert fg.cuda.current_stream() == s
        y = x + 1
    with fg.cuda.stream(s):
        s.wait_stream(fg.cuda.default_stream())
        g.replay()
        assert y.tolist() == [2] * 3


# --- memory ----------------------------------------------------------------------------------------------------


def test_memory_of_a_graph_is_its_own(driver):
    fg.cuda.empty_cache()
    x = fg.ones(1000, device="cuda")
    before = fg.cuda.memory_stats()
    g = fg.cuda.CUDAGraph()
    with fg.cuda.graph(g):
        y = ((x + 1) * 2).exp().log() + 1
    inside = fg.cuda.memory_stats()
    assert inside["active.all.current"] == before["active.all.current"] + 1
    assert inside["reserved_bytes.all.current"] == before["reserved_bytes.all.current"] + (2 << 20)
    fg.cuda.empty_cache()
    assert fg.cuda.memory_reserved() == inside["reserved_bytes.all.current"]
    outside = [fg.zeros(1000, device="cuda") for _ in range(20)]
    x.fill_(2)
    g.replay()
    assert y.tolist() == pytest.approx([7] * 1000)
    assert all(z.tolist() == [0] * 1000 for z in outside)
    del y
    others = [fg.zeros(1000, device="cuda") for _ in range(20)]
    g.replay()
    assert all(z.tolist() == [0] * 1000 for z in others + outside)
    del outside, others
    g.reset()
    fg.cuda.synchronize()
    fg.cuda.empty_cache()
    assert fg.cuda.memory_reserved() == before["reserved_bytes.all.current"]
    assert fg.cuda.memory_allocated() == before["allocated_bytes.all.current"]


def test_memory_that_is_freed_in_a_capture_is_used_again_there(driver):
    g, x = fg.cuda.CUDAGraph(), fg.ones(1000, device="cuda")
    with fg.cuda.graph(g):
        y = x + 1
        first = y.data_ptr()
        z = y * 2
        del y
        w = z + 1
    assert w.data_ptr() == first
    g.replay()
    assert w.tolist() == [5] * 1000


def test_tensors_outlive_their_graph(driver):
    g, x = fg.cuda.CUDAGraph(), fg.ones(1000, device="cuda")
    with fg.cuda.graph(g):
        y = x + 1
    g.replay()
    del g
    fg.cuda.synchronize()
    fg.cuda.empty_cache()
    others = [fg.zeros(1000, device="cuda") for _ in range(20)]
    assert y.tolist() == [2] * 1000
    del others


def test_graphs_that_share_a_pool(driver):
    x, pool = fg.ones(1000, device="cuda"), fg.cuda.graph_pool_handle()
    first, second, third = (fg.cuda.CUDAGraph() for _ in range(3))
    with fg.cuda.graph(first, pool=pool):
        y = x + 1
    reserved = fg.cuda.memory_reserved()
    with fg.cuda.graph(second, pool=first.pool()):
        z = y * 2
    with fg.cuda.graph(third, first):
        w = z * 2
    assert fg.cuda.memory_reserved() == reserved
    assert first.pool() == second.pool() == pool
    del first
    fg.cuda.empty_cache()
    second.replay()
    fg.cuda.synchronize()
    x.fill_(3)
    third.replay()
    assert w.shape == (1000,)
    for g in (second, third):
        g.reset()


def test_pools_come_and_go(driver):
    x = fg.ones(10, device="cuda")
    fg.cuda.synchronize()
    for _ in range(5):
        g = fg.cuda.CUDAGraph()
        with fg.cuda.graph(g):
            y = x + 1
        g.replay()
        del y
        g.reset()
        fg.cuda.synchronize()
        fg.cuda.empty_cache()
        arenas = len(driver.gpus[0]._retired)
    assert arenas == len(driver.gpus[0]._retired)
    before = fg.cuda.memory_reserved()
    g = fg.cuda.CUDAGraph()
    with fg.cuda.graph(g):
        y = x + 1
    assert len(driver.gpus[0]._retired) == arenas - 1
    del y, g
    fg.cuda.synchronize()
    fg.cuda.empty_cache()
    assert fg.cuda.memory_reserved() == before


def test_no_memory_in_a_capture(driver):
    fg.cuda.empty_cache()
    g, x = fg.cuda.CUDAGraph(), fg.ones(10, device="cuda")
    reserved = fg.cuda.memory_reserved()
    with pytest.raises(fg.cuda.OutOfMemoryError), fg.cuda.graph(g):
        y = (x + 1, fg.empty(1 << 40, device="cuda", dtype=fg.uint8))
    assert not fg.cuda.is_current_stream_capturing()
    assert (x + 1).tolist() == [2] * 10
    y = None
    fg.cuda.empty_cache()
    assert fg.cuda.memory_reserved() == reserved
    with fg.cuda.graph(g):
        y = x + 2
    g.replay()
    assert y.tolist() == [3] * 10


def test_no_memory_when_a_graph_is_made(driver):
    g, x = fg.cuda.CUDAGraph(), fg.ones(10, device="cuda")
    with fg.cuda.graph(g):
        y = x + 1
        z = y + 1
    driver.says["cuGraphInstantiateWithFlags"] = [2]
    with pytest.raises(fg.cuda.OutOfMemoryError):
        g.replay()
    g.replay()
    assert z.tolist() == [3] * 10


def test_memory_of_graphs_that_are_gone_is_waited_for_before_there_is_none(driver):
    fg.cuda.empty_cache()
    g, s, x = fg.cuda.CUDAGraph(), fg.cuda.Stream(), fg.ones(1, device="cuda")
    with fg.cuda.graph(g):
        y = x.expand(60 << 20) * 2  # 240 MiB of the 512
        z = y[:3] + 1
    fg.cuda.synchronize()
    spare = fg.cuda.mem_get_info()[0] - (100 << 20)
    filler = fg.empty(max(spare, 0), dtype=fg.uint8, device="cuda")
    with fg.cuda.stream(s):
        g.replay()
        kept = z * 1
    del y, z
    g.reset()
    assert driver.waiting(s.cuda_stream)
    big = fg.empty(240 << 20, dtype=fg.uint8, device="cuda")
    assert not driver.waiting(s.cuda_stream)
    with pytest.raises(fg.cuda.OutOfMemoryError):
        fg.empty(240 << 20, dtype=fg.uint8, device="cuda")
    with fg.cuda.stream(s):
        assert kept.tolist() == [3] * 3
        del kept
    del big, filler


def test_a_pool_whose_graphs_come_again_before_it_was_given_back(driver):
    fg.cuda.empty_cache()
    pool, s, x = fg.cuda.graph_pool_handle(), fg.cuda.Stream(), fg.ones(3, device="cuda")
    g = fg.cuda.CUDAGraph()
    with fg.cuda.graph(g, pool=pool):
        y = x + 1
        y = y + 1
    fg.cuda.synchronize()
    with fg.cuda.stream(s):
        g.replay()
    g.reset()
    g = fg.cuda.CUDAGraph()
    with fg.cuda.graph(g, pool=pool):
        z = x + 2
        z = z + 2
    del y
    with pytest.raises(fg.cuda.OutOfMemoryError):
        fg.empty(1 << 40, dtype=fg.uint8, device="cuda")
    others = [fg.zeros(3, device="cuda") for _ in range(5)]
    g.replay()
    assert z.tolist() == [5] * 3
    assert all(o.tolist() == [0] * 3 for o in others)
