"""Profiles beside PyTorch's: schedules, nodes of passes, ranges, what tables and traces are called."""

from __future__ import annotations

import itertools
import json
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import fastgrad as fg

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

NODE = "autograd::engine::evaluate_function: "


def profiled(lib: ModuleType, **options: Any) -> Any:
    """The profile of a small net's step, after a step without one."""
    lib.manual_seed(0)
    net = lib.nn.Sequential(lib.nn.Linear(4, 8), lib.nn.Tanh(), lib.nn.Linear(8, 2))
    x = lib.ones(5, 4)
    net(x).sum().backward()
    with lib.profiler.profile(activities=[lib.profiler.ProfilerActivity.CPU], **options) as prof:
        with lib.profiler.record_function("forward"):
            loss = net(x).sum()
        loss.backward()
    return prof


def test_schedules():
    grid = itertools.product(range(2), range(3), range(1, 3), range(3), range(3), range(2))
    for wait, warmup, active, repeat, skip_first, skip_wait in grid:
        given = {"wait": wait, "warmup": warmup, "active": active, "repeat": repeat, "skip_first": skip_first}
        given["skip_first_wait"] = skip_wait
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plans = [lib.profiler.schedule(**given) for lib in (torch, fg)]
        for step in range(16):
            assert plans[0](step).name == plans[1](step).name, (given, step)


def test_nodes_and_ranges():
    names = []
    for lib in (torch, fg):
        events = sorted(profiled(lib).events(), key=lambda e: e.time_range.start)
        names.append([e.name for e in events if e.name.startswith(NODE) or e.name == "forward"])
    assert names[0] == names[1]


def test_counts_of_sums():
    counts = []
    for lib in (torch, fg):
        sums = profiled(lib, record_shapes=True).key_averages()
        counts.append({e.key: e.count for e in sums if e.key.startswith(NODE)})
    assert counts[0] == counts[1]


def test_nodes_follow_the_ops_that_made_them():
    followed = []
    for lib in (torch, fg):
        events = list(profiled(lib).events())
        made: dict[int, set[str]] = {}
        for e in events:
            if e.sequence_nr >= 0 and not e.name.startswith(NODE):
                made.setdefault(e.sequence_nr, set()).add(e.name.removeprefix("aten::"))
        nodes = [e for e in events if e.name.startswith(NODE) and e.sequence_nr >= 0]
        followed.append({e.name: made.get(e.sequence_nr, set()) for e in nodes})
    for name, ops in followed[1].items():
        assert ops & followed[0][name], name


def test_traces_have_the_same_shape(tmp_path: Path):
    keys = []
    for lib in (torch, fg):
        path = str(tmp_path / f"{lib.__name__}.json")
        profiled(lib, record_shapes=True).export_chrome_trace(path)
        entries = json.loads(Path(path).read_text())["traceEvents"]
        node = next(e for e in entries if e["ph"] == "X" and e["name"].startswith(NODE + "Tanh"))
        arrows = [e for e in entries if e["ph"] in "sf" and e.get("cat") == "fwdbwd"]
        keys.append(
            (set(node), {e["ph"] for e in arrows}, {"Sequence number", "Fwd thread id"} & set(node["args"]))
        )
        assert next(e for e in arrows if e["ph"] == "f")["bp"] == "e"
    assert keys[0] == keys[1]


def test_columns_of_tables():
    heads = []
    for lib in (torch, fg):
        text = profiled(lib, record_shapes=True).key_averages(group_by_input_shape=True).table(row_limit=3)
        heads.append([c.strip() for c in text.splitlines()[1].split("  ") if c.strip()])
    assert heads[0] == heads[1]
