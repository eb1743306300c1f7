"""The work whose times the README shows, and a record of them: `python tools/figures.py --record` calls this.

Programs are those of `benchmarks` and of `compare_models.py`, for both libraries; so is the way of timing.
"""

from __future__ import annotations

import importlib
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import compare_models
from compare_models import WORK, Step, seconds, written_for

ROOT = Path(__file__).parent.parent
Timer = Callable[[float], float]
"""From how long a round takes at least to the seconds of one piece of work."""


@dataclass(frozen=True)
class Figure:
    """What is timed.

    Parameters
    ----------
    timers : callable
        From the name of a library to how each of its pieces of work is timed.
    added : bool
        Whether it is what something adds to other work, of which single rounds say little.
    """

    timers: Callable[[str], dict[str, Timer]]
    added: bool = False


@cache
def benchmarks(library: str, name: str) -> ModuleType:
    """A module of `benchmarks`, written for a library."""
    return written_for(library, ROOT / "benchmarks" / f"{name}.py")


def _step(library: str, module: str, name: str, method: str, *args: Any) -> Step:
    found = getattr(benchmarks(library, module), name)()
    found.setup(*args)
    run = getattr(found, method)
    return lambda: run(*args)


def _timed(step: Step, calls: int, base: Step | None = None) -> Timer:
    """How long one of some calls in a step takes, without what another step does as well."""
    for one in [step, *filter(None, [base])] * 4:
        one()
    if base is None:
        return lambda least: seconds(step, least) / calls
    return lambda least: (seconds(step, least) - seconds(base, least)) / calls


def _of_benchmark(module: str, name: str, method: str, calls: int = 1) -> Figure:
    return Figure(lambda library: {"": _timed(_step(library, module, name, method), calls)})


def _of_models(name: str) -> Figure:
    """Of `compare_models`."""
    return Figure(lambda library: {"": _timed(WORK[name](importlib.import_module(library)), 1)})


def _of_hook(module: str, name: str, method: str, with_it: Any, without: Any, calls: int) -> Figure:
    def timers(library: str) -> dict[str, Timer]:
        steps = (_step(library, module, name, method, hook) for hook in (with_it, without))
        return {"": _timed(next(steps), calls, next(steps))}

    return Figure(timers, added=True)


def _of_modules() -> Figure:
    def timers(library: str) -> dict[str, Timer]:
        module = _step(library, "bench_modules", "ModuleHooks", "time_chain", "none")
        return {"": _timed(module, 10, _step(library, "bench_core", "Chain", "time_forward_backward"))}

    return Figure(timers, added=True)


def _of_kernels() -> Figure:
    def timers(library: str) -> dict[str, Timer]:
        rows = benchmarks(library, "bench_kernels").ROWS
        return {
            row: _timed(_step(library, "bench_kernels", "Kernels", "time_kernel", row), 1) for row in rows
        }

    return Figure(timers)


def _of_import() -> Figure:
    def timers(library: str) -> dict[str, Timer]:
        run = benchmarks(library, "bench_core").seconds
        run(f"import {library}")
        return {"": lambda _: run(f"import {library}")}

    return Figure(timers)


_CORE, _MODULES = "bench_core", "bench_modules"
FIGURES = {
    "chain": _of_benchmark(_CORE, "Chain", "time_forward_backward", 10),
    "small_mlp": _of_benchmark(_CORE, "SmallMlp", "time_step"),
    "large_mlp": _of_benchmark(_CORE, "LargeMlp", "time_step"),
    "kernels": _of_kernels(),
    **{name: _of_models(name) for name in ("cnn", "gpt", "lstm", "adam_small", "adam_large")},
    "tensor_hook": _of_hook(_CORE, "Hooks", "time_chain", "tensor", "none", 10),
    "node_hook": _of_hook(_CORE, "Hooks", "time_chain", "node", "none", 10),
    "node_prehook": _of_hook(_CORE, "Hooks", "time_chain", "node prehook", "none", 10),
    "module_call": _of_modules(),
    "forward_hook": _of_hook(_MODULES, "ModuleHooks", "time_chain", "forward hook", "none", 10),
    "full_backward_hook": _of_hook(_MODULES, "ModuleHooks", "time_chain", "full backward hook", "none", 10),
    "custom_function": _of_benchmark(_CORE, "CustomFunction", "time_chain", 10),
    "post_accumulate_hooks": _of_hook(_CORE, "PostAccumulateHooks", "time_pass", True, False, 1),
    "import": _of_import(),
}


def measured(figure: Figure, other: str, rounds: int, least: float) -> dict[str, Any]:
    """The seconds of a figure in both libraries, and how many times as fast fastgrad is.

    Of several pieces of work there is only that, as their geometric mean, and how many there are.
    """
    ours, theirs = figure.timers("fastgrad"), figure.timers(other)
    found = []
    for name, timer in ours.items():
        pairs = [(timer(least), theirs[name](least)) for _ in range(rounds)]
        a, b = (statistics.median(side) for side in zip(*pairs, strict=True))
        if min(a, b) <= 0:
            raise RuntimeError(f"noise is greater than what is added ({a} s and {b} s): nothing is recorded")
        ratio = b / a if figure.added else statistics.median(there / here for here, there in pairs)
        found.append({"seconds": a, "others": b, "ratio": ratio})
    if len(found) == 1:
        return found[0]
    mean = math.exp(statistics.fmean(math.log(one["ratio"]) for one in found))
    return {"pieces": len(found), "ratio": mean}


def recorded(names: Sequence[str], other: str, rounds: int, least: float) -> dict[str, Any]:
    """What was measured, by name; and under which versions, on how many threads."""
    libraries = [
        importlib.import_module(name) for name in dict.fromkeys(("fastgrad", other, "numpy", "numba"))
    ]
    if other == "torch":
        libraries[1].set_num_threads(int(compare_models.THREADS))
    figures = {}
    for name in names:
        figures[name] = measured(FIGURES[name], other, rounds, least)
        print(name, figures[name], flush=True)
    return {
        "versions": {library.__name__: library.__version__ for library in libraries},
        "threads": int(compare_models.THREADS),
        "rounds": rounds,
        "figures": figures,
    }
