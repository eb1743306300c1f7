"""Pruning: parameters multiplied by masks, which methods choose, before each call of their module."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from fastgrad.functions.likeness import ones_like
from fastgrad.nn.modules.module import Module
from fastgrad.nn.utils.convert_parameters import parameters_to_vector
from fastgrad.nn.utils.pruning_methods import (
    BasePruningMethod,
    CustomFromMask,
    Identity,
    L1Unstructured,
    LnStructured,
    PruningContainer,
    RandomStructured,
    RandomUnstructured,
)

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]

_M = TypeVar("_M", bound=Module)


def identity(module: _M, name: str) -> _M:
    """Have a parameter pruned with a mask of ones; see `BasePruningMethod.apply`. Returns the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: _M, name: str, amount: float) -> _M:
    """Prune `amount` elements of a parameter at random; see `RandomUnstructured`. Returns the module."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: _M, name: str, amount: float, importance_scores: Any = None) -> _M:
    """Prune the `amount` elements of the least magnitude of a parameter; see `L1Unstructured`. Returns the module.

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.nn.utils import prune
    >>> layer = prune.l1_unstructured(fg.nn.Linear(2, 3), "weight", amount=0.5)
    >>> list(layer.state_dict())
    ['bias', 'weight_orig', 'weight_mask']
    >>> layer.weight_mask.sum().item()
    3.0
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: _M, name: str, amount: float, dim: int) -> _M:
    """Prune `amount` slices along a dimension at random; see `RandomStructured`. Returns the module."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: _M, name: str, amount: float, n: Any, dim: int, importance_scores: Any = None
) -> _M:
    """Prune the `amount` slices along a dimension of the least norm; see `LnStructured`. Returns the module."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: _M, name: str, mask: Any) -> _M:
    """Prune what is zero in a mask; see `CustomFromMask`. Returns the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: Callable[..., Any],
    importance_scores: Any = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters as if they were one.

    Parameters
    ----------
    parameters : iterable of (Module, str)
    pruning_method : type
        An unstructured one.
    importance_scores : dict of (Module, str) to Tensor, optional
        For those of the parameters that are not to be judged by themselves.
    **kwargs
        For the method, such as ``amount``.

    Raises
    ------
    TypeError
        If the method is not an unstructured one, or an argument not of these types.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    if importance_scores is not None and not isinstance(importance_scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    listed, known = [*parameters], importance_scores or {}
    values = [getattr(module, name) for module, name in listed]
    scores = parameters_to_vector([known.get(key, x).detach() for key, x in zip(listed, values, strict=True)])
    masks = [getattr(m, f"{name}_mask", None) for m, name in listed]
    mask = parameters_to_vector(
        [ones_like(x.detach()) if known is None else known for x, known in zip(values, masks, strict=True)]
    )
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method {pruning_method} of '
            f"type {method.PRUNING_TYPE}"
        )
    final = PruningContainer(method).compute_mask(scores, mask)
    for (module, name), part in zip(listed, final.split([x.numel() for x in values]), strict=True):
        custom_from_mask(module, name, part.view_as(getattr(module, name)))


def remove(module: _M, name: str) -> _M:
    """Make a pruned parameter one again, with what is masked being zero for good.

    Parameters
    ----------
    module : Module
    name : str

    Returns
    -------
    Module
        `module`.

    Raises
    ------
    ValueError
        If the parameter is not pruned.
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Module) -> bool:
    """Whether a module, or one within it, has a pruned parameter."""
    return any(
        isinstance(hook, BasePruningMethod)
        for each in module.modules()
        for hook in each._forward_pre_hooks.values()
    )
