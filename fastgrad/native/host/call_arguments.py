"""Arguments of calls on tapes: values with tensors in tuples, lists and dicts, and what puts others in their places."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.records import MOST_ARGUMENTS, MOST_HOLES, TENSOR

_DTYPE, _DEVICE = (TENSOR.fields[name][0] for name in ("dtype", "device"))


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """A value with what is in its tuples, lists and dicts replaced."""
    kind = type(value)
    if kind is tuple or kind is list:
        return kind([mapped(function, item) for item in value])
    if kind is dict or kind is OrderedDict:
        return kind([(key, mapped(function, item)) for key, item in value.items()])
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return value._make([mapped(function, item) for item in value])
    return function(value)


def parts(value: Any) -> list[Any]:
    """What is in the tuples, lists and dicts of a value, in order."""
    found: list[Any] = []
    mapped(found.append, value)
    return found


def is_like(kept: Any, value: Any) -> bool:
    """Whether a tensor can stand where another one lay."""
    return (
        isinstance(value, TensorBase)
        and rt.sizes(value) == rt.sizes(kept)
        and rt.field(value, _DTYPE) == rt.field(kept, _DTYPE)
        and rt.field(value, _DEVICE) == rt.field(kept, _DEVICE)
    )


class Hole:
    """Stands for a tensor among the arguments of a call: the number of it."""

    def __init__(self, number: int) -> None:
        self.number = number


def builder(args: Any) -> Callable[[list[Any]], Any]:
    """What puts tensors in the holes of arguments."""
    scope: dict[str, Any] = {}

    def text(value: Any) -> str:
        kind = type(value)
        if kind is Hole:
            return f"s[{value.number}]"
        if kind is tuple:
            return f"({''.join(text(item) + ', ' for item in value)})"
        if kind is list:
            return f"[{', '.join(map(text, value))}]"
        if kind is dict:
            return f"{{{', '.join(f'{constant(key)}: {text(item)}' for key, item in value.items())}}}"
        if kind is OrderedDict:
            return f"{constant(kind)}([{', '.join(f'({constant(k)}, {text(v)})' for k, v in value.items())}])"
        if isinstance(value, tuple) and hasattr(value, "_make"):
            return f"{constant(kind)}._make([{', '.join(map(text, value))}])"
        return constant(value)

    def constant(value: Any) -> str:
        name = f"c{len(scope)}"
        scope[name] = value
        return name

    return eval(f"lambda s: {text(args)}", scope)  # type: ignore[no-any-return]


def quick(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    places: Sequence[tuple[Any, int]],
    rest: Callable[..., Any],
    always: bool = False,
) -> tuple[Any, ...] | None:
    """The plan by which compiled code makes a call in replays; None if it does not know how.

    Parameters
    ----------
    function : callable
    args : tuple
        What it gets, with a `Hole` for each tensor that lies in the memory of the tape.
    places : sequence of tuple
        For each hole how the tensor lies, of a leaf that and how its gradient does, and which kind of hole it is
        (`native.contracts.records`).
    rest : callable
        Called with what the function returned and its arguments, if it returned something or left hooks at a tensor.
    always : bool
        Call it in any case.
    """

    def item(value: Any, depth: int) -> Any:
        if isinstance(value, Hole):
            return value.number
        if type(value) is tuple and depth == 0:
            return tuple([item(v, 1) for v in value])
        if type(value) is int or isinstance(value, (tuple, list, dict)):
            raise LookupError
        return value

    if len(args) > MOST_ARGUMENTS or len(places) > MOST_HOLES:
        return None
    try:
        template = tuple([item(value, 0) for value in args])
    except LookupError:
        return None
    kinds = sum(kind << 3 * k for k, (_, kind) in enumerate(places))
    return function, template, tuple([where for where, _ in places]), kinds, rest, True if always else None
