"""The hooks of modules: where they are kept and how they are registered. `call` and `state` run them.

Note [How a module knows that it has hooks]: a call without hooks must cost next to nothing, so it reads two things:
the attribute ``_has_hooks`` of the module, and whether `CALL_HOOKS` is empty. Registering sets the attribute. It is
taken back by the first call that finds no hook, so that it does not matter how hooks are removed: by their handle,
or from the dicts. `CALL_HOOKS` has an entry for each global hook, which the handle removes with the hook.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from fastgrad.autograd.hooks import RemovableHandle
from fastgrad.autograd.introspect import HookInfo

Hook = Callable[..., Any]

CALL_STORES = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
"""The attributes of a module with the hooks that a call has to look for."""

STATE_STORES = (
    "_state_dict_pre_hooks", "_state_dict_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)  # fmt: skip
FLAG_STORES = (
    "_forward_pre_hooks_with_kwargs", "_forward_hooks_with_kwargs", "_forward_hooks_always_called",
    "_backward_hooks_with_containers",
)  # fmt: skip

HOOK_STORES = (*CALL_STORES, *STATE_STORES, *FLAG_STORES)
"""All attributes of a module with hooks, or with what is known of them, by the ids of their handles."""

CALL_HOOKS: Any = OrderedDict()

_global_forward_pre_hooks: Any = OrderedDict()
_global_forward_hooks: Any = OrderedDict()
_global_forward_hooks_with_kwargs: Any = OrderedDict()
_global_forward_hooks_always_called: Any = OrderedDict()
_global_backward_pre_hooks: Any = OrderedDict()
_global_backward_hooks: Any = OrderedDict()
_global_backward_hooks_with_containers: Any = OrderedDict()
_global_is_full_backward_hook: bool | None = None
_global_parameter_registration_hooks: Any = OrderedDict()
_global_buffer_registration_hooks: Any = OrderedDict()
_global_module_registration_hooks: Any = OrderedDict()

_OWN = {name: value for name, value in globals().items() if name.startswith("_global_")}


def add(
    hooks: Any, hook: Hook, *, flags: tuple[tuple[Any, bool], ...] = (), prepend: bool = False
) -> RemovableHandle:
    """Put a hook into a dict, and its id into those dicts whose flag is set; the handle takes it out of all."""
    handle = RemovableHandle(hooks, extra_dict=[store for store, _ in flags])
    for store, value in flags:
        if value:
            store[handle.id] = True
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def assign(name: str, value: Any) -> None:
    """Let other hooks of all modules, or what is known of them, stand under a name ``_global_...`` of this module.

    Nobody knows when a foreign dict gets a hook: as long as one is in place, every call looks for global hooks.
    """
    places = globals()
    if not isinstance(places[name], dict):
        if value is not None and not isinstance(value, bool):
            raise TypeError(f"{name} must be a bool or None, not {type(value).__name__}")
    elif not isinstance(value, dict):
        raise TypeError(f"{name} must be a dict of hooks, not {type(value).__name__}")
    elif value is not _OWN[name]:
        CALL_HOOKS[name] = True
    else:
        CALL_HOOKS.pop(name, None)
    places[name] = value


def put_back(name: str) -> None:
    """Let the library's own dict stand under a name again."""
    assign(name, _OWN[name])


def check_kind(hooks: Any, present: bool | None, full: bool, where: str) -> None:
    """Backward hooks in one place are all full ones or all of the deprecated kind."""
    if hooks and present is not full:
        raise RuntimeError(
            f"Cannot use both regular backward hooks and full backward hooks {where}. Please use only one of them."
        )


# --- global hooks ----------------------------------------------------------------------------------------------


def register_module_forward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, args)`` before the forward of every module, ahead of the module's own pre-hooks.

    Parameters
    ----------
    hook : callable
        As in `Module.register_forward_pre_hook`.

    Returns
    -------
    RemovableHandle

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.nn.modules.module import register_module_forward_pre_hook
    >>> with register_module_forward_pre_hook(lambda module, args: print(type(module).__name__)):
    ...     y = fg.nn.Sequential()(fg.ones(1))
    Sequential
    """
    return add(_global_forward_pre_hooks, hook, flags=((CALL_HOOKS, True),))


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after the forward of every module, ahead of the module's own hooks.

    Parameters
    ----------
    hook : callable
        As in `Module.register_forward_hook`.
    with_kwargs : bool
        Call ``hook(module, args, kwargs, output)`` instead.
    always_call : bool
        Run the hook also if an exception leaves the call.

    Returns
    -------
    RemovableHandle
    """
    flags = (
        (CALL_HOOKS, True),
        (_global_forward_hooks_with_kwargs, with_kwargs),
        (_global_forward_hooks_always_called, always_call),
    )
    return add(_global_forward_hooks, hook, flags=flags)


def register_module_full_backward_pre_hook(hook: Hook, *, containers: bool = False) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` when gradients reach the outputs of any module, ahead of its own hooks.

    Parameters
    ----------
    hook : callable
        As in `Module.register_full_backward_pre_hook`.
    containers : bool
        Show it the gradients of tensors in containers.

    Returns
    -------
    RemovableHandle
    """
    flags = ((CALL_HOOKS, True), (_global_backward_hooks_with_containers, containers))
    return add(_global_backward_pre_hooks, hook, flags=flags)


def register_module_full_backward_hook(hook: Hook, *, containers: bool = False) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` in backward passes for every module, ahead of its own hooks.

    Parameters
    ----------
    hook : callable
        As in `Module.register_full_backward_hook`.
    containers : bool
        Show it the gradients of tensors in containers.

    Returns
    -------
    RemovableHandle

    Raises
    ------
    RuntimeError
        If there are global hooks of the deprecated kind.
    """
    return _add_global_backward_hook(hook, full=True, containers=containers)


def register_module_backward_hook(hook: Hook) -> RemovableHandle:
    """Call a backward hook of the deprecated kind for every module; see `Module.register_backward_hook`.

    Parameters
    ----------
    hook : callable

    Returns
    -------
    RemovableHandle

    Raises
    ------
    RuntimeError
        If there are global full backward hooks.
    """
    return _add_global_backward_hook(hook, full=False)


def _add_global_backward_hook(hook: Hook, full: bool, containers: bool = False) -> RemovableHandle:
    global _global_is_full_backward_hook
    check_kind(_global_backward_hooks, _global_is_full_backward_hook, full, "as a global Module hook")
    _global_is_full_backward_hook = full
    flags = ((CALL_HOOKS, True), (_global_backward_hooks_with_containers, containers))
    return add(_global_backward_hooks, hook, flags=flags)


def register_module_parameter_registration_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, name, parameter)`` before any module registers a parameter.

    Parameters
    ----------
    hook : callable
        May return a `Parameter` that is registered instead, or None.

    Returns
    -------
    RemovableHandle
    """
    return add(_global_parameter_registration_hooks, hook)


def register_module_buffer_registration_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` before any module registers a buffer, also one that is None.

    Parameters
    ----------
    hook : callable
        May return a tensor that is registered instead, or None.

    Returns
    -------
    RemovableHandle
    """
    return add(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, name, submodule)`` before any module registers a submodule, also one that is None.

    Parameters
    ----------
    hook : callable
        May return a `Module` that is registered instead, or None.

    Returns
    -------
    RemovableHandle
    """
    return add(_global_module_registration_hooks, hook)


# --- hooks of one module ---------------------------------------------------------------------------------------


class HookMethods:
    """The methods of `Module` that register the hooks of its calls."""

    _has_hooks = False
    _is_full_backward_hook: bool | None
    _forward_pre_hooks: Any
    _forward_pre_hooks_with_kwargs: Any
    _forward_hooks: Any
    _forward_hooks_with_kwargs: Any
    _forward_hooks_always_called: Any
    _backward_hooks_with_containers: Any
    _backward_pre_hooks: Any
    _backward_hooks: Any

    def _add_hook(self, hooks: Any, hook: Hook, prepend: bool, *flags: tuple[Any, bool]) -> RemovableHandle:
        handle = add(hooks, hook, flags=flags, prepend=prepend)
        object.__setattr__(self, "_has_hooks", True)  # after the hook is there: see the note above
        return handle

    def _hook_infos(self) -> Iterator[HookInfo]:
        """What `fastgrad.hooks` lists."""
        own = self.__dict__
        for name in (*CALL_STORES, *STATE_STORES):
            for number, hook in own[name].items():
                stores = [own[store] for store in (name, *FLAG_STORES)]
                yield HookInfo(name.strip("_").removesuffix("_hooks"), self, number, hook, stores)

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before `forward`.

        Parameters
        ----------
        hook : callable
            May return a tuple that replaces the positional arguments, or what replaces them as their only one, or
            None.
        prepend : bool
            Run it ahead of the hooks that the module has already.
        with_kwargs : bool
            Call ``hook(module, args, kwargs)`` instead, which may return a pair ``(args, kwargs)`` or None.

        Returns
        -------
        RemovableHandle

        Examples
        --------
        >>> import fastgrad as fg
        >>> m = fg.nn.Sequential()
        >>> handle = m.register_forward_pre_hook(lambda module, args: args[0] * 2)
        >>> m(fg.ones(2))
        tensor([2., 2.])
        """
        return self._add_hook(
            self._forward_pre_hooks, hook, prepend, (self._forward_pre_hooks_with_kwargs, with_kwargs)
        )

    def register_forward_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after `forward`.

        Parameters
        ----------
        hook : callable
            May return what replaces the output, or None.
        prepend : bool
            Run it ahead of the hooks that the module has already.
        with_kwargs : bool
            Call ``hook(module, args, kwargs, output)`` instead.
        always_call : bool
            Run the hook also if an exception leaves the call, with the output as far as there is one, else None. An
            exception of the hook itself is then a warning.

        Returns
        -------
        RemovableHandle

        Examples
        --------
        >>> import fastgrad as fg
        >>> m = fg.nn.Sequential()
        >>> handle = m.register_forward_hook(lambda module, args, output: output + 1)
        >>> m(fg.ones(2))
        tensor([2., 2.])
        """
        return self._add_hook(
            self._forward_hooks, hook, prepend,
            (self._forward_hooks_with_kwargs, with_kwargs), (self._forward_hooks_always_called, always_call),
        )  # fmt: skip

    def register_full_backward_pre_hook(
        self, hook: Hook, prepend: bool = False, *, containers: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` in backward passes, when the gradients of the outputs are known.

        Parameters
        ----------
        hook : callable
            Gets a tuple with an entry for each output; see `register_full_backward_hook`. May return a tuple that
            replaces it, or None.
        prepend : bool
            Run it ahead of the hooks that the module has already.
        containers : bool
            Show it the gradients of tensors in containers.

        Returns
        -------
        RemovableHandle

        Examples
        --------
        >>> import fastgrad as fg
        >>> m = fg.nn.Sequential()
        >>> handle = m.register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 10,))
        >>> x = fg.ones(2, requires_grad=True)
        >>> m(x).sum().backward()
        >>> x.grad
        tensor([10., 10.])
        """
        return self._add_hook(
            self._backward_pre_hooks, hook, prepend, (self._backward_hooks_with_containers, containers)
        )

    def register_full_backward_hook(
        self, hook: Hook, prepend: bool = False, *, containers: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` in passes, when the gradients of the inputs are known.

        Both are tuples: `grad_input` has an entry for each positional argument of the call, `grad_output` one for each
        element of the output if that is a tuple, else one for the output. An entry is the gradient of a tensor, zeros
        for an argument that got none, and None for what is no tensor.

        If no tensor among the arguments requires grad, the hook runs when the gradients of the outputs are known, with
        a warning.

        Parameters
        ----------
        hook : callable
            May return a tuple that replaces `grad_input` in the rest of the pass, or None.
        prepend : bool
            Run it ahead of the hooks that the module has already.
        containers : bool
            Show it the gradients of tensors in containers: the entry of a list, dict, tuple or dataclass is one with
            gradients in the places of its tensors. The hook then runs when these are known too.

        Returns
        -------
        RemovableHandle

        Raises
        ------
        RuntimeError
            If the module has hooks of `register_backward_hook`.

        Examples
        --------
        >>> import fastgrad as fg
        >>> m = fg.nn.Sequential()
        >>> handle = m.register_full_backward_hook(
        ...     lambda module, grad_input, grad_output: (grad_input[0] * 10,)
        ... )
        >>> x = fg.ones(2, requires_grad=True)
        >>> m(x).sum().backward()
        >>> x.grad
        tensor([10., 10.])
        """
        return self._add_backward_hook(hook, prepend, containers, full=True)

    def register_backward_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` at the node of the first output tensor.

        Deprecated: its arguments are the gradients of that node and not of the module.
        Use `register_full_backward_hook`.

        Parameters
        ----------
        hook : callable
            May return a tuple that replaces `grad_input`, or None.

        Returns
        -------
        RemovableHandle

        Raises
        ------
        RuntimeError
            If the module has full backward hooks.
        """
        return self._add_backward_hook(hook, False, False, full=False)

    def _add_backward_hook(self, hook: Hook, prepend: bool, containers: bool, full: bool) -> RemovableHandle:
        check_kind(self._backward_hooks, self._is_full_backward_hook, full, "on a single Module")
        self._is_full_backward_hook = full
        return self._add_hook(
            self._backward_hooks, hook, prepend, (self._backward_hooks_with_containers, containers)
        )
