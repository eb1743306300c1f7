"""Capture and replay: the launches of a piece of work as a list that one compiled loop runs again.

Every launch passes one point in the compiled dispatch; while a tape records, that point appends which kernel runs, for
which device, dtype and layout class, and its frame. A tape records what its own thread does. It holds all memory that
the work allocates or changes, so that the addresses in the frames stay valid: a replay writes the same results to the
same places, from whatever the inputs hold then.
"""

from __future__ import annotations

import array
import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from fastgrad.native.build.loader import ContextBase, rt
from fastgrad.native.contracts.element_types import DTYPES
from fastgrad.native.contracts.flags import CAPTURE_SETTING
from fastgrad.native.contracts.frame import Frame
from fastgrad.native.contracts.records import (
    FUSED_LAUNCH,
    HOOK_CELL,
    LAUNCHED,
    MASK_LAUNCH,
    TAPE,
    TAPE_HOOKS,
    TAPE_VALUES,
    VALUE_CELL,
)
from fastgrad.native.host import devices, hook_calls
from fastgrad.native.host.call_numbers import numbers_now
from fastgrad.native.host.hook_calls import OWN_CAPTURE, PythonCall
from fastgrad.native.host.options import Settings

_N_ENTRIES = TAPE.fields["n_entries"][0]
PAUSED_CAPTURE = 3
"""What `rt.capturing` says of a capture by the calling thread that records nothing while it runs a hook."""


class Launch(NamedTuple):
    """A launch on a tape.

    Attributes
    ----------
    kernel : Kernel
        The row of the kernel table.
    device, dtype : str
        For which of them it was compiled.
    layout_class : int
    work : int
        How many elements it is said to work on.
    words : tuple of int
        Its frame.
    drew : bool
        Whether it got blocks of random numbers from its device's default generator.
    code : int
        The number of its own code if it is a fused launch, else 0.
    """

    kernel: Any
    device: str
    dtype: str
    layout_class: int
    work: int
    words: tuple[int, ...]
    drew: bool = False
    code: int = 0

    @property
    def frame(self) -> Frame:
        """The declaration of the frame."""
        return self.kernel.frame(self.layout_class)  # type: ignore[no-any-return]

    def read(self) -> dict[str, Any]:
        """The words of the frame by the names of its fields."""
        return self.frame.read(self.words)

    def addresses(self) -> dict[str, int]:
        """What lies where: the addresses in the frame by the names of their fields, without those of nothing.

        Of a field that repeats, only the first is named.
        """
        found: dict[str, int] = {}
        for place, name in self.frame.addresses.items():
            if place < len(self.words) and self.words[place]:
                found.setdefault(name, self.words[place])
        return found


class ReadValue(NamedTuple):
    """A value that Python read: a replay that finds another one there ends, unless the call only gives it back.

    Attributes
    ----------
    address, nbytes : int
    number : int
        How many were read before it.
    dtype : int
        The number of the dtype that it has in memory.
    bits : int
        What was read last.
    """

    address: int
    nbytes: int
    number: int
    dtype: int
    bits: int


class FusedLaunch(NamedTuple):
    """A launch in place of several.

    Attributes
    ----------
    code : int
        The number of its code.
    needs_room : bool
        Whether its frame holds the address of room for each thread.
    work : int
    words : tuple of int
        Its frame.
    """

    code: int
    needs_room: bool
    work: int
    words: tuple[int, ...]

    def words_of_edition(self) -> list[int]:
        """It as an edition of a tape says it: see Note [Editions] in `native.memory.tapes`."""
        return [FUSED_LAUNCH, int(self.needs_room), self.code, self.work, *self.words]


class MaskLaunch(NamedTuple):
    """A dropout of a tape that only draws its mask.

    Attributes
    ----------
    number : int
        Its place among the entries of the tape.
    """

    number: int

    def words_of_edition(self) -> list[int]:
        """It as an edition of a tape says it."""
        return [MASK_LAUNCH, self.number]


def show_nobody(function: Any, args: Any) -> None:
    """What is told of calls before they are made, and of values that are read, unless somebody wants to know."""


class Tape(ContextBase):
    """What a capture recorded; as a context, the capture itself.

    Parameters
    ----------
    device : int, default 0
        The number of a device whose launches alone are recorded, and do not run; who captures so keeps the memory that
        they work on. By default all that runs is recorded.
    hooks : bool, default False
        Whether a replay calls hooks again.
    values : bool, default False
        Whether a replay ends where Python read a value and there is another one now.

    Attributes
    ----------
    launches : int
        The number of kernels that a replay runs.
    calls_hooks : bool
        Whether a replay calls hooks again.
    held_leaves : sequence of Tensor
        Leaves whose gradients calls find as they were.
    same : set of int
        The identities of tensors that are the same in each replay.
    values : dict
        Of the last replay, see Note [Values of a replay] in `hook_calls`; `forward_values` are those of the call that
        the tape differentiates.
    keeps_values : bool
        Whether they are kept at the end of a replay.
    runners : list of callable
        What makes the calls in replays; `number` is that of the call that is made, `last_number` that of the last one.
    show : callable
        Gets each function and its arguments before it is called for the first time.
    show_value : callable
        Gets the number of each value that Python has read, and the frame that read it, before Python gets it.
    runs_again : bool
        Whether a backward pass of what was captured runs functions of the program again (checkpoints).
    saved : dict
        During a capture what calls save for the first run of a checkpoint's function, by its identity.
    counts_numbers : bool
        Whether the random numbers that calls of a replay draw are those of the capture.
    refused : str
        Why no replay does what the capture did; empty if one does.
    """

    def __init__(self, device: int = 0, hooks: bool = False, values: bool = False) -> None:
        self._what = device + TAPE_HOOKS * bool(hooks) + TAPE_VALUES * bool(values)
        self._calls: list[PythonCall] = []
        self._settings: dict[int, Settings] = {}  # of launches, by their numbers among `entries`
        self.calls_hooks = bool(hooks)
        self.held_leaves: Sequence[Any] = ()
        self.same: set[int] = set()
        self.values: dict[Any, Any] = {}
        self.forward_values: dict[Any, Any] = {}
        self.keeps_values = False
        self.refused = ""
        self.runs_again = False
        self.saved: dict[int, Any] = {}
        self.counts_numbers = True
        self._numbers: tuple[bytes, ...] = ()
        self.runners: list[Callable[[], None]] = []
        self.number = self.last_number = 0
        self._around: Any = None
        self.show: Callable[[Any, Any], None] = show_nobody
        self.show_value: Callable[[int, Any], None] = show_nobody
        self._setting = 1 + CAPTURE_SETTING
        self._gives_self = 1

    def _entering(self) -> int:
        under_way = rt.capturing()
        if under_way == PAUSED_CAPTURE:
            raise RuntimeError(
                "a hook of a tape with hooks=True runs: it is called again at each replay, and cannot record while the "
                "tape does; record after the capture"
            )
        if under_way:
            whose = "a capture" if under_way == OWN_CAPTURE else "another thread's capture"
            raise RuntimeError(f"{whose} is under way already: captures cannot be nested")
        if rt.launches_of(self) >= 0:
            raise RuntimeError("a tape records once; begin another one with record()")
        hook_calls.recorder = weakref.ref(self)
        return self._what

    def begin_calls(self) -> None:
        """A replay comes to its first call."""
        if len(self.runners) != len(self._calls):
            self.runners = [call.runner_there(self) for call in self._calls]
            self.last_number = len(self._calls) - 1
        self.values = {}
        self._numbers = numbers_now()
        self._around, hook_calls.state.tape = hook_calls.state.tape, self

    def end_calls(self, keeps_values: bool = False) -> None:
        """A replay has made its last call."""
        hook_calls.state.tape, self._around = self._around, None
        if not keeps_values:
            self.values = {}

    def check_numbers(self) -> None:
        """Raise if calls of a replay drew other random numbers than those of the capture."""
        if self.counts_numbers and self._numbers != numbers_now():
            raise RuntimeError(
                "replay(): hooks drew other random numbers than during the capture; record again"
            )

    def value_of(self, call: PythonCall) -> Any:
        """What came of a call in this replay, or in the call that the tape differentiates."""
        return (self.values if call in self.values else self.forward_values)[call]

    def refuse(self, why: str) -> None:
        """Note that no replay does what the capture does."""
        self.refused = self.refused or why

    @property
    def launches(self) -> int:
        """The number of kernels that a replay runs."""
        return max(rt.launches_of(self), 0)

    def __iter__(self) -> Iterator[Launch]:
        """The launches in order."""
        return (launch for launch in self.entries() if isinstance(launch, Launch))

    def entries(self) -> Iterator[Launch | ReadValue | None]:
        """All that a replay does, in order: launches, values that it compares, and None for each call of a hook."""
        words = iter(rt.tape_words(self))
        for n, cell, work, drew, code, _, dim, last, *_ in zip(*[words] * LAUNCHED.words, strict=False):
            frame = tuple(itertools.islice(words, n))
            if cell == HOOK_CELL:
                yield None
                continue
            if cell == VALUE_CELL:
                yield ReadValue(frame[0], work, last, dim, frame[1])
                continue
            kernel, device, dtype, form = devices.place(cell)
            yield Launch(kernel, devices.name_of(device), DTYPES[dtype], form, work, frame, bool(drew), code)

    def note_settings(self, first: int, settings: Settings) -> None:
        """Note where the settings come from of what was launched since there were `first` entries."""
        self._settings.update(dict.fromkeys(range(first, self.n_entries), settings))

    @property
    def n_entries(self) -> int:
        """How many launches and calls of hooks there are."""
        return rt.tape_field(self, _N_ENTRIES)  # type: ignore[no-any-return]

    def edit(self, edition: Iterable[int | MaskLaunch | FusedLaunch]) -> None:
        """Let other launches stand on the tape: some of its own, by their numbers among `entries`, masks of
        its dropouts, and fused ones.

        Who does that knows that a replay does the same with them: memory that later launches read is written before.

        Raises
        ------
        ValueError
            If there is no such launch or no such code, or if the tape is one of a GPU and a launch is fused.
        RuntimeError
            While the tape records or is replayed.
        """
        words: list[int] = []
        settings: dict[int, Settings] = {}
        for number, item in enumerate(edition):
            words += [item] if isinstance(item, int) else item.words_of_edition()
            if isinstance(item, int) and item in self._settings:
                settings[number] = self._settings[item]
        rt.edit_tape(self, array.array("q", words).tobytes())
        self._settings = settings

    def replay(self) -> None:
        """Run all launches again, in order. Launches on a GPU run as graphs: one call of the driver for all neighbours.

        Random numbers are drawn from the default generators, as another call of what was captured would.

        Raises
        ------
        RuntimeError
            While a tape of this thread records, or this tape on any, or if nothing was recorded.
        IndexError
            If an index of a launch of the CPU is by now out of range; the launches before that one did run. Of one of a
            GPU that is said when something waits for it.
        """
        under_way = rt.capturing()
        records = under_way and hook_calls.recorder is not None and hook_calls.recorder() is self
        if under_way == OWN_CAPTURE or records or not self.launches:
            raise RuntimeError(
                "the tape holds no launches: replay after the `with record()` block, not inside it"
            )
        rt.replay(self)


def record(*, hooks: bool = False) -> Tape:
    """Record the launches of the block.

    Tensors that the block makes and the caller keeps hold the results of each replay. Inputs must stay where they
    are, and alive: change their contents in place. What Python decides inside the block (shapes, branches,
    numbers passed to ops) is not run again. Nor are hooks, unless it is asked for: what they launched is a part of the
    tape.

    Parameters
    ----------
    hooks : bool, default False
        Let a replay call the hooks of backward passes again, at their places, with the gradients of the replay. What
        they return or change is then that of the replay; what they launch is no part of the tape. They get
        gradients without history.

    Returns
    -------
    Tape
        A context that gives itself.

    Raises
    ------
    RuntimeError
        On entry, if another capture is under way.

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.native.host.tape import record
    >>> x = fg.ones(3)
    >>> with record() as tape:
    ...     y = x * 2
    >>> _ = x.fill_(5)
    >>> tape.replay()
    >>> y
    tensor([10., 10., 10.])
    """
    return Tape(hooks=hooks)
