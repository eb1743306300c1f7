"""Values with tensors in them: tuples, lists, dicts and dataclasses, within each other.

The *form* of a value has the same containers, with a number in the place of each tensor that requires grad and None in
the place of everything else. A container with no such tensor is None as a whole. A tensor that is in no container has a
number in any case.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fastgrad.native.build.loader import TensorBase


def is_container(value: Any) -> bool:
    """Whether tensors are looked for inside of a value."""
    return isinstance(value, (tuple, list, dict)) or (
        dataclasses.is_dataclass(value) and not isinstance(value, type)
    )


def children(value: Any) -> list[Any]:
    """What a container holds, in order."""
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (tuple, list)):
        return list(value)
    return [getattr(value, f.name) for f in dataclasses.fields(value)]


def tensors_in(value: Any, above: tuple[int, ...] = ()) -> Iterator[Any]:
    """The tensors of a value with containers; a container inside of itself is not entered a second time."""
    if isinstance(value, TensorBase):
        yield value
    elif is_container(value) and id(value) not in above:
        for inner in children(value):
            yield from tensors_in(inner, (*above, id(value)))


def rebuilt(value: Any, new: Sequence[Any]) -> Any:
    """A container like another one that holds something else."""
    if isinstance(value, tuple):
        return value._make(new) if hasattr(value, "_make") else type(value)(new)
    out = copy.copy(value)
    if isinstance(value, dict):
        for key, item in zip(value, new, strict=True):
            out[key] = item
    elif isinstance(value, list):
        out[:] = new
    else:
        for field, item in zip(dataclasses.fields(value), new, strict=True):
            object.__setattr__(out, field.name, item)  # a frozen one lets nobody else
    return out


def form_of(value: Any, tensors: list[Any], above: tuple[int, ...] = ()) -> Any:
    """The form of a value; appends the tensors that have a number to a list.

    A container inside of itself is not entered a second time.
    """
    if isinstance(value, TensorBase):
        if above and not value.requires_grad:  # type: ignore[attr-defined]
            return None
        tensors.append(value)
        return len(tensors) - 1
    if not is_container(value) or id(value) in above:
        return None
    forms = [form_of(item, tensors, (*above, id(value))) for item in children(value)]
    return None if all(form is None for form in forms) else rebuilt(value, forms)


def filled(form: Any, values: Sequence[Any], original: Any = None) -> Any:
    """A form with values in the places of its numbers; what has no number is taken from the original value."""
    if form is None:
        return original
    if isinstance(form, int):
        return values[form]
    originals = [None] * len(children(form)) if original is None else children(original)
    return rebuilt(
        form if original is None else original,
        [filled(f, values, o) for f, o in zip(children(form), originals, strict=True)],
    )


def picked(form: Any, value: Any, out: dict[int, Any], mismatch: Callable[[Any, Any], Exception]) -> None:
    """Put what stands in the places of a form's numbers under these numbers into a dict.

    None in the place of a container stands for None everywhere in it.

    Raises
    ------
    Exception
        What `mismatch` makes of the form and the value, if a container is not like that of the form.
    """
    if form is None:
        return
    if isinstance(form, int):
        out[form] = value
        return
    if value is None:
        inside: list[Any] = [None] * len(children(form))
    elif not _alike(form, value):
        raise mismatch(form, value)
    else:
        inside = [value.get(key) for key in form] if isinstance(form, dict) else children(value)
    for f, item in zip(children(form), inside, strict=True):
        picked(f, item, out, mismatch)


def _alike(form: Any, value: Any) -> bool:
    if isinstance(form, dict):
        needed = {key for key, f in form.items() if f is not None}
        return isinstance(value, dict) and needed <= value.keys() <= form.keys()
    if isinstance(form, (tuple, list)):
        return isinstance(value, (tuple, list)) and len(form) == len(value)
    return type(form) is type(value)
