"""What the classes of methods derive from: nothing, at run time. The objects are `TensorBase`'s."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastgrad.native.build.loader import TensorBase

    class Methods(TensorBase):  # type: ignore[misc]
        """A tensor with all its methods."""

        def __getattr__(self, name: str) -> Any: ...
else:

    class Methods:
        """Methods of a tensor."""

        __slots__ = ()
