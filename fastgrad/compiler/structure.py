"""Arguments and results as a structure and the tensors in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fastgrad.compiler.guards import SCALARS
from fastgrad.native.build.loader import TensorBase

HOLE = type("Hole", (), {"__slots__": ()})()
"""Stands in a structure where a tensor was."""


class Flat:
    """A value taken apart.

    Attributes
    ----------
    key : hashable
        All of it but its tensors; an object that is neither a container nor a number by its identity.
    tensors : list of Tensor
    objects : list
        What stands in the key by its identity.
    structure
        The value with holes in place of its tensors.
    """

    def __init__(self, value: Any) -> None:
        self.tensors: list[Any] = []
        self.objects: list[Any] = []
        self.key, self.structure = self._apart(value)

    @property
    def only_tensors(self) -> bool:
        """Whether the value is a tuple of tensors."""
        return type(self.structure) is tuple and all(part is HOLE for part in self.structure)

    def _apart(self, value: Any) -> tuple[Any, Any]:
        if isinstance(value, TensorBase):
            self.tensors.append(value)
            return HOLE, HOLE
        kind = type(value)
        if kind is tuple or kind is list or _is_named(kind):
            pairs = [self._apart(item) for item in value]
            return (kind, *(key for key, _ in pairs)), _made(kind, [item for _, item in pairs])
        if kind is dict:
            apart = {key: self._apart(item) for key, item in value.items()}
            keys = tuple((_scalar(name), key) for name, (key, _) in apart.items())
            return (dict, *keys), {name: item for name, (_, item) in apart.items()}
        if isinstance(value, SCALARS):
            return _scalar(value), value
        self.objects.append(value)
        return (object, id(value)), value


def _is_named(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_make")


def _made(kind: Any, items: list[Any]) -> Any:
    return kind._make(items) if _is_named(kind) else kind(items)


def _scalar(value: Any) -> Any:
    """A number or a text for a key, which tells 1 from 1.0 and 0.0 from -0.0; any other key of a dict as it is."""
    if isinstance(value, float):
        return float, value.hex()
    if isinstance(value, (slice, complex)):
        return type(value), repr(value)
    return type(value), value


def filled(structure: Any, tensors: Sequence[Any]) -> Any:
    """A structure with tensors in its holes."""
    if structure is HOLE:
        return tensors[0]
    return _filled(structure, iter(tensors))


def _filled(structure: Any, left: Iterator[Any]) -> Any:
    if structure is HOLE:
        return next(left)
    kind = type(structure)
    if kind is tuple or kind is list or _is_named(kind):
        return _made(kind, [_filled(item, left) for item in structure])
    if kind is dict:
        return {key: _filled(item, left) for key, item in structure.items()}
    return structure
