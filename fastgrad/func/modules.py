"""Modules as functions of their parameters, and several of them as one with a batch of parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from fastgrad.functions.shape import stack
from fastgrad.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d, SyncBatchNorm
from fastgrad.nn.modules.module import Module
from fastgrad.nn.utils.stateless import call_with

BATCH_NORMS = (BatchNorm1d, BatchNorm2d, BatchNorm3d, SyncBatchNorm)


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors in the place of its parameters and buffers.

    Parameters
    ----------
    module : Module
    parameter_and_buffer_dicts : mapping of str to Tensor, or sequence of such
        The tensors by their dotted names; names must not occur in several of the mappings.
    args : object or tuple
        The argument of the call, or a tuple of them.
    kwargs : mapping, optional
        Its arguments by name.
    tie_weights : bool
        A tensor that the module has under several names is replaced under all of them by what is given for one.
    strict : bool
        Raise if a name is missing or belongs to nothing in the module.

    Returns
    -------
    object
        What the module returned. The module has its own tensors again, whatever was raised.

    Raises
    ------
    ValueError
        If a name occurs twice, or different tensors are given for names of one tensor.
    RuntimeError
        With `strict`, if names do not match.
    TypeError
        If a value is no tensor.

    Examples
    --------
    >>> import fastgrad as fg
    >>> layer = fg.nn.Linear(2, 1)
    >>> fg.func.functional_call(layer, {"weight": fg.ones(1, 2), "bias": fg.zeros(1)}, fg.ones(2)).item()
    2.0
    """
    if not isinstance(module, Module):
        raise TypeError(f"functional_call(): expected a Module, but got {type(module).__name__}")
    return call_with(
        module,
        _as_one(parameter_and_buffer_dicts),
        args,
        dict(kwargs or {}),
        tie_weights=tie_weights,
        strict=strict,
    )


def _as_one(dicts: Any) -> dict[str, Any]:
    if isinstance(dicts, Mapping):
        found = dict(dicts)
    elif isinstance(dicts, Sequence) and all(isinstance(d, Mapping) for d in dicts):
        names = [name for d in dicts for name in d]
        repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if repeated:
            raise ValueError(
                f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous"
            )
        found = {name: value for d in dicts for name, value in d.items()}
    else:
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(dicts).__name__}"
        )
    return found


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Let the batch norms of a module keep no running statistics, which no transform could change.

    They normalise by the statistics of their batch then, in evaluation too. Other layers stay as they are.

    Parameters
    ----------
    root : Module
        Changed in place.

    Returns
    -------
    Module
        `root`.

    Raises
    ------
    TypeError
        If it is no module.

    Examples
    --------
    >>> import fastgrad as fg
    >>> net = fg.nn.Sequential(fg.nn.Linear(2, 3), fg.nn.BatchNorm1d(3))
    >>> fg.func.replace_all_batch_norm_modules_(net)[1].running_mean is None
    True
    """
    if not isinstance(root, Module):
        raise TypeError(
            f"replace_all_batch_norm_modules_(): expected a Module, but got {type(root).__name__}"
        )
    for module in root.modules():
        if isinstance(module, BATCH_NORMS):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def stack_module_state(models: Sequence[Module] | Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of modules of one kind, each stacked in a new first dimension.

    Parameters
    ----------
    models : sequence of Module
        All of one class and in one mode.

    Returns
    -------
    params, buffers : dict of str to Tensor
        For `functional_call` within `vmap`. Parameters are leaves that require grad where those of the modules do.

    Raises
    ------
    RuntimeError
        If there are none, modes or classes differ, or some tensors of a name require grad and others do not.

    Examples
    --------
    >>> import fastgrad as fg
    >>> models = [fg.nn.Linear(2, 1) for _ in range(3)]
    >>> params, buffers = fg.func.stack_module_state(models)
    >>> params["weight"].shape
    fastgrad.Size([3, 1, 2])
    """
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if any(m.training != models[0].training for m in models):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    params = {
        name: _stacked([dict(m.named_parameters())[name] for m in models])
        for name, _ in models[0].named_parameters()
    }
    buffers = {
        name: _stacked([dict(m.named_buffers())[name] for m in models])
        for name, _ in models[0].named_buffers()
    }
    return params, buffers


def _stacked(tensors: list[Any]) -> Any:
    if all(t.is_leaf for t in tensors):
        needs = tensors[0].requires_grad
        if any(t.requires_grad != needs for t in tensors):
            raise RuntimeError(
                "Expected the parameters from each model to have the same .requires_grad, but got "
                f"{[t.requires_grad for t in tensors]}"
            )
        return stack([t.detach() for t in tensors]).requires_grad_(needs)
    return stack(tensors)


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> NoReturn:
    """Refuse: calls are recorded on tapes, which hold changes in place as they are.

    Raises
    ------
    NotImplementedError
        Always.
    """
    raise NotImplementedError(
        "functionalize() is not supported: there is no trace of PyTorch's kind here; compile() takes functions that "
        "change tensors in place as they are"
    )
