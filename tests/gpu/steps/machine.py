"""What steps run on, how they take times, and the rows that they yield."""

from __future__ import annotations

import contextlib
import importlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import fastgrad as fg

ROUNDS = 7
SECONDS = 0.03  # of a round, at least


class Row(NamedTuple):
    """Something that a step found.

    Attributes
    ----------
    what : str
    value : Any
        A number, or a text.
    unit : str
    target : float, optional
        Which the value should reach, or stay below where the unit is `AT_MOST`'s.
    ok : bool, optional
        None where there is nothing to judge.
    """

    what: str
    value: Any
    unit: str = ""
    target: float | None = None
    ok: bool | None = None


def ratio(what: str, value: float, target: float) -> Row:
    """How many times as fast as PyTorch, which should be at least so much."""
    return Row(what, round(value, 3), "x torch", target, value >= target)


def share(what: str, value: float, target: float) -> Row:
    """A share of the best that was measured, which should be at least so much."""
    return Row(what, round(value, 3), "of the best", target, value >= target)


def at_most(what: str, value: float, unit: str, target: float) -> Row:
    return Row(what, round(value, 4), unit, target, value <= target)


def holds(what: str, value: Any, ok: bool) -> Row:
    return Row(what, value, "", None, bool(ok))


class Machine:
    """The GPU of a step; `torch` is None where PyTorch has none."""

    def __init__(self, stand_in: bool) -> None:
        self.stand_in = stand_in
        self.torch = None if stand_in else torch_with_gpu()

    def size(self, real: int, small: int) -> int:
        """A size for the GPU, or for the stand-in."""
        return small if self.stand_in else real

    def seconds(self, step: Callable[[], Any], wait: Callable[[], Any] = fg.cuda.synchronize) -> float:
        """How long a call takes: the median of rounds, each of enough calls, waited for at its end."""
        step()
        wait()
        count, took = 1, 0.0
        while not self.stand_in and took < SECONDS:
            started = time.perf_counter()
            for _ in range(count):
                step()
            wait()
            took = time.perf_counter() - started
            count = count if took >= SECONDS else count * 2
        rounds = []
        for _ in range(1 if self.stand_in else ROUNDS):
            started = time.perf_counter()
            for _ in range(count):
                step()
            wait()
            rounds.append((time.perf_counter() - started) / count)
        return statistics.median(rounds)

    def beside_torch(self, make: Callable[[Any], Callable[[], Any]]) -> tuple[float, float | None]:
        """Seconds of a call that is written once for both libraries, here and in PyTorch."""
        ours = self.seconds(make(fg))
        if self.torch is None:
            return ours, None
        return ours, self.seconds(make(self.torch), self.torch.cuda.synchronize)

    def compared(self, what: str, make: Callable[[Any], Callable[[], Any]], target: float) -> Iterator[Row]:
        """The time of a call, and how it compares with PyTorch's."""
        try:
            ours, theirs = self.beside_torch(make)
        except Exception as error:  # the other rows are worth having
            yield holds(what, f"{type(error).__name__}: {error}", False)
            return
        yield Row(what, round(ours * 1e6, 2), "us")
        if theirs is not None:
            yield ratio(what, theirs / ours, target)


def torch_with_gpu() -> Any:
    """PyTorch, if it is there and finds a GPU."""
    with contextlib.suppress(ImportError):
        torch = importlib.import_module("torch")
        if torch.cuda.is_available():
            return torch
    return None


@contextlib.contextmanager
def machine(stand_in: bool) -> Iterator[Machine]:
    """The machine, with a driver attached."""
    if not stand_in:
        fg.cuda.init()
        yield Machine(False)
        return
    from tests.cuda.fake_driver import FakeDriver, attached

    with attached(FakeDriver(locked=False)):
        yield Machine(True)


def output_of(command: list[str], seconds: float, **environment: str) -> tuple[int, str]:
    """The exit status of a program, and what it wrote."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, env={**os.environ, **environment}
        )
    except FileNotFoundError:
        return 127, f"there is no {command[0]}"
    except subprocess.TimeoutExpired:
        return 124, f"it took more than {seconds:.0f} s"
    return done.returncode, done.stdout + done.stderr


PYTHON = sys.executable
