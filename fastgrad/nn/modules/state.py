"""State dicts of modules: what `state_dict` writes, what `load_state_dict` reads, and the hooks around both."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Iterator, Mapping
from typing import Any
from weakref import ref

from fastgrad.autograd.hooks import RemovableHandle
from fastgrad.autograd.modes import no_grad
from fastgrad.functions.arguments import need_type
from fastgrad.native.build.loader import TensorBase
from fastgrad.nn.modules.module_hooks import Hook, add
from fastgrad.nn.parameter import Parameter, is_lazy

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What `load_state_dict` returns: keys that the module has and the dict lacks, and the other way round."""

    __slots__ = ()

    def __repr__(self) -> str:
        if self.missing_keys or self.unexpected_keys:
            return super().__repr__()
        return "<All keys matched successfully>"

    __str__ = __repr__


IncompatibleKeys = _IncompatibleKeys  # whose name is part of what programs print


class _WrappedHook:
    """A hook of `load_state_dict` that gets its module first; it does not keep the module.

    Copies and pickles of the module take the hook along, for the copy.

    Parameters
    ----------
    hook : callable
    module : Module, optional
        None for a hook that does not want it.
    """

    def __init__(self, hook: Hook, module: Any = None) -> None:
        functools.update_wrapper(self, hook)
        self.hook = hook
        self.with_module = module is not None
        self.module = None if module is None else ref(module)

    def __call__(self, *args: Any) -> Any:
        if self.module is None:
            return self.hook(*args)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args)

    def __getstate__(self) -> dict[str, Any]:
        return {"hook": self.hook, "module": None if self.module is None else self.module()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["hook"], state["module"])  # type: ignore[misc]


class _PostHook:
    """A hook of `state_dict` that was registered by its public method and must return None.

    Parameters
    ----------
    hook : callable
    """

    def __init__(self, hook: Hook) -> None:
        functools.update_wrapper(self, hook)
        self.hook = hook

    def __call__(self, *args: Any) -> None:
        if self.hook(*args) is not None:
            raise RuntimeError("state_dict post-hook must return None")


class _Load:
    """One call of `load_state_dict`.

    Parameters
    ----------
    metadata : dict or None
        The versions of the modules that wrote the state dict, by prefix.
    assign : bool
        Let the tensors of the state dict take the places of the parameters and buffers, instead of copying.
    """

    def __init__(self, metadata: Any, assign: bool) -> None:
        self.metadata = metadata
        self.assign = assign
        self.missing_keys: list[str] = []
        self.unexpected_keys: list[str] = []
        self.errors: list[str] = []

    def load(self, module: Any, state: Any, prefix: str = "") -> None:
        """Load a module and those within it."""
        metadata = {} if self.metadata is None else self.metadata.get(prefix[:-1], {})
        if self.assign:
            metadata["assign_to_params_buffers"] = True
        # Strict in any case: else modules would not say what is missing, which is returned even if it is allowed.
        module._load_from_state_dict(
            state, prefix, metadata, True, self.missing_keys, self.unexpected_keys, self.errors
        )
        for name, child in module._modules.items():
            if child is not None:
                within = f"{prefix}{name}."
                self.load(child, {key: v for key, v in state.items() if key.startswith(within)}, within)
        found = _IncompatibleKeys(self.missing_keys, self.unexpected_keys)
        for hook in tuple(module._load_state_dict_post_hooks.values()):
            if hook(module, found) is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                    "values, if incompatible_keys need to be modified, it should be done inplace."
                )

    def complaints(self, strict: bool) -> list[str]:
        """What there is to say against the state dict."""
        out = list(self.errors)
        if strict:
            for what, keys in (("Unexpected", self.unexpected_keys), ("Missing", self.missing_keys)):
                if keys:
                    listed = ", ".join(f'"{key}"' for key in keys)
                    out.insert(0, f"{what} key(s) in state_dict: {listed}. ")
        return out


class StateMethods:
    """The methods of `Module` that write and read state dicts."""

    _version: int = 1
    """Written to state dicts, for a subclass's `_load_from_state_dict` to tell old ones by."""

    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _modules: dict[str, Any]
    _state_dict_hooks: Any
    _state_dict_pre_hooks: Any
    _load_state_dict_pre_hooks: Any
    _load_state_dict_post_hooks: Any

    # --- hooks --------------------------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before `state_dict` writes the module's own entries.

        Parameters
        ----------
        hook : callable

        Returns
        -------
        RemovableHandle
        """
        return add(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` after `state_dict` wrote a module and its children.

        Parameters
        ----------
        hook : callable
            May change the dict and must return None.

        Returns
        -------
        RemovableHandle
        """
        return add(self._state_dict_hooks, _PostHook(hook))

    def _register_state_dict_hook(self, hook: Hook) -> RemovableHandle:
        """Like `register_state_dict_post_hook`, but the hook may return what the outermost `state_dict` returns."""
        return add(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call a hook before `load_state_dict` reads the module's own entries.

        Parameters
        ----------
        hook : callable
            ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)``; may
            change the dict and the lists. `strict` is always true; see `load_state_dict`.

        Returns
        -------
        RemovableHandle
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook: Hook, with_module: bool = False) -> RemovableHandle:
        """Like `register_load_state_dict_pre_hook`, for a hook that does not get the module unless it wants it."""
        return add(self._load_state_dict_pre_hooks, _WrappedHook(hook, self if with_module else None))

    def register_load_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after `load_state_dict` read the module and its children.

        Parameters
        ----------
        hook : callable
            May change the lists ``missing_keys`` and ``unexpected_keys`` and must return None.

        Returns
        -------
        RemovableHandle
        """
        return add(self._load_state_dict_post_hooks, hook)

    # --- writing ------------------------------------------------------------------------------------------------

    def get_extra_state(self) -> Any:
        """What else belongs into the state dict; for subclasses to define, together with `set_extra_state`."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called: only subclasses that define "
            "it have extra state."
        )

    def set_extra_state(self, state: Any) -> None:
        """Take over what `get_extra_state` returned; for subclasses to define."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called: only subclasses that define "
            "it have extra state."
        )

    def _own_state(self) -> Iterator[tuple[str, Any]]:
        """The parameters and persistent buffers that are not None."""
        for name, tensor in (*self._parameters.items(), *self._buffers.items()):
            if tensor is not None and name not in self._non_persistent_buffers_set:
                yield name, tensor

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Write the module's own entries."""
        for name, tensor in self._own_state():
            destination[prefix + name] = tensor if keep_vars or is_lazy(tensor) else tensor.detach()
        if type(self).get_extra_state is not StateMethods.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """The parameters and persistent buffers of this module and all within it, by their dotted names.

        Parameters
        ----------
        *args
            The others by position; deprecated.
        destination : dict, optional
            Where to write; a new dict by default.
        prefix : str
            Put before the names.
        keep_vars : bool
            Write the parameters themselves instead of tensors without history over the same memory.

        Returns
        -------
        collections.OrderedDict
            With the versions of the modules in its attribute ``_metadata``.

        Examples
        --------
        >>> import fastgrad as fg
        >>> m = fg.nn.Module()
        >>> m.w = fg.nn.Parameter(fg.zeros(1))
        >>> dict(m.state_dict())
        {'w': tensor([0.])}
        """
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead.", FutureWarning, stacklevel=2
            )
            given = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
            destination = given["destination"] if destination is None else destination
            prefix = prefix or given.get("prefix", "")
            keep_vars = keep_vars or given.get("keep_vars", False)
        if not isinstance(prefix, str):
            raise TypeError(f"state_dict(): prefix must be a str, not {type(prefix).__name__}")
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in tuple(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in tuple(self._state_dict_hooks.values()):
            new = hook(self, destination, prefix, metadata)
            destination = destination if new is None else new
        return destination

    # --- reading ------------------------------------------------------------------------------------------------

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy the entries of a state dict to the parameters and buffers.

        Parameters
        ----------
        state_dict : dict
            Of tensors by dotted names.
        strict : bool
            Whether keys that are missing, or that the module does not know, are an error.
        assign : bool
            Let the tensors take the places of the parameters and buffers; parameters become other objects.

        Returns
        -------
        (list of str, list of str)
            With the names ``missing_keys`` and ``unexpected_keys``.

        Raises
        ------
        TypeError
            If `state_dict` is no mapping.
        RuntimeError
            Names all that does not fit: keys, sizes, values that are no tensors.

        Examples
        --------
        >>> import fastgrad as fg
        >>> m = fg.nn.Module()
        >>> m.w = fg.nn.Parameter(fg.zeros(1))
        >>> m.load_state_dict({"w": fg.ones(1)})
        <All keys matched successfully>
        >>> m.w
        Parameter containing:
        tensor([1.], requires_grad=True)
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        metadata = getattr(state_dict, "_metadata", None)
        copy: Any = OrderedDict(state_dict)
        for key in copy:
            need_type("load_state_dict", key, str, "a key of state_dict")
        if metadata is not None:
            copy._metadata = metadata
        task = _Load(metadata, assign)
        task.load(self, copy)
        complaints = task.complaints(strict)
        if complaints:
            listed = "\n\t".join(complaints)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listed}")
        return _IncompatibleKeys(task.missing_keys, task.unexpected_keys)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Read the module's own entries; subclasses that read old state dicts extend it."""
        for hook in tuple(self._load_state_dict_pre_hooks.values()):
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        own = dict(self._own_state())
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, tensor in own.items():
            key = prefix + name
            if key in state_dict:
                self._load_tensor(name, key, tensor, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)
        extra = prefix + _EXTRA_STATE_KEY_SUFFIX
        has_extra = type(self).set_extra_state is not StateMethods.set_extra_state
        if has_extra and extra in state_dict:
            self.set_extra_state(state_dict[extra])
        elif has_extra and strict:
            missing_keys.append(extra)
        if strict:
            if not has_extra and extra in state_dict:
                unexpected_keys.append(extra)
            for key in state_dict:
                if key.startswith(prefix) and key != extra:
                    first, dot, _ = key[len(prefix) :].partition(".")
                    if first not in (self._modules if dot else own):
                        unexpected_keys.append(key)

    def _load_tensor(
        self, name: str, key: str, own: Any, new: Any, assign: bool, error_msgs: list[str]
    ) -> None:
        """Read one parameter or buffer."""
        if not isinstance(new, TensorBase):
            error_msgs.append(
                f'While copying the parameter named "{key}", expected fastgrad.Tensor or Tensor-like object from '
                f"checkpoint but received {type(new)}"
            )
            return
        given: Any = new
        if is_lazy(own):  # what is loaded has no sizes either, or the module would have them by now
            return
        if own.ndim == 0 and given.shape == (1,):  # how scalars were saved long ago
            given = given[0]
        if given.shape != own.shape:
            error_msgs.append(
                f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, the shape in "
                f"current model is {own.shape}."
            )
            return
        try:
            with no_grad():
                if not assign:
                    if own.is_meta and not given.is_meta:
                        warnings.warn(
                            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta "
                            "parameter in the current model, which is a no-op. Pass `assign=True` to put the "
                            "items of the state dict in the places of those of the module",
                            stacklevel=2,
                        )
                    own.copy_(given)
                    return
                if isinstance(own, Parameter):
                    if isinstance(given, Parameter):
                        given.requires_grad_(own.requires_grad)
                    else:
                        given = Parameter(given, own.requires_grad)
                setattr(self, name, given)
        except Exception as error:  # noqa: BLE001 - told with all that does not fit
            error_msgs.append(
                f'While copying the parameter named "{key}", whose dimensions in the model are {own.shape} and whose '
                f"dimensions in the checkpoint are {given.shape}, an exception occurred : {error.args}."
            )
