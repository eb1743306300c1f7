"""Gradient modes of the calling thread, as context managers and decorators."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

from fastgrad.functions.arguments import need_tensor
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.flags import GRAD_ENABLED, INFERENCE_MODE


class _Mode:
    """A change of the thread's modes for the length of a block, or of a function's calls."""

    def __enter__(self) -> None:
        self._before = rt.set_mode(self._mode(rt.get_mode()))

    def __exit__(self, *_: object) -> None:
        rt.set_mode(self._before)

    def _mode(self, now: int) -> int:
        raise NotImplementedError

    def _again(self) -> _Mode:
        return type(self)()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isclass(function):
            warnings.warn(
                "Decorating classes is deprecated and will be disabled in future versions. You should only decorate "
                "functions or methods. To preserve the current behavior of class decoration, you can directly decorate "
                "the `__init__` method and nothing else.",
                FutureWarning,
                stacklevel=2,
            )
        if inspect.isgeneratorfunction(function):
            return self._around_generator(function)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self._again():
                return function(*args, **kwargs)

        return wrapped

    def _around_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The mode holds whenever the generator runs, and not while it waits."""

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            generator = function(*args, **kwargs)
            step, argument = generator.send, None
            while True:
                try:
                    with self._again():
                        value = step(argument)
                except StopIteration as stop:
                    return stop.value
                try:
                    argument = yield value
                    step = generator.send
                except GeneratorExit:
                    with self._again():
                        generator.close()
                    raise
                except BaseException as error:  # noqa: BLE001 - handed on to the generator
                    step, argument = generator.throw, error

        return wrapped


class _Plain(_Mode):
    """Also works without parentheses, as ``@no_grad``."""

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        self = super().__new__(cls)
        return self if function is None else self(function)

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        pass


class no_grad(_Plain):  # noqa: N801
    """Nothing is recorded inside.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.ones(2, requires_grad=True)
    >>> with fg.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    def _mode(self, now: int) -> int:
        return now & ~GRAD_ENABLED


class enable_grad(_Plain):  # noqa: N801
    """Recording is on inside, also within `no_grad`."""

    def _mode(self, now: int) -> int:
        return now | GRAD_ENABLED


class set_grad_enabled(_Mode):  # noqa: N801
    """Recording is switched on or off: at once, and back again at the end of a ``with`` block."""

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        self._before = rt.set_mode(self._mode(rt.get_mode()))

    def __enter__(self) -> None:
        rt.set_mode(self._mode(rt.get_mode()))

    def _mode(self, now: int) -> int:
        return now | GRAD_ENABLED if self.mode else now & ~GRAD_ENABLED

    def _again(self) -> set_grad_enabled:
        return set_grad_enabled(self.mode)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function with the mode inside; where the decorator stands, the mode stays as it was."""
        rt.set_mode(self._before)
        return super().__call__(function)


class inference_mode(_Mode):  # noqa: N801
    """Like `no_grad`, and tensors made inside can never take part in recording.

    Parameters
    ----------
    mode : bool
        False switches the mode off inside.
    """

    def __new__(cls, mode: Any = True) -> Any:
        """The mode, or where it is used without parentheses the decorated function."""
        self = super().__new__(cls)
        if callable(mode):
            self.mode = True
            return self(mode)
        return self

    def __init__(self, mode: bool = True) -> None:
        self.mode = bool(mode)

    def _mode(self, now: int) -> int:
        return (now | INFERENCE_MODE) & ~GRAD_ENABLED if self.mode else now & ~INFERENCE_MODE | GRAD_ENABLED

    def _again(self) -> inference_mode:
        return inference_mode(self.mode)


class set_multithreading_enabled:  # noqa: N801
    """Accepted and without effect: a pass runs on the thread that calls it.

    Parameters
    ----------
    mode : bool
    """

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def is_grad_enabled() -> bool:
    """Whether ops are recorded on this thread."""
    return bool(rt.get_mode() & GRAD_ENABLED)


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in inference mode."""
    return bool(rt.get_mode() & INFERENCE_MODE)


def is_inference(input: Any) -> bool:  # noqa: A002 - the name that PyTorch's users write
    """Whether a tensor was made in inference mode.

    Parameters
    ----------
    input : Tensor

    Raises
    ------
    TypeError
        If it is no tensor.

    Examples
    --------
    >>> import fastgrad as fg
    >>> with fg.inference_mode():
    ...     x = fg.ones(2)
    >>> fg.is_inference(x)
    True
    """
    return need_tensor("is_inference", input).is_inference()  # type: ignore[no-any-return]
