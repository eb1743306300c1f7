"""Where tensors of a file go."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fastgrad.functions.storage import Storage
from fastgrad.places import device

Placement = Callable[[Storage, str], Storage]
"""From a memory on the CPU and the name of the device where it was, the memory where it shall be."""


def placement_of(map_location: Any) -> Placement:
    """What `map_location` asks for; TypeError if it is of no kind that can."""
    if map_location is None:
        return _restored
    if isinstance(map_location, dict):
        return lambda storage, location: _restored(storage, str(map_location.get(location, location)))
    if isinstance(map_location, (str, device)):
        return lambda storage, location: _restored(storage, str(map_location))
    if callable(map_location):
        return functools.partial(_asked, map_location)
    raise TypeError(
        f"load(): expected map_location to be None, a device, its name, a dict or a callable, but got "
        f"{type(map_location).__name__}"
    )


def _asked(function: Callable[..., Any], storage: Storage, location: str) -> Storage:
    found = function(storage, location)
    if found is None:
        return _restored(storage, location)
    if type(found) is not Storage:
        raise TypeError(
            f"load(): map_location must return the storage that it got, or None, but returned {type(found).__name__}"
        )
    return found


def _restored(storage: Storage, location: str) -> Storage:
    if location == "cpu":
        return storage
    try:
        where = device(location)
        where.code  # noqa: B018 - raises if there is none
    except RuntimeError as error:
        raise RuntimeError(
            f"don't know how to restore data location of a storage (tagged with {location}): there is no such device "
            "here; map_location='cpu' loads it to the CPU"
        ) from error
    return Storage(storage.flat.to(device=where))
