"""Modules without initial values."""

from __future__ import annotations

import inspect
from typing import Any

from fastgrad.nn.modules.module import Module


def skip_init(module_cls: type[Any], *args: Any, **kwargs: Any) -> Any:
    """Make a module without initializing it: its parameters have whatever stands in their memory.

    The constructor makes it on the meta device, where nothing is computed and no generator moves; then it is moved.

    Parameters
    ----------
    module_cls : type
        A subclass of `Module` whose constructor takes ``device``.
    *args, **kwargs
        For the constructor.

    Returns
    -------
    Module

    Raises
    ------
    RuntimeError
        If `module_cls` is no such class.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.utils.skip_init(fg.nn.Linear, 5, 1).weight.shape
    fastgrad.Size([1, 5])
    """
    if not isinstance(module_cls, type) or not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    where = kwargs.pop("device", "cpu")
    return module_cls(*args, device="meta", **kwargs).to_empty(device=where)
