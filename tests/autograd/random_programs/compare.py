"""Where two logs of the same program part."""

from __future__ import annotations

import math
from collections.abc import Iterable
from types import ModuleType
from typing import Any, NamedTuple

from tests.autograd.random_programs.program import Program
from tests.autograd.random_programs.run import Run, Seen

# Of the largest element of a tensor; sums of products are rounded in another order.
TOLERANCE = {"float64": 1e-12, "float32": 2e-6}


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
        lines = [f"        {event}" for event in self.before]
        return "\n".join([*lines, f"  ours   {self.ours}", f"  theirs {self.theirs}"])


def _kind(event: Any) -> str:
    if not event:
        return "nothing"
    raised = len(event) == 2 and ": " in str(event[1])
    name = "".join(c for c in event[0] if not c.isdigit())
    return f"{name} {event[1]}" if raised else name


def close(ours: Seen, theirs: Seen) -> bool:
    """The same tensor up to rounding."""
    if ours[:3] != theirs[:3] or len(ours.values) != len(theirs.values):
        return False
    scale = max([abs(v) for v in theirs.values if math.isfinite(v)], default=0.0)
    slack = TOLERANCE.get(ours.dtype, 0.0) * max(scale, 1.0) * 10
    for a, b in zip(ours.values, theirs.values, strict=True):
        if a != b and not abs(a - b) <= slack and not (math.isnan(a) and math.isnan(b)):
            return False
    return True


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, Seen) and isinstance(theirs, Seen):
        return close(ours, theirs)
    if isinstance(ours, tuple) and isinstance(theirs, tuple):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return type(ours) is type(theirs) and ours == theirs


def first_difference(ours: list[Any], theirs: list[Any]) -> Difference | None:
    for k in range(max(len(ours), len(theirs))):
        mine, other = (log[k] if k < len(log) else None for log in (ours, theirs))
        if not same(mine, other):
            return Difference(k, mine, other, tuple(theirs[max(k - 4, 0) : k]))
    return None


def check(program: Program, libraries: Iterable[ModuleType]) -> Difference | None:
    """Run a program with both libraries."""
    ours, theirs = (Run(lib, program).log for lib in libraries)
    return first_difference(ours, theirs)
