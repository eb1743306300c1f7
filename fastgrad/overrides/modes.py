"""Contexts in which functions ask somebody else, or nobody."""

from __future__ import annotations

from typing import Any

from fastgrad.overrides.asking import state


def _prepared() -> Any:
    """The methods of `Tensor` that ask; functions ask from now on."""
    from fastgrad.overrides.functions import (
        install,  # which stands on the methods, and these on the contexts here
    )
    from fastgrad.overrides.methods import METHODS_OF_TENSOR

    install()
    return METHODS_OF_TENSOR


class TorchFunctionMode:
    """A context in which each call of a function of the library is given to `__torch_function__` of the mode.

    While that runs, the mode is off; with several modes the innermost one is asked, and its own calls ask the next.

    Examples
    --------
    >>> import fastgrad as fg
    >>> class Count(fg.overrides.TorchFunctionMode):
    ...     names = []
    ...
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         self.names.append(func.__name__)
    ...         return func(*args, **(kwargs or {}))
    >>> with Count() as mode:
    ...     y = fg.ones(2) + 1
    >>> mode.names
    ['ones', 'add']
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """What a call comes to; NotImplemented asks the classes of the arguments."""
        raise NotImplementedError(f"{type(self).__name__}.__torch_function__ is not defined")

    def __enter__(self) -> Any:
        _prepared().take()
        state.modes.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        if not state.modes:
            raise RuntimeError(
                "trying to pop from empty mode stack: __exit__ was called without an __enter__"
            )
        state.modes.pop()
        _prepared().leave()


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the function."""
        return func(*args, **(kwargs or {}))


class DisableTorchFunctionSubclass:
    """A context in which classes are not asked; modes are.

    Examples
    --------
    >>> import fastgrad as fg
    >>> class Marked(fg.Tensor):
    ...     pass
    >>> x = Marked([1.0])
    >>> with fg.overrides.DisableTorchFunctionSubclass():
    ...     type(x + 1).__name__
    'Tensor'
    """

    def __enter__(self) -> None:
        state.without_classes += 1

    def __exit__(self, *_: object) -> None:
        state.without_classes -= 1


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """A context in which neither classes nor modes are asked."""

    def __enter__(self) -> None:
        super().__enter__()
        state.without_modes += 1

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        state.without_modes -= 1
