"""Libraries of ops that are compiled for PyTorch, which fastgrad cannot load."""

from __future__ import annotations

import os
from typing import NoReturn

from fastgrad.ops import namespaces

__all__ = ["load_library"]


def load_library(path: str | os.PathLike[str]) -> NoReturn:
    """Refuse, as PyTorch refuses a library that does not fit it: packages then do without it, or say what they need.

    Raises
    ------
    OSError
        Always.
    """
    path = os.fspath(path)
    namespaces.refused.append(path)
    raise OSError(
        f"Could not load this library: {path}: its ops are compiled for PyTorch, and fastgrad cannot run them"
    )
