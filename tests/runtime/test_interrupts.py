"""Ctrl-C at any moment: modes and hooks are as they were, no pass is left under way, and nothing is lost."""

from __future__ import annotations

import dis
import gc
import itertools
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fastgrad as fg
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.flags import N_SETTINGS
from fastgrad.native.host.tape import record

PACKAGE = str(Path(fg.__file__).parent)


class Twice(fg.autograd.Function):
    """A custom function of one argument."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2 + ctx.saved_tensors[0] * 0


class TwiceWithSetup(Twice):
    """The same with a function of its own for what is saved."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x * 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)


STATEMENTS: dict[str, Callable[[], Any]] = {}


def statement(function: Callable[[], Any]) -> Callable[[], Any]:
    STATEMENTS[function.__name__] = function
    return function


def leaf() -> Any:
    return fg.ones(2, requires_grad=True)


def enable_grad_around(call: Callable[[], Any]) -> None:
    """Hooks run with gradients off."""
    with fg.enable_grad():
        call()


@statement
def backward() -> None:
    x = leaf()
    (x * x).sum().backward()


@statement
def backward_with_arguments() -> None:
    x = leaf()
    y = x * 2
    fg.autograd.backward([y, (y * y).sum()], [fg.ones(2), None], inputs=[x])


@statement
def grad() -> None:
    x = leaf()
    fg.autograd.grad((x * x).sum(), x)


@statement
def grad_of_grad() -> None:
    x = leaf()
    (g,) = fg.autograd.grad((x * x * x).sum(), x, create_graph=True)
    g.sum().backward()


@statement
def grad_in_a_dict() -> None:
    x = leaf()
    fg.autograd.grad((x * x).sum(), {"x": x, "w": leaf()}, allow_unused=True, materialize_grads=True)


@statement
def passes_within_passes() -> None:
    x = leaf()
    y = x * 2
    y.register_hook(lambda g: enable_grad_around(backward))
    y.sum().backward()


@statement
def no_grad() -> None:
    x = leaf()
    with fg.no_grad():
        x * 2


@statement
def enable_grad() -> None:
    with fg.no_grad(), fg.enable_grad():
        leaf() * 2


@statement
def set_grad_enabled() -> None:
    with fg.set_grad_enabled(False):
        leaf() * 2


@statement
def inference_mode() -> None:
    with fg.inference_mode():
        fg.ones(2) * 2


@statement
def decorated() -> None:
    @fg.no_grad
    def plain(x: Any) -> Any:
        return x * 2

    @fg.set_grad_enabled(False)
    def switched(x: Any) -> Any:
        return x * 2

    @fg.inference_mode()
    def generator(x: Any) -> Iterator[Any]:
        yield x * 2
        yield x * 3

    for function in (plain, switched):
        function(leaf())
    list(generator(fg.ones(2)))


@statement
def saved_tensors_hooks() -> None:
    x = leaf()
    with fg.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
        y = x.exp()
    y.sum().backward()


@statement
def hooks_in_force_during_a_pass() -> None:
    x = leaf()
    y = x.exp()
    y.register_hook(lambda g: enable_grad_around(saved_tensors_hooks))
    with fg.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y.sum().backward()


@statement
def refusing_saved_tensors_hooks() -> None:
    with fg.autograd.graph.disable_saved_tensors_hooks("not here"):
        leaf() * 2


@statement
def mutation() -> None:
    with fg.autograd.graph.allow_mutation_on_saved_tensors():
        y = leaf() * 2
        z = y.pow(2)
        y.zero_()
        z.sum().backward()


@statement
def node_creation_hook() -> None:
    with fg.autograd.graph.node_creation_hook(lambda node: None):
        leaf() * 2


@statement
def anomaly() -> None:
    with fg.autograd.set_detect_anomaly(True):
        backward()


@statement
def hooks() -> None:
    x = leaf()
    x.register_hook(lambda g: g * 2)
    x.register_post_accumulate_grad_hook(lambda p: None)
    y = x * 2
    with y.register_hook(lambda g: g * 2):
        y.grad_fn.register_hook(lambda gi, go: None)
        y.grad_fn.register_prehook(lambda go: None)
        y.sum().backward()


@statement
def hooks_over_several_tensors() -> None:
    x, w = leaf(), leaf()
    with fg.autograd.graph.register_multi_grad_hook((x, w), lambda gs: None):
        (x * w).sum().backward()


@statement
def callbacks() -> None:
    x = leaf()
    x.register_hook(lambda g: fg.autograd.graph.queue_callback(lambda: None))
    x.sum().backward()


@statement
def custom_functions() -> None:
    x = leaf()
    (Twice.apply(x) + TwiceWithSetup.apply(x)).sum().backward()


@statement
def checkpoint() -> None:
    x = leaf()
    fg.utils.checkpoint.checkpoint(lambda a: a.exp().sin(), x, use_reentrant=False).sum().backward()


@statement
def capture() -> None:
    x = fg.ones(2)
    with record() as tape:
        x * 2
    tape.replay()


def assert_nothing_is_under_way(mode: int) -> None:
    """Modes and hooks are as they were; no pass and no capture is under way."""
    assert rt.get_mode() == mode
    assert [rt.setting(k) for k in range(N_SETTINGS)] == [None] * N_SETTINGS
    assert not rt.current_pass()
    assert not rt.capturing()


def assert_nothing_is_left(before: dict[str, int]) -> None:
    """Live records are as many as they were."""
    gc.collect()
    assert fg.debug.live() == before


# --- at each moment in the library ---------------------------------------------------------------------


class Interruption(BaseException):
    """What a signal's handler raises."""


# Behind these Python handles signals, and nowhere else: behind others no handler can raise, such as between the last
# instruction of a block and the call that leaves it.
HANDLED_BEHIND = ("CALL", "RESUME", "JUMP_BACKWARD")


def interrupt(call: Callable[[], Any], n: int) -> bool:
    """Call a function and raise at the n-th moment at which a signal might be handled in a frame of the library;
    whether it came to that.
    """
    left = n

    def begin(frame: Any, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        code, handled = frame.f_code.co_code, False

        def local(frame: Any, event: str, argument: Any) -> Any:
            nonlocal left, handled
            if event == "exception":  # a call that raises is not such a moment
                handled = False
            elif event == "opcode":
                if handled:
                    left -= 1
                    if left == 0:
                        raise Interruption
                name = dis.opname[code[frame.f_lasti]]
                handled = name.startswith(HANDLED_BEHIND) and not name.startswith("CALL_INTRINSIC")
            return local

        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return local

    sys._getframe().f_trace_opcodes = (
        True  # Python 3.12 looks whether any frame has it when the tracing begins
    )
    sys.settrace(begin)
    try:
        call()
    except Interruption:
        return True
    finally:
        sys.settrace(None)
    return False


@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.skipif(sys.gettrace() is not None, reason="something else traces")
def test_interrupted_at_each_moment(name: str):
    call = STATEMENTS[name]
    for _ in range(2):  # compiles kernels and fills caches
        call()
    gc.collect()
    before, mode = fg.debug.live(), rt.get_mode()
    for n in itertools.count(1):
        interrupted = interrupt(call, n)
        assert_nothing_is_under_way(mode)
        if not interrupted:
            break
    assert n > 5 or sys.version_info >= (3, 13)  # which does not report every instruction to a tracer
    assert_nothing_is_left(before)


def test_nothing_is_handled_when_the_collector_runs():
    """Python drops what is raised in a callback of the collector: the library's is compiled, and always complete."""
    assert leaf().exp().grad_fn is not None  # Python makes the class of such nodes, once
    shared = leaf().exp()
    kept = [shared * 2, shared * 3]
    kept[0].grad_fn.metadata["itself"] = kept[0].grad_fn  # now collections walk along the graph
    before = fg.debug.live()
    assert not interrupt(gc.collect, 1)
    assert fg.debug.live()["nodes"] == before["nodes"]


@pytest.mark.parametrize("moment", range(1, 30))
def test_a_hook_is_registered_or_not(moment: int):
    """A leaf whose registration was interrupted runs the hook if and only if it has it."""
    x = leaf()
    ran: list[Any] = []
    interrupt(lambda: x.register_hook(ran.append), moment)
    x.register_hook(lambda g: None)
    (x * 2).sum().backward()
    assert len(ran) == len(x._backward_hooks) - 1


# --- by a timer --------------------------------------------------------------------------------------------------


@pytest.fixture
def alarm() -> Iterator[Callable[[float], None]]:
    """Sets off a KeyboardInterrupt after some seconds; zero calls it off.

    It rings again where Python drops the first one: in callbacks of weak references, and of the collector, others'.
    """
    armed = False

    def ring(*_: object) -> None:
        if armed:
            raise KeyboardInterrupt

    def set_alarm(seconds: float) -> None:
        nonlocal armed
        armed = seconds > 0
        signal.setitimer(signal.ITIMER_REAL, seconds, 1.0 if armed else 0.0)

    handler = signal.signal(signal.SIGALRM, ring)
    yield set_alarm
    set_alarm(0)
    signal.signal(signal.SIGALRM, handler)


def test_interrupted_by_a_timer(alarm: Callable[[float], None], monkeypatch: pytest.MonkeyPatch):
    dropped: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda given: dropped.append(given.exc_type))
    everything = list(STATEMENTS.values())
    for call in everything:
        call()
    gc.collect()
    before, mode = fg.debug.live(), rt.get_mode()
    for k in range(400):
        try:
            alarm(0.0002 + 0.0001 * (k % 17))
            while True:
                for call in everything:
                    call()
        except KeyboardInterrupt:
            alarm(0)
        assert_nothing_is_under_way(mode)
    assert set(dropped) <= {KeyboardInterrupt}
    assert_nothing_is_left(before)
    backward()
