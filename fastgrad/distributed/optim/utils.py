"""Steps of some parameters, with gradients that are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastgrad.functions.arguments import need_tensor
from fastgrad.native.build.loader import rt
from fastgrad.optim.optimizer import Optimizer


def step_with(optimizer: Any, params: Sequence[Any], grads: Sequence[Any]) -> None:
    """Step some parameters of an optimizer's first group with other gradients than theirs, which stay as they are.

    Parameters
    ----------
    optimizer : Optimizer
    params : sequence of Tensor
        They need not be in the group.
    grads : sequence of Tensor or None
        As many; None changes nothing.
    """
    kept = [p.grad for p in params]
    group = optimizer.param_groups[0]
    members, group["params"] = group["params"], list(params)
    try:
        for p, grad in zip(params, grads, strict=True):
            rt.set_grad(p, grad)
        optimizer.step()
    finally:
        for p, grad in zip(params, kept, strict=True):
            rt.set_grad(p, grad)
        group["params"] = members


class FunctionalOptimizer:
    """Steps parameters one by one, with gradients that it is given.

    Parameters
    ----------
    optim_cls : type
        Of an optimizer.
    *args, **kwargs
        Its options.

    Attributes
    ----------
    optim : Optimizer
        It has the options, and the state of all parameters that were stepped.
    """

    def __init__(self, optim_cls: type[Optimizer], *args: Any, **kwargs: Any) -> None:
        self.optim: Any = optim_cls([{"params": []}], *args, **kwargs)

    @property
    def state(self) -> dict[Any, Any]:
        """What the optimizer keeps of each parameter."""
        return self.optim.state  # type: ignore[no-any-return]

    def step_param(self, param: Any, grad: Any) -> None:
        """Step one parameter; its ``grad`` stays as it is.

        Parameters
        ----------
        param : Tensor
        grad : Tensor or None
            None changes nothing.
        """
        step_with(self.optim, [need_tensor("step_param", param, "param")], [grad])


def as_functional_optim(optim_cls: type[Optimizer], *args: Any, **kwargs: Any) -> FunctionalOptimizer:
    """An optimizer that steps one parameter with a gradient that it is given.

    Parameters
    ----------
    optim_cls : type
        Of an optimizer of `fastgrad.optim` whose steps need no closure.
    *args, **kwargs
        Its options.

    Returns
    -------
    FunctionalOptimizer

    Raises
    ------
    ValueError
        If it is no class of optimizers.

    Examples
    --------
    >>> import fastgrad as fg
    >>> w = fg.ones(2, requires_grad=True)
    >>> as_functional_optim(fg.optim.SGD, lr=0.5).step_param(w, fg.ones(2))
    >>> w
    tensor([0.5000, 0.5000], requires_grad=True)
    """
    if not (isinstance(optim_cls, type) and issubclass(optim_cls, Optimizer)):
        raise ValueError(f"Optimizer {optim_cls} does not have a functional counterpart!")
    return FunctionalOptimizer(optim_cls, *args, **kwargs)
