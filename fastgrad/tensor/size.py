"""The sizes of tensors."""

from __future__ import annotations

from typing import Any

from fastgrad import module_names


class Size(tuple):  # type: ignore[type-arg]
    """The sizes of a tensor."""

    __slots__ = ()
    __module__ = "fastgrad.tensor"  # where pickles look for it

    def numel(self) -> int:
        """The number of elements of a tensor of these sizes."""
        n = 1
        for s in self:
            n *= s
        return n

    def __repr__(self) -> str:
        return f"{module_names.shown}.Size({list(self)})"

    def __getitem__(self, key: Any) -> Any:
        out = tuple.__getitem__(self, key)
        return Size(out) if isinstance(key, slice) else out

    def __add__(self, other: Any) -> Size:
        return Size(tuple.__add__(self, tuple(other)))
