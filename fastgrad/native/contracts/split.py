"""Dividing a launch into parts that do not depend on each other, as the declaration of its frame says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from fastgrad.native.contracts.frame import ROOM, Frame
from fastgrad.native.contracts.record import Part

_NOTHING: Mapping[str, int] = MappingProxyType({})


class Last(NamedTuple):
    """The last of the numbers in `field`, of which there are as many as the field `count` says."""

    field: str
    count: str


class PerStep(NamedTuple):
    """The share of each step in a field that counts something over all steps."""

    field: str


Factor = str | int | Last | PerStep


class Split(NamedTuple):
    """One way to divide a launch.

    A part is a launch with a frame of its own that differs in these words: `over` counts its own steps, addresses have
    moved on to where its first step begins, and what counts something over all steps counts it over its own.

    Attributes
    ----------
    over : str or Last
        The field that counts the steps.
    moves : dict
        For each address that moves, the factors whose product is how many elements a step is long. In a field that
        repeats an operand with strides, a factor that begins with a dot is one of the operand's own. For another field
        that moves, how many steps it takes to grow by one: a number, or the name of a field with it.
    scales : tuple of str
        Fields that grow with the number of steps.
    grain : int or str
        Parts begin at multiples of it, or of what this field says; the last one takes what is left.
    where, unless : dict
        Values that fields must have, or must not have.
    """

    over: str | Last
    moves: Mapping[str, tuple[Factor, ...] | int | str]
    scales: tuple[str, ...] = ()
    grain: int | str = 1
    where: Mapping[str, int] = _NOTHING
    unless: Mapping[str, int] = _NOTHING


# How the ways to divide a launch stand in the runtime, as words: how many there are; then for each one how many words
# it has, this one among them, and these fields.
ENCODED = Part(
    "encoded_split", length=1, room=1, over=1, count=1, grain=1, own_grain=1, n_conditions=1, n_scales=1, n_moves=1,
)  # fmt: skip
"""`room` is the place of the scratch, -1 where there is none. `over` is the place of the field that counts the steps,
or with `count` of the first of so many. `grain` is a number, or with `own_grain` a place. Behind it stand the
conditions (a place, a value, whether it has to be this one), the places of what scales, and the moves: each the place
of an address, the code of an element (see `contracts.frame`), how many factors, and these. Of a number that grows:
minus the steps after which it does by one, times what stands at the place that the code then is, unless it is -1."""
CONDITION = Part("condition", place=1, value=1, equal=1)
MOVE = Part("move", place=1, element=1, n_factors=1)
FACTOR = Part("factor", kind=1, place=1, count=1)
A_FIELD, A_LAST, PER_STEP, OWN_FIELD, OWN_LAST, A_NUMBER = range(6)
"""Kinds of factors: a field; the last of so many numbers; a field's share of a step; the first two of an operand's own;
a number."""


def encoded(frame: Frame) -> list[int]:
    """The ways to divide a launch with this frame, for the runtime; nothing where there is none."""
    words = [word for split in frame.splits for word in _encoded(frame, split)]
    return [len(frame.splits), *words] if words else []


def _encoded(frame: Frame, split: Split) -> list[int]:
    over, count = (split.over, None) if isinstance(split.over, str) else split.over
    conditions = [
        word
        for values, equal in ((split.where, 1), (split.unless, 0))
        for name, value in values.items()
        for word in (frame.place(name), value, equal)
    ]
    scales = [frame.place(name) for name in split.scales]
    moves = [move for name, by in split.moves.items() for move in _moves(frame, name, by)]
    words = [
        0, _room(frame), frame.place(over), -1 if count is None else frame.place(count),
        *((frame.place(split.grain), 1) if isinstance(split.grain, str) else (split.grain, 0)),
        len(conditions) // 3, len(scales), len(moves), *conditions, *scales, *(word for move in moves for word in move),
    ]  # fmt: skip
    return [len(words), *words[1:]]


def _room(frame: Frame) -> int:
    places = [frame.place(name) for name, field in frame.declared.items() if field.part is ROOM]
    return places[0] if places else -1


def _moves(frame: Frame, name: str, by: tuple[Factor, ...] | int | str) -> Iterator[list[int]]:
    if isinstance(by, str):
        yield [frame.place(name), frame.place(by), -1]
        return
    if isinstance(by, int):
        yield [frame.place(name), -1, -by]
        return
    names = frame.addresses
    at, length = frame.fields[name]
    for place in range(at, at + length, frame.roles[name].words):
        factors = [word for factor in by for word in _factor(frame, name, factor)]
        yield [place, frame.element_code(names[place]), len(by), *factors]


def _factor(frame: Frame, name: str, factor: Factor) -> tuple[int, int, int]:
    if isinstance(factor, int):
        return A_NUMBER, factor, 0
    if isinstance(factor, PerStep):
        return PER_STEP, frame.place(factor.field), 0
    field, count = (factor, None) if isinstance(factor, str) else factor
    own = field.startswith(".")
    place = frame.parts[name].fields[field[1:]][0] if own else frame.place(field)
    if count is None:
        return OWN_FIELD if own else A_FIELD, place, 0
    return OWN_LAST if own else A_LAST, place, frame.place(count)
