"""Compiled functions over GPUs that are none: recorded and replayed as on the CPU."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from tests.cuda.steps import OPTIMIZERS, calls_of

pytestmark = pytest.mark.usefixtures("all_is_done", "no_graphs_are_left")


@pytest.fixture(autouse=True)
def nothing_is_kept():
    """What compiled functions keep of a GPU goes with the test."""
    yield
    fg.compiler.reset()
    gc.collect()


def values(seed, *sizes):
    return np.random.default_rng(seed).standard_normal(sizes).astype(np.float32)


def on_gpu(seed, *sizes, **options):
    return fg.tensor(values(seed, *sizes), device="cuda", **options)


def facts(function):
    (signature,) = fg.compile.explain(function).signatures
    return signature


def test_elementwise_calls_are_replayed(driver):
    @fg.compile
    def f(x, y):
        return (x * y + 1).tanh() * x

    for seed in range(6):
        x, y = on_gpu(seed, 5, 3), on_gpu(seed + 50, 3)
        assert f(x, y).tolist() == ((x * y + 1).tanh() * x).tolist()
    assert facts(f).n_replayed == 5
    assert facts(f).n_recorded == 1


def test_tensors_that_stay_where_they_are_take_one_graph(driver):
    x = on_gpu(0, 4)
    kept = fg.zeros(4, device="cuda")

    @fg.compile
    def f():
        kept.copy_(x.exp().cumsum(0) + 1)
        kept.cumsum_(0).sub_(3)

    for _ in range(3):
        f()
    x.fill_(2)
    assert calls_of(driver, f) == {"cuGraphLaunch": 1}
    assert kept.tolist() == ((x.exp().cumsum(0) + 1).cumsum(0) - 3).tolist()


def test_what_moves_is_launched_between_graphs(driver):
    w = on_gpu(1, 4)

    @fg.compile
    def f(x):
        a = (w * 2).cumsum(0).exp() + 1
        b = a.cumsum(0).cumsum(0) * x
        return (b * 2).cumsum(0).flip(0).cumsum(0)

    results = []
    for seed in range(5):
        x = on_gpu(seed, 4)
        results.append(f(x))
        wanted = f.__wrapped__(x)
        assert results[-1].tolist() == wanted.tolist()
    x = on_gpu(9, 4)
    calls = calls_of(driver, lambda: results.append(f(x)))
    assert calls["cuGraphLaunch"] >= 1
    assert 1 <= calls["cuLaunchKernel"] <= 3
    assert "cuStreamBeginCapture" not in calls
    assert len({r.data_ptr() for r in results}) == len(results)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("changes", [False, True])
def test_a_step_of_training_equals_eager_ones(driver, name, changes):
    def trained(compiled):
        params = [on_gpu(k, a, b, requires_grad=True) for k, (a, b) in enumerate([(8, 16), (16, 4)])]
        params.append(on_gpu(7, 4, requires_grad=True))
        optimizer = OPTIMIZERS[name](params)

        def step(x, y):
            optimizer.zero_grad()
            h = F.relu(x @ params[0])
            loss = F.cross_entropy(h @ params[1] + params[2], y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        call = fg.compile(step) if compiled else step
        losses = []
        for k in range(7):
            if changes and k > 3:
                optimizer.param_groups[0]["lr"] *= 0.5
            y = fg.tensor(np.arange(6) % 4, device="cuda")
            losses.append(call(on_gpu(k + 20, 6, 8), y).item())
        if compiled:
            assert facts(call).n_replayed >= 4
        return losses, [p.tolist() for p in params]

    assert trained(True) == trained(False)


def test_a_function_that_only_computes_is_differentiated(driver):
    w = on_gpu(1, 3, 4, requires_grad=True)

    def plain(x):
        return F.gelu(x @ w).sum(0) * 2

    f = fg.compile(plain)
    for seed in range(5):
        found = []
        for function in (f, plain):
            x = on_gpu(seed, 2, 3, requires_grad=True)
            out = function(x)
            out.backward(on_gpu(seed + 9, 4))
            found.append((out.tolist(), x.grad.tolist(), w.grad.tolist()))
            w.grad = None
        assert found[0] == found[1]
    assert facts(f).n_replayed == 4


def test_random_numbers_are_those_of_eager_calls(driver):
    def plain(x):
        return F.dropout(x * 2, 0.5) + fg.rand(8, device="cuda") + fg.rand(8).cuda()

    def run(function):
        fg.manual_seed(3)
        found = []
        for seed in range(5):
            x = on_gpu(seed, 8, requires_grad=True)
            out = function(x)
            fg.rand(2, device="cuda")
            out.sum().backward()
            found.append((out.tolist(), x.grad.tolist()))
        return found

    f = fg.compile(plain)
    assert run(f) == run(plain)
    assert facts(f).n_replayed == 4


def test_second_derivatives_draw_the_numbers_of_the_call(driver):
    def plain(x):
        return (F.dropout(x, 0.5) ** 3).sum()

    def run(function):
        fg.manual_seed(4)
        found = []
        for seed in range(3):
            x = on_gpu(seed, 6, requires_grad=True)
            (g,) = fg.autograd.grad(function(x), x, create_graph=True)
            found.append(fg.autograd.grad(g.sum(), x)[0].tolist())
        return found

    assert run(fg.compile(plain)) == run(plain)


def test_generators_of_the_callers_own_run_eagerly(driver):
    own = fg.Generator(device="cuda")
    f = fg.compile(lambda x: x + fg.rand(3, device="cuda", generator=own))
    f(on_gpu(0, 3))
    f(on_gpu(1, 3))
    assert "generator of its own" in facts(f).refused


def test_values_that_are_read_are_compared(driver):
    @fg.compile
    def halved(x):
        while x.abs().max() > 1:
            x = x / 2
        return x

    for _ in range(4):
        assert halved(fg.tensor([6.0], device="cuda")).item() == 0.75
        assert halved(fg.tensor([0.5], device="cuda")).item() == 0.5
    assert facts(halved).n_recorded == 2
    assert facts(halved).n_replayed == 6


def test_numbers_that_are_returned_are_not_compared(driver):
    w = on_gpu(3, 4, requires_grad=True)
    optimizer = fg.optim.SGD([w], lr=0.1)

    @fg.compile
    def step(x):
        optimizer.zero_grad()
        loss = ((x * w) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss.item()

    losses = [step(on_gpu(k, 4)) for k in range(6)]
    assert len(set(losses)) == 6
    assert facts(step).n_replayed >= 4


def test_sizes_that_depend_on_values_are_compared(driver):
    f = fg.compile(lambda x: x[x > 0] * 2)
    for numbers in ([1.0, -1.0, 3.0], [-1.0, 2.0, 5.0], [1.0, 2.0, 3.0], [0.5, 0.0, 1.5]):
        x = fg.tensor(numbers, device="cuda")
        assert f(x).tolist() == [2 * v for v in numbers if v > 0]
    assert facts(f).n_recorded == 2


def test_whole_tensors_that_are_read_run_eagerly(driver):
    f = fg.compile(lambda x: x * sum(x.tolist()))
    f(on_gpu(0, 3))
    f(on_gpu(0, 3))
    assert "whole tensors" in facts(f).refused


def test_hooks_are_called_by_replays(driver):
    w, seen, kept = on_gpu(1, 4, requires_grad=True), [], []

    def look(gradient):
        seen.append(gradient.tolist())
        kept.append(gradient)
        return gradient * 2

    def plain(x):
        h = x * w
        h.register_hook(look)
        (h.exp() * x).sum().backward()
        gradient, w.grad = w.grad, None
        return gradient

    def run(function):
        seen.clear(), kept.clear()
        found = [function(on_gpu(seed, 4)).tolist() for seed in range(5)]
        assert [k.tolist() for k in kept] == seen  # what a hook keeps is not overwritten
        return found, list(seen)

    f = fg.compile(plain)
    assert run(f) == run(plain)
    assert facts(f).n_replayed >= 3


def test_the_host_and_two_gpus_in_one_call(driver):
    def plain(a, b, c):
        d = (a + 1).cuda() * b
        return (d.exp() + 1).to("cuda:1") * c, d.cpu() + a

    f = fg.compile(plain)
    for seed in range(4):
        args = fg.tensor(values(seed, 3)), on_gpu(seed + 1, 3), fg.tensor(values(7, 3), device="cuda:1")
        found, wanted = f(*args), plain(*args)
        assert [t.tolist() for t in found] == [t.tolist() for t in wanted]
        assert [t.device for t in found] == [t.device for t in wanted]
    assert facts(f).n_replayed == 3


def test_a_tensor_on_another_device_is_recorded_anew(driver):
    f = fg.compile(lambda x: x * 2)
    for device in ("cuda:0", "cuda:1", "cpu", "cuda:0", "cuda:1", "cpu"):
        out = f(fg.ones(3, device=device))
        assert out.device == fg.device(device)
        assert out.tolist() == [2] * 3
    assert facts(f).n_recorded == 3
    assert facts(f).n_replayed == 3


def test_the_current_gpu_is_compared(driver):
    f = fg.compile(lambda: fg.ones(3, device="cuda") * 2)
    for index in (0, 0, 1, 1, 0):
        with fg.cuda.device(index):
            assert f().device == fg.device("cuda", index)
    assert facts(f).n_recorded == 2


def test_the_precision_of_products_is_compared(driver):
    f = fg.compile(lambda x: x + x)
    try:
        for allow in (False, False, True, True):
            fg.backends.cuda.matmul.allow_tf32 = allow
            f(on_gpu(0, 3, 3))
    finally:
        fg.backends.cuda.matmul.allow_tf32 = False
    assert facts(f).n_recorded == 2
    assert facts(f).n_replayed == 2


def test_each_stream_has_a_recording(driver):
    s = fg.cuda.Stream()
    f = fg.compile(lambda x: (x * 2).exp() + 1)
    x = on_gpu(0, 3)
    fg.cuda.synchronize()
    for _ in range(3):
        wanted = ((x * 2).exp() + 1).tolist()
        assert f(x).tolist() == wanted
        with fg.cuda.stream(s):
            out = f(x)
            assert driver.waiting(s.cuda_stream)
            assert out.tolist() == wanted
    assert facts(f).n_recorded == 2
    assert facts(f).n_replayed == 4
    s.synchronize()


@pytest.mark.parametrize("kind", ["stream", "event", "wait", "use"])
def test_calls_that_order_streams_run_eagerly(driver, kind):
    s, event = fg.cuda.Stream(), fg.cuda.Event()
    event.record()

    def plain(x):
        y = x * 2
        if kind == "stream":
            with fg.cuda.stream(s):
                return y
        if kind == "event":
            event.record()
        elif kind == "wait":
            event.wait()
        else:
            y.record_stream(s)
        return y

    f = fg.compile(plain)
    for _ in range(2):
        assert f(fg.ones(2, device="cuda")).tolist() == [2, 2]
    assert facts(f).n_replayed == 0
    assert "stream" in facts(f).refused or "event" in facts(f).refused
    fg.cuda.synchronize()


def test_a_backward_pass_on_another_stream_says_so(driver):
    s = fg.cuda.Stream()
    f = fg.compile(lambda x: (x * x).exp())
    for _ in range(2):
        x = on_gpu(0, 3, requires_grad=True)
        out = f(x)
    with fg.cuda.stream(s), pytest.raises(RuntimeError, match="current stream of a GPU"):
        out.sum().backward()
    fg.cuda.synchronize()


def test_what_a_launch_reports_is_raised(driver):
    table = on_gpu(0, 4, 2)
    f = fg.compile(lambda i: F.embedding(i, table) * 2)
    for k in (0, 1, 2):
        i = fg.tensor([k, 3], device="cuda")
        assert f(i).tolist() == (F.embedding(i, table) * 2).tolist()
    f(fg.tensor([9, 0], device="cuda"))
    with pytest.raises(IndexError):
        fg.cuda.synchronize()
    assert (
        f(fg.tensor([1, 1], device="cuda")).tolist() == (table[fg.tensor([1, 1], device="cuda")] * 2).tolist()
    )


def test_what_a_call_returns_is_never_overwritten(driver):
    f = fg.compile(lambda x: ((x + 1) * 2, (x - 1).exp()))
    kept = [(x, f(x)) for x in (on_gpu(seed, 7) for seed in range(6))]
    for x, (a, b) in kept:
        assert a.tolist() == ((x + 1) * 2).tolist()
        assert b.tolist() == (x - 1).exp().tolist()


def test_empty_tensors_and_single_elements(driver):
    f = fg.compile(lambda x: (x * 2 + 1).sum())
    for n in (0, 1, 0, 1, 1, 0):
        x = on_gpu(n, n)
        assert f(x).tolist() == (x * 2 + 1).sum().tolist()
    assert facts(f).n_recorded == 2


def test_views_of_an_argument(driver):
    f = fg.compile(lambda x: x.t().mul_(2))
    x = on_gpu(0, 2, 3)
    for _ in range(3):
        before = np.array(x.tolist())
        out = f(x)
        assert out.data_ptr() == x.data_ptr()
        assert np.array_equal(np.array(x.tolist()), before * 2)


def test_a_lone_allocation_lies_on_its_device(driver):
    f = fg.compile(lambda: fg.empty(3, device="cuda:1"))
    assert [f().device.index for _ in range(3)] == [1] * 3


def test_meta_tensors_still_run_eagerly():
    f = fg.compile(lambda x: x + 1)
    for _ in range(2):
        assert f(fg.ones(2, device="meta")).device.type == "meta"
    assert "meta" in facts(f).refused
