"""Captured graphs over GPUs that are none: what a capture refuses, threads, errors, forks and ends."""

from __future__ import annotations

import copy
import gc
import pickle
import threading

import pytest

import fastgrad as fg
from fastgrad.cuda import later
from fastgrad.native.host.tape import Tape, record
from tests.cuda.apart import ends
from tests.cuda.fake_driver import ILLEGAL_ADDRESS
from tests.cuda.steps import settle
from tests.threads import switching

pytestmark = pytest.mark.usefixtures("all_is_done", "no_graphs_are_left")


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


@pytest.fixture
def threads_take_turns():
    """The functions of the driver are Python's here, and others might run within them, as they cannot on a GPU."""
    with switching(10):
        yield


def test_captures_and_replays_of_many_threads(driver, threads_take_turns):
    failures, done = [], []

    def work(k):
        x, stream = fg.full((64,), float(k), device="cuda"), fg.cuda.Stream()
        stream.wait_stream(fg.cuda.default_stream())
        with fg.cuda.stream(stream):
            y = x * 2 + 1
            with record() as tape:
                y = x * 2 + 1
            for _ in range(20):
                tape.replay()
                assert y.tolist() == [2 * k + 1] * 64  # meanwhile others run
            stream.synchronize()
        done.append(k)

    def run(k):
        try:
            work(k)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(done) == 6


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


@pytest.mark.parametrize("wrong", [1.5, "a", 2**70])
def test_a_tape_whose_setting_is_no_number(wrong):
    tape = Tape()
    tape._what = wrong
    with pytest.raises((TypeError, OverflowError)), tape:
        pass
    with record():
        pass


def test_a_context_that_is_entered_again(driver):
    context = fg.cuda.graph(fg.cuda.CUDAGraph())
    context.__enter__()
    with pytest.raises(RuntimeError, match="already owns"):
        context.__enter__()
    context.__exit__(None, None, None)
    assert fg.cuda.current_stream() == fg.cuda.default_stream()


def test_graphs_that_are_gone_leave_their_memory_to_the_next(driver):
    gpu, x = driver.gpus[0], fg.ones(3, device="cuda")
    for _ in range(5):
        g = fg.cuda.CUDAGraph()
        with fg.cuda.graph(g):
            y = x + 1
        g.replay()
        del g, y
        fg.cuda.current_stream().synchronize()
    assert len(later._waiting) <= 1
    assert gpu._captures == {}


@pytest.mark.parametrize(
    "wrong", [lambda g: g[:1], lambda g: g.double(), lambda g: g.cpu() if g.is_cuda else g.cuda()]
)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_replay_whose_hook_returns_another_kind_of_gradient(driver, device, wrong):
    x, answers = fg.ones(3, device=device, requires_grad=True), [lambda g: g * 2]
    with record(hooks=True) as tape:
        y = x * 2
        y.register_hook(lambda g: answers[0](g))
        y.sum().backward()
    tape.replay()
    answers[0] = wrong
    with pytest.raises(RuntimeError, match="returned other gradients than during the capture"):
        tape.replay()
