"""Smaller programs that fail in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.autograd.random_programs.program import Program, Register, Statement, Sweep


def simpler(statement: Statement) -> Iterator[Statement]:
    """The statement with a little less in it."""
    match statement:
        case Register(hook):
            for k in range(len(hook.steps)):
                yield Register(hook._replace(steps=hook.steps[:k] + hook.steps[k + 1 :]))
            if hook.result != "None":
                yield Register(hook._replace(result="None"))
            if len(hook.targets) > 1:
                for k in range(len(hook.targets)):
                    yield Register(hook._replace(targets=hook.targets[:k] + hook.targets[k + 1 :]))
        case Sweep():
            if len(statement.roots) > 1:
                for k in range(len(statement.roots)):
                    yield statement._replace(roots=statement.roots[:k] + statement.roots[k + 1 :])
            if len(statement.inputs) > 1:
                for k in range(len(statement.inputs)):
                    inputs = statement.inputs[:k] + statement.inputs[k + 1 :]
                    yield statement._replace(inputs=inputs, outs=statement.outs[:k] + statement.outs[k + 1 :])
            if statement.inputs and not statement.grad:
                yield statement._replace(inputs=())
            if statement.create:
                yield statement._replace(create=False)
            if statement.materialize:
                yield statement._replace(materialize=False)
            if statement.within:
                yield statement._replace(within="")


def shrink(program: Program, fails: Callable[[Program], bool]) -> Program:
    """Leave out statements and parts of them, as long as the program fails."""
    statements = list(program.statements)
    while True:
        before = list(statements)
        size = max(len(statements) // 2, 1)
        while True:
            k = len(statements) - size
            while k > -size:
                rest = statements[: max(k, 0)] + statements[max(k, 0) + size :]
                if len(rest) < len(statements) and fails(Program(tuple(rest))):
                    statements = rest
                k -= size
            if size == 1:
                break
            size //= 2
        for k in range(len(statements)):
            for smaller in simpler(statements[k]):
                trial = [*statements[:k], smaller, *statements[k + 1 :]]
                if fails(Program(tuple(trial))):
                    statements = trial
                    break
        if statements == before:
            return Program(tuple(statements))
