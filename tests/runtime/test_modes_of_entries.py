"""Entries that look at the modes of a thread begin in those of their own, however deep they look."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import fastgrad
from fastgrad.native.contracts.entry_table import ENTRIES

NATIVE = Path(fastgrad.__file__).parent / "native"
ENTERS = {"enter", "is_watched", "get_mode"}  # of `base.modes`
OF_THREADS = {"mode", "settings"}  # fields of the runtime's record

Name = tuple[str, str]
"""A module below `native` and what stands in it."""


def read() -> tuple[dict[Name, ast.FunctionDef], dict[Name, Name], dict[Name, str]]:
    """The functions of all modules, where names that they import come from, and which modules they know."""
    functions: dict[Name, ast.FunctionDef] = {}
    imported: dict[Name, Name] = {}
    modules: dict[Name, str] = {}
    for path in NATIVE.rglob("*.py"):
        here = ".".join(path.relative_to(NATIVE).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef):
                functions.setdefault((here, node.name), node)
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fastgrad.native"):
                origin = str(node.module).removeprefix("fastgrad.native").lstrip(".")
                for name in node.names:
                    imported[here, name.asname or name.name] = origin, name.name
                    modules[here, name.asname or name.name] = f"{origin}.{name.name}".lstrip(".")
    return functions, imported, modules


FUNCTIONS, IMPORTED, MODULES = read()


def called(module: str, function: ast.FunctionDef) -> Iterator[Name]:
    for node in ast.walk(function):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name):
            yield IMPORTED.get((module, node.func.id), (module, node.func.id))
        elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            yield MODULES.get((module, node.func.value.id), ""), node.func.attr


def looks(function: ast.FunctionDef) -> bool:
    """Whether it reads or writes what belongs to a thread."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in OF_THREADS
        and ast.unparse(node.value) in ("runtime()", "rt")
        for node in ast.walk(function)
    )


def path_to_a_look(name: Name, seen: set[Name]) -> list[str]:
    """Through which functions one comes to such a look without having entered; none if there is no way."""
    if name in seen or name not in FUNCTIONS:
        return []
    seen.add(name)
    module, function = name[0], FUNCTIONS[name]
    names = set(called(module, function))
    if any(what in ENTERS for _, what in names):
        return []
    if looks(function):
        return [name[1]]
    for other in names:
        if rest := path_to_a_look(other, seen):
            return [name[1], *rest]
    return []


def test_entries_begin_in_the_modes_of_their_thread():
    late = {
        entry.name: " > ".join(way)
        for entry in ENTRIES
        if (way := path_to_a_look((*entry.place.split(":"),), set()))
    }
    assert not late, "these would see the modes of whatever thread was here before: let them call enter()"


def test_a_look_is_found():
    assert looks(FUNCTIONS["tensors.tensors", "blank_tensor"])
    assert path_to_a_look(("tensors.tensors", "new_tensor"), set()) == ["new_tensor", "blank_tensor"]
