"""A module's call with hooks: the order in which they run, what they get and what they may return."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from typing import Any

from fastgrad.nn.modules import hooks as hooks_
from fastgrad.nn.modules.backward import Boundaries, deprecated_hooks
from fastgrad.nn.modules.hooks import CALL_HOOKS, CALL_STORES, Hook


def has_hooks(own: dict[str, Any]) -> bool:
    """Whether a call has to look for hooks: those in a module's `__dict__`, or global ones.

    If there are none the module's ``_has_hooks`` goes, before a second look: what another thread sets meanwhile stays.
    """
    if (
        own["_forward_hooks"]
        or own["_forward_pre_hooks"]
        or own["_backward_hooks"]
        or own["_backward_pre_hooks"]
    ):
        return True
    own.pop("_has_hooks", None)
    if any(own[name] for name in CALL_STORES):
        own["_has_hooks"] = True
    return bool(CALL_HOOKS) or "_has_hooks" in own


def call_with_hooks(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a module that has hooks, or may have.

    Parameters
    ----------
    module : Module
    args, kwargs
        What it was called with.

    Returns
    -------
    object
        What `forward` returned, or the last hook that replaced it.
    """
    own = module.__dict__
    try:
        hooked = own["_forward_hooks"]
        own_pre_hooks = own["_forward_pre_hooks"]
        hooked = hooked or own_pre_hooks or has_hooks(own)
    except KeyError as error:
        raise _not_initialised(module, error) from None
    if not hooked:
        return module.forward(*args, **kwargs)
    result: Any = None
    boundaries: Boundaries | None = None
    deprecated: list[Hook] | None = None
    hooks: Any = ()
    last = None  # the id of the forward hook that was started last
    try:
        if (
            own["_backward_hooks"] or own["_backward_pre_hooks"]
            or hooks_._global_backward_hooks or hooks_._global_backward_pre_hooks
        ):  # fmt: skip
            boundaries, deprecated = _backward_hooks(module, own)
        if own_pre_hooks or hooks_._global_forward_pre_hooks:
            flags = own["_forward_pre_hooks_with_kwargs"]
            with_kwargs: Collection[int] = {*flags} if flags else ()
            everywhere = hooks_._global_forward_pre_hooks
            for key, hook in _both(everywhere, own_pre_hooks) if everywhere else [*own_pre_hooks.items()]:
                if key in with_kwargs:
                    new = hook(module, args, kwargs)
                    if new is not None:
                        args, kwargs = _new_arguments(new)
                else:
                    new = hook(module, args)
                    if new is not None:
                        args = new if isinstance(new, tuple) else (new,)
        if boundaries is not None:
            node, args = boundaries.enter(args)
        result = module.forward(*args, **kwargs)
        if own["_forward_hooks"] or hooks_._global_forward_hooks:
            flags = own["_forward_hooks_with_kwargs"] or hooks_._global_forward_hooks_with_kwargs
            with_kwargs = _forward_hooks_with_kwargs(own) if flags else ()
            everywhere, mine = hooks_._global_forward_hooks, own["_forward_hooks"]
            hooks = _both(everywhere, mine) if everywhere else [*mine.items()]
            for last, hook in hooks:
                if last in with_kwargs:
                    new = hook(module, args, kwargs, result)
                else:
                    new = hook(module, args, result)
                if new is not None:
                    result = new
        if boundaries is not None:
            result = boundaries.leave(result, node)
        if deprecated:
            deprecated_hooks(module, deprecated, args, result)
        return result
    except Exception:
        if own["_forward_hooks_always_called"] or hooks_._global_forward_hooks_always_called:
            _always_called(module, args, kwargs, result, _until(hooks, last))
        raise


def _not_initialised(module: Any, missing: KeyError) -> AttributeError:
    name = type(module).__name__
    return AttributeError(
        f"'{name}' object has no attribute {missing}: {name}.__init__ must call super().__init__() first"
    )


def _both(everywhere: Any, own: Any) -> list[tuple[int, Hook]]:
    """The global hooks and then the module's, as they are now, with their ids."""
    return [*everywhere.items(), *own.items()]


def _until(hooks: list[tuple[int, Hook]], last: int | None) -> set[int]:
    """The ids of hooks up to that of the last one that was started."""
    keys = [key for key, _ in hooks]
    return set(keys[: keys.index(last) + 1]) if last is not None else set()


def _backward_hooks(module: Any, own: dict[str, Any]) -> tuple[Boundaries | None, list[Hook]]:
    """What the full backward hooks and the backward pre-hooks of a call need, and the deprecated hooks."""
    inside = own["_backward_hooks_with_containers"] or hooks_._global_backward_hooks_with_containers
    if inside:
        inside = {*own["_backward_hooks_with_containers"], *hooks_._global_backward_hooks_with_containers}
    full: list[tuple[Hook, bool]] = []
    deprecated: list[Hook] = []
    for is_full, hooks in (
        (hooks_._global_is_full_backward_hook, hooks_._global_backward_hooks),
        (own["_is_full_backward_hook"], own["_backward_hooks"]),
    ):
        if is_full:
            full += [(hook, key in inside) for key, hook in hooks.items()]
        elif is_full is False:
            deprecated += hooks.values()
    pre: list[tuple[Hook, bool]] = []
    for hooks in (hooks_._global_backward_pre_hooks, own["_backward_pre_hooks"]):
        if hooks:
            pre += [(hook, key in inside) for key, hook in hooks.items()]
    return Boundaries(module, full, pre, bool(inside)) if full or pre else None, deprecated


def _forward_hooks_with_kwargs(own: dict[str, Any]) -> Collection[int]:
    """The ids of the forward hooks that want keyword arguments, as they are now."""
    return {*own["_forward_hooks_with_kwargs"], *hooks_._global_forward_hooks_with_kwargs}


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


def _always_called(
    module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, started: set[int]
) -> None:
    """An exception leaves the call: run those of the hooks with ``always_call`` that have not been started."""
    own = module.__dict__
    with_kwargs = _forward_hooks_with_kwargs(own)
    for hooks, always, what in (
        (
            hooks_._global_forward_hooks,
            hooks_._global_forward_hooks_always_called,
            "global module forward hook",
        ),
        (own["_forward_hooks"], own["_forward_hooks_always_called"], "module forward hook"),
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
                    stacklevel=4,
                )
            else:
                result = result if new is None else new
