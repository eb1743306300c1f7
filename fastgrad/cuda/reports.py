"""What kernels report while nobody waits for them: see Note [Late reports] in `native.cuda.reports`."""

from __future__ import annotations

import ctypes

from fastgrad.cuda.driver import Driver
from fastgrad.errors import NO_NAME, error_of
from fastgrad.native.contracts.cuda import LATE, LATE_TABLE, N_LATE, SHARED
from fastgrad.native.contracts.frame import FINE
from fastgrad.native.host.tables import OPS

_BYTES = 8 * LATE.words
_FACTS = ("first", "second", "dim", "last")


def table(driver: Driver) -> int:
    """The address of an empty table of reports, which lives as long as the process."""
    made = driver.number("cuMemHostAlloc", N_LATE * _BYTES, SHARED, kind=ctypes.c_void_p)
    ctypes.memset(made, 0, N_LATE * _BYTES)
    return made


def found(start: int, taken: int, tables: int) -> BaseException | None:
    """The exception for a report, which is forgotten.

    Parameters
    ----------
    start, taken : int
        The table of single launches, and how many places were used by now.
    tables : int
        The first table of graphs, or 0.
    """
    error = _found_in(start, min(taken, N_LATE))
    while tables and error is None:
        words = (ctypes.c_int64 * LATE_TABLE.words).from_address(tables)
        places, taken, tables = (words[LATE_TABLE.fields[name][0]] for name in ("places", "taken", "next"))
        error = _found_in(places, taken)
    return error


def _found_in(start: int, count: int) -> BaseException | None:
    for k in range(count):
        words = (ctypes.c_int64 * LATE.words).from_address(start + k * _BYTES)
        report = {name: words[at] for name, (at, _) in LATE.fields.items()}
        if report["kind"] != FINE:
            words[LATE.fields["kind"][0]] = FINE
            return _exception(report)
    return None


def _exception(report: dict[str, int]) -> BaseException:
    """What the op would have raised if it had waited."""
    kernel = report["kernel"]
    name = next((op.called for op in OPS if op.kernel is not None and op.kernel.id == kernel), NO_NAME)
    error = error_of(report["reason"], name, facts=tuple(report[fact] for fact in _FACTS))
    return type(error)(
        f"{error} (found when something waited for the GPU; FASTGRAD_CUDA_SYNC=1 finds it at once)"
    )
