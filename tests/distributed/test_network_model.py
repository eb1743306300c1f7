"""The model of a network in benchmarks/network.py, beside simulations that send each message, and its page."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

import fastgrad as fg
from fastgrad import nn
from fastgrad.nn.parallel import DistributedDataParallel

ROOT = Path(__file__).parents[2]


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("network_model", ROOT / "benchmarks/network.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


model = loaded()
NETWORK = model.Network(1e9, 1e-5)


def ring_by_messages(network, size: float, n: int) -> float:
    """When each rank has all sums, if it sends a part on as soon as it has the one of its neighbour."""
    have = [0.0] * n
    for _ in range(2 * (n - 1)):
        have = [max(have[r], have[r - 1]) + network.latency + size / n / network.bandwidth for r in range(n)]
    return max(have)


def tree_by_messages(network, size: float, n: int, pieces: int) -> float:
    """When the last piece is at the leaves, if each goes up and down the levels, and none starts before the one before
    has left two steps earlier: a rank takes from two children, or gives to two, in turn.
    """
    levels = (n - 1).bit_length()
    hop = network.latency + size / pieces / network.bandwidth
    free = [0.0] * (2 * levels)  # when each step of the way is free again
    end = 0.0
    for _ in range(pieces):
        now = 0.0
        for step in range(2 * levels):
            now = max(now, free[step]) + hop
            free[step] = now + hop  # the other child's
        end = now
    return end


@pytest.mark.parametrize("n", [1, 2, 3, 8, 64])
@pytest.mark.parametrize("size", [16, 1e6, 3e8])
def test_rings(n: int, size: float):
    assert NETWORK.ring(size, n) == pytest.approx(ring_by_messages(NETWORK, size, n))


@pytest.mark.parametrize("n", [2, 3, 8, 64, 1000])
@pytest.mark.parametrize("size", [16, 1e6, 3e7])
def test_trees_have_the_best_pieces(n: int, size: float):
    best = min(tree_by_messages(NETWORK, size, n, pieces) for pieces in range(1, 600))
    assert NETWORK.tree(size, n) == pytest.approx(best, rel=1e-9)


def test_one_rank_sends_nothing():
    assert NETWORK.ring(1e6, 1) == NETWORK.tree(1e6, 1) == 0
    for timeline in model.timelines():
        assert model.efficiency(timeline, NETWORK, "ring", 1) == 1


def test_steps():
    timeline = model.Timeline("two", (model.Bucket(1000, 1.0), model.Bucket(3000, 2.0)), 2.0, 0.5)
    network = model.Network(1000.0, 0.0)
    check = network.tree(model.CHECK, 2)
    first, second = 1.0 + check + network.ring(1000, 2), check + network.ring(3000, 2)
    assert model.step(timeline, network, "ring", 1) == 2.5
    assert model.step(timeline, network, "ring", 2) == pytest.approx(max(first, 2.0) + second + 0.5)
    late = 2.0 + 2 * check + network.ring(4000, 2) + 0.5
    assert model.step(timeline, network, "ring", 2, overlaps=False) == pytest.approx(late)
    assert model.falls_below(timeline, network, "ring") == 8
    assert model.falls_below(timeline, model.Network(1e12, 0.0), "tree") is None


def test_overlap_and_speed_never_harm():
    faster = model.Network(2e9, 5e-6)
    for timeline in model.timelines():
        for kind in ("ring", "tree"):
            found = [model.efficiency(timeline, NETWORK, kind, n) for n in model.RANKS]
            assert found == sorted(found, reverse=True)
            for n, value in zip(model.RANKS, found, strict=True):
                assert model.efficiency(timeline, NETWORK, kind, n, overlaps=False) <= value <= 1
                assert model.efficiency(timeline, faster, kind, n) >= value


def test_counts():
    """The counted timeline has the bytes of the model that it stands for."""
    width, depth, words = 8, 2, 20
    layers = model.transformer(width, depth, words, 4)
    assert sum(n for n, _ in layers) == words * width + depth * (12 * width * width + 4 * width)
    timeline = model.counted("small", layers, 1e6)
    work = sum(work for _, work in layers)
    assert timeline.passes == pytest.approx(3 * work / 1e6)
    assert sum(bucket.size for bucket in timeline.buckets) == 4 * sum(n for n, _ in layers)
    assert timeline.buckets[-1].ready == pytest.approx(timeline.passes)


def test_recorded(alone, tmp_path: Path):
    ddp = DistributedDataParallel(
        nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)), bucket_cap_mb=1e-4
    )
    optimizer = fg.optim.SGD(ddp.parameters(), lr=0.1)
    found = model.record("mine", ddp, lambda: ddp(fg.ones(2, 8)).sum(), optimizer, 3)
    assert sum(bucket.size for bucket in found.buckets) == 4 * sum(p.numel() for p in ddp.parameters())
    assert len(found.buckets) > 1
    ready = [bucket.ready for bucket in found.buckets]
    assert ready == sorted(ready)
    assert 0 < ready[-1] <= found.passes
    found.save(tmp_path / "mine.json")
    assert model.Timeline.load(tmp_path / "mine.json") == found


def test_the_page():
    text = (ROOT / "docs/scaling.md").read_text("utf-8")
    network = model.Network(12.5e9, 5e-6)
    timelines = list(model.timelines())
    assert model.table(timelines[1], network) in text
    for timeline in timelines:
        below = [
            model.falls_below(timeline, network, kind, overlaps=o)
            for kind in ("ring", "tree")
            for o in (True, False)
        ]
        cells = ("never" if n is None else f"{n:,} ranks" for n in below)
        assert f"| {timeline.name} | {' | '.join(cells)} |" in text
