"""A kernel that is needed for the first time is found or compiled by Python: whatever that raises leaves the op."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from op_cases import OP_CASES, OpCase
from op_testing import Traced, by_name, keywords, samples_of, tensors

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad.kernels import compile as compile_module
from fastgrad.kernels.compile import compile_kernel
from fastgrad.native.build.loader import KERNEL_TABLE
from fastgrad.native.contracts.limits import N_DEVICES, N_DTYPES, N_LAYOUTS
from fastgrad.native.host import devices
from fastgrad.ops.kernel_table import KERNELS
from tests.runtime.test_safety import assert_clean


class Cells:
    """The kernel table, whose cells become empty again and are then filled by a resolver that can be told to raise.

    Attributes
    ----------
    asked : int
        How often a kernel was asked for since `empty`.
    """

    def __init__(self) -> None:
        self.addresses: dict[int, int] = {}
        self.filled: set[int] = set()
        self.asked = 0
        self.before: Callable[[int], None] = lambda asked: None

    def __call__(self, kernel: Any, dtype: int, form: int) -> int:
        """The resolver."""
        cell = (kernel.id * N_DEVICES * N_DTYPES + dtype) * N_LAYOUTS + form
        asked, self.asked = self.asked, self.asked + 1
        self.before(asked)
        if cell not in self.addresses:
            self.addresses[cell] = compile_kernel(kernel, dtype, form)
        self.filled.add(cell)
        return self.addresses[cell]

    def empty(self) -> None:
        """Let every kernel be asked for that has been found so far."""
        for cell in self.filled:
            KERNEL_TABLE[cell] = 0
        self.filled.clear()
        self.asked = 0

    def fill(self) -> None:
        """Put everything back."""
        for cell, address in self.addresses.items():
            KERNEL_TABLE[cell] = address


@pytest.fixture
def cells(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cells]:
    """An empty kernel table."""
    found = Cells()
    for kernel in KERNELS:
        for dtype, form in kernel.cells():
            cell = (kernel.id * N_DEVICES * N_DTYPES + dtype) * N_LAYOUTS + form
            address = KERNEL_TABLE[cell]
            if address:
                found.addresses[cell] = address
                found.filled.add(cell)
    monkeypatch.setitem(devices._resolvers, 0, found)
    found.empty()
    yield found
    found.fill()


def forward_and_backward(case: OpCase) -> None:
    """The first sample of a case, and its gradients, compiled and recorded."""
    sample = samples_of(case, "float32" if "float32" in case.dtypes else case.dtypes[0])[0]
    if not case.differentiable or case.inplace is not None:
        case.call(fg, *tensors(fg, sample.args), **keywords(fg, sample))
        return
    for create_graph in (False, True):
        Traced(fg, case, sample).gradients(create_graph=create_graph)


class Interruption(BaseException):
    """What the resolver raises in place of KeyboardInterrupt."""


@pytest.mark.parametrize("case", by_name(OP_CASES))
def test_what_the_search_raises_leaves_the_op(cells: Cells, case: OpCase):
    """At each kernel that an op and its derivatives ask for."""
    forward_and_backward(case)  # what it calls is planned, and what is computed once for all is there
    cells.empty()
    forward_and_backward(case)
    count = cells.asked
    for k in range(count):
        interruption = Interruption()

        def interrupt(asked: int, k: int = k, interruption: BaseException = interruption) -> None:
            if asked == k:
                raise interruption

        cells.empty()
        cells.before = interrupt
        caught: BaseException | None = None
        try:
            forward_and_backward(case)
        except BaseException as error:
            caught = error
        assert caught is interruption, f"kernel {k} of {count}: {caught!r}"
        assert caught.__cause__ is None
        caught.__traceback__ = interruption.__context__ = None
    cells.before = lambda asked: None
    cells.empty()
    forward_and_backward(case)


def test_the_traceback_leads_to_where_it_was_raised(cells: Cells):
    def interrupt(asked: int) -> None:
        raise ZeroDivisionError("while compiling")

    cells.before = interrupt
    with pytest.raises(ZeroDivisionError, match="while compiling") as raised:
        fg.ones(3)
    assert [entry.name for entry in raised.traceback][-3:] == ["_resolve", "__call__", "interrupt"]


FIRST: dict[str, Callable[[Any], Any]] = {
    "-x": lambda x: -x, "x * x": lambda x: x * x, "x + 1": lambda x: x + 1, "x < 0": lambda x: x < 0,
    "exp": fg.exp, "softmax": lambda x: fg.softmax(x, 0), "sum": lambda x: x.sum(), "x += 1": lambda x: x.add_(1),
    "conv1d": lambda x: F.conv1d(x.view(1, 1, 3), x.view(1, 1, 3)), "x @ x": lambda x: x @ x,
    "zeros": lambda x: fg.zeros(3), "rand": lambda x: fg.rand(3), "arange": lambda x: fg.arange(3),
    "backward": lambda x: (x.detach().requires_grad_() * 2).sum().backward(),
}  # fmt: skip


def depth_now() -> int:
    frame: Any = sys._getframe()
    depth = 0
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return depth


@pytest.mark.parametrize("what", FIRST)
def test_the_recursion_limit_may_be_reached_anywhere(cells: Cells, what: str):
    """A function of Python that cannot even begin has no way to say so but the exception itself."""
    call, limit = FIRST[what], sys.getrecursionlimit()
    x = fg.ones(3)
    call(x)
    reached, passed = 0, 0
    for k in range(1, 61):
        cells.empty()
        depth = depth_now()
        try:
            sys.setrecursionlimit(depth + k)
            call(x)
            passed += 1
        except RecursionError:
            reached += 1
        finally:
            sys.setrecursionlimit(limit)
    assert reached > 0  # how many frames a call has differs from one version of Python to the next
    assert passed > 5


def test_a_signal_at_any_moment_of_a_first_call():
    """Each first call comes to its end or raises KeyboardInterrupt, and the next one works."""
    out = assert_clean("""
        import random, signal, sys
        sys.path.insert(0, "tests")
        import fastgrad as fg
        from fastgrad.native.build.loader import KERNEL_TABLE
        from fastgrad.native.host import devices
        from fastgrad.ops.kernel_table import KERNELS
        from fastgrad.native.contracts.limits import N_DEVICES, N_DTYPES, N_LAYOUTS
        x = fg.tensor([1.0, -2.0, 3.0])
        known = {}
        resolver = devices._resolvers[0]
        def again(kernel, dtype, form):
            key = (kernel.id, dtype, form)
            if key not in known:
                known[key] = resolver(kernel, dtype, form)
            for _ in range(random.randrange(200)):
                pass
            return known[key]
        devices._resolvers[0] = again
        def empty():
            for kernel, dtype, form in known:
                KERNEL_TABLE[(kernel * N_DEVICES * N_DTYPES + dtype) * N_LAYOUTS + form] = 0
        def work():
            y = fg.exp(-x) * x + 2
            return y.sum().item()
        wanted = work()
        interrupted = 0
        armed = False
        def alarm(*_):
            if armed:
                raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, alarm)
        random.seed(0)
        for _ in range(1500):
            empty()
            try:
                armed = True
                signal.setitimer(signal.ITIMER_REAL, random.uniform(2e-6, 150e-6))
                got = work()
                armed = False
                assert got == wanted
            except KeyboardInterrupt:  # the timer goes off once
                interrupted += 1
            armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
        assert work() == wanted
        print(interrupted > 100)
    """)
    assert out == "True\n"


def test_nothing_is_kept_of_an_exception(cells: Cells):
    """Neither the exception nor the tensors of its frames."""
    before = fg.debug.live()["tensors"]

    def interrupt(asked: int) -> None:
        raise ZeroDivisionError

    cells.before = interrupt
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            fg.full((3,), 1.0)
    with pytest.raises(NotImplementedError, match="Bool"):
        fg.empty(3, dtype=fg.bool).abs()
    cells.before = lambda asked: None
    assert fg.debug.live()["tensors"] == before


@pytest.mark.parametrize("kind", [RecursionError, MemoryError])
def test_what_ctypes_hides_is_raised_as_it_was(monkeypatch: pytest.MonkeyPatch, kind: type[Exception]):
    class Argument:
        @classmethod
        def from_param(cls, value: Any) -> Any:
            raise kind("too much")

    def unit(*_: Any) -> Any:
        function = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(("PyObject_Repr", ctypes.pythonapi))
        function.argtypes = [Argument]
        return function(1)

    monkeypatch.setattr(compile_module, "unit", unit)
    with pytest.raises(kind, match="too much"):
        compile_kernel(KERNELS[0], 0, 0)


def test_an_argument_that_ctypes_refuses_is_an_error_of_ctypes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compile_module, "unit", lambda *_: ctypes.pythonapi.PyObject_Repr(object()))
    with pytest.raises(ctypes.ArgumentError):
        compile_kernel(KERNELS[0], 0, 0)
