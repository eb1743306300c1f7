"""Launches beside which other threads run: the memory that they work on stays theirs until they are over."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad import flags
from fastgrad.kernels.compile import compile_kernel
from fastgrad.native.build.loader import rt, runtime_get
from fastgrad.native.contracts.frames.framed import AS_BEFORE
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host import devices
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import float_bits

N = 1 << 20  # elements: other threads run beside kernels over so many
SIDE = 1 << 10

# --- at a moment of one's choice -----------------------------------------------------------------------------------


class Gate:
    """A device with the CPU's kernels.

    What `before` is set to runs once while a kernel is being found, `inside` in the next launch that others run beside.
    """

    def __init__(self) -> None:
        self.before: Callable[[], None] | None = None
        self.inside: Callable[[], None] | None = None
        self._kept: list[Any] = []

    def __call__(self, kernel: Any, dtype: int, layout_class: int) -> int:
        call, self.before = self.before, None
        if call:
            call()
        run = ctypes.CFUNCTYPE(None, ctypes.c_int64)(compile_kernel(kernel, dtype, layout_class))

        def gated(frame: int) -> None:
            if self.inside and runtime_get("n_flights"):
                call, self.inside = self.inside, None
                call()
            run(frame)

        self._kept += (run, ctypes.CFUNCTYPE(None, ctypes.c_int64)(gated))
        return ctypes.cast(self._kept[-1], ctypes.c_void_p).value or 0


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    found = Gate()
    devices.register_device("gate", 2, found)
    yield found
    del devices.NAMES["gate"]


def ones(*sizes: int) -> Any:
    return fg.ones(*(sizes or (N,)), device="gate")


TAKES: dict[str, Callable[[Any], None]] = {
    "data": lambda x: setattr(x, "data", ones(4)),
    "set_": lambda x: x.set_(ones(4)),
    "data of another size": lambda x: setattr(x, "data", ones(N * 2)),
}


@pytest.mark.parametrize("take", TAKES.values(), ids=TAKES)
@pytest.mark.parametrize("moment", ["before", "inside"])
def test_memory_waits_for_the_launch_that_works_on_it(gate, moment, take):
    x = ones()
    address = x.data_ptr()
    seen: list[Any] = []

    def taken() -> None:
        take(x)
        seen.extend(ones() for _ in range(4))

    x.exp()  # finds the kernel of a fill
    if moment == "before":
        rows = {"data": fg.sin, "set_": fg.cos, "data of another size": fg.tanh}  # not found yet
        name = next(name for name, function in TAKES.items() if function is take)
        gate.before = taken
        out = rows[name](x)
        expected = rows[name](fg.ones(1)).item()
    else:
        gate.inside = taken
        out = x.exp()
        expected = fg.ones(1).exp().item()
    assert len(seen) == 4
    assert address not in [y.data_ptr() for y in seen]
    assert (out.cpu() == expected).all()
    assert out.numel() == N
    assert not runtime_get("n_flights")
    held = [ones() for _ in range(16)]
    assert address in [y.data_ptr() for y in held]


def test_what_a_pass_works_on_waits(gate):
    x = ones().requires_grad_()
    x.grad = ones()
    out = x.exp().sum()
    out.backward(retain_graph=True)
    done: list[bool] = []

    def taken() -> None:
        x.grad = None
        out.backward()  # frees what the nodes have saved
        done.append(True)

    gate.inside = taken
    out.backward()
    assert done
    assert not runtime_get("n_flights")


def test_a_new_layout_waits_until_no_other_thread_is_in_a_launch(gate):
    x = ones()
    done: list[float] = []

    def assign() -> None:
        x.data = ones(3)
        done.append(time.monotonic())

    thread = threading.Thread(target=assign)

    def start() -> None:
        thread.start()
        time.sleep(0.1)
        assert not done

    x.add_(1)
    gate.inside = start
    x.add_(1)
    thread.join(60)
    assert done
    assert x.numel() == 3


def test_a_full_list_frees_nothing(gate):
    """Launches for which there is no place on the list hold all memory."""
    x = ones()
    limit = 70
    depth = 0
    freed: list[int] = []

    def deeper() -> None:
        nonlocal depth
        depth += 1
        if depth < limit:
            gate.inside = deeper
            ones().neg_()
            return
        assert runtime_get("uncounted") > 0
        y = ones()
        freed.append(y.data_ptr())
        del y
        assert ones().data_ptr() != freed[0]

    ones().neg_()
    gate.inside = deeper
    x.neg_()
    assert freed
    assert not runtime_get("n_flights")
    assert not runtime_get("uncounted")


def test_both_threads_add_to_a_gradient(gate):
    """A pass that comes to a leaf waits until another one has added to it."""
    x = fg.ones(N, requires_grad=True)

    def passes() -> None:
        for _ in range(20):
            (x * 1).sum().backward()

    threads = [threading.Thread(target=passes) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert (x.grad == 40).all()


def test_a_forked_child_knows_of_no_launch_of_a_thread_that_it_lacks(gate):
    """Memory that such a launch works on is freed there at once, and nobody waits for its end."""
    x = ones()
    address = x.data_ptr()
    inside, over = threading.Event(), threading.Event()

    def wait() -> None:
        inside.set()
        assert over.wait(60)

    x.exp_()
    gate.inside = wait
    thread = threading.Thread(target=x.exp_)
    thread.start()
    assert inside.wait(60)
    assert runtime_get("n_flights") == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
        child = os.fork()
    if child == 0:
        code = 1
        try:
            forgotten = not runtime_get("n_flights")
            x.data = ones(4)
            seen = [ones().data_ptr() for _ in range(4)]
            code = 0 if forgotten and address in seen else 2
        finally:
            os._exit(code)
    over.set()
    thread.join(60)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not runtime_get("n_flights")


# --- at any moment -------------------------------------------------------------------------------------------------


class Scene:
    """Tensors of ones that threads work on, take away and watch."""

    def __init__(self) -> None:
        self.a = fg.ones(SIDE, SIDE)
        self.b = fg.ones(SIDE, SIDE)
        self.leaf = fg.ones(SIDE, SIDE, requires_grad=True)
        self.total = (self.leaf * self.leaf).sum()


def check(value: Any, *allowed: float) -> None:
    assert any((value == number).all() for number in allowed), value


WORKS: dict[str, Callable[[Scene], None]] = {
    "add_": lambda s: s.a.add_(0),
    "mul": lambda s: check(s.a * s.b, 1),
    "matmul": lambda s: check((s.a @ s.b)[:2], SIDE),
    "sort": lambda s: check(s.a.view(-1)[: 1 << 16].sort()[0], 1),
    "copy_": lambda s: s.a.copy_(s.b),
    "softmax": lambda s: s.a.softmax(-1),
    "sum": lambda s: check(s.a.sum(0), SIDE, 4),
    "cast": lambda s: check(s.a.to(fg.float64), 1),
    "linear": lambda s: F.linear(s.a, s.b),
    "pass": lambda s: check(fg.autograd.grad(s.total, s.leaf, retain_graph=True)[0], 2),
    "backward": lambda s: (s.leaf * s.a).sum().backward(),
}


def give(scene: Scene) -> None:
    scene.a.data = fg.ones(4, 4)
    scene.a.data = fg.ones(SIDE, SIDE)


def replace(scene: Scene) -> None:
    scene.a = fg.ones(SIDE, SIDE)
    scene.leaf.grad = None


def free(scene: Scene) -> None:
    scene.leaf = fg.ones(SIDE, SIDE, requires_grad=True)
    scene.total = (scene.leaf * scene.leaf).sum()


def put(scene: Scene) -> None:
    scene.a.set_(fg.ones(4))
    scene.b.set_(fg.ones(SIDE, SIDE))
    scene.a.set_(fg.ones(SIDE, SIDE))


@pytest.mark.parametrize("take", [give, replace, free, put])
@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
def test_memory_is_taken_away_under_ops(work, take):
    scene, stop, wrong = Scene(), threading.Event(), []

    def works() -> None:
        while not stop.is_set():
            try:
                work(scene)
            except RuntimeError:  # sizes that do not fit, or another tensor's graph
                pass
            except BaseException as error:
                wrong.append(error)
                stop.set()

    work(scene)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=works)
    thread.start()
    try:
        for _ in range(25):
            take(scene)
            watched = [fg.zeros(SIDE, SIDE) for _ in range(3)]
            time.sleep(0.001)
            assert all((x == 0).all() for x in watched)
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)
    assert not wrong, wrong[0]


# --- outputs ---------------------------------------------------------------------------------------------------------


def layer_norm_of(rows: int, *statistics: int):
    x = fg.ones(3, 4)
    integers = (float_bits(1e-5), rows, 1, 4, 1, 0, -1, len(statistics), *statistics, AS_BEFORE)
    return rt.apply(BY_NAME["layer_norm.plain"].id, 3, 0, x, None, None, *integers)


@pytest.mark.parametrize(
    ("rows", "statistics"),
    [(3, (1, 2)), (3, (4,)), (3, (5, 2)), (3, ()), (3, (0, 3)), (2, (2, 1)), (-3, (3, 1))],
)
def test_what_a_kernel_writes_is_as_large_as_its_declaration_says(rows: int, statistics: tuple[int, ...]):
    assert [s.shape for s in layer_norm_of(3, 3, 1)[1:]] == [(3, 1), (3, 1)]
    with pytest.raises(RuntimeError, match=r"do not fit|another number of elements"):
        layer_norm_of(rows, *statistics)


# --- debug mode ------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not flags.DEBUG, reason="debug mode checks frames")
def test_a_launch_over_memory_of_nobody_is_refused():
    x = fg.ones(8)
    place = ctypes.c_int64.from_address(rt.handle_of(x) + TENSOR.offset("data"))
    address = place.value
    y = fg.ones(1000)
    gone = y.data_ptr()
    del y
    for wrong in (gone, 64):
        place.value = wrong
        try:
            with pytest.raises(RuntimeError, match="no address in the memory of a tensor"):
                x * 2
            with pytest.raises(RuntimeError, match="no address in the memory of a tensor"):
                x.add_(1)
        finally:
            place.value = address
    assert (x * 2).tolist() == [2] * 8


@pytest.mark.skipif(not flags.DEBUG, reason="debug mode checks frames")
def test_a_launch_that_reaches_out_of_its_memory_is_refused():
    x = fg.ones(8)
    place = ctypes.c_int64.from_address(rt.handle_of(x) + TENSOR.offset("data"))
    address = place.value
    place.value = address + 4  # of eight elements, seven are its own
    try:
        for call in (lambda: x * x, lambda: x.cumsum(0), x.exp, x.exp_):
            with pytest.raises(RuntimeError, match="or reaches out of it"):
                call()
    finally:
        place.value = address
    assert (x * x).tolist() == [1] * 8
