"""Gradient modes as context managers, decorators and calls; nested; per thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import fastgrad as fg
from tests.threads import PATIENCE, in_threads


@pytest.fixture(autouse=True)
def modes_are_restored():
    assert fg.is_grad_enabled()
    assert not fg.is_inference_mode_enabled()
    yield
    try:
        assert fg.is_grad_enabled()
        assert not fg.is_inference_mode_enabled()
    finally:
        fg.set_grad_enabled(True)


def recorded() -> bool:
    """Whether ops record now."""
    return (fg.ones(2, requires_grad=True) * 2).requires_grad


def state() -> tuple[bool, bool, bool]:
    return fg.is_grad_enabled(), fg.is_inference_mode_enabled(), recorded()


# --- as context managers -----------------------------------------------------------------------------------


def test_no_grad():
    x = fg.ones(2, requires_grad=True)
    with fg.no_grad():
        assert state() == (False, False, False)
        y = x * 2
        z = fg.ones(2, requires_grad=True)
    assert not y.requires_grad
    assert y.grad_fn is None
    assert y.is_leaf
    assert z.requires_grad
    assert (z * 2).requires_grad


def test_enable_grad_within_no_grad():
    with fg.no_grad():
        with fg.enable_grad():
            assert state() == (True, False, True)
        assert state() == (False, False, False)


def test_modes_with_parentheses_or_without_give_nothing_to_as():
    with fg.no_grad() as a, fg.enable_grad() as b, fg.set_grad_enabled(False) as c:
        assert a is b is c is None


@pytest.mark.parametrize("mode", [True, False])
def test_set_grad_enabled_as_context(mode: bool):
    with fg.set_grad_enabled(mode):
        assert state() == (mode, False, mode)
        with fg.set_grad_enabled(not mode):
            assert fg.is_grad_enabled() is not mode
        assert fg.is_grad_enabled() is mode


def test_set_grad_enabled_as_a_call_acts_at_once():
    fg.set_grad_enabled(False)
    assert state() == (False, False, False)
    fg.set_grad_enabled(True)
    assert state() == (True, False, True)


def test_set_grad_enabled_object_goes_back_to_what_was_before_it_was_made():
    guard = fg.set_grad_enabled(False)
    assert not fg.is_grad_enabled()
    with guard:
        assert not fg.is_grad_enabled()
    assert fg.is_grad_enabled()


@pytest.mark.parametrize(
    "mode", [fg.no_grad, fg.enable_grad, lambda: fg.set_grad_enabled(False), fg.inference_mode]
)
@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
def test_exceptions_leave_the_mode_as_it_was(mode: Callable[[], Any], error: type[BaseException]):
    with pytest.raises(error), mode():
        raise error
    assert state() == (True, False, True)


def test_deep_nesting():
    with (
        fg.no_grad(),
        fg.enable_grad(),
        fg.no_grad(),
        fg.no_grad(),
        fg.enable_grad(),
        fg.set_grad_enabled(False),
    ):
        assert not fg.is_grad_enabled()
        with fg.enable_grad():
            assert fg.is_grad_enabled()
        assert not fg.is_grad_enabled()
    assert fg.is_grad_enabled()


def test_one_object_used_again():
    guard = fg.no_grad()
    for _ in range(2):
        with guard:
            assert not fg.is_grad_enabled()
        assert fg.is_grad_enabled()


# --- as decorators -----------------------------------------------------------------------------------------


def test_decorators():
    @fg.no_grad()
    def with_parentheses(a: Any, *, b: int = 1) -> tuple[Any, int, bool]:
        """Text."""
        return a, b, fg.is_grad_enabled()

    @fg.no_grad
    def without() -> bool:
        return fg.is_grad_enabled()

    assert with_parentheses(1, b=2) == (1, 2, False)
    assert with_parentheses.__name__ == "with_parentheses"
    assert with_parentheses.__doc__ == "Text."
    assert without() is False
    assert fg.is_grad_enabled()


@pytest.mark.parametrize("mode", [True, False])
def test_set_grad_enabled_as_decorator(mode: bool):
    @fg.set_grad_enabled(mode)
    def function() -> bool:
        return fg.is_grad_enabled()

    assert fg.is_grad_enabled()
    assert function() is mode
    assert fg.is_grad_enabled()


def test_enable_grad_and_inference_mode_as_decorators():
    @fg.enable_grad()
    def enabled() -> bool:
        return fg.is_grad_enabled()

    @fg.inference_mode()
    def inference() -> tuple[bool, bool, bool]:
        return state()

    @fg.inference_mode
    def bare() -> bool:
        return fg.is_inference_mode_enabled()

    with fg.no_grad():
        assert enabled() is True
        assert not fg.is_grad_enabled()
    assert inference() == (False, True, False)
    assert bare() is True


def test_decorated_functions_can_recurse_and_raise():
    @fg.no_grad()
    def down(n: int) -> bool:
        if n == 0:
            raise KeyError("bottom")
        return down(n - 1)

    with pytest.raises(KeyError, match="bottom"):
        down(5)
    assert fg.is_grad_enabled()


def test_decorated_generator_keeps_its_mode_while_it_runs():
    @fg.no_grad()
    def numbers() -> Any:
        for _ in range(3):
            yield fg.is_grad_enabled()

    got = []
    for enabled in numbers():
        got.append(enabled)
        assert fg.is_grad_enabled()
    assert got == [False] * 3


# --- inference mode ----------------------------------------------------------------------------------------


def test_inference_mode():
    x = fg.ones(2, requires_grad=True)
    with fg.inference_mode():
        assert state() == (False, True, False)
        y = x * 2
        assert y.is_inference()
        assert x.view(2, 1).is_inference() is False
    assert not x.is_inference()
    assert not y.requires_grad
    assert y.is_inference()
    assert y.tolist() == [2.0, 2.0]


def test_inference_mode_false_switches_it_off():
    with fg.inference_mode():
        with fg.inference_mode(False):
            assert state() == (True, False, True)
        assert fg.is_inference_mode_enabled()


def test_inference_tensors_cannot_be_saved():
    x = fg.ones(2, requires_grad=True)
    with fg.inference_mode():
        y = fg.ones(2)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        x * y
    (x + y).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    z = x * y.clone()
    assert z.requires_grad


def test_inference_tensors_cannot_require_grad_outside():
    with fg.inference_mode():
        y = fg.ones(2)
    with pytest.raises(RuntimeError, match="inference tensor"):
        y.requires_grad_()
    assert not y.requires_grad


def test_inference_tensors_may_be_changed_inside_only():
    with fg.inference_mode():
        y = fg.ones(2)
        y.add_(1)
        assert y.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match=r"[Ii]nference tensor"):
        y.add_(1)
    assert y.tolist() == [2.0, 2.0]


# --- in place under modes ----------------------------------------------------------------------------------


def test_leaves_may_be_changed_under_no_grad_only():
    x = fg.ones(2, requires_grad=True)
    with pytest.raises(
        RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"
    ):
        x.add_(1)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        x[0].add_(1)
    assert x.tolist() == [1.0, 1.0]
    with fg.no_grad():
        x.add_(1)
        x[0] = 7.0
    assert x.tolist() == [7.0, 2.0]
    assert x.requires_grad
    assert x.is_leaf


def test_a_backward_pass_under_no_grad_works():
    x = fg.ones(2, requires_grad=True)
    y = (x * x).sum()
    with fg.no_grad():
        y.backward()
        assert not fg.is_grad_enabled()
    assert x.grad.tolist() == [2.0, 2.0]
    assert not x.grad.requires_grad


# --- threads -----------------------------------------------------------------------------------------------


def test_a_new_thread_starts_with_gradients_on():
    with fg.no_grad():
        seen = []
        in_threads(1, lambda k: seen.append(state()))
        assert not fg.is_grad_enabled()
    assert seen == [(True, False, True)]


def test_a_mode_of_another_thread_does_not_reach_this_one():
    inside, leave = threading.Event(), threading.Event()
    seen = []

    def other() -> None:
        with fg.no_grad():
            inside.set()
            leave.wait(PATIENCE)
            seen.append(state())
        seen.append(state())

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(PATIENCE)
    assert state() == (True, False, True)
    with fg.inference_mode():
        leave.set()
        thread.join()
        assert fg.is_inference_mode_enabled()
    assert seen == [(False, False, False), (True, False, True)]


def test_numbers_of_an_op_are_made_in_the_mode_of_the_thread_that_calls_it():
    """They are tensors, which the op saves: not those of inference mode, as another thread is in."""
    inside, done = threading.Event(), threading.Event()

    def work(k: int) -> None:
        if k == 0:
            with fg.inference_mode():
                assert fg.ones(2).is_inference()
                inside.set()
                assert done.wait(PATIENCE)
        else:
            x = fg.ones(2, requires_grad=True)
            assert inside.wait(PATIENCE)
            try:
                fg.true_divide(x, 2.0).sum().backward()
            finally:
                done.set()
            assert x.grad.tolist() == [0.5, 0.5]

    in_threads(2, work)


@pytest.mark.parametrize("count", [8, 100])
def test_many_threads_in_modes_at_once(count: int):
    barrier = threading.Barrier(count)

    def work(k: int) -> None:
        off = k % 3 != 0
        with fg.set_grad_enabled(not off):
            for _ in range(3):
                barrier.wait(PATIENCE)
                assert fg.is_grad_enabled() is not off
                assert recorded() is not off
        assert fg.is_grad_enabled()

    in_threads(count, work)


def test_threads_that_end_in_another_mode_leave_nothing_behind():
    for _ in range(200):
        in_threads(1, lambda k: fg.set_grad_enabled(False) and None)
    barrier = threading.Barrier(2)

    def work(k: int) -> None:
        with fg.set_grad_enabled(k == 0):
            for _ in range(10):
                barrier.wait(PATIENCE)
                assert recorded() is (k == 0)

    in_threads(2, work)
    seen = []
    in_threads(1, lambda k: seen.append(state()))
    assert seen == [(True, False, True)]


def test_hooks_of_passes_on_two_threads_see_the_mode_of_their_pass():
    barrier = threading.Barrier(2)
    seen: dict[int, list[bool]] = {0: [], 1: []}

    def work(k: int) -> None:
        x = fg.ones(2, requires_grad=True)

        def hook(g: Any) -> None:
            barrier.wait(PATIENCE)
            seen[k].append(fg.is_grad_enabled())
            barrier.wait(PATIENCE)
            seen[k].append((g * x).requires_grad)

        x.register_hook(hook)
        fg.autograd.grad((x * x).sum(), x, create_graph=k == 1)
        assert fg.is_grad_enabled()

    in_threads(2, work)
    assert seen == {0: [False, False], 1: [True, True]}
