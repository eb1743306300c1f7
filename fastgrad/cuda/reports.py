"""What kernels report while nobody waits for them: see Note [Late reports] in `native.cuda.launches`."""

from __future__ import annotations

import ctypes

from fastgrad.cuda.driver import Driver
from fastgrad.errors import NO_NAME, error_of
from fastgrad.native.contracts.cuda import LATE, N_LATE
from fastgrad.native.contracts.frame import FINE
from fastgrad.native.host.tables import OPS

_BYTES = 8 * LATE.words
_SHARED = (
    1 | 2
)  # CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP: all contexts and their devices reach it
_FACTS = ("first", "second", "dim", "last")


def table(driver: Driver) -> int:
    """The address of an empty table of reports, which lives as long as the process."""
    made = driver.number("cuMemHostAlloc", N_LATE * _BYTES, _SHARED, kind=ctypes.c_void_p)
    ctypes.memset(made, 0, N_LATE * _BYTES)
    return made


def found(start: int, taken: int) -> BaseException | None:
    """The exception for a report in a table, which is forgotten; `taken` places were used by now."""
    for k in range(min(taken, N_LATE)):
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
