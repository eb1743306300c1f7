"""Compare training on two ranks with that on one and with PyTorch's over gloo, and data loaders with two workers.

    python tools/compare_ranks.py                      # everything, one thread a rank; some minutes
    python tools/compare_ranks.py gpt buckets --rounds 5
    python tools/compare_ranks.py --json ranks.json

Each rank has a batch of the same size as one alone. Every way of working has its turn in each round, between the same
two processes: *alone*, while the other rank sleeps; *apart*, both at once, each for itself, which shows what the
machine takes from two processes that have nothing to do with each other; *together*, with `DistributedDataParallel`;
and the same in PyTorch. A time is that of the slower rank; what is printed are medians over rounds, of times and
of the ratios within a round.

- scaling: alone / together, the steps per second of a rank beside those of one rank. What is left of it on a machine
  whose apart is slower than its alone is apart / together.
- exposed: the part of a step together that a step apart does not take.
- hook: what `allreduce_hook`, in Python, adds to a pass for each bucket.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from compare_models import WORK, Step  # also settles the number of threads, before the libraries are imported
from figures import processor

BUCKETS = 32
WIDTH = 64
BATCH = 32
WORKERS = 2
RANKS = 2
LIMIT = datetime.timedelta(minutes=5)
"""How long the ranks wait for each other, compiling included."""

Rounds = dict[str, list[float]]
Row = dict[str, Any]


# --- on the ranks --------------------------------------------------------------------------------------------------


def together(lib: Any, name: str) -> Step:
    """Steps of an example with its gradients averaged over ranks."""
    return WORK[name](lib, lib.nn.parallel.DistributedDataParallel)


def passes(lib: Any, hook: bool) -> Step:
    """Passes of a chain of small layers, each with a bucket of its own."""
    model = lib.nn.Sequential(*(lib.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(BUCKETS)))
    size = WIDTH * WIDTH * 4 / 2**20
    model = lib.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=size)
    if hook:
        hooks = importlib.import_module(f"{lib.__name__}.distributed.algorithms.ddp_comm_hooks.default_hooks")
        model.register_comm_hook(None, hooks.allreduce_hook)
    x = lib.ones(BATCH, WIDTH)

    def step() -> None:
        model.zero_grad()
        model(x).sum().backward()

    return step


class Ranks:
    """Steps that the ranks time in turn.

    Parameters
    ----------
    least : float
        Seconds that the steps of a turn take about.
    """

    def __init__(self, least: float) -> None:
        self.comm = importlib.import_module("mpi4py.MPI").COMM_WORLD.Dup()
        self.first = self.comm.rank == 0
        self.least = least
        self.counts: dict[str, int] = {}

    def meet(self) -> None:
        """Wait for the others, without a core."""
        request = self.comm.Ibarrier()
        while not request.Test():
            time.sleep(0.002)

    def turn(self, name: str, step: Step, alone: bool) -> float:
        """The seconds of a step on the slower rank; of one alone, while the other one sleeps."""
        count = self.counts.get(name, 3)
        self.meet()
        self.comm.Barrier()
        start = time.perf_counter()
        if self.first or not alone:
            for _ in range(count):
                step()
        took = 0.0 if alone and not self.first else (time.perf_counter() - start) / count
        self.meet()
        took = max(self.comm.allgather(took))
        self.counts[name] = max(3, math.ceil(self.least / took))
        return took

    def rounds(self, steps: dict[str, Step], count: int) -> Rounds:
        """The times of steps in some rounds; those named alone are taken by one rank."""
        for _ in range(4):
            for step in steps.values():
                step()
        for name, step in steps.items():  # finds how many steps make a turn
            self.turn(name, step, name == "alone")
        found: Rounds = {name: [] for name in steps}
        for _ in range(count):
            for name, step in steps.items():
                found[name].append(self.turn(name, step, name == "alone"))
        return found


def on_ranks(given: argparse.Namespace) -> None:
    """What each rank runs; the first one writes what was measured."""
    fastgrad, torch = (importlib.import_module(name) for name in ("fastgrad", "torch"))
    torch.set_num_threads(1)
    fastgrad.distributed.init_process_group("mpi", timeout=LIMIT)
    rank = fastgrad.distributed.get_rank()
    torch.distributed.init_process_group(
        "gloo", f"file://{given.meet}.store", rank=rank, world_size=RANKS, timeout=LIMIT
    )
    ranks = Ranks(given.seconds)
    found: dict[str, Rounds] = {}
    for name in given.work:
        if name == "buckets":
            steps = {"fastgrad": passes(fastgrad, False), "fastgrad_hook": passes(fastgrad, True)}
            steps.update({"torch": passes(torch, False), "torch_hook": passes(torch, True)})
        else:
            plain = WORK[name](fastgrad)
            steps = {"alone": plain, "apart": plain, "together": together(fastgrad, name)}
            steps["torch"] = together(torch, name)
        found[name] = ranks.rounds(steps, given.rounds)
    if rank == 0:
        Path(given.meet).write_text(json.dumps(found), "utf-8")
    torch.distributed.destroy_process_group()
    fastgrad.distributed.destroy_process_group()


def measured_on_ranks(given: argparse.Namespace, work: list[str]) -> dict[str, Rounds]:
    """Start the ranks, and read what they measured."""
    launching = importlib.import_module("fastgrad.distributed.launching")
    mpiexec = launching.find_mpiexec()
    if mpiexec is None:
        sys.exit('there is no mpiexec: pip install "fastgrad[mpi]"')
    with tempfile.TemporaryDirectory() as folder:
        meet = Path(folder) / "found.json"
        options = ["--rounds", str(given.rounds), "--seconds", str(given.seconds), "--meet", str(meet)]
        program = [sys.executable, __file__, *work, *options]
        subprocess.run([mpiexec, "-n", str(RANKS), *program], check=True)
        found: dict[str, Rounds] = json.loads(meet.read_text("utf-8"))
    return found


# --- loaders -------------------------------------------------------------------------------------------------------


class Large:
    """1,024 samples of 64 KiB."""

    def __init__(self, library: str) -> None:
        self.library = library
        self.rows = np.random.default_rng(0).random((64, 1 << 14), dtype=np.float32)

    def __len__(self) -> int:
        return 1024

    def __getitem__(self, index: int) -> Any:
        return importlib.import_module(self.library).from_numpy(self.rows[index % 64]), index


def digits(library: str) -> Any:
    """As many images and classes as the MNIST example has."""
    lib = importlib.import_module(library)
    rng = np.random.default_rng(0)
    images = rng.standard_normal((5000, 1, 28, 28)).astype(np.float32)
    data = importlib.import_module(f"{library}.utils.data")
    return data.TensorDataset(lib.from_numpy(images), lib.from_numpy(rng.integers(0, 10, 5000)))


LOADERS: dict[str, tuple[Callable[[str], Any], int]] = {"digits": (digits, 64), "large": (Large, 32)}
"""What makes the samples, and how many are in a batch."""


def passing(library: str, name: str) -> Callable[[], float]:
    """A function that goes through all samples once, made by workers that stay, and gives how many come in a second."""
    make, batch = LOADERS[name]
    data = make(library)
    loader = importlib.import_module(f"{library}.utils.data").DataLoader(
        data, batch, shuffle=True, num_workers=WORKERS, persistent_workers=True
    )

    def run() -> float:
        start = time.perf_counter()
        for inputs, _ in loader:
            inputs.sum()
        return len(data) / (time.perf_counter() - start)

    return run


def measured_loaders(given: argparse.Namespace, name: str) -> Rounds:
    """Samples a second in both libraries."""
    importlib.import_module("torch").set_num_threads(1)
    runs = {library: passing(library, name) for library in ("fastgrad", "torch")}
    found: Rounds = {library: [] for library in runs}
    for _ in range(given.rounds + 1):
        for library, run in runs.items():
            start, rates = time.perf_counter(), [run()]
            while time.perf_counter() - start < given.seconds:
                rates.append(run())
            found[library].append(statistics.harmonic_mean(rates))
    return {library: rates[1:] for library, rates in found.items()}  # workers start in the first round


# --- what is printed -----------------------------------------------------------------------------------------------


def median(of: Callable[..., float], *columns: list[float]) -> float:
    """The median over rounds of something that is computed in each."""
    return statistics.median(map(of, *columns))


def row(name: str, found: Rounds) -> Row:
    """The numbers that are asked for."""
    if name in LOADERS:
        ours, theirs = found["fastgrad"], found["torch"]
        rates = {f"{library}_samples_per_s": statistics.median(r) for library, r in found.items()}
        return rates | {"ratio": median(lambda a, b: a / b, ours, theirs)}
    times = {f"{way}_s": statistics.median(seconds) for way, seconds in found.items()}
    if name == "buckets":
        for library in ("fastgrad", "torch"):
            added = median(lambda a, b: (a - b) / BUCKETS, found[f"{library}_hook"], found[library])
            times[f"{library}_hook_per_bucket_s"] = added
        return times
    alone, apart, ddp = found["alone"], found["apart"], found["together"]
    return times | {
        "scaling": median(lambda a, b: a / b, alone, ddp),
        "scaling_of_apart": median(lambda a, b: a / b, alone, apart),
        "exposed": median(lambda a, b: (b - a) / b, apart, ddp),
        "torch_ratio": median(lambda a, b: a / b, found["torch"], ddp),
    }


def text(name: str, numbers: Row) -> str:
    """A row for people."""

    def cell(key: str, value: float) -> str:
        if key.endswith("per_bucket_s"):
            return f"{key[:-2]} {value * 1e6:.1f} us"
        if key.endswith("samples_per_s"):
            return f"{key[:-14]} {value:,.0f} samples/s"
        return f"{key[:-2]} {value * 1e3:.2f} ms" if key.endswith("_s") else f"{key} {value:.2f}"

    return f"{name:8} " + ", ".join(cell(key, value) for key, value in numbers.items())


def main() -> None:
    """Print a row for each piece of work."""
    names = ["gpt", "cnn", "buckets", *LOADERS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("work", nargs="*", metavar="WORK", help=f"of {', '.join(names)}; all without any")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a turn")
    parser.add_argument("--json", type=Path, help="write the numbers, with those of each round, to this file")
    parser.add_argument("--meet", help=argparse.SUPPRESS)  # given to ranks
    given = parser.parse_args()
    if unknown := set(given.work) - set(names):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    if given.meet:
        on_ranks(given)
        return
    work = [name for name in names if name in (given.work or names)]
    shared = [name for name in work if name not in LOADERS]
    found = measured_on_ranks(given, shared) if shared else {}
    found |= {name: measured_loaders(given, name) for name in work if name in LOADERS}
    rows = {name: row(name, rounds) for name, rounds in found.items()}
    for name, numbers in rows.items():
        print(text(name, numbers), flush=True)
    if given.json:
        libraries = [importlib.import_module(name) for name in ("fastgrad", "torch", "mpi4py")]
        facts = {
            "processor": processor(),
            "cores": len(os.sched_getaffinity(0)),
            "versions": {library.__name__: library.__version__ for library in libraries},
            "rounds": found,
            "figures": rows,
        }
        given.json.write_text(json.dumps(facts, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
