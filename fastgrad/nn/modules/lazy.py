"""Modules whose parameters get their sizes from the first input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastgrad.autograd.modes import no_grad
from fastgrad.nn.parameter import is_lazy

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """A base, beside that of a layer, for those whose sizes are not known before the first call.

    The constructor of a subclass makes such parameters as `UninitializedParameter`, buffers as `UninitializedBuffer`.
    A forward pre-hook of the first call, the first one unless others were put ahead of it, calls
    `initialize_parameters` with the arguments of the call, removes itself, and gives the module the class
    ``cls_to_become``. State dicts may be loaded before: parameters get the sizes of what is loaded.

    Parameters
    ----------
    *args, **kwargs
        For the base behind this one.

    Raises
    ------
    RuntimeError
        In the first call, if some parameter has no sizes afterwards.

    Examples
    --------
    >>> import fastgrad as fg
    >>> layer = fg.nn.LazyLinear(3)
    >>> layer
    LazyLinear(in_features=0, out_features=3, bias=True)
    >>> layer(fg.ones(2, 5)).shape
    fastgrad.Size([2, 3])
    >>> layer
    Linear(in_features=5, out_features=3, bias=True)
    """

    cls_to_become: type[Any] | None = None
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _register_load_state_dict_pre_hook: Callable[..., Any]
    register_forward_pre_hook: Callable[..., Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def _lazy_load_hook(self, state_dict: Any, prefix: str, *_: Any) -> None:
        """Give parameters and buffers the sizes of what is about to be loaded."""
        for name, own in (*self._parameters.items(), *self._buffers.items()):
            new = state_dict.get(prefix + name)
            if is_lazy(own) and new is not None and not is_lazy(new):
                with no_grad():
                    own.materialize(new.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters sizes and values, by the arguments of the first call; for subclasses to define."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer has no sizes yet."""
        return any(map(is_lazy, (*self._parameters.values(), *self._buffers.values())))

    def _infer_parameters(self, module: Any, args: tuple[Any, ...], kwargs: Any = None) -> None:
        """The hook of the first call."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {module._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook
        del module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become
