"""Names of users' ops: ``namespace::name``."""

from __future__ import annotations

import importlib.util
import keyword
import re
from typing import Any

RESERVED = frozenset(("prim", "prims", "aten", "at", "torch", "fastgrad"))
"""Namespaces that are no user's: PyTorch's ops, and fastgrad's."""


def need_namespace(caller: str, namespace: Any) -> str:
    """A namespace that users may have.

    Raises
    ------
    ValueError
        If it is reserved, no identifier, or a module of `fastgrad.ops`, whose attribute it would hide.
    """
    if not isinstance(namespace, str) or not re.fullmatch(r"[A-Za-z_]\w*", namespace, re.ASCII):
        raise ValueError(f"{caller}(): a namespace must be an identifier, not {namespace!r}")
    hidden = namespace.startswith("_") or importlib.util.find_spec(f"fastgrad.ops.{namespace}") is not None
    if namespace in RESERVED or keyword.iskeyword(namespace) or hidden:
        raise ValueError(
            f"{caller}(): {namespace!r} is a reserved namespace, please use another name: that of your package, for "
            "instance"
        )
    return namespace


def qualified(caller: str, qualname: Any) -> tuple[str, str]:
    """The two parts of ``namespace::name``.

    Raises
    ------
    TypeError
        If it is no str.
    ValueError
        If it has not these parts.
    """
    if not isinstance(qualname, str):
        raise TypeError(
            f"{caller}(): the name must be a str, 'namespace::name', not {type(qualname).__name__}"
        )
    parts = qualname.split("::")
    if len(parts) != 2:
        raise ValueError(
            f'Expected `qualname` to be of the form "namespace::name", but got {qualname}. The qualname passed to the '
            f"fastgrad.library APIs must consist of a namespace and a name, e.g. aten::sin"
        )
    namespace, name = parts
    need_namespace(caller, namespace)
    if "." in name:
        raise ValueError(
            f"The fastgrad.library APIs expect that `qualname` does not contain an overload name, but got {qualname}"
        )
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or keyword.iskeyword(name) or name.startswith("__"):
        raise ValueError(f"{caller}(): the name of an op must be an identifier, but got {qualname!r}")
    return namespace, name
