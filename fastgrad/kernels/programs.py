"""What a fused kernel computes, as plain data: a list of instructions over values, and where operands lie.

Equal programs have equal texts (`repr`) in every process: those are a part of the key of their code.

A program runs over rows, of as many elements as its frame says, or over elements in one line. A value is one for all
(`SCALAR`), one for each row (`ROW`), or one for each element (`ELEMENT`). A result may have one element for each column
(`COLUMN`): the rows that go to parts together are added up there.
"""

from __future__ import annotations

from typing import NamedTuple

SCALAR, ROW, ELEMENT, COLUMN = range(4)

LOAD, APPLY, NUMBER, CONSTANT, REDUCE, STORE, ADD_UP = (
    "load",
    "apply",
    "number",
    "constant",
    "reduce",
    "store",
    "add up",
)
"""Kinds of instructions. `LOAD` reads the operand of a number among the inputs. `APPLY` is the formula of a row of the
kernel table: its name, dtype and layout class, the dtype of the result, and about how many instructions it takes.
`NUMBER` is the one of a dtype and a place among the frame's numbers: bits of a float64, or an integer. `CONSTANT` is
the one of a dtype and of bits of a float64, which are a part of the program. `REDUCE` makes one value of those of a
row, by a name of `REDUCTIONS`, for a dtype and that of the result. `STORE` writes to the operand of a number among the
results. `ADD_UP` adds a value up by columns, to the result of a number: by ``sum`` or ``mean``, for a dtype."""

REDUCTIONS = ("sum", "mean", "amax", "amin")

DENSE = -1
"""In place of the steps of an operand: its rows, or where it has one element for each its elements, are neighbours."""


class Place(NamedTuple):
    """Where an operand lies.

    Attributes
    ----------
    dtype : int
    level : int
        Whether there is an element for all, for each row, for each element, or for each column.
    steps : int or tuple of int
        For rows: `DENSE`, or for each of the dimensions that they run over the place of the distance in elements among
        the frame's steps, or -1 for a distance of zero.
    result : int
        For an input that lies where a result does: the number of that; else -1.
    """

    dtype: int
    level: int
    steps: int | tuple[int, ...] = DENSE
    result: int = -1


class Instruction(NamedTuple):
    """One step of a program.

    Attributes
    ----------
    kind : str
    value : int
        The number of the value that it makes; instructions make values in this order. -1 for `STORE` and `ADD_UP`.
    about : tuple
        Which operand, formula, number or reduction.
    args : tuple of int
        The values that it takes.
    """

    kind: str
    value: int
    about: tuple[str | int, ...] = ()
    args: tuple[int, ...] = ()


def offset_of(place: Place) -> str:
    """The place of the row of an operand, in elements, as text: of ``r``, its number, and of the numbers ``r0``, ... of
    it in the dimensions that rows run over.
    """
    if place.level == COLUMN:
        return "r // f.grain * n"
    if isinstance(place.steps, int):
        return "r * n" if place.level == ELEMENT else "r"
    return " + ".join(f"r{d} * f.steps[{s}]" for d, s in enumerate(place.steps) if s != DENSE) or "0"


class Program(NamedTuple):
    """What a fused kernel computes.

    Attributes
    ----------
    rows : bool
        Whether it runs over rows.
    outer : int
        How many dimensions rows run over.
    outs, ins : tuple of Place
    code : tuple of Instruction
    """

    rows: bool
    outer: int
    outs: tuple[Place, ...]
    ins: tuple[Place, ...]
    code: tuple[Instruction, ...]
