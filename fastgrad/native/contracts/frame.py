"""How the frame of a kernel is declared: what each of its words is, and what may be divided over threads.

A kernel is ``void(int64 frame)``: the frame is an array of words with all that it gets. `contracts.frames` declares
one `Frame` for each family of kernels, and whoever reads or writes a frame does so by the names that stand there:
shape rules and kernels in compiled code (``f = frames.rows(frame); f.length``, see `base.frames`), the launch, the
tape and debug mode by the roles of the fields.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from fastgrad.native.contracts.element_types import DISCRETE, FLOAT64, INT64, complex_of, computed_in, real_of
from fastgrad.native.contracts.limits import FRAME_WORDS
from fastgrad.native.contracts.record import Part, Record

if TYPE_CHECKING:
    from fastgrad.native.contracts.split import Split

# Roles of fields.
READ, WRITE, UPDATE = (
    "read",
    "write",
    "update",
)  # addresses of elements; those of the last are read and written
SCRATCH = "scratch"  # the address of room that means nothing before the launch and after it
STATUS = "status"  # where the kernel reports what is wrong: the address of a `REPORT`
SIZE, STRIDE, NUMBER = "size", "stride", "number"
ADDRESSES = (READ, WRITE, UPDATE, SCRATCH)

# What a kernel reports: which of these, and two facts.
REPORT = Part("report", kind=1, first=1, second=1)
FINE, INDEX_OUTSIDE, NO_PROBABILITY_THERE, HOOK_RAISED, NO_ROOM, FUNCTION_RAISED = range(6)

ROOM = Part("room", data=1, nbytes=1, count=1)
"""Scratch: its address, the bytes of a piece, and how many pieces follow each other."""

COMPUTED, SUMMED = -2, -1
"""In place of a dtype code: the dtype that the kernel computes in, which is its own, but float32 where that is a half;
the same, but int64 where it is an integer type."""
REAL_PART, AS_COMPLEX = -4, -3
"""In place of a dtype code: the dtype of the real parts of the kernel's elements; the complex dtype with such parts."""

MAX_REACHES = 8
"""Addresses of a frame whose extent is declared, at most."""
MAX_FACTORS = 6
COMPUTED_ELEMENT, OWN_ELEMENT, SUMMED_ELEMENT, REAL_ELEMENT, COMPLEX_ELEMENT = range(16, 21)
CONSTANT_FACTOR = 0x80
"""How a word, a *reach*, says how many elements lie behind an address: bytes, from the lowest on, with the place of the
address plus one, the dtype code of an element (or one of these), and up to six factors, each the place of a field
plus one, or a number with this bit."""


_NONE: Mapping[str, Any] = MappingProxyType({})


class Field(NamedTuple):
    """A field of a frame: one word, or several alike.

    Attributes
    ----------
    role : str
    count : int
        How many of them follow each other.
    singles : dict
        Names for the single ones, from the first on, and what each is; the field itself then is where they begin.
    extent : tuple of str or int
        For an address: the fields and numbers whose product is the number of neighbouring elements behind it; empty
        where it is not as simple as that.
    element : int, optional
        For an address: the dtype code of what lies there, `COMPUTED` or `SUMMED`, if it is not that of the kernel. For
        a number: FLOAT64 for the bits of any float64.
    part : Part, optional
        What one of them is made of, where that is more than a word. An address is its first word.
    """

    role: str
    count: int = 1
    singles: Mapping[str, Field] = _NONE
    extent: tuple[str | int, ...] = ()
    element: int | None = None
    part: Part | None = None

    @property
    def words(self) -> int:
        """Words of one of them."""
        return self.part.words if self.part else 1

    def with_names(self, names: str) -> Field:
        """The same with names for the single ones."""
        return self._replace(singles=dict.fromkeys(names.split(), self._replace(count=1)))


def _address(role: str) -> Callable[..., Field]:
    def declare(
        *extent: str | int, count: int = 1, element: int | None = None, part: Part | None = None
    ) -> Field:
        return Field(role, count, _NONE, extent, element, part)

    return declare


reads, writes, updates = map(_address, (READ, WRITE, UPDATE))
"""An address, and the fields whose product is the number of elements there. An address of zero stands for nothing."""


def scratch() -> Field:
    """Room that means nothing before the launch and after it: a `ROOM`, one piece for each thread."""
    return Field(SCRATCH, part=ROOM)


def status() -> Field:
    """Where the kernel reports what is wrong."""
    return Field(STATUS)


def _count(role: str) -> Callable[..., Field]:
    def declare(
        names: str = "", *, count: int = 1, part: Part | None = None, element: int | None = None
    ) -> Field:
        return Field(role, len(names.split()) or count, part=part, element=element).with_names(names)

    return declare


size, stride, number = map(_count, (SIZE, STRIDE, NUMBER))
"""How many of something; a distance in elements; any other number, of which a float comes as its bits.

``names`` names several that follow each other; the field itself is where they begin. A float that a call of a
bound tape may bring, whatever its value is, says so by its `element`: see Note [Numbers that are brought] in
`memory.bindings`.
"""


_ELEMENT_CODES: Mapping[int | None, Any] = {
    None: OWN_ELEMENT, COMPUTED: COMPUTED_ELEMENT, SUMMED: SUMMED_ELEMENT, REAL_PART: REAL_ELEMENT,
    AS_COMPLEX: COMPLEX_ELEMENT,
}  # fmt: skip


class Frame(Record):
    """The declaration of the frame of a family of kernels.

    Parameters
    ----------
    name : str
        Compiled code casts the address of a frame with ``frames.<name>``.
    splits : tuple of Split
        Ways to divide a launch, the best first; none where a launch is one piece.
    **fields : Field
        The words, in order.
    """

    unit = 1

    def __init__(self, name: str, /, *, splits: tuple[Split, ...] = (), **fields: Field) -> None:
        super().__init__(name)
        self.declared = fields
        self.splits = splits
        self.roles: dict[str, Field] = {}
        at = 0
        for field, declared in fields.items():
            self._place(field, at, declared)
            for k, (single, role) in enumerate(declared.singles.items()):
                if role.words != declared.words or k >= declared.count:
                    raise ValueError(f"frame {name}: there is no room for {single} in {field}")
                self._place(single, at + k * declared.words, role)
            at += declared.count * declared.words
        if at > FRAME_WORDS:
            raise ValueError(
                f"frame {name} has {at} words, more than the {FRAME_WORDS} that there is room for"
            )
        self._close(at)

    def _place(self, name: str, at: int, field: Field) -> None:
        if name in self.fields:
            raise ValueError(f"frame {self.name} has two fields {name}")
        self.fields[name] = (at, field.count * field.words)
        self.roles[name] = field
        if field.part:
            self.parts[name] = field.part

    def named(
        self, name: str, /, *, splits: tuple[Split, ...] = (), **changes: str | Mapping[str, Field] | Field
    ) -> Frame:
        """The same words under another name: fields have other roles, or names for the single ones."""
        fields = dict(self.declared)
        for field, change in changes.items():
            old = fields[field]
            if isinstance(change, str):
                fields[field] = old.with_names(change)
            else:
                fields[field] = change if isinstance(change, Field) else old._replace(singles=change)
            if fields[field].count * fields[field].words != old.count * old.words:
                raise ValueError(f"frame {name}: the length of {field} cannot change")
        return Frame(name, splits=splits, **fields)

    def variant(self, *, splits: tuple[Split, ...] | None = None, **roles: Field) -> Frame:
        """The same frame for kernels that do something else with some of its fields."""
        return self.named(self.name, splits=self.splits if splits is None else splits, **roles)

    def with_elements(self, elements: Mapping[str, int]) -> Frame:
        """The same frame for a kernel to which other elements lie behind some addresses."""
        if not elements:
            return self
        fields = dict(self.declared)
        for name, field in self.declared.items():
            if name in elements:
                fields[name] = field._replace(element=elements[name])
            singles = {n: f._replace(element=elements.get(n, f.element)) for n, f in field.singles.items()}
            fields[name] = fields[name]._replace(singles=singles)
        return Frame(self.name, splits=self.splits, **fields)

    def element(self, name: str, dtype: int) -> int:
        """The dtype code of what lies behind an address, for a kernel of this dtype."""
        code = self.roles[name].element
        if code == SUMMED and dtype in DISCRETE:
            return INT64
        if code in (COMPUTED, SUMMED):
            return computed_in(dtype)
        if code == REAL_PART:
            return real_of(dtype)
        if code == AS_COMPLEX:
            return complex_of(dtype)
        return dtype if code is None else code

    def element_code(self, name: str) -> int:
        """What lies behind an address, for the runtime: a dtype code, or what stands in place of one."""
        code = self.roles[name].element
        return _ELEMENT_CODES.get(code, code)

    def layout(self) -> str:
        """What code that reads the frame depends on: where its fields lie."""
        return repr((self.fields, {name: part.fields for name, part in self.parts.items()}))

    def names_of(self, field: str) -> tuple[str, ...]:
        """The names of the single ones of a field."""
        return tuple(self.declared[field].singles)

    def place(self, field: str) -> int:
        """The place among the words of a field, or of ``field.part``."""
        name, _, inner = field.partition(".")
        return self.fields[name][0] + (self.parts[name].fields[inner][0] if inner else 0)

    @functools.cached_property
    def addresses(self) -> Mapping[int, str]:
        """The words that are addresses of memory: the names of their fields by their places."""
        found: dict[int, str] = {}
        for (
            name,
            field,
        ) in self.roles.items():  # names of single ones come behind the field's own, and replace it
            if field.role in ADDRESSES:
                found.update((self.fields[name][0] + k * field.words, name) for k in range(field.count))
        return found

    @functools.cached_property
    def floats(self) -> int:
        """The words that are floats of any value, a bit for each."""
        return sum(
            1 << self.fields[name][0]
            for name, field in self.roles.items()
            if field.role == NUMBER and field.element == FLOAT64 and field.count == 1
        )

    def reaches(self) -> list[int]:
        """How far addresses reach, by place; see `MAX_REACHES`."""
        found = []
        for place, name in sorted(self.addresses.items()):
            field = self.roles[name]
            if field.extent:
                found.append(self._reach(place, field))
        if len(found) > MAX_REACHES:
            raise ValueError(
                f"frame {self.name} declares {len(found)} extents, more than the {MAX_REACHES} that fit"
            )
        return found

    def _reach(self, place: int, field: Field) -> int:
        factors = [self.place(f) + 1 if isinstance(f, str) else f | CONSTANT_FACTOR for f in field.extent]
        if len(factors) > MAX_FACTORS:
            raise ValueError(f"frame {self.name}: an extent of {len(factors)} factors")
        code = self.element_code(self.addresses[place])
        return int.from_bytes(bytes([place + 1, code, *factors]).ljust(8, b"\0"), "little", signed=True)

    def read(self, words: Sequence[int]) -> dict[str, Any]:
        """The words of a frame by the names of its fields."""
        found: dict[str, Any] = {}
        for name, field in self.declared.items():
            at = self.fields[name][0]
            places = range(at, min(at + field.count * field.words, len(words)), field.words)
            values = [_value(field.part, words[k : k + field.words]) for k in places]
            if field.singles:
                found.update(zip(field.singles, values, strict=False))
            elif values:
                found[name] = values if field.count > 1 else values[0]
        return found


def _value(part: Part | None, words: Sequence[int]) -> Any:
    if part is None:
        return words[0]
    places = part.fields.items()
    return {name: words[at] if n == 1 else list(words[at : at + n]) for name, (at, n) in places}
