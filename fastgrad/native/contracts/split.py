"""Dividing a launch into parts that do not depend on each other, as the declaration of its frame says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fastgrad.native.contracts.frame import Frame

_NOTHING: Mapping[str, int] = MappingProxyType({})


class Last(NamedTuple):
    """The last of the numbers in `field`, of which there are as many as the field `count` says."""

    field: str
    count: str


class PerStep(NamedTuple):
    """The share of each step in a field that counts something over all steps."""

    field: str


Factor = str | Last | PerStep


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
        that moves, how many steps it takes to grow by one.
    scales : tuple of str
        Fields that grow with the number of steps.
    grain : int
        Parts begin at multiples of it; the last one takes what is left.
    where, unless : dict
        Values that fields must have, or must not have.
    """

    over: str | Last
    moves: Mapping[str, tuple[Factor, ...] | int]
    scales: tuple[str, ...] = ()
    grain: int = 1
    where: Mapping[str, int] = _NOTHING
    unless: Mapping[str, int] = _NOTHING


def split_of(frame: Frame, words: Sequence[int]) -> Split | None:
    """The way to divide a launch with this frame, if there is one."""
    for split in frame.splits:
        if any(words[frame.place(name)] != value for name, value in split.where.items()):
            continue
        if not any(words[frame.place(name)] == value for name, value in split.unless.items()):
            return split
    return None


def divide(frame: Frame, words: Sequence[int], parts: int, itemsize: Callable[[str], int]) -> list[list[int]]:
    """The frames of up to so many parts of a launch; that of the launch itself where it is one piece.

    Parameters
    ----------
    frame : Frame
        The declaration.
    words : sequence of int
        The frame of the launch.
    parts : int
    itemsize : callable
        Bytes of an element behind an address, from the name of its field.
    """
    split = split_of(frame, words)
    if split is None:
        return [list(words)]
    steps = words[_place(frame, words, split.over)]
    grains = max(steps // split.grain, 1)
    count = min(grains, parts)
    bounds = [k * grains // count * split.grain for k in range(count)] + [steps]
    return [_part(frame, split, words, begin, end, itemsize) for begin, end in pairwise(bounds)]


def _part(
    frame: Frame, split: Split, words: Sequence[int], begin: int, end: int, itemsize: Callable[[str], int]
) -> list[int]:
    over = _place(frame, words, split.over)
    steps, names = max(words[over], 1), frame.addresses()
    part = list(words)
    part[over] = end - begin
    for name in split.scales:
        part[frame.place(name)] = words[frame.place(name)] // steps * (end - begin)
    for name, factors in split.moves.items():
        if isinstance(factors, int):
            part[frame.place(name)] += begin // factors
            continue
        at, length = frame.fields[name]
        for place in range(at, min(at + length, len(words)), frame.roles[name].words):
            distance = begin * itemsize(names[place])
            for factor in factors:
                distance *= _factor(frame, words, factor, name, place, steps)
            if words[place] != 0:
                part[place] += distance
    return part


def _place(frame: Frame, words: Sequence[int], over: str | Last) -> int:
    """The place of a field, or of the last of its numbers."""
    if isinstance(over, str):
        return frame.place(over)
    return frame.place(over.field) + words[frame.place(over.count)] - 1


def _factor(frame: Frame, words: Sequence[int], factor: Factor, name: str, operand: int, steps: int) -> int:
    if isinstance(factor, PerStep):
        return words[frame.place(factor.field)] // steps
    field = factor.field if isinstance(factor, Last) else factor
    if not field.startswith("."):
        return words[_place(frame, words, factor)]
    place = operand + frame.parts[name].fields[field[1:]][0]
    return words[place + words[frame.place(factor.count)] - 1 if isinstance(factor, Last) else place]
