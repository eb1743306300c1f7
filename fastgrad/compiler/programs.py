"""Programs of tapes: in which memory their launches work, and which tensors a call brings and leaves.

What a program is, and who reads it, says Note [Bound tapes] in `fastgrad.native.memory.bindings`.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterator, Sequence, Set
from typing import Any, NamedTuple

from fastgrad.compiler.memory import Life, places
from fastgrad.compiler.structure import GivenBack
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.element_types import INT64, UINT8
from fastgrad.native.contracts.flags import CONJUGATED, REQUIRES_GRAD
from fastgrad.native.contracts.frame import READ, WRITE
from fastgrad.native.contracts.limits import MAX_DIMS
from fastgrad.native.contracts.records import (
    ANY_MODE,
    ANY_SIGN,
    BOUND,
    BROUGHT,
    LAID,
    LAUNCHED,
    NOT_MOVED,
    PROGRAM,
    REGION,
    REGION_FRESH,
    REGION_GIVEN,
    REGION_OWN,
    RESULT,
    RESULT_GRAD,
    RESULT_NO_GRAD,
    RESULT_OUT,
    RESULT_VALUE,
    STORAGE,
    TENSOR,
    VALUE_WORDS,
)
from fastgrad.native.host.options import Option
from fastgrad.native.host.tape import Launch, ReadValue, Tape
from fastgrad.ops.call import float_bits, float_of_bits
from fastgrad.ops.rules import lasting_addresses

_STORAGE, _DATA, _DTYPE, _DEVICE, _FLAGS = (
    TENSOR.fields[name][0] for name in ("storage", "data", "dtype", "device", "flags")
)
_LENGTH, _REFS = (STORAGE.fields[name][0] for name in ("nbytes", "refs"))
_OTHER_USE = "and does not just return it"
HOST_DEVICE = 0
KNOWN_REFERENCES = 2
"""To memory that nobody holds but the tape and its region."""


class UnrecordableError(Exception):
    """What was recorded cannot be replayed; the message says why."""


class OnceError(UnrecordableError):
    """The call that was recorded cannot be replayed, but the next one may be."""


def storage_of(tensor: Any) -> int:
    """What tells the memory of a tensor from that of others."""
    return rt.field(tensor, _STORAGE)


def _references(memory: Any) -> int:
    return rt.storage_field(memory, _REFS)


class Region:
    """A region: which memory it was during the capture, as a tensor of bytes."""

    def __init__(self, kind: int, memory: Any) -> None:
        self.kind = kind
        self.memory = memory
        self.storage = storage_of(memory)
        self.base = rt.field(memory, _DATA)
        self.nbytes = rt.storage_field(memory, _LENGTH)
        self.device = rt.field(memory, _DEVICE)
        self.links: list[int] = []
        self.uses: list[tuple[int, str]] = []  # the number of a launch, what it does there
        self.place = NOT_MOVED
        self.is_shared = False

    @property
    def is_written(self) -> bool:
        """Whether launches write there."""
        return any(role != READ for _, role in self.uses)

    @property
    def is_written_first(self) -> bool:
        """Whether nothing is read there that was not written before by a launch."""
        return bool(self.uses) and all(role == WRITE for at, role in self.uses if at == self.uses[0][0])

    def holds(self, address: int) -> bool:
        """Whether an address lies in it, or right behind it."""
        return self.base <= address <= self.base + self.nbytes


class Regions:
    """The regions of a tape, by their memory."""

    def __init__(self) -> None:
        self.all: list[Region] = []
        self._numbers: dict[int, int] = {}

    def add(self, kind: int, tensor: Any) -> int:
        """The number of the region that the memory of a tensor is; one that is known keeps its kind."""
        storage = storage_of(tensor)
        number = self._numbers.get(storage)
        if number is None:
            number = self._numbers[storage] = len(self.all)
            self.all.append(Region(kind, rt.memory_of(tensor)))
        return number

    def find(self, tensor: Any) -> int | None:
        """The number of the region that the memory of a tensor is, if it is one."""
        return self._numbers.get(storage_of(tensor))

    def link(self, tape: Tape) -> None:
        """Note which words of frames are addresses in which region, and what launches do there.

        Raises
        ------
        UnrecordableError
            If one lies in none.
        """
        order = sorted(self.all, key=lambda region: (region.base, region.nbytes))
        bases = [region.base for region in order]
        for number, at, launch in _placed(tape):
            for place, address, role in _addresses(launch):
                if address in lasting_addresses:
                    continue
                k = bisect.bisect_right(bases, address) - 1
                if k < 0 or not order[k].holds(address):
                    reader = (
                        "Python" if isinstance(launch, ReadValue) else f"the kernel {launch.kernel.name!r}"
                    )
                    raise UnrecordableError(
                        f"{reader} reads memory of a tensor that is no argument and is not "
                        "reached from the function, its closure or the globals that it names"
                    )
                order[k].links.append(at + place)
                order[k].uses.append((number, role))

    def refuse_changes_before(self, tape: Tape, given_back: Set[int]) -> None:
        """Raise if a call changes what others see before Python reads a value: a replay that finds another one ends.

        `given_back`: the numbers of values that are not compared.

        Raises
        ------
        UnrecordableError
        """
        entries = list(tape.entries())
        compared = (
            k for k, e in enumerate(entries) if isinstance(e, ReadValue) and e.number not in given_back
        )
        last = max(compared, default=-1)
        if None in entries[: max(last, 0)]:
            raise UnrecordableError(f"it reads a value after a hook was called, {_OTHER_USE}")
        given = (region.uses for region in self.all if region.kind == REGION_GIVEN)
        if any(role != READ and number < last for uses in given for number, role in uses):
            raise UnrecordableError(f"it reads a value after it changed a tensor from outside, {_OTHER_USE}")

    def note_calls(self, tape: Tape) -> None:
        """Note what the calls of Python on a tape do in which region."""
        numbers = [number for number, launch in enumerate(tape.entries()) if launch is None]
        for number, call in zip(numbers, tape._calls, strict=True):
            for lying in call.lying():
                region = self.find(lying.tensor)
                if region is None:
                    raise UnrecordableError("a hook gets a tensor that the call neither made nor got")
                roles = ([] if lying.is_landing else [READ]) + ([WRITE] if lying.writes else [])
                self.all[region].uses += [(number, role) for role in roles]
        for found in self.all:
            found.uses.sort(key=lambda use: use[0])


def _addresses(launch: Launch | ReadValue) -> Iterator[tuple[int, int, str]]:
    """The words of a frame that are addresses: their places, the addresses, and what is done there."""
    if isinstance(launch, ReadValue):
        yield 0, launch.address, READ
        return
    frame = launch.frame
    for place, name in frame.addresses.items():
        if place < len(launch.words) and launch.words[place] != 0:
            yield place, launch.words[place], frame.roles[name].role


def _placed(tape: Tape) -> Iterator[tuple[int, int, Launch | ReadValue]]:
    """What reads memory on a tape, each with its number among the entries and with the place of its frame, in words."""
    at = 0
    for number, launch in enumerate(tape.entries()):
        at += LAUNCHED.words
        if launch is not None:
            yield number, at, launch
            at += VALUE_WORDS if isinstance(launch, ReadValue) else len(launch.words)


class Brought:
    """An option of an optimizer that a call brings: the bits that stand on the tape, and the words where they do."""

    def __init__(self, option: Option, bits: int) -> None:
        self.option = option
        self.bits = bits
        self.links: list[int] = []

    def words(self, first: int) -> list[int]:
        """It as a program says it; `first`: its first link."""
        option, sign, length = self.option, ANY_SIGN, 0
        if option.branches:
            value = float_of_bits(self.bits)
            sign = (value > 0) - (value < 0)
        if option.item >= 0:
            length = len(option.group[option.key])
        return [first, len(self.links), option.item, length, sign, self.bits]


class Gradient(NamedTuple):
    """The gradient that a tensor had before the capture; its memory is kept, so that nothing else lies there."""

    tensor: Any
    memory: Any

    @classmethod
    def of(cls, tensor: Any) -> Gradient | None:
        """That of a tensor, or None."""
        grad = rt.get_grad(tensor)
        return None if grad is None else cls(grad, rt.memory_of(grad))


def _laid(regions: Regions, number: int | None, tensor: Any) -> list[int]:
    """How a tensor lies in a region, as words."""
    sizes, strides = rt.sizes(tensor), rt.steps(tensor)
    offset = 0 if number is None else rt.field(tensor, _DATA) - regions.all[number].base
    padding = [0] * (MAX_DIMS - len(sizes))
    head = [
        -1 if number is None else number, offset, rt.field(tensor, _DTYPE), rt.field(tensor, _DEVICE),
        rt.field(tensor, _FLAGS) & CONJUGATED, len(sizes),
    ]  # fmt: skip
    return [*head, *sizes, *padding, *strides, *padding]


_NOWHERE = [-1] + [0] * (LAID.words - 1)


class Before(NamedTuple):
    """What a tensor that a call brings was before the capture."""

    tensor: Any
    storage: int
    data: int
    version: int
    layout: tuple[Any, ...]
    gradient: Gradient | None

    @classmethod
    def of(cls, tensor: Any) -> Before:
        """As it is now."""
        return cls(
            tensor, storage_of(tensor), rt.field(tensor, _DATA), rt.version(tensor), _layout(tensor),
            Gradient.of(tensor),
        )  # fmt: skip

    @property
    def history(self) -> bool:
        """Whether it was the result of what a graph remembers."""
        return self.layout[4] != 0

    def refuse_changes(self) -> None:
        """Raise if something was changed that a replay would not change.

        Raises
        ------
        UnrecordableError
        """
        now = (storage_of(self.tensor), rt.field(self.tensor, _DATA), _layout(self.tensor))
        if now != (self.storage, self.data, self.layout):
            raise UnrecordableError("a tensor from outside got other memory, sizes, history or flags")


def _layout(tensor: Any) -> tuple[Any, ...]:
    flags = rt.field(tensor, _FLAGS)
    node = rt.field(tensor, TENSOR.fields["node"][0])
    return rt.sizes(tensor), rt.steps(tensor), rt.field(tensor, _DTYPE), flags, node


class Program:
    """What binds a tape to the tensors of a call.

    Parameters
    ----------
    tape : Tape
        What was recorded.
    given, held : list of Before
        The tensors that come with each call, and those that are always the same.
    outputs : list of Tensor or GivenBack
        What a call gives back: in memory that the capture made or of the tensors above, or a number.
    modes : tuple of int, optional
        The modes of the thread and the default dtype in which it may be called; any if not given.
    room : Tensor, optional
        Memory that fused launches use.
    options : collection of Option
        Options of optimizers that a call brings.
    """

    def __init__(
        self,
        tape: Tape,
        given: Sequence[Before],
        held: Sequence[Before],
        outputs: Sequence[Any],
        modes: tuple[int, int] | None = None,
        room: Any = None,
        options: Collection[Option] = (),
    ) -> None:
        self.tape = tape
        self.given, self.held = list(given), list(held)
        self.outputs = list(outputs)
        self.modes = modes
        self.room = room
        self.regions = Regions()
        self.made: list[int] = []
        self._find_regions()
        self.brought = self._find_options(options)

    def _find_regions(self) -> None:
        for before in (*self.given, *self.held):
            before.refuse_changes()
            self.regions.add(REGION_GIVEN, before.tensor)
            if before.gradient is not None:
                self.regions.add(REGION_GIVEN, before.gradient.memory)
        by_hooks = [x.tensor for call in self.tape._calls for x in call.lying()]
        for memory in (*rt.tape_memory(self.tape), *by_hooks, *([] if self.room is None else [self.room])):
            number = self.regions.add(REGION_OWN, memory)
            if self.regions.all[number].kind == REGION_OWN and number not in self.made:
                self.made.append(number)
        self.regions.link(self.tape)
        numbers = {value.number for value in self.outputs if isinstance(value, GivenBack)}
        self.regions.refuse_changes_before(self.tape, numbers)
        self.regions.note_calls(self.tape)

    def _find_options(self, options: Collection[Option]) -> list[Brought]:
        """Where options of optimizers stand on the tape."""
        found: dict[Option, Brought] = {}
        for number, at, launch in _placed(self.tape) if options else ():
            settings = self.tape._settings.get(number)
            if settings is None or isinstance(launch, ReadValue) or launch.kernel is not settings.kernel:
                continue
            for field, option in settings.options():
                place = launch.frame.place(field)
                if option in options:
                    brought = found.setdefault(option, Brought(option, launch.words[place]))
                    self._refuse_option(brought, launch.words[place])
                    brought.links.append(at + place)
        return list(found.values())

    def _refuse_option(self, brought: Brought, bits: int) -> None:
        """Raise if an option has not been the same for the whole call."""
        value = brought.option.now()
        if isinstance(value, TensorBase):
            number = self.regions.find(value)
            changed = number is None or self.regions.all[number].is_written
        else:
            changed = float_bits(value) != bits
        if changed or bits != brought.bits:
            raise UnrecordableError("it changes an option of an optimizer")

    def _result(self, kind: int, tensor: Any, bound: int = 0) -> list[int]:
        number = self.regions.find(tensor)
        if number is None:
            raise UnrecordableError("it returns a tensor that it neither made nor got")
        if self.regions.all[number].kind == REGION_OWN:
            self.regions.all[number].kind = REGION_FRESH
        return [kind, bound, *_laid(self.regions, number, tensor)]

    def _results(self) -> Iterator[list[int]]:
        for value in self.outputs:
            if isinstance(value, GivenBack):
                yield [RESULT_VALUE, value.number, *_NOWHERE]
            else:
                yield self._result(RESULT_OUT, value)
        for k, before in enumerate((*self.given, *self.held)):
            grad = rt.get_grad(before.tensor)
            if grad is (before.gradient.tensor if before.gradient else None):
                continue
            if grad is None:
                yield [RESULT_NO_GRAD, k, *_NOWHERE]
            elif rt.flags_of(grad) & REQUIRES_GRAD:
                raise UnrecordableError("it leaves gradients with a history (create_graph=True)")
            else:
                yield self._result(RESULT_GRAD, grad, k)

    def _bound(self) -> Iterator[list[int]]:
        counted: set[int] = set()
        for before in (*self.given, *self.held):
            number = self.regions.find(before.tensor)
            writes = rt.version(before.tensor) - before.version
            if before.storage in counted:
                writes = 0
            counted.add(before.storage)
            grad, grad_lies = before.gradient, _NOWHERE
            if grad is not None:
                place = self.regions.find(grad.memory)
                assert place is not None
                touched = bool(self.regions.all[place].links)
                grad_lies = _laid(self.regions, place if touched else None, grad.tensor)
            lies = _laid(self.regions, number, before.tensor)
            yield [before.layout[3], int(before.history), writes, int(grad is not None), *lies, *grad_lies]

    def _keep(self) -> None:
        """Say of the memory that the capture made which has to be made anew where somebody holds it."""
        held = set()
        for number in self.made:
            region = self.regions.all[number]
            if (
                region.kind == REGION_OWN
                and region.is_written
                and _references(region.memory) > KNOWN_REFERENCES
            ):
                if not region.is_written_first:
                    raise OnceError("the recorded call began to change what it made for those to come")
                held.add(number)
        for number in held:
            self.regions.all[number].kind = REGION_FRESH

    def _share(self) -> None:
        """Find what calls of Python may get as it lies: what they keep of it, later launches must not overwrite."""
        numbers = [number for number, launch in enumerate(self.tape.entries()) if launch is None]
        for number, call in zip(numbers, self.tape._calls, strict=True):
            for lying in call.lying():
                place = self.regions.find(lying.tensor)
                assert place is not None
                region = self.regions.all[place]
                if region.kind == REGION_OWN and region.is_written and region.is_written_first:
                    region.kind = REGION_FRESH
                region.is_shared = region.kind == REGION_FRESH and region.is_written_first
                lying.is_apart = region.is_shared and region.device == HOST_DEVICE
                if call.sees_changes:
                    lying.is_shared = region.kind != REGION_OWN or not region.is_written
                else:
                    overwritten = any(at > number and role != READ for at, role in region.uses)
                    lying.is_shared = region.is_shared and not overwritten

    def _plan(self) -> list[Any]:
        """Let memory of the tape's own be used again within a call: for each device a piece for all that there is."""
        if self.tape._calls:  # hooks look at memory behind its last launch
            return []
        lives: dict[int, list[Life]] = {}
        for number in self.made:
            region = self.regions.all[number]
            if region.kind == REGION_OWN and region.is_written_first:
                first, last = region.uses[0][0], region.uses[-1][0]
                lives.setdefault(region.device, []).append(Life(number, region.nbytes, first, last))
        arenas = []
        for device, of_device in lives.items():
            found, total = places(of_device)
            for number, place in found.items():
                self.regions.all[number].place = place
            arenas.append(rt.new(UINT8, device, (total,)))
        return arenas

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the bound tape keeps."""
        apart = (self.regions.all[number] for number in self.made)
        own = sum(region.nbytes for region in apart if region.place == NOT_MOVED and region.links)
        return own + sum(rt.sizes(arena)[0] for arena in self.arenas)

    def words(self) -> list[int]:
        """The words of the program."""
        results = list(self._results())  # first: they say which regions are made anew
        self._keep()
        self._share()
        self.arenas = self._plan()
        bound = list(self._bound())
        links: list[list[int]] = []
        regions: list[list[int]] = []
        for k, region in enumerate(self.regions.all):
            regions.append(
                [region.kind, region.nbytes, len(links), len(region.links), region.base, region.place, 0, 0]
            )
            links += [[8 * place, k] for place in region.links]
        mode, dtype = self.modes or (ANY_MODE, 0)
        numbers: list[list[int]] = []
        for k, brought in enumerate(self.brought):
            numbers.append(brought.words(len(links)))
            links += [[8 * place, k] for place in brought.links]
        head = [
            len(regions), len(links), len(bound), len(self.given), len(results), len(numbers), mode, dtype,
        ]  # fmt: skip
        parts = ((head,), regions, links, bound, results, numbers)
        found = [word for part in parts for words in part for word in words]
        expected = PROGRAM.words + len(regions) * REGION.words + 2 * len(links)
        expected += len(bound) * BOUND.words + len(results) * RESULT.words + len(numbers) * BROUGHT.words
        assert len(found) == expected
        return found

    def bind(self) -> None:
        """Hand the program over to the runtime."""
        words = self.words()
        memory = tuple(region.memory for region in self.regions.all)
        lying = [(x, self._lies(x.tensor)) for call in self.tape._calls for x in call.lying()]
        rt.bind_tape(self.tape, memory, as_words(words), tuple(self.arenas))
        self.tape._settings = {}
        for x, bound in lying:
            x.bind(self.tape, bound)
        for call in self.tape._calls:
            call.settle()

    def _lies(self, tensor: Any) -> bytes:
        """How a tensor that a hook got lies in a region."""
        number = self.regions.find(tensor)
        if number is None:
            raise UnrecordableError("a hook gets a tensor that the call neither made nor got")
        return in_bytes(_laid(self.regions, number, tensor))


def as_words(values: Sequence[int]) -> TensorBase:
    """Words as a tensor of int64."""
    tensor = rt.new(INT64, 0, (len(values),))
    rt.write(tensor, in_bytes(values))
    return tensor


def in_bytes(values: Sequence[int]) -> bytes:
    """Words as the bytes that they are in memory."""
    return b"".join(value.to_bytes(8, "little", signed=True) for value in values)
