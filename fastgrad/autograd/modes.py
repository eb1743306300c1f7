"""Gradient modes of the calling thread, as context managers and decorators."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

from fastgrad.functions.arguments import as_flag, need_tensor
from fastgrad.native.build.loader import SwitchBase, rt, runtime_set_object
from fastgrad.native.contracts.flags import GRAD_ENABLED, INFERENCE_MODE


class Mode(SwitchBase):
    """A change of the thread's modes for the length of a block, or of a function's calls."""

    def _again(self) -> Mode:
        """A context for one call of a decorated function."""
        return type(self)()

    def _decorate(self, function: Callable[..., Any]) -> Callable[..., Any]:
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
            return rt.call_inside(self._again(), function, args, kwargs)

        return wrapped

    def _around_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The mode holds whenever the generator runs, and not while it waits."""

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            generator = function(*args, **kwargs)
            step, argument = generator.send, None
            while True:
                try:
                    value = rt.call_inside(self._again(), step, (argument,), {})
                except StopIteration as stop:
                    return stop.value
                try:
                    argument = yield value
                    step = generator.send
                except GeneratorExit:
                    rt.call_inside(self._again(), generator.close, (), {})
                    raise
                except BaseException as error:  # noqa: BLE001 - handed on to the generator
                    step, argument = generator.throw, error

        return wrapped


class _Plain(Mode):
    """Also works without parentheses, as ``@no_grad``."""

    _switch: ClassVar[tuple[int, int]]
    """The modes that are switched on, and those that are switched off."""

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        self = super().__new__(cls)
        self._on, self._off = cls._switch
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

    _switch = (0, GRAD_ENABLED)


class enable_grad(_Plain):  # noqa: N801
    """Recording is on inside, also within `no_grad`."""

    _switch = (GRAD_ENABLED, 0)


class set_grad_enabled(Mode):  # noqa: N801
    """Recording is switched on or off: at once, and back again at the end of a ``with`` block.

    As a decorator it holds inside of the function; where the decorator stands, the mode stays as it was.

    Parameters
    ----------
    mode : bool
    """

    def __new__(cls, mode: bool) -> set_grad_enabled:
        """The context, whose change has been made."""
        on, off = (GRAD_ENABLED, 0) if as_flag("set_grad_enabled", "mode", mode) else (0, GRAD_ENABLED)
        return rt.apply_context(cls, on, off)  # type: ignore[no-any-return]

    @property
    def mode(self) -> bool:
        """Whether it switches recording on."""
        return bool(self._on)

    def _again(self) -> Mode:
        return enable_grad() if self.mode else no_grad()  # type: ignore[no-any-return]


class inference_mode(Mode):  # noqa: N801
    """Like `no_grad`, and tensors made inside can never take part in recording.

    Parameters
    ----------
    mode : bool
        False switches the mode off inside.
    """

    def __new__(cls, mode: Any = True) -> Any:
        """The mode, or where it is used without parentheses the decorated function."""
        self = super().__new__(cls)
        on = callable(mode) or as_flag("inference_mode", "mode", mode)
        self._on, self._off = (INFERENCE_MODE, GRAD_ENABLED) if on else (GRAD_ENABLED, INFERENCE_MODE)
        return self(mode) if callable(mode) else self

    def __init__(self, mode: bool = True) -> None:
        pass

    @property
    def mode(self) -> bool:
        """Whether it switches the mode on."""
        return bool(self._on & INFERENCE_MODE)

    def _again(self) -> inference_mode:
        return inference_mode(self.mode)  # type: ignore[no-any-return]


runtime_set_object("entering_name", "_entering")
runtime_set_object("decorate_name", "_decorate")


class set_multithreading_enabled:  # noqa: N801
    """Accepted and without effect: a pass runs on the thread that calls it.

    Parameters
    ----------
    mode : bool
    """

    def __init__(self, mode: bool) -> None:
        self.mode = bool(as_flag("set_multithreading_enabled", "mode", mode))

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
