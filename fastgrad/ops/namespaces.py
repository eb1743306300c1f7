"""Users' ops by name, as programs find them: ``fastgrad.ops.<namespace>.<name>``; and those of ``aten``."""

from __future__ import annotations

from typing import Any

NAMESPACES: dict[str, Namespace] = {}
"""Those that have had an op."""

LATER = {"aten": "fastgrad.nn.functional.native"}
"""Namespaces whose ops are registered by a module that is imported when a program first asks for one."""

refused: list[str] = []
"""Libraries of compiled ops that programs asked for and that could not be loaded."""

_waiting: dict[str, Any] = {}
"""What makes results without computing, for ops that may have been in such a library."""


class Namespace:
    """The ops of a namespace as attributes.

    Parameters
    ----------
    name : str
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._ops: dict[str, Any] = {}

    @property
    def name(self) -> str:
        """What it is called."""
        return self._name

    def __getattr__(self, name: str) -> Any:
        ops = self.__dict__.get("_ops", {})
        if name not in ops:
            raise AttributeError(
                f"'_OpNamespace' '{self.__dict__.get('_name')}' object has no attribute '{name}': no op of this name "
                f"is defined; those that are: {', '.join(sorted(ops)) or 'none'}"
            )
        return ops[name]

    def __delattr__(self, name: str) -> None:
        getattr(self, name)
        remove(f"{self._name}::{name}", self._ops[name])

    def __dir__(self) -> list[str]:
        return sorted(self._ops)

    def __repr__(self) -> str:
        return f"<namespace {self._name} of ops: {', '.join(sorted(self._ops)) or 'none'}>"


def table_of(namespace: str) -> dict[str, Any]:
    """The ops of a namespace that exists, by name."""
    return NAMESPACES[namespace]._ops


def find(qualname: str) -> Any:
    """The op ``namespace::name``, or None."""
    namespace, _, name = qualname.partition("::")
    found = NAMESPACES.get(namespace)
    return found._ops.get(name) if found is not None else None


def register(qualname: str, op: Any) -> None:
    """Let programs find an op, in place of one that had the name."""
    namespace, _, name = qualname.partition("::")
    NAMESPACES.setdefault(namespace, Namespace(namespace))._ops[name] = op
    if qualname in _waiting:
        op.register_fake(_waiting.pop(qualname))


def fake_waits(qualname: str, function: Any) -> bool:
    """Keep a function for ``register_fake`` until its op is defined, which a library that was refused may have had.

    Packages register such functions for ops of their library while they are imported, loaded or not.
    """
    if refused:
        _waiting[qualname] = function
    return bool(refused)


def remove(qualname: str, op: Any) -> None:
    """Forget an op, if the name still stands for it."""
    namespace, _, name = qualname.partition("::")
    found = NAMESPACES.get(namespace)
    if found is not None and found._ops.get(name) is op:
        del found._ops[name]
        if not found._ops:
            del NAMESPACES[namespace]
