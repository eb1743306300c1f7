"""Subclasses of `Tensor` that programs define: see Note [Overrides] in `fastgrad.overrides`."""

from __future__ import annotations

import importlib
from typing import Any

from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import apply
from fastgrad.tensor.history import History
from fastgrad.tensor.methods import Methods

_LIBRARY = "fastgrad"
_ALIAS = BY_NAME["alias"].id


def disabled_torch_function(
    func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
) -> Any:
    """The ``__torch_function__`` of classes that are not to be asked."""
    return func(*args, **(kwargs or {}))


def _overrides() -> Any:
    """The module that asks; it is imported when a program defines the first subclass."""
    return importlib.import_module(f"{_LIBRARY}.overrides")


class Subclasses(Methods):
    """How results of ops on tensors of a subclass become tensors of it."""

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__.partition(".")[0] != _LIBRARY:
            _overrides().prepare(cls)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call a function and give its results this class; what subclasses override."""
        return _overrides().by_default(cls, func, types, args, kwargs)

    def as_subclass(self, cls: type) -> Any:
        """A tensor of a subclass over the same memory and with the same history.

        Raises
        ------
        TypeError
            If `cls` is no subclass of `Tensor`.
        """
        if not isinstance(cls, type) or not issubclass(cls, TensorBase):
            raise TypeError(
                f"as_subclass(): argument 'cls' must be a class that inherits from Tensor, but got {cls!r}"
            )
        return rt.adopt(cls, apply(_ALIAS, 1, 0, self))

    @staticmethod
    def _make_subclass(cls: type, data: Any, require_grad: bool = False) -> Any:
        """A tensor of a subclass over the memory of another tensor, without its history."""
        out = Subclasses.as_subclass(rt.detach(data), cls)
        return History.requires_grad_(out) if require_grad else out  # without asking the class
