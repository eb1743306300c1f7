"""Devices as PyTorch names them."""

from __future__ import annotations

from typing import Any, Self

from fastgrad.functions.arguments import as_index
from fastgrad.native.host import devices

_set = object.__setattr__
_NAMED = frozenset(("cuda",))
"""Devices that may be named where there is none."""


class device:  # noqa: N801 - PyTorch's name
    """A place where tensors live. Its attributes do not change.

    Parameters
    ----------
    type : str or device
        The kind of device, with an index behind a colon or without one.
    index : int, optional
        Which of its kind.

    Raises
    ------
    RuntimeError
        If there is no such device, or the index stands twice.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.device("cpu:1")
    device(type='cpu', index=1)
    >>> fg.device("cpu", 1) == fg.device("cpu:1")
    True
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __new__(cls, type: Any, index: int | None = None) -> Self:  # noqa: D102 - the class says it
        if isinstance(type, device):
            type, index = type.type, type.index
        if not isinstance(type, str):
            raise TypeError(f"device(): argument 'type' must be str, not {type.__class__.__name__}")
        name, colon, number = type.partition(":")
        if colon and not (number.isdecimal() and number.isascii() and str(int(number)) == number):
            raise RuntimeError(f"Invalid device string: '{type}'")
        if colon and index is not None:
            raise RuntimeError(
                f"type (string) must not include an index because index was passed explicitly: {type}"
            )
        if index is not None and as_index("device", "index", index) < 0:
            raise RuntimeError("Device index must not be negative")
        if name not in devices.NAMES and name not in _NAMED:
            known = ", ".join(sorted({*devices.NAMES, *_NAMED}))
            raise RuntimeError(f"Expected one of {known} device type at start of device string: {name}")
        self = object.__new__(cls)
        _set(self, "type", name)
        _set(self, "index", int(number) if number else index)
        return self

    def __init_subclass__(cls) -> None:
        raise TypeError("type 'fastgrad.device' is not an acceptable base type")

    def __setattr__(self, name: str, value: Any) -> None:
        known = name in self.__slots__
        says = f"attribute '{name}' of 'device' objects is not writable"
        raise AttributeError(says if known else f"'device' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        setattr(self, name, None)

    @property
    def code(self) -> int:
        """The device's column of the kernel table; a GPU without an index is the current one.

        Raises
        ------
        RuntimeError
            If there is no such device on this machine.
        """
        return devices.number_of(self.type, self.index)

    def __repr__(self) -> str:
        return f"device(type='{self.type}'" + (f", index={self.index})" if self.index is not None else ")")

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> Any:
        return (device, (self.type, self.index))


_plain: dict[str, device] = {}  # devices without an index


def as_device(where: device | str) -> device:
    """The device that a program names; the same object for the same name without an index."""
    if isinstance(where, device):
        return where
    found = _plain.get(where) if isinstance(where, str) else None
    if found is None:
        found = device(where)
        if found.index is None:
            _plain[where] = found
    return found
