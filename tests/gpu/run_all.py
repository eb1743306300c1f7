"""Everything that only a GPU can show, in one command: python tests/gpu/run_all.py [--out FOLDER] [--budget 560]

Each step is a process of its own with a share of the time, and what it finds is written at once: to a file of JSON
lines for each step, and to a table in the end. A step that fails, or takes too long, does not stop the others.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

STEPS = {
    "versions": 30, "building": 120, "launches": 60, "graphs": 50, "bandwidth": 90, "products": 60, "memory": 40,
    "exchange": 30, "errors": 60, "models": 90, "tests": 300, "sanitizer": 120,
}  # fmt: skip
"""Seconds that a step may take on a GPU, in the order of what is missed most."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("gpu-results"), help="where results go")
    parser.add_argument("--budget", type=float, default=560, help="seconds for everything")
    parser.add_argument("--only", default="", help="steps, separated by commas")
    parser.add_argument("--stand-in", action="store_true", help="over a driver without a GPU, at tiny sizes")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    return parser.parse_args()


def one_step(name: str, stand_in: bool) -> None:
    """Write the rows of a step to the standard output, as JSON lines."""
    from tests.gpu.steps.machine import machine

    with machine(stand_in) as here:
        for row in importlib.import_module(f"tests.gpu.steps.{name}").run(here):
            print(json.dumps(row._asdict(), default=str), flush=True)


def rows_of(name: str, seconds: float, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run a step in a process; what it found, and in the end how it ended."""
    command = [sys.executable, __file__, "--step", name, *(["--stand-in"] if options.stand_in else [])]
    started = time.monotonic()
    path = options.out / f"{name}.jsonl"
    with path.open("w") as out, path.with_suffix(".err").open("w") as err:
        try:
            code = subprocess.run(command, stdout=out, stderr=err, timeout=seconds, cwd=ROOT).returncode
            ended = f"exit status {code}"
        except subprocess.TimeoutExpired:
            code, ended = 1, f"stopped after {seconds:.0f} s"
    rows = [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]
    for row in rows:
        if options.stand_in and row["target"] is not None:
            row["ok"] = None  # its times mean nothing
    took = time.monotonic() - started
    if code:
        said = path.with_suffix(".err").read_text().strip().splitlines()
        ended += f": {said[-1][:150]}" if said else ""
    return [*rows, {"what": f"{took:.0f} s", "value": ended, "unit": "", "target": None, "ok": not code}]


def table(found: dict[str, list[dict[str, Any]]]) -> str:
    """All rows, for `docs/cuda.md`."""
    lines = ["| step | what | found | target | |", "|---|---|---|---|---|"]
    for step, rows in found.items():
        for row in rows:
            mark = {True: "yes", False: "**no**", None: ""}[row["ok"]]
            value = f"{row['value']} {row['unit']}".strip()
            target = "" if row["target"] is None else row["target"]
            lines.append(f"| {step} | {row['what']} | {value} | {target} | {mark} |".replace("\n", " "))
    return "\n".join(lines)


def main() -> int:
    options = arguments()
    if options.step:
        one_step(options.step, options.stand_in)
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    ends = time.monotonic() + options.budget
    found: dict[str, list[dict[str, Any]]] = {}
    for name, seconds in STEPS.items():
        if options.only and name not in options.only.split(","):
            continue
        left = ends - time.monotonic()
        if left < 5:
            print(f"{name}: no time is left", flush=True)
            continue
        found[name] = rows_of(name, left if options.stand_in else min(seconds, left), options)
        failed = sum(row["ok"] is False for row in found[name])
        print(f"{name}: {len(found[name]) - 1} rows, {failed} not as they should be", flush=True)
        (options.out / "all.json").write_text(json.dumps(found, indent=1))
        (options.out / "table.md").write_text(table(found) + os.linesep)
    print(table(found))
    return int(any(row["ok"] is False for rows in found.values() for row in rows))


if __name__ == "__main__":
    sys.exit(main())
