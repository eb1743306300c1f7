"""What a case must not do: exceptions out of place, leaks, modes left on, wrong numbers afterwards."""

from __future__ import annotations

import gc
import linecache
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastgrad as fg
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts import flags
from tests.fuzz.case import FILE

PACKAGE = str(Path(fg.__file__).parent)

# Never an answer to anything that a program does.
NEVER = (SystemError, UnboundLocalError)

# An answer only where the package says so by a `raise`; else something was taken for what it is not.
ONLY_DELIBERATE = (
    AttributeError,
    NameError,
    LookupError,
    ArithmeticError,
    AssertionError,
    StopIteration,
    RecursionError,
)

SUSPECT = (*NEVER, *ONLY_DELIBERATE, MemoryError)

# Methods that look something up under what they are given, as those of lists, dicts and objects do.
LOOKUPS = ("__getitem__", "__delitem__", "pop", "popitem", "__getattr__", "__setattr__", "__delattr__")

# Texts of exceptions that stand for no answer at all.
MEANINGLESS = re.compile(r"failed with status|invalid argument \(-?\d+, -?\d+\)|the runtime: ")

# Classes that break the contract of the class that they are derived from.
LIARS = re.compile(r"Contrary|Blind|^class .*(\n    .*)*\n    (def|\w+ =) ", re.MULTILINE)

# Statements that put anything where modules keep their parameters, past what looks at it.
PAST_THE_DOOR = re.compile(r"\._(parameters|buffers|modules)\[")

# Numbers for which a lack of memory is a fair answer.
LARGE = re.compile(r"\*\*|\d{5,}|deeply_nested|Index\(|Lying|inf|nan")

# What may leave a mode on, because the program says so itself; at the end of a block a mode goes whatever happens.
SETS_MODES = re.compile(r"set_grad_enabled|set_detect_anomaly|__enter__|__exit__|apply_context")

# What makes a module one of its own.
HOLDS_MODULE = re.compile(r"\b(m\d*)\.\w+ = \1$")

# What Python programs are told about gradients with a history: they hold their leaves, and nobody finds out.
HOLDS_ITSELF = "reference cycle"


@dataclass(frozen=True)
class Failure:
    """What went wrong, in words that are the same whenever the same goes wrong, and the particulars."""

    kind: str
    detail: str = ""


# --- exceptions ---------------------------------------------------------------------------------------------


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    return traceback.extract_tb(error.__traceback__)


def _place(frame: traceback.FrameSummary) -> str:
    return f"{Path(frame.filename).relative_to(PACKAGE).as_posix()}:{frame.name}"


def _deliberate(frame: traceback.FrameSummary) -> bool:
    """Whether the package raises at this place, or hands on what it was asked to."""
    first = linecache.getline(frame.filename, frame.lineno or 0).strip()
    return first.startswith("raise")


def out_of_place(error: BaseException, program: Sequence[str]) -> Failure | None:
    """What is wrong with an exception that came out of a statement."""
    plain = isinstance(error, Exception) and not isinstance(error, SUSPECT)
    if plain and not MEANINGLESS.search(_text(error)):
        return None
    kind, frames = type(error), _frames(error)
    ours = [k for k, f in enumerate(frames) if f.filename.startswith(PACKAGE)]
    where = _place(frames[ours[-1]]) if ours else "the statement"
    shown = Failure(f"{kind.__name__} from {where}", "".join(traceback.format_exception(error))[-3000:])
    if isinstance(error, NEVER):
        return shown
    if kind.__name__ == "Wrong":
        return Failure(_text(error), shown.detail)
    if isinstance(error, MemoryError):
        return None if any(LARGE.search(step) for step in program) else shown
    if MEANINGLESS.search(_text(error)):
        return Failure(f"meaningless message from {where}", shown.detail)
    if not isinstance(error, Exception):  # KeyboardInterrupt, SystemExit
        return None if any(kind.__name__ in step or "interrupted" in step for step in program) else shown
    if not ours or not isinstance(error, ONLY_DELIBERATE):
        return None
    if isinstance(error, (AttributeError, LookupError)) and frames[ours[-1]].name in LOOKUPS:
        return None
    if isinstance(error, RecursionError) and any(
        word in step for step in program for word in ("deeply_nested", "at_depth")
    ):
        return (
            None  # to show such a list is to call `repr` for each of its levels; the collector runs anywhere
        )
    if isinstance(error, RecursionError) and any(HOLDS_MODULE.search(step) for step in program):
        return None  # there is no end to the modules in a module that is one of its own
    after = {f.filename for f in frames[ours[-1] + 1 :]}
    if after & {FILE, "<prelude>"}:  # raised by what the case handed in
        return None
    if (isinstance(error, AttributeError) and _foreign_self(error)) or any(
        LIARS.search(step) or PAST_THE_DOOR.search(step) for step in program
    ):
        return None
    return None if _deliberate(frames[ours[-1]]) else shown


def _foreign_self(error: AttributeError) -> bool:
    """Whether a method was applied to what is no instance of its class: Python's own answer to ``Tensor.view(3)``."""
    frame = None
    for entry, _ in traceback.walk_tb(error.__traceback__):
        frame = entry
    return frame is not None and "self" in frame.f_locals and frame.f_locals["self"] is error.obj


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # what it was made of cannot be shown
        return ""


class Unraisable:
    """Collects what destructors and callbacks of weak references raise, where nobody can catch it."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    def __enter__(self) -> Unraisable:
        self.before = sys.unraisablehook
        sys.unraisablehook = lambda info: self.errors.append(info.exc_value)
        return self

    def __exit__(self, *args: object) -> None:
        sys.unraisablehook = self.before


# --- what is left behind ------------------------------------------------------------------------------------


def grown(before: dict[str, int]) -> str:
    """The names of live counts that are higher than before, when everything that can go has gone."""
    for _ in range(3):  # a leaf that a graph keeps goes at the second time, what finalizers held at the third
        gc.collect()
        after = fg.debug.live()
        if all(after[name] <= count for name, count in before.items()):
            return ""
    return ", ".join(name for name, count in before.items() if after[name] > count)


MODES = {
    flags.INFERENCE_MODE: "inference mode is on",
    flags.SAVED_HOOKS: "hooks of saved tensors are in force",
    flags.HOOKS_REFUSED: "hooks of saved tensors are refused",
    flags.NODE_HOOKS: "hooks of new nodes are in force",
    flags.MUTATION_HOOKS: "changes in place are watched",
    flags.ANOMALY: "anomaly mode is on",
    flags.ANOMALY_UNCHECKED: "NaN is not looked for",
}


def modes() -> Failure | None:
    """Modes of this thread that are not as they are at the start."""
    mode = rt.get_mode()
    found = [text for bit, text in MODES.items() if mode & bit]
    found += [] if mode & flags.GRAD_ENABLED else ["gradients are off"]
    return Failure(f"afterwards {' and '.join(found)}") if found else None


def sanity() -> Failure | None:
    """A small program with known results."""
    try:
        wrong = [name for name, check in CHECKS.items() if not check()]
    except BaseException as error:
        return Failure(
            f"a following pass raises {type(error).__name__}", "".join(traceback.format_exception(error))
        )
    return Failure(f"wrong numbers afterwards: {', '.join(wrong)}") if wrong else None


def _first_order() -> bool:
    x = fg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    seen: list[Any] = []
    y = x @ x + x * 3
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.sum().backward()
    return x.grad.tolist() == [[10.0, 14.0], [12.0, 16.0]] and seen == [[[1.0, 1.0], [1.0, 1.0]]]


def _second_order() -> bool:
    x = fg.tensor([1.0, 2.0, -3.0], requires_grad=True)
    (g,) = fg.autograd.grad((x * x * x).sum(), x, create_graph=True)
    (h,) = fg.autograd.grad(g.sum(), x)
    return g.tolist() == [3.0, 12.0, 27.0] and h.tolist() == [6.0, 12.0, -18.0]


def _memory() -> bool:
    made = [fg.full((k % 7 + 1,), float(k)) for k in range(60)]
    return all(t.tolist() == [float(k)] * (k % 7 + 1) for k, t in enumerate(made))


CHECKS: dict[str, Callable[[], bool]] = {
    "first order": _first_order,
    "second order": _second_order,
    "memory": _memory,
}


def overwritten() -> Failure | None:
    """What debug mode found at the ends of buffers."""
    try:
        fg.debug.check()
    except RuntimeError as error:
        return Failure("a kernel wrote outside its buffer", str(error))
    return None
