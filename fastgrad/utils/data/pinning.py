"""Batches in memory of the host's that is locked in its place."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

from fastgrad.functions.arguments import is_tensor


def pinned(data: Any) -> Any:
    """A batch with its tensors pinned: also those in dicts, lists and tuples, and what has a method ``pin_memory``.

    What cannot be built anew comes as a dict or a list.
    """
    if is_tensor(data) or hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Mapping):
        made = {key: pinned(value) for key, value in data.items()}
        return _like(data, made, MutableMapping, lambda new: new.update(made))
    if isinstance(data, tuple):
        parts = [pinned(part) for part in data]
        return type(data)(*parts) if hasattr(data, "_fields") else type(data)(parts)
    if isinstance(data, Sequence):
        items = [pinned(item) for item in data]
        return _like(data, items, MutableSequence, lambda new: new.__setitem__(slice(None), items))
    return data


def _like(data: Any, made: Any, changeable: type, fill: Any) -> Any:
    """What was made as a container of the same class, with its other attributes; as it is where that takes none."""
    try:
        if not isinstance(data, changeable):
            return type(data)(made)
        new = copy.copy(data)
        fill(new)
        return new
    except TypeError:
        return made
