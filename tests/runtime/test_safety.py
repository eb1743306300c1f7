"""What may go wrong around the runtime: exceptions, threads, forks, exits, foreign memory, depth."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastgrad as fg
from fastgrad import flags
from tests.threads import in_threads, switching

ROOT = Path(__file__).resolve().parents[2]


def ones(*shape: int) -> Any:
    return fg.ones(*(shape or (2,)), requires_grad=True)


def run_program(text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program in a fresh interpreter, which must end well and say nothing on stderr."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-q", "-X", "faulthandler", "-c", textwrap.dedent(text)],
        env={**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "error", **environment},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    return done


def assert_clean(text: str, **environment: str) -> str:
    done = run_program(text, **environment)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-2000:]
    return done.stdout


@pytest.fixture
def eager_switching():
    """Threads take turns as often as Python can."""
    with switching():
        yield


# --- exceptions in the middle of a pass --------------------------------------------------------------------


def raising(error: BaseException) -> Callable[..., Any]:
    def hook(*_: Any) -> None:
        raise error

    return hook


REGISTRATIONS: dict[str, Callable[[Any, Any], Callable[..., Any]]] = {
    "non-leaf": lambda x, y: y.register_hook,
    "leaf": lambda x, y: x.register_hook,
    "post-accumulate": lambda x, y: x.register_post_accumulate_grad_hook,
    "node": lambda x, y: y.grad_fn.register_hook,
    "node prehook": lambda x, y: y.grad_fn.register_prehook,
}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("kind", REGISTRATIONS)
def test_exceptions_in_hooks_leave_counts_and_modes(
    kind: str, create_graph: bool, error: type[BaseException]
):
    if kind == "post-accumulate" and create_graph:
        pytest.skip("such hooks do not fire for autograd.grad")
    before = fg.debug.live()
    x, w = ones(), ones()
    y = x.exp() * w
    z = (y * y).tanh().sum()
    REGISTRATIONS[kind](x, y)(raising(error("mine")))
    with pytest.raises(error, match="mine") as info:
        fg.autograd.grad(z, [x, w], create_graph=True) if create_graph else z.backward()
    assert fg.is_grad_enabled()
    assert fg.debug.live()["tasks"] == before["tasks"]
    v = ones()
    (v * v).sum().backward()
    assert v.grad.tolist() == [2.0, 2.0]
    info.value.__traceback__ = None
    del x, y, z, v, w, info
    gc.collect()
    assert fg.debug.live() == before


def test_ctrl_c_in_the_middle_of_a_pass():
    (ones() * 1.01).sum().backward()  # nothing is left to compile
    before = fg.debug.live()
    x = ones()
    y = x
    main, passed = threading.get_ident(), []

    def hook(g: Any) -> None:
        passed.append(len(passed))
        if len(passed) == 25:
            in_threads(1, lambda k: signal.pthread_kill(main, signal.SIGINT))

    for _ in range(50):
        y = y * 1.01
        y.register_hook(hook)
    y = y.sum()
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it for background jobs
    try:
        with pytest.raises(KeyboardInterrupt) as info:
            y.backward()
    finally:
        signal.signal(signal.SIGINT, handler)
    assert len(passed) == 25
    assert fg.debug.live()["tasks"] == before["tasks"]
    assert fg.is_grad_enabled()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    info.value.__traceback__ = None
    del x, y, info
    gc.collect()
    assert fg.debug.live() == before


# --- nested passes -----------------------------------------------------------------------------------------


def test_a_pass_inside_a_pass_over_the_same_graph():
    x = ones()
    y = x * x
    z = (y * y).sum()
    got = []
    inside = False

    def nest(g: Any) -> None:
        nonlocal inside
        if not inside:
            inside = True
            got.append(fg.autograd.grad(z, x, retain_graph=True)[0].tolist())

    handle = y.register_hook(nest)
    z.backward(retain_graph=True)
    handle.remove()
    assert got == [[4.0, 4.0]]
    assert x.grad.tolist() == [4.0, 4.0]


def test_deeply_nested_passes():
    x = ones()
    depth = 0

    def nest(g: Any) -> None:
        nonlocal depth
        depth += 1
        if depth < 50:
            with fg.enable_grad():
                y = x * 2
                y.register_hook(nest)
                y.sum().backward()

    y = x * 2
    y.register_hook(nest)
    y.sum().backward()
    assert depth == 50
    assert x.grad.tolist() == [100.0, 100.0]


def test_an_exception_in_a_nested_pass_may_be_caught():
    x, w = ones(), ones()
    w.register_hook(raising(KeyError("inner")))

    def nest(g: Any) -> Any:
        with pytest.raises(KeyError, match="inner"), fg.enable_grad():
            (w * 2).sum().backward()
        assert not fg.is_grad_enabled()
        return g * 2

    y = x * 3
    y.register_hook(nest)
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]
    assert w.grad is None
    w._backward_hooks.clear()


def test_the_graph_may_be_dropped_while_a_pass_runs_over_it():
    x = ones()
    held = {"y": x * 2}
    held["z"] = (held["y"] * 3).exp().sum()
    held["y"].register_hook(lambda g: (held.clear(), gc.collect(), None)[-1])
    held["z"].backward()
    assert x.grad is not None
    assert held == {}


# --- threads -----------------------------------------------------------------------------------------------


def train(steps: int, seed: int) -> list[float]:
    rng = np.random.default_rng(seed)
    data, target = rng.normal(size=(16, 4)), rng.normal(size=(16, 1))
    w1 = fg.tensor(rng.normal(size=(4, 8)), requires_grad=True)
    w2 = fg.tensor(rng.normal(size=(8, 1)), requires_grad=True)
    norms: list[float] = []
    w1.register_hook(lambda g: norms.append(float((g * g).sum())))
    x, y = fg.tensor(data), fg.tensor(target)
    for _ in range(steps):
        loss = (((x @ w1).tanh() @ w2 - y) ** 2).mean()
        loss.backward()
        with fg.no_grad():
            for w in (w1, w2):
                w -= 0.05 * w.grad
                w.grad = None
    return [*norms, loss.item()]


def test_threads_that_train_at_the_same_time(eager_switching: None):
    expected = [train(40, k) for k in range(4)]
    got: dict[int, list[float]] = {}
    in_threads(4, lambda k: got.__setitem__(k, train(40, k)))
    assert [got[k] for k in range(4)] == expected


def test_threads_that_share_one_graph(eager_switching: None):
    x = ones(50)
    y = x
    for _ in range(30):
        y = (y * 1.001).tanh() + x
    z = y.sum()
    (expected,) = fg.autograd.grad(z, x, retain_graph=True)
    fired: list[int] = []
    y.register_hook(lambda g: fired.append(threading.get_ident()))
    results: list[list[float]] = []

    def work(_: int) -> None:
        for _ in range(20):
            results.append(fg.autograd.grad(z, x, retain_graph=True)[0].tolist())

    in_threads(3, work)
    assert len(fired) == 60
    assert all(r == expected.tolist() for r in results)


def test_threads_that_accumulate_into_one_leaf(eager_switching: None):
    x = ones(10)

    def work(_: int) -> None:
        for _ in range(100):
            (x * 2).sum().backward()

    in_threads(3, work)
    assert x.grad.tolist() == [600.0] * 10


def test_large_ops_of_one_thread_keep_their_mode_while_others_run():
    """Kernels over many elements let other threads run meanwhile."""
    x = fg.ones(1 << 20, requires_grad=True)
    stop = threading.Event()

    def other(k: int) -> None:
        if k:
            small = ones()
            while not stop.is_set():
                assert (small * 2).requires_grad
                with fg.no_grad():
                    assert not (small * 2).requires_grad
            return
        try:
            for _ in range(60):
                assert (x * 2).requires_grad
                with fg.no_grad():
                    assert not (x * 2).requires_grad
        finally:
            stop.set()

    in_threads(3, other)


def test_large_passes_of_one_thread_while_others_run():
    x = fg.ones(1 << 19, requires_grad=True)
    stop = threading.Event()

    def other(k: int) -> None:
        small = ones(3)
        if k:
            while not stop.is_set():
                (g,) = fg.autograd.grad((small * small * small).sum(), small, create_graph=True)
                assert g.requires_grad
                assert fg.autograd.grad(g.sum(), small)[0].tolist() == [6.0] * 3
            return
        try:
            for _ in range(20):
                (g,) = fg.autograd.grad((x.exp() * x).tanh().sum(), x)
                assert not g.requires_grad
                assert g.grad_fn is None
        finally:
            stop.set()

    in_threads(3, other)


def test_tensors_dropped_on_another_thread(eager_switching: None):
    made: list[Any] = []

    def work(k: int) -> None:
        for i in range(300):
            if k:
                made.append((ones() * i).exp().sum())
            elif made:
                made.pop()

    in_threads(3, work)
    made.clear()


# --- the end of the interpreter ----------------------------------------------------------------------------

EXITS = {
    "a live graph": "y = (x * 2).exp().sum(); other = y * 2",
    "a graph after a pass": "y = (x * 2).exp().sum(); y.backward(retain_graph=True)",
    "hooks": """
y = x * 2
y.register_hook(lambda g: print(y))
x.register_hook(lambda g: print(x))
y.grad_fn.register_hook(lambda gi, go: None)
y.grad_fn.register_prehook(lambda go: None)
x.register_post_accumulate_grad_hook(lambda t: None)
y.retain_grad()
z = y.sum()
""",
    "cycles": """
x.me = x
x.register_hook(lambda g: x)
node = (x * 2).grad_fn
node.metadata["node"] = node
node.register_hook(lambda gi, go: node)
""",
    "nodes": "n = (x * 2).exp().grad_fn; m = n.next_functions[0][0]; h = m.register_hook(print)",
    "foreign memory": "import numpy; a = numpy.ones(5); t = fg.from_numpy(a); b = t[1:].numpy(); v = t[2:]",
    "a running thread": """
import threading
begun = threading.Event()
def work():
    while True:
        (x * 2).exp().sum().backward()
        begun.set()
threading.Thread(target=work, daemon=True).start()
begun.wait()
""",
    "a thread in a hook": """
import threading
inside = threading.Event()
def hook(g):
    inside.set()
    threading.Event().wait()
def work():
    y = x * 2
    y.register_hook(hook)
    y.sum().backward()
threading.Thread(target=work, daemon=True).start()
inside.wait()
""",
    "a mode left on": "fg.set_grad_enabled(False); m = fg.inference_mode(); m.__enter__(); y = x * 2",
    "globals of another module": "import types, sys; sys.modules['m'] = m = types.ModuleType('m'); m.t = x",
    "atexit": "import atexit; atexit.register(lambda: (x * 2).sum().backward()); y = x * 3",
    "an exception in a pass": """
y = x * 2
def bad(g): raise KeyError("x")
y.register_hook(bad)
try:
    y.sum().backward()
except KeyError as e:
    kept = e
""",
}


@pytest.mark.parametrize("what", EXITS)
def test_interpreter_exit_with(what: str):
    assert_clean("import fastgrad as fg\nx = fg.ones(3, requires_grad=True)\n" + EXITS[what])


def test_exit_in_the_middle_of_a_pass():
    done = run_program(
        """
        import fastgrad as fg, sys
        x = fg.ones(3, requires_grad=True)
        y = x * 2
        y.register_hook(lambda g: sys.exit(7))
        y.sum().backward()
        """
    )
    assert (done.returncode, done.stderr) == (7, "")


# --- views and foreign memory ------------------------------------------------------------------------------


def test_views_outlive_their_base():
    base = fg.arange(12, dtype=fg.float32).view(3, 4)
    row, column, turned = base[1], base[:, 2], base.t()
    del base
    gc.collect()
    assert row.tolist() == [4.0, 5.0, 6.0, 7.0]
    assert column.tolist() == [2.0, 6.0, 10.0]
    row.zero_()
    assert turned.tolist()[2] == [2.0, 0.0, 10.0]


def test_views_outlive_their_base_under_autograd():
    x = ones(3, 4)
    v = (x * 2)[1]
    gc.collect()
    (v * v).sum().backward()
    assert x.grad.tolist() == [[0.0] * 4, [8.0] * 4, [0.0] * 4]


def test_arrays_outlive_their_tensor():
    t = fg.arange(6, dtype=fg.float32)
    array, part = t.numpy(), t[2:4].numpy()
    t.add_(1)
    del t
    gc.collect()
    filler = [fg.zeros(6) for _ in range(50)]
    assert array.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert part.tolist() == [3.0, 4.0]
    array[2] = 30.0
    assert part.tolist() == [30.0, 4.0]
    del filler


def test_tensors_outlive_their_array():
    array = np.arange(6, dtype=np.float64)
    t = fg.from_numpy(array)
    view = t[3:]
    array[4] = 40.0
    del array, t
    gc.collect()
    filler = [np.zeros(6) for _ in range(50)]
    assert view.tolist() == [3.0, 40.0, 5.0]
    del filler


def test_foreign_memory_is_released_with_the_last_tensor():
    class Owner(np.ndarray):
        pass

    import weakref

    array = np.ones(4, np.float32).view(Owner)
    gone = weakref.ref(array)
    t = fg.from_numpy(array)
    v = t[1:]
    y = (v.clone().requires_grad_() * v).sum()
    del array, t, v
    gc.collect()
    assert gone() is not None  # the graph saved a view of it
    del y
    gc.collect()
    assert gone() is None


def test_read_only_array():
    array = np.ones(3, np.float32)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="writ|read-only|read only"):
        t = fg.from_numpy(array)
    assert t.tolist() == [1.0, 1.0, 1.0]


def test_array_protocol():
    t = fg.arange(4, dtype=fg.int64)
    array = np.asarray(t)
    assert array.dtype == np.int64
    array[0] = 9
    assert t.tolist() == [9, 1, 2, 3]
    assert np.array(t, copy=True) is not None
    copied = np.array(t)
    copied[1] = 100
    assert t.tolist() == [9, 1, 2, 3]
    assert np.asarray(t, dtype=np.float32).dtype == np.float32
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(ones())
    with pytest.raises(ValueError, match="copy"):
        np.asarray(t, dtype=np.float32, copy=False)


def test_to_numpy_through_dlpack():
    t = fg.arange(6, dtype=fg.float32).view(2, 3)
    array = np.from_dlpack(t.t())
    assert array.shape == (3, 2)
    t[0, 1] = 50.0
    assert array[1, 0] == 50.0
    del t
    gc.collect()
    assert array[2].tolist() == [2.0, 5.0]
    with pytest.raises(BufferError, match="require gradient"):
        np.from_dlpack(ones())


def test_from_numpy_through_dlpack():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    t = fg.from_dlpack(array)
    array[0, 0] = 7.0
    assert t.tolist() == [[7.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    del array
    gc.collect()
    assert t[1].tolist() == [3.0, 4.0, 5.0]


def test_dlpack_to_itself_shares_memory():
    t = fg.zeros(3)
    u = fg.from_dlpack(t)
    t[1] = 5.0
    assert u.tolist() == [0.0, 5.0, 0.0]


@pytest.mark.parity
def test_dlpack_with_torch():
    torch = pytest.importorskip("torch")
    t = fg.arange(6, dtype=fg.float64).view(2, 3)
    u = torch.from_dlpack(t.t())
    t[0, 1] = 9.0
    assert u[1, 0].item() == 9.0
    back = fg.from_dlpack(u)
    u[0, 0] = -1.0
    assert back.tolist() == t.t().tolist()
    assert t[0, 0].item() == -1.0
    del t, u
    gc.collect()
    assert back.tolist()[1] == [9.0, 4.0]


# --- copies ------------------------------------------------------------------------------------------------


def test_pickle():
    x = fg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    x.name = "weight"
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        y = pickle.loads(pickle.dumps(x, protocol))
        assert type(y) is fg.Tensor
        assert y.tolist() == x.tolist()
        assert y.requires_grad
        assert y.dtype is fg.float32
        assert y.name == "weight"
        (y * y).sum().backward()
        assert y.grad.tolist() == [[2.0, 4.0], [6.0, 8.0]]
    assert x.grad is None


@pytest.mark.parametrize("dtype", [fg.float32, fg.float64, fg.int64, fg.int32, fg.uint8, fg.bool])
def test_pickle_keeps_dtype_and_shape(dtype: Any):
    for t in (
        fg.ones(2, 3).to(dtype),
        fg.ones(()).to(dtype),
        fg.ones(0, 2).to(dtype),
        fg.ones(3, 2).to(dtype).t(),
    ):
        y = pickle.loads(pickle.dumps(t))
        assert (y.dtype, y.shape, y.tolist()) == (t.dtype, t.shape, t.tolist())


def test_deep_copy():
    x = fg.tensor([1.0, 2.0], requires_grad=True)
    (x * 3).sum().backward()
    pair = copy.deepcopy([x, x, x.detach()])
    assert pair[0] is pair[1]
    y = pair[0]
    assert y is not x
    assert y.grad.tolist() == [3.0, 3.0]
    with fg.no_grad():
        y.zero_()
    y.grad.zero_()
    assert x.tolist() == [1.0, 2.0]
    assert x.grad.tolist() == [3.0, 3.0]


def test_non_leaves_cannot_be_deep_copied():
    y = ones() * 2
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(y)


# --- fork --------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.parametrize("size", [3, 300])
def test_a_forked_child_works(size: int):
    assert_clean(
        f"""
        import fastgrad as fg, os, sys, time, warnings
        x = fg.ones({size}, {size}, requires_grad=True)
        (x @ x).exp().mean().backward()
        pid = os.fork()
        if pid == 0:
            x.grad = None
            ((x @ x) * 0.001).tanh().sum().backward()
            os._exit(0 if x.grad is not None else 3)
        end = time.monotonic() + 200
        while time.monotonic() < end:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                sys.exit(os.waitstatus_to_exitcode(status))
            time.sleep(0.01)
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        sys.exit("the child hangs")
        """
    )


# --- no memory ---------------------------------------------------------------------------------------------


@pytest.fixture
def limit():
    """Sets a limit a number of bytes above what is in use."""
    gc.collect()
    gc.freeze()  # after every failure the collector looks at what the test has made, not at all that came before
    yield lambda extra: fg.debug.set_memory_limit(fg.debug.memory()["live"] + extra)
    fg.debug.set_memory_limit(None)


def mlp(lib: Any = fg) -> Callable[[], None]:
    x = lib.ones(32, 16)
    w1 = lib.full((16, 16), 0.01, requires_grad=True)
    w2 = lib.full((16, 4), 0.02, requires_grad=True)
    target = lib.tensor([0, 1, 2, 3] * 8)

    def step() -> None:
        h = (x @ w1).relu()
        parts = h.unbind(0)
        h = lib.stack(parts)[:, None].squeeze(1) + lib.cat([h[:, :8], h[:, 8:]], 1)
        loss = (
            lib.nn.functional.cross_entropy((h @ w2).tanh(), target)
            + h.exp().mean()
            + lib.log_softmax(h, 1).sum()
        )
        loss.backward()
        w1.grad = w2.grad = None

    return step


def test_allocation_failure_is_a_memory_error(limit: Callable[[int], None]):
    before = fg.debug.live()
    x = ones(10)
    limit(1 << 20)
    with pytest.raises(MemoryError, match="memory"):
        fg.zeros(1 << 20)
    with pytest.raises(MemoryError):
        x.expand(1 << 16, 10) * 2
    limit(1 << 30)
    assert (x * 2).sum().item() == 20.0
    del x
    assert fg.debug.live() == before


def test_failure_at_every_allocation_of_a_step_leaks_nothing(limit: Callable[[int], None]):
    step = mlp()
    step()
    before = fg.debug.live()
    failures = 0
    extra = 0
    while True:
        limit(extra)
        try:
            step()
            break
        except MemoryError:
            failures += 1
        finally:
            fg.debug.set_memory_limit(None)
        gc.collect()
        assert fg.debug.live() == before, f"after a failure with {extra} bytes left"
        assert fg.is_grad_enabled()
        extra += 256
    assert failures > 50
    step()
    assert fg.debug.live() == before


def test_failure_in_a_pass_that_records_leaks_nothing(limit: Callable[[int], None]):
    x = fg.full((8, 8), 0.1, requires_grad=True)

    def twice() -> None:
        (g,) = fg.autograd.grad((x @ x).tanh().exp().sum(), x, create_graph=True)
        fg.autograd.grad((g * g).sum(), x)

    twice()
    before = fg.debug.live()
    failures = 0
    for extra in range(0, 1 << 20, 192):
        limit(extra)
        try:
            twice()
            break
        except MemoryError:
            failures += 1
        finally:
            fg.debug.set_memory_limit(None)
        gc.collect()
        assert fg.debug.live() == before, f"after a failure with {extra} bytes left"
    assert failures > 20


# --- depth and breadth -------------------------------------------------------------------------------------


def test_deep_graph():
    x = ones(1)
    before = fg.debug.live()
    y = x
    for _ in range(200_000):
        y = y + 1.0
    y.backward()
    assert x.grad.tolist() == [1.0]
    x.grad = None
    del y
    assert fg.debug.live() == before


def test_deep_graph_that_saves_and_is_dropped_without_a_pass():
    x = ones(1)
    before = fg.debug.live()
    y = x
    for _ in range(200_000):
        y = y * 1.0
    del y
    assert fg.debug.live() == before


def test_deep_graph_with_hooks_on_every_thousandth_node():
    x = ones(1)
    y = x
    fired = []
    for k in range(50_000):
        y = y * 1.0
        if k % 1000 == 0:
            y.register_hook(lambda g, k=k: fired.append(k))
    y.backward()
    assert fired == list(range(49_000, -1, -1000))


def test_deep_chain_of_views():
    x = ones(2)
    y = x * 1
    for _ in range(20_000):
        y = y.view(2, 1).view(2)
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_node_with_many_users():
    x = ones(3)
    y = x * 2
    total = sum((y * float(k % 7) for k in range(10_000)), start=fg.zeros(3))
    total.sum().backward()
    assert x.grad.tolist() == [2.0 * sum(k % 7 for k in range(10_000))] * 3


def test_node_with_many_inputs_and_outputs():
    x = ones(10_000)
    parts = x.unbind()
    fg.stack(parts[::-1]).dot(fg.arange(10_000, dtype=fg.float32)).backward()
    assert x.grad.tolist() == [float(9_999 - k) for k in range(10_000)]


# --- wrong arguments ---------------------------------------------------------------------------------------

WRONG_CALLS: dict[str, Callable[[Any], Any]] = {
    "add a str": lambda x: x + "a",
    "str first": lambda x: "a" * x,
    "multiply by None": lambda x: x * None,
    "divide by a list": lambda x: x / [1, 2],
    "matmul with an int": lambda x: x @ 3,
    "fg.add of a str": lambda x: fg.add(x, "a"),
    "fg.exp of a list": lambda x: fg.exp([1.0]),
    "fg.exp of None": lambda x: fg.exp(None),
    "fg.matmul of an array": lambda x: fg.matmul(x, np.ones(2)),
    "cat of a tensor's name": lambda x: fg.cat("ab"),
    "cat with a number": lambda x: fg.cat([x, 3]),
    "stack of None": lambda x: fg.stack([x, None]),
    "where without tensors": lambda x: fg.where("c", x, x),
    "sum over a str": lambda x: x.sum("a"),
    "view of a float": lambda x: x.view(2.0),
    "reshape of a str": lambda x: x.reshape("a"),
    "transpose of floats": lambda x: x.view(1, 2).transpose(0.0, 1.0),
    "in-place add of a str": lambda x: x.detach().add_("a"),
    "in-place operator": lambda x: x.detach().__iadd__(object()) + 1,
    "clamp by a str": lambda x: x.clamp("a"),
    "pow of None": lambda x: x**None,
    "gather by a list": lambda x: fg.gather(x, 0, [0]),
    "index by a str": lambda x: x["a"],
    "set to a str": lambda x: x.detach().__setitem__(0, "a"),
    "tensor of a str": lambda x: fg.tensor("abc"),
    "zeros of a str": lambda x: fg.zeros("a"),
    "ones of a float": lambda x: fg.ones(2.5),
    "from_numpy of a list": lambda x: fg.from_numpy([1, 2]),
    "too many arguments": lambda x: fg.exp(x, x, x),
    "cross entropy of None": lambda x: fg.nn.functional.cross_entropy(x, None),
}


@pytest.mark.parametrize("what", WRONG_CALLS)
def test_wrong_types_are_type_errors_and_leak_nothing(what: str):
    x = ones()
    before = fg.debug.live()
    for _ in range(3):
        with pytest.raises((TypeError, IndexError) if what == "index by a str" else TypeError):
            WRONG_CALLS[what](x)
    gc.collect()
    assert fg.debug.live() == before
    assert (x * 2).sum().item() == 4.0


SHAPE_ERRORS: dict[str, Callable[[Any], Any]] = {
    "broadcast": lambda x: (x * 2) + fg.ones(3),
    "matmul": lambda x: x.view(1, 2) @ fg.ones(3, 1),
    "view": lambda x: (x * 2).view(3),
    "cat": lambda x: fg.cat([(x * 2).view(1, 2), fg.ones(1, 3)], 0),
    "dim": lambda x: (x * 2).sum(5),
    "index": lambda x: (x * 2)[7],
    "unbind": lambda x: x.sum().unbind(0),
    "gather": lambda x: fg.gather(x * 2, 0, fg.tensor([5])),
    "expand": lambda x: (x * 2).expand(3),
    "cross_entropy": lambda x: fg.nn.functional.cross_entropy((x * 2).view(1, 2), fg.tensor([9])),
    "in place": lambda x: (x * 2).add_(fg.ones(3)),
}


@pytest.mark.parametrize("what", SHAPE_ERRORS)
def test_failing_ops_on_recorded_tensors_leak_nothing(what: str):
    x = ones()
    before = fg.debug.live()
    for _ in range(3):
        with pytest.raises((RuntimeError, IndexError)):
            SHAPE_ERRORS[what](x)
    gc.collect()
    assert fg.debug.live() == before


# --- debug mode --------------------------------------------------------------------------------------------

# Only in a run in debug mode is the runtime for it compiled, which takes a minute.
in_debug_mode = pytest.mark.skipif(not flags.DEBUG, reason="for FASTGRAD_DEBUG=1")


@in_debug_mode
def test_debug_mode_runs_a_training_loop():
    out = assert_clean(
        """
        import fastgrad as fg, gc
        x = fg.randn(16, 4)
        target = fg.tensor([0, 1] * 8)
        w = fg.zeros(4, 2, requires_grad=True)
        seen = []
        w.register_hook(lambda g: seen.append(g.shape))
        optimizer = fg.optim.SGD([w], lr=0.1)
        for _ in range(20):
            loss = fg.nn.functional.cross_entropy(x @ w, target)
            loss.backward()
            optimizer.step()
            w.grad = None
        fg.debug.check()
        assert len(seen) == 20
        print(fg.debug.environment()["mode"]["debug"])
        """,
        FASTGRAD_DEBUG="1",
    )
    assert out.strip() == "on"


@in_debug_mode
def test_debug_mode_notices_the_use_of_a_freed_record():
    done = run_program(
        """
        import fastgrad as fg
        from fastgrad.native.build.loader import rt
        x = fg.ones(3)
        rt.release_handle(rt.handle_of(x))  # one reference too few: the record is freed under the object
        try:
            x + 1
        except Exception as error:
            print(type(error).__name__, error, flush=True)
        import os
        os._exit(0)
        """,
        FASTGRAD_DEBUG="1",
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Error" in done.stdout


@in_debug_mode
def test_debug_mode_notices_writes_outside_a_buffer():
    out = assert_clean(
        """
        import ctypes
        import fastgrad as fg
        x = fg.zeros(16)
        ctypes.c_float.from_address(x.data_ptr() + 64).value = 1.0
        del x
        try:
            fg.debug.check()
        except RuntimeError as error:
            print(error)
        """,
        FASTGRAD_DEBUG="1",
    )
    assert "overwritten" in out
