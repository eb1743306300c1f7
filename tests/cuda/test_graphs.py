"""Captured graphs over GPUs that are none: tapes that run as graphs, `CUDAGraph`, its memory, and what may go wrong."""

from __future__ import annotations

import copy
import gc
import itertools
import pickle
import threading

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad.native.host.tape import record
from tests.cuda.apart import ends
from tests.cuda.fake_driver import ILLEGAL_ADDRESS

pytestmark = pytest.mark.usefixtures("all_is_done", "no_graphs_are_left")

OPTIMIZERS = {
    "sgd": lambda p: fg.optim.SGD(p, lr=0.1),
    "momentum": lambda p: fg.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adam": lambda p: fg.optim.Adam(p, lr=0.01),
    "adamw": lambda p: fg.optim.AdamW(p, lr=0.01),
}
ONE_CALL = {"cuCtxSetCurrent": 1, "cuGraphLaunch": 1}


@pytest.fixture
def no_graphs_are_left(driver):
    """A test leaves no graph, no capture and no pool behind."""
    yield
    gc.collect()
    fg.cuda.synchronize(0)
    fg.cuda.synchronize(1)
    settle()
    assert not driver.captures
    assert not driver.graphs
    assert not driver.executables
    fg.cuda.empty_cache()
    for gpu in driver.gpus:
        assert not gpu._captures
        assert all(not gpu._word(arena).value for arena in gpu._retired)


def settle():
    """Let graphs that were dropped go: the device looks when it makes another one."""
    x = fg.ones(2, device="cuda")
    with record() as tape:
        x.add_(1)
        x.add_(1)
    tape.replay()
    fg.cuda.synchronize()
    del tape


def calls_of(driver, function):
    """What a function asks of the driver."""
    before = driver.calls.copy()
    function()
    return dict(driver.calls - before)


def make_model(name, loss="mse", p=0.0):
    """A step of training of a small net, the same at every call: parameters, the step and the number of steps."""
    rng = np.random.default_rng(0)
    sizes = (8, 16, 16, 4)
    values = [rng.standard_normal((a, b)) / a**0.5 for a, b in itertools.pairwise(sizes)]
    values += [np.zeros(b) for b in sizes[1:]]
    params = [fg.tensor(v.astype(np.float32), device="cuda", requires_grad=True) for v in values]
    x = fg.tensor(rng.standard_normal((32, 8)).astype(np.float32), device="cuda")
    y = fg.tensor(rng.integers(0, 4, 32), device="cuda")
    optimizer = OPTIMIZERS[name](params)
    fg.manual_seed(5)

    def step():
        optimizer.zero_grad()
        h = x
        for k in range(3):
            h = h @ params[k] + params[3 + k]
            if k < 2:
                h = F.dropout(F.relu(h), p) if p else F.relu(h)
        out = F.cross_entropy(h, y) if loss == "classes" else ((h - 1.0) ** 2).mean()
        out.backward()
        optimizer.step()
        return out.detach()

    return params, step


def eager(n, *how):
    params, step = make_model(*how)
    return [step().item() for _ in range(n)], [p.tolist() for p in params]


# --- tapes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_tape_is_one_call_and_equals_eager(driver, name):
    losses, weights = eager(22, name)
    params, step = make_model(name)
    seen = [step().item()]
    with record() as tape:
        loss = step()
    seen.append(loss.item())
    for k in range(20):
        calls = calls_of(driver, tape.replay)
        assert k == 0 or calls == ONE_CALL
        seen.append(loss.item())
    assert seen == losses
    assert [p.tolist() for p in params] == weights


@pytest.mark.parametrize(("loss", "p"), [("classes", 0.0), ("mse", 0.5), ("classes", 0.5)])
def test_reports_and_random_numbers_cut_a_tape(driver, loss, p):
    losses, weights = eager(12, "sgd", loss, p)
    params, step = make_model("sgd", loss, p)
    seen = [step().item()]
    with record() as tape:
        result = step()
    seen.append(result.item())
    for _ in range(10):
        calls = calls_of(driver, tape.replay)
        seen.append(result.item())
    assert seen == losses
    assert [q.tolist() for q in params] == weights
    assert calls["cuGraphLaunch"] >= 2
    assert calls.get("cuLaunchKernel", 0) == (2 if p else 0)  # each dropout
    assert calls["cuMemcpyDtoHAsync"] >= 1


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
        "cuCtxSetCurrent": 4, "cuGraphLaunch": 2, "cuMemcpyDtoHAsync": 1, "cuMemcpyHtoDAsync": 1,
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
    assert calls_of(driver, tape.replay) == {"cuCtxSetCurrent": 3, "cuGraphLaunch": 3}
    assert (a.tolist(), b.tolist(), c.tolist()) == ([6] * 3, [12] * 3, [20] * 3)


def test_a_single_launch_is_no_graph(driver):
    x = fg.ones(3, device="cuda")
    with record() as tape:
        y = -x
    x.fill_(2)
    assert calls_of(driver, tape.replay) == {"cuCtxSetCurrent": 1, "cuLaunchKernel": 1}
    assert y.tolist() == [-2] * 3


def test_an_index_out_of_range_stops_a_replay(driver):
    table, index, out = fg.arange(4.0).cuda(), fg.tensor([1, 2]).cuda(), fg.zeros(2).cuda()
    with record() as tape:
        out.copy_(table.gather(0, index))
        out.add_(1)
        out.mul_(2)
    index.copy_(fg.tensor([0, 3]))
    tape.replay()
    assert out.tolist() == [2, 8]
    index.copy_(fg.tensor([0, 9]))
    with pytest.raises(IndexError, match="index 9 is out of bounds for size 4"):
        tape.replay()
    assert out.tolist() == [2, 8]
    index.copy_(fg.tensor([3, 3]))
    tape.replay()
    assert out.tolist() == [8, 8]


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


# --- what may go wrong -----------------------------------------------------------------------------------------


REFUSED = {
    "item": lambda x: x.sum().item(),
    "tolist": lambda x: x.tolist(),
    "bool": lambda x: bool((x > 0).all()),
    "cpu": lambda x: x.cpu(),
    "repr": repr,
    "numpy": lambda x: fg.ones(3).copy_(x),
    "from the host": lambda x: x + fg.ones(3).cuda(),
    "a new tensor": lambda x: fg.tensor([1.0, 2.0, 3.0], device="cuda"),
    "synchronize": lambda x: fg.cuda.synchronize(),
    "stream": lambda x: fg.cuda.current_stream().synchronize(),
    "default stream": lambda x: fg.cuda.default_stream().synchronize(),
    "query": lambda x: fg.cuda.current_stream().query(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_capture_refuses(driver, name):
    g, x = fg.cuda.CUDAGraph(), fg.ones(3, device="cuda")
    with pytest.raises(RuntimeError, match=r"not permitted when (a )?stream is capturing"), fg.cuda.graph(g):
        REFUSED[name](x + 1)
    assert not fg.cuda.is_current_stream_capturing()
    assert fg.cuda.current_stream() == fg.cuda.default_stream()
    with pytest.raises(RuntimeError, match="without a preceding"):
        g.replay()
    REFUSED[name](x)
    with fg.cuda.graph(g):
        y = x + 1
        with pytest.raises(RuntimeError, match="capturing"):
            REFUSED[name](y)
    g.replay()
    assert y.tolist() == [2] * 3


def test_events_from_outside(driver):
    g, before = fg.cuda.CUDAGraph(), fg.cuda.Event(enable_timing=True)
    before.record()
    with pytest.raises(RuntimeError, match="uncaptured work"), fg.cuda.graph(g):
        before.wait()
    with fg.cuda.graph(g):
        for call in (before.query, before.synchronize):
            with pytest.raises(RuntimeError, match="is capturing"):
                call()
        fg.cuda.Event().wait()
        inside = fg.cuda.Event(enable_timing=True)
        inside.record()
    before.synchronize()
    with pytest.raises(RuntimeError, match="last recorded in a capturing stream"):
        before.elapsed_time(inside)
    with pytest.raises(RuntimeError, match="uncaptured work"), fg.cuda.graph(fg.cuda.CUDAGraph()):
        inside.wait()


def test_captures_do_not_nest(driver):
    g, other, x = fg.cuda.CUDAGraph(), fg.cuda.CUDAGraph(), fg.ones(3, device="cuda")
    with fg.cuda.graph(other):
        z = x + 5
    with fg.cuda.graph(g):
        y = x + 1
        with pytest.raises(RuntimeError, match="nested"), fg.cuda.graph(fg.cuda.CUDAGraph()):
            pass
        with pytest.raises(RuntimeError, match="already owns"), fg.cuda.graph(g):
            pass
        with pytest.raises(RuntimeError, match="nested"), record():
            pass
        with pytest.raises(RuntimeError, match="without a preceding"):
            g.replay()
        with pytest.raises(RuntimeError, match="cannot be parts of others"):
            other.replay()
        y = y + 1
    g.replay()
    other.replay()
    assert (y.tolist(), z.tolist()) == ([3] * 3, [6] * 3)
    with record() as tape:
        with pytest.raises(RuntimeError, match="nested"), fg.cuda.graph(fg.cuda.CUDAGraph()):
            pass
        x.add_(1)
    tape.replay()


def test_captures_in_the_wrong_order(driver):
    g = fg.cuda.CUDAGraph()
    for call in (g.replay, g.pool, g.instantiate):
        with pytest.raises(RuntimeError, match="without a preceding successful capture"):
            call()
    with pytest.raises(RuntimeError, match="without capture_begin"):
        g.capture_end()
    with pytest.raises(RuntimeError, match="non-default stream"):
        g.capture_begin()
    g.reset()
    with fg.cuda.graph(g):
        pass
    with pytest.raises(RuntimeError, match="already owns a captured graph"), fg.cuda.graph(g):
        pass
    with pytest.raises(RuntimeError, match="without capture_begin"):
        g.capture_end()


def test_wrong_arguments(driver):
    g = fg.cuda.CUDAGraph()
    for wrong in (3, "pool", (1,), (1, "2"), (True, 1)):
        with pytest.raises(TypeError, match="argument 'pool'"), fg.cuda.graph(g, pool=wrong):
            pass
    with pytest.raises(RuntimeError, match="Unknown capture error mode"):
        fg.cuda.graph(g, capture_error_mode="local").__enter__()
    with pytest.raises(TypeError, match="cuda_graph"):
        fg.cuda.graph(3)
    with pytest.raises(TypeError, match=r"fastgrad\.cuda\.Stream"):
        fg.cuda.graph(g, stream=3)
    with pytest.raises(NotImplementedError, match="keep_graph"):
        fg.cuda.CUDAGraph(keep_graph=True)
    with pytest.raises(RuntimeError, match="not supported"):
        g.debug_dump("graph.dot")
    with pytest.raises(RuntimeError, match="not supported"):
        g.raw_cuda_graph()
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            make(g)
    assert fg.cuda.current_stream() == fg.cuda.default_stream()
    assert repr(g) == "<fastgrad.cuda.CUDAGraph empty>"
    del g
    fg.cuda.CUDAGraph.__new__(fg.cuda.CUDAGraph)
    object.__new__(fg.cuda.CUDAGraph)


def test_other_threads_go_on_during_a_capture(driver):
    g, x, seen, steps = fg.cuda.CUDAGraph(), fg.ones(3, device="cuda"), [], []

    def work():
        y = (x @ x.new_ones(3, 3)) + 1
        seen.append(y.tolist())
        fg.cuda.synchronize()
        seen.append(fg.cuda.is_current_stream_capturing())
        try:
            with fg.cuda.graph(fg.cuda.CUDAGraph()):
                pass
        except RuntimeError as error:
            steps.append(str(error))
        try:
            g.capture_end()
        except RuntimeError as error:
            steps.append(str(error))

    with fg.cuda.graph(g):
        z = x + 1
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        z = z + 1
    assert seen == [[4] * 3, False]
    assert "another thread's capture" in steps[0]
    assert "on the thread that called capture_begin" in steps[1]
    g.replay()
    assert z.tolist() == [3] * 3
    assert repr(g) == "<fastgrad.cuda.CUDAGraph 4 launches>"


def test_replays_of_many_threads(driver):
    failures = []

    def work(k):
        try:
            x, stream = fg.full((64,), float(k), device="cuda"), fg.cuda.Stream()
            stream.wait_stream(fg.cuda.default_stream())
            with fg.cuda.stream(stream):
                with record() as tape:
                    y = x * 2 + 1
                for _ in range(20):
                    tape.replay()
                    assert y.tolist() == [2 * k + 1] * 64
                stream.synchronize()
        except RuntimeError as error:
            if "another thread's capture" not in str(error):
                failures.append(error)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_an_exception_in_a_capture(driver):
    g, x = fg.cuda.CUDAGraph(), fg.ones(3, device="cuda", requires_grad=True)
    fg.manual_seed(1)
    wanted = fg.rand(3, device="cuda").tolist()
    fg.manual_seed(1)

    def hook(grad):
        raise KeyError

    y = x * 2
    y.register_hook(hook)
    with pytest.raises(KeyError), fg.cuda.graph(g):
        (y.sum() * fg.rand(1, device="cuda")).backward()
    assert fg.rand(3, device="cuda").tolist() == wanted
    assert not fg.cuda.is_current_stream_capturing()
    with pytest.raises(RuntimeError, match="without a preceding"):
        g.pool()
    assert (x * 2).tolist() == [2] * 3


def test_a_capture_that_is_forgotten(driver):
    s, x = fg.cuda.Stream(), fg.ones(3, device="cuda")
    with fg.cuda.stream(s):
        g = fg.cuda.CUDAGraph()
        g.capture_begin()
        y = x + 1
        assert "capturing" in repr(g)
        del g
        gc.collect()
        assert not fg.cuda.is_current_stream_capturing()
        g = fg.cuda.CUDAGraph()
        g.capture_begin()
        g.reset()
        assert not fg.cuda.is_current_stream_capturing()
    assert (x + 1).tolist() == [2] * 3
    del y


def test_a_graph_that_goes_while_it_is_under_way(driver):
    g, x = fg.cuda.CUDAGraph(), fg.ones(3, device="cuda")
    fg.cuda.synchronize()
    with fg.cuda.graph(g):
        y = x + 1
        y = y + 1
    g.replay()
    assert driver.waiting(driver.gpus[0].stream) == 1
    arena = g._pool.arena
    del g
    assert driver.gpus[0]._word(arena).value == 1
    assert y.tolist() == [3] * 3
    settle()
    fg.cuda.synchronize()
    assert driver.gpus[0]._word(arena).value == 0


@pytest.mark.parametrize(
    ("function", "code", "text"),
    [
        ("cuStreamBeginCapture", 900, "CUDA_ERROR_900"),
        ("cuStreamEndCapture", 901, "CUDA_ERROR_901"),
        ("cuGraphInstantiateWithFlags", 1, "CUDA_ERROR_1"),
        ("cuGraphLaunch", 1, "CUDA_ERROR_1"),
        ("cuLaunchKernel", 1, "CUDA_ERROR_1"),
    ],
)
def test_what_the_driver_says(driver, function, code, text):
    g, x = fg.cuda.CUDAGraph(), fg.ones(3, device="cuda")
    with fg.cuda.graph(g):
        y = x + 1
        z = y * 2
    driver.says[function] = [code]
    with pytest.raises(RuntimeError, match=text):
        g.replay()
    driver.says.clear()
    for stream in list(driver.captures):  # whose end the test kept from the driver
        driver.captures.pop(stream)
    g.replay()
    assert z.tolist() == [4] * 3


def test_a_lost_context(driver):
    g, x, gpu = fg.cuda.CUDAGraph(), fg.ones(3, device="cuda"), driver.gpus[0]
    with fg.cuda.graph(g):
        y = x + 1
        y = y + 1
    g.replay()
    fg.cuda.synchronize()
    driver.says["cuGraphLaunch"] = [ILLEGAL_ADDRESS]
    for _ in range(2):
        with pytest.raises(RuntimeError, match="must be started again"):
            g.replay()
    g.reset()
    gpu._set("failed", 0)


def test_hooks_run_during_the_capture_alone(driver):
    g, x, seen = fg.cuda.CUDAGraph(), fg.ones(3, device="cuda", requires_grad=True), []
    x.grad = fg.zeros(3, device="cuda")

    def hook(grad):
        seen.append(grad.shape)
        return grad * 2

    with fg.cuda.graph(g):
        y = x * 3
        y.register_hook(hook)
        y.sum().backward()
    for k in range(1, 4):
        g.replay()
        assert x.grad.tolist() == [6 * k] * 3
    assert seen == [(3,)]
    del y


GRAPHS = """
driver = FakeDriver()
gpus.attach(driver, driver.compiler)
x = fg.ones(3, device="cuda")
g = fg.cuda.CUDAGraph()
with fg.cuda.graph(g):
    y = x @ fg.ones(3, 3, device="cuda") + 1
g.replay()
"""


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ("", 0),
        ("fg.kept = (g, x, y)", 0),
        ("del y; ring = [g]; ring.append(ring); del g", 0),
        (
            "h = fg.cuda.CUDAGraph(); s = fg.cuda.Stream(); fg.cuda.set_stream(s); h.capture_begin(); z = x + 1",
            0,
        ),
        ("with fg.cuda.graph(fg.cuda.CUDAGraph()): raise SystemExit(3)", 3),
        ("threading.Thread(target=lambda: (g.replay(), threading.Event().wait()), daemon=True).start()", 0),
    ],
)
def test_the_interpreter_ends_with_graphs_alive(more, code):
    assert ends(GRAPHS + more) == (code, "", "")


FORKED = """
import os, warnings
warnings.simplefilter("ignore")
child = os.fork()
if not child:
    try:
        assert (fg.ones(3) + 1).tolist() == [2, 2, 2]
        for call in (g.replay, lambda: fg.cuda.graph(fg.cuda.CUDAGraph()).__enter__()):
            try:
                call()
            except RuntimeError as error:
                assert "Cannot re-initialize CUDA in forked subprocess" in str(error), error
            else:
                raise AssertionError(call)
        assert not fg.cuda.is_current_stream_capturing()
        g.reset()
        del g, x, y
        os._exit(0)
    except BaseException as error:
        print(repr(error), flush=True)
        os._exit(1)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
g.replay()
assert y.tolist() == [4] * 3
raise SystemExit(code)
"""


def test_a_fork_cannot_replay():
    assert ends(GRAPHS + FORKED) == (0, "", "")
