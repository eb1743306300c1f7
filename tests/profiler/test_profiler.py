"""Profiles: what they note, where it stands, and that nothing is left when they end."""

from __future__ import annotations

import gc
import gzip
import json
import os
import random
import signal
import threading
import warnings
from pathlib import Path

import pytest

import fastgrad as fg
from fastgrad import nn
from fastgrad.native.build.loader import rt, runtime_get, runtime_set
from fastgrad.native.host.tape import record
from fastgrad.profiler import (
    EventList,
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

NODE = "autograd::engine::evaluate_function: "


@pytest.fixture(autouse=True)
def it_is_off():
    """After each test there is no profile, and the words that look for one are as before."""
    words = (
        "profile",
        "watched",
        "measuring",
        "counting",
        "profile_owner",
        "events",
        "details",
        "profile_objects",
    )
    before = {name: runtime_get(name) for name in words}
    yield
    assert {name: runtime_get(name) for name in words} == before
    assert runtime_get("entered") == runtime_get("thread")
    assert not nn.modules.module_hooks.CALL_HOOKS


def tree(event) -> str:
    """The names of an event and those within it."""
    inside = ", ".join(map(tree, event.cpu_children))
    return f"{event.name}({inside})" if inside else event.name


def roots(prof) -> list[str]:
    return [tree(e) for e in prof.events() if e.cpu_parent is None]


def warm(function):
    """Twice, so that kernels are there and plans are made."""
    for _ in range(3):
        function()
    return function


# --- what is noted ---------------------------------------------------------------------------------------------


def test_ops_nodes_and_kernels_stand_within_each_other():
    x = fg.ones(3, requires_grad=True)
    step = warm(lambda: (x * x).sum().backward())
    x.grad = None
    with profile() as prof:
        step()
    kernels = {name: f"{name}(kernel {name} (float32, flat))" for name in ("mul", "sum")}
    assert roots(prof)[:2] == [
        kernels["mul"],
        f"sum({kernels['sum']})",
    ]  # an operator, and a function over its op
    (backward,) = roots(prof)[2:]
    assert backward.startswith("autograd::engine::run_pass(kernel constant (float32, flat), ")
    run = next(e for e in prof.events() if e.category == "backward")
    nodes = [e.name.removeprefix(NODE) for e in run.cpu_children if e.name.startswith(NODE)]
    assert nodes == ["SumBackward0", "MulBackward0", "torch::autograd::AccumulateGrad"]
    by_name = {e.name: e for e in prof.events()}
    mul, node = by_name["mul"], by_name[NODE + "MulBackward0"]
    assert mul.sequence_nr == node.sequence_nr >= 0
    assert node.fwd_thread == mul.thread == threading.get_ident()
    kernel = by_name["kernel sum (float32, flat)"]
    assert kernel.args["kernel"] == "sum"
    assert kernel.args["parts"] == 1


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: x + x, "add"),
        (lambda x: -x, "neg"),
        (lambda x: x * 2, "mul"),
        (lambda x: 2 - x, "rsub"),
        (lambda x: x.add_(1), "add"),
        (lambda x: x.exp(), "exp"),
        (lambda x: x.reshape(2, 2), "view"),
        (lambda x: x[1:], "slice"),
        (lambda x: fg.softmax(x, 0), "softmax"),
        (lambda x: fg.cat([x, x]), "cat"),
        (lambda x: x.sum(), "sum"),
    ],
    ids=[
        "add",
        "neg",
        "number",
        "reflected",
        "in place",
        "method",
        "view",
        "index",
        "function",
        "cat",
        "sum",
    ],
)
def test_calls_of_every_kind_are_noted(call, name: str):
    x = fg.ones(4)
    warm(lambda: call(x))
    with profile(record_shapes=True) as prof:
        call(x)
    found = [e for e in prof.events() if e.category == "cpu_op"]
    assert name in {e.name for e in found}
    assert found[0].input_shapes[0] == [4]
    assert found[0].input_dtypes[0] == "float32"


def test_functions_with_plans_hold_their_ops():
    x, w = fg.ones(2, 3), fg.ones(4, 3)
    call = warm(lambda: nn.functional.linear(x, w))
    with profile() as prof:
        call()
    outer = prof.events()[0]
    assert (outer.name, outer.category) == ("linear", "function")
    assert [e.category for e in outer.cpu_children] == ["cpu_op"] * len(outer.cpu_children)
    assert outer.cpu_children


def named_hook(*_):
    return None


class CalledHook:
    def __call__(self, *_):
        return None

    def method(self, *_):
        return None


def test_hooks_are_named_with_what_they_stand_at():
    x = fg.ones(3, requires_grad=True)
    y = x * 2
    y.grad_fn.register_prehook(named_hook)
    y.grad_fn.register_hook(CalledHook())
    y.register_hook(CalledHook().method)
    x.register_post_accumulate_grad_hook(named_hook)
    with profile() as prof:
        y.sum().backward()
    found = {(e.name, e.cpu_parent.name) for e in prof.events() if e.category == "hook"}
    assert found == {
        ("node pre-hook: named_hook", NODE + "MulBackward0"),
        ("node post-hook: CalledHook", NODE + "MulBackward0"),
        ("tensor hook: CalledHook.method", NODE + "MulBackward0"),
        ("post-accumulate hook: named_hook", NODE + "torch::autograd::AccumulateGrad"),
    }
    where = next(e.args["defined at"] for e in prof.events() if e.name.endswith("named_hook"))
    assert where.startswith(__file__)


def test_several_hooks_and_counts_of_hooks():
    x = fg.ones(3, requires_grad=True)
    for _ in range(3):
        x.register_hook(named_hook)
    with fg.autograd.graph.measure_hooks(), profile() as prof:
        x.sum().backward()
    assert sum(e.name == "tensor hook: named_hook" for e in prof.events()) == 3
    assert [info.calls for info in fg.hooks(x)] == [1, 1, 1]
    with profile(), fg.autograd.graph.measure_hooks():
        x.sum().backward()
    assert runtime_get("measuring") == 0


def small_net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Sequential(nn.Linear(8, 2)))


def test_modules_forward_and_backward():
    net, x = small_net(), fg.ones(3, 4)
    net[0].register_forward_pre_hook(named_hook)
    net[0].register_forward_hook(named_hook)
    step = warm(lambda: net(x).sum().backward())
    with profile(with_modules=True) as prof:
        step()
    modules = [e for e in prof.events() if e.category == "module"]
    names = [(e.name, e.args.get("path", "")) for e in modules]
    assert names[:5] == [
        ("nn.Module: Sequential_0", ""),
        ("nn.Module: Linear_0", "0"),
        ("nn.Module: Tanh_0", "1"),
        ("nn.Module: Sequential_1", "2"),
        ("nn.Module: Linear_1", "2.0"),
    ]
    assert names[5:] == [
        ("nn.Module: Sequential_0 (backward)", ""),
        ("nn.Module: Sequential_1 (backward)", "2"),
        ("nn.Module: Linear_1 (backward)", "2.0"),
        ("nn.Module: Tanh_0 (backward)", "1"),
        ("nn.Module: Linear_0 (backward)", "0"),
    ]
    assert [e.cpu_parent.name for e in modules[1:3]] == ["nn.Module: Sequential_0"] * 2
    hooks = [(e.name, e.cpu_parent.name) for e in prof.events() if e.category == "hook"]
    assert hooks == [
        ("module forward pre-hook: named_hook", "nn.Module: Linear_0"),
        ("module forward hook: named_hook", "nn.Module: Linear_0"),
    ]
    with profile() as prof:
        step()
    assert not [e for e in prof.events() if e.category == "module"]


def test_backward_hooks_of_modules_are_named():
    net = small_net()
    net[0].register_full_backward_hook(named_hook)
    net[2].register_full_backward_pre_hook(CalledHook())
    with profile(with_modules=True) as prof:
        net(fg.ones(3, 4, requires_grad=True)).sum().backward()
    names = [e.name for e in prof.events() if e.category == "hook" and "module" in e.name]
    assert names == ["module backward pre-hook: CalledHook", "module backward hook: named_hook"]


def test_custom_functions():
    class Double(fg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = fg.ones(3, requires_grad=True)
    with profile() as prof:
        Double.apply(x).sum().backward()
    found = {e.name: e for e in prof.events() if "Double" in e.name}
    assert set(found) == {"Double", NODE + "DoubleBackward"}
    assert found["Double"].sequence_nr == found[NODE + "DoubleBackward"].sequence_nr >= 0
    assert "mul" in [e.name for e in found[NODE + "DoubleBackward"].cpu_children]


def test_replays_of_tapes():
    x = fg.ones(3)
    with profile() as prof, record() as tape:
        y = x * 2
    assert tape.launches == 2
    with profile() as prof:
        tape.replay()
    assert roots(prof) == ["replay of a tape(kernel constant (float32, flat), kernel mul (float32, strided))"]
    assert y.tolist() == [2.0, 2.0, 2.0]


def test_parts_and_compilation():
    part_work, threads = runtime_get("part_work"), fg.get_num_threads()
    runtime_set("part_work", 100)
    fg.set_num_threads(2)
    try:
        x = fg.ones(100_000)
        warm(lambda: x * x)
        with profile() as prof:
            x * x
    finally:
        runtime_set("part_work", part_work)
        fg.set_num_threads(threads)
    (kernel,) = (e for e in prof.events() if e.category == "kernel")
    assert kernel.args["parts"] > 1
    assert kernel.args["work"] == 100_000


def test_memory():
    def work():
        kept = [fg.zeros(1000) for _ in range(3)]
        return kept[0] + kept[1]

    warm(work)
    with profile(profile_memory=True) as prof:
        with record_function("work"):
            result = work()
        with record_function("drop"):
            del result
    found = {e.name: e for e in prof.events() if e.is_user_annotation}
    assert found["work"].cpu_memory_usage == 4096
    assert found["work"].allocations == 4
    assert found["drop"].cpu_memory_usage == -4096
    assert {"CPU Mem", "Allocations"} <= {
        c.strip() for c in prof.key_averages().table().splitlines()[1].split("  ")
    }


def test_a_limit_of_memory_holds_during_a_profile():
    fg.debug.set_memory_limit(fg.debug.live()["bytes"] + 10_000)
    try:
        with profile(profile_memory=True):
            with pytest.raises(MemoryError):
                fg.zeros(100_000)
            fg.debug.set_memory_limit(None)
            fg.zeros(100_000)
            fg.debug.set_memory_limit(1)
        with pytest.raises(MemoryError):
            fg.zeros(100_000)
    finally:
        fg.debug.set_memory_limit(None)
    with profile(profile_memory=True):
        fg.zeros(100_000)
    fg.zeros(100_000)


# --- sums, tables, files ---------------------------------------------------------------------------------------


def test_sums_and_tables():
    x, y = fg.ones(3), fg.ones(3, 3)
    with profile(record_shapes=True) as prof:
        for _ in range(4):
            x * 2
        y * 2
    sums = {e.key: e for e in prof.key_averages()}
    assert sums["mul"].count == 5
    assert sums["mul"].cpu_time_total >= sums["mul"].self_cpu_time_total > 0
    apart = [
        (e.input_shapes[0], e.count) for e in prof.key_averages(group_by_input_shape=True) if e.key == "mul"
    ]
    assert sorted(apart) == [([3], 4), ([3, 3], 1)]
    text = prof.key_averages(group_by_input_shape=True).table(sort_by="count", row_limit=3, header="a header")
    lines = text.splitlines()
    assert lines[1] == "a header"
    assert lines[3].split()[0] == "Name"
    assert lines[5].split()[0] in ("mul", "kernel")
    assert "Input Shapes" in lines[3]
    assert lines[-1].startswith("Self CPU time total: ")
    total = prof.total_average()
    assert total.count == len(prof.events())
    whole = sum(e.cpu_time_total for e in prof.events() if e.cpu_parent is None)
    assert total.cpu_time_total == pytest.approx(whole)
    assert prof.events().self_cpu_time_total == pytest.approx(whole)
    assert str(prof.events()) == prof.events().table()
    assert EventList().table() == ""


def test_what_lies_in_itself_counts_once():
    with profile() as prof, record_function("outer"), record_function("outer"):
        fg.ones(2)
    (total,) = (e for e in prof.key_averages() if e.key == "outer")
    outer = prof.events()[0]
    assert total.count == 2
    assert total.cpu_time_total == outer.cpu_time_total


def test_stacks(tmp_path: Path):
    def inner():
        return fg.ones(3) * 2

    with profile(with_stack=True) as prof:
        inner()
    mul = next(e for e in prof.events() if e.name == "mul")
    assert mul.stack[0].endswith("inner")
    assert mul.stack[1].endswith("test_stacks")
    assert mul.stack[0].startswith(__file__)
    (total,) = (e for e in prof.key_averages(group_by_stack_n=1) if e.key == "mul")
    assert total.stack == mul.stack[:1]
    mul.time_range.end_ns += 10**9
    path = tmp_path / "stacks"
    prof.export_stacks(str(path))
    lines = path.read_text().splitlines()
    assert any(";" in line and line.rsplit(" ")[-1].isdigit() and "inner" in line for line in lines)


def test_chrome_trace(tmp_path: Path):
    net, x = small_net(), fg.ones(3, 4)
    with profile(record_shapes=True, with_modules=True, profile_memory=True, with_stack=True) as prof:
        with record_function("forward", 'with "arguments"'):
            loss = net(x).sum()
        loss.backward()
    prof.add_metadata("who", "a test")
    prof.add_metadata_json("numbers", "[1, 2]")
    prof.export_chrome_trace(tmp_path / "trace.json")
    prof.export_chrome_trace(tmp_path / "trace.json.gz")
    trace = json.loads((tmp_path / "trace.json").read_text())
    with gzip.open(tmp_path / "trace.json.gz") as file:
        assert json.load(file) == trace
    assert trace["who"] == "a test"
    assert trace["numbers"] == [1, 2]
    complete = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert len(complete) == len(prof.events())
    assert all(
        {"name", "cat", "pid", "tid", "ts", "dur", "args"} <= set(e) and e["ts"] >= 0 and e["dur"] >= 0
        for e in complete
    )
    assert {e["pid"] for e in complete} == {os.getpid()}
    names = {e["name"]: e["args"] for e in trace["traceEvents"] if e["ph"] == "M"}
    assert names["thread_name"]["name"] == threading.current_thread().name
    starts, ends = ({e["id"]: e for e in trace["traceEvents"] if e["ph"] == phase} for phase in "sf")
    assert set(starts) == set(ends)
    assert starts
    for number, start in starts.items():
        assert start["ts"] < ends[number]["ts"]
        numbers = [
            [
                e["args"]["Sequence number"]
                for e in complete
                if e["ts"] == point["ts"] and "Sequence number" in e["args"]
            ]
            for point in (start, ends[number])
        ]
        assert numbers[0] == numbers[1]
    assert any(e["ph"] == "C" for e in trace["traceEvents"])
    open_: list[float] = []
    for e in sorted(
        complete, key=lambda e: (e["ts"], -e["dur"])
    ):  # one within the other, or one after the other
        while open_ and open_[-1] <= e["ts"] + 1e-6:
            open_.pop()
        assert not open_ or e["ts"] + e["dur"] <= open_[-1] + 1e-6
        open_.append(e["ts"] + e["dur"])


# --- schedules -------------------------------------------------------------------------------------------------


def test_a_schedule(tmp_path: Path):
    ready: list[list[str]] = []

    def on_ready(prof):
        ready.append([e.name for e in prof.events() if e.name.startswith("ProfilerStep")])
        tensorboard_trace_handler(str(tmp_path / "new"), "worker")(prof)

    with profile(
        schedule=schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1), on_trace_ready=on_ready
    ) as prof:
        recorded = []
        for _ in range(12):
            recorded.append(bool(runtime_get("profile")))
            fg.ones(2) * 2
            prof.step()
    assert ready == [["ProfilerStep#3", "ProfilerStep#4"], ["ProfilerStep#7", "ProfilerStep#8"]]
    assert [k for k, on in enumerate(recorded) if on] == [3, 4, 7, 8]
    files = list((tmp_path / "new").iterdir())
    assert len(files) == 2
    assert all(f.name.startswith("worker.") and f.name.endswith(".pt.trace.json") for f in files)
    assert sum(e.name == "mul" for e in prof.events()) == 2


def test_cycles_without_a_break_and_their_sum():
    counts: list[int] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = schedule(wait=0, warmup=0, active=1)
    for keep in (False, True):
        counts.clear()
        with profile(
            schedule=plan, on_trace_ready=lambda p: counts.append(len(p.events())), acc_events=keep
        ) as prof:
            for _ in range(3):
                fg.ones(2) * 2
                prof.step()
        assert len(counts) == 4
        assert (counts[2] > 2 * counts[0]) is keep


def test_starting_and_stopping_by_hand():
    prof = profile()
    prof.start()
    fg.ones(2) * 2
    prof.stop()
    assert "mul" in [e.name for e in prof.events()]
    prof.start()
    prof.stop()
    assert len(prof.events()) == 0
    with pytest.raises(RuntimeError, match="start"):
        prof.stop()
    with pytest.raises(RuntimeError, match="step"):
        prof.step()


# --- what is refused, and what goes wrong ----------------------------------------------------------------------


def test_misuse():
    for make, error in (
        (lambda: profile(activities=[]), ValueError),
        (lambda: profile(activities=["cpu"]), ValueError),
        (lambda: profile(with_flops=True), NotImplementedError),
        (lambda: profile(schedule=3), TypeError),
        (lambda: profile(on_trace_ready=3), TypeError),
        (lambda: schedule(wait=0, warmup=1, active=0), ValueError),
        (lambda: schedule(wait=-1, warmup=1, active=1), ValueError),
        (lambda: record_function(3), TypeError),
        (lambda: record_function("a", 3), TypeError),
        (lambda: record_function("a").__exit__(None, None, None), RuntimeError),
        (lambda: fg.autograd.profiler.emit_nvtx(), NotImplementedError),
        (lambda: fg.autograd.profiler.emit_itt(), NotImplementedError),
    ):
        with pytest.raises(error):
            make()
    with pytest.warns(UserWarning, match="host"):
        profile(activities=[ProfilerActivity.CUDA])
    with pytest.warns(UserWarning, match="warmup"):
        schedule(wait=0, warmup=0, active=1)
    assert supported_activities() == {ProfilerActivity.CPU}
    prof = profile()
    for ask in (prof.events, prof.key_averages, prof.total_average):
        with pytest.raises(RuntimeError, match="no events"):
            ask()
    with prof:
        fg.ones(2)
    with pytest.raises(ValueError, match="sort_by"):
        prof.key_averages().table(sort_by="cuda_time_total")
    with pytest.raises(TypeError, match="row_limit"):
        prof.key_averages().table(row_limit="all")
    with pytest.raises(RuntimeError, match="record_shapes"):
        prof.key_averages(group_by_input_shape=True)
    with pytest.raises(RuntimeError, match="with_stack"):
        prof.key_averages(group_by_stack_n=2)
    with pytest.raises(ValueError, match="group_by_stack_n"):
        prof.events().key_averages(group_by_stack_n=-1)
    with pytest.raises(RuntimeError, match="with_stack"):
        prof.export_stacks(os.devnull)
    with pytest.raises(ValueError, match="metric"):
        prof.export_stacks(os.devnull, "time")
    with pytest.raises(ValueError, match="metadata"):
        prof.add_metadata("traceEvents", "x")


def test_profiles_do_not_nest():
    with profile() as outer:
        for again in (outer, profile()):
            with pytest.raises(RuntimeError, match="nested"):
                again.__enter__()
        fg.ones(2) * 2
    assert "mul" in [e.name for e in outer.events()]


def test_an_exception_inside():
    def raising(_):
        raise ValueError("from a hook")

    x = fg.ones(3, requires_grad=True)
    x.register_hook(raising)
    prof = profile(with_modules=True)
    with pytest.raises(ValueError, match="from a hook"), prof:
        x.sum().backward()
    assert all(e.time_range.end_ns >= e.time_range.start_ns for e in prof.events())
    assert "tensor hook: test_an_exception_inside.<locals>.raising" in [e.name for e in prof.events()]
    with pytest.raises(RuntimeError), profile() as prof:
        fg.ones(3) @ fg.ones(4)
    prof.events()


def test_a_trace_handler_that_raises():
    def raising(_):
        raise KeyError("no")

    with pytest.raises(KeyError), profile(on_trace_ready=raising):
        fg.ones(2)
    with pytest.raises(TypeError, match="ProfilerAction"), profile(schedule=lambda step: 3):
        pass


def test_a_profile_that_is_dropped_ends():
    prof = profile(with_modules=True)
    prof.start()
    assert runtime_get("profile")
    del prof
    assert not runtime_get("profile")


def test_a_profile_that_begins_and_ends_within_calls():
    x = fg.ones(3, requires_grad=True)
    prof = profile(with_modules=True)
    x.register_hook(lambda g: prof.start())
    x.sum().backward()
    prof.stop()
    x._backward_hooks.clear()
    other = profile()
    y = x * 2
    y.register_hook(lambda g: other.stop())
    other.start()
    y.sum().backward()
    assert NODE + "MulBackward0" in [e.name for e in other.events()]
    assert all(e.time_range.end_ns > 0 for e in other.events())


class Interrupted(nn.Module):
    def forward(self, x):
        raise KeyboardInterrupt


def test_an_interrupt_leaves_it_off():
    prof = profile(with_modules=True)
    with pytest.raises(KeyboardInterrupt), prof:
        Interrupted()(fg.ones(1))
    assert prof.events()[-1].name == "nn.Module: Interrupted_0"


def test_threads():
    done = threading.Barrier(3)

    def work(k: int) -> None:
        done.wait()
        x = fg.ones(50, requires_grad=True)
        for _ in range(50):
            with record_function(f"thread {k}"):
                (x * x).sum().backward()

    threads = [threading.Thread(target=work, args=(k,), name=f"worker {k}") for k in range(3)]
    with profile() as prof:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    ranges = [e for e in prof.events() if e.is_user_annotation]
    assert len(ranges) == 150
    for e in prof.events():
        assert e.cpu_parent is None or e.cpu_parent.thread == e.thread
    for e in ranges:
        assert [c.name for c in e.cpu_children if c.category != "compile"] == [
            "mul",
            "sum",
            "autograd::engine::run_pass",
        ]


def test_what_is_not_its_own_is_refused():
    context = fg.no_grad()
    with pytest.raises(TypeError, match="begins with a list"), context:
        rt.profile_again(context, [1])
    with pytest.raises(TypeError):
        rt.profile_again(3, [1])
    assert rt.profiled(context) is None
    prof = profile(schedule=lambda step: ProfilerAction.NONE)
    with prof:
        for wrong in ([], 3, "a", (1,), [2**70], ["a"]):
            with pytest.raises((TypeError, OverflowError)):
                rt.profile_again(prof, wrong)
    for token in (-1, 0, 1, 1 << 40, (1 << 62) + 5):
        rt.end_range(token)
    with profile():
        for token in (-1, 0, 1 << 30, (runtime_get("profile") << 40) + 1000, runtime_get("profile") << 40):
            rt.end_range(token)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_process_has_none():
    with profile(with_modules=True) as prof:
        read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            fg.ones(3) * 2
            os.write(write, b"off" if not runtime_get("profile") and not runtime_get("events") else b"on")
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as file:
            assert file.read() == b"off"
        os.waitpid(child, 0)
        fg.ones(3) * 2
    assert "mul" in [e.name for e in prof.events()]


def test_ranges_without_a_profile():
    @record_function("decorated")
    def twice(x, *, factor=2):
        """Docs."""
        return x * factor

    assert twice.__name__ == "twice"
    assert twice(3) == 6
    with profile() as prof:
        twice(3, factor=1)
        with record_function("a"), record_function("b"):
            pass
    assert roots(prof) == ["decorated", "a(b)"]


def test_the_older_interface(tmp_path: Path):
    with (
        fg.autograd.profiler.profile(record_shapes=True) as prof,
        fg.autograd.profiler.record_function("range"),
    ):
        fg.ones(2) * 2
    assert "range" in prof.table()
    assert prof.self_cpu_time_total > 0
    assert prof.total_average().count == len(prof.function_events)
    assert "mul" in [e.key for e in prof.key_averages(group_by_input_shape=True)]
    prof.export_chrome_trace(tmp_path / "trace.json")
    with fg.autograd.profiler.profile(enabled=False) as prof:
        fg.ones(2) * 2
    with pytest.raises(RuntimeError):
        prof.function_events


def test_events_that_nobody_took_go_with_their_profile():
    class Interrupted(profile):
        def _left(self) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Interrupted() as prof:
        fg.ones(2) * 2
    assert runtime_get("profile_owner") == id(prof)
    assert not runtime_get("profile")
    del prof
    gc.collect()
    assert not runtime_get("profile_owner")
    assert not runtime_get("events")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="timers")
def test_signals_leave_it_off():
    """Wherever the exception of a signal comes, the profile has ended when it is handled."""
    net, x = small_net(), fg.ones(3, 4)
    net(x).sum().backward()  # finds its kernels
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    draws = random.Random(3)
    plan = schedule(wait=0, warmup=1, active=1)
    interrupted = 0

    def work(timer: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, timer)
        with profile(with_modules=True, profile_memory=True, schedule=draws.choice([None, plan])) as prof:
            net(x).sum().backward()
            prof.step()
            net(x)
        prof.key_averages()

    callbacks = gc.callbacks[:]  # of other tools, which an exception would break off
    gc.callbacks.clear()
    try:
        for _ in range(400):
            try:
                try:
                    work(draws.uniform(1e-6, 6e-4))
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupted += 1
            except RuntimeError as error:
                if "no events" not in str(error):
                    raise
            assert not runtime_get("profile")
            assert not nn.modules.module_hooks.CALL_HOOKS
    finally:
        signal.signal(signal.SIGALRM, before)
        gc.callbacks[:] = callbacks
    assert interrupted
