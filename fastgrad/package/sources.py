"""Sources of modules that are to be packaged."""

from __future__ import annotations

import linecache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType
from typing import Any

from fastgrad.package.errors import PackagingErrorReason


def source_of(module: ModuleType) -> str | None:
    """The source of a module; None if there is none."""
    spec: Any = module.__spec__
    get_source = getattr(getattr(spec, "loader", None), "get_source", None)
    if get_source is not None:
        try:
            found = get_source(spec.name)
        except (ImportError, OSError):
            found = None
        if isinstance(found, str):
            return found
    file = getattr(module, "__file__", None)
    if isinstance(file, str) and file.endswith(".py"):
        return "".join(linecache.getlines(file, vars(module))) or None
    return None


def why_missing(module: ModuleType) -> tuple[PackagingErrorReason, str | None]:
    """Why a module has no source, and what more there is to say."""
    file = getattr(module, "__file__", None)
    if file is None:
        return PackagingErrorReason.NO_DUNDER_FILE, None
    if file.endswith(tuple(EXTENSION_SUFFIXES)):
        return PackagingErrorReason.IS_EXTENSION_MODULE, None
    return PackagingErrorReason.SOURCE_FILE_NOT_FOUND, f"filename: {file}"


def sources_within(name: str, directory: Path) -> list[tuple[str, Path, bool]]:
    """The modules of a directory: their names, files, and whether they are packages."""
    found = []
    for file in sorted(directory.rglob("*.py")):
        *outer, last = file.relative_to(directory).parts
        is_package = last == "__init__.py"
        inside = outer if is_package else [*outer, last.removesuffix(".py")]
        found.append((".".join([name, *inside]), file, is_package))
    return found
