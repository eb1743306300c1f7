"""Where two logs of the same program part."""

from __future__ import annotations

import math
from collections.abc import Iterable
from types import ModuleType
from typing import Any, NamedTuple

from tests.autograd.random_programs.program import Program
from tests.autograd.random_programs.run import Run, Seen

# Of the largest element of a tensor; sums of products are rounded in another order.
TOLERANCE = {"float64": 1e-12, "float32": 2e-6, "int64": 0.0}


def brief(value: Any) -> str:
    """An event in a line."""
    if isinstance(value, Seen):
        grad = ", requires_grad" if value.requires_grad else ""
        dtype = "" if value.dtype == "float64" else f", {value.dtype}"
        return f"<{', '.join(f'{v:.12g}' for v in value.values)} in {list(value.shape)}{dtype}{grad}>"
    if isinstance(value, tuple):
        return f"({', '.join(map(brief, value))})"
    return str(value)


class Difference(NamedTuple):
    """The first event that is not the same."""

    index: int
    ours: Any
    theirs: Any
    before: tuple[Any, ...]

    @property
    def kind(self) -> str:
        """What a smaller program must keep, so that it still shows the same difference."""
        return f"{_kind(self.ours)} / {_kind(self.theirs)}"

    def __str__(self) -> str:
        lines = [f"  both   {brief(event)}" for event in self.before]
        return "\n".join([*lines, f"  ours   {brief(self.ours)}", f"  theirs {brief(self.theirs)}"])


def _kind(event: Any) -> str:
    if not event:
        return "nothing"
    raised = len(event) == 2 and ": " in str(event[1])
    name = "".join(c for c in event[0] if not c.isdigit())
    return f"{name} {event[1]}" if raised else name


def close(ours: Seen, theirs: Seen, single: bool) -> bool:
    """The same tensor up to rounding."""
    if ours[:3] != theirs[:3] or len(ours.values) != len(theirs.values):
        return False
    scale = max([abs(v) for v in theirs.values if math.isfinite(v)], default=0.0)
    slack = 0.0  # of masks and indices
    if ours.dtype in TOLERANCE:
        slack = TOLERANCE["float32" if single else ours.dtype] * max(scale, 1.0) * 10
    for a, b in zip(ours.values, theirs.values, strict=True):
        if a != b and not abs(a - b) <= slack and not (math.isnan(a) and math.isnan(b)):
            return False
    return True


def same(ours: Any, theirs: Any, single: bool = False) -> bool:
    """Equal, numbers up to rounding: to that of float32 where a program mixes dtypes."""
    if isinstance(ours, Seen) and isinstance(theirs, Seen):
        return close(ours, theirs, single)
    if isinstance(ours, tuple) and isinstance(theirs, tuple):
        return len(ours) == len(theirs) and all(same(a, b, single) for a, b in zip(ours, theirs, strict=True))
    return type(ours) is type(theirs) and ours == theirs


def first_difference(ours: list[Any], theirs: list[Any], single: bool) -> Difference | None:
    for k in range(max(len(ours), len(theirs))):
        mine, other = (log[k] if k < len(log) else None for log in (ours, theirs))
        if not same(mine, other, single):
            return Difference(k, mine, other, tuple(theirs[max(k - 2, 0) : k]))
    return None


def check(program: Program, libraries: Iterable[ModuleType]) -> Difference | None:
    """Run a program with both libraries."""
    ours, theirs = (Run(lib, program).log for lib in libraries)
    return first_difference(ours, theirs, "float32" in str(program))
