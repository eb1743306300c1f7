"""A case, and the program that it stands for."""

from __future__ import annotations

import ast
import builtins
import functools
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

_PRELUDE = (Path(__file__).parent / "prelude.py").read_text(encoding="utf-8")
_TREE = ast.parse(_PRELUDE)
FILE = "<case>"  # where exceptions say that a statement stands


@dataclass(frozen=True)
class Case:
    """A list of statements with the family and the seed that it was drawn from."""

    family: str
    seed: int
    steps: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.family}:{self.seed}"


def _names_bound(node: ast.stmt) -> list[str]:
    match node:
        case ast.Import(names) | ast.ImportFrom(names=names):
            return [alias.asname or alias.name for alias in names]
        case ast.FunctionDef(name) | ast.ClassDef(name):
            return [name]
        case ast.Assign(targets=[ast.Name(name)]):
            return [name]
    return []


_DEFINITIONS = {name: node for node in _TREE.body for name in _names_bound(node) if not name.startswith("_")}
_ORDER = {id(node): k for k, node in enumerate(_TREE.body)}


def _names_used(tree: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}


@functools.cache
def _needs(name: str) -> frozenset[str]:
    """The names of the prelude that a definition of the prelude uses."""
    return frozenset(_names_used(_DEFINITIONS[name]) & _DEFINITIONS.keys()) - {name}


@functools.lru_cache(256)
def _parsed(step: str) -> ast.Module | None:
    try:
        return ast.parse(step, FILE)
    except SyntaxError:
        return None


def valid(step: str) -> bool:
    """Whether a text is Python: shrinking may cut it in two."""
    return _parsed(step) is not None


def needed(steps: Iterable[str]) -> list[str]:
    """The names of the prelude that statements need, in the order of their definition."""
    todo = {name for step in steps for name in _names_used(_parsed(step)) & _DEFINITIONS.keys()}
    found: set[str] = set()
    while todo:
        name = todo.pop()
        found.add(name)
        todo |= _needs(name) - found
    return sorted(found, key=lambda n: (_ORDER[id(_DEFINITIONS[n])], n))


def _definition(name: str) -> str:
    node = _DEFINITIONS[name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return ast.unparse(node)
    return ast.get_source_segment(_PRELUDE, node)


@functools.lru_cache(256)
def compiled(step: str) -> CodeType:
    return compile(step, FILE, "exec")


@functools.cache
def _compiled_definition(name: str) -> CodeType:
    return compile(_definition(name), "<prelude>", "exec")


def namespace(steps: Sequence[str]) -> dict[str, object]:
    """Fresh globals for a case, with what its statements need."""
    names: dict[str, object] = {"__builtins__": builtins, "__name__": "case"}
    for name in [*needed(steps), "cleanup"]:
        exec(_compiled_definition(name), names)
    return names


def program(steps: Sequence[str]) -> str:
    """A program that can be run alone and does what a case does."""
    definitions = list(dict.fromkeys(_definition(name) for name in needed([*steps, "contextlib, fg"])))
    imports = [d for d in definitions if d.startswith(("import", "from"))]
    others = [d for d in definitions if d not in imports]
    lines = [*imports, "", "attempt = contextlib.suppress(BaseException)", *others, ""]
    for k, step in enumerate(steps):
        lines += [step] if k == len(steps) - 1 else _attempt(step)
    return "\n".join(lines) + "\n"


def _attempt(step: str) -> list[str]:
    """A statement whose exception changes nothing for those after it."""
    tree = _parsed(step).body
    if all(isinstance(node, (ast.FunctionDef, ast.ClassDef)) for node in tree):
        return [step]
    return ["with attempt:", textwrap.indent(step, "    ")]
