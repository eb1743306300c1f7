"""Calls of modules with other parameters and buffers than their own."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastgrad.functions.arguments import is_tensor, need_type
from fastgrad.nn.modules.module import Module

__all__ = ["functional_call"]

_NOTHING: Any = object()


def _swap(root: Module, key: str, tensor: Any) -> Any:
    """Put a tensor in the place with a dotted name; what was there, or `_NOTHING` for a place that there was not.

    Parameters and buffers are replaced in their dicts, whatever kind of tensor comes; None is as good as a tensor.
    """
    path, _, name = key.rpartition(".")
    module = root.get_submodule(path)
    for store in (module._parameters, module._buffers):
        if name in store:
            before = store[name]
            if tensor is _NOTHING:
                del store[name]
            else:
                store[name] = tensor
            return before
    before = getattr(module, name, _NOTHING)
    if before is not _NOTHING and before is not None and not is_tensor(before):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of fastgrad.Tensor")
    if tensor is not _NOTHING:
        setattr(module, name, tensor)
    elif hasattr(module, name):
        delattr(module, name)
    return before


def _tied(module: Module, given: dict[str, Any]) -> dict[str, Any]:
    """What is given, also for other names of the same tensors.

    Raises
    ------
    ValueError
        If it is not the same for all names of a tensor.
    """
    names: dict[int, list[str]] = {}
    for members in (module.named_parameters, module.named_buffers):
        for name, tensor in members(remove_duplicate=False):
            names.setdefault(id(tensor), []).append(name)
    out = dict(given)
    for tied in names.values():
        values = [given[name] for name in tied if name in given]
        if len(tied) < 2 or not values:
            continue
        if any(value is not values[0] for value in values):
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(tied)}, which are tied. Consider using "
                "tie_weights=False"
            )
        out.update(dict.fromkeys(tied, values[0]))
    return out


def _need_all(module: Module, given: dict[str, Any]) -> None:
    """Refuse names that the module does not have, and the lack of those that it has."""
    own = {
        name
        for members in (module.named_parameters, module.named_buffers)
        for name, _ in members(remove_duplicate=False)
    }
    found = [
        f"{what} key(s): {', '.join(map(repr, sorted(keys)))}."
        for what, keys in (("Unexpected", {*given} - own), ("Missing", own - {*given}))
        if keys
    ]
    if found:
        listed = "\n\t".join(found)
        raise RuntimeError(f"Error(s) in reparametrizing for {module._get_name()}:\n\t{listed}")


@contextmanager
def _reparametrize_module(
    module: Module, parameters_and_buffers: dict[str, Any], tie_weights: bool = False, strict: bool = False
) -> Iterator[None]:
    """Let a module have other tensors for a block; those that the block assigns to it go to the dict."""
    given = _tied(module, parameters_and_buffers) if tie_weights else dict(parameters_and_buffers)
    for key, tensor in given.items():
        need_type("functional_call", key, str, "a key of parameters_and_buffers")
        if tensor is not None and not is_tensor(tensor):
            raise TypeError(f"{tensor} is not an instance of fastgrad.Tensor")
        if not key.rpartition(".")[2]:
            raise KeyError(f"tensor name can't be empty string {key!r}")
    if strict:
        _need_all(module, given)
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    try:
        for key, tensor in given.items():
            before[key] = _swap(module, key, tensor)
        yield
    finally:
        for key, tensor in reversed(before.items()):  # a module may stand under two names
            after[key] = _swap(module, key, tensor)
        parameters_and_buffers.update({k: after[k] for k in parameters_and_buffers if k in after})


def call_with(
    module: Module,
    parameters_and_buffers: dict[str, Any],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """`functional_call`, without its warning."""
    need_type("functional_call", module, Module, "module")
    need_type("functional_call", parameters_and_buffers, dict, "parameters_and_buffers", 2)
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with _reparametrize_module(module, parameters_and_buffers, tie_weights=tie_weights, strict=strict):
        return module(*args, **({} if kwargs is None else kwargs))


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Any],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other parameters and buffers than its own, which it has again afterwards.

    Deprecated, with a `FutureWarning`: PyTorch has the same as ``func.functional_call``.

    Parameters
    ----------
    module : Module
    parameters_and_buffers : dict of str to Tensor
        By dotted names. What the call assigns to the module under such a name is here afterwards.
    args : object or tuple, optional
        What is no tuple is the only argument.
    kwargs : dict, optional
    tie_weights : bool
        Let what is given for one name of a tensor hold for its other names.
    strict : bool
        Refuse names that are missing or unknown.

    Returns
    -------
    object
        What the call returns.

    Raises
    ------
    ValueError
        If several values are given for one tensor.
    RuntimeError
        If names are missing or unknown, with `strict`.
    TypeError
        If something given is no tensor.

    Examples
    --------
    >>> import fastgrad as fg, warnings
    >>> from fastgrad.nn.utils.stateless import functional_call
    >>> layer = fg.nn.Linear(1, 1, bias=False)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     functional_call(layer, {"weight": fg.tensor([[3.0]])}, fg.ones(1))
    tensor([3.])
    """
    warnings.warn(
        "`fastgrad.nn.utils.stateless.functional_call` is deprecated, as in PyTorch; its like there is "
        "`func.functional_call`.",
        FutureWarning,
        stacklevel=2,
    )
    return call_with(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)
