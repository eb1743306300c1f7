"""The README's table of times, made of records of named machines in `benchmarks/records`.

    python tools/figures.py                            # write the table
    python tools/figures.py --check                    # fail if it is not what the records say
    taskset -c 0 python tools/figures.py --record      # time everything beside PyTorch, and add a record
    taskset -c 0,1 python tools/figures.py --record --threads 2 kernels
    python tools/figures.py --record --beside fastgrad --out noise.json   # what a machine's noise makes of equal work

Record on a machine that does nothing else, pinned to as many cores as there are threads. A record has the name of the
processor, the date, versions, and for each figure the seconds in both libraries and how many times as fast fastgrad
is: the median of the ratios of neighbouring rounds, or, for what something adds to other work, the ratio of medians.
Of each figure the table shows the newest record.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastgrad.testing.coverage import with_lines

ROOT = Path(__file__).parent.parent
RECORDS = ROOT / "benchmarks" / "records"
README = ROOT / "README.md"
MARK = "<!-- how fast it is: written by tools/figures.py -->"

Record = dict[str, Any]
Row = tuple[str, int, str]

ROWS: tuple[Row, ...] = (
    ("chain", 1, "`h = h * y` on 16 numbers, forward and backward, per operation"),
    ("small_mlp", 1, "MLP 64-128-128-10, batch 32, one SGD step"),
    ("large_mlp", 1, "MLP 784-1024-1024-10, batch 256, one SGD step"),
    ("kernels", 1, "{pieces} kinds of kernels, small to large, forward and backward, geometric mean"),
    ("kernels", 2, "the same on two threads"),
    ("cnn", 1, "the examples' CNN, 64 digits, one Adam step"),
    ("gpt", 1, "the examples' GPT, 16 texts of 128 characters, one AdamW step"),
    ("lstm", 1, "the examples' LSTM, 64 digits, one Adam step"),
    ("adam_small", 1, "an Adam step over 200 parameters of 32 x 32"),
    ("adam_large", 1, "an Adam step over 10 million elements (PyTorch's fused one)"),
    ("tensor_hook", 1, "one Python tensor hook, registered, called, dropped"),
    ("node_hook", 1, "one node hook"),
    ("node_prehook", 1, "one node pre-hook"),
    ("module_call", 1, "a module's call, on top of its `forward`"),
    ("forward_hook", 1, "one forward hook of a module"),
    ("full_backward_hook", 1, "one full backward hook of a module"),
    ("custom_function", 1, "a custom function that saves its input, forward and backward"),
    ("post_accumulate_hooks", 1, "post-accumulate hooks on 200 parameters, added to one pass"),
    ("import", 1, "`import` with a warm cache"),
)
"""Names of figures, the number of threads, and what the table calls them."""


# --- the table ---------------------------------------------------------------------------------------------------


def records(folder: Path) -> list[Record]:
    """All records, the oldest first."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    return sorted(found, key=lambda record: str(record["date"]))


def time_text(seconds: float) -> str:
    """A time with two or three digits."""
    unit, size = ("us", 1e-6) if seconds < 1e-3 else ("ms", 1e-3) if seconds < 0.1 else ("s", 1.0)
    n = seconds / size
    return f"{n:.0f} {unit}" if n >= 10 else f"{n:.1f} {unit}" if n >= 1 else f"{n:.2f} {unit}"


def ratio_text(ratio: float) -> str:
    """How many times as fast; near 1 the hundredths matter."""
    return f"{ratio:.0f}" if ratio >= 20 else f"{ratio:.1f}" if ratio >= 1.2 else f"{ratio:.2f}"


def measured_on(record: Record) -> str:
    """Where, when and with what a record was made."""
    machine, versions = record["machine"], record["versions"]
    libraries = ", ".join(f"{name} {versions[name]}" for name in ("fastgrad", "torch") if versions.get(name))
    rounds = record.get("rounds") and f"the median of {record['rounds']} rounds"
    return ", ".join(
        filter(None, [machine["processor"], record["date"], libraries, rounds, record.get("note")])
    )


def table(found: Sequence[Record]) -> list[str]:
    """The lines of the table of some records, the oldest first."""
    shown: list[tuple[str, dict[str, Any], str]] = []
    for name, threads, text in ROWS:
        having = [r for r in found if r["threads"] == threads and name in r["figures"]]
        if having:
            figure = having[-1]["figures"][name]
            shown.append((text.format(**figure), figure, measured_on(having[-1])))
    where = list(dict.fromkeys(place for _, _, place in shown))
    lines = ["", *(f"{k}. {place}" for k, place in enumerate(where, 1)), ""]
    lines += ["| work | fastgrad | times as fast as PyTorch | machine |", "| --- | --- | --- | --- |"]
    for text, figure, place in shown:
        time = time_text(figure["seconds"]) if "seconds" in figure else ""
        lines.append(f"| {text} | {time} | {ratio_text(figure['ratio'])} | {where.index(place) + 1} |")
    return lines


# --- records -----------------------------------------------------------------------------------------------------


def processor() -> str:
    """What the system calls the processor, with its family and model, as hosts shorten names."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    found = dict(re.findall(r"^(model name|cpu family|model)\s*: (.+)$", text, re.MULTILINE))
    if "model name" not in found:
        return platform.machine()
    numbers = [
        f"{word} {found[key]}" for word, key in (("family", "cpu family"), ("model", "model")) if key in found
    ]
    return f"{found['model name']} ({', '.join(numbers)})" if numbers else found["model name"]


def _commit() -> str | None:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or None


def record(given: argparse.Namespace) -> Path:
    """Measure, and write what came out."""
    from recording import FIGURES, recorded  # settles the number of threads

    if unknown := set(given.names) - set(FIGURES):
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(FIGURES)}")
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    machine = {
        "processor": given.machine or processor(), "cores": len(os.sched_getaffinity(0)), "system": platform.platform(),
    }  # fmt: skip
    made: Record = {"machine": machine, "date": today, "commit": _commit()}
    made |= recorded(given.names or list(FIGURES), given.beside, given.rounds, given.seconds)
    made["versions"]["python"] = platform.python_version()
    name = re.sub(r"[^a-z0-9]+", "-", str(machine["processor"]).lower()).strip("-")
    out: Path = given.out or RECORDS / f"{today}-{name}-{made['threads']}.json"
    out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    return out


def main(arguments: list[str]) -> int:
    """Write or check the table, or make a record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="FIGURE", help="what to record; everything without any")
    parser.add_argument("--check", action="store_true", help="fail if the table is not what the records say")
    parser.add_argument("--record", action="store_true", help="measure, and add a record")
    parser.add_argument("--beside", default="torch", help="the library to compare with")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.15, help="length of a round of one library")
    parser.add_argument("--machine", help="a name of the processor, instead of the one that the system gives")
    parser.add_argument("--out", type=Path, help="where the record goes; the table does not change then")
    given = parser.parse_args(arguments)
    if given.record:
        print(f"written: {record(given)}")
        if given.out:
            return 0
    page = README.read_text(encoding="utf-8")
    wanted = with_lines(page, MARK, table(records(RECORDS)))
    if wanted == page:
        return 0
    if given.check:
        print(
            "the README's table is not what benchmarks/records says: python tools/figures.py", file=sys.stderr
        )
        return 1
    README.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
