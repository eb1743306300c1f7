"""Which names of PyTorch programs use that do not exist here, found by reading them."""

from __future__ import annotations

import ast
import builtins
import importlib
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fastgrad as fg
from fastgrad.as_torch.absent import is_absent
from fastgrad.as_torch.installing import install_as_torch
from fastgrad.as_torch.proxies import NAME, Proxy
from fastgrad.module_names import is_torch, pytorch_names
from fastgrad.ops.namespaces import Namespace

FOUND, MISSING, UNREADABLE = 0, 1, 2
OPS = f"{NAME}.ops"
_COMMON = frozenset(
    name
    for kind in (str, bytes, list, dict, set, int, float, deque, np.ndarray, Path, *vars(builtins).values())
    if isinstance(kind, type)
    for name in dir(kind)
)
"""Attributes of so many classes that reading one says nothing of tensors."""


class Missing(NamedTuple):
    """A name that a program uses and that does not exist here."""

    line: int
    name: str
    says: str


def check(paths: Iterable[Path]) -> int:
    """Print what `missing` finds in files, and in all Python files in folders.

    Returns
    -------
    int
        0 if nothing is missing, 1 if something is, 2 if a file cannot be read.
    """
    install_as_torch()
    result = FOUND
    for path in paths:
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            try:
                found = missing(file.read_text(encoding="utf-8"), str(file))
            except (OSError, SyntaxError, ValueError) as error:
                print(f"{file}: cannot be read: {error}")
                result = UNREADABLE
                continue
            for line, name, says in found:
                print(f"{file}:{line}: {name}: {says}")
            if found:
                result = max(result, MISSING)
    if result == FOUND:
        print("Nothing is missing: every name of PyTorch that is used by its name exists.")
    return result


def missing(text: str, file: str = "<string>") -> list[Missing]:
    """The names that a program uses and that do not exist here, by lines; each name once.

    Names are followed from imports: ``torch.nn.X``, ``F.x`` after ``import torch.nn.functional as F``, ``X`` after
    ``from torch.nn import X``. Of other objects, attributes are listed that PyTorch's tensors have and those of
    fastgrad have not, if hardly anything but a tensor has such a name.

    Parameters
    ----------
    text : str
        The program.
    file : str
        What messages call it.

    Raises
    ------
    SyntaxError
        If it is no program.
    """
    reader = _Reader()
    reader.visit(ast.parse(text, file))
    return sorted(reader.missing.values())


class _Reader(ast.NodeVisitor):
    """Walks through a program and looks for each name of PyTorch's."""

    def __init__(self) -> None:
        self.modules: dict[str, str] = {}  # what PyTorch's modules and other things are called in the program
        self.missing: dict[str, Missing] = {}
        self.tensor_names = {
            name
            for name in pytorch_names()["Tensor"] - _COMMON - set(dir(fg.nn.Module))
            if not hasattr(fg.Tensor, name)
        }

    def visit_Import(self, node: ast.Import) -> None:
        for name in node.names:
            if is_torch(name.name):
                self._look(name.name, node.lineno)
                self.modules[name.asname or NAME] = name.name if name.asname else NAME

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level or not is_torch(module):
            return
        for name in node.names:
            full = module if name.name == "*" else f"{module}.{name.name}"
            if self._look(full, node.lineno) and name.name != "*":
                self.modules[name.asname or name.name] = full

    def visit_Attribute(self, node: ast.Attribute) -> None:
        chain = list(_chain(node))
        if chain and chain[0] in self.modules:
            self._look(".".join((self.modules[chain[0]], *chain[1:])), node.lineno)
            return
        if node.attr in self.tensor_names and isinstance(node.ctx, ast.Load):
            says = f"PyTorch's tensors have {node.attr}, those of fastgrad do not have it yet"
            self._note(f"Tensor.{node.attr}", node.lineno, says)
        self.generic_visit(node)

    def _look(self, full: str, line: int) -> bool:
        """Whether a name exists; it is noted if not."""
        found: Any = importlib.import_module(NAME)
        seen = NAME
        for part in full.split(".")[1:]:
            if not isinstance(found, (Proxy, type, Namespace)):
                return True  # what objects have is not known before they are there
            if seen == OPS and not hasattr(found, part):
                return True  # nor are ops of the program's
            seen += f".{part}"
            try:
                found = getattr(found, part)
            except AttributeError as error:
                says = str(error).partition("; those that are")[0]
            else:
                if not is_absent(found):
                    continue
                says = found.says
            self._note(seen, line, says.rpartition(": ")[2])
            return False
        return True

    def _note(self, name: str, line: int, says: str) -> None:
        self.missing.setdefault(name, Missing(line, name, says))


def _chain(node: ast.expr) -> Iterator[str]:
    """The names of ``a.b.c``; nothing if it begins with something else than a name."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id
        yield from reversed(names)
