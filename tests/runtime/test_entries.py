"""The table of entries: nothing compiled sees an argument that is not of the kind that the table declares."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import pytest

import fastgrad as fg
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.entries import ARGUMENTS, Entry, row
from fastgrad.native.contracts.entry_table import ENTRIES
from tests.runtime.test_safety import assert_clean
from tests.threads import in_threads, switching

PUBLIC = [entry for entry in ENTRIES if entry.is_public]
CHECKED = [entry for entry in PUBLIC if entry.result != "vector"]


def context() -> Any:
    """The node of a call of a custom function, before its end."""
    return rt.function_begin(fg.autograd.Function._backward_cls, fg.autograd.Function, (fg.ones(2),))


def right(kind: str) -> Any:
    """An argument of a kind; for a pass there is none outside of one."""
    x = fg.ones(2, requires_grad=True)
    made: dict[str, Any] = {
        "int": 0, "float": 1.0, "index": 0, "tensor": x, "tensor?": x, "elements": x,
        "node": (x * x).grad_fn, "function": context(),
        "context": fg.no_grad(), "tuple": (x,), "dict": {}, "node class": fg.autograd.Function._backward_cls,
        "context class": fg.no_grad, "module class": fg.nn.Linear, "chain": None, "object": object(),
        "sizes": (2,), "pass": 1 << 40, "handle": x.register_hook(lambda g: g),
    }  # fmt: skip
    return made[kind]


def wrong(kind: str) -> list[Any]:
    """Arguments of every other kind, and some that only look right."""
    x = fg.ones(2, requires_grad=True)
    node = (x * x).grad_fn
    values: dict[str, Any] = {
        "None": None, "text": "a", "huge": 1 << 70, "-huge": -(1 << 70), "-1": -1, "int": 7, "big": 1 << 40,
        "float": 1.5, "tensor": x, "node": node, "tuple": (1, 2), "dict": {}, "list": [], "class": int,
        "tensor class": fg.Tensor, "context": fg.no_grad(), "lambda": lambda: 0, "cell": [1, 2], "texts": ("a", 1),
        "long": (1,) * 40, "huge sizes": (1 << 70,),
    }  # fmt: skip
    fine = {
        "int": {"int", "big", "-1"}, "float": {"float", "int", "big", "-1", "huge", "-huge"}, "index": {"int"},
        "tensor": {"tensor"}, "elements": {"tensor"},
        "tensor?": {"tensor", "None"}, "node": {"node"}, "function": set(), "pass": set(),
        "context": {"context"}, "tuple": {"tuple", "texts", "long", "huge sizes"}, "dict": {"dict"},
        "node class": set(), "context class": set(), "module class": set(), "chain": {"None"}, "sizes": {"tuple"},
        "object": set(values), "handle": set(),
    }  # fmt: skip
    return [value for name, value in values.items() if name not in fine[kind]]


# --- the table -------------------------------------------------------------------------------------------------


def test_the_table_has_no_name_twice():
    names = [entry.name for entry in ENTRIES]
    assert len(set(names)) == len(names)


def test_python_gets_the_entries_of_the_table():
    assert set(vars(rt)) == {entry.name for entry in PUBLIC}


def test_no_entry_takes_addresses_of_records():
    assert not {"peek", "poke", "borrow", "from_handle", "runtime_address"} & set(vars(rt))
    if fg.debug.environment()["mode"]["debug"] != "on":
        assert not {"handle_of", "release_handle"} & set(vars(rt))


@pytest.mark.parametrize(
    "arguments", ["thing", "index", "tensor<tensor", "index<nowhere", "index<n_in", "index<n_in, node"]
)
def test_a_row_of_unknown_kinds_is_refused(arguments: str):
    with pytest.raises(ValueError, match="unknown kind"):
        row("some", arguments, "int")


def test_a_row_with_an_unknown_result_is_refused():
    with pytest.raises(ValueError, match="unknown kind"):
        row("some", "int", "text")


# --- every entry -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", CHECKED, ids=lambda entry: entry.name)
def test_the_number_of_arguments_is_looked_at(entry: Entry):
    n = len(entry.arguments)
    name = entry.called or entry.name
    for count in {0, n - 1, n + 1, n + 20} - {n, -1}:
        with pytest.raises(TypeError, match=rf"^{name}\(\) takes {n} arguments, but got {count}$"):
            getattr(rt, entry.name)(*[None] * count)


@pytest.mark.parametrize("entry", CHECKED, ids=lambda entry: entry.name)
def test_the_kind_of_every_argument_is_looked_at(entry: Entry):
    name = entry.called or entry.name
    for k, argument in enumerate(entry.arguments):
        for value in wrong(argument.kind):
            arguments = [right(a.kind) for a in entry.arguments]
            if "pass" in [a.kind for a in entry.arguments[:k]]:
                continue
            arguments[k] = value
            with pytest.raises((TypeError, IndexError, OverflowError, RuntimeError)) as raised:
                getattr(rt, entry.name)(*arguments)
            said = str(raised.value)
            known = (
                rf"^{re.escape(name)}\(\): argument {k + 1} must be {re.escape(ARGUMENTS[argument.kind])}, but got ",
                rf"^{re.escape(name)}\(\): argument {k + 1} is out of range: ", "^this backward pass has ended$",
                "cannot be interpreted as an integer$", "^int too large to convert$", "^must be real number, not ",
                "int too big to convert$", "too large to convert to float$", "can be converted to an index$",
                "to Python scalars",
            )  # fmt: skip
            assert any(re.search(text, said) for text in known), (entry.name, k, value, said)


def test_indices_are_compared_with_what_the_node_has():
    x = fg.ones(2, requires_grad=True)
    node = (x * x).grad_fn
    for call, bound in ((rt.node_target, 2), (rt.node_output, 2), (rt.node_meta, 1), (rt.input_meta, 2)):
        for k in (-1, bound, bound + 1, 1 << 40, -(1 << 63)):
            with pytest.raises(IndexError, match=f"argument 2 is out of range: {k}"):
                call(node, k)
        call(node, bound - 1)
    with pytest.raises(IndexError):
        rt.node_attr(node, 0)


def test_an_object_without_a_record_is_no_tensor():
    gone = fg.ones(2)
    rt.adopt(fg.Tensor, gone)
    for entry in CHECKED:
        kinds = [a.kind for a in entry.arguments]
        if kinds and kinds[0] in ("tensor", "tensor?", "elements"):
            arguments = [gone, *[right(kind) for kind in kinds[1:]]]
            with pytest.raises(TypeError, match="never made, or is gone"):
                getattr(rt, entry.name)(*arguments)


def test_a_function_that_is_no_context_is_refused():
    x = fg.ones(2, requires_grad=True)
    node = (x * x).grad_fn
    with pytest.raises(TypeError, match="must be the context of a custom function, but got "):
        rt.function_finish(node, (x,), x)
    with pytest.raises(TypeError, match="must be the context of a custom function, but got "):
        rt.function_save(node)
    with pytest.raises(RuntimeError, match="invalid argument"):
        rt.function_finish(context(), (x, x, x), x)


def test_numbers_are_read_before_handles():
    """`__index__` may do anything, also to the tensor before it."""
    x = fg.ones(2, requires_grad=True)
    y = x * 1
    z = y * y  # keeps the record of y

    class Index:
        def __index__(self) -> int:
            y.mul_(2)
            rt.adopt(fg.Tensor, other)
            return 0

    other = fg.ones(2)
    with pytest.raises(TypeError, match="never made, or is gone"):
        rt.field(other, Index())
    other = fg.ones(2)
    assert rt.field(y, Index()) == rt.field(y, 0)
    assert z.tolist() == [1.0, 1.0]


# --- passes ----------------------------------------------------------------------------------------------------


def test_a_pass_is_known_by_its_number_while_it_is_under_way():
    x = fg.ones(2, requires_grad=True)
    y = x * 2
    seen: list[int] = []

    def hook(g: Any) -> None:
        seen.append(rt.current_pass())
        assert rt.will_run(seen[-1], y.grad_fn, 0) == 1
        assert rt.task_node(seen[-1]) is y.grad_fn
        for other in (0, -1, seen[-1] + 1, 1 << 40):
            with pytest.raises(RuntimeError, match="this backward pass has ended"):
                rt.task_node(other)

    y.register_hook(hook)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert seen[1] > seen[0] > 0
    assert rt.current_pass() == 0
    for call in (rt.task_node, rt.kept_by_pass, rt.execution_order):
        with pytest.raises(RuntimeError, match="this backward pass has ended"):
            call(seen[1])


def test_an_outer_pass_is_known_inside_of_an_inner_one():
    x = fg.ones(2, requires_grad=True)
    y, z = x * 2, x * 3
    total = z.sum()
    seen: list[int] = []

    def inner(g: Any) -> None:
        assert rt.task_node(seen[0]) is y.grad_fn
        assert rt.task_node(rt.current_pass()) is z.grad_fn

    def outer(g: Any) -> None:
        seen.append(rt.current_pass())
        total.backward()

    z.register_hook(inner)
    y.register_hook(outer)
    y.sum().backward()
    assert len(seen) == 1


# --- failures --------------------------------------------------------------------------------------------------


def test_facts_of_a_failure_are_those_of_its_own_reason():
    """What runs between a failure and its exception may fail as well."""
    x = fg.ones(2, requires_grad=True)

    class Noisy(tuple):
        def __del__(self) -> None:
            with contextlib.suppress(RuntimeError):
                fg.ones(3).expand(4, 5)

    saved = x * 1
    z = saved * saved
    saved.add_(1)
    z.grad_fn.metadata["noisy"] = Noisy()
    with pytest.raises(
        RuntimeError, match=r"\[fastgrad.FloatTensor \[2\]\], .* is at version 1; expected version 0"
    ):
        z.sum().backward()


def test_facts_of_threads_stay_apart():
    """A failure of one thread may come between that of another one and its exception."""
    wrong: list[str] = []

    def fail_often(k: int) -> None:
        for _ in range(300):
            with pytest.raises(RuntimeError) as raised:
                fg.ones(k + 2).expand(k + 9)
            if not str(raised.value).startswith(
                f"expand(): The expanded size of the tensor ({k + 9}) must match"
            ):
                wrong.append(str(raised.value))

    with switching():
        in_threads(4, fail_often)
    assert not wrong


# --- calls that are made of right kinds ------------------------------------------------------------------------

FUZZ = """
    import random, sys, gc
    import fastgrad as fg
    from fastgrad.native.build.loader import rt, NodeBase
    from fastgrad.native.contracts.entry_table import ENTRIES
    from fastgrad.native.contracts.entries import BOUNDS
    from fastgrad.native.contracts.flags import GRAD_ENABLED
    from fastgrad.native.contracts.records import NODE

    random.seed({seed})
    LEFT_OUT = {{"set_object", "apply", "foreign", "release_handle", "collecting", "run_pass",
                "take_over", "limit_memory"}}
    entries = [e for e in ENTRIES if e.is_public and e.name not in LEFT_OUT]

    class Twice(fg.autograd.Function):
        @staticmethod
        def forward(ctx, *xs):
            ctx.save_for_backward(*[x for x in xs if isinstance(x, fg.Tensor)])
            return xs[0] * 2
        @staticmethod
        def backward(ctx, g):
            return g * 2

    def tensors():
        x = fg.ones(2, 3, requires_grad=True)
        y = x * 2
        return [x, y, y[0], y.t(), fg.ones(()), fg.ones(0), fg.tensor([True, False]), fg.tensor([1, 2]), y.sum(),
                y.detach(), fg.ones(6).view(2, 3), x.expand(4, 2, 3), fg.ones(2, 3)]

    def nodes(ts):
        x = ts[0]
        found = [(x * x).grad_fn, rt.gradient_node(x), ts[1].grad_fn, ts[8].grad_fn, Twice.apply(ts[1]).grad_fn,
                 fg.cat([ts[0], ts[1]]).grad_fn, rt.boundary((x, x, 3))[0]]
        return found

    def contexts(ts):
        kind = Twice._backward_cls
        return [rt.function_begin(kind, Twice, (ts[0],)), rt.function_begin(kind, Twice, (ts[1], 3, ts[12])),
                rt.function_begin(kind, Twice, ()), Twice.apply(ts[1]).grad_fn]

    def argument(kind, bound, pool, before):
        if kind == "index":
            top = BOUNDS.get(bound)
            if top is None:
                node = next(a for a in reversed(before) if isinstance(a, NodeBase))
                top = rt.node_field(node, NODE.fields[bound][0])
            return random.randrange(max(top, 1))
        if kind == "int":
            return random.choice([0, 1, 2, 3, -1, 7, 1 << 31, -(1 << 63), (1 << 63) - 1])
        if kind == "float":
            return random.choice([0.0, 1.5, float("nan")])
        if kind == "pass":
            return rt.current_pass()
        if kind == "sizes":
            return random.choice([(), (2,), (2, 3), (0, 4), (-1,), (1 << 40, 1 << 40), (1,) * 9, (1,) * 17])
        return random.choice(pool[kind])

    def run_some(count):
        ts = tensors()
        pool = {{
            "tensor": ts, "tensor?": [*ts, None], "elements": ts, "node": nodes(ts), "function": contexts(ts),
            "context": [fg.no_grad(), fg.enable_grad(), fg.inference_mode(), fg.profiler.profile(), begun],
            "tuple": [(), (ts[0],), (ts[0], 3, ts[1]), (ts[1], ts[1])], "dict": [{{}}, {{"a": 1}}],
            "node class": [Twice._backward_cls], "context class": [fg.no_grad], "module class": [fg.nn.Linear],
            "chain": [None], "handle": [ts[0].register_hook(lambda g: g), (ts[0] * 2).register_hook(lambda g: g)],
            "object": [None, 3, ts[0], ts[1], (ts[1], ts[1] * 1), lambda *a: ts[1] * 3, Twice, [1], fg.Tensor, (), "a",
                       lambda *a: (ts[1] * 1, ts[1], None)],
        }}
        for _ in range(count):
            entry = random.choice(entries)
            given = []
            for a in entry.arguments:
                given.append(argument(a.kind, a.bound, pool, given))
            if len(sys.argv) > 1:
                print(entry.name, given, flush=True)
            try:
                made = getattr(rt, entry.name)(*given)
                if isinstance(made, fg.Tensor):
                    ts.append(made)
            except SystemError:
                raise
            except Exception:
                pass
            rt.take_over(GRAD_ENABLED, None, None, None)
        for t in list(ts):
            try:
                if t.is_floating_point() and t.requires_grad:
                    t.sum().backward()
            except SystemError:
                raise
            except Exception:
                pass

    def inside(depth=0):
        x = fg.ones(2, requires_grad=True)
        y = x * 2
        y.register_hook(lambda g: run_some(40) if depth == 0 else None)
        try:
            y.sum().backward()
        except SystemError:
            raise
        except Exception:
            pass

    fg.debug.set_memory_limit(1 << 30)
    begun = fg.profiler.profile(schedule=lambda step: fg.profiler.ProfilerAction.NONE)
    begun.start()
    for k in range({rounds}):
        run_some(120)
        inside()
        gc.collect()
    fg.set_grad_enabled(True)
    rt.get_mode()
    a = fg.ones(2, requires_grad=True)
    (a * a).sum().backward()
    print(a.grad.tolist())
"""


@pytest.mark.parametrize("seed", range(3))
def test_entries_bear_any_call_of_the_right_kinds(seed: int):
    out = assert_clean(FUZZ.format(seed=seed, rounds=40))
    assert out == "[2.0, 2.0]\n"


@pytest.mark.parametrize("sizes", [((2,), (3,)), ((300,), (3,)), ((2,), (2, 2)), ((1,), (2,)), ((), (2,))])
def test_what_is_copied_fits(sizes: tuple[tuple[int, ...], tuple[int, ...]]):
    out, source = fg.ones(*sizes[0]), fg.zeros(*sizes[1])
    with pytest.raises(RuntimeError, match=r"copy_\(\): "):
        rt.copy(out, source)
    assert (out == 1).all()


def test_how_many_outputs_a_call_has_is_said_once():
    """Edges lead to outputs: there cannot be fewer of them later."""

    class Twice(fg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    x = fg.ones(2, requires_grad=True)
    called = Twice.apply(x).grad_fn
    fresh = rt.function_begin(type(called), Twice, (x,))
    rt.set_output_count(fresh, 3)
    for node, count in ((called, 0), (called, 2), (fresh, 1), (fresh, 0), (fresh, 4)):
        with pytest.raises(RuntimeError, match="gets its outputs once"):
            rt.set_output_count(node, count)


# --- memory of others ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "error"), [
    (12, TypeError), (None, TypeError), ("text", TypeError), (b"", ValueError), (b"1234567", ValueError),
    (bytes(9), ValueError), (memoryview(bytes(32))[::4], BufferError),
])  # fmt: skip
def test_only_memory_of_the_right_length_is_written(value: Any, error: type[Exception]):
    x = fg.zeros(2)
    with pytest.raises(error):
        rt.write(x, value)
    assert x.tolist() == [0.0, 0.0]


def test_only_what_is_contiguous_is_written():
    with pytest.raises(ValueError, match="contiguous"):
        rt.write(fg.zeros(2, 2).t(), bytes(16))


def test_memory_is_let_go_of():
    data = bytearray(8)
    x = fg.ones(2)
    rt.write(x, data)
    with contextlib.suppress(ValueError):
        rt.write(x, bytearray(5))
    data.append(0)  # nobody holds it any more
    assert x.tolist() == [0.0, 0.0]
