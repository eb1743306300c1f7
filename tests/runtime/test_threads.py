"""Launches on several threads: the same results on any number of them, and no thread is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad.native.build.loader import rt, runtime_get, runtime_set
from fastgrad.native.host import threads
from tests.threads import TASKS, in_threads, n_tasks, tasks

N = 1 << 18  # elements: a launch over so many is divided
ROOT = Path(__file__).parents[2]
needs_tasks = pytest.mark.skipif(not TASKS.exists(), reason="the system does not show a process's threads")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    number, part_work = fg.get_num_threads(), runtime_get("part_work")
    runtime_set("part_work", threads.PART_WORK)
    yield
    runtime_set("part_work", part_work)
    fg.set_num_threads(number)


def large_sum(x: fg.Tensor) -> np.ndarray:
    return (x.exp() * x).softmax(0).numpy()


# --- the number of threads -------------------------------------------------------------------------------------


def test_the_number_can_be_set():
    for n in (3, 1, 2):
        fg.set_num_threads(n)
        assert fg.get_num_threads() == n
    fg.set_num_threads(1 << 40)
    assert fg.get_num_threads() == 256


@pytest.mark.parametrize("wrong", [0, -1, "2", 2.5, True, None])
def test_what_is_no_number_of_threads_is_refused(lib, wrong):
    before = lib.get_num_threads()
    with pytest.raises(RuntimeError, match="expects"):
        lib.set_num_threads(wrong)
    assert lib.get_num_threads() == before


def number_in_a_process(code: str, **environment: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", f"{code}; import fastgrad as fg; print(fg.get_num_threads())"],
        env={**os.environ, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return run.stdout.strip() or run.stderr


def test_the_environment_says_how_many():
    assert number_in_a_process("pass", FASTGRAD_NUM_THREADS="3") == "3"
    assert "FASTGRAD_NUM_THREADS must be a positive number, but is 'many'" in number_in_a_process(
        "pass", FASTGRAD_NUM_THREADS="many"
    )


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinity")
def test_by_default_there_are_as_many_as_usable_cores():
    assert number_in_a_process("pass", FASTGRAD_NUM_THREADS="") == str(threads.usable_cores())
    one = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"
    assert number_in_a_process(one, FASTGRAD_NUM_THREADS="") == "1"


@pytest.mark.parametrize(("quota", "cores"), [(0.5, 1), (1.0, 1), (1.5, 2), (2.0, 2), (float("inf"), 4)])
def test_a_limit_of_the_control_group_counts(monkeypatch: pytest.MonkeyPatch, quota: float, cores: int):
    monkeypatch.setattr(threads, "_quota", lambda: quota)
    monkeypatch.setattr(threads, "_core", lambda cpu: (str(cpu // 2),))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert threads.usable_cores() == cores


# --- results ---------------------------------------------------------------------------------------------------


def test_results_are_the_same_on_any_number_of_threads():
    x = fg.randn(N)
    results = []
    for n in (1, 2, 5):
        fg.set_num_threads(n)
        results.append(large_sum(x))
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


REDUCTIONS = {
    "sum": (fg.Tensor.sum, np.sum), "mean": (fg.Tensor.mean, np.mean), "amax": (fg.Tensor.amax, np.max),
    "amin": (fg.Tensor.amin, np.min),
}  # fmt: skip


@pytest.mark.parametrize("sizes", [(N,), (2, 3 * N // 4), (512, 3, 512), (262_147,), (3, 7, 20_011)])
@pytest.mark.parametrize("which", REDUCTIONS)
def test_reductions_to_few_numbers(which: str, sizes: tuple[int, ...]):
    ours, theirs = REDUCTIONS[which]
    fg.manual_seed(0)
    x = fg.randn(*sizes) + 1
    for dims in [tuple(range(len(sizes))), *([(0,), tuple(range(1, len(sizes)))] if len(sizes) > 1 else [])]:
        results = []
        for n in (1, 5):
            fg.set_num_threads(n)
            results.append(ours(x, dims).numpy())
        np.testing.assert_array_equal(*results)
        np.testing.assert_allclose(results[0], theirs(x.numpy().astype(np.float64), dims), rtol=3e-7)


@pytest.mark.parametrize("dtype", [fg.bool, fg.uint8, fg.int64])
def test_reductions_of_integers_to_one_number(dtype: fg.dtype):
    x = (fg.arange(N) % 251).to(dtype)
    assert x.sum().item() == x.numpy().sum(dtype=np.int64)
    assert bool(x.any())
    assert not bool(x.all())
    assert not bool((x == 252).any())
    assert bool((x != 252).all())


@pytest.mark.parametrize("dtype", [fg.float32, fg.float64])
def test_random_numbers_do_not_depend_on_threads(dtype: fg.dtype):
    drawn = []
    for n in (1, 2, 5):
        fg.set_num_threads(n)
        fg.manual_seed(3)
        made = (fg.rand(N + 3, dtype=dtype), fg.randn(N + 3, dtype=dtype), fg.randint(0, 1 << 40, (N + 3,)))
        drawn.append([x.numpy() for x in made])
    for other in drawn[1:]:
        for a, b in zip(drawn[0], other, strict=True):
            np.testing.assert_array_equal(a, b)
    runtime_set("part_work", 1 << 40)
    fg.manual_seed(3)
    np.testing.assert_array_equal(fg.rand(N + 3, dtype=dtype).numpy(), drawn[0][0])


@pytest.mark.parametrize(
    "kind", [fg.optim.SGD, fg.optim.Adam, fg.optim.AdamW, fg.optim.RMSprop, fg.optim.Adagrad]
)
def test_steps_of_optimizers_do_not_depend_on_threads(kind: type[fg.optim.Optimizer]):
    fg.manual_seed(0)
    start, gradient = fg.randn(N), fg.randn(N)
    results = []
    for n, part_work in ((1, 1 << 40), (1, threads.PART_WORK), (5, threads.PART_WORK)):
        fg.set_num_threads(n)
        runtime_set("part_work", part_work)
        p = start.clone().requires_grad_()
        optimizer = kind([p], lr=0.1)
        for _ in range(3):
            p.grad = gradient.clone()
            optimizer.step()
        assert [s["step"].item() for s in optimizer.state.values() if "step" in s] in ([], [3.0])
        results.append(p.detach().numpy())
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


SELECTIONS = {
    "argmax of all": lambda x, _: x.argmax(), "argmin of rows": lambda x, _: x.argmin(1),
    "max of columns": lambda x, _: fg.cat([part.to(fg.float32) for part in x.max(0)]),
    "few long rows": lambda x, _: x.reshape(2, -1).min(1).indices,
    "gather from rows": lambda x, i: x.gather(1, i), "gather from columns": lambda x, i: x.gather(0, i),
    "gather from all": lambda x, i: x.reshape(-1).gather(0, i.reshape(-1)),
    "scatter to rows": lambda x, i: x.scatter_add(1, i, x), "scatter to columns": lambda x, i: x.scatter_add(0, i, x),
    "scatter to all": lambda x, i: x.reshape(-1).scatter_add(0, i.reshape(-1), x.reshape(-1)),
    "one of each row": lambda x, i: x.gather(1, i[:, :1]),
    "sorted": lambda x, _: x.reshape(-1).sort().values, "places of the sorted": lambda x, _: x.reshape(-1).argsort(),
    "gradient of a table": lambda x, i: fg.autograd.grad(
        F.embedding(i[0], table := x[:, :97].clone().requires_grad_(), padding_idx=3), table, x[:, 5:102]
    )[0],
}  # fmt: skip


@pytest.mark.parametrize("name", SELECTIONS)
def test_what_is_selected_does_not_depend_on_threads(name: str):
    x, index = fg.randn(512, 512), fg.randint(0, 512, (512, 512))
    x[3, 5] = x[500, 7] = float("nan")
    results = []
    for n in (1, 2, 5):
        fg.set_num_threads(n)
        results.append(SELECTIONS[name](x, index).numpy())
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
    runtime_set("part_work", 1 << 40)
    np.testing.assert_array_equal(SELECTIONS[name](x, index).numpy(), results[0])


@pytest.mark.parametrize("n", [1, 3])
def test_of_several_bad_indices_the_first_is_named(n: int):
    fg.set_num_threads(n)
    index = fg.zeros(N, dtype=fg.int64)
    for bad in (N - 1, N // 2, N // 3):
        index[bad] = bad
    with pytest.raises((IndexError, RuntimeError), match=str(N // 3)):
        fg.ones(5, 1)[:, 0].gather(0, index)
    with pytest.raises((IndexError, RuntimeError), match=str(N // 3)):
        F.embedding(index, fg.ones(5, 4))


def test_several_python_threads_launch_at_once():
    fg.set_num_threads(3)
    x = fg.randn(N)
    expected = large_sum(x)

    def work(k: int) -> None:
        for _ in range(20):
            np.testing.assert_array_equal(large_sum(x), expected)
            if k == 0:
                fg.set_num_threads(2 + _ % 3)

    in_threads(4, work)


# --- threads come and go ---------------------------------------------------------------------------------------


def states() -> list[str]:
    return [fields[0] for fields in tasks()]


@needs_tasks
def test_threads_come_when_they_are_needed_and_go_when_they_are_not():
    """In a process where nothing else has threads that come or go."""
    code = f"""
import fastgrad as fg
from tests.threads import n_tasks
fg.set_num_threads(1)
x = fg.ones({N})
before = n_tasks()
fg.set_num_threads(4)
found = [n_tasks() - before]
fg.ones(2) * 2
found.append(n_tasks() - before)
x.exp()
found.append(n_tasks() - before)
fg.set_num_threads(1)
found.append(n_tasks() - before)
print(found)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=200, check=True, cwd=ROOT
    )
    assert done.stdout == "[0, 0, 3, 0]\n"


@needs_tasks
def test_idle_threads_sleep():
    fg.set_num_threads(4)
    fg.ones(N).exp()
    for _ in range(1000):
        if states().count("R") <= 1:  # this one
            return
        time.sleep(0.01)
    raise AssertionError(states())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_has_threads_of_its_own():
    fg.set_num_threads(3)
    x = fg.randn(N)
    expected = large_sum(x)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            same = (large_sum(x) == expected).all() and fg.get_num_threads() == 3
            code = 0 if same and (not TASKS.exists() or n_tasks() == 3) else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(large_sum(x), expected)


@pytest.mark.parametrize("ending", ["pass", "raise SystemExit(0)", "import os; os.kill(os.getpid(), 2)"])
def test_a_process_ends_with_its_threads(ending: str):
    code = f"""
import threading, fastgrad as fg
fg.set_num_threads(4)
x = fg.ones({N})
def work():
    while True:
        x.exp()
threading.Thread(target=work, daemon=True).start()
try:
    for _ in range(20):
        x.exp()
    {ending}
except KeyboardInterrupt:
    pass
print("the end")
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=200, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")


def test_parts_depend_on_the_work_alone():
    counts = []
    for n in (1, 2, 5):
        fg.set_num_threads(n)
        runtime_set("part_work", 1000)
        before = runtime_get("divided")
        fg.ones(10_000).exp()
        counts.append(runtime_get("divided") - before)
    assert counts[0] == counts[1] == counts[2] > 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_draws_whatever_other_threads_drew_when_it_was_forked():
    stop = threading.Event()

    def draw() -> None:
        while not stop.is_set():
            fg.get_rng_state()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=draw)
    thread.start()
    try:
        for _ in range(100):
            child = os.fork()
            if child == 0:
                signal.alarm(60)  # ends a child that waits for a lock of nobody's
                fg.rand(2)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)


PRODUCTS = {
    "small": [(70, 33, 40), (33, 70, 500), (500, 70, 33), (5, 64, 2000), (300, 300, 5)],
    "large": [(700, 700, 700), (1000, 37, 1001), (257, 1290, 630)],
    "whose last block is small": [(22, 394, 273), (454, 382, 112), (16, 300, 352)],
    "of few rows": [(2, 4100, 4200), (12, 2000, 4000), (15, 2203, 2857)],
}


@pytest.mark.parametrize("by_columns", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("sizes", PRODUCTS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_products_do_not_depend_on_threads(dtype: str, sizes: str, by_columns: tuple[bool, bool]):
    rng = np.random.default_rng(0)

    def matrix(rows: int, columns: int, turned: bool) -> fg.Tensor:
        size = (columns, rows) if turned else (rows, columns)
        values = rng.standard_normal(size) + (1j * rng.standard_normal(size) if "complex" in dtype else 0)
        x = fg.tensor(values.astype(dtype))
        return x.t() if turned else x

    before = fg.get_num_threads()
    for rows, k, columns in PRODUCTS[sizes]:
        a, b = matrix(rows, k, by_columns[0]), matrix(k, columns, by_columns[1])
        try:
            found = set()
            for count in (1, 2, 5):
                fg.set_num_threads(count)
                found.add((a @ b).numpy().tobytes())
        finally:
            fg.set_num_threads(before)
        assert len(found) == 1, (rows, k, columns)


@pytest.mark.parametrize(
    "read",
    [
        lambda x, i: x[i],
        lambda x, i: x.index_select(0, i),
        lambda x, i: x.gather(0, i),
        lambda x, i: x[:32, None].expand(32, 3).contiguous()[i[:300_000] // 32],
        lambda x, i: fg.scatter_add(x, 0, i, fg.ones(i.numel())),
    ],
    ids=["index", "index_select", "gather", "rows", "scatter_add"],
)
def test_indices_that_another_thread_changes(read):
    fg.set_num_threads(5)
    x, indices, done = fg.arange(1000.0), fg.zeros(2_000_000, dtype=fg.int64), threading.Event()
    array = indices.numpy()

    def change():
        while not done.is_set():
            array[-500_000:] = 1 << 60
            array[-500_000:] = 1

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(30):
            with contextlib.suppress(IndexError, RuntimeError):  # which says that an index is out of bounds
                assert 0 <= read(x, indices).min().item() <= 999
    finally:
        done.set()
        thread.join()


def test_a_look_at_the_graph_does_not_take_over_the_modes_of_another_thread() -> None:
    x = fg.ones(2, requires_grad=True)
    y = x * x
    inside, done = threading.Event(), threading.Event()

    def elsewhere() -> None:
        with fg.no_grad():
            inside.set()
            done.wait()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    inside.wait()
    # The first call of this thread since the other one switched its modes.
    found = rt.leads_elsewhere((y,), (x,))
    recording = fg.is_grad_enabled()
    done.set()
    thread.join()
    assert (found, recording) == (0, True)


def test_what_a_function_saves_does_not_go_to_the_hooks_of_another_thread() -> None:
    inside, done, packed = threading.Event(), threading.Event(), []

    def elsewhere() -> None:
        with fg.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
            inside.set()
            done.wait()

    thread = threading.Thread(target=elsewhere)

    class Square(fg.autograd.Function):
        @staticmethod
        def forward(ctx, x):  # type: ignore[no-untyped-def]
            ctx.save_for_backward(x)
            y = x * x
            if not thread.is_alive():
                thread.start()
            inside.wait()
            return y

        @staticmethod
        def backward(ctx, grad):  # type: ignore[no-untyped-def]
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    x = fg.full((2,), 3.0, requires_grad=True)
    try:
        y = Square.apply(x)
        recording = fg.is_grad_enabled()
        y.sum().backward()
    finally:
        done.set()
        thread.join()
    assert packed == []
    assert recording
    assert x.grad.tolist() == [6, 6]
