"""TorchScript's names: functions and modules run as they are, and `script` and `trace` say so once."""

from __future__ import annotations

import builtins
import types
import typing
import warnings
from collections.abc import Callable
from typing import Any, Final, TypeVar

import fastgrad as fg

__all__ = [
    "Attribute",
    "Final",
    "annotate",
    "export",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "optimize_for_inference",
    "script",
    "script_if_tracing",
    "script_method",
    "trace",
    "trace_module",
    "unused",
    "wait",
]

Thing = TypeVar("Thing")
_said: set[str] = set()


def _unchanged(name: str, thing: Thing) -> Thing:
    if name not in _said:
        _said.add(name)
        warnings.warn(
            f"torch.jit.{name} gives back what it was given: fastgrad has no TorchScript, and runs it as Python. "
            "torch.compile makes repeated calls faster.",
            UserWarning,
            stacklevel=3,
        )
    return thing


def script(obj: Thing, *args: Any, **kwargs: Any) -> Thing:
    """The same function, module or class; the first call says so."""
    return _unchanged("script", obj)


def trace(func: Thing, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Thing:
    """The same function or module, which is not called; the first call says so."""
    return _unchanged("trace", func)


def trace_module(mod: Thing, inputs: Any = None, *args: Any, **kwargs: Any) -> Thing:
    """The same module; the first call says so."""
    return _unchanged("trace_module", mod)


def freeze(mod: Thing, *args: Any, **kwargs: Any) -> Thing:
    """The same module; the first call says so."""
    return _unchanged("freeze", mod)


def optimize_for_inference(mod: Thing, *args: Any, **kwargs: Any) -> Thing:
    """The same module; the first call says so."""
    return _unchanged("optimize_for_inference", mod)


def script_if_tracing(fn: Thing) -> Thing:
    """The same function: nothing is ever traced."""
    return fn


_script_if_tracing = script_if_tracing


def script_method(fn: Thing) -> Thing:
    """The same method."""
    return fn


def _overload_method(fn: Thing) -> Thing:
    """The same method: a signature that TorchScript would choose from; the last definition of the name runs."""
    return fn


_overload = _overload_method


def export(fn: Thing) -> Thing:
    """The same function: what TorchScript would compile."""
    return fn


def unused(fn: Thing) -> Thing:
    """The same function: what TorchScript would leave out."""
    return fn


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """The same function, what TorchScript would leave to Python; or a decorator."""
    return drop if callable(drop) else lambda fn: fn


def interface(obj: Thing) -> Thing:
    """The same class, whose methods TorchScript would look for in others."""
    return obj


def is_scripting() -> bool:
    """False: Python runs."""
    return False


def is_tracing() -> bool:
    """False: nothing is ever traced."""
    return False


def annotate(the_type: Any, the_value: Thing) -> Thing:
    """The value."""
    return the_value


def _get_trace_graph(*args: Any, **kwargs: Any) -> Any:
    """Refuse: counters of operations import it, and most of what these have works without."""
    raise NotImplementedError(
        "torch.jit._get_trace_graph(): fastgrad has no TorchScript, and so no traced graphs; "
        "`fastgrad.profiler.profile(record_shapes=True)` lists the ops of a call"
    )


class Attribute(typing.NamedTuple):
    """A value, and the type that TorchScript would give it."""

    value: Any
    type: Any


def isinstance(obj: Any, target_type: Any) -> bool:  # noqa: A001 - PyTorch's name
    """Whether an object is of a type, which may say what containers hold: ``List[int]``, ``Optional[Tensor]``."""
    if type(target_type) is tuple:
        return any(isinstance(obj, one) for one in target_type)
    origin, inner = typing.get_origin(target_type), typing.get_args(target_type)
    if origin is None:
        return _plain_isinstance(obj, type(None) if target_type is None else target_type)
    if origin in (typing.Union, types.UnionType):
        return any(isinstance(obj, one) for one in inner)
    if not _plain_isinstance(obj, origin):
        return False
    if origin is dict:
        return all(isinstance(k, inner[0]) and isinstance(v, inner[1]) for k, v in obj.items())
    if origin is tuple and Ellipsis not in inner:
        return len(obj) == len(inner) and all(map(isinstance, obj, inner))
    return all(isinstance(one, inner[0]) for one in obj)


_plain_isinstance: Callable[[Any, Any], bool] = builtins.isinstance


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A future with the result of a call, which has been made."""
    future: fg.futures.Future[Any] = fg.futures.Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Any) -> Any:
    """The result of a future."""
    return future.wait()
