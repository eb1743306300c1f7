"""Starts workers, reads their logs, and finds out which case ended one."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz.case import Case, program
from tests.fuzz.families import draw
from tests.fuzz.judge import Failure
from tests.fuzz.shrink import shrink

ROOT = Path(__file__).resolve().parents[2]
BATCH = 100  # cases of one process
HANG_SECONDS = 120.0  # a case that takes longer hangs; compiling counts, also on a busy machine
TRIAL_SECONDS = 5.0  # a hang that is being made shorter; everything is compiled by then


@dataclass
class Found:
    """A case that failed, and how."""

    case: Case
    failure: Failure
    before: list[tuple[str, int]] = field(default_factory=list)  # the cases of the process so far
    count: int = 1

    def report(self) -> str:
        lines = [
            f"{self.failure.kind}   ({self.count} times, first in {self.case.name})",
            program(self.case.steps),
        ]
        return "\n".join([*lines, self.failure.detail.rstrip()]) + "\n"


# --- one process --------------------------------------------------------------------------------------------


class Worker:
    """A process that runs cases."""

    def __init__(self, debug: bool) -> None:
        reading, writing = os.pipe()
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz.worker", str(writing)],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self.stderr, pass_fds=[writing], cwd=ROOT,
            start_new_session=True, text=True,
            env={**os.environ, "PYTHONPATH": path, "FASTGRAD_DEBUG": str(int(debug)), "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
        os.close(writing)
        self.log = os.fdopen(reading)
        self.reaper = threading.Thread(target=self._reap)
        self.reaper.start()

    def _reap(self) -> None:
        """When the process has ended, end what it forked, which would keep the log open."""
        self.process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def send(self, **job: Any) -> None:
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(job), file=self.process.stdin, flush=True)

    def events(self) -> Iterator[dict[str, Any]]:
        for line in self.log:
            yield json.loads(line)

    def close(self) -> tuple[int, str]:
        """Wait for the end; the exit status and what the process said on stderr."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.reaper.join(120)
        if self.reaper.is_alive():
            self.process.send_signal(signal.SIGABRT)
            self.reaper.join()
        status = self.process.returncode
        self.log.close()
        self.stderr.seek(0)
        text = self.stderr.read().decode(errors="replace")
        self.stderr.close()
        return status, text[-20_000:]


_FRAME = re.compile(r'^  File "(?:.*/)?(fastgrad/.*?|<.*?>)", line \d+ in (\S+)', re.MULTILINE)


def death(status: int, stderr: str) -> Failure:
    """What ended a process, from its exit status and what `faulthandler` wrote."""
    current = stderr[stderr.rfind("Current thread") :] if "Current thread" in stderr else stderr
    frames = [f"{file.removeprefix('fastgrad/')}:{name}" for file, name in _FRAME.findall(current)]
    where = " < ".join([f for f in frames if not f.startswith("<")][:2]) or "the statement"
    if "Timeout (" in stderr:
        what = "hang"
    else:
        what = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    return Failure(f"{what} in {where}", stderr[-3000:])


def run_batch(family: str, seeds: Sequence[int], debug: bool) -> list[Found]:
    """Run the cases of a family, in one process as long as it lives and is as it was."""
    found: list[Found] = []
    todo = list(seeds)
    while todo:
        worker = Worker(debug)
        worker.send(cases=[(family, seed) for seed in todo], seconds=HANG_SECONDS)
        worker.process.stdin.close()
        done: list[int] = []
        under_way = None
        for event in worker.events():
            if "begin" in event:
                under_way = int(event["begin"].partition(":")[2])
                continue
            if event["failure"]:
                found.append(
                    Found(draw(family, under_way), Failure(*event["failure"]), [(family, s) for s in done])
                )
            done.append(under_way)
            under_way = None
        status, stderr = worker.close()
        if under_way is None and not done:
            raise RuntimeError(f"the worker did not start: {stderr}")
        if status:
            seed = done[-1] if under_way is None else under_way
            failure = death(status, stderr)
            if under_way is None:
                failure = Failure(f"at the end of the process: {failure.kind}", failure.detail)
            found.append(Found(draw(family, seed), failure, [(family, s) for s in done]))
        todo = todo[len(done) + (under_way is not None) :]
    return found


class Nursery:
    """A worker that forks a child for each list of statements: quicker than a process that starts from nothing."""

    def __init__(self, debug: bool) -> None:
        self.debug = debug
        self.worker: Worker | None = None

    def verdict(self, steps: Sequence[str], seconds: float = HANG_SECONDS) -> Failure | None:
        """What is wrong with a list of statements, if anything."""
        if self.worker is None:
            self.worker = Worker(self.debug)
        self.worker.send(steps=list(steps), seconds=seconds)
        failure: Failure | None = None
        for event in self.worker.events():
            if event.get("failure"):
                failure = Failure(*event["failure"])
            if "ended" in event:
                return death(event["ended"], event["stderr"]) if event["ended"] else failure
        self.close()
        return Failure("the process that forks has died")

    def close(self) -> None:
        if self.worker is not None:
            self.worker.close()
            self.worker = None


# --- many processes -----------------------------------------------------------------------------------------


def same(kind: str, other: Failure | None) -> bool:
    """Whether a failure is of a kind; where a process died, the place may be another."""
    if other is None:
        return False
    died = re.compile(r"(hang|SIG\w+) in ")
    a, b = died.match(kind), died.match(other.kind)
    return a.group(1) == b.group(1) if a and b else kind == other.kind


def shortened(found: Found, debug: bool) -> Found:
    """The failing case with as few statements, and as simple ones, as fail in the same way."""
    nursery = Nursery(debug)
    kind = found.failure.kind.removeprefix("at the end of the process: ")

    seconds = TRIAL_SECONDS if kind.startswith("hang") else HANG_SECONDS

    def fails(steps: Sequence[str]) -> bool:
        return same(kind, nursery.verdict(steps, seconds))

    try:
        steps = found.case.steps
        if not fails(steps) and not fails(steps):
            steps = tuple(s for family, seed in found.before for s in draw(family, seed).steps) + steps
            if not fails(steps):
                note = Failure(found.failure.kind, f"(not seen again alone)\n{found.failure.detail}")
                return Found(found.case, note, found.before, found.count)
        steps = tuple(shrink(steps, fails))
        failure = nursery.verdict(steps, seconds) or found.failure
    finally:
        nursery.close()
    return Found(Case(found.case.family, found.case.seed, steps), failure, found.before, found.count)


def batches(families: Sequence[str], start: int, cases: int | None) -> Iterator[tuple[str, range]]:
    """Batches of the families in turn: so many cases of each, or without end."""
    end = None if cases is None else start + cases
    while end is None or start < end:
        stop = start + BATCH if end is None else min(start + BATCH, end)
        for family in families:
            yield family, range(start, stop)
        start = stop


def fuzz(
    families: Sequence[str], start: int = 0, cases: int | None = None, seconds: float | None = None,
    debug: bool = False, jobs: int = 1, known: Sequence[str] = (),
) -> tuple[int, list[Found]]:  # fmt: skip
    """Run cases of families, by number or for a time; how many ran, and one failing case of each kind."""
    deadline = None if seconds is None else time.monotonic() + seconds
    kinds: dict[str, Found] = {}
    count = 0

    def batch(job: tuple[str, range]) -> tuple[int, list[Found]]:
        if deadline is not None and time.monotonic() > deadline:
            return 0, []
        return len(job[1]), run_batch(*job, debug)

    with ThreadPoolExecutor(jobs) as pool:
        todo = batches(families, start, cases)
        while deadline is None or time.monotonic() < deadline:
            round_ = list(itertools.islice(todo, jobs * 2))
            if not round_:
                break
            for ran, found in pool.map(batch, round_):
                count += ran
                for one in found:
                    if one.failure.kind in kinds:
                        kinds[one.failure.kind].count += 1
                    elif not any(text in one.failure.kind for text in known):
                        kinds[one.failure.kind] = one
                        print(f"  {one.case.name}: {one.failure.kind}", flush=True)
    return count, list(kinds.values())
