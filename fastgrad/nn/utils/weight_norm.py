"""Weight normalization: a weight as a length times a direction (Salimans and Kingma, arXiv:1602.07868)."""

from __future__ import annotations

import warnings
from typing import Any, TypeVar

from fastgrad.functions.arguments import need_tensor, need_type
from fastgrad.functions.shape import wrapped
from fastgrad.nn.modules.module import Module
from fastgrad.nn.parameter import Parameter

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]

_M = TypeVar("_M", bound=Module)
WHOLE = -1  # for one norm of the whole weight


def norm_except_dim(v: Any, dim: int) -> Any:
    """The Euclidean norms of the slices of `v` along `dim`, which keeps its size while the others have size 1."""
    if dim == WHOLE:
        return (v * v).sum().sqrt()
    kept = wrapped("weight_norm", dim, v.ndim)
    others = [d for d in range(v.ndim) if d != kept]
    return ((v * v).sum(others, keepdim=True) if others else v * v).sqrt()


class WeightNorm:
    """The forward pre-hook that makes a weight of its length and its direction before each call.

    Attributes
    ----------
    name : str
        Of the weight; the parameters are ``<name>_g`` and ``<name>_v``.
    dim : int
    """

    name: str
    dim: int

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = WHOLE if dim is None else dim

    def compute_weight(self, module: Module) -> Any:
        """``g * v / norm(v)``."""
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return v * (g / norm_except_dim(v, self.dim))

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Replace a parameter by length and direction, and register the hook."""
        need_type("weight_norm", module, Module, "module")
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
        hook = WeightNorm(name, dim)
        weight = module._parameters.get(name)
        if weight is None:
            raise KeyError(f"weight_norm: {type(module).__name__} has no parameter '{name}'")
        need_tensor("weight_norm", weight, f"module.{name}")
        # Before anything is changed: the dimension may be wrong.
        lengths = norm_except_dim(weight.detach(), hook.dim)
        del module._parameters[name]
        module.register_parameter(f"{name}_g", Parameter(lengths))
        module.register_parameter(f"{name}_v", Parameter(weight.detach()))
        setattr(module, name, hook.compute_weight(module))
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again, of the value that it has now."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[f"{self.name}_g"]
        del module._parameters[f"{self.name}_v"]
        setattr(module, self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        """Compute the weight, ahead of the module's forward."""
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: _M, name: str = "weight", dim: int | None = 0) -> _M:
    """Let a module learn length and direction of a weight apart: ``weight = g * v / norm(v)``.

    Parameters
    ----------
    module : Module
    name : str
        Of a parameter; ``<name>_g`` and ``<name>_v`` take its place, and the weight is computed before each call.
    dim : int, optional
        Each slice along this dimension has a length of its own; None for one length of the whole weight.

    Returns
    -------
    Module
        `module`.

    Raises
    ------
    RuntimeError
        If the weight is normalized already.
    KeyError
        If the module has no such parameter.
    IndexError
        If the parameter has no such dimension.

    Notes
    -----
    Deprecated, with a `FutureWarning`, for `fastgrad.nn.utils.parametrizations.weight_norm`.

    Examples
    --------
    >>> import fastgrad as fg, warnings
    >>> class Scale(fg.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.weight = fg.nn.Parameter(fg.tensor([[3.0, 4.0]]))
    ...
    ...     def forward(self, x):
    ...         return x * self.weight
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", FutureWarning)
    ...     module = weight_norm(Scale())
    >>> [name for name, _ in module.named_parameters()]
    ['weight_g', 'weight_v']
    >>> module.weight_g.item()
    5.0
    >>> module(fg.ones(2))
    tensor([[3., 4.]], grad_fn=<MulBackward0>)
    """
    need_type("weight_norm", module, Module, "module")
    warnings.warn(
        "`fastgrad.nn.utils.weight_norm` is deprecated in favor of "
        "`fastgrad.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
        stacklevel=2,
    )
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: _M, name: str = "weight") -> _M:
    """Undo `weight_norm`: the weight is a parameter again.

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
        If the weight is not normalized.
    """
    need_type("remove_weight_norm", module, Module, "module")
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
