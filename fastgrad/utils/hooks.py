"""Handles of hooks, and what else belongs to all kinds of them; PyTorch's ``torch.utils.hooks``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fastgrad.autograd.hooks import RemovableHandle

__all__ = ["RemovableHandle", "unserializable_hook"]

_F = TypeVar("_F", bound=Callable[..., object])


def unserializable_hook(f: _F) -> _F:
    """Mark a function as one whose loss is expected: saving a tensor that has it as a hook does not warn.

    Parameters
    ----------
    f : callable

    Returns
    -------
    callable
        `f`.

    Examples
    --------
    >>> import pickle, fastgrad as fg
    >>> x = fg.ones(2, requires_grad=True)
    >>> handle = x.register_hook(unserializable_hook(lambda g: g * 2))
    >>> pickle.loads(pickle.dumps(x))._backward_hooks
    """
    try:
        f.__torch_unserializable__ = True  # type: ignore[attr-defined]
    except AttributeError:
        raise TypeError(
            f"unserializable_hook(): argument 'f' must be a function that takes attributes, not {type(f).__name__}"
        ) from None
    return f
