"""Arguments and results as a structure and the tensors in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fastgrad.compiler.guards import SCALARS
from fastgrad.native.build.loader import TensorBase
from fastgrad.nn.modules.pytree import children, rebuilt

HOLE = type("Hole", (), {"__slots__": (), "__repr__": lambda _: "tensor"})()
"""Stands in a structure where a tensor was."""


class GivenBack:
    """Stands in a result for a number that a call reads and gives back.

    Attributes
    ----------
    number : int
        How many values were read before it.
    value : int or float or bool
        What it was in the recorded call.
    """

    def __init__(self, number: int, value: Any) -> None:
        self.number, self.value = number, value


class Flat:
    """A value taken apart.

    Attributes
    ----------
    key : hashable
        All of it but its tensors; an object that is neither a container nor a number by its identity.
    tensors : list of Tensor or GivenBack
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
        if isinstance(value, (TensorBase, GivenBack)):
            self.tensors.append(value)
            return HOLE, HOLE
        if _is_entered(value):
            pairs = [self._apart(item) for item in children(value)]
            names = tuple(map(_scalar, value)) if isinstance(value, dict) else ()
            return (type(value), names, *(key for key, _ in pairs)), rebuilt(
                value, [item for _, item in pairs]
            )
        if isinstance(value, SCALARS):
            return _scalar(value), value
        self.objects.append(value)
        return (object, id(value)), value


_OURS = ("fastgrad", "torch")  # the latter while it answers for PyTorch


def foreign_class(tensors: Iterable[Any]) -> str:
    """The name of the class of a tensor that is none of the library's; empty if there is none.

    What functions make of such tensors is of their classes, or what their `__torch_function__` says.
    """
    names = {(str(kind.__module__).partition(".")[0], kind.__name__) for kind in set(map(type, tensors))}
    return next((name for package, name in names if package not in _OURS), "")


def _is_entered(value: Any) -> bool:
    """Whether a value is a container, and not of a class of somebody's own, which may be more than what it holds."""
    kind = type(value)
    return kind in (tuple, list, dict) or (issubclass(kind, tuple) and hasattr(kind, "_make"))


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
    if _is_entered(structure):
        return rebuilt(structure, [_filled(item, left) for item in children(structure)])
    return structure
