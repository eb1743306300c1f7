"""Names of users' ops, ``namespace::name``, and of their parameters."""

from __future__ import annotations

import importlib.util
import inspect
import keyword
import re
from types import FunctionType
from typing import Any

RESERVED = frozenset(("prim", "prims", "aten", "at", "torch", "fastgrad"))
"""Namespaces that are no user's: PyTorch's ops, and fastgrad's."""
TAKEN = frozenset(("g", "gs", "y", "y1", "y2", "sizes", "position", "before", "own"))
"""What rules of derivatives call something else than an operand."""


def need_namespace(caller: str, namespace: Any) -> str:
    """A namespace that users may have.

    Raises
    ------
    ValueError
        If it is reserved, no identifier, or a module of `fastgrad.ops`, whose attribute it would hide.
    """
    if not isinstance(namespace, str) or not re.fullmatch(r"[A-Za-z_]\w*", namespace, re.ASCII):
        raise ValueError(f"{caller}(): a namespace must be an identifier, not {namespace!r}")
    hidden = namespace.startswith("__") or importlib.util.find_spec(f"fastgrad.ops.{namespace}") is not None
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


def op_name(caller: str, function: FunctionType, name: Any) -> str:
    """The name of an op: that of its function, unless another one is given.

    Raises
    ------
    TypeError
        If there is none, or it is no str.
    ValueError
        If it is none that an op can have.
    """
    if name is None:
        if function.__name__ == "<lambda>":
            raise TypeError(
                f"{caller}(): a lambda has no name: pass name='...', or define the function by def"
            )
        return function.__name__
    if not isinstance(name, str):
        raise TypeError(f"{caller}(): name must be a str, not {type(name).__name__}")
    if "::" in name:
        qualified(caller, name)
    elif not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or keyword.iskeyword(name):
        raise ValueError(f"{caller}(): name must be an identifier or 'namespace::name', not {name!r}")
    return name


def plain_parameters(what: str, part: str, function: FunctionType) -> tuple[str, ...]:
    """The names of the parameters of a function that has plain ones, and returns a value as it is called."""
    of = inspect.signature(function).parameters.values()
    if any(p.kind is not p.POSITIONAL_OR_KEYWORD or p.default is not p.empty for p in of):
        raise TypeError(
            f"{what}: {part} must have plain parameters, without defaults, *, / or **, but is a function of "
            f"{inspect.signature(function)}"
        )
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise TypeError(f"{what}: {part} must return a number, but it is a generator or a coroutine")
    return tuple(p.name for p in of)


def node_name(name: str) -> str:
    """What the nodes of an op are called."""
    plain = name.rpartition("::")[2]
    return "".join(part[:1].upper() + part[1:] for part in plain.split("_")) + "Backward0"
