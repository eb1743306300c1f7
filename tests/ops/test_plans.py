"""Functions with plans: a call that is repeated without Python gives what the function gives."""

from __future__ import annotations

import copy
import gc
import inspect
import itertools
import os
import pickle
import subprocess
import sys
import threading
import warnings
import weakref
from typing import Any

import numpy as np
import pytest
from op_cases import OpCase
from op_testing import Traced, array_of, as_list, by_dtype, by_error, exception_of, samples_of, tensors

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad import flags
from fastgrad.functions.plans import planned, unplanned, warn
from fastgrad.native.build.loader import Planned, runtime_get

CALLS = 5  # the first is noted, the second recorded; the later ones have a plan


class Counted:
    """A function with plans that counts how often Python runs it."""

    def __init__(self, function: Any) -> None:
        self.runs = 0

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.runs += 1
            return function(*args, **kwargs)

        self.call = planned(counted)


def runs_of(function: Any, *calls: Any) -> int:
    """How often Python runs a function that is called with each of these arguments, again and again."""
    counted = Counted(function)
    for args in calls:
        for _ in range(CALLS):
            counted.call(*args)
    return counted.runs


def assert_planned(runs: int, keys: int = 1) -> None:
    """Of `CALLS` calls with a key Python runs two; in debug mode also each second one that has a plan."""
    assert (3 * keys <= runs <= 4 * keys) if flags.DEBUG else runs == 2 * keys


def history(tensor: Any) -> Any:
    """Names of the nodes behind a tensor, as they hang together."""

    def below(node: Any) -> Any:
        return node and (type(node).__name__, [(below(n), k) for n, k in node.next_functions])

    return below(tensor.grad_fn)


@pytest.mark.parametrize(("case", "dtype"), by_dtype())
def test_a_plan_gives_what_the_function_gives(case: OpCase, dtype: str):
    for sample in samples_of(case, dtype):
        first: Any = None
        for _ in range(CALLS):
            traced = Traced(fg, case, sample)
            found = (
                [array_of(t) for t in traced.outputs],
                traced.gradient_arrays(),
                [(type(t), t.stride(), t._version, history(t)) for t in traced.outputs],
            )
            first = first or found
            for a, b in zip(found[0] + found[1], first[0] + first[1], strict=True):
                np.testing.assert_array_equal(a, b)
            assert found[2] == first[2]


@pytest.mark.parametrize(("case", "error"), by_error())
def test_a_plan_raises_what_the_function_raises(case: OpCase, error: Any):
    raised = {exception_of(error.call, fg, *tensors(fg, error.args)) for _ in range(CALLS)}
    assert len(raised) == 1


def test_python_runs_until_there_is_a_plan():
    x = fg.ones(2, 3)
    assert_planned(runs_of(lambda x: x.sum(1) * 2, (x,)))
    assert_planned(runs_of(lambda x: (x + 1).unbind(0), (x,)))
    assert_planned(runs_of(lambda x: x.max(1), (x,)))
    assert_planned(runs_of(lambda x, n, p, s, b, o: x * n, (x, 2, 0.5, "mean", True, None)))


def test_a_plan_is_for_what_looks_alike():
    x = fg.ones(2, 3)
    others = [
        fg.ones(3, 2), fg.ones(3, 2).t(), x.double(), x.clone().requires_grad_(), fg.ones(2, 3, 1), fg.nn.Parameter(x),
    ]  # fmt: skip
    for other in others:
        assert_planned(runs_of(lambda x: x * 2, (x,), (other,)), 2)
    for a, b in [
        (1, 2),
        (1, 1.0),
        (1, True),
        ("a", "b"),
        ((1, 2), [1, 2]),
        ((1,), (1, 1)),
        (None, 0),
        (None, ...),
        (slice(1), slice(1, None)),
        (slice(None), slice(None, None, 1)),
        ((slice(1), 2), (slice(1, 2),)),
        (fg.int32, fg.int64),
        (0.0, -0.0),
    ]:
        assert_planned(runs_of(lambda x, _: x * 2, (x, a), (x, b)), 2)


def test_which_tensors_are_the_same_belongs_to_the_key():
    x, y = fg.full((2,), 2.0), fg.full((2,), 3.0)
    counted = Counted(lambda a, b, c: a * 100 + b * 10 + c)
    for args in itertools.product((x, y), repeat=3):
        wanted = float("".join(str(int(t[0])) for t in args))
        assert [counted.call(*args)[0].item() for _ in range(CALLS)] == [wanted] * CALLS
    assert flags.DEBUG or counted.runs == 8


def test_modes_make_plans_of_their_own():
    x = fg.ones(3, requires_grad=True)
    for _ in range(CALLS):
        assert F.softplus(x).requires_grad
        with fg.no_grad():
            assert not F.softplus(x).requires_grad
        with fg.inference_mode():
            assert F.softplus(x).is_inference()


def test_keywords_belong_to_the_key():
    counted = Counted(lambda x, *, a=1, b=1: x * a + b)
    x = fg.ones(1)
    for _ in range(CALLS):
        assert counted.call(x, a=2).item() == 3
        assert counted.call(x, b=2).item() == 3
        assert counted.call(x, a=2, b=5).item() == 7
        assert counted.call(x, b=5, a=2).item() == 7
    assert_planned(counted.runs, 4)


def test_lists_of_tensors():
    for _ in range(CALLS):
        assert fg.cat([fg.ones(1), fg.zeros(2)]).tolist() == [1, 0, 0]
        assert fg.cat([fg.zeros(2), fg.ones(1)]).tolist() == [0, 0, 1]
        assert fg.stack((fg.ones(1), fg.zeros(1))).tolist() == [[1], [0]]


def test_what_does_not_change_is_told_apart_by_its_value():
    for same in (
        lambda: fg.device("cpu"),
        lambda: fg.ones(1).device,
        lambda: fg.device("cpu", 3),
        lambda: fg.channels_last,
        lambda: fg.strided,
        lambda: fg.float64,
    ):
        counted = Counted(lambda x, _: x * 2)
        for _ in range(CALLS):
            assert counted.call(fg.ones(1), same()).item() == 2
            assert counted.call(fg.ones(1), fg.contiguous_format).item() == 2
        assert_planned(counted.runs, 2)
    made = [fg.zeros(2, device=where) for where in ("cpu", fg.device("cpu"), fg.device("meta")) * CALLS]
    assert [t.device.type for t in made] == ["cpu", "cpu", "meta"] * CALLS


def test_what_is_done_in_place_at_the_end_belongs_to_plans():
    def change(x, y):
        x[0].mul_(y.sum())

    counted = Counted(change)
    for _ in range(CALLS):
        leaf, y = fg.ones(2, 2, requires_grad=True), fg.tensor([1.0, 2.0])
        x = leaf * 3
        assert counted.call(x, y) is None
        assert x.tolist() == [[9, 9], [3, 3]]
        x.sum().backward()
        assert leaf.grad.tolist() == [[9, 9], [3, 3]]
    assert_planned(counted.runs, 1)
    for _ in range(CALLS):
        with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
            counted.call(leaf, y)
    assert leaf.tolist() == [[1, 1], [1, 1]]


def test_writes_at_places_go_by_plans_but_look_at_memory_anew():
    x, mask = fg.zeros(3, 3), fg.eye(3).bool()
    for k in range(CALLS):
        x[mask] = k
        x[1, 2] = 10.0 + k
        x[2] = fg.tensor([1.0, 2.0, float(k)])
        x[:, 1] = x[:, 0]
        assert x.tolist() == [[k, k, 0], [0, 0, 10 + k], [1, 1, k]]
    line, at = fg.arange(4.0), fg.tensor([0, 1, 2])
    for index in (at, slice(3)):
        for _ in range(CALLS):
            line[index] = fg.ones(3)
        with pytest.raises(RuntimeError, match="unsupported operation: some elements"):
            line[index] = line[1:]


def test_no_plan_of_what_a_plan_would_not_repeat():
    x = fg.ones(2)
    elsewhere = fg.ones(2)
    generator = fg.Generator()
    for function in (
        lambda x: x * x.sum().item(),
        lambda x: x * float(x[0]),
        lambda x: x * int(x.numpy()[0]),
        lambda x: x + elsewhere,
        lambda x: x + fg.rand(2, generator=generator),
        lambda x: x + fg.empty(2).fill_(1),
        lambda x: x * fg.default_generator.get_state()[0],
        lambda x: fg.zeros(2, requires_grad=True),
        lambda x: (x * 2).requires_grad_(),
        lambda x: [x * 2],
        lambda x: elsewhere,
        lambda x: 3,
        lambda x: (x * 2, 3),
        lambda x: x.clone().mul_(2) + x,
        lambda x: x.detach(),
        lambda x: unplanned() or x * 2,
    ):
        assert runs_of(function, (x,)) == CALLS, inspect.getsource(function)
    for argument in (
        object(),
        1 << 70,
        np.float32(2),
        [[[1]]],
        {},
        {"a": 1},
        b"",
        slice(0, 1 << 70),
        slice(0.5),
        [0] * 200,
        [x] * 50,
    ):
        assert runs_of(lambda x, _: x * 2, (x, argument)) == CALLS


@pytest.mark.parametrize("module", [__name__, "fastgrad.elsewhere", None, 3])
def test_a_subclass_may_do_anything(module: Any):
    class Noisy(fg.Tensor):
        pass

    class Other(tuple):
        __slots__ = ()

    Noisy.__module__ = module
    assert runs_of(lambda x: x * 2, (Noisy([1.0, 1.0]),)) == CALLS
    assert runs_of(lambda x, _: x * 2, (fg.ones(2), Other((1,)))) == CALLS
    assert_planned(runs_of(lambda x, _: x * 2, (fg.ones(2), fg.Size((1,)))))


def test_plans_hold_no_class_of_users():
    class Mine(fg.Tensor):
        pass

    class Pair(tuple):
        __slots__ = ()

    Mine.function = planned(lambda x, _: x * 2)
    for _ in range(CALLS):
        Mine.function(Mine([1.0]), Pair((1, 2)))
        F.softplus(Mine([1.0]))
    classes = [weakref.ref(Mine), weakref.ref(Pair)]
    del Mine, Pair
    gc.collect()
    assert [ref() for ref in classes] == [None, None]


def test_an_argument_may_be_the_result():
    x = fg.ones(2)
    for _ in range(CALLS):
        assert fg.flatten(x) is x
    counted = Counted(lambda x, y: (y, x * 1, y))
    for _ in range(CALLS):
        a, b, c = counted.call(x, x)
        assert a is x
        assert c is x
        assert b is not x
    assert_planned(counted.runs)


def test_changes_in_place():
    def halve(x: Any) -> Any:
        return x.mul_(0.5)

    x = fg.full((2,), 64.0)
    counted = Counted(halve)
    for k in range(CALLS):
        assert counted.call(x) is x
        assert x._version == k + 1
    assert x.tolist() == [2.0, 2.0]
    leaf = fg.ones(2, requires_grad=True)
    for _ in range(CALLS):
        with pytest.raises(RuntimeError, match="leaf"):
            counted.call(leaf)


def test_changes_in_place_of_what_has_a_history():
    """They give the tensor that was changed, whose history is a longer one now."""
    leaf = fg.full((2,), 3.0, requires_grad=True)
    for counted in (Counted(lambda x: x.mul_(0.5)), Counted(lambda x: F.leaky_relu(x, 0.5, inplace=True))):
        for _ in range(CALLS):
            for x in (leaf * -1, (leaf * -1).view(1, 2)):
                changed = counted.call(x)
                assert changed is x
                assert history(changed) == history(x)
                assert fg.autograd.grad(changed.sum(), leaf)[0].tolist() == [-0.5, -0.5]
        assert_planned(counted.runs, 2)


def test_warnings_are_repeated():
    a, b = fg.ones(2), fg.ones(1)
    for _ in range(CALLS):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            F.mse_loss(a, b)
        assert len(seen) == 1
        assert seen[0].filename == __file__


def say(x: Any) -> Any:
    warn("listen", stacklevel=3)  # behind what counts
    return x * 2


def filtered(action: str, call: Any) -> list[Any]:
    """The warnings of `CALLS` calls from one place."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter(action)  # type: ignore[arg-type]
        for _ in range(CALLS):
            call()
    return seen


@pytest.mark.parametrize(("action", "count"), [("always", CALLS), ("default", 1), ("once", 1), ("ignore", 0)])
def test_warnings_of_plans_obey_filters(action: str, count: int):
    counted, x = Counted(say), fg.ones(2)
    seen = filtered(action, lambda: counted.call(x))
    assert [str(w.message) for w in seen] == ["listen"] * count
    assert {(w.filename, w.lineno) for w in seen} <= {
        (__file__, inspect.getsourcelines(test_warnings_of_plans_obey_filters)[1] + 3)
    }
    assert_planned(counted.runs)
    assert len(filtered("always", lambda: counted.call(x))) == CALLS
    elsewhere = compile("call(x)", "elsewhere", "eval")
    seen = filtered("default", lambda: eval(elsewhere, {"call": counted.call, "x": x}))
    assert [w.filename for w in seen] == ["elsewhere"] * CALLS  # of new modules each time


def test_warnings_of_plans_may_be_errors():
    counted, x = Counted(say), fg.ones(2)
    filtered("always", lambda: counted.call(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(CALLS):
            with pytest.raises(UserWarning, match="listen"):
                counted.call(x)
        warnings.simplefilter("ignore")
        assert counted.call(x).tolist() == [2, 2]


def test_what_shows_warnings_may_do_anything(monkeypatch: pytest.MonkeyPatch):
    counted, x = Counted(say), fg.ones(2)
    filtered("always", lambda: counted.call(x))
    depth = []

    def show(*_: Any, **__: Any) -> None:
        if len(depth) < 3:
            depth.append(0)
            counted.call(x)
            x.data = fg.ones(3 + len(depth))
            fg.set_grad_enabled(False)

    with warnings.catch_warnings(), fg.enable_grad():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", show)
        counted.call(x)
    assert len(depth) == 3
    calls: list[Any] = []
    monkeypatch.setattr(warnings, "warn", lambda *args, **_: calls.append(args[0]))
    before = counted.runs
    for _ in range(CALLS):
        counted.call(fg.ones(2))
    assert calls == ["listen"] * CALLS
    assert flags.DEBUG or counted.runs == before
    monkeypatch.delattr(warnings, "warn")
    for _ in range(CALLS):
        with pytest.raises(AttributeError, match="warn"):
            counted.call(fg.ones(2))


def test_no_plan_of_warnings_that_a_plan_cannot_give():
    inner = planned(lambda x: warn("listen", stacklevel=2) or x * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for function in (
            lambda x: inner(x) * 2,  # warns a function of the library's
            lambda x: (x * 2, warn("listen", stacklevel=3))[0],  # behind an op
            lambda x: warn("listen", stacklevel=1) or x * 2,
        ):
            assert runs_of(function, (fg.ones(2),)) == CALLS, inspect.getsource(function)


def test_errors_of_values_name_the_function():
    table, good = fg.ones(3, 2), fg.tensor([0, 2])
    for _ in range(CALLS):
        fg.index_select(table, 0, good)
    for _ in range(CALLS):
        with pytest.raises(IndexError, match="index_select"):
            fg.index_select(table, 0, fg.tensor([0, 3]))
        with pytest.raises(IndexError, match="index_select"):
            fg.index_select(table, 0, fg.tensor([0, -1]))


class BoomError(Exception):
    pass


def test_hooks_that_raise_leave_nothing_behind():
    def boom(_: Any) -> Any:
        raise BoomError

    x = fg.ones(2, requires_grad=True)
    for _ in range(CALLS):
        F.cross_entropy(x, fg.tensor(1))
    for _ in range(CALLS):
        with pytest.raises(BoomError), fg.autograd.graph.saved_tensors_hooks(boom, lambda t: t):
            F.cross_entropy(x, fg.tensor(1))
    assert F.cross_entropy(x, fg.tensor(1)).item() == pytest.approx(np.log(2))


def test_hooks_of_a_recorded_call_are_no_part_of_it():
    packed = []

    def pack(t: Any) -> Any:
        packed.append(F.elu(t.detach() * 2))
        return t

    counted = Counted(lambda x: F.softplus(x) + 1)
    x = fg.ones(2, requires_grad=True)
    with fg.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        for _ in range(CALLS):
            counted.call(x)
    n_packed = len(packed)
    assert_planned(counted.runs)
    assert n_packed >= CALLS
    assert counted.call(x).tolist() == pytest.approx([1 + np.log1p(np.e)] * 2)
    assert len(packed) == n_packed


def test_hooks_of_a_recorded_call_may_read_values():
    x = fg.ones(2, requires_grad=True)

    def pack(t: Any) -> Any:
        assert t.detach().sum().item() == 2
        return t

    for without_hooks in (0, CALLS):
        counted = Counted(F.softplus.__wrapped__)
        for _ in range(without_hooks):
            counted.call(x)
        with fg.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            for _ in range(CALLS):
                counted.call(x)
        assert counted.runs < CALLS + without_hooks


def test_what_the_collector_calls_is_no_part_of_a_recorded_call():
    x, log = fg.ones(2), []

    class Cycle:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            x.mul_(2)
            log.append(x.sum().item())

    def function(y: Any) -> Any:
        Cycle()
        return [[] for _ in range(1000)] and y

    counted = Counted(function)
    before = gc.get_threshold()
    gc.set_threshold(10)
    try:
        for _ in range(2 * CALLS):
            assert counted.call(x) is x
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert len(log) == counted.runs
    assert x[0].item() == 2.0 ** len(log)
    assert gc.isenabled()


def test_nothing_is_learned_where_sizes_change_meanwhile():
    """Neither by hooks of the call itself nor by another thread."""
    counted = Counted(lambda x: (x * x).reshape(x.shape[0], -1))
    x = fg.ones(6, 2, requires_grad=True)

    def change(_: Any) -> None:
        x.data = fg.ones(2, 3, 2)

    def grow(t: Any) -> Any:
        change(t)
        return t

    ways: tuple[Any, ...] = (grow, lambda t: (run_in_a_thread(change, t), t)[1])
    for way in ways:
        for _ in range(CALLS):
            x.data = fg.ones(6, 2)
            with fg.autograd.graph.saved_tensors_hooks(way, lambda t: t):
                assert counted.call(x).shape == (2, 6)
    x.data = fg.ones(6, 2)
    for _ in range(CALLS):
        assert counted.call(x).shape == (6, 2)


def test_another_thread_that_works_disturbs_no_call():
    counted = Counted(lambda x: run_in_a_thread(fg.add, x, x) or x * 2)
    for _ in range(CALLS):
        assert counted.call(fg.ones(2)).tolist() == [2.0, 2.0]
    assert counted.runs == CALLS


def run_in_a_thread(function: Any, *args: Any) -> None:
    thread = threading.Thread(target=function, args=args)
    thread.start()
    thread.join()


def test_no_plan_where_modes_change_within():
    def half_recorded(x: Any) -> Any:
        with fg.no_grad():
            scale = x * 2
        return x * scale

    x = fg.ones(2, requires_grad=True)
    assert runs_of(half_recorded, (x,)) == CALLS
    call = planned(half_recorded)
    for _ in range(CALLS):
        assert history(call(x)) == history(half_recorded(x))


def test_recursion_costs_little_of_the_stack():
    """A function with plans that calls itself thousands of times deep."""
    program = """
import sys, threading, fastgrad as fg
from fastgrad.functions.plans import planned
sys.setrecursionlimit(20_000)
threading.stack_size(16 << 20)

@planned
def deep(x, n):
    return deep(x, n - 1) if n else x

x = fg.ones(2)
def run():
    for _ in range(3):
        deep(x, 4000)
    print("done")
thread = threading.Thread(target=run)
thread.start()
thread.join()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "done\n", done.stderr


def test_a_fork_beside_a_recording_leaves_no_recording():
    inside, over = threading.Event(), threading.Event()

    def slow(x: Any) -> Any:
        inside.set()
        over.wait(60)
        return x * 2

    call = planned(slow)
    over.set()
    call(fg.ones(2))
    over.clear()
    inside.clear()
    thread = threading.Thread(target=call, args=(fg.ones(2),))
    thread.start()
    assert inside.wait(60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
        child = os.fork()
    if child == 0:
        os._exit(1 if runtime_get("recorder") else 0)
    over.set()
    thread.join(60)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_exception_ends_a_recording():
    x = fg.ones(2)

    @planned
    def fails(x: Any) -> Any:
        x * 2
        raise BoomError

    for _ in range(CALLS):
        with pytest.raises(BoomError):
            fails(x)
    assert_planned(runs_of(lambda x: x * 2, (x,)))


def test_a_function_within_a_function():
    @planned
    def inner(x: Any) -> Any:
        return x * 3

    counted = Counted(lambda x: inner(x) + 1)
    for _ in range(CALLS):
        assert counted.call(fg.ones(1)).item() == 4
    assert_planned(counted.runs)


def test_a_function_that_calls_itself():
    @planned
    def power(x: Any, n: int) -> Any:
        return x * power(x, n - 1) if n else x

    for _ in range(CALLS):
        assert power(fg.full((1,), 2.0), 5).item() == 64


def test_threads_record_beside_each_other():
    wrong = []

    def work(k: int) -> None:
        for n in range(1, 40):
            x = fg.full((n, k), 1.0)
            for _ in range(4):
                if F.softmax(x, 0).sum().item() != pytest.approx(k) or fg.flatten(x).shape != (n * k,):
                    wrong.append((n, k))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 7)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_many_keys():
    for _ in range(CALLS):
        for n in range(1, 300):
            assert fg.cat([fg.ones(n), fg.zeros(1)]).sum().item() == n


def test_a_function_with_plans_is_a_function():
    assert F.linear.__name__ == "linear"
    assert F.linear.__module__ == F.linear.__wrapped__.__module__
    assert list(inspect.signature(F.linear).parameters) == ["input", "weight", "bias"]
    assert repr(F.linear).startswith("<function linear at ")
    assert "Parameters" in F.layer_norm.__doc__
    assert pickle.loads(pickle.dumps(F.layer_norm)) is F.layer_norm
    assert copy.deepcopy(F.layer_norm) is F.layer_norm
    assert copy.copy(F.layer_norm) is F.layer_norm
    assert callable(F.layer_norm)
    assert F.layer_norm == F.layer_norm
    assert hash(F.layer_norm) == hash(F.layer_norm)
    x = fg.ones(2, 3)
    assert x.flatten().shape == (6,)
    assert fg.Tensor.flatten(x).shape == (6,)
    assert x.flatten.__self__ is x


def test_a_function_with_plans_goes_when_nobody_holds_it():
    gone = []

    class Held:
        def __del__(self) -> None:
            gone.append(1)

    @planned
    def function(x: Any, held: Any = Held()) -> Any:  # noqa: B008
        return x * 2

    for _ in range(CALLS):
        function(fg.ones(2))
    function.itself = function
    del function
    gc.collect()
    assert gone == [1]


def test_what_was_never_made_does_nothing():
    for made in (Planned(), object.__new__(Planned), Planned.__new__(Planned)):
        with pytest.raises(TypeError):
            made(fg.ones(1))
        with pytest.raises(TypeError):
            repr(made)
        with pytest.raises(TypeError):
            made.__get__(3, int)()
    with pytest.raises(TypeError):
        type("Derived", (Planned,), {})
    with pytest.raises(TypeError):
        planned(3)(fg.ones(1))


def test_lying_arguments():
    class Long(tuple):
        def __len__(self) -> int:
            return 1000

    class Numbers(int):
        def __index__(self) -> int:
            raise BoomError

    x = fg.ones(2, 3)
    for _ in range(CALLS):
        assert fg.flatten(x, Numbers(0)).shape == (6,)
        with pytest.raises((TypeError, RuntimeError, ValueError)):
            fg.cat(Long((3,)))
        with pytest.raises((TypeError, RuntimeError)):
            F.linear()
        with pytest.raises(TypeError):
            F.linear(x, x, x, x, x, nothing=x)


def test_outputs_are_those_of_each_call():
    x = fg.ones(3)
    outs = [as_list(fg.chunk(x * k, 3))[0] for k in range(CALLS) for _ in range(CALLS)]
    assert [t.item() for t in outs] == [float(k) for k in range(CALLS) for _ in range(CALLS)]


def test_plans_make_new_tensors():
    x = fg.ones(2)
    for function in (
        lambda x: x + fg.zeros(2),
        lambda x: x * fg.full((2,), 3.0),
        lambda x: x + fg.arange(2),
        lambda x: fg.eye(2) @ x,
        lambda x: (fg.ones(2, 2), x),
    ):
        assert_planned(runs_of(function, (x,)))
    for _ in range(CALLS):
        a, b = fg.zeros(2), fg.zeros(2)
        a += 1
        assert b.tolist() == [0, 0]
    fg.set_default_dtype(fg.float64)
    try:
        assert fg.zeros(2).dtype is fg.float64
        assert fg.arange(0.5, 2).dtype is fg.float64
    finally:
        fg.set_default_dtype(fg.float32)
    assert fg.zeros(2).dtype is fg.float32


def test_plans_draw_anew():
    """Numbers are those that the function would draw, in its order, and go on where the generator stands."""
    counted = Counted(lambda x: F.dropout(x + fg.rand(6), 0.5) * fg.randn(6))
    x = fg.ones(6)
    calls = []
    for record in (True, False):
        fg.manual_seed(5)
        state = fg.get_rng_state()
        for k in range(2 * CALLS):
            found = counted.call(x) if record else counted.call.__wrapped__(x)
            if record:
                calls.append(found.tolist())
            else:
                assert calls[k] == found.tolist()
    assert len({tuple(call) for call in calls}) == 2 * CALLS
    fg.set_rng_state(state)
    assert counted.call(x).tolist() == calls[0]


def test_a_function_that_sets_a_seed_has_no_plan():
    def seeded(x: Any) -> Any:
        fg.manual_seed(3)
        return x + fg.rand(2)

    fg.manual_seed(1)
    assert len({tuple(planned(seeded)(fg.ones(2)).tolist()) for _ in range(CALLS)}) == 1
    assert runs_of(seeded, (fg.ones(2),)) == CALLS


def test_values_decide_how_long_a_result_is():
    x = fg.arange(6.0)
    for k in range(3 * CALLS):
        mask = x > k % 7
        wanted = [float(i) for i in range(6) if i > k % 7]
        assert x[mask].tolist() == wanted
        assert fg.masked_select(x, mask).tolist() == wanted
        assert fg.nonzero(mask).tolist() == [[int(i)] for i in wanted]
        assert fg.where(mask)[0].tolist() == wanted
        assert F.one_hot(fg.tensor([k % 3]), 3).tolist() == [[int(i == k % 3) for i in range(3)]]
    assert_planned(runs_of(lambda x, m: x[m] * 2, (x, x > 2)))


def test_values_that_are_wrong_are_named_by_the_function():
    good, bad = fg.tensor([0.0, 1.0]), fg.tensor([0.0, 1.5])
    for wrong in (good, bad, fg.tensor([-0.1, 1.0]), fg.tensor([float("nan"), 1.0])):
        for _ in range(CALLS):
            if wrong is good:
                assert fg.bernoulli(good).tolist() == [0, 1]
                assert F.binary_cross_entropy(good, good).item() == 0
                continue
            with pytest.raises(RuntimeError, match=r"bernoulli.*p_in >= 0"):
                fg.bernoulli(wrong)
            with pytest.raises(RuntimeError, match="all elements of input"):
                F.binary_cross_entropy(wrong, good)
            with pytest.raises(RuntimeError, match="all elements of target"):
                F.binary_cross_entropy(good, wrong)
    for classes, message in (([0, -1], "non-negative"), ([0, 2], "smaller than num_classes, 2,.* 2")):
        for _ in range(CALLS):
            assert F.one_hot(fg.tensor([0, 1]), 2).tolist() == [[1, 0], [0, 1]]
            with pytest.raises(RuntimeError, match=message):
                F.one_hot(fg.tensor(classes), 2)


def test_numbers_among_operands_belong_to_a_plan():
    x, y = fg.zeros(3), fg.tensor([0.0, 1.0, 3.0])
    assert_planned(runs_of(F.smooth_l1_loss.__wrapped__, (x, y)))
    assert_planned(runs_of(F.huber_loss.__wrapped__, (x, y)))
    assert_planned(runs_of(F.cosine_similarity.__wrapped__, (x, y, 0)))
    for _ in range(CALLS):
        assert F.smooth_l1_loss(x, y, beta=2.0, reduction="sum").item() == pytest.approx(0.25 + 2)
        assert F.smooth_l1_loss(x, y, beta=1.0, reduction="sum").item() == pytest.approx(0.5 + 2.5)


def test_lists_in_lists_belong_to_a_key():
    p, q = fg.ones(3, 4, 5), fg.ones(4, 3, 2)
    assert_planned(runs_of(fg.tensordot, (p, q, ([1, 0], [0, 1]))))
    by_other_lists = fg.tensordot(p, fg.ones(5, 3, 2), ([2, 0], [0, 1]))
    assert by_other_lists.tolist() == fg.full((4, 2), 15.0).tolist()


def test_a_plan_has_tables_as_constants():
    x = fg.ones(1, 1, 3, 3)
    assert_planned(runs_of(lambda x, size: fg.nn.functional.interpolate(x, size, mode="bilinear"), (x, 5)))


def test_writes_at_indices_have_plans_that_see_shared_memory():
    x, i = fg.zeros(6), fg.tensor([0, 2])

    def write(x: Any, i: Any, v: Any) -> None:
        x[i] = v

    assert_planned(runs_of(write, (x, i, fg.ones(2))))
    assert x.tolist() == [1.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    for _ in range(CALLS):
        x[i] = fg.ones(6)[:2]  # views of other memory look like the one that is refused
    with pytest.raises(RuntimeError, match=r"index_put_|setitem"):
        x[i] = x[:2]
    for _ in range(CALLS):
        x.scatter_(0, i, fg.ones(6)[:2])
    with pytest.raises(RuntimeError, match="scatter_"):
        x.scatter_(0, i, x[:2])
