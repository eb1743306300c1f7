"""``python -m tests.autograd.random_programs --seeds 5000 --start 0``: many programs, the smallest failing ones."""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import ModuleType

from tests.autograd.random_programs.compare import Difference, check
from tests.autograd.random_programs.draw import draw
from tests.autograd.random_programs.features import DIFFERENCES, FEATURES, available
from tests.autograd.random_programs.program import Program
from tests.autograd.random_programs.run import Run
from tests.autograd.random_programs.shrink import shrink


def load(name: str) -> ModuleType:
    lib = importlib.import_module(name)
    if name == "torch":
        lib.set_num_threads(1)
    return lib


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.autograd.random_programs", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many programs")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--chunk", type=int, default=500, help="programs of one process; 0: run them in this one"
    )
    parser.add_argument("--libraries", nargs=2, default=["fastgrad", "torch"], metavar="NAME")
    parser.add_argument("--features", help="names joined by commas, in place of all that both libraries have")
    parser.add_argument(
        "--failures", type=int, default=5, help="show so many programs that fail, each kind once"
    )
    parser.add_argument(
        "--leaks", action="store_true", help="also check that nothing outlives a program (slower)"
    )
    parser.add_argument("--show", action="store_true", help="print each program and run nothing")
    parser.add_argument("--progress", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    options = arguments()
    libraries = [load(name) for name in options.libraries]
    features = available(*libraries)
    if options.features is not None:
        features = frozenset(filter(None, options.features.split(",")))
    if options.chunk and not options.show:
        print("features:", ", ".join(sorted(features)) or "none")
        print("left out:", ", ".join(sorted({*FEATURES, *DIFFERENCES} - features)) or "nothing", flush=True)
        return in_processes(options)
    return here(options, libraries, features)


# --- many processes, one after the other: a crash costs one program ----------------------------------------------


def in_processes(options: argparse.Namespace) -> int:
    end, start, failed = options.start + options.seeds, options.start, 0
    passed_on = ["--libraries", *options.libraries, "--failures", str(options.failures)]
    passed_on += ["--leaks"] if options.leaks else []
    passed_on += [] if options.features is None else ["--features", options.features]
    with tempfile.TemporaryDirectory() as folder:
        progress = Path(folder) / "progress"
        while start < end:
            count = min(options.chunk, end - start)
            command = [sys.executable, "-X", "faulthandler", "-m", "tests.autograd.random_programs"]
            command += [
                "--seeds",
                str(count),
                "--start",
                str(start),
                "--chunk",
                "0",
                "--progress",
                str(progress),
            ]
            code = subprocess.run([*command, *passed_on], check=False).returncode
            failed += code != 0
            if code in (0, 1):
                start += count
                continue
            where = progress.read_text().split()
            print(f"CRASH: seed {where[0]} in {where[1]} ended its process with {code}", flush=True)
            start = int(where[0]) + 1
    return int(failed > 0)


# --- in this process --------------------------------------------------------------------------------------------


def here(options: argparse.Namespace, libraries: list[ModuleType], features: frozenset[str]) -> int:
    kinds: Counter[str] = Counter()
    for seed in range(options.start, options.start + options.seeds):
        program = draw(seed, features)
        if options.show:
            print(f"# seed {seed}\n{program}\n")
            continue
        if options.progress is not None:
            for name in reversed(options.libraries):  # where a process may end, torch's first
                options.progress.write_text(f"{seed} {name}")
                Run(importlib.import_module(name), program)
        found = check(program, libraries)
        leak = leaked(program, libraries[0]) if options.leaks and found is None else ""
        if found is None and not leak:
            continue
        kind = found.kind if found is not None else f"leak: {leak}"
        kinds[kind] += 1
        if kinds[kind] == 1 and len(kinds) <= options.failures:
            show(seed, program, found, leak, libraries)
    if not options.show:
        print(
            f"seeds {options.start} to {options.start + options.seeds - 1}: {sum(kinds.values())} differ",
            flush=True,
        )
        for kind, count in kinds.most_common():
            print(f"  {count:4} {kind}", flush=True)
    return int(bool(kinds))


def show(
    seed: int, program: Program, found: Difference | None, leak: str, libraries: list[ModuleType]
) -> None:
    if found is not None:
        kind = found.kind
        small = shrink(program, lambda p: getattr(check(p, libraries), "kind", None) == kind)
        found = check(small, libraries)
    else:
        small = shrink(program, lambda p: bool(leaked(p, libraries[0])))
        leak = leaked(small, libraries[0])
    print(f"\n# seed {seed}\n{small}\n{leak if found is None else found}\n", flush=True)


def leaked(program: Program, lib: ModuleType) -> str:
    """What of a program is still alive after it."""
    import gc

    live = getattr(getattr(lib, "debug", None), "live", None)
    if live is None:
        return ""
    before = live()
    Run(lib, program)
    if live() == before:
        return ""
    gc.collect()  # cycles of this program, and of those before it
    before = live()
    Run(lib, program)
    gc.collect()
    after = live()
    return "" if after == before else str({k: after[k] - n for k, n in before.items() if after[k] != n})


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
