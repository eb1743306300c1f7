"""Which modules a source imports."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
from typing import Any


def find_files_source_depends_on(src: str, package: str) -> list[tuple[str, str | None]]:
    """The imports of a source, found without running it.

    Parameters
    ----------
    src : str
        Python code.
    package : str
        The package that relative imports start from.

    Returns
    -------
    list of (str, str or None)
        Each once, in the order of the source: the module in full, and the name that is imported from it. That may be
        a module, too. Calls of ``__import__`` count if their arguments are constants.

    Raises
    ------
    SyntaxError
        If it is no Python code.
    ImportError
        If a relative import leads out of the top-level package.

    Examples
    --------
    >>> from fastgrad.package.find_file_dependencies import find_files_source_depends_on
    >>> find_files_source_depends_on("import os.path; from . import layers", "model")
    [('os.path', None), ('model', 'layers')]
    """
    visitor = _Imports(package)
    visitor.visit(ast.parse(src))
    return list(visitor.found)


class _Imports(ast.NodeVisitor):
    def __init__(self, package: str) -> None:
        self.package = package
        self.found: dict[tuple[str, str | None], None] = {}

    def absolute(self, name: str, level: int) -> str:
        return importlib.util.resolve_name("." * level + name, self.package)

    def add(self, module: str, name: str | None = None) -> None:
        self.found[module, None if name == "*" else name] = None

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.add(alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = self.absolute(node.module or "", node.level or 0)
        for alias in node.names:
            self.add(module, alias.name)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id == "__import__":
            with contextlib.suppress(ValueError, TypeError, ImportError):  # not constant, or no import at all
                self.call(**_arguments(node))
        self.generic_visit(node)

    def call(self, name: str, fromlist: Any = (), level: int = 0) -> None:
        if not isinstance(name, str) or not isinstance(level, int):
            raise TypeError
        module = self.absolute(name, level)
        if fromlist:
            for entry in fromlist:
                self.add(module, entry)
            return
        self.add(module)
        outer = module.rpartition(".")[0]
        if outer:  # without a list the call returns the outermost package
            self.add(outer)


def _arguments(node: ast.Call) -> dict[str, Any]:
    """The arguments of a call of ``__import__`` that say what is imported; ValueError if one is no constant."""
    given = dict(zip(("name", "globals", "locals", "fromlist", "level"), node.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    return {key: ast.literal_eval(given[key]) for key in ("name", "fromlist", "level") if key in given}
