"""Each variable assigned once: Numba's pass, in time that grows with the function and not with its square.

Numba's own walks over the whole function twice for each variable that has several assignments. Loops that are written
out, as those of kernels are, have hundreds of such variables, and spend a tenth of their compiling there. Here one walk
finds where each variable is assigned and read. The result is the same, down to the names: see Choi et al. in "Static
Single Assignment-based Compiler Design", chapters 3 to 5.

Numba and numba-cuda have a representation each, which differ in nothing but the modules of their classes.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple


class _Place(NamedTuple):
    """A statement: the label of its block, and its number in there."""

    label: int
    number: int


class _Numba:
    """Numba, or numba-cuda: what a function belongs to."""

    def __init__(self, function: Any) -> None:
        home = type(function).__module__
        package = home.rpartition(".")[0]
        self.ir = ir = sys.modules[home]
        self.ir_utils, self.analysis = (sys.modules[f"{package}.{name}"] for name in ("ir_utils", "analysis"))
        # numba-cuda takes Numba's for its own.
        self.assignments = getattr(ir, "assign_types", ir.Assign)
        self.variables = getattr(ir, "var_types", ir.Var)
        self.instructions = getattr(ir, "inst_types", ir.Inst)

    def read(self, statement: Any) -> Any:
        """The variables that a statement reads."""
        if not isinstance(statement, self.assignments):
            return statement.list_vars()
        value = statement.value
        if isinstance(value, self.variables):
            return (value,)
        return value.list_vars() if isinstance(value, self.instructions) else ()

    def replace(self, statement: Any, name: str, target: Any) -> None:
        """Let a statement read another variable than that of a name."""
        if not isinstance(statement, self.assignments):
            self.ir_utils.replace_vars_stmt(statement, {name: target})
        elif isinstance(statement.value, self.variables):
            statement.value = target
        else:
            self.ir_utils.replace_vars_inner(statement.value, {name: target})


def quick(compiler_pass: Any, register: Any) -> Any:
    """A pass in place of Numba's `ReconstructSSA`; `register` makes known what is one."""

    class SingleAssignment(compiler_pass):  # type: ignore[misc]
        _name = "single_assignment"

        def run_pass(self, state: Any) -> bool:
            numba = _Numba(state.func_ir)
            assign_once(state.func_ir.blocks, numba)
            self._patch_locals(state)
            state.func_ir._definitions = numba.ir_utils.build_definitions(state.func_ir.blocks)
            return True  # liveness is found out when it is asked for, before code is made

    return register(mutates_CFG=True, analysis_only=False)(SingleAssignment)


def assign_once(blocks: dict[int, Any], numba: _Numba) -> None:
    """Rewrite a function, given by its blocks, such that no variable is assigned twice."""
    graph = numba.analysis.compute_cfg_from_blocks(blocks)
    assigned, read = _occurrences(blocks, numba)
    joins: dict[int, list[Any]] = defaultdict(list)
    frontiers = _iterated_frontiers(graph)
    for name in _assigned_often(assigned, read, graph):
        one = _Variable(
            name, blocks, graph, numba, set().union(*(frontiers[p.label] for p in assigned[name]))
        )
        one.rename(assigned[name])
        one.redirect(read.get(name, ()))
        for label, join in one.joins.items():
            joins[label].append(join)
    for label, found in joins.items():
        blocks[label].body[:0] = reversed(found)


def _occurrences(
    blocks: dict[int, Any], numba: _Numba
) -> tuple[dict[str, list[_Place]], dict[str, list[_Place]]]:
    """Where each variable is assigned, and where it is read."""
    assigned: dict[str, list[_Place]] = defaultdict(list)
    read: dict[str, list[_Place]] = defaultdict(list)
    for label, block in blocks.items():
        for number, statement in enumerate(block.body):
            place = _Place(label, number)
            if isinstance(statement, numba.assignments):
                assigned[statement.target.name].append(place)
            for name in dict.fromkeys(variable.name for variable in numba.read(statement)):
                read[name].append(place)
    return assigned, read


def _assigned_often(
    assigned: dict[str, list[_Place]], read: dict[str, list[_Place]], graph: Any
) -> Iterator[str]:
    """Variables with several assignments, and those that may be read without any: in Numba's order."""
    yield from [name for name, places in assigned.items() if len(places) > 1]
    dominators = graph.dominators()
    for name, places in read.items():
        if len(assigned.get(name, ())) < 2:
            at = {place.label for place in assigned.get(name, ())}
            if any(at.isdisjoint(dominators[place.label]) for place in places):
                yield name


def _iterated_frontiers(graph: Any) -> dict[int, set[int]]:
    """For each block, the blocks that have to join what it assigns: its dominance frontier, theirs, and so on."""
    found = {label: set(frontier) for label, frontier in graph.dominance_frontier().items()}
    grows = True
    while grows:
        grows = False
        for label, frontier in found.items():
            wider = frontier.union(*(found[other] for other in frontier))
            if len(wider) > len(frontier):
                found[label], grows = wider, True
    return found


class _Variable:
    """A variable that gets a new name with each assignment."""

    def __init__(
        self, name: str, blocks: dict[int, Any], graph: Any, numba: _Numba, joining: set[int]
    ) -> None:
        self.name, self.blocks, self.graph, self.numba = name, blocks, graph, numba
        self.joining = joining  # blocks that are reached by several assignments
        self.joins: dict[int, Any] = {}  # of each such block, as far as it is read: what Numba calls phi
        # Of each block: where something is assigned, and the new name.
        self.targets: dict[int, list[tuple[int, Any]]] = defaultdict(list)
        self.scope = next(iter(blocks.values())).scope

    def rename(self, places: list[_Place]) -> None:
        """Give each assignment a name of its own; the first keeps its own."""
        for k, (label, number) in enumerate(places):
            body = self.blocks[label].body
            old = body[number]
            target = self.scope.redefine(self.name, loc=old.loc) if k else old.target
            body[number] = self.numba.ir.Assign(target=target, value=old.value, loc=old.loc)
            self.targets[label].append((number, target))

    def redirect(self, places: Any) -> None:
        """Let each statement that reads it read what was assigned last."""
        undefined = self.numba.ir.UNDEFINED
        for label, number in places:
            target = self._before(label, number)
            if target is undefined or target.name == self.name:
                continue
            self.numba.replace(self.blocks[label].body[number], self.name, target)

    def _before(self, label: int, number: int) -> Any:
        """What stands for the variable before a statement."""
        for at, target in reversed(self.targets[label]):
            if at < number:
                return target
        return self._on_entry(label, self.blocks[label].loc)

    def _on_entry(self, label: int, loc: Any) -> Any:
        """What stands for it where a block begins; `loc` is where it is read."""
        while label not in self.joining:
            before = self.graph.immediate_dominators()[label]
            if before == label:
                return self.numba.ir.UNDEFINED
            label = before
            if self.targets[label]:
                return self.targets[label][-1][1]
        return self._joined(label, loc)

    def _joined(self, label: int, loc: Any) -> Any:
        """What joins all that reach a block."""
        ir = self.numba.ir
        target = self.scope.redefine(self.name, loc=loc)
        join = self.joins[label] = ir.Assign(target=target, value=ir.Expr.phi(loc=loc), loc=loc)
        self.targets[label].insert(0, (-1, target))
        for previous, _ in self.graph.predecessors(label):
            targets = self.targets[previous]
            join.value.incoming_values.append(targets[-1][1] if targets else self._on_entry(previous, loc))
            join.value.incoming_blocks.append(previous)
        return target
