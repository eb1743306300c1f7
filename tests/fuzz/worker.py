"""A process that runs cases: ``python -m tests.fuzz.worker FD``, told by lines of JSON on stdin what to run.

A line ``{"cases": [[family, seed], ...]}`` runs these one after the other in this process, up to the first after which
it is not as it was. A line ``{"steps": [...]}`` forks a child that runs a case of these statements. Either says after
how many ``"seconds"`` a case hangs. Before each case a line goes to the file descriptor FD, so that the
supervisor knows which one was under way; after it goes what was found.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import os
import random
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.ma

import fastgrad as fg
from tests.fuzz import judge
from tests.fuzz.case import compiled, namespace
from tests.fuzz.families import draw
from tests.fuzz.judge import Failure

MEMORY = 1 << 28  # bytes of tensors
ADDRESS_SPACE = 8 << 30  # bytes of everything


def restore() -> None:
    """Put back what a case may have set for the whole process."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    fg.set_default_dtype(fg.float32)
    fg.debug.set_memory_limit(MEMORY)
    fg.serialization.clear_safe_globals()
    fg.set_printoptions(profile="default")
    fg.utils.checkpoint.set_checkpoint_early_stop(True)
    fg.manual_seed(0)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - for statements that draw from it
    sys.setrecursionlimit(1000)
    gc.enable()


def execute(steps: Sequence[str], release: bool = False) -> tuple[Failure | None, set[str]]:
    """Run the statements of a case; what is wrong with the exceptions that came, and the texts of the warnings.

    With `release` gradients are dropped before anything else is.
    """
    found: Failure | None = None
    with judge.Unraisable() as unraisable, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        names = namespace(steps)
        for step in steps:
            try:
                exec(compiled(step), names)
            except BaseException as error:
                found = found or judge.out_of_place(error, steps)
                error.__traceback__ = None
        for undo in names["cleanup"]:
            undo()
        if release:
            drop_gradients()
        names.clear()
        gc.collect()
        for error in unraisable.errors:
            found = found or judge.out_of_place(error, steps)
        unraisable.errors.clear()
    return found, {str(warning.message) for warning in warned}


def drop_gradients() -> None:
    """Drop the gradients of all tensors: one with a history holds its leaf, which nobody can find out."""
    for tensor in [o for o in gc.get_objects() if isinstance(o, fg.Tensor)]:
        fg.Tensor.grad.__set__(tensor, None)


def run(steps: Sequence[str]) -> Failure | None:
    """Run a case and look at what it leaves behind."""
    before = fg.debug.live()
    found, warned = execute(steps)
    if found is None and not any(judge.SETS_MODES.search(step) for step in steps):
        found = judge.modes()
    restore()
    if found or judge.modes():
        return found
    found = judge.sanity() or judge.overwritten()
    if found is None and judge.grown(before) and not any(judge.HOLDS_ITSELF in text for text in warned):
        before = fg.debug.live()
        execute(steps, release=True)  # now what is made once and kept is there
        restore()
        if names := judge.grown(before):
            found = Failure(f"leak of {names}", f"{before} before, {fg.debug.live()} after")
    return found


def settle() -> None:
    """Let what exists by now stay out of later collections, which then take a hundredth of the time."""
    gc.collect()
    gc.freeze()


class Log:
    """Lines of JSON to the supervisor; a line is there even if the process ends with the next instruction."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __call__(self, **event: Any) -> None:
        os.write(self.descriptor, (json.dumps(event) + "\n").encode())


def watched(log: Log, name: str, steps: Sequence[str], seconds: float) -> bool:
    """Run one case between two lines of the log; whether others may follow in this process.

    A hang ends the process with the stacks of its threads.
    """
    modules = len(sys.modules)
    log(begin=name)
    faulthandler.dump_traceback_later(seconds, exit=True)
    try:
        found = run(steps)
    except BaseException as error:
        found = Failure(f"the fuzzer: {type(error).__name__}", "".join(traceback.format_exception(error)))
    faulthandler.cancel_dump_traceback_later()
    log(end=name, failure=None if found is None else [found.kind, found.detail])
    if len(sys.modules) > modules:  # the compiler, mostly
        settle()
    return found is None and judge.modes() is None


def forked(log: Log, steps: Sequence[str], seconds: float) -> bool:
    """Run a case in a child; True in the child, which then ends as any interpreter does."""
    with tempfile.TemporaryFile() as stderr:
        child = os.fork()
        if child == 0:
            os.setsid()
            os.dup2(stderr.fileno(), 2)
            watched(log, "", steps, seconds)
            return True
        _, status = os.waitpid(child, 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what the case forked
        stderr.seek(0)
        text = stderr.read().decode(errors="replace")
    log(ended=os.waitstatus_to_exitcode(status), stderr=text[-20_000:])
    return False


def main() -> None:
    log = Log(int(sys.argv[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, resource.getrlimit(resource.RLIMIT_AS)[1]))
    faulthandler.enable()
    restore()
    judge.sanity()
    settle()
    for line in sys.stdin:
        job = json.loads(line)
        seconds = job["seconds"]
        if "steps" in job:
            if forked(log, job["steps"], seconds):
                return
            continue
        for family, seed in job["cases"]:
            if not watched(log, f"{family}:{seed}", draw(family, seed).steps, seconds):
                return


if __name__ == "__main__":
    main()
