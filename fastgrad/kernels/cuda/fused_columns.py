"""Fused kernels that add up columns, on the CUDA device: as `reduce` does it, of elements that are computed, and which
may be stored meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import WARP, Target
from fastgrad.kernels.cuda.fused_values import (
    address_of,
    computing,
    for_all,
    function_of,
    row_begins,
    row_dimensions,
    scope_of,
)
from fastgrad.kernels.cuda.places import split
from fastgrad.kernels.cuda.reduce import along
from fastgrad.kernels.cuda.teams import added, by_teams, sums, whole
from fastgrad.kernels.programs import APPLY, ELEMENT, LOAD, NUMBER, REDUCE, SCALAR
from fastgrad.kernels.schedules import Phases
from fastgrad.native.contracts.element_types import FLOAT64


def build(kernel: Any, target: Target, threads: int) -> Body:
    """The kernel of a program that adds up columns, and reduces no rows."""
    phases = Phases(kernel.program)
    scope = scope_of(kernel, target) | {"split": split, "whole": whole}
    dtypes = [int(i.about[2]) for i in phases.columns]
    zeros = tuple(target.elements[dtype].constant(0) for dtype in dtypes)
    for dtype in dtypes:
        scope[f"fold_{dtype}"] = sums(target, dtype, threads)
        scope[f"number_{dtype}"] = target.elements[dtype].constant
    terms = function_of("terms(f, r, beside)", _terms(phases), scope)
    scope["along"] = along(terms, added, zeros, zeros, _one, _grain_of)
    result = function_of("result(f, number, lane, lanes, how, there)", _result(phases), scope)
    run = by_teams(result, _results_of, _grain_of, _always, threads)
    resident = 512 if FLOAT64 in phases.dtype.values() else 768
    return Body(run, ("room",), threads // WARP, threads, resident=resident)


def _one(f):
    return 1


def _always(f):
    return True


def _grain_of(f):
    return f.grain


def _results_of(f):
    return f.room[0]


def _for_all(phases: Phases) -> list[int]:
    """The values that are one for all elements."""
    return [value for value, level in phases.level.items() if level == SCALAR]


def _terms(phases: Phases) -> Iterator[str]:
    """What the element of a row and a column brings to each sum. It is stored, too, where there is such a column."""
    program = phases.program
    yield f"c, there, {''.join(f'v{value}, ' for value in _for_all(phases))} = beside"
    yield "n = f.n"
    yield from row_dimensions(program, "")
    at = row_begins(program)
    for i in phases.made.values():
        if i.kind == LOAD and phases.level[i.value] != SCALAR:
            beside = " + c" if phases.level[i.value] == ELEMENT else ""
            place = f"{at[f'i{i.about[0]}']}{beside}"
            yield f"v{i.value} = load_{phases.dtype[i.value]}({address_of(program, i)}, {place})"
        elif i.kind not in (NUMBER, REDUCE) and phases.level[i.value] != SCALAR:
            yield from computing(program, [i], "", "f.first")
    if phases.stores:
        yield "if there:"
    for i in phases.stores:
        k = int(i.about[0])
        yield f"    store_{program.outs[k].dtype}(f.outs[{k}], {at[f'o{k}']} + c, v{i.args[0]})"
    yield f"return ({''.join(f'v{i.args[0]}, ' for i in phases.columns)})"


def _result(phases: Phases) -> Iterator[str]:
    """The sums of a column over as many rows as become one."""
    program = phases.program
    yield from for_all(program, "")
    everywhere = [i for i in program.code if i.kind == APPLY and phases.level[i.value] == SCALAR]
    yield from computing(program, everywhere, "", "f.first")
    yield "block, c = split(number, f.n)"
    yield f"beside = (c, there, {''.join(f'v{value}, ' for value in _for_all(phases))})"
    yield "totals, losts = along(f, block * f.grain, lane, lanes, beside)"
    for j, i in enumerate(phases.columns):
        k, name, dtype = i.about
        yield f"t, l = fold_{dtype}(totals[{j}], losts[{j}], how)"
        share = f" / number_{dtype}(f.grain)" if name == "mean" else ""
        yield "if there and lane == 0:"
        yield f"    store_{program.outs[int(k)].dtype}(f.outs[{k}], number, whole(t, l){share})"
