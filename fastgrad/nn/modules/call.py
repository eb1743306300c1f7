"""What Python adds to a module's call with hooks; the order in which they run stands in `native.objects.modules`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any, NoReturn

from fastgrad.native.build.loader import runtime_set_object
from fastgrad.native.contracts.python_types import MODULE_NAMES
from fastgrad.nn.modules import module_hooks as hooks_
from fastgrad.nn.modules.backward import Crossing
from fastgrad.nn.modules.module_hooks import CALL_HOOKS


def _missing_store(module: Any, missing: str) -> NoReturn:
    """Refuse to call a module without the dicts that ``Module.__init__`` makes."""
    name = type(module).__name__
    raise AttributeError(
        f"'{name}' object has no attribute '{missing}': {name}.__init__ must call super().__init__() first"
    )


def _new_arguments(new: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What a pre-hook with keyword arguments returned, checked."""
    if (
        isinstance(new, tuple)
        and len(new) == 2
        and isinstance(new[0], (tuple, list))
        and isinstance(new[1], Mapping)
    ):
        return tuple(new[0]), dict(new[1])
    raise RuntimeError(
        f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {new}."
    )


def _always_called(module: Any, error: BaseException, state: tuple[Any, ...]) -> None:
    """An exception leaves the call: run those of the hooks with ``always_call`` that have not begun."""
    if not isinstance(error, Exception):
        return
    args, kwargs, result, keys, last = state
    try:
        raise error
    except Exception:  # noqa: BLE001 - hooks see it as the one that is being handled
        started: Collection[int] = ()
        if last is not None:
            started = {last} if keys is None else {*keys[: keys.index(last) + 1]}
        _run_always(module, args, kwargs or {}, result, started)


_STORES = ("_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called")


def _run_always(
    module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, started: Collection[int]
) -> None:
    own = module.__dict__
    mine: tuple[Any, ...] = tuple(
        own.get(name) or {} for name in _STORES
    )  # the call may have failed for want of one
    with_kwargs = {*mine[1], *hooks_._global_forward_hooks_with_kwargs}
    for hooks, always, what in (
        (
            hooks_._global_forward_hooks,
            hooks_._global_forward_hooks_always_called,
            "global module forward hook",
        ),
        (mine[0], mine[2], "module forward hook"),
    ):
        for key, hook in tuple(hooks.items()):
            if key not in always or key in started:
                continue
            try:
                new = hook(module, args, kwargs, result) if key in with_kwargs else hook(module, args, result)
            except Exception as error:  # noqa: BLE001 - the one that leaves the call is what counts
                warnings.warn(
                    f"{what} with ``always_call=True`` raised an exception that was silenced as another error was "
                    f"raised in forward: {error}",
                    stacklevel=3,
                )
            else:
                result = result if new is None else new


def install(missing_attribute: Callable[[Any, str], Any]) -> None:
    """Let compiled code know what it needs for modules; `missing_attribute` is their `__getattr__`."""
    for k, name in enumerate(MODULE_NAMES):
        runtime_set_object("module_names", name, k)
    runtime_set_object("call_hooks", CALL_HOOKS)
    runtime_set_object("hooks_everywhere", vars(hooks_))
    runtime_set_object("missing_store", _missing_store)
    runtime_set_object("new_arguments", _new_arguments)
    runtime_set_object("new_crossing", Crossing)
    runtime_set_object("enter_crossing", Crossing.enter)
    runtime_set_object("leave_crossing", Crossing.leave)
    runtime_set_object("always_called", _always_called)
    runtime_set_object("missing_attribute", missing_attribute)
