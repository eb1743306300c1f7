"""How training with `DistributedDataParallel` would scale: a timeline of buckets over a model of a network.

    python -m benchmarks.network                                      # the counted timelines, from 8 to 4,096 ranks
    python -m benchmarks.network mine.json --bandwidth 25 --latency 2   # one of a program's own: see `record`

Nothing here is a measurement: docs/scaling.md says what the model leaves out.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

RANKS = tuple(2**k for k in range(3, 13))
GOAL = 0.9
CHECK = 16
"""Bytes of the reduction by which ranks compare a call before it begins."""


@dataclass(frozen=True)
class Bucket:
    """Gradients that are reduced together.

    Parameters
    ----------
    size : int
        Bytes.
    ready : float
        Seconds from the beginning of the step until the last of them is there.
    """

    size: int
    ready: float


@dataclass(frozen=True)
class Timeline:
    """One step on one rank.

    Parameters
    ----------
    name : str
    buckets : tuple of Bucket
        In the order in which they are reduced.
    passes : float
        Seconds from the beginning of the step to the end of the backward pass.
    rest : float
        Seconds after it: the optimizer.
    """

    name: str
    buckets: tuple[Bucket, ...]
    passes: float
    rest: float = 0.0

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", "utf-8")

    @classmethod
    def load(cls, path: Path) -> Timeline:
        found = json.loads(path.read_text("utf-8"))
        return cls(
            found["name"], tuple(Bucket(**one) for one in found["buckets"]), found["passes"], found["rest"]
        )


@dataclass(frozen=True)
class Network:
    """Links between ranks, all alike.

    Parameters
    ----------
    bandwidth : float
        Bytes that a rank sends in a second, while it receives as many.
    latency : float
        Seconds until the first byte of a message is there.
    """

    bandwidth: float
    latency: float

    def ring(self, size: float, n: int) -> float:
        """Seconds of an all-reduce in a ring: 2 (n - 1) messages of a part of n, one after the other."""
        return 2 * (n - 1) * (self.latency + size / n / self.bandwidth)

    def tree(self, size: float, n: int) -> float:
        """Seconds of an all-reduce up and down two binary trees, each for a half, in as many pieces as is best.

        A piece takes one step for each level, up and down. The next one follows two steps later: of each a rank sends
        two in all, as an inner one of a tree to its parent and two children, as a leaf of the other one to its parent.
        """
        levels = math.ceil(math.log2(n))
        if not levels:
            return 0.0
        best = (
            math.sqrt(max(levels - 1, 0) * size / (self.latency * self.bandwidth)) if self.latency else size
        )
        return min(
            2 * (levels - 1 + pieces) * (self.latency + size / pieces / self.bandwidth)
            for pieces in {max(1, math.floor(best)), max(1, math.ceil(best))}
        )


def step(timeline: Timeline, network: Network, kind: str, n: int, *, overlaps: bool = True) -> float:
    """Seconds of a step of n ranks.

    A bucket goes its way when it is ready and the one before it has arrived, after a small reduction that compares the
    call between ranks; without overlap none goes before the end of the pass.
    """
    reduce = getattr(network, kind)
    free = 0.0
    for bucket in timeline.buckets if n > 1 else ():
        ready = bucket.ready if overlaps else timeline.passes
        free = max(free, ready) + network.tree(CHECK, n) + reduce(bucket.size, n)
    return max(free, timeline.passes) + timeline.rest


def efficiency(timeline: Timeline, network: Network, kind: str, n: int, *, overlaps: bool = True) -> float:
    """What part of the time ranks compute, each with a batch as large as one alone would have."""
    return step(timeline, network, kind, 1) / step(timeline, network, kind, n, overlaps=overlaps)


def falls_below(timeline: Timeline, network: Network, kind: str, *, overlaps: bool = True) -> int | None:
    """The first number of ranks with less than `GOAL`; None if all have more."""
    return next((n for n in RANKS if efficiency(timeline, network, kind, n, overlaps=overlaps) < GOAL), None)


# --- timelines ---------------------------------------------------------------------------------------------------


def record(name: str, model: Any, loss: Callable[[], Any], optimizer: Any, steps: int = 10) -> Timeline:
    """The timeline of a program, on one rank: medians over steps, after buckets were assigned anew.

    Parameters
    ----------
    name : str
    model : DistributedDataParallel
        Without a communication hook.
    loss : callable
        Runs the model on a batch, and gives the loss.
    optimizer : Optimizer
    steps : int
    """
    from fastgrad.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    if model.process_group.size() != 1:
        raise ValueError("record(): run it on one rank, where nothing waits for others")
    seen: list[tuple[int, float]] = []

    def hook(state, bucket):
        seen.append((bucket.buffer().numel() * bucket.buffer().element_size(), time.perf_counter()))
        return allreduce_hook(state, bucket)

    model.register_comm_hook(None, hook)
    found = []
    for _ in range(steps + 2):
        seen.clear()
        optimizer.zero_grad()
        start = time.perf_counter()
        loss().backward()
        end = time.perf_counter()
        optimizer.step()
        found.append(([(size, at - start) for size, at in seen], end - start, time.perf_counter() - end))
    kept = found[2:]
    buckets = tuple(
        Bucket(same[0][0], statistics.median(ready for _, ready in same))
        for same in zip(*(buckets for buckets, _, _ in kept), strict=True)
    )
    return Timeline(name, buckets, *(statistics.median(one[k] for one in kept) for k in (1, 2)))


def counted(name: str, layers: Sequence[tuple[int, float]], rate: float) -> Timeline:
    """A timeline of counts: how many elements and multiply-adds each layer has, at so many multiply-adds a second.

    Backward takes twice the multiply-adds of forward, and gradients are there in the reverse order; buckets are those
    of `DistributedDataParallel`, of float32.
    """
    from fastgrad.distributed.buckets import DEFAULT_BUCKET_BYTES, DEFAULT_FIRST_BUCKET_BYTES, assign_buckets

    forward = sum(work for _, work in layers) / rate
    sizes, ready, now = [], [], forward
    for elements, work in reversed(layers):
        now += 2 * work / rate
        if elements:
            sizes.append(4 * elements)
            ready.append(now)
    groups = assign_buckets(sizes, [0] * len(sizes), [DEFAULT_FIRST_BUCKET_BYTES, DEFAULT_BUCKET_BYTES])
    buckets = tuple(Bucket(sum(sizes[k] for k in group), max(ready[k] for k in group)) for group in groups)
    return Timeline(name, buckets, 3 * forward)


def transformer(width: int, depth: int, words: int, tokens: int) -> list[tuple[int, float]]:
    """Elements and multiply-adds of the layers of a language model, for so many tokens.

    Its first layer looks up what its last one multiplies with, so that this gradient is there at the very end.
    """
    block = [3 * width * width, width * width, 4 * width * width, 4 * width * width]
    layers = [(words * width, 0.0)]
    for _ in range(depth):
        layers += [(n + width, float(n) * tokens) for n in block]
    return [*layers, (0, float(words) * width * tokens)]


def timelines() -> Iterator[Timeline]:
    """Those of docs/scaling.md."""
    small, large = (768, 12), (2048, 24)
    for (width, depth), tokens, rate in (
        (small, 8192, 5e11),
        (small, 512, 5e11),
        (large, 2048, 5e11),
        (small, 8192, 1e14),
    ):
        layers = transformer(width, depth, 50257, tokens)
        millions = sum(elements for elements, _ in layers) / 1e6
        name = f"{millions:,.0f} million parameters, {tokens:,} tokens a rank, {rate / 1e12:g} T/s"
        yield counted(name, layers, rate)


# --- the table -----------------------------------------------------------------------------------------------------


def table(timeline: Timeline, network: Network) -> str:
    """Efficiencies by ranks, and where they fall below `GOAL`, as a table of Markdown."""
    ways = [(kind, overlaps) for kind in ("ring", "tree") for overlaps in (True, False)]
    lines = [
        "| ranks | ring | ring, no overlap | tree | tree, no overlap |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    for n in RANKS:
        cells = [f"{efficiency(timeline, network, kind, n, overlaps=o):.2f}" for kind, o in ways]
        lines.append(f"| {n:,} | " + " | ".join(cells) + " |")
    below = [falls_below(timeline, network, kind, overlaps=o) for kind, o in ways]
    lines.append(
        f"| below {GOAL} from | " + " | ".join("never" if n is None else f"{n:,}" for n in below) + " |"
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("timeline", nargs="?", type=Path, help="a file of Timeline.save")
    parser.add_argument("--bandwidth", type=float, default=12.5, help="GB/s of a rank's link, each way")
    parser.add_argument("--latency", type=float, default=5.0, help="microseconds of a message")
    options = parser.parse_args()
    network = Network(options.bandwidth * 1e9, options.latency * 1e-6)
    for timeline in [Timeline.load(options.timeline)] if options.timeline else timelines():
        total = sum(bucket.size for bucket in timeline.buckets)
        print(
            f"{timeline.name}: {len(timeline.buckets)} buckets, {total / 1e6:,.0f} MB\n\n{table(timeline, network)}\n"
        )


if __name__ == "__main__":
    main()
