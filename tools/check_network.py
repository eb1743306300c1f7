"""Check the model of `benchmarks/network.py` against two ranks of this machine.

    mpiexec -n 2 python tools/check_network.py

The network is that between the ranks: latency and bandwidth are fitted to how long reductions of several sizes take.
The timeline of each example is recorded on both ranks at once, each in a group of its own, so that it has what the
machine takes from two processes that have nothing to do with each other. What the model makes of both stands beside
steps of the two together, as the slower rank has them; with overlap, and as if nothing was sent before the end of the
pass.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from compare_models import models_of  # also settles the number of threads, before fastgrad is imported
from recording import benchmarks

import fastgrad as fg
import fastgrad.distributed as dist
from fastgrad.nn import functional as F
from fastgrad.nn.parallel import DistributedDataParallel

network_model = benchmarks("fastgrad", "network")
models = models_of("fastgrad")

RANKS = 2
SIZES = tuple(1 << k for k in range(12, 25, 2))
"""Bytes of the reductions that latency and bandwidth are fitted to."""
REPEATS = 30
STEPS = 20

Program = tuple[Any, Callable[[Any], Any]]
"""A model, and what makes a loss of it."""


def gpt() -> Program:
    """The examples' GPT on 16 pieces of 128 characters."""
    text = fg.tensor(np.random.default_rng(0).integers(0, 96, (16, 129)))
    inputs, targets = text[:, :-1].contiguous(), text[:, 1:].reshape(-1)
    return models.GPT(96), lambda model: F.cross_entropy(model(inputs).view(-1, 96), targets)


def cnn() -> Program:
    """The examples' CNN on 64 digits."""
    rng = np.random.default_rng(0)
    images = fg.tensor(rng.standard_normal((64, 1, 28, 28)).astype(np.float32))
    classes = fg.tensor(rng.integers(0, 10, 64))
    return models.CNN(), lambda model: F.cross_entropy(model(images), classes)


def slower(seconds: float) -> float:
    """The larger of what both ranks measured."""
    found = fg.tensor([seconds], dtype=fg.float64)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return found.item()


def timed(work: Callable[[], Any], repeats: int) -> float:
    """The median of seconds, on the slower rank, of what both ranks begin together."""
    found = []
    for _ in range(repeats):
        dist.barrier()
        start = time.perf_counter()
        work()
        found.append(slower(time.perf_counter() - start))
    return statistics.median(found)


def fitted() -> tuple[Any, list[tuple[int, float]]]:
    """The network between two ranks, and what it was fitted to: bytes and seconds.

    A ring of two sends two messages of a half each: ``2 latency + size / bandwidth``.
    """
    found = []
    for size in SIZES:
        values = fg.ones(size // 4)
        found.append((size, timed(lambda values=values: dist.all_reduce(values), REPEATS)))
    sizes, seconds = np.array(found).T
    slope, start = np.polyfit(sizes, seconds, 1, w=1 / seconds)
    return network_model.Network(1 / slope, max(start / RANKS, 0.0)), found


def checked(name: str, program: Callable[[], Program], network: Any, own: Any) -> str:
    """A row of the table: what the model says of an example, and what two ranks measure."""
    fg.manual_seed(0)
    model, loss = program()
    alone = DistributedDataParallel(model, process_group=own)
    optimizer = fg.optim.AdamW(model.parameters(), lr=1e-4)
    dist.barrier()
    timeline = network_model.record(name, alone, lambda: loss(alone), optimizer, STEPS)
    both = DistributedDataParallel(model)

    def together() -> None:
        optimizer.zero_grad()
        loss(both).backward()
        optimizer.step()

    for _ in range(3):
        together()
    measured = timed(together, STEPS)
    parts = [network_model.step(timeline, network, "ring", 1)]
    for overlaps in (True, False):
        parts.append(network_model.step(timeline, network, "ring", RANKS, overlaps=overlaps))
    apart, hidden, exposed = map(slower, parts)
    numbers = " | ".join(f"{1e3 * t:.1f}" for t in (apart, hidden, exposed, measured))
    return f"| {name} | {len(timeline.buckets)} | {numbers} | {hidden / measured:.2f} |"


def main() -> None:
    """Print the network and the table."""
    dist.init_process_group("mpi")
    if dist.get_world_size() != RANKS:
        sys.exit("this is a program for two ranks: mpiexec -n 2 python tools/check_network.py")
    rank = dist.get_rank()
    own = [dist.new_group([k]) for k in range(RANKS)][rank]
    network, found = fitted()
    rows = [checked(name, program, network, own) for name, program in (("GPT", gpt), ("CNN", cnn))]
    if rank == 0:
        print(f"{network.latency * 1e6:.0f} us a message, {network.bandwidth / 1e9:.1f} GB/s; all-reduces:")
        print(", ".join(f"{size // 1024} KiB {1e6 * seconds:.0f} us" for size, seconds in found))
        print("\n| example | buckets | alone, ms | model | model, no overlap | measured | model / measured |")
        print("| :-- | ---: | ---: | ---: | ---: | ---: | ---: |")
        print("\n".join(rows))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
