"""Fused kernels over rows that are reduced, on the CUDA device; see `teams` for who works on a row, `shares` for what a
thread has of it, and `fused_phases` for what is done in each loop over it.

Sums are those of `reduce`'s Note [Sums on the GPU]: a thread adds up its share by pairs, and shares so that what
rounding loses is kept. A share has fewer elements where a program keeps many values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import WARP, Target, barrier, opaque
from fastgrad.kernels.cuda.fused_phases import Pass, Passes
from fastgrad.kernels.cuda.fused_values import (
    address_of,
    computing,
    for_all,
    function_of,
    operands_of,
    row_begins,
    row_dimensions,
    scope_of,
    unaligned,
)
from fastgrad.kernels.cuda.shares import (
    ACCESS,
    Share,
    by_shares,
    combining_within,
    mapping,
    most_of,
    share_of,
)
from fastgrad.kernels.cuda.teams import added, added_exactly, by_teams, folding_one, sums, whole
from fastgrad.kernels.programs import APPLY, ELEMENT, LOAD, ROW, SCALAR, Instruction, Program
from fastgrad.native.contracts.element_types import FLOAT32, FLOAT64, FLOATS, INT32

REGISTERS = 32
"""Of a thread for the values of its share."""
FEW = 2
"""Registers for an element up to which a thread does with as many as other kernels over rows."""
APART = 4
"""Elements of a share that lie anywhere."""
BETTER = {"amax": "maximum", "amin": "minimum"}
WORST = {"amax": -np.inf, "amin": np.inf}


def build(kernel: Any, target: Target, threads: int) -> Body:
    """The kernel of a program that reduces rows."""
    program: Program = kernel.program
    passes = Passes(program)
    codes = {place.dtype for _, _, place in operands_of(program) if place.level == ELEMENT} or {FLOAT32}
    widest = target.elements[max(codes, key=lambda code: target.elements[code].size)]
    width, words = ACCESS // widest.size, passes.words()
    most = most_of(widest)
    while most > width and most * words > REGISTERS:
        most //= 2
    scope = scope_of(kernel, target)
    scope |= {"whole": whole, "opaque": opaque, "barrier": barrier}
    scope |= _reducing(passes, target, threads)
    vectors = function_of("vectors(f, width)", _in_pieces(program, target), scope)

    def row(share: Share) -> Any:
        return _row(passes, share, target, scope)

    each = by_shares(widest, row, (_beside, _beside), vectors, _length_of, min(APART, most), most)
    run = by_teams(each, _rows_of, _length_of, _never, threads, most)
    resident = 768 if words <= FEW and FLOAT64 not in passes.dtype.values() else 512
    return Body(run, ("rows",), threads // WARP, threads, resident=resident)


def _rows_of(f):
    return f.rows


def _length_of(f):
    return f.n


def _never(f):
    return False


def _beside(f, row, k):
    return row + k


def _about(i: Instruction) -> tuple[str, int]:
    """By what a reduction reduces, and in which dtype: the sum of bools or integers is one of int64."""
    name, dtype, result = i.about
    return str(name), int(dtype if name in BETTER else result)


def _in_pieces(program: Program, target: Target) -> list[str]:
    """Whether rows lie in pieces of a width, for `by_shares`."""
    return [f"return ({' | '.join(['(f.n & (width - 1))', *unaligned(program, target, 'width')])}) == 0"]


def _reducing(passes: Passes, target: Target, threads: int) -> dict[str, Any]:
    """What the threads of a row put together what they have with, for each reduction and dtype."""
    found: dict[str, Any] = {}
    for i in passes.reductions:
        name, dtype = _about(i)
        element = target.elements[dtype]
        found[f"number_{dtype}"], found[f"zero_{dtype}"] = element.constant, element.constant(0)
        found[f"lost_{dtype}"] = (
            element.constant(0) if dtype in FLOATS else target.elements[INT32].constant(0)
        )
        if name in BETTER:
            better = getattr(element.math, BETTER[name])
            found[f"{name}_{dtype}"], found[f"worst_{name}_{dtype}"] = better, element.constant(WORST[name])
            found[f"fold_{name}_{dtype}"] = folding_one(target, better, dtype, threads)
        elif f"fold_{dtype}" not in found:
            found[f"fold_{dtype}"] = sums(target, dtype, threads)
            found[f"added_{dtype}"] = added if dtype in FLOATS else added_exactly
    return found


# --- a row -----------------------------------------------------------------------------------------------------


def _row(passes: Passes, share: Share, target: Target, common: dict[str, Any]) -> Any:
    """What is done with a row whose threads have such shares."""
    scope = dict(common)
    for code in {*passes.dtype.values(), *(place.dtype for _, _, place in operands_of(passes.program))}:
        element = target.elements[code]
        of = share_of(element, share.count // share.width, share.width, _beside)
        scope |= {f"read_{code}": of.read, f"write_{code}": of.write, f"total_{code}": of.total}
        scope[f"share_{code}"] = mapping(share, element.constant, 1)
        scope[f"blank_{code}"] = (element.constant(0),) * share.count
    for name, dtype in map(_about, passes.reductions):
        if name in BETTER:
            key = f"{name}_{dtype}"
            scope[f"best_{key}"] = combining_within(share, common[key], common[f"worst_{key}"])
    scope["starts"] = share.starts
    return function_of(
        "row(f, number, lane, lanes, how, there)", _Text(passes, share.count, scope).lines(), scope
    )


class _Text:
    """The text of a row; functions over shares go to a scope.

    Names: ``v3`` is a value for a row or for all, ``x3`` a share of one for each element; ``t3`` and ``l3`` a sum and
    what rounding has lost of it, or the best so far; ``at_o0`` where the row of an operand begins.
    """

    def __init__(self, passes: Passes, count: int, scope: dict[str, Any]) -> None:
        self.passes, self.count, self.scope = passes, count, scope
        self.program = passes.program

    def lines(self) -> Iterator[str]:
        """All that is done with a row."""
        passes, program = self.passes, self.program
        yield "n, r = f.n, number"
        yield from row_dimensions(program, "")
        yield from (f"at_{name} = {text}" for name, text in row_begins(program).items())
        yield from for_all(program, "")
        everywhere = [i for i in program.code if i.kind == APPLY and passes.level[i.value] == SCALAR]
        yield from computing(program, everywhere, "", "f.first")
        yield from self._behind(-1)
        yield f"step = lanes * {self.count}"
        yield "many = n > step"
        kept = {value for one in passes.passes for value in one.kept}
        yield from (f"x{value} = blank_{passes.dtype[value]}" for value in sorted(kept))
        for phase, one in enumerate(passes.passes):
            yield from self._loop(phase, one)
            yield from self._behind(phase)
        yield from self._stored()

    def _behind(self, phase: int) -> Iterator[str]:
        """What is known for a row behind a phase."""
        for i in self.passes.known_behind(phase):
            if i.kind == LOAD:
                dtype = self.passes.dtype[i.value]
                yield f"v{i.value} = load_{dtype}({address_of(self.program, i)}, at_i{i.about[0]})"
            else:
                yield from computing(self.program, [i], "", "f.first")

    def _stored(self) -> Iterator[str]:
        """Results of the row itself are written when all threads have read what a row has alone."""
        stores = [i for i in self.passes.stores if self._place(i).level == ROW]
        read = {place.result for place in self.program.ins}
        if not self.passes.reductions and any(i.about[0] in read for i in stores):
            yield "barrier()"
        if stores:
            yield "if there and lane == 0:"
        for i in stores:
            k = i.about[0]
            yield f"    store_{self._place(i).dtype}(f.outs[{k}], at_o{k}, v{i.args[0]})"

    def _place(self, i: Instruction) -> Any:
        return self.program.outs[int(i.about[0])]

    # --- a phase -----------------------------------------------------------------------------------------------

    def _loop(self, phase: int, one: Pass) -> Iterator[str]:
        if not one.reductions and not one.stores:
            return
        passes = self.passes
        for i in one.reductions:
            name, dtype = _about(i)
            first = f"worst_{name}_{dtype}" if name in BETTER else f"zero_{dtype}"
            yield f"t{i.value}, l{i.value} = {first}, lost_{dtype}"
        yield "first = np.int64(0)"
        yield "while first < n:"
        yield "    start = starts(first, lane, lanes, n)"
        yield from (f"    {self._read(value)}" for value in one.reads)
        if one.kept:
            again = passes.again(one)
            yield "    if many:"
            yield from (f"        {self._read(value)}" for value in again.reads)
            made = [value for value in one.kept if passes.made[value].kind == APPLY]
            yield from (f"        {line}" for line in self._over(f"again{phase}", again, made))
        yield from (f"    {line}" for line in self._over(f"over{phase}", one, passes.made_for(one)))
        yield from (f"    {self._add(i)}" for i in one.reductions)
        if one.stores:
            yield "    if there:"
        for i in one.stores:
            k, values = i.about[0], self._share(i.args[0])
            yield f"        write_{self._place(i).dtype}(f, f.outs[{k}], at_o{k}, start, {values})"
        yield "    first = opaque(first + step)"
        for i in one.reductions:
            yield from self._reduced(i)

    def _read(self, value: int) -> str:
        i = self.passes.made[value]
        address = f"{address_of(self.program, i)}, at_i{i.about[0]}"
        return f"x{value} = read_{self.passes.dtype[value]}(f, {address}, start)"

    def _share(self, value: int) -> str:
        """A share of a value."""
        if self.passes.level[value] == ELEMENT:
            return f"x{value}"
        return f"({f'v{value}, ' * self.count})"

    def _over(self, name: str, one: Pass, made: list[int]) -> Iterator[str]:
        """The call of a function that computes shares of some values; it is made, too."""
        if not made:
            return
        outer = [f"v{value}" for value in one.outer]
        names = [f"v{value}" for value in one.given]
        lines = [
            *computing(self.program, one.code, "", "nothing"),
            f"return ({''.join(f'v{value}, ' for value in made)})",
        ]
        function_of(f"{name}_of_one({', '.join(['nothing', *names, *outer])})", lines, self.scope)
        shares = [f"x{value}" for value in one.given]
        lines = []
        for j in range(self.count):
            given = ["nothing", *(f"{share}[{j}]" for share in shares), *outer]
            lines.append(f"y{j} = {name}_of_one({', '.join(given)})")
        tuples = (f"({''.join(f'y{j}[{k}], ' for j in range(self.count))})" for k in range(len(made)))
        lines.append(f"return ({''.join(f'{t}, ' for t in tuples)})")
        function_of(f"{name}({', '.join(['nothing', *shares, *outer])})", lines, self.scope)
        yield f"{''.join(f'x{value}, ' for value in made)} = {name}({', '.join(['f.first', *shares, *outer])})"

    # --- what is reduced ---------------------------------------------------------------------------------------

    def _add(self, i: Instruction) -> str:
        """A share goes to a reduction."""
        (name, dtype), total, lost, values = _about(i), f"t{i.value}", f"l{i.value}", self._share(i.args[0])
        if name in BETTER:
            return f"{total} = {name}_{dtype}({total}, best_{name}_{dtype}({values}, start))"
        values = values if dtype == i.about[1] else f"share_{dtype}({values})"
        return f"{total}, {lost} = added_{dtype}({total}, {lost}, total_{dtype}({values}, start))"

    def _reduced(self, i: Instruction) -> Iterator[str]:
        """What the threads of a row have becomes one value."""
        (name, dtype), total, lost = _about(i), f"t{i.value}", f"l{i.value}"
        if name in BETTER:
            yield f"v{i.value} = fold_{name}_{dtype}({total}, how)"
            return
        yield f"{total}, {lost} = fold_{dtype}({total}, {lost}, how)"
        found = f"whole({total}, {lost})" if dtype in FLOATS else total
        yield f"v{i.value} = {found} / number_{dtype}(n)" if name == "mean" else f"v{i.value} = {found}"
